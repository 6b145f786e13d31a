//! Advanced SIMD: a stripe is four vectors.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::secret::{SECRET_BYTES, Secret};
use super::stripes::stripes;
use super::{BLOCK_BYTES, INITIAL, LAST, PRIME32_1, STRIPE_BYTES, Sums};
use crate::isa::Neon;

type Lanes = [uint64x2_t; 4];

/// The sums after `data`, which is longer than a stripe.
pub(super) fn sums(_proof: Neon, data: &[u8], secret: &Secret) -> Sums {
    // SAFETY: `Neon` exists only where these instructions do.
    unsafe { all(data, secret) }
}

stripes!("neon");

#[inline]
#[target_feature(enable = "neon")]
fn begun() -> Lanes {
    let place = INITIAL.as_ptr();
    // SAFETY: two sums at 0, 2, 4 and 6 lie inside eight.
    [0, 2, 4, 6].map(|i| unsafe { vld1q_u64(place.add(i)) })
}

#[inline]
#[target_feature(enable = "neon")]
fn ended(lanes: Lanes) -> Sums {
    let mut sums = INITIAL;
    for (two, lane) in sums.as_chunks_mut::<2>().0.iter_mut().zip(lanes) {
        // SAFETY: a vector has two sums.
        unsafe { vst1q_u64(two.as_mut_ptr(), lane) }
    }
    sums
}

#[inline]
#[target_feature(enable = "neon")]
fn load(stripe: &[u8; STRIPE_BYTES]) -> Lanes {
    let place = stripe.as_ptr();
    // SAFETY: sixteen bytes at 0, 16, 32 and 48 lie inside 64; the loads need no alignment.
    [0, 16, 32, 48].map(|at| unsafe { vreinterpretq_u64_u8(vld1q_u8(place.add(at))) })
}

#[inline]
#[target_feature(enable = "neon")]
fn accumulated(mut sums: Lanes, stripe: Lanes, secret: Lanes) -> Lanes {
    for (i, sum) in sums.iter_mut().enumerate() {
        let key = veorq_u64(stripe[i], secret[i]);
        let swapped = vaddq_u64(*sum, vextq_u64::<1>(stripe[i], stripe[i]));
        *sum = vmlal_u32(swapped, vmovn_u64(key), vshrn_n_u64::<32>(key));
    }
    sums
}

#[inline]
#[target_feature(enable = "neon")]
fn scrambled(mut sums: Lanes, secret: Lanes) -> Lanes {
    let prime = vdup_n_u32(PRIME32_1 as u32);
    for (sum, secret) in sums.iter_mut().zip(secret) {
        let key = veorq_u64(veorq_u64(*sum, vshrq_n_u64::<47>(*sum)), secret);
        let high = vmull_u32(vshrn_n_u64::<32>(key), prime);
        *sum = vmlal_u32(vshlq_n_u64::<32>(high), vmovn_u64(key), prime);
    }
    sums
}
