//! Survivors to Arrow: only the rows that qualify, only the columns that were asked for.
//!
//! A column's values are computed a block or so at a time, in memory that stays in the first cache, and moved from there to where the
//! batch's message lies.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_buffer::ToByteSlice;
use arrow_schema::{DataType, Field, SchemaRef};
use dpb_core::prefetch::prefetch;

use super::ScanError;
use super::context::{Context, packed};
use super::kernels::gather::{ShortText, Symbols};
use super::kernels::{Mask, Positions, WHOLE_BLOCK_ROWS, gather};
use super::layout::Layout;
use crate::schema::{Column, ColumnType, Schema};
use crate::table::chunk::{BLOCK_ROWS, Chunk};

/// Bytes of a thread beside its batches: positions of survivors.
pub(super) const THREAD_BYTES: usize = 2 * size_of::<Positions>();
/// And for each column of text: its row group's symbols or short dictionary entries.
pub(super) const TEXT_THREAD_BYTES: usize = 64 << 10;
/// Up to so many survivors of a block, their texts are asked for one by one.
const SINGLE_TEXTS_MAX: usize = 400;
/// Rows whose values wait to be moved, beside those of a block.
const WAITING_ROWS: usize = 512;
/// Arrow's offsets into a batch's text have 31 bits.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// The Arrow type of a column.
pub(super) fn data_type(ty: ColumnType) -> DataType {
    match ty {
        ColumnType::Integer => DataType::Int32,
        ColumnType::BigInt => DataType::Int64,
        ColumnType::Decimal { precision, scale } => DataType::Decimal64(precision, scale as i8),
        ColumnType::Date => DataType::Date32,
        ColumnType::Text => DataType::Utf8,
    }
}

/// Bytes that a column takes in each row of a batch, texts themselves aside; and how many texts that is.
pub(super) fn row_bytes(ty: ColumnType) -> (usize, usize) {
    match ty {
        ColumnType::Integer | ColumnType::Date => (4, 0),
        ColumnType::BigInt | ColumnType::Decimal { .. } => (8, 0),
        ColumnType::Text => (size_of::<i32>(), 1),
    }
}

/// A column of the table.
pub(super) fn column(schema: &Schema, column: usize) -> Result<&Column, ScanError> {
    schema
        .columns
        .get(column)
        .ok_or(ScanError::NoSuchColumn(column))
}

/// The result's schema: the columns as they are, none nullable.
pub(super) fn output_schema(schema: &Schema, columns: &[u32]) -> Result<SchemaRef, ScanError> {
    let field = |&at: &u32| {
        let column = column(schema, at as usize)?;
        Ok(Field::new(&column.name, data_type(column.ty), false))
    };
    let fields: Result<Vec<Field>, ScanError> = columns.iter().map(field).collect();
    Ok(Arc::new(arrow_schema::Schema::new(fields?)))
}

/// Collects survivors of one thread into batches.
///
/// A block's survivors are appended one block late: what they read is asked for when they are known, and arrives while the
/// block before is appended and the next one is tested.
pub(super) struct Rows {
    layout: Layout,
    /// Most rows of a batch.
    capacity: usize,
    /// Rows of the batch, and how many of them are where they stay.
    rows: usize,
    moved: usize,
    /// Rows that were appended since it was made.
    rows_appended: u64,
    columns: Vec<Builder>,
    /// The last block's, asked for; between calls the only ones there are.
    asked: Survivors,
    /// The survivors of the block before, to be appended.
    due: Survivors,
}

/// Rows of one block.
struct Survivors {
    block: usize,
    count: usize,
    positions: Box<Positions>,
}

struct Builder {
    column: usize,
    values: Values,
}

/// Values of rows that wait to be moved.
enum Values {
    Narrow(Vec<i32>),
    Wide(Vec<i64>),
    Text(Box<Texts>),
}

struct Texts {
    /// The end of each text.
    ends: Vec<i32>,
    /// The texts of the whole batch.
    bytes: Vec<u8>,
    /// Positions in the dictionary, for a moment.
    entries: Vec<i32>,
    /// The texts of the row group that is being read.
    source: Option<TextSource>,
}

/// The state that is derived once from a row group's chunk of text.
struct TextSource {
    group: usize,
    symbols: Option<Symbols>,
    /// A dictionary's entries, if all are short.
    short: Vec<ShortText>,
    /// Bytes of the longest entry of a dictionary.
    longest: usize,
}

/// Takes batches, each a message of Arrow's IPC format.
pub(super) trait Sink {
    /// The memory that the next message is written to.
    fn memory(&mut self) -> &mut [u8];
    /// The message is there: it has so many bytes, and its batch so many rows. Says whether there is memory for another.
    fn filled(&mut self, bytes: usize, rows: usize) -> Result<ControlFlow<()>, ScanError>;
    /// Asks for memory of so many bytes, where not a single row fits. Breaks if there is none.
    fn grow(&mut self, bytes: usize) -> ControlFlow<()>;
}

impl Rows {
    pub(super) fn new(
        schema: &Schema,
        columns: &[usize],
        output: &SchemaRef,
        batch_rows: usize,
    ) -> Result<Self, ScanError> {
        let layout = Layout::new(output)?;
        let builder = |&column: &usize| Builder {
            column,
            values: Values::new(schema.columns[column].ty),
        };
        Ok(Self {
            capacity: batch_rows
                .min(TEXT_BYTES_MAX / layout.row_bytes().max(1))
                .max(1),
            layout,
            rows: 0,
            moved: 0,
            rows_appended: 0,
            columns: columns.iter().map(builder).collect(),
            asked: Survivors::none(),
            due: Survivors::none(),
        })
    }

    /// Takes the rows of `mask`; gives a batch first if they do not fit it. Breaks if the sink did, with the first row that was not
    /// taken.
    pub(super) fn append(
        &mut self,
        context: &mut Context,
        block: usize,
        mask: &Mask,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<usize>, ScanError> {
        std::mem::swap(&mut self.asked, &mut self.due);
        self.asked.block = block;
        self.asked.count = context.kernels().positions(mask, &mut self.asked.positions);
        for builder in &self.columns {
            builder.prefetch(context, block, self.asked.positions())?;
        }
        self.append_due(context, sink)
    }

    /// Appends what is left of the row group. To be called before the next one is opened.
    pub(super) fn end_group(
        &mut self,
        context: &mut Context,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<usize>, ScanError> {
        std::mem::swap(&mut self.asked, &mut self.due);
        self.append_due(context, sink)
    }

    fn append_due(
        &mut self,
        context: &mut Context,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<usize>, ScanError> {
        let (block, count) = (self.due.block, std::mem::take(&mut self.due.count));
        if count == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let mut longest = 0;
        for builder in &mut self.columns {
            if let Values::Text(texts) = &mut builder.values {
                longest += texts.open(context, builder.column, block)?;
            }
        }
        let mut start = 0;
        while start < count {
            let mut room = self.room(longest, sink);
            let mut flow = ControlFlow::Continue(());
            if room == 0 {
                flow = self.flush(sink)?;
                if flow.is_continue() {
                    room = self.room(longest, sink);
                }
                if flow.is_continue() && room == 0 {
                    flow = sink.grow(self.layout.bytes_of_one(longest));
                    room = 1;
                    let _of_one = self.room(longest, sink);
                }
            }
            if flow.is_break() {
                self.asked.count = 0;
                let row = usize::from(self.due.positions[start]);
                return Ok(ControlFlow::Break(block * BLOCK_ROWS + row));
            }
            let end = count.min(start + room);
            for builder in &self.columns {
                builder.prefetch_codes(context, block, &self.due.positions[start..end])?;
            }
            for builder in &mut self.columns {
                builder.append(context, block, &self.due.positions[start..end])?;
            }
            self.rows += end - start;
            self.rows_appended += (end - start) as u64;
            start = end;
            if self.rows - self.moved >= WAITING_ROWS {
                self.move_waiting(sink.memory());
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Gives what has been collected.
    pub(super) fn flush(&mut self, sink: &mut dyn Sink) -> Result<ControlFlow<()>, ScanError> {
        let rows = self.rows;
        if rows == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let memory = sink.memory();
        self.move_waiting(memory);
        let texts = self
            .columns
            .iter()
            .filter_map(|builder| match &builder.values {
                Values::Text(texts) => Some(&texts.bytes[..]),
                Values::Narrow(_) | Values::Wide(_) => None,
            });
        let bytes = self.layout.finish(memory, rows, texts);
        self.clear();
        let bytes = bytes.ok_or(ScanError::Internal(
            "a batch that its memory has no room for",
        ))?;
        sink.filled(bytes, rows)
    }

    fn clear(&mut self) {
        (self.rows, self.moved) = (0, 0);
        for builder in &mut self.columns {
            if let Values::Text(texts) = &mut builder.values {
                texts.bytes.clear();
            }
        }
    }

    /// Rows that were appended since the last call.
    pub(super) fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.rows_appended)
    }

    /// Moves the values that wait to where they stay.
    fn move_waiting(&mut self, memory: &mut [u8]) {
        for (at, builder) in self.columns.iter_mut().enumerate() {
            match &mut builder.values {
                Values::Narrow(values) => {
                    self.layout
                        .put(memory, at, self.moved, values.to_byte_slice());
                    values.clear();
                }
                Values::Wide(values) => {
                    self.layout
                        .put(memory, at, self.moved, values.to_byte_slice());
                    values.clear();
                }
                Values::Text(texts) => {
                    let ends = texts.ends.to_byte_slice();
                    self.layout.put(memory, at, self.moved, ends);
                    texts.ends.clear();
                }
            }
        }
        self.moved = self.rows;
    }

    /// How many more rows, of texts of at most `longest` bytes together, surely fit the batch, which is begun if it has none yet.
    fn room(&mut self, longest: usize, sink: &mut dyn Sink) -> usize {
        if self.rows == 0 {
            let bytes = sink.memory().len().min(TEXT_BYTES_MAX);
            self.layout.begin(bytes, self.capacity, longest);
        }
        self.layout.room(self.rows, self.text_bytes(), longest)
    }

    fn text_bytes(&self) -> usize {
        let texts = |builder: &Builder| match &builder.values {
            Values::Text(texts) => texts.bytes.len(),
            Values::Narrow(_) | Values::Wide(_) => 0,
        };
        self.columns.iter().map(texts).sum()
    }
}

impl Survivors {
    fn none() -> Self {
        Self {
            block: 0,
            count: 0,
            positions: Box::new([0; BLOCK_ROWS + 64]),
        }
    }

    fn positions(&self) -> &[u16] {
        &self.positions[..self.count]
    }
}

impl Builder {
    /// Asks for what [`Builder::append`] will read of a block.
    fn prefetch(
        &self,
        context: &mut Context,
        block: usize,
        positions: &[u16],
    ) -> Result<(), ScanError> {
        context.load(self.column)?;
        if positions.len() >= WHOLE_BLOCK_ROWS {
            return Ok(());
        }
        let chunk = context.chunk(self.column)?;
        if chunk.symbols().is_some() {
            let text = chunk.text(block);
            let bytes = if text.wide() { 4 } else { 2 };
            for &at in positions {
                prefetch(text.offset_table(), usize::from(at) * bytes);
            }
        } else if let Some(packed) = packed(chunk, block) {
            context.kernels().ask(packed, positions);
        }
        Ok(())
    }

    /// Asks for the codes of texts, once the offsets that [`Builder::prefetch`] asked for are there.
    fn prefetch_codes(
        &self,
        context: &Context,
        block: usize,
        positions: &[u16],
    ) -> Result<(), ScanError> {
        let chunk = context.chunk(self.column)?;
        if chunk.symbols().is_some() && positions.len() <= SINGLE_TEXTS_MAX {
            let text = chunk.text(block);
            for &at in positions {
                prefetch(text.codes(), text.offset(usize::from(at)));
            }
        }
        Ok(())
    }

    fn append(
        &mut self,
        context: &mut Context,
        block: usize,
        positions: &[u16],
    ) -> Result<(), ScanError> {
        let numbers = match &mut self.values {
            Values::Text(texts) => {
                return texts.append(context, self.column, block, positions);
            }
            numbers => numbers,
        };
        let kernels = context.kernels();
        let (chunk, lanes) = context.chunk_and_lanes(self.column)?;
        let (min, unit) = (chunk.blocks()[block].min, chunk.unit());
        match (packed(chunk, block), numbers) {
            (None, Values::Narrow(out)) => out.resize(out.len() + positions.len(), min as i32),
            (None, Values::Wide(out)) => out.resize(out.len() + positions.len(), min),
            (Some(packed), Values::Narrow(out)) => {
                kernels.select_narrow(packed, positions, (min as i32, unit as i32), lanes, out);
            }
            (Some(packed), Values::Wide(out)) => {
                kernels.select_wide(packed, positions, (min, unit), lanes, out);
            }
            (_, Values::Text(_)) => {}
        }
        Ok(())
    }
}

impl Values {
    fn new(ty: ColumnType) -> Self {
        match ty {
            ColumnType::Integer | ColumnType::Date => Self::Narrow(Vec::new()),
            ColumnType::BigInt | ColumnType::Decimal { .. } => Self::Wide(Vec::new()),
            ColumnType::Text => Self::Text(Box::new(Texts {
                ends: Vec::new(),
                bytes: Vec::new(),
                entries: Vec::new(),
                source: None,
            })),
        }
    }
}

impl TextSource {
    fn new(group: usize, chunk: &Chunk) -> Self {
        let symbols = chunk.symbols().map(|table| {
            Symbols::new(&table.symbols[..table.len()], &table.lengths[..table.len()])
        });
        let longest = chunk
            .dictionary()
            .map_or(0, |dictionary| dictionary.longest());
        let short = chunk.dictionary().and_then(|dictionary| {
            (0..dictionary.len())
                .map(|at| ShortText::new(dictionary.bytes(at)))
                .collect()
        });
        Self {
            group,
            symbols,
            short: short.unwrap_or_default(),
            longest,
        }
    }
}

impl Texts {
    /// Makes the chunk ready; says how many bytes the longest text of the block may have.
    fn open(
        &mut self,
        context: &mut Context,
        column: usize,
        block: usize,
    ) -> Result<usize, ScanError> {
        let group = context.group();
        let chunk = context.load(column)?;
        let source = match &mut self.source {
            Some(source) if source.group == group => source,
            stale => stale.insert(TextSource::new(group, chunk)),
        };
        Ok(match source.symbols {
            Some(_) => usize::try_from(chunk.blocks()[block].max).unwrap_or(usize::MAX),
            None => source.longest,
        })
    }

    fn append(
        &mut self,
        context: &mut Context,
        column: usize,
        block: usize,
        positions: &[u16],
    ) -> Result<(), ScanError> {
        let source = self.source.as_ref().ok_or(ScanError::Internal(
            "texts were appended before they were opened",
        ))?;
        let (bytes, ends) = (&mut self.bytes, &mut self.ends);
        let kernels = context.kernels();
        let (chunk, lanes) = context.chunk_and_lanes(column)?;
        if let Some(symbols) = &source.symbols {
            let text = chunk.text(block);
            for &at in positions {
                let (start, end) = (
                    text.offset(usize::from(at)),
                    text.offset(usize::from(at) + 1),
                );
                symbols.decode(text.codes(), start..end, bytes);
                ends.push(bytes.len() as i32);
            }
            return Ok(());
        }
        let dictionary = chunk
            .dictionary()
            .ok_or(ScanError::Internal("text kept as numbers"))?;
        let min = chunk.blocks()[block].min as i32;
        let entries = &mut self.entries;
        entries.clear();
        match packed(chunk, block) {
            None => entries.resize(positions.len(), min),
            Some(packed) => kernels.select_narrow(packed, positions, (min, 1), lanes, entries),
        }
        if source.short.is_empty() {
            for &entry in entries.iter() {
                bytes.extend_from_slice(dictionary.bytes(entry as usize));
                ends.push(bytes.len() as i32);
            }
        } else {
            gather::push_short(&source.short, entries, bytes, ends);
        }
        Ok(())
    }
}
