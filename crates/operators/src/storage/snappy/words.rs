//! Our own encoder, for any CPU: what [`repeats`](crate::storage::repeats) finds in blocks of 64 KiB.
//!
//! The two forms of a repeat are both made, and one is chosen, for a CPU would often guess wrong which.

use dpb_core::JobError;

use super::{compressed_bytes_max, put_plain_len};
use crate::storage::repeats::{Format, Repeat, Table, write_repeats};

/// Plain bytes that are encoded by themselves.
const BLOCK: usize = 1 << 16;

/// Encodes `plain` into `slot`; says how many bytes.
///
/// # Errors
/// [`JobError::DstTooShort`] if the slot has fewer than [`compressed_bytes_max`] bytes.
pub(super) fn encode(plain: &[u8], slot: &mut [u8], seen: &mut Table) -> Result<usize, JobError> {
    if slot.len() < compressed_bytes_max(plain.len()) {
        return Err(JobError::DstTooShort);
    }
    let mut len = put_plain_len(plain.len(), slot);
    for block in plain.chunks(BLOCK) {
        let start;
        // A small table is cleared sooner, and stays in the cache.
        (len, start) = match block.len() {
            0..=1024 => write_repeats::<Elements, 10, 4, false>(block, slot, len, seen),
            1025..=4096 => write_repeats::<Elements, 12, 4, false>(block, slot, len, seen),
            _ => write_repeats::<Elements, 14, 4, false>(block, slot, len, seen),
        };
        if start < block.len() {
            len = literals(block, start, block.len(), slot, len);
        }
    }
    Ok(len)
}

/// Literals and repeats are elements of their own.
struct Elements;

impl Format for Elements {
    const LAST_LITERALS: usize = 0;
    const PATIENCE: usize = 32;
    const LOOKS_BACK: bool = false;

    #[inline(always)]
    fn write(block: &[u8], start: usize, repeat: Repeat, slot: &mut [u8], len: usize) -> usize {
        let len = match start < repeat.at {
            true => literals(block, start, repeat.at, slot, len),
            false => len,
        };
        repeats(repeat.offset, repeat.count, slot, len)
    }
}

/// Writes the literals from one place to another, of which there is one at least.
#[inline(always)]
fn literals(block: &[u8], start: usize, end: usize, slot: &mut [u8], len: usize) -> usize {
    let (count, rest) = (end - start, &block[start..]);
    // Copies of a known length take no call. What is copied behind the literals lies in the slot, and is no part of the stream unless it is written over.
    if count <= 16 && rest.len() >= 16 {
        short::<16>(rest, count, slot, len)
    } else if count <= 60 && rest.len() >= 64 {
        short::<64>(rest, count, slot, len)
    } else {
        exactly(&block[start..end], slot, len)
    }
}

/// Writes the first `count` of the `N` first bytes of `rest`.
#[inline(always)]
fn short<const N: usize>(rest: &[u8], count: usize, slot: &mut [u8], len: usize) -> usize {
    let room = &mut slot[len..len + 1 + N];
    room[0] = (count as u8 - 1) << 2;
    room[1..].copy_from_slice(&rest[..N]);
    len + 1 + count
}

/// Writes literals, one at least, and nothing behind them.
#[cold]
#[inline(never)]
fn exactly(literals: &[u8], slot: &mut [u8], len: usize) -> usize {
    let last = literals.len() - 1;
    let (tag, more) = match last {
        0..60 => ((last as u8) << 2, 0),
        60..256 => (60 << 2, 1),
        _ => (61 << 2, 2),
    };
    let (head, rest) = slot[len..].split_at_mut(1 + more);
    head[0] = tag;
    head[1..].copy_from_slice(&last.to_le_bytes()[..more]);
    rest[..literals.len()].copy_from_slice(literals);
    len + 1 + more + literals.len()
}

/// Writes repeats of `count` bytes together, each of four at least, from `offset` back.
#[inline(always)]
fn repeats(offset: usize, mut count: usize, slot: &mut [u8], mut len: usize) -> usize {
    if count > 64 {
        while count >= 68 {
            len = repeat(offset, 64, slot, len);
            count -= 64;
        }
        if count > 64 {
            len = repeat(offset, 60, slot, len);
            count -= 60;
        }
    }
    repeat(offset, count, slot, len)
}

/// Writes a repeat of at most 64 bytes.
#[inline(always)]
fn repeat(offset: usize, count: usize, slot: &mut [u8], len: usize) -> usize {
    let (offset, count) = (offset as u32, count as u32);
    let in_two = 1 | (count - 4) << 2 | (offset >> 8) << 5 | (offset & 0xff) << 8;
    let in_three = 2 | (count - 1) << 2 | offset << 8;
    let is_short = (offset < 1 << 11) & (count < 12);
    let bytes = if is_short { in_two } else { in_three };
    slot[len..len + 4].copy_from_slice(&bytes.to_le_bytes());
    len + 3 - usize::from(is_short)
}
