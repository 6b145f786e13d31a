//! x86-64: the `crc32` instruction.
#![allow(unsafe_code)]

use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

use dpb_core::Batch;

use crate::isa::Sse42;

/// CRC-32C of `data`.
pub(super) fn crc32c(_proof: Sse42, data: &[u8]) -> u32 {
    // SAFETY: `Sse42` exists only where SSE4.2 does.
    unsafe { !serial(!0, data) }
}

/// CRC-32C of each item, into its slot.
pub(super) fn batch(proof: Sse42, batch: Batch<'_>, slots: &mut [[u8; 4]]) {
    for (i, slot) in slots.iter_mut().enumerate().take(batch.len()) {
        *slot = crc32c(proof, batch.item(i)).to_le_bytes();
    }
}

/// The register after `data`, one chain, eight bytes a step.
#[inline]
#[target_feature(enable = "sse4.2")]
pub(super) fn serial(register: u32, data: &[u8]) -> u32 {
    let (words, rest) = data.as_chunks::<8>();
    let register = words.iter().fold(u64::from(register), |register, word| {
        _mm_crc32_u64(register, u64::from_le_bytes(*word))
    });
    rest.iter().fold(register as u32, |register, byte| {
        _mm_crc32_u8(register, *byte)
    })
}
