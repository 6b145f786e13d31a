//! Whether two scans returned the same rows: a digest that no order of rows changes, and the first row that differs.
//!
//! A row's hash is 128 bits over a canonical encoding of its columns in their order: the column's type, then validity, then
//! the value (text: its length first). A [`Digest`] is the number of rows and the wrapping sum of their hashes. So the
//! order of rows and their split into batches leave it unchanged, while swapped columns, moved column boundaries,
//! doubled or missing rows change it. It is no defence against someone who forges collisions.
//!
//! # Why not a known hash
//!
//! A known hash takes bytes, so each row would be written out before it is hashed. Here columns are mixed one after another into the
//! rows' lanes, where they lie, and no row is copied. The parts are known: both halves of a 64-bit product, folded (as wyhash does it),
//! on two lanes with different constants (digits of pi); the finaliser of MurmurHash3; a sum over rows (the incremental hash of
//! Bellare and Micciancio, "AdHash"). No one has published vectors for the whole, so the tests compare it with multisets of rows.
//!
//! # Collisions
//!
//! * If hashes were random, two results that differ would agree once in 2^128.
//! * A lane forgets what came before where the first operand of its product is zero. For given rows that is one value of 2^64 in each
//!   step and lane, and another value in the other lane; a row's hash loses a column only if both lanes meet theirs behind it.
//! * A text whose words 16 by 16 bytes equal a constant of `TEXT` sets a lane to zero. Such a text has to be made on purpose.
//! * A sum can be forged: with many rows to choose from, sets of rows of equal sum are found far below 2^128 steps (Wagner's
//!   generalised birthday). Both sides of a comparison are ours or DuckDB's, and nobody chooses rows so.
//!
//! Types: those of [`crate::query`]'s results (Int32, Int64, Decimal64, Decimal128, Date32, Utf8, Float64).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

/// The number of rows, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest {
    /// The number of rows.
    pub rows: u64,
    /// Wrapping sum of the rows' hashes.
    pub sum: u128,
}

/// A column of a type that no scan returns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no digest of column `{column}`: a scan returns no {ty}")]
pub struct UnknownType {
    /// The name of the column.
    pub column: String,
    /// The type of the column.
    pub ty: DataType,
}

/// Two independent lanes of a row's hash.
type Lanes = [u64; 2];

/// Odd, half of the bits set, from the fractional digits of pi.
const MULTIPLY: Lanes = [0x243f_6a88_85a3_08d3, 0x9337_8ac5_7a39_aa1f];
const MULTIPLY_NULL: Lanes = [0xa409_3822_299f_31d1, 0x082e_fa98_ec4e_6c89];
const SEED: Lanes = [0x4528_21e6_38d0_1377, 0xbe54_66cf_34e9_0c6c];
const TEXT: Lanes = [0xc0ac_29b7_c97c_50dd, 0x3f84_d5b5_b547_0917];

impl Digest {
    /// Adds a batch's rows.
    ///
    /// # Errors
    /// If a column's type is none of those that a scan returns.
    pub fn update(&mut self, batch: &RecordBatch) -> Result<(), UnknownType> {
        for hash in row_hashes(batch)? {
            self.sum = self.sum.wrapping_add(hash);
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// The digest of all batches together.
    ///
    /// # Errors
    /// As [`Digest::update`].
    pub fn of<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> Result<Self, UnknownType> {
        let mut digest = Self::default();
        for batch in batches {
            digest.update(batch)?;
        }
        Ok(digest)
    }

    /// The digest of both sets of rows together.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            sum: self.sum.wrapping_add(other.sum),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {:032x}", self.rows, self.sum)
    }
}

/// Names the first row, in ascending order of its columns, that one side has more often than the other; `None` if both
/// sides hold the same rows. `left_name` and `right_name` say whose rows they are.
///
/// # Errors
/// As [`Digest::update`].
pub fn first_difference(
    left_name: &str,
    left: &[RecordBatch],
    right_name: &str,
    right: &[RecordBatch],
) -> Result<Option<String>, UnknownType> {
    first_where([left_name, right_name], [left, right], |times| {
        times[0] != times[1]
    })
}

/// Names the first row that `left` has more often than `right`; `None` if every row of `left` is one of `right`'s.
///
/// # Errors
/// As [`Digest::update`].
pub fn first_surplus(
    left_name: &str,
    left: &[RecordBatch],
    right_name: &str,
    right: &[RecordBatch],
) -> Result<Option<String>, UnknownType> {
    first_where([left_name, right_name], [left, right], |times| {
        times[0] > times[1]
    })
}

/// Names the first row of which `is_wrong` says so, given how often each side has it.
fn first_where(
    [left_name, right_name]: [&str; 2],
    sides: [&[RecordBatch]; 2],
    is_wrong: fn([u64; 2]) -> bool,
) -> Result<Option<String>, UnknownType> {
    let mut seen: HashMap<u128, Seen> = HashMap::new();
    for (side, batches) in sides.into_iter().enumerate() {
        for (batch, hashes) in batches.iter().zip(hash_all(batches)?) {
            for (row, hash) in hashes.into_iter().enumerate() {
                let entry = seen.entry(hash).or_insert(Seen {
                    times: [0; 2],
                    batch,
                    row,
                });
                entry.times[side] += 1;
            }
        }
    }
    let first = seen
        .values()
        .filter(|seen| is_wrong(seen.times))
        .min_by(|a, b| compare_rows(a, b));
    Ok(first.map(|seen| {
        format!(
            "{left_name} has {}, {right_name} has {} of the row ({})",
            seen.times[0],
            seen.times[1],
            row_text(seen.batch, seen.row)
        )
    }))
}

/// The number of times that each side has a row, and the place of one of them.
struct Seen<'a> {
    times: [u64; 2],
    batch: &'a RecordBatch,
    row: usize,
}

fn hash_all(batches: &[RecordBatch]) -> Result<Vec<Vec<u128>>, UnknownType> {
    batches.iter().map(row_hashes).collect()
}

/// One hash a row.
fn row_hashes(batch: &RecordBatch) -> Result<Vec<u128>, UnknownType> {
    let mut lanes = vec![SEED; batch.num_rows()];
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let known = mix_column(&mut lanes, column);
        known.ok_or_else(|| UnknownType {
            column: field.name().clone(),
            ty: field.data_type().clone(),
        })?;
    }
    Ok(lanes.into_iter().map(finish).collect())
}

/// Mixes one column into every row's lanes; `None` if its type is unknown.
fn mix_column(lanes: &mut [Lanes], column: &ArrayRef) -> Option<()> {
    let seed = type_seed(column.data_type())?;
    match column.data_type() {
        DataType::Int32 => {
            let values = column.as_primitive::<Int32Type>().values();
            mix_words(lanes, column, seed, values, |&v| i64::from(v) as u64);
        }
        DataType::Date32 => {
            let values = column.as_primitive::<Date32Type>().values();
            mix_words(lanes, column, seed, values, |&v| i64::from(v) as u64);
        }
        DataType::Int64 => {
            let values = column.as_primitive::<Int64Type>().values();
            mix_words(lanes, column, seed, values, |&v| v as u64);
        }
        DataType::Decimal64(..) => {
            let values = column.as_primitive::<Decimal64Type>().values();
            mix_words(lanes, column, seed, values, |&v| v as u64);
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>().values();
            mix_words(lanes, column, seed, values, |&v| float_bits(v));
        }
        DataType::Decimal128(..) => {
            let values = column.as_primitive::<Decimal128Type>().values();
            mix_valid(lanes, column, seed, values.len(), |lanes, row| {
                let value = values[row] as u128;
                step(step(lanes, seed, value as u64), seed, (value >> 64) as u64)
            });
        }
        DataType::Utf8 => {
            let text = column.as_string::<i32>();
            let (offsets, bytes) = (text.value_offsets(), text.value_data());
            mix_valid(lanes, column, seed, text.len(), |lanes, row| {
                step_text(
                    lanes,
                    seed,
                    &bytes[offsets[row] as usize..offsets[row + 1] as usize],
                )
            });
        }
        _ => return None,
    }
    Some(())
}

/// Distinguishes types, and scales of decimals.
fn type_seed(ty: &DataType) -> Option<u64> {
    let tag = match ty {
        DataType::Int32 => 1,
        DataType::Int64 => 2,
        DataType::Decimal64(_, scale) => 0x300 + i64::from(*scale),
        DataType::Decimal128(_, scale) => 0x400 + i64::from(*scale),
        DataType::Date32 => 5,
        DataType::Utf8 => 6,
        DataType::Float64 => 7,
        _ => return None,
    };
    Some((tag as u64).wrapping_mul(MULTIPLY[1]))
}

fn mix_words<T>(
    lanes: &mut [Lanes],
    column: &ArrayRef,
    seed: u64,
    values: &[T],
    word: impl Fn(&T) -> u64,
) {
    if column.null_count() == 0 {
        for (lanes, value) in lanes.iter_mut().zip(values) {
            *lanes = step(*lanes, seed, word(value));
        }
    } else {
        mix_valid(lanes, column, seed, values.len(), |lanes, row| {
            step(lanes, seed, word(&values[row]))
        });
    }
}

fn mix_valid(
    lanes: &mut [Lanes],
    column: &ArrayRef,
    seed: u64,
    rows: usize,
    mix: impl Fn(Lanes, usize) -> Lanes,
) {
    for (row, lanes) in lanes.iter_mut().enumerate().take(rows) {
        *lanes = if column.is_valid(row) {
            mix(*lanes, row)
        } else {
            [0, 1].map(|i| fold(lanes[i] ^ seed, MULTIPLY_NULL[i]))
        };
    }
}

/// High and low half of the product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

#[inline(always)]
fn step(lanes: Lanes, seed: u64, word: u64) -> Lanes {
    [
        fold(lanes[0] ^ word.wrapping_add(seed), MULTIPLY[0]),
        fold(lanes[1].wrapping_add(word ^ seed), MULTIPLY[1]),
    ]
}

/// The length, then the bytes in words, the last padded with zeros.
#[inline(always)]
fn step_text(mut lanes: Lanes, seed: u64, text: &[u8]) -> Lanes {
    lanes = step(lanes, seed, text.len() as u64);
    let (pairs, rest) = text.as_chunks::<16>();
    for pair in pairs {
        lanes = step_pair(lanes, *pair);
    }
    if !rest.is_empty() {
        let mut pair = [0; 16];
        pair[..rest.len()].copy_from_slice(rest);
        lanes = step_pair(lanes, pair);
    }
    lanes
}

#[inline(always)]
fn step_pair(lanes: Lanes, pair: [u8; 16]) -> Lanes {
    let pair = u128::from_le_bytes(pair);
    let (low, high) = (pair as u64, (pair >> 64) as u64);
    [
        fold(lanes[0] ^ low, TEXT[0] ^ high),
        fold(lanes[1] ^ high, TEXT[1] ^ low),
    ]
    .map(|lane| lane.rotate_left(23))
}

/// Mixes the lanes into each other, so that the sum over rows sees every bit of both.
#[inline(always)]
fn finish([a, b]: Lanes) -> u128 {
    let first = fold(a ^ MULTIPLY_NULL[1], b | 1);
    let second = avalanche(b.wrapping_add(a.rotate_left(32)));
    u128::from(avalanche(first ^ a)) << 64 | u128::from(second)
}

/// The finaliser of MurmurHash3.
#[inline(always)]
fn avalanche(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// Both zeros are one value, and so are all NaNs, as they are in SQL.
fn float_bits(value: f64) -> u64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}

fn compare_rows(a: &Seen<'_>, b: &Seen<'_>) -> Ordering {
    (a.batch.columns().iter().zip(b.batch.columns()))
        .map(|(x, y)| compare_cells(x, a.row, y, b.row))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// NULLs last.
fn compare_cells(x: &ArrayRef, i: usize, y: &ArrayRef, j: usize) -> Ordering {
    if x.is_null(i) || y.is_null(j) || x.data_type() != y.data_type() {
        return x.is_null(i).cmp(&y.is_null(j));
    }
    macro_rules! compare {
        ($ty:ty) => {
            x.as_primitive::<$ty>()
                .value(i)
                .cmp(&y.as_primitive::<$ty>().value(j))
        };
    }
    match x.data_type() {
        DataType::Int32 => compare!(Int32Type),
        DataType::Date32 => compare!(Date32Type),
        DataType::Int64 => compare!(Int64Type),
        DataType::Decimal64(..) => compare!(Decimal64Type),
        DataType::Decimal128(..) => compare!(Decimal128Type),
        DataType::Float64 => (x.as_primitive::<Float64Type>().value(i))
            .total_cmp(&y.as_primitive::<Float64Type>().value(j)),
        DataType::Utf8 => (x.as_string::<i32>().value(i)).cmp(y.as_string::<i32>().value(j)),
        _ => Ordering::Equal,
    }
}

/// `name=value` of every column.
fn row_text(batch: &RecordBatch, row: usize) -> String {
    let cells = batch
        .schema()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| format!("{}={}", field.name(), cell_text(column, row)))
        .collect::<Vec<_>>();
    cells.join(", ")
}

fn cell_text(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "NULL".into();
    }
    match column.data_type() {
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Date32 => {
            crate::query::date::text(column.as_primitive::<Date32Type>().value(row))
        }
        DataType::Decimal64(..) => column.as_primitive::<Decimal64Type>().value_as_string(row),
        DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Utf8 => format!("{:?}", column.as_string::<i32>().value(row)),
        other => format!("a {other}"),
    }
}

#[cfg(test)]
mod tests;
