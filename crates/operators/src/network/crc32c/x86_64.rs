//! x86-64: chains of the `crc32` instruction.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::isa::Sse42;

super::chains::chains!(Sse42, "sse4.2,pclmulqdq");

/// The register after eight bytes.
#[inline]
#[target_feature(enable = "sse4.2")]
pub(super) fn word(register: u32, word: u64) -> u32 {
    _mm_crc32_u64(u64::from(register), word) as u32
}

#[inline]
#[target_feature(enable = "sse4.2")]
fn byte(register: u32, byte: u8) -> u32 {
    _mm_crc32_u8(register, byte)
}

/// The word whose CRC from a register of zero is `register` moved forward by what `factor` says.
#[inline]
#[target_feature(enable = "pclmulqdq")]
pub(super) fn moved(register: u32, factor: u64) -> u64 {
    let register = _mm_cvtsi64_si128(i64::from(register));
    let factor = _mm_cvtsi64_si128(factor.cast_signed());
    _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0x00>(register, factor)).cast_unsigned()
}
