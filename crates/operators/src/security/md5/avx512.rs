//! x86-64 with AVX-512: sixteen messages in a vector, and two such sets of messages, whose steps fill each other's waits.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{K, Md5};
use crate::isa::Avx512;
use crate::security::hash::avx512::{States32, words_32};
use crate::security::hash::lanes::Compress;

/// The four words of the states of `SETS` times sixteen messages.
type Vectors<const SETS: usize> = [[__m512i; SETS]; 4];

impl Compress<Md5, 64, 16> for Avx512 {
    type States = [States32<4>; 1];

    fn fill(self, state: &[u32; 4]) -> Self::States {
        [States32::fill(state)]
    }

    fn set(self, [states]: &mut Self::States, lane: usize, state: &[u32; 4]) {
        states.set(lane, state);
    }

    fn state(self, [states]: &Self::States, lane: usize) -> [u32; 4] {
        states.state(lane)
    }

    fn compress(self, states: &mut Self::States, blocks: [&[[u8; 64]]; 16]) {
        // SAFETY: `Avx512` exists only where these instructions do.
        unsafe { compress(states, [blocks]) }
    }
}

impl Compress<Md5, 64, 32> for Avx512 {
    type States = [States32<4>; 2];

    fn fill(self, state: &[u32; 4]) -> Self::States {
        [States32::fill(state); 2]
    }

    fn set(self, states: &mut Self::States, lane: usize, state: &[u32; 4]) {
        states[lane / 16].set(lane % 16, state);
    }

    fn state(self, states: &Self::States, lane: usize) -> [u32; 4] {
        states[lane / 16].state(lane % 16)
    }

    fn compress(self, states: &mut Self::States, blocks: [&[[u8; 64]]; 32]) {
        let (sets, _) = blocks.as_chunks::<16>();
        // SAFETY: `Avx512` exists only where these instructions do.
        unsafe { compress(states, [sets[0], sets[1]]) }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn compress<const SETS: usize>(
    states: &mut [States32<4>; SETS],
    blocks: [[&[[u8; 64]]; 16]; SETS],
) {
    let mut now = [[_mm512_setzero_si512(); SETS]; 4];
    for (set, states) in states.iter().enumerate() {
        for (vectors, vector) in now.iter_mut().zip(states.load()) {
            vectors[set] = vector;
        }
    }
    for block in 0..blocks[0][0].len() {
        let mut words = [[_mm512_setzero_si512(); 16]; SETS];
        for (words, blocks) in words.iter_mut().zip(&blocks) {
            *words = words_32(blocks, block);
        }
        let before = now;
        // The truth tables of the four functions of b, c and d (3.4).
        round::<0xca, 7, 12, 17, 22, SETS>(&mut now, &words, 0, 1, 0);
        round::<0xe4, 5, 9, 14, 20, SETS>(&mut now, &words, 1, 5, 1);
        round::<0x96, 4, 11, 16, 23, SETS>(&mut now, &words, 2, 3, 5);
        round::<0x39, 6, 10, 15, 21, SETS>(&mut now, &words, 3, 7, 0);
        for (now, before) in now.as_flattened_mut().iter_mut().zip(before.as_flattened()) {
            *now = _mm512_add_epi32(*now, *before);
        }
    }
    for (set, states) in states.iter_mut().enumerate() {
        states.store(&[now[0][set], now[1][set], now[2][set], now[3][set]]);
    }
}

/// Sixteen steps; the words are taken from `first` on, every `stride`.
#[inline]
#[target_feature(enable = "avx512f")]
fn round<
    const MIX: i32,
    const R0: i32,
    const R1: i32,
    const R2: i32,
    const R3: i32,
    const SETS: usize,
>(
    [a, b, c, d]: &mut Vectors<SETS>,
    words: &[[__m512i; 16]; SETS],
    round: usize,
    stride: usize,
    first: usize,
) {
    for four in 0..4 {
        let at = |step: usize| {
            (
                16 * round + 4 * four + step,
                (first + stride * (4 * four + step)) % 16,
            )
        };
        step::<MIX, R0, SETS>(a, [b, c, d], words, at(0));
        step::<MIX, R1, SETS>(d, [a, b, c], words, at(1));
        step::<MIX, R2, SETS>(c, [d, a, b], words, at(2));
        step::<MIX, R3, SETS>(b, [c, d, a], words, at(3));
    }
}

/// One step of each set: `a` becomes `b + ((a + mix(b, c, d) + word + constant) <<< ROTATE)`.
#[inline]
#[target_feature(enable = "avx512f")]
fn step<const MIX: i32, const ROTATE: i32, const SETS: usize>(
    a: &mut [__m512i; SETS],
    [b, c, d]: [&[__m512i; SETS]; 3],
    words: &[[__m512i; 16]; SETS],
    (constant, word): (usize, usize),
) {
    let constant = _mm512_set1_epi32(K[constant].cast_signed());
    for set in 0..SETS {
        let sum = _mm512_add_epi32(_mm512_add_epi32(words[set][word], constant), a[set]);
        let mixed = _mm512_ternarylogic_epi32::<MIX>(b[set], c[set], d[set]);
        let turned = _mm512_rol_epi32::<ROTATE>(_mm512_add_epi32(sum, mixed));
        a[set] = _mm512_add_epi32(turned, b[set]);
    }
}
