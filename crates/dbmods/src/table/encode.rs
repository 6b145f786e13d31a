//! From the values of one column of one row group to the bytes of its chunk.
//!
//! Numbers become frames of reference whose unit is the greatest common divisor of all differences. Text becomes a sorted
//! dictionary if it has few distinct values, and FSST codes if not.

use std::collections::HashMap;

use super::{pack, text};
pub(crate) use crate::table::chunk::EncodedChunk;
use crate::table::chunk::{Assembly, BLOCK_ROWS, BlockMeta, Encoding, GROUP_ROWS};
pub(crate) use crate::table::values::{Texts, Values, empty};

/// A dictionary has at most this many strings.
pub(crate) const DICTIONARY_MAX: usize = 4096;

/// The chunk of `values`: bytes that [`crate::table::chunk::Chunk::parse`] takes.
///
/// # Panics
/// If there are no values, or more than [`GROUP_ROWS`], or the chunk is longer than
/// [`crate::table::chunk::CHUNK_BYTES_MAX`].
pub(crate) fn encode(column: u16, group: u32, values: &Values) -> EncodedChunk {
    assert!(
        (1..=GROUP_ROWS).contains(&values.len()),
        "{} rows in a row group",
        values.len()
    );
    match values {
        Values::Numbers(values) => numbers(column, group, values, Encoding::Numbers, &[]),
        Values::Texts(texts) => match dictionary(texts) {
            Some((side, positions)) => {
                numbers(column, group, &positions, Encoding::Dictionary, &side)
            }
            None => text::encode(column, group, texts),
        },
    }
}

/// Frames of reference.
fn numbers(
    column: u16,
    group: u32,
    values: &[i64],
    encoding: Encoding,
    side: &[u8],
) -> EncodedChunk {
    let unit = if encoding == Encoding::Numbers {
        unit(values)
    } else {
        1
    };
    let mut blocks = Vec::with_capacity(values.len().div_ceil(BLOCK_ROWS));
    let (mut payloads, mut lengths) = (Vec::new(), Vec::new());
    for rows in values.chunks(BLOCK_ROWS) {
        let min = *rows.iter().min().expect("a block has rows");
        let max = *rows.iter().max().expect("a block has rows");
        let width = pack::width(max.abs_diff(min) / unit as u64);
        let lane_bits = pack::lane_bits(width);
        let mut packed = [0; BLOCK_ROWS];
        for (packed, value) in packed.iter_mut().zip(rows) {
            *packed = value.abs_diff(min) / unit as u64;
        }
        let before = payloads.len();
        pack::pack(lane_bits, width, &packed, &mut payloads);
        lengths.push(payloads.len() - before);
        blocks.push(BlockMeta {
            min,
            max,
            offset: 0,
            len: 0,
            crc32c: 0,
            lane_bits,
            width,
            rows: rows.len() as u16,
        });
    }
    Assembly {
        column,
        group,
        rows: values.len(),
        encoding,
        unit,
        side,
        blocks,
        payloads: &payloads,
        lengths: &lengths,
    }
    .finish()
}

/// The greatest common divisor of all differences, if an `i64` holds it; else 1.
fn unit(values: &[i64]) -> i64 {
    let mut unit = 0u64;
    for value in values {
        let (mut a, mut b) = (value.abs_diff(values[0]), unit);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        unit = a;
        if unit == 1 {
            break;
        }
    }
    i64::try_from(unit).unwrap_or(1).max(1)
}

/// The dictionary and each row's position in it, if that is worthwhile.
fn dictionary(texts: &Texts) -> Option<(Vec<u8>, Vec<i64>)> {
    let mut codes: HashMap<&str, u32> = HashMap::new();
    let mut rows = Vec::with_capacity(texts.len());
    for text in texts.iter() {
        let next = codes.len() as u32;
        let code = *codes.entry(text).or_insert(next);
        if code as usize == DICTIONARY_MAX.min(texts.len() / 4 + 1) {
            return None;
        }
        rows.push(code);
    }
    let mut strings: Vec<(&str, u32)> = codes.into_iter().collect();
    strings.sort_unstable();
    let mut side = (strings.len() as u32).to_le_bytes().to_vec();
    let mut end = 0u32;
    side.extend_from_slice(&end.to_le_bytes());
    for (text, _) in &strings {
        end += text.len() as u32;
        side.extend_from_slice(&end.to_le_bytes());
    }
    let mut positions = vec![0i64; strings.len()];
    for (position, (text, code)) in strings.iter().enumerate() {
        side.extend_from_slice(text.as_bytes());
        positions[*code as usize] = position as i64;
    }
    Some((
        side,
        rows.iter().map(|&code| positions[code as usize]).collect(),
    ))
}

#[cfg(test)]
mod tests;
