//! Which units of eight bytes of a datagram have come.

use std::ops::Range;

/// One bit for each eight bytes of the longest datagram.
#[derive(Clone, Debug)]
pub(super) struct Units([u64; Units::WORDS]);

impl Units {
    const WORDS: usize = 65_536 / 8 / 64;

    pub(super) const fn none() -> Self {
        Self([0; Self::WORDS])
    }

    pub(super) fn has(&self, unit: usize) -> bool {
        self.0
            .get(unit / 64)
            .is_some_and(|word| word >> (unit % 64) & 1 != 0)
    }

    pub(super) fn has_any(&self, range: Range<usize>) -> bool {
        masks(range).any(|(word, mask)| self.0[word] & mask != 0)
    }

    pub(super) fn has_all(&self, range: Range<usize>) -> bool {
        masks(range).all(|(word, mask)| self.0[word] & mask == mask)
    }

    pub(super) fn set(&mut self, range: Range<usize>) {
        for (word, mask) in masks(range) {
            self.0[word] |= mask;
        }
    }

    /// Clears the units up to `end`.
    pub(super) fn clear(&mut self, end: usize) {
        self.0[..end.div_ceil(64)].fill(0);
    }
}

/// The words that `range` touches, and its bits in each.
fn masks(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let words = range.start / 64..range.end.div_ceil(64).max(range.start / 64);
    words.filter_map(move |word| {
        let first = range.start.saturating_sub(word * 64);
        let last = range.end.saturating_sub(word * 64).min(64);
        (first < last).then(|| (word, (!0 >> (64 - (last - first))) << first))
    })
}
