//! Advanced SIMD, which has no instruction that gathers a bit of each byte: of sixteen bytes each keeps another bit, and pairs are added.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::Vectors;
use crate::isa::Neon;

const VECTOR: usize = 16;
/// The bit of each byte, by its place among eight.
const BITS: [u8; VECTOR] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

impl Vectors for Neon {
    #[inline(always)]
    unsafe fn copy<const BYTES: usize>(self, from: *const u8, to: *mut u8) -> u64 {
        // SAFETY: the caller's promise, and `Neon` exists only where these instructions do; neither loads nor stores need alignment.
        unsafe {
            let bits = vld1q_u8(BITS.as_ptr());
            let kept = |vector: usize| {
                let at = vector * VECTOR;
                if at >= BYTES {
                    return vdupq_n_u8(0);
                }
                let bytes = vld1q_u8(from.add(at));
                vst1q_u8(to.add(at), bytes);
                vandq_u8(vceqzq_u8(bytes), bits)
            };
            let (first, last) = (vpaddq_u8(kept(0), kept(1)), vpaddq_u8(kept(2), kept(3)));
            let all = vpaddq_u8(first, last);
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(all, all)))
        }
    }
}
