//! x86-64 with PCLMULQDQ: folds of 128 bits.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use dpb_core::Batch;

use super::constants::{DIVISOR, FORWARD, QUOTIENT, fold};
use super::folds::{FOLDED_BYTES_MIN, folds};
use super::{INITIAL, portable, slot};
use crate::isa::Sse42;

type Lane = __m128i;

/// The register after `data`.
pub(super) fn one(_proof: Sse42, data: &[u8]) -> u64 {
    // SAFETY: `Sse42` exists only where these instructions do.
    unsafe { advance(INITIAL, data) }
}

/// The CRC of each item, into its slot.
pub(super) fn batch(_proof: Sse42, batch: &Batch<'_>, slots: &mut [[u8; 8]]) {
    // SAFETY: `Sse42` exists only where these instructions do.
    unsafe { each(batch, slots) }
}

folds!("sse4.2,pclmulqdq");

#[inline]
#[target_feature(enable = "sse4.2")]
fn load(block: &[u8; 16]) -> Lane {
    // SAFETY: 16 bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse4.2")]
fn xor(a: Lane, b: Lane) -> Lane {
    _mm_xor_si128(a, b)
}

/// `early`, moved forward by the bytes that `factors` stand for, added to `late`.
#[inline]
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn folded(early: Lane, [low, high]: [u64; 2], late: Lane) -> Lane {
    let factors = _mm_set_epi64x(high.cast_signed(), low.cast_signed());
    let low = _mm_clmulepi64_si128::<0x00>(early, factors);
    let high = _mm_clmulepi64_si128::<0x11>(early, factors);
    _mm_xor_si128(_mm_xor_si128(low, high), late)
}

#[inline]
#[target_feature(enable = "sse4.2")]
fn halves(lane: Lane) -> [u64; 2] {
    [
        _mm_cvtsi128_si64(lane).cast_unsigned(),
        _mm_extract_epi64::<1>(lane).cast_unsigned(),
    ]
}

/// The carry-less product, low half first.
#[inline]
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn product(a: u64, b: u64) -> [u64; 2] {
    let [a, b] = [a, b].map(|word| _mm_cvtsi64_si128(word.cast_signed()));
    halves(_mm_clmulepi64_si128::<0x00>(a, b))
}
