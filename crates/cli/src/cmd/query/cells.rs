//! Values of a batch as text.

use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
};
use arrow_array::{
    Array, ArrayRef, Date32Array, Decimal64Array, Decimal128Array, Float64Array, Int32Array,
    Int64Array, RecordBatch, StringArray,
};
use arrow_schema::DataType;
use dpb_dbmods::query::date;

/// A column of a type that a scan gives.
pub(super) enum Cells<'a> {
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    Decimal64(&'a Decimal64Array),
    Decimal128(&'a Decimal128Array),
    Double(&'a Float64Array),
    Date(&'a Date32Array),
    Text(&'a StringArray),
    /// A type that no scan gives.
    Unknown(&'a ArrayRef),
}

impl<'a> Cells<'a> {
    /// The columns of a batch.
    pub(super) fn of(batch: &'a RecordBatch) -> Vec<Self> {
        batch.columns().iter().map(Self::column).collect()
    }

    fn column(column: &'a ArrayRef) -> Self {
        match column.data_type() {
            DataType::Int32 => Self::Int32(column.as_primitive::<Int32Type>()),
            DataType::Int64 => Self::Int64(column.as_primitive::<Int64Type>()),
            DataType::Decimal64(..) => Self::Decimal64(column.as_primitive::<Decimal64Type>()),
            DataType::Decimal128(..) => Self::Decimal128(column.as_primitive::<Decimal128Type>()),
            DataType::Float64 => Self::Double(column.as_primitive::<Float64Type>()),
            DataType::Date32 => Self::Date(column.as_primitive::<Date32Type>()),
            DataType::Utf8 => Self::Text(column.as_string::<i32>()),
            _ => Self::Unknown(column),
        }
    }

    /// True if the value of a row is NULL.
    pub(super) fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Int32(column) => column.is_null(row),
            Self::Int64(column) => column.is_null(row),
            Self::Decimal64(column) => column.is_null(row),
            Self::Decimal128(column) => column.is_null(row),
            Self::Double(column) => column.is_null(row),
            Self::Date(column) => column.is_null(row),
            Self::Text(column) => column.is_null(row),
            Self::Unknown(column) => column.is_null(row),
        }
    }

    /// The text of a text's row; `None` of other columns.
    pub(super) fn text(&self, row: usize) -> Option<&'a str> {
        match self {
            Self::Text(column) => Some(column.value(row)),
            _ => None,
        }
    }

    /// Appends the value of a row that is not NULL, as SQL writes it without quotes.
    pub(super) fn write(&self, row: usize, to: &mut String) {
        let written = match self {
            Self::Int32(column) => write!(to, "{}", column.value(row)),
            Self::Int64(column) => write!(to, "{}", column.value(row)),
            Self::Decimal64(column) => write!(to, "{}", column.value_as_string(row)),
            Self::Decimal128(column) => write!(to, "{}", column.value_as_string(row)),
            // The shortest digits that are read back as the same number.
            Self::Double(column) => write!(to, "{:?}", column.value(row)),
            Self::Date(column) => write!(to, "{}", date::text(column.value(row))),
            Self::Text(column) => write!(to, "{}", column.value(row)),
            Self::Unknown(column) => write!(to, "a {}", column.data_type()),
        };
        written.expect("a String takes all");
    }
}

/// True if values of this type are numbers in JSON: they are exact there, or no decimal digits are lost.
pub(super) fn is_json_number(ty: &DataType) -> bool {
    matches!(ty, DataType::Int32 | DataType::Int64 | DataType::Float64)
}

/// True if a person reads values of this type from the right.
pub(super) fn is_number(ty: &DataType) -> bool {
    !matches!(ty, DataType::Utf8 | DataType::Date32)
}
