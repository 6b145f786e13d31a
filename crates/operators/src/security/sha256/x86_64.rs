//! x86-64 with the SHA extensions: two rounds an instruction.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{K, Sha256};
use crate::isa::ShaNi;
use crate::security::hash::lanes::{Compress, Parts};
use crate::security::hash::vectors::Steps;

/// Messages side by side: their states and words fit in the registers. Four were slower on an AMD EPYC of family 25, model 1 (64 messages of 1 KiB:
/// 2.65 beside 2.81 GB/s), most while its core worked for others too (of 64 bytes: 0.51 beside 0.78 GB/s; measured, in a test).
pub(super) const LANES: usize = 2;

impl<const N: usize> Compress<Sha256, 64, N> for ShaNi {
    type States = [[u32; 8]; N];

    fn fill(self, state: &[u32; 8]) -> Self::States {
        [*state; N]
    }

    fn set(self, states: &mut Self::States, lane: usize, state: &[u32; 8]) {
        states[lane] = *state;
    }

    fn state(self, states: &Self::States, lane: usize) -> [u32; 8] {
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
pub(super) fn alone(_proof: ShaNi, state: &mut [u32; 8], [full, tail]: Parts<'_, 64>) {
    // SAFETY: `ShaNi` exists only where these instructions do.
    unsafe { compress(std::array::from_mut(state), &[[full], [tail]], None) }
}

/// All rounds. Unrolled by hand: each four words have a register of their own only where their number is a constant. Four words in turn: the
/// oldest make room for the newest.
macro_rules! rounds {
    ($now:ident, $words:ident) => {
        rounds!($now, $words, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($now:ident, $words:ident, $($group:literal)+) => {
        $(
            let constants = &K.as_chunks::<4>().0[$group];
            let word = |at: usize| constants[at].cast_signed();
            let constants = _mm_set_epi32(word(3), word(2), word(1), word(0));
            for ([abef, cdgh], words) in $now.iter_mut().zip(&mut $words) {
                let four = words[$group % 4];
                let input = _mm_add_epi32(four, constants);
                *cdgh = here(_mm_sha256rnds2_epu32(*cdgh, *abef, input));
                if $group >= 3 && $group < 15 {
                    let seven = _mm_alignr_epi8::<4>(four, words[($group + 3) % 4]);
                    let sum = _mm_add_epi32(words[($group + 1) % 4], seven);
                    words[($group + 1) % 4] = here(_mm_sha256msg2_epu32(sum, four));
                }
                let input = _mm_shuffle_epi32::<0b00_00_11_10>(input);
                *abef = here(_mm_sha256rnds2_epu32(*abef, *cdgh, input));
            }
            if $group >= 1 && $group < 13 {
                for words in &mut $words {
                    let sum = _mm_sha256msg1_epu32(words[($group + 3) % 4], words[$group % 4]);
                    words[($group + 3) % 4] = here(sum);
                }
            }
        )+
    };
}

/// Takes states forward by lists of blocks. With `outer`, HMAC's outer hash follows: the result is `outer`, taken forward by the block that holds the inner digest.
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn compress<const N: usize>(
    states: &mut [[u32; 8]; N],
    lists: &[[&[[u8; 64]]; N]],
    outer: Option<&[[u32; 8]; N]>,
) {
    let swap = swap_mask();
    let mut kept = enter(states);
    for blocks in lists {
        for block in 0..blocks[0].len() {
            let mut now = kept;
            let mut words = [[_mm_setzero_si128(); 4]; N];
            for (words, blocks) in words.iter_mut().zip(blocks) {
                *words = load(&blocks[block], swap);
            }
            rounds!(now, words);
            add(&mut kept, &now);
        }
    }
    if let Some(outer) = outer {
        // The block's words are the inner state's, as they are.
        let mut words = [[_mm_setzero_si128(); 4]; N];
        for (words, kept) in words.iter_mut().zip(&kept) {
            let [first, second] = in_order(kept);
            let mark = _mm_set_epi32(0, 0, 0, Sha256::MARK.cast_signed());
            let bits = _mm_set_epi32(Sha256::OUTER_BITS[1].cast_signed(), 0, 0, 0);
            *words = [first, second, mark, bits];
        }
        kept = enter(outer);
        let mut now = kept;
        rounds!(now, words);
        add(&mut kept, &now);
    }
    for (state, kept) in states.iter_mut().zip(&kept) {
        let [first, second] = in_order(kept);
        let to = state.as_mut_ptr().cast::<__m128i>();
        // SAFETY: both stores lie inside the eight words and need no alignment.
        unsafe {
            _mm_storeu_si128(to, first);
            _mm_storeu_si128(to.add(1), second);
        }
    }
}

/// Adds the states after a block to those before.
#[inline]
#[target_feature(enable = "sse2")]
fn add<const N: usize>(kept: &mut [[__m128i; 2]; N], now: &[[__m128i; 2]; N]) {
    for (kept, now) in kept.iter_mut().zip(now) {
        *kept = [
            _mm_add_epi32(kept[0], now[0]),
            _mm_add_epi32(kept[1], now[1]),
        ];
    }
}

/// Words A B E F and C D G H, the first of each in the highest place. Loops stand where `map` would read better, in this file: a
/// closure with these features is not always inlined into a function of `core`.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn enter<const N: usize>(states: &[[u32; 8]; N]) -> [[__m128i; 2]; N] {
    let mut kept = [[_mm_setzero_si128(); 2]; N];
    for (kept, state) in kept.iter_mut().zip(states) {
        let from = state.as_ptr().cast::<__m128i>();
        // SAFETY: both loads lie inside the eight words and need no alignment.
        let (dcba, hgfe) = unsafe { (_mm_loadu_si128(from), _mm_loadu_si128(from.add(1))) };
        let cdab = _mm_shuffle_epi32::<0b10_11_00_01>(dcba);
        let efgh = _mm_shuffle_epi32::<0b00_01_10_11>(hgfe);
        *kept = [
            _mm_alignr_epi8::<8>(cdab, efgh),
            _mm_blend_epi16::<0xf0>(efgh, cdab),
        ];
    }
    kept
}

/// The words A to D and E to H, the first of each in the lowest place.
#[inline]
#[target_feature(enable = "sse2")]
fn in_order([abef, cdgh]: &[__m128i; 2]) -> [__m128i; 2] {
    let feba = _mm_shuffle_epi32::<0b00_01_10_11>(*abef);
    let hgdc = _mm_shuffle_epi32::<0b00_01_10_11>(*cdgh);
    [
        _mm_unpacklo_epi64(feba, hgdc),
        _mm_unpackhi_epi64(feba, hgdc),
    ]
}

/// `vector`, computed where it is written. Else the compiler makes words as soon as it can; then they stand before rounds, the CPU begins with
/// what stands first, and rounds wait: a block then took 110 cycles of a Xeon of 2023 and not 104, when four messages went side by side.
#[inline]
#[target_feature(enable = "sse2")]
fn here(mut vector: __m128i) -> __m128i {
    // SAFETY: no instruction: the vector stays as it is.
    unsafe {
        std::arch::asm!("/* {0} */", inout(xmm_reg) vector, options(nomem, nostack, preserves_flags));
    }
    vector
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
