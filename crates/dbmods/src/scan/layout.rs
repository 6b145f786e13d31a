//! A record batch laid out by hand: a message of Arrow's IPC format, whose values are written to where they stay.
//!
//! ```text
//! metadata │ column 0: rows_max values │ column 1: rows_max + 1 offsets │ … │ texts of column 1 │ …
//! ```
//!
//! Columns get room for as many rows as the memory might hold. A batch that ends with far fewer is moved together, for the room
//! between columns would travel too. There is no validity: rows of a scan have no nulls.

use arrow_schema::{ArrowError, DataType, SchemaRef};

use crate::ipc::Template;

/// Arrow's buffers begin at multiples of so many bytes.
const ALIGNMENT: usize = 64;
/// Bytes of a text, in estimates.
pub(super) const TEXT_BYTES: usize = 32;
/// One byte in so many may be room between columns.
pub(super) const GAPS_PART: usize = 64;

/// The places of a batch's parts in memory, the same for all batches of a schema.
#[derive(Debug)]
pub(super) struct Layout {
    template: Template,
    columns: Vec<Column>,
    /// Bytes of a row, texts themselves aside.
    row_bytes: usize,
    texts: usize,
    /// Rows that the batch has room for.
    rows_max: usize,
    /// The start of texts and the end of the memory; both behind the metadata.
    texts_at: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    /// Bytes of a value or an offset.
    width: usize,
    is_text: bool,
    /// The column's start, behind the metadata.
    start: usize,
}

impl Column {
    /// Bytes of so many rows.
    fn bytes(self, rows: usize) -> usize {
        self.width * (rows + usize::from(self.is_text))
    }
}

impl Layout {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let column = |field: &arrow_schema::FieldRef| Column {
            width: match field.data_type() {
                DataType::Utf8 => size_of::<i32>(),
                ty => ty.primitive_width().unwrap_or(0),
            },
            is_text: *field.data_type() == DataType::Utf8,
            start: 0,
        };
        let columns: Vec<Column> = schema.fields().iter().map(column).collect();
        Ok(Self {
            template: Template::new(schema)?,
            row_bytes: columns.iter().map(|column| column.width).sum(),
            texts: columns.iter().filter(|column| column.is_text).count(),
            columns,
            rows_max: 0,
            texts_at: 0,
            end: 0,
        })
    }

    /// Bytes that a message takes beside its values, at most.
    pub(super) fn message_bytes(&self) -> usize {
        // Each buffer is padded; offsets are one more than rows.
        let buffers = self.columns.len() + self.texts;
        self.template.bytes() + buffers * ALIGNMENT + self.texts * size_of::<i32>()
    }

    /// Bytes of a row, texts themselves aside.
    pub(super) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Begins a batch of at most so many rows in so many bytes, whose texts have at most `longest` bytes together.
    pub(super) fn begin(&mut self, bytes: usize, rows_max: usize, longest: usize) {
        let room = bytes.saturating_sub(self.message_bytes());
        let texts = longest.min(self.texts * TEXT_BYTES);
        self.rows_max = rows_max.min(room / (self.row_bytes + texts).max(1));
        self.texts_at = place(&mut self.columns, self.rows_max);
        self.end = bytes.saturating_sub(self.template.bytes());
    }

    /// What a batch of one row takes at most, whose texts have at most so many bytes together.
    pub(super) fn bytes_of_one(&self, longest: usize) -> usize {
        self.message_bytes() + self.row_bytes + longest
    }

    /// How many more rows, of texts of at most `longest` bytes together, surely have room beside so many and texts of so many bytes.
    pub(super) fn room(&self, rows: usize, text_bytes: usize, longest: usize) -> usize {
        let left = self
            .end
            .saturating_sub(self.texts_at + self.texts * ALIGNMENT + text_bytes);
        let rows_left = self.rows_max.saturating_sub(rows);
        left.checked_div(longest)
            .map_or(rows_left, |fitting| rows_left.min(fitting))
    }

    /// Writes values of a column, of rows from `row` on; of texts where each ends.
    pub(super) fn put(&self, memory: &mut [u8], column: usize, row: usize, values: &[u8]) {
        let of = self.columns[column];
        // The offset before the first text is zero.
        let at = self.template.bytes() + of.start + of.bytes(row);
        memory[at..][..values.len()].copy_from_slice(values);
    }

    /// Ends a batch of so many rows, one at least, whose texts are these, a column each; says how many bytes the message has, or nothing
    /// if it has no room.
    pub(super) fn finish<'t>(
        &mut self,
        memory: &mut [u8],
        rows: usize,
        texts: impl Iterator<Item = &'t [u8]> + Clone,
    ) -> Option<usize> {
        let padded = |bytes: usize| bytes.next_multiple_of(ALIGNMENT);
        let text_bytes: usize = texts.clone().map(|text| padded(text.len())).sum();
        if rows > self.rows_max || self.texts_at + text_bytes > self.end {
            return None;
        }
        let (head, body) = memory.split_at_mut(self.template.bytes());
        let gaps = (self.rows_max - rows) * self.row_bytes;
        if gaps > (self.texts_at + text_bytes) / GAPS_PART {
            let before = self.columns.clone();
            self.texts_at = place(&mut self.columns, rows);
            for (from, to) in before.iter().zip(&self.columns) {
                body.copy_within(from.start..from.start + from.bytes(rows), to.start);
            }
        }
        let mut texts_at = self.texts_at;
        let mut buffers = Vec::with_capacity(2 * self.columns.len() + self.texts);
        let mut texts = texts;
        let starts = self.columns.iter().map(|column| column.start);
        let ends = starts.skip(1).chain([self.texts_at]);
        // What lay there before is nobody's business: room and padding are zeroed.
        for (column, end) in self.columns.iter().zip(ends) {
            buffers.push((column.start, 0));
            buffers.push((column.start, column.bytes(rows)));
            body[column.start + column.bytes(rows)..end].fill(0);
            if column.is_text {
                body[column.start..][..size_of::<i32>()].fill(0);
                let text = texts.next()?;
                let place = &mut body[texts_at..][..padded(text.len())];
                place[..text.len()].copy_from_slice(text);
                place[text.len()..].fill(0);
                buffers.push((texts_at, text.len()));
                texts_at += place.len();
            }
        }
        self.template.write(head, rows, texts_at, buffers);
        Some(head.len() + texts_at)
    }
}

/// Places columns of so many rows one behind another; says where they end.
fn place(columns: &mut [Column], rows: usize) -> usize {
    let mut at = 0;
    for column in columns {
        column.start = at;
        at += column.bytes(rows).next_multiple_of(ALIGNMENT);
    }
    at
}
