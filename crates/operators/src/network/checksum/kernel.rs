//! The checksum's kernel, one for all instruction sets: of one run of bytes, of a run while it is copied, of sixteen items
//! together, of a few items, of a batch.
//!
//! Adding up across lanes takes longer than reading a short item. Sixteen are reduced together: each step joins two lines to
//! one that holds half as many lanes of both, so that fifteen steps end with the sixteen sums side by side.
//!
//! Loops stand where `map` or `from_fn` would: what takes a closure may be compiled without the instructions.

use dpb_core::Batch;

use super::lines::{Lines, Read, Task};
use super::{BLOCK_BYTES, GROUP, Group, fold};

/// The sum of the little-endian words of some bytes, its carries not added back in.
pub(super) struct Sum<'a>(pub(super) &'a [u8]);

impl Task for Sum<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<L: Lines>(self, lines: L) -> u64 {
        sum(lines, self.0)
    }
}

/// The checksums of sixteen items, little endian.
pub(super) struct OfGroup<'a>(pub(super) &'a Group<'a>);

impl Task for OfGroup<'_> {
    type Output = [u16; GROUP];

    #[inline(always)]
    fn run<L: Lines>(self, lines: L) -> [u16; GROUP] {
        let sums = sums(lines, &self.0.bytes);
        checksums(lines, lines.add(sums, lines.lanes(&self.0.plus)))
    }
}

/// The checksum of each of a few items, into its slot.
pub(super) struct OfFew<'a>(pub(super) &'a Batch<'a>, pub(super) &'a mut [[u8; 2]]);

impl Task for OfFew<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lines>(self, lines: L) {
        for (item, slot) in self.0.iter().zip(self.1) {
            *slot = checksum(lines, item);
        }
    }
}

/// The checksum of each item, into its slot.
pub(super) struct OfBatch<'a>(pub(super) &'a Batch<'a>, pub(super) &'a mut [[u8; 2]]);

impl Task for OfBatch<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lines>(self, lines: L) {
        let Self(batch, slots) = self;
        let slots = &mut slots[..batch.len()];
        match (batch.contiguous(), batch.offsets()) {
            (Some((_, 0)), _) => slots.fill([0xff; 2]),
            (Some((items, len)), _) => equal(lines, items, len, slots),
            // Without the question for each item how it is described.
            (None, Some((src, offsets))) => {
                let item = |i: usize| &src[offsets[i] as usize..offsets[i + 1] as usize];
                lines.enter(Mixed(item, slots));
            }
            (None, None) => lines.enter(Mixed(|i| batch.item(i), slots)),
        }
    }
}

/// Items of `len` bytes each, which is not zero.
#[inline(always)]
fn equal<L: Lines>(lines: L, src: &[u8], len: usize, slots: &mut [[u8; 2]]) {
    let (groups, rest) = slots.as_chunks_mut::<GROUP>();
    let (grouped, mut src) = src.split_at(groups.len() * GROUP * len);
    match len {
        _ if groups.is_empty() => {}
        20 => lines.enter(HeadersOf20(grouped, groups)),
        40 => lines.enter(HeadersOf40(grouped, groups)),
        _ => lines.enter(EqualGroups(grouped, len, groups)),
    }
    for slot in rest {
        let (item, behind) = src.split_at(len);
        *slot = checksum(lines, item);
        src = behind;
    }
}

struct HeadersOf20<'a>(&'a [u8], &'a mut [[[u8; 2]; GROUP]]);

impl Task for HeadersOf20<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lines>(self, lines: L) {
        for (items, group) in self.0.as_chunks().0.iter().zip(self.1) {
            put(lines, lines.headers_of_20(items), group);
        }
    }
}

struct HeadersOf40<'a>(&'a [u8], &'a mut [[[u8; 2]; GROUP]]);

impl Task for HeadersOf40<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lines>(self, lines: L) {
        for (items, group) in self.0.as_chunks().0.iter().zip(self.1) {
            put(lines, lines.headers_of_40(items), group);
        }
    }
}

/// Sixteen items of a length at a time. (`chunks_exact` would divide.)
struct EqualGroups<'a>(&'a [u8], usize, &'a mut [[[u8; 2]; GROUP]]);

impl Task for EqualGroups<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lines>(self, lines: L) {
        let Self(mut rest, len, groups) = self;
        for group in groups {
            let mut items: [&[u8]; GROUP] = [&[]; GROUP];
            for item in &mut items {
                (*item, rest) = rest.split_at(len);
            }
            put(lines, sums(lines, &items), group);
        }
    }
}

/// Items of any length; the function says where each is.
struct Mixed<'a, F>(F, &'a mut [[u8; 2]]);

impl<'i, F: Fn(usize) -> &'i [u8]> Task for Mixed<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lines>(self, lines: L) {
        let Self(item, slots) = self;
        let (groups, rest) = slots.as_chunks_mut::<GROUP>();
        let grouped = groups.len() * GROUP;
        for (first, group) in (0..).step_by(GROUP).zip(groups) {
            let mut items: [&[u8]; GROUP] = [&[]; GROUP];
            for (i, place) in items.iter_mut().enumerate() {
                *place = item(first + i);
            }
            put(lines, sums(lines, &items), group);
        }
        for (i, slot) in (grouped..).zip(rest) {
            *slot = checksum(lines, item(i));
        }
    }
}

#[inline(always)]
fn checksum<L: Lines>(lines: L, item: &[u8]) -> [u8; 2] {
    (!fold(sum(lines, item))).to_le_bytes()
}

#[inline(always)]
fn put<L: Lines>(lines: L, sums: L::Line, slots: &mut [[u8; 2]; GROUP]) {
    for (slot, checksum) in slots.iter_mut().zip(checksums(lines, sums)) {
        *slot = checksum.to_le_bytes();
    }
}

/// Each sum's carries added back in, and complemented: checksums, little endian.
#[inline(always)]
fn checksums<L: Lines>(lines: L, sums: L::Line) -> [u16; GROUP] {
    lines.complements(lines.folded(lines.folded(sums)))
}

/// The sum of the little-endian words of `data`, its carries not added back in.
#[inline(always)]
pub(crate) fn sum<L: Lines>(lines: L, data: &[u8]) -> u64 {
    if data.len() <= BLOCK_BYTES {
        Read::of::<_, false>(lines, data, &mut []).sum(lines)
    } else {
        lines.enter(Blocks(data))
    }
}

/// [`sum`] of more than a block.
struct Blocks<'a>(&'a [u8]);

impl Task for Blocks<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<L: Lines>(self, lines: L) -> u64 {
        let mut sum = 0;
        for block in self.0.chunks(BLOCK_BYTES) {
            sum += Read::of::<_, false>(lines, block, &mut []).sum(lines);
        }
        sum
    }
}

/// [`sum`] of at most a block, while `src` is copied to `dst`, which is as long.
#[inline(always)]
pub(crate) fn copy<L: Lines>(lines: L, src: &[u8], dst: &mut [u8]) -> u64 {
    Read::of::<_, true>(lines, src, dst).sum(lines)
}

/// The sums of sixteen items, in 32 bits each.
#[inline(always)]
fn sums<L: Lines>(lines: L, items: &[&[u8]; GROUP]) -> L::Line {
    let mut longest = 0;
    for item in items {
        longest = longest.max(item.len());
    }
    match longest {
        0..=64 => lines.short(items, longest),
        65..=BLOCK_BYTES => blocks(lines, items),
        _ => longer(lines, items),
    }
}

/// Items of at most a block.
#[inline(always)]
fn blocks<L: Lines>(lines: L, items: &[&[u8]; GROUP]) -> L::Line {
    let mut pairs = [lines.zero(); 8];
    let (mut lows, mut shifts) = ([0; GROUP], [0; GROUP]);
    for i in 0..8 {
        let low = Read::of::<_, false>(lines, items[i], &mut []);
        let high = Read::of::<_, false>(lines, items[i + 8], &mut []);
        pairs[i] = lines.join_halves(low.lanes, high.lanes);
        (lows[i], lows[i + 8]) = (low.low, high.low);
        (shifts[i], shifts[i + 8]) = (low.shift, high.shift);
    }
    let sums = lines.add(join(lines, pairs), lines.lanes(&lows));
    lines.shifted(lines.folded(sums), &shifts)
}

/// Items of a line each.
#[inline(always)]
pub(super) fn whole<L: Lines>(lines: L, items: &[&[u8]; GROUP]) -> L::Line {
    let mut pairs = [lines.zero(); 8];
    for i in 0..8 {
        let mut sums = [lines.zero(); 2];
        for (sum, item) in sums.iter_mut().zip([items[i], items[i + 8]]) {
            *sum = lines.plus(*sum, lines.load(item.first_chunk().expect("a line")));
        }
        pairs[i] = lines.join_halves(sums[0], sums[1]);
    }
    lines.add(join(lines, pairs), lines.lanes(&[L::LOW; GROUP]))
}

/// Items of any length, one by one.
#[inline(always)]
fn longer<L: Lines>(lines: L, items: &[&[u8]; GROUP]) -> L::Line {
    let mut sums = [0; GROUP];
    for (place, item) in sums.iter_mut().zip(items) {
        *place = u32::from(fold(lines.enter(Sum(item))));
    }
    lines.lanes(&sums)
}

/// Sixteen sums, item *i* in the low half of line *i* and item *i* + 8 in its high half, brought to one lane each.
#[inline(always)]
pub(super) fn join<L: Lines>(lines: L, pairs: [L::Line; 8]) -> L::Line {
    let [a, b, c, d, e, f, g, h] = pairs;
    lines.join_lanes([
        lines.join_quarters(a, e),
        lines.join_quarters(b, f),
        lines.join_quarters(c, g),
        lines.join_quarters(d, h),
    ])
}
