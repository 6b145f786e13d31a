//! The steps over vectors: several messages' words in each.

use super::{K, Sha512};
use crate::security::hash::sha2;
use crate::security::hash::vectors::{Steps, Vectors};

impl Steps<128, 8> for Sha512 {
    type Word = u64;
    const BIG_ENDIAN: bool = true;
    const MARK: u64 = 1 << 63;
    const OUTER_BITS: [u64; 2] = [0, (128 + 64) * 8];

    #[inline(always)]
    fn steps<V: Vectors<u64, N>, const N: usize, const SETS: usize>(
        v: V,
        now: &mut [[V::V; SETS]; 8],
        words: &mut [[V::V; 16]; SETS],
    ) {
        sha2::steps(v, now, words, &K);
    }
}
