//! The encoder: counts, a code for each block, eight streams.

use dpb_core::JobError;

use super::lengths::{BITS_MAX, LENGTHS_BYTES_MAX, Lengths, write_lengths};
use super::{BLOCK_BYTES_MAX, HEADER_BYTES, Kind, STREAMS, streams};
use crate::storage::{Out, prefix_code};

/// Symbols that fit a 64-bit word behind seven bits that wait for their byte.
const SYMBOLS_A_WORD: usize = (64 - 7) / BITS_MAX;
/// Most bytes of a block's streams, and a word more, which the last bits are written with.
const CODED_BYTES_MAX: usize = BLOCK_BYTES_MAX * BITS_MAX / 8 + STREAMS + 8;

/// Memory in which a block is coded before it is known to be shorter than its plain bytes.
pub(super) type Scratch = Box<[u8; CODED_BYTES_MAX]>;

/// Room for any block.
pub(super) fn scratch() -> Scratch {
    vec![0; CODED_BYTES_MAX]
        .try_into()
        .expect("as long as its type says")
}

/// Encodes `plain` into `slot`; says how many bytes.
///
/// Inlined, so that who has faster shifts has them in all of it.
#[inline(always)]
pub(super) fn encode(
    plain: &[u8],
    slot: &mut [u8],
    scratch: &mut Scratch,
) -> Result<usize, JobError> {
    let mut out = Out::new(slot);
    for block in plain.chunks(BLOCK_BYTES_MAX) {
        let counts = counts(block);
        if block.len() > 1 && counts[usize::from(block[0])] as usize == block.len() {
            out.block(Kind::Run, block.len(), &[&block[..1]])?;
        } else if !coded(block, &counts, &mut out, scratch)? {
            out.block(Kind::Stored, block.len(), &[block])?;
        }
    }
    Ok(out.len)
}

impl Out<'_> {
    /// A block of `len` plain bytes: its header, then `parts`.
    fn block(&mut self, kind: Kind, len: usize, parts: &[&[u8]]) -> Result<(), JobError> {
        let [low, high] = ((len - 1) as u16).to_le_bytes();
        self.push(&[kind as u8, low, high])?;
        parts.iter().try_for_each(|part| self.push(part))
    }
}

/// The number of times that each byte occurs. Four tables, so that a byte that follows itself does not wait for its own count.
#[inline(always)]
fn counts(block: &[u8]) -> [u32; 256] {
    let mut tables = [[0u32; 256]; 4];
    let (quads, rest) = block.as_chunks::<4>();
    for quad in quads {
        for (table, &byte) in tables.iter_mut().zip(quad) {
            table[usize::from(byte)] += 1;
        }
    }
    for &byte in rest {
        tables[0][usize::from(byte)] += 1;
    }
    let [a, b, c, d] = &tables;
    std::array::from_fn(|symbol| a[symbol] + b[symbol] + c[symbol] + d[symbol])
}

/// Writes `block` coded, if that is shorter than stored; says whether.
#[inline(always)]
fn coded(
    block: &[u8],
    counts: &[u32; 256],
    out: &mut Out<'_>,
    scratch: &mut Scratch,
) -> Result<bool, JobError> {
    if block.len() <= HEADER_BYTES {
        return Ok(false);
    }
    let lengths = prefix_code::lengths(counts, BITS_MAX);
    let mut table = [0; LENGTHS_BYTES_MAX];
    let table_len = write_lengths(&lengths, &mut table);
    let streams = streams(block.len());
    let bits = counts
        .iter()
        .zip(&lengths)
        .map(|(&count, &length)| u64::from(count) * u64::from(length));
    // Each stream ends in a byte of its own.
    let coded = bits.sum::<u64>() as usize / 8 + streams;
    if table_len + 2 * streams + coded > block.len() {
        return Ok(false);
    }
    let codes = entries(&lengths);
    let mut ends = [0; 2 * STREAMS];
    let mut len = 0;
    let parts = block.chunks(block.len().div_ceil(streams));
    for (part, end) in parts.zip(ends.as_chunks_mut::<2>().0) {
        let bytes = stream(part, &codes, &mut scratch[len..]);
        *end = (bytes as u16).to_le_bytes();
        len += bytes;
    }
    let parts = [&table[..table_len], &ends[..2 * streams], &scratch[..len]];
    out.block(Kind::Coded, block.len(), &parts)?;
    Ok(true)
}

/// Each symbol's code, and its bits above bit 16.
fn entries(lengths: &Lengths) -> [u32; 256] {
    let codes = prefix_code::codes(lengths);
    std::array::from_fn(|symbol| u32::from(codes[symbol]) | u32::from(lengths[symbol]) << 16)
}

/// Writes the codes of `part` one after another from the lowest bit on; says how many bytes.
#[inline(always)]
fn stream(part: &[u8], entries: &[u32; 256], out: &mut [u8]) -> usize {
    let (mut word, mut bits, mut at) = (0u64, 0u32, 0);
    let mut push = |symbols: &[u8]| {
        for &symbol in symbols {
            let entry = entries[usize::from(symbol)];
            word |= u64::from(entry & 0xffff) << bits;
            bits += entry >> 16;
        }
        out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        at += (bits / 8) as usize;
        word >>= bits & !7;
        bits &= 7;
    };
    let (groups, rest) = part.as_chunks::<SYMBOLS_A_WORD>();
    groups.iter().for_each(|group| push(group));
    push(rest);
    at + usize::from(bits > 0)
}
