//! The decoder: a table of all 11-bit prefixes, eight streams at a time.
//!
//! A decoder of one stream waits for itself: where a code starts is known when the code before it is. Eight streams give
//! the core eight such chains at once. A word's highest set bit marks how many of its bits are used up, so that a symbol costs a
//! mask, a load, two shifts and a store.

use dpb_core::JobError;

use super::lengths::{BITS_MAX, Lengths, read_lengths};
use super::{HEADER_BYTES, Kind, STREAMS, streams};

/// Tables have entries for as many bits at least.
const BITS_MIN: usize = 8;

/// For each sequence of as many bits as the longest code has: the symbol that starts there, above the bits of its code.
pub(super) type Table = [u16; 1 << BITS_MAX];

/// Decodes `item` into `slot`; says how many bytes.
///
/// Inlined, so that who has faster shifts has them in all of it.
#[inline(always)]
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
#[inline(always)]
fn coded<'a>(block: &'a [u8], plain: &mut [u8], table: &mut Table) -> Result<&'a [u8], JobError> {
    let mut symbols = [0; 256];
    let (lengths, used, table_len) = read_lengths(block, &mut symbols)?;
    let bits = fill(table, &lengths, used);
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
            plain,
            ..Stream::default()
        };
    }
    let streams = &mut streams[..count];
    match bits {
        ..=BITS_MIN => finish::<{ 1 << BITS_MIN }, { 56 / BITS_MIN }>(streams, table),
        9 => finish::<{ 1 << 9 }, { 56 / 9 }>(streams, table),
        10 => finish::<{ 1 << 10 }, { 56 / 10 }>(streams, table),
        _ => finish::<{ 1 << BITS_MAX }, { 56 / BITS_MAX }>(streams, table),
    }?;
    Ok(rest)
}

/// Fills the entries of complete `lengths`, of the symbols `used`; says how many bits the longest code has, but
/// [`BITS_MIN`] at least.
fn fill(table: &mut Table, lengths: &Lengths, used: &[u8]) -> usize {
    let mut ends = [0; BITS_MAX + 2];
    for &symbol in used {
        ends[usize::from(lengths[usize::from(symbol)]) + 1] += 1;
    }
    for length in 1..ends.len() {
        ends[length] += ends[length - 1];
    }
    // Each is where its length starts, until the symbols, shorter codes first, have moved it to where it ends.
    let mut symbols = [0; 256];
    for &symbol in used {
        let end = &mut ends[usize::from(lengths[usize::from(symbol)])];
        symbols[*end] = symbol;
        *end += 1;
    }
    let longest = (1..=BITS_MAX).find(|&length| ends[length] == used.len());
    let bits = longest.unwrap_or(BITS_MAX).max(BITS_MIN);
    let (mut start, mut code) = (0, 0u16);
    // What stands for the shorter prefixes stands for the longer ones too, whatever the next bit is.
    for length in 1..=bits {
        for &symbol in &symbols[start..ends[length]] {
            let prefix = code.reverse_bits() >> (16 - length);
            table[usize::from(prefix)] = u16::from(symbol) << 8 | length as u16;
            code += 1;
        }
        code <<= 1;
        start = ends[length];
        if length < bits {
            table.copy_within(..1 << length, 1 << length);
        }
    }
    bits
}

/// One stream, and how far it is.
#[derive(Default)]
struct Stream<'a> {
    bits: &'a [u8],
    /// Bits decoded.
    at: usize,
    plain: &'a mut [u8],
    /// Symbols decoded.
    done: usize,
}

/// Decodes all streams with a table of `ENTRIES` entries, of whose longest codes a word surely holds `SYMBOLS`: side by side as long
/// as each has words to read and to fill, then each to its end.
#[inline(always)]
fn finish<const ENTRIES: usize, const SYMBOLS: usize>(
    streams: &mut [Stream<'_>],
    table: &Table,
) -> Result<(), JobError> {
    let table = table
        .first_chunk::<ENTRIES>()
        .expect("codes have at most 11 bits");
    if let Ok(streams) = <&mut [Stream<'_>; STREAMS]>::try_from(&mut *streams) {
        together::<ENTRIES, SYMBOLS>(streams, table);
    }
    for stream in streams {
        stream.finish(table)?;
    }
    Ok(())
}

/// The part that all streams have words for.
#[inline(always)]
fn together<const ENTRIES: usize, const SYMBOLS: usize>(
    streams: &mut [Stream<'_>; STREAMS],
    table: &[u16; ENTRIES],
) {
    // Streams advance one after another, but none waits for the one before it. Loops, because `all` is not always inlined.
    loop {
        for stream in &mut *streams {
            if !stream.word::<ENTRIES, SYMBOLS>(table) {
                return;
            }
        }
    }
}

impl Stream<'_> {
    /// Decodes as many symbols as a word surely holds; says whether there was such a word, and room for them.
    #[inline(always)]
    fn word<const ENTRIES: usize, const SYMBOLS: usize>(&mut self, table: &[u16; ENTRIES]) -> bool {
        /// Moves down with the bits, so that the zeros above it are the bits used up.
        const MARK: u64 = 1 << 63;
        let bytes = self
            .bits
            .get(self.at / 8..)
            .and_then(|rest| rest.first_chunk());
        let plain = self
            .plain
            .get_mut(self.done..)
            .and_then(|rest| rest.first_chunk_mut::<SYMBOLS>());
        let (Some(bytes), Some(plain)) = (bytes, plain) else {
            return false;
        };
        let mut word = (u64::from_le_bytes(*bytes) | MARK) >> (self.at % 8);
        for symbol in plain {
            let entry = table[word as usize % ENTRIES];
            word >>= entry & 0x3f;
            *symbol = (entry >> 8) as u8;
        }
        self.at = (self.at & !7) + word.leading_zeros() as usize;
        self.done += SYMBOLS;
        true
    }

    /// Decodes one symbol at a time to the end, which must be the end of the bits too.
    fn finish<const ENTRIES: usize>(&mut self, table: &[u16; ENTRIES]) -> Result<(), JobError> {
        let mut at = self.at;
        for plain in &mut self.plain[self.done..] {
            let rest = self.bits.get(at / 8..).unwrap_or_default();
            let mut word = [0; 4];
            let len = rest.len().min(4);
            word[..len].copy_from_slice(&rest[..len]);
            let prefix = u32::from_le_bytes(word) >> (at % 8);
            let entry = table[prefix as usize % ENTRIES];
            *plain = (entry >> 8) as u8;
            at += usize::from(entry & 0xff);
        }
        let is_used = at.div_ceil(8) == self.bits.len();
        let is_padded = is_used && (at.is_multiple_of(8) || self.bits[at / 8] >> (at % 8) == 0);
        is_padded.then_some(()).ok_or(JobError::Malformed)
    }
}
