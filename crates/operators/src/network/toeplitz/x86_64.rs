//! x86-64 with PCLMULQDQ: a tuple in a vector; with VPCLMULQDQ, two.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::products::{Products, Windows};
use crate::isa::{Sse42, VaesAvx2};

/// Each value of four bits with its bits in the opposite order: the low half of a byte.
const TURNED: [u8; 16] = {
    let mut turned = [0; 16];
    let mut bits = 0;
    while bits < 16 {
        turned[bits] = (bits as u8).reverse_bits() >> 4;
        bits += 1;
    }
    turned
};

macro_rules! products {
    (
        $Token:ident with $features:literal, $tuples:literal in $Vector:ident,
        $load:ident, $store:ident, $zero:ident, $all:ident, $bytes:ident, $picked:ident, $product:ident, $plus:ident, $and:ident, $down:ident, $up:ident,
        $low_halves:ident, $high_halves:ident, $words:ident, $floats:ident, $not_floats:ident
    ) => {
        impl Products for $Token {
            type Vector = $Vector;

            const TUPLES: usize = $tuples;

            #[inline(always)]
            fn enter(self, windows: &Windows, tuples: &[u8], hashes: &mut [[u8; 4]]) {
                #[target_feature(enable = $features)]
                fn inside(token: $Token, windows: &Windows, tuples: &[u8], hashes: &mut [[u8; 4]]) {
                    windows.hash_on(token, tuples, hashes);
                }
                // SAFETY: the token exists only where these instructions do.
                unsafe { inside(self, windows, tuples, hashes) }
            }

            #[inline(always)]
            fn zero(self) -> $Vector {
                // SAFETY: the token exists only where these instructions do.
                unsafe { $zero() }
            }

            #[inline(always)]
            fn load(self, bytes: &[u8], at: usize, step: usize) -> $Vector {
                let mut lanes: [&[u8; 16]; $tuples] = [&[0; 16]; $tuples];
                for (i, lane) in lanes.iter_mut().enumerate() {
                    let at = at + i * step;
                    *lane = bytes[at..at + 16].try_into().expect("16 bytes");
                }
                // SAFETY: the token exists only where these instructions do.
                unsafe { $load(lanes) }
            }

            #[inline(always)]
            fn all(self, lane: &[u8; 16]) -> $Vector {
                // SAFETY: the token exists only where these instructions do.
                unsafe { $all(one([lane])) }
            }

            #[inline(always)]
            fn picked(self, bytes: $Vector, order: $Vector) -> $Vector {
                // SAFETY: the token exists only where these instructions do.
                unsafe { $picked(bytes, order) }
            }

            #[inline(always)]
            fn low_product(self, a: $Vector, b: $Vector) -> $Vector {
                // SAFETY: the token exists only where these instructions do.
                unsafe { $product::<0x00>(a, b) }
            }

            #[inline(always)]
            fn high_product(self, a: $Vector, b: $Vector) -> $Vector {
                // SAFETY: the token exists only where these instructions do.
                unsafe { $product::<0x11>(a, b) }
            }

            #[inline(always)]
            fn plus(self, a: $Vector, b: $Vector) -> $Vector {
                // SAFETY: the token exists only where these instructions do.
                unsafe { $plus(a, b) }
            }

            #[inline(always)]
            fn low_halves(self, a: $Vector, b: $Vector) -> $Vector {
                // SAFETY: the token exists only where these instructions do.
                unsafe { $low_halves(a, b) }
            }

            #[inline(always)]
            fn high_halves(self, a: $Vector, b: $Vector) -> $Vector {
                // SAFETY: the token exists only where these instructions do.
                unsafe { $high_halves(a, b) }
            }

            #[inline(always)]
            fn even_words(self, a: $Vector, b: $Vector) -> $Vector {
                // SAFETY: the token exists only where these instructions do.
                unsafe { $not_floats($words::<0b10_00_10_00>($floats(a), $floats(b))) }
            }

            #[inline(always)]
            fn turned(self, words: $Vector) -> $Vector {
                // SAFETY: the token exists only where these instructions do.
                unsafe {
                    let (half, low) = ($bytes(0x0f), self.all(&TURNED));
                    let high = $up::<4>(low);
                    let bits = $plus(
                        $picked(high, $and(words, half)),
                        $picked(low, $and($down::<4>(words), half)),
                    );
                    let order = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];
                    $picked(bits, self.all(&order))
                }
            }

            #[inline(always)]
            fn store(self, words: $Vector, to: &mut [[u8; 4]]) {
                let to = &mut to[..4 * $tuples];
                // SAFETY: the token exists only where these instructions do; there are four bytes for each of four tuples a lane.
                unsafe { $store(to.as_mut_ptr().cast(), words) }
            }
        }
    };
}

products!(
    Sse42 with "sse4.2,pclmulqdq", 1 in __m128i,
    one, _mm_storeu_si128, _mm_setzero_si128, same, _mm_set1_epi8, _mm_shuffle_epi8, _mm_clmulepi64_si128, _mm_xor_si128, _mm_and_si128, _mm_srli_epi16, _mm_slli_epi16,
    _mm_unpacklo_epi64, _mm_unpackhi_epi64, _mm_shuffle_ps, _mm_castsi128_ps, _mm_castps_si128
);
products!(
    VaesAvx2 with "avx2,vpclmulqdq", 2 in __m256i,
    two, _mm256_storeu_si256, _mm256_setzero_si256, _mm256_broadcastsi128_si256, _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_clmulepi64_epi128, _mm256_xor_si256, _mm256_and_si256, _mm256_srli_epi16, _mm256_slli_epi16,
    _mm256_unpacklo_epi64, _mm256_unpackhi_epi64, _mm256_shuffle_ps, _mm256_castsi256_ps, _mm256_castps_si256
);
#[inline]
#[target_feature(enable = "sse2")]
fn one([lane]: [&[u8; 16]; 1]) -> __m128i {
    // SAFETY: sixteen bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(lane.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn two([low, high]: [&[u8; 16]; 2]) -> __m256i {
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(one([low])), one([high]))
}

#[inline(always)]
fn same(lane: __m128i) -> __m128i {
    lane
}
