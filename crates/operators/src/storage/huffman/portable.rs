//! The oracle of the decoder: bit by bit, from the format's description alone.

use dpb_core::JobError;

use super::lengths::{BITS_MAX, Lengths, read_lengths};
use super::{HEADER_BYTES, Kind, streams};

/// The plain bytes of `item`, if there are at most `bytes_max`.
pub(super) fn decode(item: &[u8], bytes_max: usize) -> Result<Vec<u8>, JobError> {
    let mut plain = Vec::new();
    let mut rest = item;
    while !rest.is_empty() {
        let ([kind, len @ ..], after) = rest
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(JobError::Malformed)?;
        let len = usize::from(u16::from_le_bytes(*len)) + 1;
        rest = match Kind::of(*kind)? {
            Kind::Stored => {
                let (bytes, after) = after.split_at_checked(len).ok_or(JobError::Malformed)?;
                plain.extend_from_slice(bytes);
                after
            }
            Kind::Run => {
                let (symbol, after) = after.split_first().ok_or(JobError::Malformed)?;
                plain.resize(plain.len() + len, *symbol);
                after
            }
            Kind::Coded => coded(after, len, &mut plain)?,
        };
        if plain.len() > bytes_max {
            return Err(JobError::DstTooShort);
        }
    }
    Ok(plain)
}

/// Decodes a coded block of `len` bytes; gives what follows it.
fn coded<'a>(block: &'a [u8], len: usize, plain: &mut Vec<u8>) -> Result<&'a [u8], JobError> {
    let (lengths, _, table) = read_lengths(block, &mut [0; 256])?;
    let code = Code::new(&lengths);
    let streams = streams(len);
    let (ends, mut rest) = block[table..]
        .split_at_checked(2 * streams)
        .ok_or(JobError::Malformed)?;
    let part = len.div_ceil(streams);
    for (stream, bytes) in ends.as_chunks().0.iter().enumerate() {
        let bytes = usize::from(u16::from_le_bytes(*bytes));
        let (bits, after) = rest.split_at_checked(bytes).ok_or(JobError::Malformed)?;
        rest = after;
        let symbols = part.min(len - stream * part);
        let mut at = 0;
        for _ in 0..symbols {
            plain.push(code.symbol(bits, &mut at)?);
        }
        let is_used = at.div_ceil(8) == bits.len();
        let is_padded = at % 8 == 0 || bits[at / 8] >> (at % 8) == 0;
        if !is_used || !is_padded {
            return Err(JobError::Malformed);
        }
    }
    Ok(rest)
}

/// A canonical code: of the codes of one length, each is one more than the one before it.
struct Code {
    /// Shorter codes first, then by symbol.
    symbols: Vec<u8>,
    /// The number of codes of each length.
    counts: [usize; BITS_MAX + 1],
}

impl Code {
    fn new(lengths: &Lengths) -> Self {
        let mut symbols: Vec<u8> = (0..=255).collect();
        symbols.retain(|&symbol| lengths[usize::from(symbol)] > 0);
        symbols.sort_by_key(|&symbol| lengths[usize::from(symbol)]);
        let mut counts = [0; BITS_MAX + 1];
        for &symbol in &symbols {
            counts[usize::from(lengths[usize::from(symbol)])] += 1;
        }
        Self { symbols, counts }
    }

    /// The symbol whose code starts at bit `at`, which moves behind it.
    fn symbol(&self, bits: &[u8], at: &mut usize) -> Result<u8, JobError> {
        // The first code of the current length, and the place of its symbol.
        let (mut first, mut place) = (0, 0);
        let mut read = 0;
        for &count in &self.counts[1..] {
            let byte = bits.get(*at / 8).ok_or(JobError::Malformed)?;
            read = read << 1 | usize::from(byte >> (*at % 8) & 1);
            *at += 1;
            first <<= 1;
            if read - first < count {
                return Ok(self.symbols[place + read - first]);
            }
            first += count;
            place += count;
        }
        unreachable!("a complete code ends")
    }
}
