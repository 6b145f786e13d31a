//! SSE4.2, of which it needs SSE2 alone: short strings are copied whole, vector by vector, and their ends are looked for in all vectors at once. So no branch depends on
//! a string's length, which a call of the C library would have to find out first. Longer ones are the C library's: of 1 KiB strings its wider vectors copy twice
//! as fast, and vectors copied here before them take a tenth of the time again.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::libc::{self, ends};
use crate::isa::Sse42;

/// Bytes of a vector.
const VECTOR: usize = 16;
/// Bytes of halves that are copied here, by two vectors or by four, which may overlap.
const HERE: std::ops::RangeInclusive<usize> = VECTOR..=4 * VECTOR;

/// As [`libc::join`].
#[inline(always)]
pub(super) fn join(_proof: Sse42, first: &[u8], second: &[u8], slot: &mut [u8]) -> Option<usize> {
    let is_here = HERE.contains(&first.len()) && HERE.contains(&second.len());
    let fits = slot.len() >= first.len() + second.len();
    if !(is_here && fits && ends(first) && ends(second)) {
        return libc::join(first, second, slot);
    }
    let start = slot.as_mut_ptr();
    // SAFETY: both halves have one to four vectors' bytes and end with a zero byte, and the slot has as many bytes as both. The second one begins where
    // the first string ends, which is inside the first half.
    unsafe {
        let end = copy(first, start);
        let end = copy(second, end);
        Some(end as usize - start as usize + 1)
    }
}

/// Copies a half; says where its first zero byte lies. What is behind that is copied too.
///
/// # Safety
/// `half` has as many bytes as [`HERE`] says and ends with a zero byte; `to` has room for all of it.
#[inline(always)]
unsafe fn copy(half: &[u8], to: *mut u8) -> *mut u8 {
    // Places of vectors: from the start on and up to the end, so that together they are the whole half.
    let last = half.len() - VECTOR;
    // SAFETY: each vector lies inside the half, and in the room.
    let zeros = unsafe {
        let zeros = vector(half, 0, to) | vector(half, last, to);
        match half.len() > 2 * VECTOR {
            true => zeros | vector(half, VECTOR, to) | vector(half, last - VECTOR, to),
            false => zeros,
        }
    };
    // SAFETY: the half's last byte is zero, so that this is a place inside it, and in the room.
    unsafe { to.add(zeros.trailing_zeros() as usize) }
}

/// Copies the vector that begins `at` a place of `half` to the same place of `to`: a bit for each byte of the half that is zero and in this vector.
///
/// # Safety
/// From `at` on the half has a vector's bytes, and `to` room for them.
#[inline(always)]
unsafe fn vector(half: &[u8], at: usize, to: *mut u8) -> u64 {
    // SAFETY: the caller's promise; neither needs alignment. SSE2 is part of x86-64.
    let zeros = unsafe {
        let bytes = _mm_loadu_si128(half.as_ptr().add(at).cast());
        _mm_storeu_si128(to.add(at).cast(), bytes);
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128()))
    };
    u64::from(zeros.cast_unsigned()) << at
}
