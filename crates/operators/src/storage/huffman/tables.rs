//! The decoder: a table of all 11-bit prefixes, eight streams at a time.
//!
//! A decoder of one stream waits for itself: where a code starts is known when the code before it is. Eight streams give
//! the core eight such chains at once. A stream's state is one word whose highest set bit marks how many bits are used up, so
//! that a symbol costs a mask, a load, a shift and a store.

use dpb_core::JobError;

use super::code::{self, BITS_MAX, Lengths};
use super::{HEADER_BYTES, Kind, STREAMS, streams};

/// Symbols that a freshly filled word surely holds: 56 bits.
const SYMBOLS_A_WORD: usize = 56 / BITS_MAX;

/// For each 11 bits that may come next: the symbol that starts there, above the bits of its code.
pub(super) type Table = [u16; 1 << BITS_MAX];

/// Decodes `item` into `slot`; says how many bytes.
pub(super) fn decode(item: &[u8], slot: &mut [u8], table: &mut Table) -> Result<usize, JobError> {
    let (mut rest, mut done) = (item, 0);
    while !rest.is_empty() {
        let ([kind, len @ ..], after) = rest
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(JobError::Malformed)?;
        let len = usize::from(u16::from_le_bytes(*len)) + 1;
        let kind = Kind::of(*kind)?;
        let plain = slot
            .get_mut(done..done + len)
            .ok_or(JobError::DstTooShort)?;
        rest = match kind {
            Kind::Stored => {
                let (bytes, after) = after.split_at_checked(len).ok_or(JobError::Malformed)?;
                plain.copy_from_slice(bytes);
                after
            }
            Kind::Run => {
                let (symbol, after) = after.split_first().ok_or(JobError::Malformed)?;
                plain.fill(*symbol);
                after
            }
            Kind::Coded => coded(after, plain, table)?,
        };
        done += len;
    }
    Ok(done)
}

/// Decodes a coded block that fills `plain`; gives what follows it.
fn coded<'a>(block: &'a [u8], plain: &mut [u8], table: &mut Table) -> Result<&'a [u8], JobError> {
    let (lengths, table_len) = code::read_lengths(block)?;
    fill(table, &lengths);
    let count = streams(plain.len());
    let (ends, mut rest) = block[table_len..]
        .split_at_checked(2 * count)
        .ok_or(JobError::Malformed)?;
    let part = plain.len().div_ceil(count);
    let mut streams: [Stream<'_>; STREAMS] = Default::default();
    let parts = plain.chunks_mut(part).zip(ends.as_chunks().0);
    for (stream, (plain, end)) in streams.iter_mut().zip(parts) {
        let bytes = usize::from(u16::from_le_bytes(*end));
        let (bits, after) = rest.split_at_checked(bytes).ok_or(JobError::Malformed)?;
        rest = after;
        *stream = Stream {
            bits,
            used: 0,
            plain,
        };
    }
    if count == STREAMS {
        together(&mut streams, table);
    }
    for stream in &mut streams[..count] {
        stream.finish(table)?;
    }
    Ok(rest)
}

/// The entries of complete `lengths`.
fn fill(table: &mut Table, lengths: &Lengths) {
    let codes = code::codes(lengths);
    for (symbol, (&length, &code)) in lengths.iter().zip(&codes).enumerate() {
        if length > 0 {
            let entry = (symbol as u16) << 8 | u16::from(length);
            for prefix in (usize::from(code)..table.len()).step_by(1 << length) {
                table[prefix] = entry;
            }
        }
    }
}

/// What one stream has left.
#[derive(Default)]
struct Stream<'a> {
    bits: &'a [u8],
    /// Bits of the first byte that were decoded.
    used: usize,
    plain: &'a mut [u8],
}

impl Stream<'_> {
    /// Decodes one symbol at a time to the end, which must be the end of the bits too.
    fn finish(&mut self, table: &Table) -> Result<(), JobError> {
        let mut at = self.used;
        for plain in &mut *self.plain {
            let rest = self.bits.get(at / 8..).unwrap_or_default();
            let mut word = [0; 8];
            let len = rest.len().min(8);
            word[..len].copy_from_slice(&rest[..len]);
            let prefix = u64::from_le_bytes(word) >> (at % 8);
            let entry = table[prefix as usize % table.len()];
            *plain = (entry >> 8) as u8;
            at += usize::from(entry & 0xff);
        }
        let is_used = at.div_ceil(8) == self.bits.len();
        let is_padded = is_used && (at % 8 == 0 || self.bits[at / 8] >> (at % 8) == 0);
        is_padded.then_some(()).ok_or(JobError::Malformed)
    }
}

/// Decodes all streams side by side, as long as each has a whole word to read and five symbols to write.
fn together(streams: &mut [Stream<'_>; STREAMS], table: &Table) {
    const FULL: u64 = 1 << 63;
    let mut at = [0usize; STREAMS];
    let mut words = [0u64; STREAMS];
    // The last stream may be shorter than the others; all others are as long as the first.
    let rounds = streams[STREAMS - 1].plain.len() / SYMBOLS_A_WORD;
    let mut done = 0;
    let mut used = [0u32; STREAMS];
    'rounds: while done < rounds {
        for lane in 0..STREAMS {
            let Some(bytes) = streams[lane]
                .bits
                .get(at[lane]..)
                .and_then(|b| b.first_chunk())
            else {
                break 'rounds;
            };
            words[lane] = (u64::from_le_bytes(*bytes) | FULL) >> used[lane];
        }
        let mut symbols = [[0u8; SYMBOLS_A_WORD]; STREAMS];
        for step in 0..SYMBOLS_A_WORD {
            for lane in 0..STREAMS {
                let entry = table[words[lane] as usize % table.len()];
                words[lane] >>= entry & 0x3f;
                symbols[lane][step] = (entry >> 8) as u8;
            }
        }
        for lane in 0..STREAMS {
            streams[lane].plain[done * SYMBOLS_A_WORD..][..SYMBOLS_A_WORD]
                .copy_from_slice(&symbols[lane]);
            let behind = words[lane].leading_zeros();
            at[lane] += (behind / 8) as usize;
            used[lane] = behind % 8;
        }
        done += 1;
    }
    for (lane, stream) in streams.iter_mut().enumerate() {
        let plain = std::mem::take(&mut stream.plain);
        *stream = Stream {
            bits: &stream.bits[at[lane]..],
            used: used[lane] as usize,
            plain: &mut plain[done * SYMBOLS_A_WORD..],
        };
    }
}
