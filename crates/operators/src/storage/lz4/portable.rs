//! The oracle: LZ4's block format from its description, a sequence at a time, and an encoder that finds what is four bytes long and
//! was seen last.

use dpb_core::JobError;

use super::{LAST_LITERALS, MATCH_BYTES_MIN, MATCH_START_MIN};
use crate::storage::Out;

/// The plain bytes of `item`, if there are at most `bytes_max`.
pub(super) fn decode(item: &[u8], bytes_max: usize) -> Result<Vec<u8>, JobError> {
    let mut plain = vec![0; sequences(item, bytes_max, |_, _, _| {})?];
    decode_into(item, &mut plain)?;
    Ok(plain)
}

/// Writes the plain bytes of `item`, if there is room; says how many.
pub(super) fn decode_into(item: &[u8], slot: &mut [u8]) -> Result<usize, JobError> {
    let room = slot.len();
    // Nothing is written of an item that turns out to be malformed.
    sequences(item, room, |_, _, _| {})?;
    let mut at = 0;
    sequences(item, room, |literals, offset, repeated| {
        slot[at..][..literals.len()].copy_from_slice(literals);
        at += literals.len();
        for to in at..at + repeated {
            slot[to] = slot[to - offset];
        }
        at += repeated;
    })
}

/// Gives each sequence of `item` to `each`: its literals, how far back its repeat lies, and how long that is, none of the last. Returns the
/// number of plain bytes, which are at most `bytes_max`.
pub(super) fn sequences(
    item: &[u8],
    bytes_max: usize,
    mut each: impl FnMut(&[u8], usize, usize),
) -> Result<usize, JobError> {
    let (mut rest, mut len) = (item, 0);
    let grow = |len: &mut usize, by: usize| {
        *len += by;
        (*len <= bytes_max)
            .then_some(())
            .ok_or(JobError::DstTooShort)
    };
    loop {
        let token = next(&mut rest)?;
        let count = length(token >> 4, &mut rest)?;
        grow(&mut len, count)?;
        let (literals, behind) = rest.split_at_checked(count).ok_or(JobError::Malformed)?;
        rest = behind;
        let Ok(low) = next(&mut rest) else {
            // The last sequence has literals alone. What its token says of a repeat means nothing, to other decoders either.
            each(literals, 0, 0);
            return Ok(len);
        };
        let offset = usize::from(u16::from_le_bytes([low, next(&mut rest)?]));
        let repeated = length(token & 15, &mut rest)? + MATCH_BYTES_MIN;
        if offset == 0 || offset > len {
            return Err(JobError::Malformed);
        }
        grow(&mut len, repeated)?;
        each(literals, offset, repeated);
    }
}

fn next(bytes: &mut &[u8]) -> Result<u8, JobError> {
    let (&first, rest) = bytes.split_first().ok_or(JobError::Malformed)?;
    *bytes = rest;
    Ok(first)
}

/// A length that starts as `nibble`, and goes on in whole bytes if that is 15.
fn length(nibble: u8, bytes: &mut &[u8]) -> Result<usize, JobError> {
    let mut length = usize::from(nibble);
    if nibble == 15 {
        loop {
            let more = next(bytes)?;
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    Ok(length)
}

/// The place at which each hash of four bytes was seen last, and one more.
pub(super) type Table = [u32; 1 << HASH_BITS];
const HASH_BITS: u32 = 12;

/// Encodes `plain` into `slot`; says how many bytes.
pub(super) fn encode(plain: &[u8], slot: &mut [u8], table: &mut Table) -> Result<usize, JobError> {
    table.fill(0);
    let mut out = Out::new(slot);
    let (mut at, mut literals) = (0, 0);
    while at + MATCH_START_MIN <= plain.len() {
        let word = u32::from_le_bytes(plain[at..at + 4].try_into().expect("four"));
        let entry = &mut table[(word.wrapping_mul(2_654_435_761) >> (32 - HASH_BITS)) as usize];
        let seen = std::mem::replace(entry, at as u32 + 1) as usize;
        let is_match = seen > 0
            && at - (seen - 1) <= usize::from(u16::MAX)
            && plain[seen - 1..seen + 3] == plain[at..at + 4];
        if !is_match {
            at += 1;
            continue;
        }
        let from = seen - 1;
        let most = plain.len() - LAST_LITERALS - at;
        let same = (0..most)
            .take_while(|&i| plain[from + i] == plain[at + i])
            .count();
        out.sequence(&plain[literals..at], Some((at - from, same)))?;
        at += same;
        literals = at;
    }
    out.sequence(&plain[literals..], None)?;
    Ok(out.len)
}

impl Out<'_> {
    /// Literals, then a repeat: how far back, and how long.
    fn sequence(
        &mut self,
        literals: &[u8],
        repeat: Option<(usize, usize)>,
    ) -> Result<(), JobError> {
        let length = repeat.map_or(0, |(_, len)| len - MATCH_BYTES_MIN);
        self.push(&[(literals.len().min(15) as u8) << 4 | length.min(15) as u8])?;
        self.rest_of(literals.len())?;
        self.push(literals)?;
        if let Some((offset, _)) = repeat {
            self.push(&(offset as u16).to_le_bytes())?;
            self.rest_of(length)?;
        }
        Ok(())
    }

    /// Writes the part of a length that does not fit its nibble.
    fn rest_of(&mut self, length: usize) -> Result<(), JobError> {
        let Some(mut rest) = length.checked_sub(15) else {
            return Ok(());
        };
        while rest >= 255 {
            self.push(&[255])?;
            rest -= 255;
        }
        self.push(&[rest as u8])
    }
}
