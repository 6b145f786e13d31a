//! x86-64 with the SHA extensions: four rounds an instruction.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::Sha1;
use crate::isa::ShaNi;
use crate::security::hash::lanes::{Compress, Parts};
use crate::security::hash::vectors::Steps;

/// Messages side by side.
pub(super) const LANES: usize = 3;

impl<const N: usize> Compress<Sha1, 64, N> for ShaNi {
    type States = [[u32; 5]; N];

    fn fill(self, state: &[u32; 5]) -> Self::States {
        [*state; N]
    }

    fn set(self, states: &mut Self::States, lane: usize, state: &[u32; 5]) {
        states[lane] = *state;
    }

    fn state(self, states: &Self::States, lane: usize) -> [u32; 5] {
        states[lane]
    }

    fn forward(
        self,
        states: &mut Self::States,
        lists: &[[&[[u8; 64]]; N]],
        outer: Option<&Self::States>,
    ) {
        // SAFETY: `ShaNi` exists only where these instructions do.
        unsafe { compress(states, lists, outer) }
    }
}

/// Takes one message forward.
pub(super) fn alone(_proof: ShaNi, state: &mut [u32; 5], [full, tail]: Parts<'_, 64>) {
    // SAFETY: `ShaNi` exists only where these instructions do.
    unsafe { compress(std::array::from_mut(state), &[[full], [tail]], None) }
}

/// Takes states forward by a block's words.
macro_rules! forward {
    ($kept:ident, $words:ident) => {{
        let mut now = $kept;
        // The first group takes E as it is, the others the A of four rounds before.
        for ([_, e], words) in now.iter_mut().zip(&$words) {
            *e = _mm_add_epi32(*e, words[0]);
        }
        twenty!(0, now, $words);
        twenty!(1, now, $words);
        twenty!(2, now, $words);
        twenty!(3, now, $words);
        for (kept, [abcd, e]) in $kept.iter_mut().zip(now) {
            *kept = [_mm_add_epi32(kept[0], abcd), _mm_add_epi32(kept[1], e)];
        }
    }};
}

/// Twenty rounds by four. Before and after, E has the next words added, except after the last.
macro_rules! twenty {
    ($twenty:literal, $now:ident, $words:ident) => {
        for group in 5 * $twenty..5 * $twenty + 5 {
            for ([abcd, e], words) in $now.iter_mut().zip(&mut $words) {
                let before = *abcd;
                *abcd = here::<N>(_mm_sha1rnds4_epu32::<$twenty>(*abcd, *e));
                // Four words in turn: the oldest make room for the newest.
                let at = |ahead: usize| words[(group + ahead) % 4];
                if (3..19).contains(&group) {
                    let sum = _mm_sha1msg1_epu32(here::<N>(at(1)), at(2));
                    words[(group + 1) % 4] = _mm_sha1msg2_epu32(_mm_xor_si128(sum, at(3)), at(0));
                }
                let next = match group {
                    19 => _mm_setzero_si128(),
                    _ => words[(group + 1) % 4],
                };
                *e = _mm_sha1nexte_epu32(before, next);
            }
        }
    };
}

/// Takes states forward by lists of blocks. With `outer`, HMAC's outer hash follows: the result is `outer`, taken forward by the block that holds the inner digest.
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn compress<const N: usize>(
    states: &mut [[u32; 5]; N],
    lists: &[[&[[u8; 64]]; N]],
    outer: Option<&[[u32; 5]; N]>,
) {
    let mut kept = enter(states);
    for blocks in lists {
        for block in 0..blocks[0].len() {
            let mut words = [[_mm_setzero_si128(); 4]; N];
            for (words, blocks) in words.iter_mut().zip(blocks) {
                *words = load(&blocks[block]);
            }
            forward!(kept, words);
        }
    }
    if let Some(outer) = outer {
        // The block's words are the inner state's, as they are. The words below E are zero: after the last group nothing is added to them.
        let mut words = [[_mm_setzero_si128(); 4]; N];
        for (words, [abcd, e]) in words.iter_mut().zip(kept) {
            let mark = _mm_set_epi32(0, Sha1::MARK.cast_signed(), 0, 0);
            let bits = _mm_set_epi32(0, 0, 0, Sha1::OUTER_BITS[1].cast_signed());
            *words = [abcd, _mm_or_si128(e, mark), _mm_setzero_si128(), bits];
        }
        kept = enter(outer);
        forward!(kept, words);
    }
    for (state, [abcd, e]) in states.iter_mut().zip(kept) {
        *state = [
            _mm_extract_epi32::<3>(abcd).cast_unsigned(),
            _mm_extract_epi32::<2>(abcd).cast_unsigned(),
            _mm_extract_epi32::<1>(abcd).cast_unsigned(),
            _mm_extract_epi32::<0>(abcd).cast_unsigned(),
            _mm_extract_epi32::<3>(e).cast_unsigned(),
        ];
    }
}

/// Words A B C D and E 0 0 0, the first of each in the highest place. Loops stand where `map` would read better, in this file: a
/// closure with these features is not always inlined into a function of `core`.
#[inline]
#[target_feature(enable = "sse2")]
fn enter<const N: usize>(states: &[[u32; 5]; N]) -> [[__m128i; 2]; N] {
    let mut kept = [[_mm_setzero_si128(); 2]; N];
    for (kept, state) in kept.iter_mut().zip(states) {
        let word = |at: usize| state[at].cast_signed();
        *kept = [
            _mm_set_epi32(word(0), word(1), word(2), word(3)),
            _mm_set_epi32(word(4), 0, 0, 0),
        ];
    }
    kept
}

/// Stops the compiler from moving `vector`: if there is one chain, it is computed where it is written. Else the compiler makes words as soon as
/// it can; then they stand before rounds, the CPU begins with what stands first, and rounds wait: by 14 % where another thread shares the core.
#[inline]
#[target_feature(enable = "sse2")]
fn here<const N: usize>(mut vector: __m128i) -> __m128i {
    if N == 1 {
        // SAFETY: no instruction: the vector stays as it is.
        unsafe {
            std::arch::asm!("/* {0} */", inout(xmm_reg) vector, options(nomem, nostack, preserves_flags));
        }
    }
    vector
}

/// The sixteen words of a block, which are big endian there, the first of each four in the highest place.
#[inline]
#[target_feature(enable = "ssse3")]
fn load(block: &[u8; 64]) -> [__m128i; 4] {
    let turn = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    let mut words = [_mm_setzero_si128(); 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: sixteen bytes; the load needs no alignment.
        let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        *words = _mm_shuffle_epi8(bytes, turn);
    }
    words
}
