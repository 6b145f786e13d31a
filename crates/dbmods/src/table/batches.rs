//! Arrow record batches into a segment.
//!
//! | Arrow | column of the segment |
//! |---|---|
//! | Int8, Int16, Int32 | INTEGER |
//! | Int64 | BIGINT |
//! | Decimal32, Decimal64, Decimal128 of at most 18 digits, with 0 or more of them after the point | DECIMAL |
//! | Date32 | DATE |
//! | Utf8, LargeUtf8, Utf8View | TEXT |
//!
//! Other types are refused, and so are NULLs, which a segment cannot hold.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Int8Type,
    Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};

use super::chunk::{CHUNK_BYTES_MAX, GROUP_ROWS};
use super::segment::{Finished, SegmentWriter};
use super::values::{self, STRING_BYTES_MAX, Values};
use crate::schema::{Column, ColumnType, Schema};

/// Most bytes of a column's texts in a row group. Encoded they take twice as many at most, and a chunk has tables too.
const GROUP_TEXT_BYTES_MAX: usize = CHUNK_BYTES_MAX / 4;
/// Most digits of a DECIMAL.
const DIGITS_MAX: u8 = 18;

/// The reason why record batches do not become a segment.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A column has a type that a segment has not.
    #[error(
        "column {column}: a segment has no {ty}; cast it to Int32, Int64, Decimal128 of at most 18 digits, Date32 or Utf8"
    )]
    Type {
        /// The column's name.
        column: String,
        /// The column's type in Arrow.
        ty: DataType,
    },
    /// A value is NULL.
    #[error(
        "column {column}, row {row}: NULL, which a segment cannot hold; fill it or leave the row out"
    )]
    Null {
        /// The column's name.
        column: String,
        /// The row, counted over all batches from 0.
        row: u64,
    },
    /// A value does not fit its column.
    #[error("column {column}, row {row}: {what}")]
    Value {
        /// The column's name.
        column: String,
        /// The row, counted over all batches from 0.
        row: u64,
        /// The reason.
        what: String,
    },
    /// The columns are no table's, or a batch has other ones than the table.
    #[error("{0}")]
    Columns(String),
    /// The file cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
}

/// A segment in the making, out of record batches of one schema. Dropped before [`BatchWriter::finish`], it leaves nothing.
#[derive(Debug)]
pub struct BatchWriter {
    writer: SegmentWriter,
    path: PathBuf,
    arrow: SchemaRef,
    schema: Schema,
    /// The next row group.
    columns: Vec<Values>,
    text_bytes: Vec<usize>,
    /// Rows that were taken.
    rows: u64,
}

impl BatchWriter {
    /// Starts the file that will be `path`, of a table called `table`.
    ///
    /// # Errors
    /// If a column has no type that a segment has, two have the same name, or the file cannot be made.
    pub fn create(path: &Path, table: &str, arrow: &SchemaRef) -> Result<Self, WriteError> {
        let schema = table_schema(table, arrow)?;
        let io = |source| io_error(path, source);
        if path.file_name().is_none() {
            return Err(io(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no file's name",
            )));
        }
        Ok(Self {
            writer: SegmentWriter::create(path, schema.clone()).map_err(io)?,
            path: path.to_owned(),
            arrow: Arc::clone(arrow),
            columns: values::empty(&schema),
            text_bytes: vec![0; schema.columns.len()],
            schema,
            rows: 0,
        })
    }

    /// The table's schema in the segment.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Appends the rows of a batch, all or none.
    ///
    /// # Errors
    /// If the batch has other columns than the table, a NULL, or a value that its column cannot hold; if the file cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        self.check(batch)?;
        let mut from = 0;
        while from < batch.num_rows() {
            let rows = self.fitting(batch, from);
            for (values, array) in self.columns.iter_mut().zip(batch.columns()) {
                append(values, &*array.slice(from, rows));
            }
            from += rows;
            self.rows += rows as u64;
            if from < batch.num_rows() || self.columns[0].len() == GROUP_ROWS {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Ends the file, brings it to disk and gives it its name.
    ///
    /// # Errors
    /// If any of that fails; nothing is left then.
    pub fn finish(mut self) -> Result<Finished, WriteError> {
        self.flush()?;
        let Self { writer, path, .. } = self;
        writer.finish().map_err(|source| io_error(&path, source))
    }

    fn check(&self, batch: &RecordBatch) -> Result<(), WriteError> {
        let of = |schema: &SchemaRef| -> Vec<(String, DataType)> {
            let fields = schema.fields().iter();
            fields
                .map(|field| (field.name().clone(), field.data_type().clone()))
                .collect()
        };
        if of(&batch.schema()) != of(&self.arrow) {
            let what = format!(
                "a batch has other columns than {}: {:?}",
                self.schema.table,
                of(&batch.schema())
            );
            return Err(WriteError::Columns(what));
        }
        for (column, array) in self.schema.columns.iter().zip(batch.columns()) {
            let name = || column.name.clone();
            let at = |row: usize| self.rows + row as u64;
            if array.null_count() > 0 {
                let row = (0..array.len()).find(|&row| array.is_null(row));
                let row = at(row.unwrap_or(0));
                return Err(WriteError::Null {
                    column: name(),
                    row,
                });
            }
            if let Some((row, what)) = misfit(&**array, column.ty) {
                return Err(WriteError::Value {
                    column: name(),
                    row: at(row),
                    what,
                });
            }
        }
        Ok(())
    }

    /// The number of rows of a batch, from this one on, that the row group has room for; counts their texts.
    fn fitting(&mut self, batch: &RecordBatch, from: usize) -> usize {
        let room = GROUP_ROWS - self.columns[0].len();
        let mut rows = room.min(batch.num_rows() - from);
        for (array, used) in batch.columns().iter().zip(&self.text_bytes) {
            let mut left = GROUP_TEXT_BYTES_MAX - used;
            let texts = (from..from + rows).map_while(|row| text(&**array, row));
            let fitting = texts.take_while(|text| match left.checked_sub(text.len()) {
                Some(rest) => {
                    left = rest;
                    true
                }
                None => false,
            });
            if is_text(&**array) {
                rows = fitting.count();
            }
        }
        for (array, used) in batch.columns().iter().zip(&mut self.text_bytes) {
            let texts = (from..from + rows).map_while(|row| text(&**array, row));
            *used += texts.map(str::len).sum::<usize>();
        }
        rows
    }

    /// Writes the row group, if it has rows.
    fn flush(&mut self) -> Result<(), WriteError> {
        if self.columns[0].is_empty() {
            return Ok(());
        }
        let written = self.writer.write_group(&self.columns);
        written.map_err(|source| io_error(&self.path, source))?;
        self.columns.iter_mut().for_each(Values::clear);
        self.text_bytes.fill(0);
        Ok(())
    }
}

fn io_error(path: &Path, source: io::Error) -> WriteError {
    let path = path.to_owned();
    WriteError::Io { path, source }
}

/// The schema of a segment for Arrow's columns.
fn table_schema(table: &str, arrow: &SchemaRef) -> Result<Schema, WriteError> {
    let wrong = |what: String| Err(WriteError::Columns(what));
    let is_name = |name: &str| (1..=usize::from(u16::MAX)).contains(&name.len());
    if !is_name(table) {
        return wrong("a table's name has 1 to 65535 bytes".to_owned());
    }
    let count = arrow.fields().len();
    if !(1..=usize::from(u16::MAX)).contains(&count) {
        return wrong(format!("a table has 1 to 65535 columns, this one {count}"));
    }
    let mut schema = Schema {
        table: table.to_owned(),
        columns: Vec::with_capacity(count),
    };
    for field in arrow.fields() {
        let name = field.name();
        if !is_name(name) {
            return wrong("a column's name has 1 to 65535 bytes".to_owned());
        }
        if schema.position(name).is_some() {
            return wrong(format!("two columns are called {name}, in any case"));
        }
        let ty = column_type(field.data_type()).ok_or_else(|| WriteError::Type {
            column: name.clone(),
            ty: field.data_type().clone(),
        })?;
        schema.columns.push(Column {
            name: name.clone(),
            ty,
        });
    }
    Ok(schema)
}

fn column_type(ty: &DataType) -> Option<ColumnType> {
    Some(match *ty {
        DataType::Int8 | DataType::Int16 | DataType::Int32 => ColumnType::Integer,
        DataType::Int64 => ColumnType::BigInt,
        DataType::Decimal32(precision @ 1..=DIGITS_MAX, scale @ 0..)
        | DataType::Decimal64(precision @ 1..=DIGITS_MAX, scale @ 0..)
        | DataType::Decimal128(precision @ 1..=DIGITS_MAX, scale @ 0..)
            if scale as u8 <= precision =>
        {
            ColumnType::Decimal {
                precision,
                scale: scale as u8,
            }
        }
        DataType::Date32 => ColumnType::Date,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Text,
        _ => return None,
    })
}

/// The first row whose value the column cannot hold, and why.
fn misfit(array: &dyn Array, ty: ColumnType) -> Option<(usize, String)> {
    match ty {
        ColumnType::Text => {
            let lengths = (0..array.len()).map_while(|row| text(array, row).map(str::len));
            let (row, len) = lengths
                .enumerate()
                .find(|(_, len)| *len > STRING_BYTES_MAX)?;
            let what = format!("a text of {len} bytes; at most {STRING_BYTES_MAX} are possible");
            Some((row, what))
        }
        ColumnType::Decimal { precision, .. } => {
            let bound = 10i128.pow(precision.into());
            let row = match array.data_type() {
                DataType::Decimal32(..) => outside::<Decimal32Type>(array, bound),
                DataType::Decimal64(..) => outside::<Decimal64Type>(array, bound),
                _ => outside::<Decimal128Type>(array, bound),
            }?;
            Some((row, format!("a number of more than {precision} digits")))
        }
        ColumnType::Integer | ColumnType::BigInt | ColumnType::Date => None,
    }
}

/// The first row whose number has the digits of `bound` or more.
fn outside<T: ArrowPrimitiveType<Native: Into<i128>>>(
    array: &dyn Array,
    bound: i128,
) -> Option<usize> {
    let mut values = array.as_primitive::<T>().values().iter();
    values.position(|&value| {
        let value: i128 = value.into();
        value.unsigned_abs() >= bound.unsigned_abs()
    })
}

fn is_text(array: &dyn Array) -> bool {
    column_type(array.data_type()) == Some(ColumnType::Text)
}

/// The text of a row, if the array has texts.
fn text(array: &dyn Array, row: usize) -> Option<&str> {
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row),
        DataType::Utf8View => array.as_string_view().value(row),
        _ => return None,
    })
}

/// Appends the values of an array that was checked.
fn append(values: &mut Values, array: &dyn Array) {
    match values {
        Values::Texts(texts) => {
            let all = (0..array.len()).map_while(|row| text(array, row));
            all.for_each(|text| texts.push(text));
        }
        Values::Numbers(numbers) => match array.data_type() {
            DataType::Int8 => extend::<Int8Type>(numbers, array, i64::from),
            DataType::Int16 => extend::<Int16Type>(numbers, array, i64::from),
            DataType::Int32 => extend::<Int32Type>(numbers, array, i64::from),
            DataType::Date32 => extend::<Date32Type>(numbers, array, i64::from),
            DataType::Decimal32(..) => extend::<Decimal32Type>(numbers, array, i64::from),
            DataType::Decimal64(..) => extend::<Decimal64Type>(numbers, array, |value| value),
            // At most 18 digits, as was checked.
            DataType::Decimal128(..) => {
                extend::<Decimal128Type>(numbers, array, |value| value as i64);
            }
            _ => extend::<Int64Type>(numbers, array, |value| value),
        },
    }
}

fn extend<T: ArrowPrimitiveType>(
    numbers: &mut Vec<i64>,
    array: &dyn Array,
    stored: impl Fn(T::Native) -> i64,
) {
    let values = array.as_primitive::<T>().values();
    numbers.extend(values.iter().map(|&value| stored(value)));
}

#[cfg(test)]
mod tests;
