//! Armv8-A with the SHA-1 extension: four rounds an instruction.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::{K, Sha1};
use crate::isa::ArmSha2;
use crate::security::hash::lanes::{self, Compress, Parts};

/// Messages side by side.
pub(super) const LANES: usize = 2;

impl<const N: usize> Compress<Sha1, 64, N> for ArmSha2 {
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
        lanes::by_blocks::<Sha1, _, 64, N>(self, states, lists, outer, |states, blocks| {
            // SAFETY: `ArmSha2` exists only where these instructions do.
            unsafe { compress(states, blocks) }
        });
    }
}

/// Takes one message forward.
pub(super) fn alone(_proof: ArmSha2, state: &mut [u32; 5], parts: Parts<'_, 64>) {
    for blocks in parts {
        // SAFETY: `ArmSha2` exists only where these instructions do.
        unsafe { compress(std::array::from_mut(state), [blocks]) }
    }
}

#[target_feature(enable = "sha2,neon")]
fn compress<const N: usize>(states: &mut [[u32; 5]; N], blocks: [&[[u8; 64]]; N]) {
    // Words A to D, and E.
    let mut kept = [(vdupq_n_u32(0), 0); N];
    for (kept, state) in kept.iter_mut().zip(&*states) {
        // SAFETY: four of the five words.
        let abcd = unsafe { vld1q_u32(state.as_ptr()) };
        *kept = (abcd, state[4]);
    }
    for block in 0..blocks[0].len() {
        let mut now = kept;
        let mut words = [[vdupq_n_u32(0); 4]; N];
        for (words, blocks) in words.iter_mut().zip(blocks) {
            *words = load(&blocks[block]);
        }
        // Unrolled by hand: each four words have a register of their own only where their number is a constant. Four words in turn:
        // the oldest make room for the newest.
        macro_rules! four {
            ($mix:ident, $($group:literal)+) => {
                $(
                    let constant = vdupq_n_u32(K[$group / 5]);
                    for chain in 0..N {
                        let words = &mut words[chain];
                        let (abcd, e) = now[chain];
                        let input = vaddq_u32(words[$group % 4], constant);
                        if $group < 16 {
                            let sum = vsha1su0q_u32(words[$group % 4], words[($group + 1) % 4], words[($group + 2) % 4]);
                            words[$group % 4] = vsha1su1q_u32(sum, words[($group + 3) % 4]);
                        }
                        now[chain] = ($mix(abcd, e, input), vsha1h_u32(vgetq_lane_u32::<0>(abcd)));
                    }
                )+
            };
        }
        four!(vsha1cq_u32, 0 1 2 3 4);
        four!(vsha1pq_u32, 5 6 7 8 9);
        four!(vsha1mq_u32, 10 11 12 13 14);
        four!(vsha1pq_u32, 15 16 17 18 19);
        for (kept, (abcd, e)) in kept.iter_mut().zip(now) {
            *kept = (vaddq_u32(kept.0, abcd), kept.1.wrapping_add(e));
        }
    }
    for (state, (abcd, e)) in states.iter_mut().zip(kept) {
        // SAFETY: four of the five words.
        unsafe { vst1q_u32(state.as_mut_ptr(), abcd) }
        state[4] = e;
    }
}

/// The sixteen words of a block, which are big endian there.
#[inline]
#[target_feature(enable = "neon")]
fn load(block: &[u8; 64]) -> [uint32x4_t; 4] {
    let mut words = [vdupq_n_u32(0); 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: sixteen bytes.
        let bytes = unsafe { vld1q_u8(bytes.as_ptr()) };
        *words = vreinterpretq_u32_u8(vrev32q_u8(bytes));
    }
    words
}
