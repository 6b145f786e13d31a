//! x86-64 with AVX-512: eight messages, a word of each in a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{K, Sha512};
use crate::isa::{Avx512, Bmi2};
use crate::security::hash::avx512::{States64, sha2, swap_64, words_64};
use crate::security::hash::lanes::Compress;
use crate::security::hash::settled::settled;

impl Compress<Sha512, 128, 8> for Avx512 {
    type States = States64<8>;

    fn fill(self, state: &[u64; 8]) -> Self::States {
        States64::fill(state)
    }

    fn set(self, states: &mut Self::States, lane: usize, state: &[u64; 8]) {
        states.set(lane, state);
    }

    fn state(self, states: &Self::States, lane: usize) -> [u64; 8] {
        states.state(lane)
    }

    fn compress(self, states: &mut Self::States, blocks: [&[[u8; 128]]; 8]) {
        // SAFETY: `Avx512` exists only where these instructions do.
        unsafe { compress(states, &blocks) }
    }
}

sha2::lanes! {
    u64, States64, 8 lanes of 128 bytes,
    words_64, swap_64, _mm512_add_epi64, _mm512_ror_epi64, _mm512_srli_epi64, _mm512_ternarylogic_epi64, _mm512_set1_epi64,
    steps: 16 * 5,
    sums: [28, 34, 39], [14, 18, 41],
    schedule: [1, 8, 7], [19, 61, 6],
}

/// Takes one message forward: the words of eight blocks side by side, which need no state, then the steps block by block.
pub(super) fn alone(_proof: (Avx512, Bmi2), state: &mut [u64; 8], blocks: &[[u8; 128]]) {
    // SAFETY: `Avx512` and `Bmi2` exist only where these instructions do.
    unsafe { one(state, blocks) }
}

/// Behind the steps of each block come eight words of the eight blocks that follow: steps wait for each other, words do not.
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2")]
fn one(state: &mut [u64; 8], blocks: &[[u8; 128]]) {
    let mut chunks = blocks.chunks(8);
    let Some(mut now) = chunks.next() else {
        return;
    };
    let (mut first, mut second) = (Schedule::new(), Schedule::new());
    let (mut schedule, mut later) = (&mut first, &mut second);
    schedule.start(now);
    for eight in 0..8 {
        schedule.more(eight);
    }
    for next in chunks {
        later.start(next);
        for block in 0..8 {
            steps_of_one(state, &schedule.inputs.0, block);
            later.more(block);
        }
        std::mem::swap(&mut schedule, &mut later);
        now = next;
    }
    for block in 0..now.len() {
        steps_of_one(state, &schedule.inputs.0, block);
    }
}

/// The words of up to eight blocks side by side.
struct Schedule {
    words: States64<80>,
    /// The summands of each step: its word and its constant.
    inputs: States64<80>,
}

impl Schedule {
    fn new() -> Self {
        Self {
            words: States64([[0; 8]; 80]),
            inputs: States64([[0; 8]; 80]),
        }
    }

    /// The words that blocks have. Where there are fewer than eight, the last one again.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn start(&mut self, blocks: &[[u8; 128]]) {
        let mut rows = [blocks; 8];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = &blocks[i.min(blocks.len() - 1)..];
        }
        for (t, word) in words_64(&rows, 0).into_iter().enumerate() {
            self.set(t, swap_64(word));
        }
    }

    /// Eight more of the 64 that follow.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn more(&mut self, eight: usize) {
        for t in 16 + 8 * eight..24 + 8 * eight {
            let [w16, w15, w7, w2] = [16, 15, 7, 2].map(|back| load(&self.words.0[t - back]));
            let s0 = _mm512_ternarylogic_epi64::<0x96>(
                _mm512_ror_epi64::<1>(w15),
                _mm512_ror_epi64::<8>(w15),
                _mm512_srli_epi64::<7>(w15),
            );
            let s1 = _mm512_ternarylogic_epi64::<0x96>(
                _mm512_ror_epi64::<19>(w2),
                _mm512_ror_epi64::<61>(w2),
                _mm512_srli_epi64::<6>(w2),
            );
            let sum = _mm512_add_epi64(w16, w7);
            self.set(t, _mm512_add_epi64(_mm512_add_epi64(sum, s0), s1));
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn set(&mut self, t: usize, word: __m512i) {
        let input = _mm512_add_epi64(word, _mm512_set1_epi64(K[t].cast_signed()));
        store(&mut self.words.0[t], word);
        store(&mut self.inputs.0[t], input);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u64; 8]) -> __m512i {
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(words: &mut [u64; 8], vector: __m512i) {
    // SAFETY: 64 bytes.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) }
}

/// Eighty steps.
#[inline(never)]
#[target_feature(enable = "bmi1,bmi2")]
fn steps_of_one(state: &mut [u64; 8], inputs: &[[u64; 8]; 80], block: usize) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let mut differed = b ^ c;
    macro_rules! step {
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $input:expr) => {
            // What the step before has just made, e and a, comes in last.
            $h = settled($h.wrapping_add($input[block]).wrapping_add($g & !$e));
            let sum1 = $e.rotate_right(14) ^ $e.rotate_right(18) ^ $e.rotate_right(41);
            $h = settled($h.wrapping_add($e & $f)).wrapping_add(sum1);
            $d = $d.wrapping_add($h);
            let sum0 = $a.rotate_right(28) ^ $a.rotate_right(34) ^ $a.rotate_right(39);
            // The majority of a, b and c; the next step takes a ^ b for its b ^ c.
            let differ = $a ^ $b;
            $h = $h.wrapping_add((differ & differed) ^ $b).wrapping_add(sum0);
            differed = differ;
        };
    }
    for inputs in inputs.as_chunks::<8>().0 {
        step!(a b c d e f g h, inputs[0]);
        step!(h a b c d e f g, inputs[1]);
        step!(g h a b c d e f, inputs[2]);
        step!(f g h a b c d e, inputs[3]);
        step!(e f g h a b c d, inputs[4]);
        step!(d e f g h a b c, inputs[5]);
        step!(c d e f g h a b, inputs[6]);
        step!(b c d e f g h a, inputs[7]);
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(add);
    }
}
