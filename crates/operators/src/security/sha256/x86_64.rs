//! x86-64 with the SHA extensions: two rounds an instruction.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::Compress;
use super::{INITIAL, K};
use crate::isa::ShaNi;

/// Messages side by side: four chains of `sha256rnds2` run at one a cycle on AMD Zen 4, where one chain takes four.
pub(super) const LANES: usize = 4;

impl Compress for ShaNi {
    /// Words A B E F and C D G H, the first of each in the highest place.
    type State = [__m128i; 2];

    fn initial(self) -> Self::State {
        let [a, b, c, d, e, f, g, h] = INITIAL.map(u32::cast_signed);
        // SAFETY: `ShaNi` exists only where SSE4.1 does.
        unsafe { [_mm_set_epi32(a, b, e, f), _mm_set_epi32(c, d, g, h)] }
    }

    fn digest(self, [abef, cdgh]: Self::State) -> [u8; 32] {
        let mut bytes = [0; 32];
        // SAFETY: `ShaNi` exists only where SSE4.1 does; both stores lie inside the 32 bytes and need no alignment.
        unsafe {
            let swap = swap_mask();
            let feba = _mm_shuffle_epi32::<0b00_01_10_11>(abef);
            let hgdc = _mm_shuffle_epi32::<0b00_01_10_11>(cdgh);
            let abcd = _mm_unpacklo_epi64(feba, hgdc);
            let efgh = _mm_unpackhi_epi64(feba, hgdc);
            let to = bytes.as_mut_ptr().cast::<__m128i>();
            _mm_storeu_si128(to, _mm_shuffle_epi8(abcd, swap));
            _mm_storeu_si128(to.add(1), _mm_shuffle_epi8(efgh, swap));
        }
        bytes
    }

    fn compress<const N: usize>(self, states: &mut [Self::State; N], blocks: [&[[u8; 64]]; N]) {
        // SAFETY: `ShaNi` exists only where these instructions do.
        unsafe { compress(states, blocks) }
    }
}

#[target_feature(enable = "sha,ssse3,sse4.1")]
fn compress<const N: usize>(states: &mut [[__m128i; 2]; N], blocks: [&[[u8; 64]]; N]) {
    let swap = swap_mask();
    for block in 0..blocks[0].len() {
        let mut now = *states;
        let mut words = [[_mm_setzero_si128(); 4]; N];
        for (words, blocks) in words.iter_mut().zip(blocks) {
            *words = load(&blocks[block], swap);
        }
        for (group, constants) in K.as_chunks::<4>().0.iter().enumerate() {
            let [k0, k1, k2, k3] = constants.map(u32::cast_signed);
            let constants = _mm_set_epi32(k3, k2, k1, k0);
            for ([abef, cdgh], words) in now.iter_mut().zip(&mut words) {
                // Four words in turn: the oldest makes room for the newest.
                let at = |back: usize| words[(group + 4 - back) % 4];
                let four = if group < 4 {
                    words[group]
                } else {
                    let sum = _mm_sha256msg1_epu32(at(4), at(3));
                    let sum = _mm_add_epi32(sum, _mm_alignr_epi8::<4>(at(1), at(2)));
                    _mm_sha256msg2_epu32(sum, at(1))
                };
                words[group % 4] = four;
                let input = _mm_add_epi32(four, constants);
                *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, input);
                let input = _mm_shuffle_epi32::<0b00_00_11_10>(input);
                *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, input);
            }
        }
        for (state, now) in states.iter_mut().zip(now) {
            *state = [
                _mm_add_epi32(state[0], now[0]),
                _mm_add_epi32(state[1], now[1]),
            ];
        }
    }
}

/// The sixteen words of a block, which are big endian there.
#[inline]
#[target_feature(enable = "ssse3")]
fn load(block: &[u8; 64], swap: __m128i) -> [__m128i; 4] {
    let mut words = [_mm_setzero_si128(); 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: sixteen bytes; the load needs no alignment.
        let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        *words = _mm_shuffle_epi8(bytes, swap);
    }
    words
}

/// Turns the bytes of each word around.
#[inline]
#[target_feature(enable = "sse2")]
fn swap_mask() -> __m128i {
    _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203)
}
