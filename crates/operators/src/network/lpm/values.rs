//! Sets of the values that a byte of an address can have.

/// A set of byte values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Values([u64; 4]);

impl Values {
    /// All there are.
    pub(super) const ALL: Self = Self([u64::MAX; 4]);

    /// `count` values from `first` on: a power of two, and a multiple of it.
    pub(super) fn block(first: usize, count: usize) -> Self {
        let mut words = [0; 4];
        match count / 64 {
            0 => words[first / 64] = ((1 << count) - 1) << (first % 64),
            whole => words[first / 64..][..whole].fill(u64::MAX),
        }
        Self(words)
    }

    /// These values without those of `other`.
    pub(super) fn without(self, other: Self) -> Self {
        let mut words = self.0;
        for (word, other) in words.iter_mut().zip(other.0) {
            *word &= !other;
        }
        Self(words)
    }

    /// Whether `value` is one of them.
    pub(super) fn has(self, value: u8) -> bool {
        self.0[usize::from(value / 64)] >> (value % 64) & 1 == 1
    }

    /// The first and the last value of each run of values side by side, from the lowest on.
    pub(super) fn runs(self) -> impl Iterator<Item = (u8, u8)> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let first = self.next(from, 0)?;
            let end = self.next(first, u64::MAX).unwrap_or(256);
            from = end;
            Some((first as u8, (end - 1) as u8))
        })
    }

    /// The lowest value from `from` on that is in the set, or with `flip` of all ones that is not.
    fn next(self, from: usize, flip: u64) -> Option<usize> {
        let mut mask = u64::MAX << (from % 64);
        for word in from / 64..4 {
            let found = (self.0[word] ^ flip) & mask;
            if found != 0 {
                return Some(word * 64 + found.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_values_they_say() {
        for log2 in 0..=8 {
            let count = 1 << log2;
            for first in (0..256).step_by(count) {
                let values = Values::block(first, count);
                let right = |value: u8| (first..first + count).contains(&value.into());
                assert!((0..=255).all(|value| values.has(value) == right(value)));
                let last = (first + count - 1) as u8;
                assert_eq!(values.runs().collect::<Vec<_>>(), [(first as u8, last)]);
            }
        }
    }

    #[test]
    fn runs_are_cut_by_what_is_taken_out() {
        let values = Values::block(0, 256)
            .without(Values::block(0, 2))
            .without(Values::block(64, 64))
            .without(Values::block(130, 1))
            .without(Values::block(255, 1));
        let runs: Vec<_> = values.runs().collect();
        assert_eq!(runs, [(2, 63), (128, 129), (131, 254)]);
        assert_eq!(values.without(values).runs().next(), None);
    }
}
