//! x86-64 with AVX-512: sixteen messages, a word of each in a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{K, Sha256};
use crate::isa::Avx512;
use crate::security::hash::avx512::{States32, sha2, swap_32, words_32};
use crate::security::hash::lanes::Compress;

impl Compress<Sha256, 64, 16> for Avx512 {
    type States = States32<8>;

    fn fill(self, state: &[u32; 8]) -> Self::States {
        States32::fill(state)
    }

    fn set(self, states: &mut Self::States, lane: usize, state: &[u32; 8]) {
        states.set(lane, state);
    }

    fn state(self, states: &Self::States, lane: usize) -> [u32; 8] {
        states.state(lane)
    }

    fn compress(self, states: &mut Self::States, blocks: [&[[u8; 64]]; 16]) {
        // SAFETY: `Avx512` exists only where these instructions do.
        unsafe { compress(states, &blocks) }
    }
}

sha2::lanes! {
    u32, States32, 16 lanes of 64 bytes,
    words_32, swap_32, _mm512_add_epi32, _mm512_ror_epi32, _mm512_srli_epi32, _mm512_ternarylogic_epi32, _mm512_set1_epi32,
    steps: 16 * 4,
    sums: [2, 13, 22], [6, 11, 25],
    schedule: [7, 18, 3], [17, 19, 10],
}
