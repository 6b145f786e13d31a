//! SSE4.2, of which it needs SSE2 alone: strings are copied sixteen bytes at a time while their end is looked for. Short ones are over before a
//! call of the C library would have found out what to do; the rest of longer ones is the C library's.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ffi::c_char;

use super::libc::{self, ends, stpcpy};
use crate::isa::Sse42;

/// Bytes of a vector.
const VECTOR: usize = 16;
/// Bytes of a string that are copied here: of 1 KiB strings, the C library's wider vectors copy the rest twice as fast.
const HERE: usize = 8 * VECTOR;

/// As [`libc::join`].
#[inline(always)]
pub(super) fn join(_proof: Sse42, first: &[u8], second: &[u8], slot: &mut [u8]) -> Option<usize> {
    let is_long = first.len() >= VECTOR && second.len() >= VECTOR;
    let fits = slot.len() >= first.len() + second.len();
    if !(is_long && fits && ends(first) && ends(second)) {
        return libc::join(first, second, slot);
    }
    let start = slot.as_mut_ptr();
    // SAFETY: both slices have a vector's bytes and end with a zero byte, and the slot has as many bytes as both. The second one begins where the
    // first string ends, which is inside the first slice.
    unsafe {
        let end = copy(first, start);
        let end = copy(second, end);
        Some(end as usize - start as usize + 1)
    }
}

/// Copies a string up to its zero byte: where that lies. What lies behind it in the same vector is copied too.
///
/// # Safety
/// `half` has a vector's bytes at least and ends with a zero byte; `to` has room for all of it.
#[inline(always)]
unsafe fn copy(half: &[u8], to: *mut u8) -> *mut u8 {
    let from = half.as_ptr();
    let last = half.len() - VECTOR;
    let mut at = 0;
    while at < HERE {
        // SAFETY: `at` is `last` at most, so that the vector lies inside the half, and in the room; neither needs alignment. SSE2 is part of
        // x86-64.
        let zeros = unsafe {
            let bytes = _mm_loadu_si128(from.add(at).cast());
            _mm_storeu_si128(to.add(at).cast(), bytes);
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128()))
        };
        if zeros != 0 {
            // SAFETY: inside the vector just written.
            return unsafe { to.add(at + zeros.trailing_zeros() as usize) };
        }
        // The last vector has a zero byte, so the loop ends there. It begins behind this one's start, whose bytes are none.
        at = last.min(at + VECTOR);
    }
    // SAFETY: no zero byte before `at`, which lies inside the half; the string ends inside it, and the room has as many bytes.
    unsafe { stpcpy(to.add(at).cast::<c_char>(), from.add(at).cast()).cast() }
}
