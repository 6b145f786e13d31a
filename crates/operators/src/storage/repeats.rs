//! The search for repeats that the encoders of Snappy and LZ4 share: greedy, by a table that says for each hash of a few bytes where such bytes
//! were seen last. For any CPU.
//!
//! A table's entries have 16 bits, so repeats lie less than 64 KiB back. Where nothing repeats, ever fewer places are looked up. No place near the end
//! of a block is looked up, so that twelve bytes can be read from each that is.
//!
//! Two things take most of the time: branches that a CPU guesses wrong, one or two a repeat, and the wait for a repeat's length, without which the next place
//! is not known. So formats choose without branches where they can, literals are copied in one piece of a length that the compiler knows, eight bytes are
//! compared at once, and tables are small enough for the first cache.
//!
//! A slower method looks up 64 places first, and then asks which of them repeat. The CPU guesses nearly every branch right there, but places inside of repeats
//! are looked up too. It had 0.7 to 0.8 times the speed (Snappy, measured, in a loop outside of dpb, on an AMD EPYC of family 25, model 1).

#![allow(unsafe_code)]

/// A format: the way it writes repeats, and the way they are looked for.
pub(super) trait Format {
    /// The bytes at a block's end that are no part of a repeat.
    const LAST_LITERALS: usize;
    /// After so many places in vain every second one is looked up, after as many again every third, and so on.
    const PATIENCE: usize;
    /// True if repeats may begin up to eight bytes before the place at which they were found. That costs time, and makes streams shorter.
    const LOOKS_BACK: bool;

    /// Writes the literals of `block` from `start` on, and the repeat behind them, after the first `len` bytes of `slot`; says how many bytes there are then.
    fn write(block: &[u8], start: usize, repeat: Repeat, slot: &mut [u8], len: usize) -> usize;
}

/// Bytes of a block that are the same as others before them.
pub(super) struct Repeat {
    /// The place of the first.
    pub(super) at: usize,
    /// The distance of the others, which is not 0.
    pub(super) offset: usize,
    /// Their number: four at least.
    pub(super) count: usize,
}

/// The 16 low bits of the place at which each hash was seen last.
pub(super) type Table = [u16; 1 << HASH_BITS_MAX];
const HASH_BITS_MAX: u32 = 14;

/// At least so many bytes follow each place that is looked up, its own included, and can be in a repeat.
const MARGIN: usize = 12;

/// Writes the repeats of `block`, with the literals before them, after the first `len` bytes of `slot`. Returns how many bytes there are then, and where the
/// literals begin that are behind the last repeat.
///
/// A hash has `BITS` bits, at most 14, and is of `HASHED` bytes, four or five: with five, short repeats are passed over, and there are fewer to write.
/// `IS_LONG` says that the block has more than 64 KiB.
// Lengths are handed on and given back, so that none has to be in memory.
#[inline(always)]
pub(super) fn write_repeats<F: Format, const BITS: u32, const HASHED: u32, const IS_LONG: bool>(
    block: &[u8],
    slot: &mut [u8],
    mut len: usize,
    seen: &mut Table,
) -> (usize, usize) {
    const { assert!(BITS <= HASH_BITS_MAX && (HASHED == 4 || HASHED == 5)) };
    const { assert!(F::LAST_LITERALS <= 5 && F::PATIENCE > 0) };
    assert!(IS_LONG || block.len() <= 1 << 16);
    let margin = MARGIN + F::LAST_LITERALS;
    if block.len() < margin {
        return (len, 0);
    }
    // From here on the table has only places before the one that is looked up: the first of the block, or one that was entered below.
    seen[..1 << BITS].fill(0);
    let (limit, end) = (block.len() - margin, block.len() - F::LAST_LITERALS);
    // Where the literals begin that are not written yet, and the place to be looked up next.
    let (mut start, mut next) = (0, 1);
    loop {
        let (mut at, mut step) = (next, F::PATIENCE);
        let mut offset;
        loop {
            if at > limit {
                return (len, start);
            }
            // SAFETY: `at` is at most `limit`, so it has `MARGIN` bytes.
            let eight = unsafe { long(block, at) };
            offset = enter::<IS_LONG>(&mut seen[hash::<BITS, HASHED>(eight)], at);
            // SAFETY: `offset` is at most `at`, and places before `at` have more bytes.
            if offset > 0 && unsafe { word(block, at - offset) } == eight as u32 {
                break;
            }
            at += step / F::PATIENCE;
            step += step / F::PATIENCE;
        }
        let mut before = 0;
        if F::LOOKS_BACK && at - offset >= 8 {
            // SAFETY: there are eight bytes before both places.
            let differ = unsafe { long(block, at - 8) ^ long(block, at - offset - 8) };
            before = (differ.leading_zeros() as usize / 8).min(at - start);
        }
        // Repeats often follow one another.
        loop {
            // SAFETY: `at` is at most `limit`, and `at - offset` is before it; `end` is `MARGIN` bytes behind `limit`.
            let count = unsafe { same(block, at - offset, at, end) };
            let repeat = Repeat {
                at: at - before,
                offset,
                count: count + before,
            };
            len = F::write(block, start, repeat, slot, len);
            at += count;
            (start, before) = (at, 0);
            if at >= limit {
                return (len, start);
            }
            // SAFETY: `at` is below `limit`, so the place before it has more than `MARGIN` bytes.
            let eight = unsafe { long(block, at - 1) };
            seen[hash::<BITS, HASHED>(eight)] = (at - 1) as u16;
            offset = enter::<IS_LONG>(&mut seen[hash::<BITS, HASHED>(eight >> 8)], at);
            // SAFETY: `offset` is at most `at`, and places before `at` have more bytes.
            if offset == 0 || unsafe { word(block, at - offset) } != (eight >> 8) as u32 {
                next = at + 1;
                break;
            }
        }
    }
}

/// Enters a place, and returns how far back the last one with this hash lies: from 1 to `at`. Where there is none, the block's first place stands for it. In a long
/// block an entry may mean a place that lies whole multiples of 64 KiB farther back, and the distance may be 0. The bytes are compared, so no harm follows.
#[inline(always)]
fn enter<const IS_LONG: bool>(entry: &mut u16, at: usize) -> usize {
    let last = std::mem::replace(entry, at as u16);
    match IS_LONG {
        true => usize::from((at as u16).wrapping_sub(last)),
        false => at - usize::from(last),
    }
}

#[inline(always)]
fn hash<const BITS: u32, const HASHED: u32>(eight: u64) -> usize {
    match HASHED {
        4 => ((eight as u32).wrapping_mul(0x1e35_a7bd) >> (32 - BITS)) as usize,
        _ => ((eight << (64 - 8 * HASHED)).wrapping_mul(889_523_592_379) >> (64 - BITS)) as usize,
    }
}

/// The number of bytes before `end` that are the same from both places on; the first four are.
///
/// # Safety
/// `from` is before `at`, and `at` at least twelve bytes before `end`, which is in the block.
#[inline(always)]
unsafe fn same(block: &[u8], from: usize, at: usize, end: usize) -> usize {
    // SAFETY: there are eight bytes behind the first four, as the caller says. Few repeats are longer.
    let differ = unsafe { long(block, from + 4) ^ long(block, at + 4) };
    if differ != 0 {
        return 4 + differ.trailing_zeros() as usize / 8;
    }
    let mut count = 12;
    while at + count + 8 <= end {
        // SAFETY: the block has eight bytes from there on, and more from places before.
        let differ = unsafe { long(block, from + count) ^ long(block, at + count) };
        if differ != 0 {
            return count + differ.trailing_zeros() as usize / 8;
        }
        count += 8;
    }
    while at + count < end && block[from + count] == block[at + count] {
        count += 1;
    }
    count
}

/// The four bytes from a place on. (With checks, items of 1 KiB took 1.2 times as long: measured in a test of Snappy, on an AMD EPYC of family 25, model 1.)
///
/// # Safety
/// The block has them.
#[inline(always)]
unsafe fn word(block: &[u8], at: usize) -> u32 {
    debug_assert!(at + 4 <= block.len());
    // SAFETY: as the caller says; a read needs no alignment.
    u32::from_le(unsafe { block.as_ptr().add(at).cast::<u32>().read_unaligned() })
}

/// The eight bytes from a place on.
///
/// # Safety
/// The block has them.
#[inline(always)]
unsafe fn long(block: &[u8], at: usize) -> u64 {
    debug_assert!(at + 8 <= block.len());
    // SAFETY: as the caller says; a read needs no alignment.
    u64::from_le(unsafe { block.as_ptr().add(at).cast::<u64>().read_unaligned() })
}

/// Inputs for each format's encoder, in whose blocks repeats and literals lie wherever they can. `check` encodes and decodes each.
#[cfg(test)]
pub(super) mod inputs {
    use dpb_core::{Input, JobError};

    use super::Table;
    use crate::input;

    /// What `encode` writes into a slot of so many bytes. They are not zeros, so that what it fails to write is seen.
    pub(in crate::storage) fn stream(
        slot_bytes: usize,
        encode: impl FnOnce(&mut [u8]) -> Result<usize, JobError>,
    ) -> Vec<u8> {
        let mut slot = vec![0xa5; slot_bytes];
        let len = encode(&mut slot).expect("room");
        slot.truncate(len);
        slot
    }

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        Input::random(seed, len, 1).bytes
    }

    /// Four bytes and more that come again at each of the last 30 places of items of these lengths, 16 at least.
    pub(in crate::storage) fn repeats_at_the_end(
        lens: impl Iterator<Item = usize>,
        check: impl Fn(&[u8]),
    ) {
        for len in lens {
            let noise = noise(5, len);
            for start in len.saturating_sub(30).max(5)..=len - 4 {
                for from in [0, 1, start - 4] {
                    let mut plain = noise.clone();
                    let count = (len - start).min(start - from);
                    plain.copy_within(from..from + count, start);
                    check(&plain);
                }
            }
        }
    }

    /// Repeats of these lengths, from as far back as each offset says.
    pub(in crate::storage) fn repeats_from_near_and_far(
        offsets: &[usize],
        counts: &[usize],
        check: impl Fn(&[u8]),
    ) {
        for (offset, &count) in offsets
            .iter()
            .flat_map(|at| counts.iter().map(move |n| (at, n)))
        {
            let head = noise(6, count);
            let mut plain = vec![9];
            plain.extend(&head);
            // One long repeat up to where the other one begins, so that this place is looked up.
            plain.resize((1 + offset).max(plain.len()), 0);
            plain.extend(&head);
            plain.extend(noise(7, 20));
            check(&plain);
        }
    }

    /// So many literals with a repeat behind them, and as many behind it.
    pub(in crate::storage) fn literals(counts: impl Iterator<Item = usize>, check: impl Fn(&[u8])) {
        for count in counts {
            let mut plain = noise(8, count);
            plain.extend([3; 100]);
            plain.extend(noise(9, count));
            check(&plain);
        }
    }

    /// Items one after another with one table: each has the stream that it has with a table of its own.
    pub(in crate::storage) fn with_one_table(encode: impl Fn(&[u8], &mut Table) -> Vec<u8>) {
        let mut table = [0; _];
        for len in [100_000, 50, 1000, 3000, 20, 70_000, 200] {
            let plain = input::text(len as u64, len, 1).bytes;
            let alone = encode(&plain, &mut [0; _]);
            assert_eq!(encode(&plain, &mut table), alone, "{len}");
        }
    }

    /// Runs of short periods behind `padding` bytes: of each its first byte, its period and its length.
    pub(in crate::storage) fn runs(parts: &[(u8, usize, usize)], padding: usize) -> Vec<u8> {
        let mut plain = vec![1; padding];
        for &(start, period, count) in parts {
            plain.extend((0..count).map(|i| start.wrapping_add((i % period) as u8)));
        }
        plain
    }
}
