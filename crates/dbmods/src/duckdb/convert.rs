//! From DuckDB's chunks to Arrow batches: each column is copied once, in bulk where the two lay it out alike.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::{
    BooleanBuffer, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::raw::{Chunk, Physical, Vector};
use super::sys::Huge;

/// The default number of rows of a full batch. Chunks are never split, so a batch may hold up to a chunk more.
pub const BATCH_ROWS: usize = 16 * 1024;

/// The number of rows of DuckDB's largest chunk.
pub const CHUNK_ROWS: usize = 2048;

/// Gathers chunks into batches of one schema.
pub(super) struct Assembler {
    schema: SchemaRef,
    columns: Vec<Column>,
    batch_rows: usize,
    rows: usize,
}

/// One column of the batch that is being gathered.
struct Column {
    physical: Physical,
    values: Values,
    nulls: NullBufferBuilder,
}

/// Values gathered so far, in Arrow's layout.
enum Values {
    I32(Vec<i32>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    F64(Vec<f64>),
    Text { ends: Vec<i32>, bytes: Vec<u8> },
}

/// The schema that fits these columns without loss; every column may be NULL.
pub(super) fn inferred(columns: &[(String, Physical)]) -> Result<Schema, String> {
    let fields = columns.iter().map(|(name, physical)| {
        let ty = match *physical {
            Physical::I8 | Physical::I16 | Physical::I32 => DataType::Int32,
            Physical::I64 => DataType::Int64,
            Physical::F64 => DataType::Float64,
            Physical::Date => DataType::Date32,
            Physical::Text => DataType::Utf8,
            Physical::I128 => DataType::Decimal128(38, 0),
            Physical::Decimal {
                precision, scale, ..
            } if precision <= 18 => DataType::Decimal64(precision, scale as i8),
            Physical::Decimal {
                precision, scale, ..
            } => DataType::Decimal128(precision, scale as i8),
            Physical::Other(id) => {
                return Err(format!(
                    "column {name} has DuckDB's type {id}, which dpb does not read; cast it"
                ));
            }
        };
        Ok(Field::new(name, ty, true))
    });
    Ok(Schema::new(fields.collect::<Result<Vec<_>, _>>()?))
}

impl Assembler {
    /// Prepares to convert `columns` into batches of `schema`.
    ///
    /// # Errors
    /// If the number of columns differs, or a column cannot become what the schema says.
    pub(super) fn new(schema: SchemaRef, columns: &[(String, Physical)]) -> Result<Self, String> {
        if schema.fields().len() != columns.len() {
            return Err(format!(
                "the result has {} columns, the schema {}",
                columns.len(),
                schema.fields().len()
            ));
        }
        let columns = schema
            .fields()
            .iter()
            .zip(columns)
            .map(|(field, (name, physical))| Column::new(name, *physical, field.data_type()))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            schema,
            columns,
            batch_rows: BATCH_ROWS,
            rows: 0,
        })
    }

    /// Sets the rows at which a batch is full.
    pub(super) fn set_batch_rows(&mut self, rows: usize) {
        self.batch_rows = rows;
    }

    /// Returns true once enough rows for a batch were gathered.
    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.batch_rows
    }

    /// Returns the number of rows that were gathered and not yet handed on.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends a chunk's rows.
    pub(super) fn push(&mut self, chunk: &Chunk<'_>) -> Result<(), String> {
        if self.rows == 0 {
            let rows = self.batch_rows + CHUNK_ROWS;
            let columns = self.columns.iter_mut();
            columns.for_each(|column| column.reserve(rows));
        }
        for (i, column) in self.columns.iter_mut().enumerate() {
            let vector = chunk.vector(i, column.physical);
            column
                .push(&vector, chunk.rows())
                .map_err(|why| format!("column {}: {why}", self.schema.field(i).name()))?;
        }
        self.rows += chunk.rows();
        Ok(())
    }

    /// Hands on what was gathered.
    ///
    /// # Errors
    /// If a value is not what the schema says: NULL in a column that has none, text that is not UTF-8.
    pub(super) fn finish(&mut self) -> Result<RecordBatch, String> {
        let arrays = self
            .columns
            .iter_mut()
            .zip(self.schema.fields())
            .map(|(column, field)| {
                column
                    .finish(field.data_type())
                    .map_err(|why| format!("column {}: {why}", field.name()))
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.rows = 0;
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(|why| why.to_string())
    }
}

impl Column {
    fn new(name: &str, physical: Physical, ty: &DataType) -> Result<Self, String> {
        use Physical as P;
        let same_scale = |scale: i8| match physical {
            P::Decimal { scale: given, .. } => given as i8 == scale,
            _ => scale == 0,
        };
        let is_integer = matches!(physical, P::I8 | P::I16 | P::I32 | P::I64 | P::I128);
        let is_decimal = matches!(physical, P::Decimal { .. });
        let values = match (ty, physical) {
            (DataType::Date32, P::Date) => Values::I32(Vec::new()),
            (DataType::Int32, P::I8 | P::I16 | P::I32) => Values::I32(Vec::new()),
            (DataType::Int64, _) if is_integer => Values::I64(Vec::new()),
            (DataType::Decimal64(_, scale), _)
                if (is_integer || is_decimal) && same_scale(*scale) =>
            {
                Values::I64(Vec::new())
            }
            (DataType::Decimal128(_, scale), _)
                if (is_integer || is_decimal) && same_scale(*scale) =>
            {
                Values::I128(Vec::new())
            }
            (DataType::Float64, P::F64) => Values::F64(Vec::new()),
            (DataType::Utf8, P::Text) => Values::Text {
                ends: Vec::new(),
                bytes: Vec::new(),
            },
            _ => {
                return Err(format!(
                    "column {name}: DuckDB's {physical:?} does not become {ty}"
                ));
            }
        };
        Ok(Self {
            physical,
            values,
            nulls: NullBufferBuilder::new(BATCH_ROWS),
        })
    }

    /// Makes room for a whole batch of so many rows, so that no value is copied twice.
    fn reserve(&mut self, rows: usize) {
        match &mut self.values {
            Values::I32(values) => values.reserve_exact(rows),
            Values::I64(values) => values.reserve_exact(rows),
            Values::I128(values) => values.reserve_exact(rows),
            Values::F64(values) => values.reserve_exact(rows),
            Values::Text { ends, .. } => {
                ends.reserve_exact(rows + 1);
                ends.push(0);
            }
        }
    }

    fn push(&mut self, vector: &Vector<'_>, rows: usize) -> Result<(), String> {
        let valid = vector
            .validity()
            .map(|mask| NullBuffer::new(BooleanBuffer::new(Buffer::from_slice_ref(mask), 0, rows)));
        match &mut self.values {
            Values::I32(to) => match self.physical {
                Physical::I8 => to.extend(vector.elements::<i8>().iter().map(|&v| i32::from(v))),
                Physical::I16 => to.extend(vector.elements::<i16>().iter().map(|&v| i32::from(v))),
                _ => to.extend_from_slice(&vector.elements::<i32>()),
            },
            Values::I64(to) => match width(self.physical) {
                1 => to.extend(vector.elements::<i8>().iter().map(|&v| i64::from(v))),
                2 => to.extend(vector.elements::<i16>().iter().map(|&v| i64::from(v))),
                4 => to.extend(vector.elements::<i32>().iter().map(|&v| i64::from(v))),
                8 => to.extend_from_slice(&vector.elements::<i64>()),
                _ => narrow(&vector.elements::<Huge>(), to)?,
            },
            Values::I128(to) => match width(self.physical) {
                1 => to.extend(vector.elements::<i8>().iter().map(|&v| i128::from(v))),
                2 => to.extend(vector.elements::<i16>().iter().map(|&v| i128::from(v))),
                4 => to.extend(vector.elements::<i32>().iter().map(|&v| i128::from(v))),
                8 => to.extend(vector.elements::<i64>().iter().map(|&v| i128::from(v))),
                _ => to.extend(vector.elements::<Huge>().iter().map(wide)),
            },
            Values::F64(to) => to.extend_from_slice(&vector.elements::<f64>()),
            Values::Text { ends, bytes } => vector.texts(bytes, ends)?,
        }
        match valid {
            None => self.nulls.append_n_non_nulls(rows),
            Some(valid) => self.nulls.append_buffer(&valid),
        }
        Ok(())
    }

    fn finish(&mut self, ty: &DataType) -> Result<ArrayRef, String> {
        let nulls = self.nulls.finish();
        Ok(match (&mut self.values, ty) {
            (Values::I32(values), DataType::Date32) => primitive::<Date32Type>(values, nulls, ty),
            (Values::I32(values), _) => primitive::<Int32Type>(values, nulls, ty),
            (Values::I64(values), DataType::Int64) => primitive::<Int64Type>(values, nulls, ty),
            (Values::I64(values), _) => primitive::<Decimal64Type>(values, nulls, ty),
            (Values::I128(values), _) => primitive::<Decimal128Type>(values, nulls, ty),
            (Values::F64(values), _) => primitive::<Float64Type>(values, nulls, ty),
            (Values::Text { ends, bytes }, _) => {
                let mut ends = std::mem::take(ends);
                if ends.is_empty() {
                    ends.push(0);
                }
                // The next batch's text is about as long: its room is taken at once.
                let room = bytes.len() + bytes.len() / 16;
                let bytes = std::mem::replace(bytes, Vec::with_capacity(room));
                let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
                Arc::new(
                    StringArray::try_new(offsets, Buffer::from_vec(bytes), nulls)
                        .map_err(|why| why.to_string())?,
                )
            }
        })
    }
}

/// Bytes of an integer, a decimal or a date.
fn width(physical: Physical) -> u8 {
    match physical {
        Physical::I8 => 1,
        Physical::I16 => 2,
        Physical::I32 | Physical::Date => 4,
        Physical::I64 => 8,
        Physical::Decimal { bytes, .. } => bytes,
        _ => 16,
    }
}

fn wide(huge: &Huge) -> i128 {
    i128::from(huge.upper) << 64 | i128::from(huge.lower)
}

/// Appends 128-bit values that fit 64 bits.
fn narrow(from: &[Huge], to: &mut Vec<i64>) -> Result<(), String> {
    for value in from.iter().map(wide) {
        let narrow = i64::try_from(value);
        to.push(narrow.map_err(|_| format!("{value} does not fit 64 bits"))?);
    }
    Ok(())
}

fn primitive<T: ArrowPrimitiveType>(
    values: &mut Vec<T::Native>,
    nulls: Option<NullBuffer>,
    ty: &DataType,
) -> ArrayRef {
    let values = ScalarBuffer::from(std::mem::take(values));
    Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(ty.clone()))
}
