//! Ends of runs compared with a value, as many at once as a part of a block has.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::block::{KIND_BITS, KINDS};
#[cfg(target_arch = "x86_64")]
use crate::isa::Avx2;

/// Bytes that a comparison reads: a part's ends lie in one such piece of a line.
const WINDOW: usize = 32;

/// The run of `value` in a part of a block of the kind with this number: as many as there are ends below it.
#[inline(always)]
pub(super) fn run(ends: impl Ends, pool: &[u8], number: usize, part: usize, value: u8) -> usize {
    let window = pool[part / WINDOW * WINDOW..].first_chunk();
    let window: &[u8; WINDOW] = window.expect("bytes behind the last block");
    let outside = &OUTSIDE[number][part % WINDOW / 8];
    ends.below(window, outside, value)
}

/// How many bytes of a window, those `outside` left out, are below a value: one comparison of vectors.
pub(super) trait Ends: Copy {
    fn below(self, window: &[u8; WINDOW], outside: &[u8; WINDOW], value: u8) -> usize;
}

/// The instructions that every CPU of the architecture has.
#[derive(Clone, Copy)]
pub(super) struct Baseline;

impl Ends for Baseline {
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn below(self, window: &[u8; WINDOW], outside: &[u8; WINDOW], value: u8) -> usize {
        // SAFETY: SSE2 is part of x86-64. Each load is of sixteen bytes of 32, and needs no alignment.
        let count = unsafe {
            let value = _mm_set1_epi8(value.cast_signed());
            // All ones where a byte is not below.
            let others = |at: usize| {
                let window = _mm_loadu_si128(window[at..].as_ptr().cast());
                let end = _mm_or_si128(window, _mm_loadu_si128(outside[at..].as_ptr().cast()));
                _mm_cmpeq_epi8(_mm_max_epu8(end, value), end)
            };
            let others = _mm_add_epi8(others(0), others(16));
            let zero = _mm_setzero_si128();
            let counts = _mm_sad_epu8(_mm_sub_epi8(zero, others), zero);
            _mm_cvtsi128_si64(_mm_add_epi64(counts, _mm_unpackhi_epi64(counts, counts)))
        };
        WINDOW - count as usize
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    fn below(self, window: &[u8; WINDOW], outside: &[u8; WINDOW], value: u8) -> usize {
        let mut below = 0u8;
        for (end, outside) in window.iter().zip(outside) {
            below += u8::from((end | outside) < value);
        }
        usize::from(below)
    }
}

#[cfg(target_arch = "x86_64")]
impl Ends for Avx2 {
    #[inline(always)]
    fn below(self, window: &[u8; WINDOW], outside: &[u8; WINDOW], value: u8) -> usize {
        // SAFETY: `Avx2` exists only where these instructions do. The loads are of 32 bytes, and need no alignment.
        let others = unsafe {
            let window = _mm256_loadu_si256(window.as_ptr().cast());
            let end = _mm256_or_si256(window, _mm256_loadu_si256(outside.as_ptr().cast()));
            let value = _mm256_set1_epi8(value.cast_signed());
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(end, value), end))
        };
        others.count_zeros() as usize
    }
}

/// All ones for the bytes of a window that are no ends of a part: by number of its kind, and by where in the window it starts, in grains.
static OUTSIDE: [[[u8; WINDOW]; WINDOW / 8]; 1 << KIND_BITS] = {
    let mut outside = [[[0xff; WINDOW]; WINDOW / 8]; 1 << KIND_BITS];
    let mut number = 0;
    while number < KINDS.len() {
        let ends = KINDS[number].ends as usize;
        assert!(ends <= WINDOW, "a part begins at a multiple of its stride");
        let mut start = 0;
        while start < WINDOW {
            let mut at = start;
            // Parts of more ends than fit begin where a window does.
            while at < start + ends && at < WINDOW {
                outside[number][start / 8][at] = 0;
                at += 1;
            }
            start += 8;
        }
        number += 1;
    }
    outside
};
