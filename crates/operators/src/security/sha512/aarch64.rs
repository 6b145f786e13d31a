//! Armv8.2-A with the SHA-512 extension: two rounds an instruction pair.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::{K, Sha512};
use crate::isa::ArmSha512;
use crate::security::hash::lanes::{self, Compress, Parts};

/// Messages side by side: more need more registers than there are.
pub(super) const LANES: usize = 2;

impl<const N: usize> Compress<Sha512, 128, N> for ArmSha512 {
    type States = [[u64; 8]; N];

    fn fill(self, state: &[u64; 8]) -> Self::States {
        [*state; N]
    }

    fn set(self, states: &mut Self::States, lane: usize, state: &[u64; 8]) {
        states[lane] = *state;
    }

    fn state(self, states: &Self::States, lane: usize) -> [u64; 8] {
        states[lane]
    }

    fn forward(
        self,
        states: &mut Self::States,
        lists: &[[&[[u8; 128]]; N]],
        outer: Option<&Self::States>,
    ) {
        lanes::by_blocks::<Sha512, _, 128, N>(self, states, lists, outer, |states, blocks| {
            // SAFETY: `ArmSha512` exists only where these instructions do.
            unsafe { compress(states, blocks) }
        });
    }
}

/// Takes one message forward.
pub(super) fn alone(_proof: ArmSha512, state: &mut [u64; 8], parts: Parts<'_, 128>) {
    for blocks in parts {
        // SAFETY: `ArmSha512` exists only where these instructions do.
        unsafe { compress(std::array::from_mut(state), [blocks]) }
    }
}

#[target_feature(enable = "sha3,neon")]
fn compress<const N: usize>(states: &mut [[u64; 8]; N], blocks: [&[[u8; 128]]; N]) {
    // Words A B, C D, E F and G H.
    let mut kept = [[vdupq_n_u64(0); 4]; N];
    for (kept, state) in kept.iter_mut().zip(&*states) {
        for (pair, words) in kept.iter_mut().zip(state.as_chunks::<2>().0) {
            // SAFETY: two words.
            *pair = unsafe { vld1q_u64(words.as_ptr()) };
        }
    }
    for block in 0..blocks[0].len() {
        let mut now = kept;
        let mut words = [[vdupq_n_u64(0); 8]; N];
        for (words, blocks) in words.iter_mut().zip(blocks) {
            *words = load(&blocks[block]);
        }
        // Two rounds. Unrolled by hand: each pair of words has a register of its own only where its number is a constant. Eight pairs in
        // turn: the oldest makes room for the newest.
        macro_rules! two {
            ($constants:expr, $is_last:expr, $pair:literal, $ab:literal $cd:literal $ef:literal $gh:literal) => {
                // SAFETY: two words.
                let constants = unsafe { vld1q_u64($constants[$pair].as_ptr()) };
                for chain in 0..N {
                    let (now, words) = (&mut now[chain], &mut words[chain]);
                    let input = vaddq_u64(words[$pair], constants);
                    let sum = vaddq_u64(vextq_u64::<1>(input, input), now[$gh]);
                    let sum = vsha512hq_u64(
                        sum,
                        vextq_u64::<1>(now[$ef], now[$gh]),
                        vextq_u64::<1>(now[$cd], now[$ef]),
                    );
                    now[$gh] = vsha512h2q_u64(sum, now[$cd], now[$ab]);
                    now[$cd] = vaddq_u64(now[$cd], sum);
                    if !$is_last {
                        let sum = vsha512su0q_u64(words[$pair], words[($pair + 1) % 8]);
                        let nine = vextq_u64::<1>(words[($pair + 4) % 8], words[($pair + 5) % 8]);
                        words[$pair] = vsha512su1q_u64(sum, words[($pair + 7) % 8], nine);
                    }
                }
            };
        }
        macro_rules! sixteen {
            ($constants:expr, $is_last:expr) => {
                two!($constants, $is_last, 0, 0 1 2 3);
                two!($constants, $is_last, 1, 3 0 1 2);
                two!($constants, $is_last, 2, 2 3 0 1);
                two!($constants, $is_last, 3, 1 2 3 0);
                two!($constants, $is_last, 4, 0 1 2 3);
                two!($constants, $is_last, 5, 3 0 1 2);
                two!($constants, $is_last, 6, 2 3 0 1);
                two!($constants, $is_last, 7, 1 2 3 0);
            };
        }
        let (sixteens, _) = K.as_chunks::<2>().0.as_chunks::<8>();
        for constants in &sixteens[..4] {
            sixteen!(constants, false);
        }
        sixteen!(sixteens[4], true);
        for (kept, now) in kept.iter_mut().zip(now) {
            for (kept, now) in kept.iter_mut().zip(now) {
                *kept = vaddq_u64(*kept, now);
            }
        }
    }
    for (state, kept) in states.iter_mut().zip(kept) {
        for (words, pair) in state.as_chunks_mut::<2>().0.iter_mut().zip(kept) {
            // SAFETY: two words.
            unsafe { vst1q_u64(words.as_mut_ptr(), pair) }
        }
    }
}

/// The sixteen words of a block, which are big endian there.
#[inline]
#[target_feature(enable = "neon")]
fn load(block: &[u8; 128]) -> [uint64x2_t; 8] {
    let mut words = [vdupq_n_u64(0); 8];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: sixteen bytes.
        let bytes = unsafe { vld1q_u8(bytes.as_ptr()) };
        *words = vreinterpretq_u64_u8(vrev64q_u8(bytes));
    }
    words
}
