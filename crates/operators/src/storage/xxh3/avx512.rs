//! AVX-512: a stripe is one vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::secret::{SECRET_BYTES, Secret};
use super::stripes::stripes;
use super::{BLOCK_BYTES, INITIAL, LAST, PRIME32_1, STRIPE_BYTES, Sums};
use crate::isa::Avx512;

type Lanes = __m512i;

/// The sums after `data`, which is longer than a stripe.
pub(super) fn sums(_proof: Avx512, data: &[u8], secret: &Secret) -> Sums {
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe { all(data, secret) }
}

stripes!("avx512f");

#[inline]
#[target_feature(enable = "avx512f")]
fn begun() -> Lanes {
    // SAFETY: a vector has eight sums; the load needs no alignment.
    unsafe { _mm512_loadu_si512(INITIAL.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn ended(lanes: Lanes) -> Sums {
    let mut sums = INITIAL;
    // SAFETY: a vector has eight sums; the store needs no alignment.
    unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), lanes) }
    sums
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(stripe: &[u8; STRIPE_BYTES]) -> Lanes {
    // SAFETY: 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(stripe.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn accumulated(sums: Lanes, stripe: Lanes, secret: Lanes) -> Lanes {
    let key = _mm512_xor_si512(stripe, secret);
    let product = _mm512_mul_epu32(key, _mm512_srli_epi64::<32>(key));
    let swapped = _mm512_shuffle_epi32::<0b01_00_11_10>(stripe);
    _mm512_add_epi64(sums, _mm512_add_epi64(product, swapped))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn scrambled(sums: Lanes, secret: Lanes) -> Lanes {
    let key = _mm512_ternarylogic_epi64::<0x96>(sums, _mm512_srli_epi64::<47>(sums), secret);
    let prime = _mm512_set1_epi64(PRIME32_1.cast_signed());
    let low = _mm512_mul_epu32(key, prime);
    let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(key), prime);
    _mm512_add_epi64(low, _mm512_slli_epi64::<32>(high))
}
