//! x86-64 with AVX-512: 64 bytes of each string at once, masked where they end.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::isa::Avx512;

/// The order of two strings in halves of the same length.
pub(super) fn compare(_proof: Avx512, [first, second]: [&[u8]; 2]) -> u8 {
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe { order(first, second) }
}

/// Both strings and a zero byte into `slot`: how many bytes, if they fit.
pub(super) fn join(_proof: Avx512, halves: [&[u8]; 2], slot: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    for half in halves {
        // SAFETY: `Avx512` exists only where these instructions do.
        len += unsafe { copy(half, slot.get_mut(len..)?)? };
    }
    *slot.get_mut(len)? = 0;
    Some(len + 1)
}

#[target_feature(enable = "avx512f,avx512bw")]
fn order(first: &[u8], second: &[u8]) -> u8 {
    for (first, second) in first.chunks(64).zip(second.chunks(64)) {
        let (a, b) = (load(first), load(second));
        let differ = _mm512_cmpneq_epi8_mask(a, b);
        let end = _mm512_testn_epi8_mask(a, a);
        if differ | end != 0 {
            // Beyond the strings both have zeros: if these end without one, nothing differs there.
            let at = (differ | end).trailing_zeros() as usize;
            let [a, b] = [first, second].map(|half| half.get(at).copied().unwrap_or(0));
            return a.cmp(&b) as i8 as u8;
        }
    }
    0
}

/// The string at the start of `half` to `slot`: its length, if it fits.
#[target_feature(enable = "avx512f,avx512bw")]
fn copy(half: &[u8], slot: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    for block in half.chunks(64) {
        let bytes = load(block);
        let end = _mm512_testn_epi8_mask(bytes, bytes).trailing_zeros() as usize;
        let string_bytes = end.min(block.len());
        let place = slot.get_mut(len..len + string_bytes)?;
        let mask = first(string_bytes);
        // SAFETY: the mask selects `place` alone; what is masked out is not accessed.
        unsafe { _mm512_mask_storeu_epi8(place.as_mut_ptr().cast(), mask, bytes) };
        len += string_bytes;
        if string_bytes < 64 {
            break;
        }
    }
    Some(len)
}

/// Up to 64 bytes, zeros behind them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load(block: &[u8]) -> __m512i {
    // SAFETY: the mask selects `block` alone; what is masked out is not accessed and cannot fault.
    unsafe { _mm512_maskz_loadu_epi8(first(block.len()), block.as_ptr().cast()) }
}

/// The lowest `count` bits, of 64 at most.
#[inline]
fn first(count: usize) -> u64 {
    !(!0u64).checked_shl(count as u32).unwrap_or(0)
}
