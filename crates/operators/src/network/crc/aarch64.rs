//! Armv8-A: chains of the `CRC32X` and `CRC32CX` instructions for the CRCs of 32 bits, folds of 128 bits by `PMULL` for the
//! other.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use dpb_core::Batch;

use super::constants::{Barrett, powers};
use super::folds::forward;

use super::{Algorithm, Castagnoli, Ieee};
use crate::isa::ArmCrc;

/// The register after `data`.
pub(super) fn one<A: Algorithm>(_proof: ArmCrc, data: &[u8]) -> u32 {
    // SAFETY: `ArmCrc` exists only where these instructions do.
    unsafe {
        match has_instruction::<A>() {
            true => chained::advance::<A>(A::INITIAL, data),
            false => folded::advance::<A>(A::INITIAL, data),
        }
    }
}

/// The CRC of each item, into its slot.
pub(super) fn batch<A: Algorithm>(_proof: ArmCrc, batch: &Batch<'_>, slots: &mut [A::Slot]) {
    // SAFETY: `ArmCrc` exists only where these instructions do.
    unsafe {
        match has_instruction::<A>() {
            true => chained::batch::<A>(batch, slots),
            false => folded::batch::<A>(batch, slots),
        }
    }
}

/// Whether an instruction computes it.
const fn has_instruction<A: Algorithm>() -> bool {
    is_castagnoli::<A>() || A::POLYNOMIAL == Ieee::POLYNOMIAL
}

const fn is_castagnoli<A: Algorithm>() -> bool {
    A::POLYNOMIAL == Castagnoli::POLYNOMIAL
}

/// By the CRC instructions.
mod chained {
    use super::super::chains::{CHAIN_BYTES, SIDE_BY_SIDE_BYTES_MIN, STRIDE_BYTES, chains};
    use super::super::constants::shift;
    use super::*;

    chains!("crc,aes,neon");

    /// The register after eight bytes.
    #[inline]
    #[target_feature(enable = "crc")]
    fn word<A: Algorithm>(register: u32, word: u64) -> u32 {
        match is_castagnoli::<A>() {
            true => __crc32cd(register, word),
            false => __crc32d(register, word),
        }
    }

    #[inline]
    #[target_feature(enable = "crc")]
    fn byte<A: Algorithm>(register: u32, byte: u8) -> u32 {
        match is_castagnoli::<A>() {
            true => __crc32cb(register, byte),
            false => __crc32b(register, byte),
        }
    }
}

/// By carry-less products.
mod folded {
    use super::super::constants::fold;
    use super::super::folds::{FOLDED_BYTES_MIN, folds};
    use super::super::portable;
    use super::*;

    type Lane = uint64x2_t;

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

    /// Each byte with its bits reversed.
    #[inline]
    #[target_feature(enable = "neon")]
    fn reversed(lane: Lane) -> Lane {
        vreinterpretq_u64_u8(vrbitq_u8(vreinterpretq_u8_u64(lane)))
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
}

/// A remainder with `bytes` zero bytes behind it.
pub(super) fn forward<A: Algorithm>(_proof: ArmCrc, remainder: u32, bytes: u64) -> u32 {
    // SAFETY: `ArmCrc` exists only where these instructions do.
    unsafe { forward_by::<A>(remainder, bytes) }
}

forward!("aes,neon");

/// The carry-less product, low half first.
#[inline]
#[target_feature(enable = "aes,neon")]
pub(super) fn product(a: u64, b: u64) -> [u64; 2] {
    let product = vmull_p64(a, b);
    [product as u64, (product >> 64) as u64]
}
