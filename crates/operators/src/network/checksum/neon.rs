//! Armv8-A: pairs of 16-bit words added to 32-bit lanes by one instruction.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::lines::Task;
use super::quarters::{Fours, OfFour, Quarters};
use crate::isa::Neon;

impl Quarters for Neon {
    type Quarter = uint32x4_t;

    const LOW: u32 = 0;

    #[inline(always)]
    fn none(self) -> uint32x4_t {
        // SAFETY: `Neon` exists only where these instructions do.
        unsafe { vdupq_n_u32(0) }
    }

    #[inline(always)]
    fn quarter(self, bytes: &[u8; 16]) -> uint32x4_t {
        // SAFETY: as above; sixteen bytes.
        unsafe { vreinterpretq_u32_u8(vld1q_u8(bytes.as_ptr())) }
    }

    #[inline(always)]
    fn store_quarter(self, quarter: uint32x4_t, to: &mut [u8; 16]) {
        // SAFETY: as above; sixteen bytes.
        unsafe { vst1q_u8(to.as_mut_ptr(), vreinterpretq_u8_u32(quarter)) }
    }

    #[inline(always)]
    fn plus_quarter(self, sum: uint32x4_t, bytes: uint32x4_t) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vpadalq_u16(sum, vreinterpretq_u16_u32(bytes)) }
    }

    #[inline(always)]
    fn picked(self, bytes: uint32x4_t, order: &[u8; 16]) -> uint32x4_t {
        // SAFETY: as above; sixteen bytes.
        unsafe {
            let picked = vqtbl1q_u8(vreinterpretq_u8_u32(bytes), vld1q_u8(order.as_ptr()));
            vreinterpretq_u32_u8(picked)
        }
    }
}

impl OfFour for Neon {
    #[inline(always)]
    fn enter_fours<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "neon")]
        fn inside<T: Task>(quarters: Neon, task: T) -> T::Output {
            task.run(Fours::new(quarters))
        }
        // SAFETY: `Neon` exists only where these instructions do.
        unsafe { inside(self, task) }
    }

    #[inline(always)]
    fn add_quarters(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vaddq_u32(a, b) }
    }

    #[inline(always)]
    fn join(self, [a, b, c, d]: [uint32x4_t; 4]) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vpaddq_u32(vpaddq_u32(a, b), vpaddq_u32(c, d)) }
    }

    #[inline(always)]
    fn total_of_quarter(self, sum: uint32x4_t) -> u32 {
        // SAFETY: as above.
        unsafe { vaddvq_u32(sum) }
    }

    #[inline(always)]
    fn folded_quarter(self, sums: uint32x4_t) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vsraq_n_u32::<16>(vandq_u32(sums, vdupq_n_u32(0xffff)), sums) }
    }

    #[inline(always)]
    fn complements_of_quarter(self, sums: uint32x4_t) -> [u16; 4] {
        let mut complements = [0; 4];
        // SAFETY: as above; four words.
        unsafe { vst1_u16(complements.as_mut_ptr(), vmvn_u16(vmovn_u32(sums))) };
        complements
    }
}
