//! A set of positions as disjoint ranges: a receiver's data out of order, a sender's data that was acknowledged selectively.

use std::collections::VecDeque;

/// Positions from `start` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Ranges in ascending order that neither overlap nor touch. Memory grows to the most ranges there ever were, and is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    ranges: VecDeque<Range>,
    bytes: u64,
}

impl Ranges {
    /// Adds the positions from `start` up to `end`; the number of those that were not in it.
    pub(crate) fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let first = self.ranges.partition_point(|range| range.end < start);
        let mut merged = Range { start, end };
        let mut known = 0;
        let mut behind = first;
        while let Some(range) = self.ranges.get(behind)
            && range.start <= end
        {
            merged.start = merged.start.min(range.start);
            merged.end = merged.end.max(range.end);
            known += range.end - range.start;
            behind += 1;
        }
        if behind == first {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            if behind > first + 1 {
                self.ranges.drain(first + 1..behind);
            }
        }
        let added = merged.end - merged.start - known;
        self.bytes += added;
        added
    }

    /// Removes the positions below `position`; their number.
    pub(super) fn remove_below(&mut self, position: u64) -> u64 {
        let mut removed = 0;
        while let Some(first) = self.ranges.front_mut()
            && first.start < position
        {
            if first.end > position {
                removed += position - first.start;
                first.start = position;
                break;
            }
            removed += first.end - first.start;
            self.ranges.pop_front();
        }
        self.bytes -= removed;
        removed
    }

    /// The range that holds `position`.
    pub(super) fn around(&self, position: u64) -> Option<Range> {
        let at = self.ranges.partition_point(|range| range.end <= position);
        let range = *self.ranges.get(at)?;
        (range.start <= position).then_some(range)
    }

    /// The first range that ends behind `position`.
    pub(super) fn from(&self, position: u64) -> Option<Range> {
        let at = self.ranges.partition_point(|range| range.end <= position);
        self.ranges.get(at).copied()
    }

    /// The lowest range.
    pub(super) fn first(&self) -> Option<Range> {
        self.ranges.front().copied()
    }

    /// The highest range.
    pub(super) fn last(&self) -> Option<Range> {
        self.ranges.back().copied()
    }

    /// The ranges from the highest down.
    pub(super) fn descending(&self) -> impl Iterator<Item = Range> + '_ {
        self.ranges.iter().rev().copied()
    }

    /// The number of positions in it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if no position is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Removes all.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::random::SplitMix64;
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn is_the_set_that_a_standard_set_is() {
        for seed in 0..300 {
            let mut random = SplitMix64::new(seed);
            let mut ranges = Ranges::default();
            let mut set: BTreeSet<u64> = BTreeSet::new();
            let mut floor = 0u64;
            for _ in 0..60 {
                if random.below(5) == 0 {
                    floor += random.below(30) as u64;
                    let before = set.len();
                    set = set.split_off(&floor);
                    assert_eq!(ranges.remove_below(floor), (before - set.len()) as u64);
                } else {
                    let start = floor + random.below(150) as u64;
                    let end = start + random.below(12) as u64;
                    let before = set.len();
                    set.extend(start..end);
                    assert_eq!(ranges.insert(start, end), (set.len() - before) as u64);
                }
                check(&ranges, &set);
            }
        }
    }

    fn check(ranges: &Ranges, set: &BTreeSet<u64>) {
        let all: Vec<Range> = ranges.ranges.iter().copied().collect();
        assert!(all.windows(2).all(|pair| pair[0].end < pair[1].start));
        let flat: Vec<u64> = all
            .iter()
            .flat_map(|range| range.start..range.end)
            .collect();
        assert!(flat.iter().eq(set.iter()));
        assert_eq!(ranges.bytes(), set.len() as u64);
        for position in 0..200 {
            let around = ranges.around(position);
            assert_eq!(around.is_some(), set.contains(&position));
            let next = set.range(position..).next().copied();
            let from = ranges.from(position);
            assert_eq!(from.map(|range| range.start.max(position)), next);
        }
    }
}
