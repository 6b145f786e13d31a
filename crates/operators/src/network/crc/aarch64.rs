//! Armv8-A with PMULL: vectors of one lane; and the CRC instructions.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::vectors::{Task, Vectors};
use super::{Algorithm, Castagnoli, Ieee};
use crate::isa::ArmCrc;

/// Read from `len` on, the order that moves `len` bytes from the start of a lane to its end, and zeros below.
static TO_END: [u8; 32] = {
    let mut order = [0x80; 32];
    let mut i = 0;
    while i < 16 {
        order[16 + i] = i as u8;
        i += 1;
    }
    order
};

impl Vectors for ArmCrc {
    type Vector = uint64x2_t;
    type Narrow = Self;

    const BYTES: usize = 16;
    const TURNS_BITS: bool = true;
    const BY_CACHE_LINES: bool = false;

    #[inline(always)]
    fn enter<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "crc,aes,neon")]
        fn inside<T: Task>(vectors: ArmCrc, task: T) -> T::Output {
            task.run(vectors)
        }
        // SAFETY: the token exists only where these instructions do.
        unsafe { inside(self, task) }
    }

    #[inline(always)]
    fn narrow(self) -> Self {
        self
    }

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> uint64x2_t {
        let bytes = &bytes[..16];
        // SAFETY: the token exists only where these instructions do; 16 bytes, which need no alignment.
        unsafe { vreinterpretq_u64_u8(vld1q_u8(bytes.as_ptr())) }
    }

    #[inline(always)]
    fn head(self, item: &[u8], len: usize) -> uint64x2_t {
        let (bytes, order) = (self.load(item), self.load(&TO_END[len..]));
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let (bytes, order) = (vreinterpretq_u8_u64(bytes), vreinterpretq_u8_u64(order));
            vreinterpretq_u64_u8(vqtbl1q_u8(bytes, order))
        }
    }

    #[inline(always)]
    fn first(self, word: u64) -> uint64x2_t {
        self.all([word, 0])
    }

    #[inline(always)]
    fn all(self, lane: [u64; 2]) -> uint64x2_t {
        // SAFETY: the token exists only where these instructions do; two words, which need no alignment.
        unsafe { vld1q_u64(lane.as_ptr()) }
    }

    #[inline(always)]
    fn plus(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe { veorq_u64(a, b) }
    }

    #[inline(always)]
    fn product<const HALVES: i32>(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe { product::<HALVES>(a, b) }
    }

    #[inline(always)]
    fn turned(self, bytes: uint64x2_t) -> uint64x2_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe { vreinterpretq_u64_u8(vrbitq_u8(vreinterpretq_u8_u64(bytes))) }
    }

    #[inline(always)]
    fn up(self, lanes: uint64x2_t) -> uint64x2_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe { vextq_u64::<1>(vdupq_n_u64(0), lanes) }
    }

    #[inline(always)]
    fn down(self, lanes: uint64x2_t) -> uint64x2_t {
        // SAFETY: the token exists only where these instructions do.
        unsafe { vextq_u64::<1>(lanes, vdupq_n_u64(0)) }
    }

    #[inline(always)]
    fn last_lane<A: Algorithm>(self, item: uint64x2_t) -> uint64x2_t {
        item
    }

    #[inline(always)]
    fn half<const HIGH: bool>(self, lane: uint64x2_t) -> u64 {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            match HIGH {
                true => vgetq_lane_u64::<1>(lane),
                false => vgetq_lane_u64::<0>(lane),
            }
        }
    }

    #[inline(always)]
    fn has_instruction<A: Algorithm>() -> bool {
        is_castagnoli::<A>() || A::POLYNOMIAL == Ieee::POLYNOMIAL
    }

    #[inline(always)]
    fn word<A: Algorithm>(self, register: u64, next: u64) -> u64 {
        // SAFETY: the token exists only where these instructions do.
        u64::from(unsafe { word::<A>(register as u32, next) })
    }

    #[inline(always)]
    fn byte<A: Algorithm>(self, register: u64, next: u8) -> u64 {
        // SAFETY: the token exists only where these instructions do.
        u64::from(unsafe { byte::<A>(register as u32, next) })
    }
}

/// The register after eight bytes.
#[inline]
#[target_feature(enable = "crc")]
fn word<A: Algorithm>(register: u32, word: u64) -> u32 {
    match is_castagnoli::<A>() {
        true => __crc32cd(register, word),
        false => __crc32d(register, word),
    }
}

/// The register after one byte.
#[inline]
#[target_feature(enable = "crc")]
fn byte<A: Algorithm>(register: u32, byte: u8) -> u32 {
    match is_castagnoli::<A>() {
        true => __crc32cb(register, byte),
        false => __crc32b(register, byte),
    }
}

const fn is_castagnoli<A: Algorithm>() -> bool {
    A::POLYNOMIAL == Castagnoli::POLYNOMIAL
}

/// See [`Vectors::product`].
#[inline]
#[target_feature(enable = "aes,neon")]
fn product<const HALVES: i32>(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    let product = match HALVES {
        0x00 => vmull_p64(vgetq_lane_u64::<0>(a), vgetq_lane_u64::<0>(b)),
        0x01 => vmull_p64(vgetq_lane_u64::<1>(a), vgetq_lane_u64::<0>(b)),
        0x10 => vmull_p64(vgetq_lane_u64::<0>(a), vgetq_lane_u64::<1>(b)),
        _ => vmull_p64(vgetq_lane_u64::<1>(a), vgetq_lane_u64::<1>(b)),
    };
    vreinterpretq_u64_p128(product)
}
