//! Armv8-A with PMULL: a tuple in a vector.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::products::{Products, Windows};
use crate::isa::ArmCrc;

impl Products for ArmCrc {
    type Vector = uint8x16_t;

    const TUPLES: usize = 1;

    #[inline(always)]
    fn enter(self, windows: &Windows, tuples: &[u8], hashes: &mut [[u8; 4]]) {
        #[target_feature(enable = "aes,neon")]
        fn inside(token: ArmCrc, windows: &Windows, tuples: &[u8], hashes: &mut [[u8; 4]]) {
            windows.hash_on(token, tuples, hashes);
        }
        // SAFETY: the token exists only where these instructions do.
        unsafe { inside(self, windows, tuples, hashes) }
    }

    #[inline(always)]
    fn zero(self) -> uint8x16_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe { vdupq_n_u8(0) }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8], at: usize, _step: usize) -> uint8x16_t {
        self.all(bytes[at..at + 16].try_into().expect("16 bytes"))
    }

    #[inline(always)]
    fn all(self, lane: &[u8; 16]) -> uint8x16_t {
        // SAFETY: the token exists only where these instructions do; sixteen bytes.
        unsafe { vld1q_u8(lane.as_ptr()) }
    }

    #[inline(always)]
    fn picked(self, bytes: uint8x16_t, order: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe { vqtbl1q_u8(bytes, order) }
    }

    #[inline(always)]
    fn low_product(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe { low_product(a, b) }
    }

    #[inline(always)]
    fn high_product(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe { high_product(a, b) }
    }

    #[inline(always)]
    fn plus(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe { veorq_u8(a, b) }
    }

    #[inline(always)]
    fn low_halves(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let (a, b) = (vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b));
            vreinterpretq_u8_u64(vzip1q_u64(a, b))
        }
    }

    #[inline(always)]
    fn high_halves(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let (a, b) = (vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b));
            vreinterpretq_u8_u64(vzip2q_u64(a, b))
        }
    }

    #[inline(always)]
    fn even_words(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let (a, b) = (vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b));
            vreinterpretq_u8_u32(vuzp1q_u32(a, b))
        }
    }

    #[inline(always)]
    fn turned(self, words: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe { vrev32q_u8(vrbitq_u8(words)) }
    }

    #[inline(always)]
    fn store(self, words: uint8x16_t, to: &mut [[u8; 4]]) {
        let to = &mut to[..4];
        // SAFETY: the token exists only where these instructions do; sixteen bytes.
        unsafe { vst1q_u8(to.as_mut_ptr().cast(), words) }
    }
}

#[inline]
#[target_feature(enable = "aes,neon")]
fn low_product(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    let a = vgetq_lane_u64::<0>(vreinterpretq_u64_u8(a));
    let b = vgetq_lane_u64::<0>(vreinterpretq_u64_u8(b));
    vreinterpretq_u8_p128(vmull_p64(a, b))
}

#[inline]
#[target_feature(enable = "aes,neon")]
fn high_product(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    let (a, b) = (vreinterpretq_p64_u8(a), vreinterpretq_p64_u8(b));
    vreinterpretq_u8_p128(vmull_high_p64(a, b))
}
