//! The steps over vectors: several messages' words in each.

use super::{K, Sha256};
use crate::security::hash::sha2;
use crate::security::hash::vectors::{Steps, Vectors};

impl Steps<64, 8> for Sha256 {
    type Word = u32;
    const BIG_ENDIAN: bool = true;
    const MARK: u32 = 1 << 31;
    const OUTER_BITS: [u32; 2] = [0, (64 + 32) * 8];

    #[inline(always)]
    fn steps<V: Vectors<u32, N>, const N: usize, const SETS: usize>(
        v: V,
        now: &mut [[V::V; SETS]; 8],
        words: &mut [[V::V; 16]; SETS],
    ) {
        sha2::steps(v, now, words, &K);
    }
}
