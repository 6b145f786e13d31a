//! AVX2: a stripe is two vectors.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::secret::{SECRET_BYTES, Secret};
use super::stripes::stripes;
use super::{BLOCK_BYTES, INITIAL, LAST, PRIME32_1, STRIPE_BYTES, Sums};
use crate::isa::Avx2;

type Lanes = [__m256i; 2];

/// The sums after `data`, which is longer than a stripe.
pub(super) fn sums(_proof: Avx2, data: &[u8], secret: &Secret) -> Sums {
    // SAFETY: `Avx2` exists only where these instructions do.
    unsafe { all(data, secret) }
}

stripes!("avx2");

#[inline]
#[target_feature(enable = "avx2")]
fn begun() -> Lanes {
    let place: *const __m256i = INITIAL.as_ptr().cast();
    // SAFETY: two vectors have eight sums; the loads need no alignment.
    unsafe { [_mm256_loadu_si256(place), _mm256_loadu_si256(place.add(1))] }
}

#[inline]
#[target_feature(enable = "avx2")]
fn ended([low, high]: Lanes) -> Sums {
    let mut sums = INITIAL;
    let place: *mut __m256i = sums.as_mut_ptr().cast();
    // SAFETY: two vectors have eight sums; the stores need no alignment.
    unsafe {
        _mm256_storeu_si256(place, low);
        _mm256_storeu_si256(place.add(1), high);
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(stripe: &[u8; STRIPE_BYTES]) -> Lanes {
    let place: *const __m256i = stripe.as_ptr().cast();
    // SAFETY: two vectors are 64 bytes; the loads need no alignment.
    unsafe { [_mm256_loadu_si256(place), _mm256_loadu_si256(place.add(1))] }
}

#[inline]
#[target_feature(enable = "avx2")]
fn accumulated(mut sums: Lanes, stripe: Lanes, secret: Lanes) -> Lanes {
    for (i, sum) in sums.iter_mut().enumerate() {
        let key = _mm256_xor_si256(stripe[i], secret[i]);
        let product = _mm256_mul_epu32(key, _mm256_srli_epi64::<32>(key));
        let swapped = _mm256_shuffle_epi32::<0b01_00_11_10>(stripe[i]);
        *sum = _mm256_add_epi64(*sum, _mm256_add_epi64(product, swapped));
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2")]
fn scrambled(mut sums: Lanes, secret: Lanes) -> Lanes {
    let prime = _mm256_set1_epi64x(PRIME32_1.cast_signed());
    for (sum, secret) in sums.iter_mut().zip(secret) {
        let key = _mm256_xor_si256(_mm256_srli_epi64::<47>(*sum), secret);
        let key = _mm256_xor_si256(*sum, key);
        let low = _mm256_mul_epu32(key, prime);
        let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(key), prime);
        *sum = _mm256_add_epi64(low, _mm256_slli_epi64::<32>(high));
    }
    sums
}
