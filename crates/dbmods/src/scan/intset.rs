//! Sets of integers as ranges: what a predicate on one column comes to.

/// Disjoint inclusive ranges, ascending, not adjacent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct IntSet(Vec<(i64, i64)>);

impl IntSet {
    /// Nothing.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// `lo..=hi`, nothing if `lo > hi`; ends beyond `i64` are cut off.
    pub(super) fn range(lo: i128, hi: i128) -> Self {
        let (min, max) = (i128::from(i64::MIN), i128::from(i64::MAX));
        let (lo, hi) = (lo.max(min), hi.min(max));
        if lo > hi {
            Self::none()
        } else {
            Self(vec![(lo as i64, hi as i64)])
        }
    }

    /// The ranges.
    pub(super) fn ranges(&self) -> &[(i64, i64)] {
        &self.0
    }

    /// The set of any ranges with `lo <= hi`.
    pub(super) fn from_ranges(mut ranges: Vec<(i64, i64)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
        for (lo, hi) in ranges {
            match merged.last_mut() {
                Some((_, end)) if *end == i64::MAX || lo <= *end + 1 => *end = (*end).max(hi),
                _ => merged.push((lo, hi)),
            }
        }
        Self(merged)
    }

    /// In this or in `other`.
    pub(super) fn union(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        Self::from_ranges(self.0)
    }

    /// In this and in `other`.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = Vec::new();
        while let (Some(&&(a_lo, a_hi)), Some(&&(b_lo, b_hi))) = (left.peek(), right.peek()) {
            let (lo, hi) = (a_lo.max(b_lo), a_hi.min(b_hi));
            if lo <= hi {
                common.push((lo, hi));
            }
            if a_hi < b_hi {
                left.next();
            } else {
                right.next();
            }
        }
        Self(common)
    }

    /// Not in this.
    pub(super) fn complement(&self) -> Self {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(i64::MIN);
        for &(lo, hi) in &self.0 {
            if let Some(start) = next
                && start < lo
            {
                gaps.push((start, lo - 1));
            }
            next = hi.checked_add(1);
        }
        gaps.extend(next.map(|start| (start, i64::MAX)));
        Self(gaps)
    }

    /// Returns true if `value` is in it.
    pub(super) fn contains(&self, value: i64) -> bool {
        let at = self.0.partition_point(|&(_, hi)| hi < value);
        self.0.get(at).is_some_and(|&(lo, _)| lo <= value)
    }

    /// The ranges that meet `lo..=hi`.
    pub(super) fn meeting(&self, lo: i64, hi: i64) -> &[(i64, i64)] {
        let start = self.0.partition_point(|&(_, end)| end < lo);
        let end = start + self.0[start..].partition_point(|&(start, _)| start <= hi);
        &self.0[start..end]
    }

    /// The answer for all of `lo..=hi` at once, if it is the same.
    pub(super) fn over(&self, lo: i64, hi: i64) -> Option<bool> {
        match self.meeting(lo, hi) {
            [] => Some(false),
            [(start, end)] if *start <= lo && hi <= *end => Some(true),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn sets() -> impl Strategy<Value = Vec<(i64, i64)>> {
        prop::collection::vec((-20i64..20, 0i64..6), 0..6)
            .prop_map(|ranges| ranges.into_iter().map(|(lo, n)| (lo, lo + n)).collect())
    }

    fn members(ranges: &[(i64, i64)]) -> BTreeSet<i64> {
        ranges.iter().flat_map(|&(lo, hi)| lo..=hi).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_sets_of_members(a in sets(), b in sets(), lo in -25i64..25, n in 0i64..10) {
            let (left, right) = (members(&a), members(&b));
            let (a, b) = (IntSet::from_ranges(a), IntSet::from_ranges(b));
            prop_assert!(a.ranges().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
            let (union, common) = (a.clone().union(b.clone()), a.intersection(&b));
            let complement = a.complement();
            for value in -30..30 {
                prop_assert_eq!(a.contains(value), left.contains(&value));
                prop_assert_eq!(union.contains(value), left.contains(&value) || right.contains(&value));
                prop_assert_eq!(common.contains(value), left.contains(&value) && right.contains(&value));
                prop_assert_eq!(complement.contains(value), !left.contains(&value));
            }
            prop_assert_eq!(complement.complement(), a.clone());
            let inside = (lo..=lo + n).filter(|value| left.contains(value)).count() as i64;
            let over = match inside { 0 => Some(false), all if all == n + 1 => Some(true), _ => None };
            prop_assert_eq!(a.over(lo, lo + n), over);
        }
    }

    #[test]
    fn ends_of_the_integers_are_no_special_case() {
        let all = IntSet::range(i128::MIN, i128::MAX);
        assert_eq!(all.complement(), IntSet::none());
        assert_eq!(IntSet::none().complement(), all);
        assert_eq!(
            IntSet::range(i128::MIN, 5).complement().ranges(),
            [(6, i64::MAX)]
        );
        assert_eq!(
            IntSet::range(0, i128::MAX).union(IntSet::range(i128::MIN, -1)),
            all
        );
        assert_eq!(IntSet::range(1, 0), IntSet::none());
    }
}
