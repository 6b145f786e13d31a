//! The reference evaluator: one row at a time, on plain values, in the order that the text says. Slow and obviously
//! right: the oracle that the scan is checked against where no DuckDB is at hand, and what folds constants.
//!
//! Semantics: [`crate::query`].

use std::cmp::Ordering;
use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use crate::query::{
    Aggregate, AggregateFunction, ArithmeticOp, DIGITS_MAX, Literal, Output, Predicate, Query,
    Scalar,
};

/// The reason why a row has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// An exact result does not fit 128 bits, or a date 32.
    #[error("a result is out of range")]
    Overflow,
    /// An operation or a comparison of types that have none, or a column that is not there; [`Query::check`] refuses
    /// such queries.
    #[error("an operation on types that have none")]
    Type,
}

/// Evaluates the predicate for a row, whose values are in the schema's order; `None` is SQL's NULL.
///
/// # Errors
/// If a value is out of range, or the predicate is none for this row's types.
pub fn holds(predicate: &Predicate, row: &[Literal]) -> Result<Option<bool>, EvalError> {
    match predicate {
        Predicate::Constant(constant) => Ok(*constant),
        Predicate::Compare { op, left, right } => {
            let order = compare(&scalar(left, row)?, &scalar(right, row)?)?;
            Ok(order.map(|order| op.holds(order)))
        }
        Predicate::In { value, list } => is_in(&scalar(value, row)?, list),
        Predicate::Like {
            column,
            pattern,
            escape,
        } => match row.get(*column as usize) {
            Some(Literal::Text(text)) => Ok(Some(like(text, pattern, *escape))),
            Some(Literal::Null) => Ok(None),
            _ => Err(EvalError::Type),
        },
        Predicate::IsNull(value) => Ok(Some(scalar(value, row)? == Literal::Null)),
        Predicate::And(all) => fold_logic(all, row, false),
        Predicate::Or(any) => fold_logic(any, row, true),
        Predicate::Not(one) => Ok(holds(one, row)?.map(|holds| !holds)),
    }
}

/// The value of an expression for a row.
///
/// # Errors
/// As [`holds`].
pub fn scalar(scalar: &Scalar, row: &[Literal]) -> Result<Literal, EvalError> {
    match scalar {
        Scalar::Column(column) => row.get(*column as usize).cloned().ok_or(EvalError::Type),
        Scalar::Literal(literal) => Ok(literal.clone()),
        Scalar::Arithmetic { op, left, right } => {
            arithmetic(*op, &self::scalar(left, row)?, &self::scalar(right, row)?)
        }
    }
}

/// `left op right`.
///
/// # Errors
/// If the result is out of range, or there is no such operation.
pub fn arithmetic(op: ArithmeticOp, left: &Literal, right: &Literal) -> Result<Literal, EvalError> {
    use ArithmeticOp::{Add, Divide, Multiply, Subtract};
    use Literal::{Date, Double, Null, Number};
    match (left, right) {
        (Null, _) | (_, Null) => Ok(Null),
        (Date(days), Number { unscaled, scale: 0 }) if matches!(op, Add | Subtract) => {
            let by = if op == Add {
                Some(*unscaled)
            } else {
                unscaled.checked_neg()
            };
            add_days(*days, by.ok_or(EvalError::Overflow)?)
        }
        (Number { unscaled, scale: 0 }, Date(days)) if op == Add => add_days(*days, *unscaled),
        (Date(a), Date(b)) if op == Subtract => Ok(Number {
            unscaled: i128::from(*a) - i128::from(*b),
            scale: 0,
        }),
        (
            Number {
                unscaled: a,
                scale: s,
            },
            Number {
                unscaled: b,
                scale: t,
            },
        ) if op != Divide => exact(op, (*a, *s), (*b, *t)).ok_or(EvalError::Overflow),
        _ => {
            let (a, b) = (double(left)?, double(right)?);
            Ok(Double(match op {
                Add => a + b,
                Subtract => a - b,
                Multiply => a * b,
                Divide => a / b,
            }))
        }
    }
}

/// Compares two values; `None` if one is NULL.
///
/// # Errors
/// If values of these types do not compare.
pub fn compare(left: &Literal, right: &Literal) -> Result<Option<Ordering>, EvalError> {
    use Literal::{Date, Double, Null, Number, Text};
    Ok(Some(match (left, right) {
        (Null, _) | (_, Null) => return Ok(None),
        (Date(a), Date(b)) => a.cmp(b),
        (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (
            Number {
                unscaled: a,
                scale: s,
            },
            Number {
                unscaled: b,
                scale: t,
            },
        ) => compare_exact((*a, *s), (*b, *t)),
        (Double(_) | Number { .. }, Double(_) | Number { .. }) => {
            compare_doubles(double(left)?, double(right)?)
        }
        _ => return Err(EvalError::Type),
    }))
}

/// A number as a DOUBLE, rounded as DuckDB does.
///
/// # Errors
/// If it is no number.
pub fn double(value: &Literal) -> Result<f64, EvalError> {
    match *value {
        Literal::Double(value) => Ok(value),
        Literal::Number { unscaled, scale } => Ok(number_to_double(unscaled, scale)),
        _ => Err(EvalError::Type),
    }
}

/// [`double`] of `unscaled / 10^scale`.
pub fn number_to_double(unscaled: i128, scale: u8) -> f64 {
    exact_to_double(unscaled, 10i128.pow(u32::from(scale.min(DIGITS_MAX))))
}

/// `value / power` as DuckDB 2 casts a DECIMAL: the nearest DOUBLE. Integers beyond 64 bits (HUGEINT) are
/// added up from two rounded halves, as there. `power` is a power of ten, from 1 to 10^38.
#[inline]
pub fn exact_to_double(value: i128, power: i128) -> f64 {
    const EXACT: u128 = 1 << f64::MANTISSA_DIGITS;
    const EXACT_POWER: i128 = 10i128.pow(22);
    if value.unsigned_abs() <= EXACT && power <= EXACT_POWER {
        value as f64 / power as f64
    } else if power == 1 {
        integer_to_double(value)
    } else {
        nearest_quotient(value, power)
    }
}

fn integer_to_double(value: i128) -> f64 {
    const HALF: f64 = 18_446_744_073_709_551_616.0;
    match i64::try_from(value) {
        Ok(narrow) => narrow as f64,
        Err(_) if (value >> 64) == -1 => -(!(value as u64) as f64) - 1.0,
        Err(_) => value as u64 as f64 + (value >> 64) as f64 * HALF,
    }
}

/// Binary digits of the quotient until there are more than a DOUBLE keeps; what is left only says which way to round.
#[cold]
fn nearest_quotient(value: i128, power: i128) -> f64 {
    const ENOUGH: u128 = 1 << 60;
    let (dividend, divisor) = (value.unsigned_abs(), power.unsigned_abs());
    let (mut quotient, mut rest) = (dividend / divisor, dividend % divisor);
    let mut digits = 0;
    while quotient < ENOUGH && dividend != 0 {
        rest <<= 1;
        let digit = u128::from(rest >= divisor);
        rest -= digit * divisor;
        quotient = quotient << 1 | digit;
        digits += 1;
    }
    let magnitude = (quotient | u128::from(rest != 0)) as f64 * 2f64.powi(-digits);
    if value < 0 { -magnitude } else { magnitude }
}

/// DuckDB's order of DOUBLEs: all NaNs are equal, and above everything else; both zeros are equal.
pub fn compare_doubles(a: f64, b: f64) -> Ordering {
    match a.partial_cmp(&b) {
        Some(order) => order,
        None => a.is_nan().cmp(&b.is_nan()),
    }
}

/// Returns true if the whole text matches a LIKE pattern.
pub fn like(text: &str, pattern: &str, escape: Option<char>) -> bool {
    enum Piece {
        Any,
        One,
        Exactly(char),
    }
    let mut pieces = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        pieces.push(match c {
            c if Some(c) == escape => match chars.next() {
                Some(next) => Piece::Exactly(next),
                None => return false,
            },
            '%' => Piece::Any,
            '_' => Piece::One,
            c => Piece::Exactly(c),
        });
    }
    // reached[i]: the text read so far matches the first i pieces.
    let skip_any = |reached: &mut Vec<bool>| {
        for (i, piece) in pieces.iter().enumerate() {
            reached[i + 1] |= reached[i] && matches!(piece, Piece::Any);
        }
    };
    let mut reached = vec![false; pieces.len() + 1];
    reached[0] = true;
    skip_any(&mut reached);
    for c in text.chars() {
        let mut next = vec![false; pieces.len() + 1];
        for (i, piece) in pieces.iter().enumerate().filter(|(i, _)| reached[*i]) {
            match piece {
                Piece::Any => next[i] = true,
                Piece::One => next[i + 1] = true,
                Piece::Exactly(wanted) => next[i + 1] |= *wanted == c,
            }
        }
        skip_any(&mut next);
        reached = next;
    }
    reached[pieces.len()]
}

/// Computes all of a query's result rows, for rows in the schema's order: the projected columns in the order of the rows, or the
/// groups in ascending order.
///
/// # Errors
/// As [`holds`], for the first row that has no answer.
pub fn run<R: AsRef<[Literal]>>(
    query: &Query,
    rows: impl IntoIterator<Item = R>,
) -> Result<Vec<Vec<Literal>>, EvalError> {
    let mut selected = Vec::new();
    for row in rows {
        if holds(&query.predicate, row.as_ref())? == Some(true) {
            match &query.output {
                Output::Rows(columns) => selected.push(pick(columns, row.as_ref())?),
                Output::Aggregate(_) => selected.push(row.as_ref().to_vec()),
            }
        }
    }
    let mut result = match &query.output {
        Output::Rows(_) => selected,
        Output::Aggregate(aggregate) => groups(aggregate, &selected)?,
    };
    if let Some(limit) = query.limit {
        result.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    Ok(result)
}

/// A batch's rows as plain values; `None` if a column is none that a scan returns.
pub fn rows(batch: &RecordBatch) -> Option<Vec<Vec<Literal>>> {
    let mut rows = vec![Vec::with_capacity(batch.num_columns()); batch.num_rows()];
    for column in batch.columns() {
        for (i, row) in rows.iter_mut().enumerate() {
            row.push(cell(column, i)?);
        }
    }
    Some(rows)
}

fn cell(column: &ArrayRef, row: usize) -> Option<Literal> {
    if column.is_null(row) {
        return Some(Literal::Null);
    }
    let exact = |unscaled, scale: i8| Literal::Number {
        unscaled,
        scale: scale as u8,
    };
    Some(match column.data_type() {
        DataType::Int32 => exact(column.as_primitive::<Int32Type>().value(row).into(), 0),
        DataType::Int64 => exact(column.as_primitive::<Int64Type>().value(row).into(), 0),
        DataType::Decimal64(_, scale) => exact(
            column.as_primitive::<Decimal64Type>().value(row).into(),
            *scale,
        ),
        DataType::Decimal128(_, scale) => {
            exact(column.as_primitive::<Decimal128Type>().value(row), *scale)
        }
        DataType::Date32 => Literal::Date(column.as_primitive::<Date32Type>().value(row)),
        DataType::Utf8 => Literal::Text(column.as_string::<i32>().value(row).to_owned()),
        DataType::Float64 => Literal::Double(column.as_primitive::<Float64Type>().value(row)),
        _ => return None,
    })
}

fn fold_logic(
    parts: &[Predicate],
    row: &[Literal],
    decisive: bool,
) -> Result<Option<bool>, EvalError> {
    let mut result = Some(!decisive);
    for part in parts {
        match holds(part, row)? {
            Some(value) if value == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

/// If one of them is a DOUBLE all are compared as DOUBLEs, since IN first brings its operands to one type.
fn is_in(value: &Literal, list: &[Literal]) -> Result<Option<bool>, EvalError> {
    if *value == Literal::Null {
        return Ok(None);
    }
    let doubles = std::iter::once(value)
        .chain(list)
        .any(|one| matches!(one, Literal::Double(_)));
    let mut found = Some(false);
    for one in list {
        let order = if doubles && *one != Literal::Null {
            Some(compare_doubles(double(value)?, double(one)?))
        } else {
            compare(value, one)?
        };
        match order {
            Some(Ordering::Equal) => return Ok(Some(true)),
            Some(_) => {}
            None => found = None,
        }
    }
    Ok(found)
}

fn add_days(days: i32, by: i128) -> Result<Literal, EvalError> {
    let sum = i128::from(days)
        .checked_add(by)
        .and_then(|sum| i32::try_from(sum).ok());
    sum.map(Literal::Date).ok_or(EvalError::Overflow)
}

fn exact(op: ArithmeticOp, (a, s): (i128, u8), (b, t): (i128, u8)) -> Option<Literal> {
    let (unscaled, scale) = if op == ArithmeticOp::Multiply {
        (a.checked_mul(b)?, s.checked_add(t)?)
    } else {
        let scale = s.max(t);
        let a = a.checked_mul(10i128.checked_pow(u32::from(scale - s))?)?;
        let b = b.checked_mul(10i128.checked_pow(u32::from(scale - t))?)?;
        match op {
            ArithmeticOp::Add => (a.checked_add(b)?, scale),
            _ => (a.checked_sub(b)?, scale),
        }
    };
    (scale <= DIGITS_MAX).then_some(Literal::Number { unscaled, scale })
}

/// Whole parts first, so that nothing can overflow.
fn compare_exact((a, s): (i128, u8), (b, t): (i128, u8)) -> Ordering {
    let split = |value: i128, scale: u8| {
        let power = 10i128.pow(u32::from(scale.min(DIGITS_MAX)));
        let fraction =
            value.rem_euclid(power) * 10i128.pow(u32::from(DIGITS_MAX - scale.min(DIGITS_MAX)));
        (value.div_euclid(power), fraction)
    };
    split(a, s).cmp(&split(b, t))
}

fn pick(columns: &[u32], row: &[Literal]) -> Result<Vec<Literal>, EvalError> {
    (columns.iter())
        .map(|&column| row.get(column as usize).cloned().ok_or(EvalError::Type))
        .collect()
}

/// A group's key; ordered so that it can be one.
#[derive(PartialEq)]
struct Key(Vec<Literal>);

impl Eq for Key {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.iter().zip(&other.0))
            .map(|(a, b)| compare(a, b).ok().flatten().unwrap_or(Ordering::Equal))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn groups(aggregate: &Aggregate, rows: &[Vec<Literal>]) -> Result<Vec<Vec<Literal>>, EvalError> {
    let mut groups: BTreeMap<Key, Vec<&[Literal]>> = BTreeMap::new();
    for row in rows {
        groups
            .entry(Key(pick(&aggregate.group_by, row)?))
            .or_default()
            .push(row);
    }
    if aggregate.group_by.is_empty() {
        groups.entry(Key(Vec::new())).or_default();
    }
    let mut output = Vec::new();
    for (Key(mut values), members) in groups {
        for call in &aggregate.functions {
            values.push(function(&call.function, &members)?);
        }
        output.push(values);
    }
    Ok(output)
}

fn function(function: &AggregateFunction, rows: &[&[Literal]]) -> Result<Literal, EvalError> {
    let Some(argument) = function.argument() else {
        return Ok(Literal::Number {
            unscaled: rows.len() as i128,
            scale: 0,
        });
    };
    let mut values = Vec::new();
    for row in rows {
        match scalar(argument, row)? {
            Literal::Null => {}
            value => values.push(value),
        }
    }
    let count = values.len();
    let mut values = values.into_iter();
    let Some(first) = values.next() else {
        return Ok(Literal::Null);
    };
    let keep = |wanted: Ordering| {
        values.clone().try_fold(first.clone(), |best, value| {
            Ok(if compare(&value, &best)? == Some(wanted) {
                value
            } else {
                best
            })
        })
    };
    let sum = || {
        (values.clone()).try_fold(first.clone(), |sum, value| {
            arithmetic(ArithmeticOp::Add, &sum, &value)
        })
    };
    match function {
        AggregateFunction::Count | AggregateFunction::Sum(_) => sum(),
        AggregateFunction::Min(_) => keep(Ordering::Less),
        AggregateFunction::Max(_) => keep(Ordering::Greater),
        AggregateFunction::Avg(_) => match sum()? {
            Literal::Number { unscaled, scale } => {
                Ok(Literal::Double(average(unscaled, scale, count as u64)))
            }
            _ => Err(EvalError::Type),
        },
    }
}

/// The DOUBLE that DuckDB's `avg` gives: the exact sum as a DOUBLE, divided by how many.
pub fn average(sum: i128, scale: u8, count: u64) -> f64 {
    number_to_double(sum, scale) / count as f64
}

#[cfg(test)]
mod tests;
