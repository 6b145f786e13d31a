//! Keyed permutations of numbers: neighbours do not stay neighbours, and nothing is drawn twice.
//!
//! A generator that counts addresses up makes flows that hash, prefetch and compress better than real ones. A permutation has none of that
//! order, is computed from the number alone, and can be inverted.

use dpb_core::random::SplitMix64;

/// Rounds in each half. Two each are a four-round Feistel network, which Luby and Rackoff ("How to construct pseudorandom permutations",
/// SIAM J. Computing 17(2), 1988) showed to be enough if the round functions are; these ones are for spreading, not for secrecy.
const ROUNDS: usize = 2;

/// A permutation of `0..len`, by a key. A *tweak* chooses one of a family: each gives another order.
///
/// The halves may differ in width and are not swapped: one is changed by a function of the other in turn. Numbers that fall behind the end are
/// permuted again until they fall inside ("cycle walking"), which takes less than two passes on average.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    right_bits: u32,
    left_mask: u64,
    right_mask: u64,
    keys: [[u64; 2]; ROUNDS],
}

impl Permutation {
    /// A permutation of the numbers `0..len`, at least one.
    ///
    /// # Panics
    /// If `len` is zero.
    pub fn new(len: u64, key: u64) -> Self {
        assert!(len > 0, "a permutation of nothing");
        let bits = (u64::BITS - (len - 1).leading_zeros()).max(2);
        let mut permutation = Self::of_bits(bits, key);
        permutation.len = len;
        permutation
    }

    /// A permutation of all numbers of so many bits, 2 to 63.
    ///
    /// # Panics
    /// If there are fewer or more bits.
    pub fn of_bits(bits: u32, key: u64) -> Self {
        assert!((2..=63).contains(&bits), "{bits} bits");
        let mut random = SplitMix64::new(key);
        let (left_bits, right_bits) = (bits.div_ceil(2), bits / 2);
        Self {
            len: 1 << bits,
            right_bits,
            left_mask: (1 << left_bits) - 1,
            right_mask: (1 << right_bits) - 1,
            keys: std::array::from_fn(|_| [random.next_u64(), random.next_u64()]),
        }
    }

    /// The numbers that are permuted are those below this one.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never: there is one number at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The number that takes the place of `n`, which is below [`Permutation::len`].
    #[inline(always)]
    pub fn apply(&self, n: u64, tweak: u64) -> u64 {
        debug_assert!(n < self.len, "{n} of {}", self.len);
        let (mut at, tweak) = (n, spread(tweak));
        loop {
            let (mut left, mut right) = (at >> self.right_bits, at & self.right_mask);
            for [first, second] in self.keys {
                left ^= round(right, first ^ tweak) & self.left_mask;
                right ^= round(left, second ^ tweak) & self.right_mask;
            }
            at = left << self.right_bits | right;
            if at < self.len {
                return at;
            }
        }
    }

    /// The number whose place `n` takes: the inverse of [`Permutation::apply`].
    pub fn invert(&self, n: u64, tweak: u64) -> u64 {
        debug_assert!(n < self.len, "{n} of {}", self.len);
        let (mut at, tweak) = (n, spread(tweak));
        loop {
            let (mut left, mut right) = (at >> self.right_bits, at & self.right_mask);
            for [first, second] in self.keys.into_iter().rev() {
                right ^= round(left, second ^ tweak) & self.right_mask;
                left ^= round(right, first ^ tweak) & self.left_mask;
            }
            at = left << self.right_bits | right;
            if at < self.len {
                return at;
            }
        }
    }
}

/// Neighbouring tweaks, far apart.
#[inline(always)]
fn spread(tweak: u64) -> u64 {
    tweak.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// 32 bits of a product that all bits of the half have a part in. Four rounds of one multiplication each spread neighbours as well as rounds of two
/// did, in half the time.
#[inline(always)]
fn round(half: u64, key: u64) -> u64 {
    (half ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each number once, and back again, whatever the length.
        #[test]
        fn every_number_once(len in 1u64..3000, key: u64, tweak: u64) {
            let permutation = Permutation::new(len, key);
            let mut seen = vec![false; len as usize];
            for n in 0..len {
                let at = permutation.apply(n, tweak);
                prop_assert!(!std::mem::replace(&mut seen[at as usize], true));
                prop_assert_eq!(permutation.invert(at, tweak), n);
            }
        }

        #[test]
        fn wide_numbers_come_back(bits in 2u32..=63, key: u64, tweak: u64, n: u64) {
            let permutation = Permutation::of_bits(bits, key);
            let n = n & (permutation.len() - 1);
            let at = permutation.apply(n, tweak);
            prop_assert!(at < permutation.len());
            prop_assert_eq!(permutation.invert(at, tweak), n);
        }
    }

    /// Neighbours land anywhere: the distances of 2^16 of them are spread over 16 classes evenly (chi-square, 15 degrees of freedom; 37.7 is
    /// passed by one in a thousand).
    #[test]
    fn neighbours_do_not_stay_together() {
        for (seed, len) in [(1, 1u64 << 40), (2, 1_000_003), (3, (1 << 16) + 1)] {
            let permutation = Permutation::new(len, seed);
            let mut classes = [0u32; 16];
            let n = 1 << 16;
            for i in 0..n {
                let [a, b] = [i % (len - 1), i % (len - 1) + 1].map(|n| permutation.apply(n, 5));
                let distance = (b + len - a) % len;
                classes[(u128::from(distance) * 16 / u128::from(len)) as usize] += 1;
            }
            let expected = f64::from(1 << 12);
            let chi: f64 = classes
                .iter()
                .map(|count| (f64::from(*count) - expected).powi(2) / expected)
                .sum();
            assert!(chi < 37.7, "{len}: {chi} of {classes:?}");
        }
    }

    #[test]
    fn tweaks_give_other_orders() {
        let permutation = Permutation::new(1000, 1);
        let same = (0..1000).filter(|n| permutation.apply(*n, 1) == permutation.apply(*n, 2));
        assert!(same.count() < 10);
    }
}
