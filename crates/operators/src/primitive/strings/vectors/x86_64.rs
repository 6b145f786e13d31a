//! SSE4.2, of which blocks need SSE2 alone, and AVX2.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use dpb_core::{Batch, BatchOut};

use super::super::join_each;
use super::{Vectors, join};
use crate::isa::{Avx2, Sse42};

/// [`join_each`] by vectors of 32 bytes.
pub(in super::super) fn join_each_by_avx2(proof: Avx2, batch: Batch<'_>, out: BatchOut<'_>) {
    #[target_feature(enable = "avx2,bmi1")]
    fn by_avx2(proof: Avx2, batch: Batch<'_>, out: BatchOut<'_>) {
        join_each(batch, out, |first, second, slot| {
            join(proof, first, second, slot)
        });
    }
    // SAFETY: `Avx2` exists only where these instructions do.
    unsafe { by_avx2(proof, batch, out) }
}

/// Vectors of 16 bytes.
impl Vectors for Sse42 {
    #[inline(always)]
    unsafe fn copy<const BYTES: usize>(self, from: *const u8, to: *mut u8) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { copy_by_16::<BYTES>(from, to) }
    }
}

/// Vectors of 32 bytes; for a block of 16 one of those.
impl Vectors for Avx2 {
    #[inline(always)]
    unsafe fn copy<const BYTES: usize>(self, from: *const u8, to: *mut u8) -> u64 {
        const VECTOR: usize = 32;
        if BYTES < VECTOR {
            // SAFETY: the caller's promise.
            return unsafe { copy_by_16::<BYTES>(from, to) };
        }
        let mut zeros = 0;
        for at in (0..BYTES).step_by(VECTOR) {
            // SAFETY: the caller's promise, and `Avx2` exists only where these instructions do; neither needs alignment.
            let mask = unsafe {
                let bytes = _mm256_loadu_si256(from.add(at).cast());
                _mm256_storeu_si256(to.add(at).cast(), bytes);
                _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256()))
            };
            zeros |= u64::from(mask.cast_unsigned()) << at;
        }
        zeros
    }
}

/// [`Vectors::copy`] by vectors of 16 bytes.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn copy_by_16<const BYTES: usize>(from: *const u8, to: *mut u8) -> u64 {
    const VECTOR: usize = 16;
    let mut zeros = 0;
    for at in (0..BYTES).step_by(VECTOR) {
        // SAFETY: the caller's promise; neither needs alignment. SSE2 is part of x86-64.
        let mask = unsafe {
            let bytes = _mm_loadu_si128(from.add(at).cast());
            _mm_storeu_si128(to.add(at).cast(), bytes);
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128()))
        };
        zeros |= u64::from(mask.cast_unsigned()) << at;
    }
    zeros
}
