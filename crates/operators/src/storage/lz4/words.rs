//! Our own encoder, for any CPU: what [`repeats`](crate::storage::repeats) finds in an item.

use dpb_core::JobError;

use super::{LAST_LITERALS, MATCH_BYTES_MIN, compressed_bytes_max};
use crate::storage::repeats::{Format, Repeat, Table, write_repeats};

/// Encodes `plain` into `slot`; says how many bytes.
///
/// # Errors
/// [`JobError::DstTooShort`] if the slot has fewer than [`compressed_bytes_max`] bytes.
pub(super) fn encode(plain: &[u8], slot: &mut [u8], seen: &mut Table) -> Result<usize, JobError> {
    if slot.len() < compressed_bytes_max(plain.len()) {
        return Err(JobError::DstTooShort);
    }
    // A small table is cleared sooner, and stays in the cache.
    let (len, start) = match plain.len() {
        0..=1024 => write_repeats::<Sequences, 11, 4, false>(plain, slot, 0, seen),
        1025..=4096 => write_repeats::<Sequences, 12, 4, false>(plain, slot, 0, seen),
        4097..=0x1_0000 => write_repeats::<Sequences, 13, 5, false>(plain, slot, 0, seen),
        _ => write_repeats::<Sequences, 13, 5, true>(plain, slot, 0, seen),
    };
    Ok(literals(&plain[start..], 0, slot, len))
}

/// Literals and the repeat behind them are one sequence.
struct Sequences;

impl Format for Sequences {
    const LAST_LITERALS: usize = LAST_LITERALS;
    const PATIENCE: usize = 64;
    const LOOKS_BACK: bool = true;

    #[inline(always)]
    fn write(block: &[u8], start: usize, repeat: Repeat, slot: &mut [u8], mut len: usize) -> usize {
        let (count, more) = (repeat.at - start, repeat.count - MATCH_BYTES_MIN);
        let nibble = more.min(15) as u8;
        if count < 15 {
            // A copy of a known length takes no call. What is copied behind the literals is written over.
            let room = &mut slot[len..len + 17];
            room[0] = (count << 4) as u8 | nibble;
            room[1..].copy_from_slice(&block[start..start + 16]);
            len += 1 + count;
        } else {
            len = literals(&block[start..repeat.at], nibble, slot, len);
        }
        slot[len..len + 2].copy_from_slice(&(repeat.offset as u16).to_le_bytes());
        len += 2;
        match more.checked_sub(15) {
            Some(rest) => rest_of_length(rest, slot, len),
            None => len,
        }
    }
}

/// Writes a sequence up to its offset: a token with the low half `nibble`, and literals.
#[cold]
#[inline(never)]
fn literals(literals: &[u8], nibble: u8, slot: &mut [u8], mut len: usize) -> usize {
    slot[len] = (literals.len().min(15) << 4) as u8 | nibble;
    len += 1;
    if let Some(rest) = literals.len().checked_sub(15) {
        len = rest_of_length(rest, slot, len);
    }
    slot[len..len + literals.len()].copy_from_slice(literals);
    len + literals.len()
}

/// Writes what a length has beyond the 15 that its half of the token says.
#[cold]
#[inline(never)]
fn rest_of_length(mut rest: usize, slot: &mut [u8], mut len: usize) -> usize {
    while rest >= 255 {
        slot[len] = 255;
        len += 1;
        rest -= 255;
    }
    slot[len] = rest as u8;
    len + 1
}
