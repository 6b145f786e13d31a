//! From the values of one column of one row group to the bytes of its chunk.
//!
//! Numbers become frames of reference whose unit is the greatest common divisor of all differences. Text becomes a sorted
//! dictionary if it has few distinct values, and FSST codes if not.

use std::collections::HashMap;

use super::{pack, text};
use crate::schema::{Column, ColumnType, Schema};
use crate::table::chunk::{
    Assembly, BLOCK_ROWS, BlockMeta, Encoding, GROUP_ROWS, STRING_BYTES_MAX,
};

/// A dictionary has at most this many strings.
pub const DICTIONARY_MAX: usize = 4096;

/// The values of one column of one row group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Values of all types but text, as a segment stores them: unscaled decimals, days since 1970-01-01.
    Numbers(Vec<i64>),
    /// Text.
    Texts(Texts),
}

/// Strings, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    bytes: String,
    ends: Vec<u32>,
}

impl Texts {
    /// Appends a string.
    ///
    /// # Panics
    /// If it is longer than [`STRING_BYTES_MAX`], or all strings together pass 4 GiB.
    pub fn push(&mut self, text: &str) {
        self.bytes.push_str(text);
        let start = self.ends.last().map_or(0, |&end| end as usize);
        let len = self.bytes.len() - start;
        assert!(len <= STRING_BYTES_MAX, "a string of {len} bytes");
        self.ends
            .push(u32::try_from(self.bytes.len()).expect("under 4 GiB of text in a row group"));
    }

    /// Appends a value as it prints.
    pub fn push_display(&mut self, value: impl std::fmt::Display) {
        use std::fmt::Write;
        write!(self.bytes, "{value}").expect("a String takes all");
        self.push("");
    }

    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String `i`.
    ///
    /// # Panics
    /// If there is no such string.
    pub fn get(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start as usize..self.ends[i] as usize]
    }

    /// Returns all strings.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Forgets all strings, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl Values {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all values, keeps the memory.
    pub fn clear(&mut self) {
        match self {
            Self::Numbers(values) => values.clear(),
            Self::Texts(texts) => texts.clear(),
        }
    }
}

/// An empty list of values for each column of a schema.
pub fn empty(schema: &Schema) -> Vec<Values> {
    let empty = |column: &Column| match column.ty {
        ColumnType::Text => Values::Texts(Texts::default()),
        _ => Values::Numbers(Vec::new()),
    };
    schema.columns.iter().map(empty).collect()
}

/// A chunk ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedChunk {
    /// The bytes that [`crate::table::chunk::Chunk::parse`] takes.
    pub bytes: Vec<u8>,
    /// The number of rows.
    pub rows: usize,
    /// The encoding of the payloads.
    pub encoding: Encoding,
    /// Smallest value, as in a segment's footer.
    pub min: i64,
    /// Largest value.
    pub max: i64,
}

/// The chunk of `values`: bytes that [`crate::table::chunk::Chunk::parse`] takes.
///
/// # Panics
/// If there are no values, or more than [`GROUP_ROWS`], or the chunk is longer than
/// [`crate::table::chunk::CHUNK_BYTES_MAX`].
pub fn encode(column: u16, group: u32, values: &Values) -> EncodedChunk {
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
