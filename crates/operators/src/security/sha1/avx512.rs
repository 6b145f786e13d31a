//! x86-64 with AVX-512: sixteen messages, a word of each in a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{K, Sha1};
use crate::isa::Avx512;
use crate::security::hash::avx512::{States32, swap_32, words_32};
use crate::security::hash::lanes::Compress;

/// The truth tables of the functions of b, c and d (4.1.1).
const CHOICE: i32 = 0xca;
const PARITY: i32 = 0x96;
const MAJORITY: i32 = 0xe8;

impl Compress<Sha1, 64, 16> for Avx512 {
    type States = States32<5>;

    fn fill(self, state: &[u32; 5]) -> Self::States {
        States32::fill(state)
    }

    fn set(self, states: &mut Self::States, lane: usize, state: &[u32; 5]) {
        states.set(lane, state);
    }

    fn state(self, states: &Self::States, lane: usize) -> [u32; 5] {
        states.state(lane)
    }

    fn compress(self, states: &mut Self::States, blocks: [&[[u8; 64]]; 16]) {
        // SAFETY: `Avx512` exists only where these instructions do.
        unsafe { compress(states, &blocks) }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn compress(states: &mut States32<5>, blocks: &[&[[u8; 64]]; 16]) {
    let mut now = states.load();
    for block in 0..blocks[0].len() {
        let mut words = words_32(blocks, block);
        for word in &mut words {
            *word = swap_32(*word);
        }
        let before = now;
        twenty::<CHOICE, 0>(&mut now, &mut words);
        twenty::<PARITY, 1>(&mut now, &mut words);
        twenty::<MAJORITY, 2>(&mut now, &mut words);
        twenty::<PARITY, 3>(&mut now, &mut words);
        for i in 0..5 {
            now[i] = _mm512_add_epi32(now[i], before[i]);
        }
    }
    states.store(&now);
}

/// Twenty steps; `words` are those of the last sixteen. Unrolled by hand: each word has a register of its own only where its
/// number is a constant.
#[inline]
#[target_feature(enable = "avx512f")]
fn twenty<const MIX: i32, const TWENTY: usize>(now: &mut [__m512i; 5], words: &mut [__m512i; 16]) {
    let constant = _mm512_set1_epi32(K[TWENTY].cast_signed());
    let [mut a, mut b, mut c, mut d, mut e] = *now;
    macro_rules! step {
        ($a:ident $b:ident $c:ident $d:ident $e:ident, $step:expr) => {
            let t = 20 * TWENTY + $step;
            if t >= 16 {
                let (w3, w8) = (words[(t + 13) % 16], words[(t + 8) % 16]);
                let sum = _mm512_ternarylogic_epi32::<PARITY>(w3, w8, words[(t + 2) % 16]);
                words[t % 16] = _mm512_rol_epi32::<1>(_mm512_xor_si512(sum, words[t % 16]));
            }
            $e = _mm512_add_epi32($e, _mm512_add_epi32(words[t % 16], constant));
            $e = _mm512_add_epi32($e, _mm512_ternarylogic_epi32::<MIX>($b, $c, $d));
            $e = _mm512_add_epi32($e, _mm512_rol_epi32::<5>($a));
            $b = _mm512_rol_epi32::<30>($b);
        };
    }
    macro_rules! five {
        ($first:literal) => {
            step!(a b c d e, $first);
            step!(e a b c d, $first + 1);
            step!(d e a b c, $first + 2);
            step!(c d e a b, $first + 3);
            step!(b c d e a, $first + 4);
        };
    }
    five!(0);
    five!(5);
    five!(10);
    five!(15);
    *now = [a, b, c, d, e];
}
