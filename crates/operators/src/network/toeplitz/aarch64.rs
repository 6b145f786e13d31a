//! Armv8-A with PMULL: a word of the tuple times 63 bits of the key.
//!
//! Bit *b* of the hash is the sum over the bits *i* of a word of tuple bit *i* times key bit *i + b*: a product of
//! polynomials, if the key's bits are taken in the opposite order, whose coefficients from 31 on are the hash's bits from
//! its highest on. One multiplication a word, and one reversal of 32 bits for all words together.
#![allow(unsafe_code)]

use std::arch::aarch64::vmull_p64;

use dpb_core::HashTuple;

use super::Key;
use crate::isa::ArmCrc;

/// The key's bits from each word on, in the opposite order.
pub(super) struct Windows {
    proof: ArmCrc,
    windows: [u64; 9],
    words: usize,
}

impl Windows {
    pub(super) fn new(proof: ArmCrc, key: &Key, tuple: HashTuple) -> Self {
        Self {
            proof,
            windows: std::array::from_fn(|word| key.window(4 * word).reverse_bits()),
            words: tuple.bytes() / 4,
        }
    }

    pub(super) fn hash_all(&self, tuples: &[u8], hashes: &mut [[u8; 4]]) {
        let ArmCrc { .. } = self.proof;
        // SAFETY: `ArmCrc`, which `proof` is, exists only where PMULL does.
        unsafe {
            match self.words {
                2 => self.hash_each::<2>(tuples, hashes),
                3 => self.hash_each::<3>(tuples, hashes),
                8 => self.hash_each::<8>(tuples, hashes),
                _ => self.hash_each::<9>(tuples, hashes),
            }
        }
    }

    #[target_feature(enable = "aes,neon")]
    fn hash_each<const WORDS: usize>(&self, tuples: &[u8], hashes: &mut [[u8; 4]]) {
        let (words, _) = tuples.as_chunks::<4>();
        let (tuples, _) = words.as_chunks::<WORDS>();
        for (tuple, hash) in tuples.iter().zip(hashes) {
            let mut product = 0;
            for (word, window) in tuple.iter().zip(&self.windows) {
                product ^= vmull_p64(u64::from(u32::from_be_bytes(*word)), *window);
            }
            *hash = ((product >> 31) as u32).reverse_bits().to_le_bytes();
        }
    }
}
