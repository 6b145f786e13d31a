//! NEON, which every aarch64 CPU has: the portable loops, with bits gathered by `ADDV` and byte sets looked up by `TBL`.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::portable::{self, PackBits};
use super::{ByteSet, Kernels};

/// Runs on every aarch64 CPU.
pub(super) const KERNELS: Kernels = Kernels {
    name: "neon",
    range: portable::range::<AddAcross>,
    compare: portable::compare::<AddAcross>,
    bytes_in_set,
    ..portable::KERNELS
};

/// Sixteen bytes at a time: weigh each by its bit, add pairs three times.
struct AddAcross;

const WEIGHTS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

impl PackBits for AddAcross {
    #[inline(always)]
    fn pack(bytes: &[u8; 64]) -> u64 {
        // SAFETY: NEON is part of aarch64; each load reads 16 of the 64 bytes.
        unsafe {
            let weights = vld1q_u8(WEIGHTS.as_ptr());
            let weigh = |at| vmulq_u8(vld1q_u8(bytes.as_ptr().add(at)), weights);
            let low = vpaddq_u8(weigh(0), weigh(16));
            let high = vpaddq_u8(weigh(32), weigh(48));
            let sums = vpaddq_u8(low, high);
            let sums = vpaddq_u8(sums, sums);
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(sums))
        }
    }
}

/// See [`Kernels::bytes_in_set`]: the set's byte `value / 8` by `TBL`, then its bit `value % 8`.
fn bytes_in_set(bytes: &[u8], set: &ByteSet, out: &mut [u64]) {
    let find = |chunk: &[u8; 64]| {
        let mut found = [0u8; 64];
        // SAFETY: NEON is part of aarch64; 32 bytes of the set, 16 of the 64 bytes a load and a store.
        unsafe {
            let table = vld1q_u8_x2(set.0.as_ptr().cast());
            let bits = vld1q_u8(WEIGHTS.as_ptr());
            for at in [0, 16, 32, 48] {
                let values = vld1q_u8(chunk.as_ptr().add(at));
                let byte = vqtbl2q_u8(table, vshrq_n_u8::<3>(values));
                let bit = vqtbl1q_u8(bits, vandq_u8(values, vdupq_n_u8(7)));
                let hit = vandq_u8(vtstq_u8(byte, bit), vdupq_n_u8(1));
                vst1q_u8(found.as_mut_ptr().add(at), hit);
            }
        }
        AddAcross::pack(&found)
    };
    let (chunks, rest) = bytes.as_chunks::<64>();
    for (word, chunk) in out.iter_mut().zip(chunks) {
        *word = find(chunk);
    }
    if !rest.is_empty() {
        let mut last = [0; 64];
        last[..rest.len()].copy_from_slice(rest);
        out[chunks.len()] = find(&last) & (u64::MAX >> (64 - rest.len()));
    }
}
