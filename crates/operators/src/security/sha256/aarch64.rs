//! Armv8-A with the SHA-256 extension: four rounds an instruction pair.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::lanes::Compress;
use super::{INITIAL, K};
use crate::isa::ArmSha2;

/// Messages side by side.
pub(super) const LANES: usize = 2;

impl Compress for ArmSha2 {
    /// Words A to D and E to H.
    type State = [uint32x4_t; 2];

    fn initial(self) -> Self::State {
        // SAFETY: both loads lie inside the eight words.
        unsafe {
            [
                vld1q_u32(INITIAL.as_ptr()),
                vld1q_u32(INITIAL[4..].as_ptr()),
            ]
        }
    }

    fn digest(self, [abcd, efgh]: Self::State) -> [u8; 32] {
        let mut bytes = [0; 32];
        // SAFETY: both stores lie inside the 32 bytes.
        unsafe {
            vst1q_u8(bytes.as_mut_ptr(), vrev32q_u8(vreinterpretq_u8_u32(abcd)));
            vst1q_u8(
                bytes[16..].as_mut_ptr(),
                vrev32q_u8(vreinterpretq_u8_u32(efgh)),
            );
        }
        bytes
    }

    fn compress<const N: usize>(self, states: &mut [Self::State; N], blocks: [&[[u8; 64]]; N]) {
        // SAFETY: `ArmSha2` exists only where these instructions do.
        unsafe { compress(states, blocks) }
    }
}

#[target_feature(enable = "sha2,neon")]
fn compress<const N: usize>(states: &mut [[uint32x4_t; 2]; N], blocks: [&[[u8; 64]]; N]) {
    for block in 0..blocks[0].len() {
        let mut now = *states;
        let mut words = [[vdupq_n_u32(0); 4]; N];
        for (words, blocks) in words.iter_mut().zip(blocks) {
            *words = load(&blocks[block]);
        }
        for (group, constants) in K.as_chunks::<4>().0.iter().enumerate() {
            // SAFETY: four words.
            let constants = unsafe { vld1q_u32(constants.as_ptr()) };
            for ([abcd, efgh], words) in now.iter_mut().zip(&mut words) {
                // Four words in turn: the oldest makes room for the newest.
                let at = |back: usize| words[(group + 4 - back) % 4];
                let four = if group < 4 {
                    words[group]
                } else {
                    vsha256su1q_u32(vsha256su0q_u32(at(4), at(3)), at(2), at(1))
                };
                words[group % 4] = four;
                let input = vaddq_u32(four, constants);
                let before = *abcd;
                *abcd = vsha256hq_u32(before, *efgh, input);
                *efgh = vsha256h2q_u32(*efgh, before, input);
            }
        }
        for (state, now) in states.iter_mut().zip(now) {
            *state = [vaddq_u32(state[0], now[0]), vaddq_u32(state[1], now[1])];
        }
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
