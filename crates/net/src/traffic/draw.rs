//! Random numbers by number: what a key and an index determine, without the ones before.

use dpb_core::random::SplitMix64;

/// The step of SplitMix64's state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `n`th number of the SplitMix64 generator whose seed is `key`, counted from 0.
#[inline(always)]
pub(super) fn draw(key: u64, n: u64) -> u64 {
    SplitMix64::new(key.wrapping_add(n.wrapping_mul(STEP))).next_u64()
}

/// `bits` as a number in `0..n`; the bias is below `n / 2^64`.
#[inline(always)]
pub(super) fn below(bits: u64, n: u64) -> u64 {
    ((u128::from(bits) * u128::from(n)) >> 64) as u64
}

/// `share` as the number below which 64 random bits lie with that probability.
pub(super) fn threshold(share: f64) -> u64 {
    // The product saturates at the largest number, which all but one in 2^64 are below.
    (share * 2f64.powi(64)) as u64
}

/// A divisor that is known beforehand: a multiplication and a correction in place of a division, which costs as much as all else of a packet's flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisor {
    by: u64,
    /// The largest whole number below 2^64, divided by `by`.
    reciprocal: u64,
}

impl Divisor {
    /// `by` is not zero.
    pub(super) fn new(by: u64) -> Self {
        Self {
            by,
            reciprocal: u64::MAX / by,
        }
    }

    pub(super) fn value(self) -> u64 {
        self.by
    }

    /// Quotient and remainder.
    #[inline(always)]
    pub(super) fn divide(self, n: u64) -> (u64, u64) {
        // Right, or one too low: the reciprocal misses less than one in 2^64 of any n.
        let quotient = ((u128::from(n) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = n - quotient * self.by;
        match rest >= self.by {
            true => (quotient + 1, rest - self.by),
            false => (quotient, rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn any_number_is_that_of_the_sequence() {
        let mut random = SplitMix64::new(1_234_567);
        for n in 0..1000 {
            assert_eq!(draw(1_234_567, n), random.next_u64());
        }
    }

    proptest! {
        #[test]
        fn quotients_are_those_of_a_division(n: u64, by in prop_oneof![1u64.., 1u64..2000]) {
            for n in [n, n >> 24, 0, by - 1, by, u64::MAX] {
                prop_assert_eq!(Divisor::new(by).divide(n), (n / by, n % by));
            }
        }
    }

    #[test]
    fn shares_are_kept() {
        for share in [0.0, 0.25, 0.5, 1.0] {
            let limit = threshold(share);
            let hits = (0..100_000).filter(|n| draw(9, *n) < limit).count();
            assert!((hits as f64 / 1e5 - share).abs() < 0.005, "{share}: {hits}");
        }
        assert!((0..10_000).all(|n| below(draw(3, n), 7) < 7));
    }
}
