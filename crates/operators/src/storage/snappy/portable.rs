//! The oracle: Snappy's raw format from its description, a byte at a time, and an encoder that finds what is four bytes long
//! and was seen last.

use dpb_core::JobError;

use super::{plain_len, put_plain_len};
use crate::storage::Out;

/// The plain bytes of `item`, if there are at most `bytes_max`.
pub(super) fn decode(item: &[u8], bytes_max: usize) -> Result<Vec<u8>, JobError> {
    let (len, elements) = plain_len(item)?;
    if len > bytes_max {
        return Err(JobError::DstTooShort);
    }
    let mut plain = Vec::new();
    let mut bytes = elements.iter().copied();
    while let Some(tag) = bytes.next() {
        let mut number = |of_bytes: u32| -> Result<usize, JobError> {
            let mut number = 0;
            for at in 0..of_bytes {
                number |= usize::from(bytes.next().ok_or(JobError::Malformed)?) << (8 * at);
            }
            Ok(number)
        };
        let high = usize::from(tag >> 2);
        let (offset, count) = match tag & 3 {
            0 if high < 60 => (0, high + 1),
            0 => (0, number(high as u32 - 59)? + 1),
            1 => ((high >> 3 << 8) + number(1)?, (high & 7) + 4),
            2 => (number(2)?, high + 1),
            _ => (number(4)?, high + 1),
        };
        // Nothing may be longer than was said.
        let is_repeat = tag & 3 != 0;
        if count > len - plain.len() || is_repeat && (offset == 0 || offset > plain.len()) {
            return Err(JobError::Malformed);
        }
        for _ in 0..count {
            plain.push(if is_repeat {
                plain[plain.len() - offset]
            } else {
                bytes.next().ok_or(JobError::Malformed)?
            });
        }
    }
    if plain.len() == len {
        Ok(plain)
    } else {
        Err(JobError::Malformed)
    }
}

/// The place at which each hash of four bytes was seen last, and one more.
pub(super) type Table = [u32; 1 << HASH_BITS];
const HASH_BITS: u32 = 12;

/// Encodes `plain` into `slot`; says how many bytes.
pub(super) fn encode(plain: &[u8], slot: &mut [u8], table: &mut Table) -> Result<usize, JobError> {
    table.fill(0);
    let mut out = Out::new(slot);
    out.plain_len(plain.len())?;
    let (mut at, mut literals) = (0, 0);
    while let Some(word) = plain.get(at..).and_then(|rest| rest.first_chunk()) {
        let hash = u32::from_le_bytes(*word).wrapping_mul(2_654_435_761) >> (32 - HASH_BITS);
        let seen = std::mem::replace(&mut table[hash as usize], at as u32 + 1) as usize;
        let is_near = seen > 0 && at - (seen - 1) <= usize::from(u16::MAX);
        if !is_near || plain[seen - 1..seen + 3] != *word {
            at += 1;
            continue;
        }
        let from = seen - 1;
        let most = plain.len() - at;
        let same = (0..most)
            .take_while(|&i| plain[from + i] == plain[at + i])
            .count();
        out.literals(&plain[literals..at])?;
        out.repeat(at - from, same)?;
        at += same;
        literals = at;
    }
    out.literals(&plain[literals..])?;
    Ok(out.len)
}

impl Out<'_> {
    fn plain_len(&mut self, len: usize) -> Result<(), JobError> {
        let mut bytes = [0; 10];
        let count = put_plain_len(len, &mut bytes);
        self.push(&bytes[..count])
    }

    fn literals(&mut self, literals: &[u8]) -> Result<(), JobError> {
        let Some(last) = literals.len().checked_sub(1) else {
            return Ok(());
        };
        match last {
            0..60 => self.push(&[(last as u8) << 2])?,
            _ => {
                // As few bytes as the number has.
                let bytes = 4 - (last as u32).leading_zeros() as usize / 8;
                self.push(&[(59 + bytes as u8) << 2])?;
                self.push(&(last as u32).to_le_bytes()[..bytes])?;
            }
        }
        self.push(literals)
    }

    fn repeat(&mut self, offset: usize, mut len: usize) -> Result<(), JobError> {
        let [low, high] = (offset as u16).to_le_bytes();
        while len > 0 {
            let part = len.min(64);
            self.push(&[(part as u8 - 1) << 2 | 2, low, high])?;
            len -= part;
        }
        Ok(())
    }
}
