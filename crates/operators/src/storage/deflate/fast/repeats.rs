//! Where an item repeats itself.

use std::hint::select_unpredictable;

/// Plain bytes of a block: with what its repeats may reach back to, as many as 16 bits count.
pub(super) const BLOCK_BYTES: usize = DISTANCE_MAX;
/// The furthest that a repeat may reach back (RFC 1951, 3.2.5).
const DISTANCE_MAX: usize = 1 << 15;
/// The shortest repeat that is looked for, and what is hashed.
const LENGTH_MIN: usize = 4;
/// The longest there is.
const LENGTH_MAX: usize = 258;
/// A search reads so far, and leaves what is nearer to the end as literals.
const MARGIN: usize = 17;
/// Bits of a hash.
const HASH_BITS: u32 = 14;
/// Of a short item.
const HASH_BITS_MIN: u32 = 9;
/// Words of a repeat that are noted behind its first: of most there are no more, and so many take no decision.
const NOTED: usize = 3;
/// Repeats of a block, at most.
const REPEATS_MAX: usize = BLOCK_BYTES / LENGTH_MIN;

/// So many literals, then a repeat.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Repeat {
    pub(super) literals: u32,
    pub(super) length: u16,
    pub(super) distance: u16,
}

/// The repeats of one block after the other, and where to look for more.
pub(super) struct Repeats {
    /// Where each hash was seen last, counted from the window's begin; what was not seen is there. Small enough for the first cache.
    seen: Box<[u16; 1 << HASH_BITS]>,
    found: Box<[Repeat; REPEATS_MAX]>,
    count: usize,
    /// Of a hash, the bits that count.
    mask: usize,
}

impl Repeats {
    pub(super) fn new() -> Self {
        let boxed = "as long as its type says";
        Self {
            seen: vec![0; 1 << HASH_BITS].try_into().expect(boxed),
            found: vec![Repeat::default(); REPEATS_MAX]
                .try_into()
                .expect(boxed),
            count: 0,
            mask: 0,
        }
    }

    /// Begins an item of so many bytes, which takes a part of the table alone if it is short: less to clear.
    pub(super) fn start(&mut self, len: usize) {
        let bits = (len.max(2) - 1).ilog2() + 2;
        let bits = bits.clamp(HASH_BITS_MIN, HASH_BITS);
        self.mask = (1 << bits) - 1;
        self.seen[..=self.mask].fill(0);
    }

    /// What was found last.
    pub(super) fn found(&self) -> &[Repeat] {
        &self.found[..self.count]
    }

    /// Finds the repeats of `plain[from..to]`, which may reach back before `from`. Blocks come in order, all but the last as long as
    /// [`BLOCK_BYTES`] says.
    ///
    /// What is found cannot be foreseen, so as little as possible is decided by branches: one for each two positions.
    pub(super) fn find(&mut self, plain: &[u8], from: usize, to: usize) {
        let window = from.saturating_sub(DISTANCE_MAX);
        if window > 0 {
            let seen = &mut self.seen[..=self.mask];
            seen.iter_mut()
                .for_each(|at| *at = at.saturating_sub(BLOCK_BYTES as u16));
        }
        let plain = &plain[window..to];
        let mut at = from - window;
        let mut unsaid = at;
        let mut seen = Seen {
            at: &mut self.seen,
            mask: self.mask,
        };
        let mut count = 0;
        while at + MARGIN <= plain.len() {
            let here = word(plain, at);
            let first = seen.replace(here as u32, at);
            let second = seen.replace((here >> 8) as u32, at + 1);
            let here = differs(plain, at, first);
            let next = differs(plain, at + 1, second);
            if (here as u32).min(next as u32) != 0 {
                at += 2;
                continue;
            }
            let is_first = here as u32 == 0;
            let start = at + usize::from(!is_first);
            let distance = start - select_unpredictable(is_first, first, second);
            for at in start + 1..start + 1 + NOTED {
                seen.replace(quarter(plain, at), at);
            }
            let length = match select_unpredictable(is_first, here, next) {
                0 => length(plain, start, distance),
                differs => (differs.trailing_zeros() / 8) as usize,
            };
            self.found[count] = Repeat {
                literals: (start - unsaid) as u32,
                length: length as u16,
                distance: distance as u16,
            };
            count += 1;
            at = start + length;
            unsaid = at;
        }
        self.count = count;
    }
}

/// Where each hash was seen last.
struct Seen<'a> {
    at: &'a mut [u16; 1 << HASH_BITS],
    /// Of a hash, the bits that count.
    mask: usize,
}

impl Seen<'_> {
    /// Where the hash of `word` was seen last, at or before `at`; from now on, that is `at`.
    #[inline(always)]
    fn replace(&mut self, word: u32, at: usize) -> usize {
        let hash = (word.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS)) as usize;
        std::mem::replace(&mut self.at[hash & self.mask], at as u16).into()
    }
}

/// What differs between the sixteen bytes from `at` and from `before`. The first four always do if a repeat may not reach so far.
#[inline(always)]
fn differs(plain: &[u8], at: usize, before: usize) -> u128 {
    let is_near = (at - before).wrapping_sub(1) < DISTANCE_MAX;
    double(plain, at) ^ double(plain, before) | u128::from(!is_near)
}

/// The four bytes from `at`.
#[inline(always)]
fn quarter(plain: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(plain[at..at + 4].try_into().expect("four"))
}

/// The eight bytes from `at`.
#[inline(always)]
fn word(plain: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(plain[at..at + 8].try_into().expect("eight"))
}

/// The sixteen bytes from `at`.
#[inline(always)]
fn double(plain: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(plain[at..at + 16].try_into().expect("sixteen"))
}

/// How many bytes from `at` on are as `distance` before; at least sixteen are.
#[inline(always)]
fn length(plain: &[u8], at: usize, distance: usize) -> usize {
    let most = (plain.len() - at).min(LENGTH_MAX);
    let mut length = 16;
    while length + 8 <= most {
        let differs = word(plain, at + length) ^ word(plain, at + length - distance);
        if differs != 0 {
            return length + (differs.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    while length < most && plain[at + length] == plain[at + length - distance] {
        length += 1;
    }
    length
}
