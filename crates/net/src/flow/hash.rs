//! A keyed hash of keys: folded products, as wyhash and foldhash have them.

use super::Key;

/// What a table's hashes depend on. Without it nobody can choose keys that meet.
#[derive(Clone, Copy)]
pub struct HashKey([u64; 3]);

impl HashKey {
    /// Of 64 bits that a seed or the system's random numbers give.
    pub fn new(seed: u64) -> Self {
        let mut random = dpb_core::random::SplitMix64::new(seed);
        // Odd, so that no product loses its factor.
        Self(std::array::from_fn(|_| random.next_u64() | 1))
    }

    /// The hash of `key`.
    #[inline(always)]
    pub fn hash<const N: usize>(&self, key: &Key<N>) -> u64 {
        let Self([first, second, third]) = *self;
        let mut sum = third;
        for pair in key.0.chunks(2) {
            let high = pair.get(1).copied().unwrap_or(third);
            sum = folded(pair[0] ^ first ^ sum, high ^ second);
        }
        folded(sum, third)
    }
}

impl std::fmt::Debug for HashKey {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("HashKey(..)")
    }
}

/// Both halves of the product, one over the other.
#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
