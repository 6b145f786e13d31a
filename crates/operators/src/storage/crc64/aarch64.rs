//! Armv8-A with `PMULL`: folds of 128 bits.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use dpb_core::Batch;

use super::constants::{DIVISOR, FORWARD, QUOTIENT, fold};
use super::folds::{FOLDED_BYTES_MIN, folds};
use super::{INITIAL, portable, slot};
use crate::isa::ArmCrc;

type Lane = uint64x2_t;

/// The register after `data`.
pub(super) fn one(_proof: ArmCrc, data: &[u8]) -> u64 {
    // SAFETY: `ArmCrc` exists only where these instructions do.
    unsafe { advance(INITIAL, data) }
}

/// The CRC of each item, into its slot.
pub(super) fn batch(_proof: ArmCrc, batch: &Batch<'_>, slots: &mut [[u8; 8]]) {
    // SAFETY: `ArmCrc` exists only where these instructions do.
    unsafe { each(batch, slots) }
}

folds!("aes,neon");

#[inline]
#[target_feature(enable = "neon")]
fn load(block: &[u8; 16]) -> Lane {
    // SAFETY: 16 bytes; the load needs no alignment.
    vreinterpretq_u64_u8(unsafe { vld1q_u8(block.as_ptr()) })
}

#[inline]
#[target_feature(enable = "neon")]
fn xor(a: Lane, b: Lane) -> Lane {
    veorq_u64(a, b)
}

/// `early`, moved forward by the bytes that `factors` stand for, added to `late`.
#[inline]
#[target_feature(enable = "aes,neon")]
fn folded(early: Lane, factors: [u64; 2], late: Lane) -> Lane {
    let [low, high] = halves(early);
    let low = vreinterpretq_u64_p128(vmull_p64(low, factors[0]));
    let high = vreinterpretq_u64_p128(vmull_p64(high, factors[1]));
    xor(xor(low, high), late)
}

#[inline]
#[target_feature(enable = "neon")]
fn halves(lane: Lane) -> [u64; 2] {
    [vgetq_lane_u64::<0>(lane), vgetq_lane_u64::<1>(lane)]
}

/// The carry-less product, low half first.
#[inline]
#[target_feature(enable = "aes,neon")]
fn product(a: u64, b: u64) -> [u64; 2] {
    let product = vmull_p64(a, b);
    [product as u64, (product >> 64) as u64]
}
