//! x86-64: chains of the `crc32` instruction for CRC-32C, folds of 128 bits for the others.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use dpb_core::Batch;

use super::constants::{Barrett, powers};
use super::folds::forward;

use super::Algorithm;
use crate::isa::Sse42;

/// The register after `data`.
pub(super) fn one<A: Algorithm>(_proof: Sse42, data: &[u8]) -> u32 {
    // SAFETY: `Sse42` exists only where these instructions do.
    unsafe {
        match has_instruction::<A>() {
            true => chained::advance::<A>(A::INITIAL, data),
            false => folded::advance::<A>(A::INITIAL, data),
        }
    }
}

/// The CRC of each item, into its slot.
pub(super) fn batch<A: Algorithm>(_proof: Sse42, batch: &Batch<'_>, slots: &mut [A::Slot]) {
    // SAFETY: `Sse42` exists only where these instructions do.
    unsafe {
        match has_instruction::<A>() {
            true => chained::batch::<A>(batch, slots),
            false => folded::batch::<A>(batch, slots),
        }
    }
}

/// Whether the `crc32` instruction computes it.
pub(super) const fn has_instruction<A: Algorithm>() -> bool {
    A::POLYNOMIAL == super::Castagnoli::POLYNOMIAL
}

/// By the `crc32` instruction.
pub(super) mod chained {
    use super::super::chains::{CHAIN_BYTES, SIDE_BY_SIDE_BYTES_MIN, STRIDE_BYTES, chains};
    use super::super::constants::shift;
    use super::*;

    chains!("sse4.2,pclmulqdq");

    /// The register after eight bytes.
    #[allow(
        clippy::extra_unused_type_parameters,
        reason = "Armv8-A has an instruction for each of two"
    )]
    #[inline]
    #[target_feature(enable = "sse4.2")]
    pub(in super::super) fn word<A: Algorithm>(register: u32, word: u64) -> u32 {
        _mm_crc32_u64(u64::from(register), word) as u32
    }

    #[inline]
    #[target_feature(enable = "sse4.2")]
    fn byte<A: Algorithm>(register: u32, byte: u8) -> u32 {
        _mm_crc32_u8(register, byte)
    }
}

/// By carry-less products.
mod folded {
    use super::super::constants::fold;
    use super::super::folds::{FOLDED_BYTES_MIN, folds};
    use super::super::portable;
    use super::*;

    type Lane = __m128i;

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

    /// Each byte with its bits reversed, four of them by a table.
    #[inline]
    #[target_feature(enable = "sse4.2")]
    fn reversed(lane: Lane) -> Lane {
        let low = _mm_set1_epi8(0x0f);
        let reversed = _mm_setr_epi8(0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15);
        let high_to_low = _mm_shuffle_epi8(reversed, _mm_and_si128(_mm_srli_epi16::<4>(lane), low));
        let low_to_high = _mm_shuffle_epi8(reversed, _mm_and_si128(lane, low));
        _mm_or_si128(high_to_low, _mm_slli_epi16::<4>(low_to_high))
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
}

/// A remainder with `bytes` zero bytes behind it.
pub(super) fn forward<A: Algorithm>(_proof: Sse42, remainder: u32, bytes: u64) -> u32 {
    // SAFETY: `Sse42` exists only where these instructions do.
    unsafe { forward_by::<A>(remainder, bytes) }
}

forward!("sse4.2,pclmulqdq");

/// The carry-less product, low half first.
#[inline]
#[target_feature(enable = "sse4.2,pclmulqdq")]
pub(super) fn product(a: u64, b: u64) -> [u64; 2] {
    let [a, b] = [a, b].map(|word| _mm_cvtsi64_si128(word.cast_signed()));
    let product = _mm_clmulepi64_si128::<0x00>(a, b);
    [
        _mm_cvtsi128_si64(product).cast_unsigned(),
        _mm_extract_epi64::<1>(product).cast_unsigned(),
    ]
}
