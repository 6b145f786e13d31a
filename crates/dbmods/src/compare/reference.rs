//! The check of a scheme that has no peer: the reference evaluator, row by row, over the table's rows.
//!
//! The table's rows come over the wire by a scan of all columns without a condition, so what is checked is the evaluation
//! of the query, not the decoding of the segment (which has checksums, and its own tests against the generator), and not an
//! agent that lies in both: what was compared says where its rows came from. Large tables are checked on a sample: the rows
//! up to a value of the table's first column, on both sides. How many rows come is known beforehand.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Date32Array, Decimal64Array, Decimal128Array, Float64Array, Int32Array,
    Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{ArrowError, DataType, SchemaRef};

use crate::compare::consumer::Consumer;
use crate::compare::digest::first_difference;
use crate::compare::error::SchemeError;
use crate::compare::side::{SchemeSide, Test};
use crate::query::eval;
use crate::query::{CompareOp, Literal, Output, Predicate, Query, Scalar};
use crate::scan;

/// The largest number of rows of a table that is checked whole, and the approximate number of rows of a sample.
const ROWS_MAX: u64 = 100_000;

/// The extent of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compared {
    /// The number of rows of the result.
    pub rows: u64,
    /// The sample's bound on the first column; `None` if all rows were compared.
    pub first_column_max: Option<i64>,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first_column_max {
            None => f.write_str("the reference evaluator over the same agent's rows, all of them"),
            Some(max) => write!(
                f,
                "the reference evaluator over the same agent's rows, those whose first column is at most {max}"
            ),
        }
    }
}

/// Compares a scheme's rows with the reference evaluator's; the inner error names the first row that differs.
///
/// # Errors
/// If the scheme itself fails, or the evaluator has no answer.
pub(super) fn compare(
    side: &mut SchemeSide,
    test: &Test,
) -> Result<Result<Compared, String>, SchemeError> {
    let schema = side.table().schema.clone();
    let all_columns = Output::Rows((0..schema.columns.len() as u32).collect());
    let first_column_max = sample_bound(side, test)?;
    let mut sampled = test.clone();
    let mut everything = test.clone();
    everything.query.output = all_columns;
    everything.query.predicate = Predicate::Constant(Some(true));
    if let Some(max) = first_column_max {
        everything.query.predicate = up_to(max);
        sampled.query.predicate = within(max, test.query.predicate.clone());
    }
    let rows = keep(side, &everything)?;
    check_count(&rows, side.table().rows, first_column_max.is_some())?;
    let theirs = keep(side, &sampled)?;
    let output = scan::output_schema(&schema, &test.query)?;
    let ours = match evaluate(&sampled.query, &rows, &output) {
        Ok(ours) => ours,
        Err(reason) => return Ok(Err(format!("the reference evaluator failed: {reason}"))),
    };
    let label = side.scheme().label();
    Ok(
        match first_difference(
            label,
            &theirs,
            "the reference evaluator",
            std::slice::from_ref(&ours),
        )? {
            Some(row) => Err(format!("wrong rows: {row}")),
            None => Ok(Compared {
                rows: ours.num_rows() as u64,
                first_column_max,
            }),
        },
    )
}

/// The value of the first column that about [`ROWS_MAX`] rows do not exceed, if the table is larger and starts with an
/// integer key.
fn sample_bound(side: &mut SchemeSide, test: &Test) -> Result<Option<i64>, SchemeError> {
    let rows = side.table().rows;
    if rows <= ROWS_MAX {
        return Ok(None);
    }
    let share = ROWS_MAX as f64 / rows as f64;
    let table = test.query.table.clone();
    let mut largest = test.clone();
    let function = crate::query::AggregateFunction::Max(Scalar::Column(0));
    largest.query = Query {
        table,
        predicate: Predicate::Constant(Some(true)),
        output: Output::Aggregate(crate::query::Aggregate {
            group_by: Vec::new(),
            functions: vec![crate::query::AggregateCall {
                name: "max".to_owned(),
                function,
            }],
        }),
        limit: None,
    };
    let batches = keep(side, &largest)?;
    let largest = batches
        .first()
        .and_then(|batch| batch.column(0).as_primitive_opt::<Int64Type>())
        .filter(|column| column.len() == 1)
        .map(|column| column.value(0));
    Ok(largest.map(|max| (max as f64 * share) as i64))
}

/// Refuses rows that cannot be the table's, or a sample of it: keys are spread evenly.
fn check_count(came: &[RecordBatch], table_rows: u64, is_sample: bool) -> Result<(), SchemeError> {
    let came: u64 = came.iter().map(|batch| batch.num_rows() as u64).sum();
    let due = match is_sample {
        false => table_rows..=table_rows,
        true => ROWS_MAX - ROWS_MAX / 10..=ROWS_MAX + ROWS_MAX / 10,
    };
    if due.contains(&came) {
        return Ok(());
    }
    Err(SchemeError::Disbelieved(format!(
        "{came} rows came where {} to {} are due",
        due.start(),
        due.end()
    )))
}

fn up_to(max: i64) -> Predicate {
    Predicate::Compare {
        op: CompareOp::LessOrEqual,
        left: Scalar::Column(0),
        right: Scalar::Literal(Literal::Number {
            unscaled: i128::from(max),
            scale: 0,
        }),
    }
}

/// The condition on the sample alone. [`Predicate::check`] leaves the level and the terms that this takes.
fn within(max: i64, asked: Predicate) -> Predicate {
    Predicate::And(vec![up_to(max), asked])
}

fn keep(side: &mut SchemeSide, test: &Test) -> Result<Vec<RecordBatch>, SchemeError> {
    let mut consumer = Consumer::keep();
    side.run(test, &mut consumer)?;
    match consumer {
        Consumer::Keep(kept) => Ok(kept.batches),
        _ => unreachable!("a consumer keeps its kind"),
    }
}

/// The query's result over the rows of `table`, evaluated row by row.
fn evaluate(
    query: &Query,
    table: &[RecordBatch],
    output: &SchemaRef,
) -> Result<RecordBatch, String> {
    let rows = table.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(move |row| {
            let columns = batch.columns().iter();
            columns.map(|column| cell(column, row)).collect::<Vec<_>>()
        })
    });
    let result = eval::run(query, rows).map_err(|e| e.to_string())?;
    let columns = output.fields().iter().enumerate().map(|(at, field)| {
        let values = result.iter().map(|row| &row[at]);
        column(field.data_type(), values).map_err(|e| e.to_string())
    });
    let columns = columns.collect::<Result<Vec<_>, String>>()?;
    RecordBatch::try_new(Arc::clone(output), columns).map_err(|e| e.to_string())
}

/// A value of a table's column; tables hold these types only.
fn cell(column: &ArrayRef, row: usize) -> Literal {
    let number = |unscaled: i64, scale: i8| Literal::Number {
        unscaled: i128::from(unscaled),
        scale: scale as u8,
    };
    match column.data_type() {
        DataType::Int32 => number(column.as_primitive::<Int32Type>().value(row).into(), 0),
        DataType::Int64 => number(column.as_primitive::<Int64Type>().value(row), 0),
        DataType::Decimal64(_, scale) => {
            number(column.as_primitive::<Decimal64Type>().value(row), *scale)
        }
        DataType::Date32 => Literal::Date(column.as_primitive::<Date32Type>().value(row)),
        DataType::Utf8 => Literal::Text(column.as_string::<i32>().value(row).to_owned()),
        _ => Literal::Null,
    }
}

/// An array of the evaluator's values, brought to the scale of its type.
fn column<'a>(
    ty: &DataType,
    values: impl Iterator<Item = &'a Literal>,
) -> Result<ArrayRef, ArrowError> {
    let all = Values { ty, values };
    Ok(match ty {
        DataType::Int32 => {
            let narrow = |value: &Literal| Some(narrowed(exact(value, 0)?)?.map(|v| v as i32));
            Arc::new(Int32Array::from(all.each(narrow)?))
        }
        DataType::Int64 => {
            let narrow = |value: &Literal| narrowed(exact(value, 0)?);
            Arc::new(Int64Array::from(all.each(narrow)?))
        }
        DataType::Decimal64(precision, scale) => {
            let narrow = |value: &Literal| narrowed(exact(value, *scale)?);
            let array = Decimal64Array::from(all.each(narrow)?);
            Arc::new(array.with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Decimal128(precision, scale) => {
            let array = Decimal128Array::from(all.each(|value| exact(value, *scale))?);
            Arc::new(array.with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Date32 => Arc::new(Date32Array::from(all.each(|value| match value {
            Literal::Date(days) => Some(Some(*days)),
            Literal::Null => Some(None),
            _ => None,
        })?)),
        DataType::Float64 => Arc::new(Float64Array::from(all.each(|value| match value {
            Literal::Null => Some(None),
            value => Some(Some(eval::double(value).ok()?)),
        })?)),
        _ => Arc::new(StringArray::from(all.each(|value| match (ty, value) {
            (DataType::Utf8, Literal::Text(text)) => Some(Some(text.as_str())),
            (DataType::Utf8, Literal::Null) => Some(None),
            _ => None,
        })?)),
    })
}

/// Values that are to become an array of a type.
struct Values<'a, I> {
    ty: &'a DataType,
    values: I,
}

impl<'v, I: Iterator<Item = &'v Literal>> Values<'_, I> {
    /// Each value as the array has it, NULL as `None`. A value that `convert` has nothing for is an error.
    fn each<T>(
        self,
        convert: impl Fn(&'v Literal) -> Option<Option<T>>,
    ) -> Result<Vec<Option<T>>, ArrowError> {
        let misfit = || ArrowError::CastError(format!("a value that is no {}", self.ty));
        let converted = self.values.map(|value| convert(value).ok_or_else(misfit));
        converted.collect()
    }
}

/// An exact number at a scale.
fn exact(value: &Literal, to: i8) -> Option<Option<i128>> {
    match value {
        Literal::Null => Some(None),
        Literal::Number { unscaled, scale } => {
            let up = u32::try_from(i32::from(to) - i32::from(*scale)).ok()?;
            let scaled = 10i128.checked_pow(up)?.checked_mul(*unscaled)?;
            Some(Some(scaled))
        }
        _ => None,
    }
}

fn narrowed(value: Option<i128>) -> Option<Option<i64>> {
    match value {
        None => Some(None),
        Some(value) => Some(Some(i64::try_from(value).ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::sql;
    use crate::query::{DEPTH_MAX, NODES_MAX};
    use crate::tpch;

    #[test]
    fn the_largest_condition_that_may_be_asked_may_be_asked_of_a_sample() {
        let schema = tpch::schema("lineitem").unwrap();
        let asked = |text: &str| sql::parse_predicate(&schema, text);
        let nots = |count| format!("{} l_tax = 1", "NOT ".repeat(count));
        // The sample's AND, the comparison and its constant; then the sample's four terms, IN and its column.
        let listed = |count| format!("l_orderkey IN ({})", vec!["7"; count].join(","));
        for [largest, too_large] in [
            [DEPTH_MAX - 2, DEPTH_MAX - 1].map(nots),
            [NODES_MAX - 6, NODES_MAX - 5].map(listed),
        ] {
            assert!(asked(&too_large).is_err());
            let query = Query {
                table: schema.table.clone(),
                predicate: within(7, asked(&largest).unwrap()),
                output: Output::Rows(vec![0]),
                limit: None,
            };
            assert_eq!(query.check(&schema), Ok(()));
            let sent = postcard::to_stdvec(&query).unwrap();
            assert_eq!(postcard::from_bytes::<Query>(&sent), Ok(query));
        }
    }

    #[test]
    fn as_many_rows_are_compared_as_the_table_has() {
        let rows = |rows: usize| {
            let column: ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![7; rows]));
            vec![RecordBatch::try_from_iter([("a", column)]).unwrap()]
        };
        assert!(check_count(&rows(100), 100, false).is_ok());
        for wrong in [0, 99, 200] {
            assert!(check_count(&rows(wrong), 100, false).is_err(), "{wrong}");
        }
        assert!(check_count(&rows(99_321), 6_001_215, true).is_ok());
        for wrong in [0, 50_000, 200_000] {
            let checked = check_count(&rows(wrong), 6_001_215, true);
            assert!(checked.is_err(), "{wrong}");
        }
    }
}
