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
    let ((blocks, first), (others, second)) = (first.as_chunks(), second.as_chunks());
    for (block, other) in blocks.iter().zip(others) {
        let (a, b) = (whole(block), whole(other));
        // Bytes that go on: the same, and not zero.
        let same = _mm512_mask_cmpeq_epi8_mask(_mm512_test_epi8_mask(a, a), a, b);
        if same != !0 {
            let at = same.trailing_ones() as usize;
            return block[at].cmp(&other[at]) as i8 as u8;
        }
    }
    // Behind both halves there are zeros: if the strings end without one, nothing differs there.
    let (a, b) = (load(first), load(second));
    let same = _mm512_mask_cmpeq_epi8_mask(_mm512_test_epi8_mask(a, a), a, b);
    let at = same.trailing_ones() as usize;
    let byte = |half: &[u8]| half.get(at).copied().unwrap_or(0);
    byte(first).cmp(&byte(second)) as i8 as u8
}

/// The string at the start of `half` to `slot`: its length, if it fits.
#[target_feature(enable = "avx512f,avx512bw")]
fn copy(half: &[u8], slot: &mut [u8]) -> Option<usize> {
    let (blocks, _) = half.as_chunks::<64>();
    let (places, _) = slot.as_chunks_mut::<64>();
    let mut len = 0;
    for (block, place) in blocks.iter().zip(places) {
        let bytes = whole(block);
        // SAFETY: 64 bytes; the store needs no alignment. What is behind the string's end is not part of the output yet.
        unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), bytes) };
        let end = _mm512_testn_epi8_mask(bytes, bytes).trailing_zeros() as usize;
        len += end;
        if end < 64 {
            return Some(len);
        }
    }
    // What the slot has no whole place for, or the half no whole block.
    for block in half[len..].chunks(64) {
        let bytes = load(block);
        let end = _mm512_testn_epi8_mask(bytes, bytes).trailing_zeros() as usize;
        let string_bytes = end.min(block.len());
        let place = slot.get_mut(len..len + string_bytes)?;
        // SAFETY: the mask selects `place` alone; what is masked out is not accessed.
        unsafe {
            _mm512_mask_storeu_epi8(place.as_mut_ptr().cast(), first(string_bytes), bytes);
        }
        len += string_bytes;
        if string_bytes < 64 {
            break;
        }
    }
    Some(len)
}

/// 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn whole(block: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
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
