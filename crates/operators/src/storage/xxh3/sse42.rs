//! SSE4.2, of which it needs SSE2 alone: a stripe is four vectors.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::secret::{SECRET_BYTES, Secret};
use super::stripes::stripes;
use super::{BLOCK_BYTES, INITIAL, LAST, PRIME32_1, STRIPE_BYTES, Sums};
use crate::isa::Sse42;

type Lanes = [__m128i; 4];

/// The sums after `data`, which is longer than a stripe.
pub(super) fn sums(_proof: Sse42, data: &[u8], secret: &Secret) -> Sums {
    // SAFETY: `Sse42` exists only where these instructions do.
    unsafe { all(data, secret) }
}

stripes!("sse2");

#[inline]
#[target_feature(enable = "sse2")]
fn begun() -> Lanes {
    let mut lanes = [_mm_setzero_si128(); 4];
    for (lane, two) in lanes.iter_mut().zip(INITIAL.as_chunks::<2>().0) {
        // SAFETY: a vector has two sums; the load needs no alignment.
        *lane = unsafe { _mm_loadu_si128(two.as_ptr().cast()) };
    }
    lanes
}

#[inline]
#[target_feature(enable = "sse2")]
fn ended(lanes: Lanes) -> Sums {
    let mut sums = INITIAL;
    for (two, lane) in sums.as_chunks_mut::<2>().0.iter_mut().zip(lanes) {
        // SAFETY: a vector has two sums; the store needs no alignment.
        unsafe { _mm_storeu_si128(two.as_mut_ptr().cast(), lane) }
    }
    sums
}

#[inline]
#[target_feature(enable = "sse2")]
fn load(stripe: &[u8; STRIPE_BYTES]) -> Lanes {
    let mut lanes = [_mm_setzero_si128(); 4];
    for (lane, bytes) in lanes.iter_mut().zip(stripe.as_chunks::<16>().0) {
        // SAFETY: sixteen bytes; the load needs no alignment.
        *lane = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    }
    lanes
}

#[inline]
#[target_feature(enable = "sse2")]
fn accumulated(mut sums: Lanes, stripe: Lanes, secret: Lanes) -> Lanes {
    for (i, sum) in sums.iter_mut().enumerate() {
        let key = _mm_xor_si128(stripe[i], secret[i]);
        let product = _mm_mul_epu32(key, _mm_shuffle_epi32::<0b00_11_00_01>(key));
        let swapped = _mm_shuffle_epi32::<0b01_00_11_10>(stripe[i]);
        *sum = _mm_add_epi64(*sum, _mm_add_epi64(product, swapped));
    }
    sums
}

#[inline]
#[target_feature(enable = "sse2")]
fn scrambled(mut sums: Lanes, secret: Lanes) -> Lanes {
    let prime = _mm_set1_epi64x(PRIME32_1.cast_signed());
    for (sum, secret) in sums.iter_mut().zip(secret) {
        let key = _mm_xor_si128(_mm_srli_epi64::<47>(*sum), secret);
        let key = _mm_xor_si128(*sum, key);
        let low = _mm_mul_epu32(key, prime);
        let high = _mm_mul_epu32(_mm_srli_epi64::<32>(key), prime);
        *sum = _mm_add_epi64(low, _mm_slli_epi64::<32>(high));
    }
    sums
}
