//! The result of an aggregate: arrays of what was accumulated.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal64Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, RecordBatchOptions, StringArray,
};
use arrow_schema::{DataType, SchemaRef};

use super::super::ScanError;
use super::super::dag::{power_of_ten, to_double_by};
use super::state::{Accumulated, Key, Partial, State};
use super::{Aggregation, Function};

impl Aggregation {
    /// The result, groups ascending.
    pub(in crate::scan) fn finish(
        &self,
        schema: SchemaRef,
        partial: Partial,
    ) -> Result<RecordBatch, ScanError> {
        let mut groups: Vec<(Vec<Key>, Accumulated)> = partial.groups.into_iter().collect();
        if groups.is_empty() && self.group_by.is_empty() {
            groups.push((Vec::new(), Accumulated::new(&self.parts)));
        }
        groups.sort_by(|a, b| a.0.cmp(&b.0));
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (at, field) in schema.fields().iter().take(self.group_by.len()).enumerate() {
            let states = groups.iter().map(|(key, _)| match &key[at] {
                Key::Integer(value) => State::Integer(i128::from(*value)),
                Key::Text(text) => State::Text(text.clone()),
            });
            columns.push(array(field.data_type(), states)?);
        }
        for function in &self.functions {
            columns.push(function.array(groups.iter().map(|(_, accumulated)| accumulated))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }
}

impl Function {
    fn array<'a>(
        &self,
        groups: impl Iterator<Item = &'a Accumulated>,
    ) -> Result<ArrayRef, ScanError> {
        let state = |at: usize| move |group: &Accumulated| group.states[at].clone();
        match self {
            Self::Count => Ok(Arc::new(Int64Array::from_iter_values(
                groups.map(|group| group.count as i64),
            ))),
            Self::Sum(at, ty) | Self::Extreme(at, ty) => array(ty, groups.map(state(*at))),
            Self::Average(at, scale) => {
                // As DuckDB: the exact sum as a DOUBLE, then one division.
                let power = power_of_ten(*scale)?;
                let average = |group: &Accumulated| match group.states[*at] {
                    State::Integer(sum) => {
                        State::Double(to_double_by(sum, power) / group.count as f64)
                    }
                    _ => State::Nothing,
                };
                array(&DataType::Float64, groups.map(average))
            }
            Self::Null(ty) => array(ty, groups.map(|_| State::Nothing)),
        }
    }
}

/// An array of one state a row; an integer that its type cannot hold is an overflow.
fn array(ty: &DataType, states: impl Iterator<Item = State>) -> Result<ArrayRef, ScanError> {
    Ok(match ty {
        DataType::Int32 => Arc::new(integers(states, narrowed)?.collect::<Int32Array>()),
        DataType::Date32 => Arc::new(integers(states, narrowed)?.collect::<Date32Array>()),
        DataType::Int64 => Arc::new(integers(states, narrowed)?.collect::<Int64Array>()),
        DataType::Decimal64(precision, scale) => Arc::new(
            integers(states, narrowed)?
                .collect::<Decimal64Array>()
                .with_precision_and_scale(*precision, *scale)?,
        ),
        DataType::Decimal128(precision, scale) => {
            let bound = power_of_ten(*precision)?.unsigned_abs();
            let within = |value: i128| {
                if value.unsigned_abs() < bound {
                    Ok(value)
                } else {
                    Err(ScanError::Overflow)
                }
            };
            Arc::new(
                integers(states, within)?
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(*precision, *scale)?,
            )
        }
        DataType::Float64 => Arc::new(
            states
                .map(|state| match state {
                    State::Double(value) => Some(value),
                    _ => None,
                })
                .collect::<Float64Array>(),
        ),
        _ => {
            let texts: Result<Vec<Option<String>>, ScanError> = states
                .map(|state| match state {
                    State::Text(bytes) => String::from_utf8(bytes)
                        .map(Some)
                        .map_err(|_| ScanError::Internal("text that is not UTF-8")),
                    _ => Ok(None),
                })
                .collect();
            Arc::new(StringArray::from(texts?))
        }
    })
}

/// The integers of states, each brought to its type; other states are NULL.
fn integers<T>(
    states: impl Iterator<Item = State>,
    convert: impl Fn(i128) -> Result<T, ScanError>,
) -> Result<std::vec::IntoIter<Option<T>>, ScanError> {
    let values: Result<Vec<Option<T>>, ScanError> = states
        .map(|state| match state {
            State::Integer(value) => convert(value).map(Some),
            _ => Ok(None),
        })
        .collect();
    Ok(values?.into_iter())
}

fn narrowed<T: TryFrom<i128>>(value: i128) -> Result<T, ScanError> {
    T::try_from(value).map_err(|_| ScanError::Overflow)
}
