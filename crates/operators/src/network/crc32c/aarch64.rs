//! Armv8-A: chains of the `CRC32CX` instruction, joined by `PMULL`.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use crate::isa::ArmCrc;

super::chains::chains!(ArmCrc, "crc,aes,neon");

/// The register after eight bytes.
#[inline]
#[target_feature(enable = "crc")]
fn word(register: u32, word: u64) -> u32 {
    __crc32cd(register, word)
}

#[inline]
#[target_feature(enable = "crc")]
fn byte(register: u32, byte: u8) -> u32 {
    __crc32cb(register, byte)
}

/// The word whose CRC from a register of zero is `register` moved forward by what `factor` says.
#[inline]
#[target_feature(enable = "aes,neon")]
fn moved(register: u32, factor: u64) -> u64 {
    // The product has 64 bits: both factors have 32.
    vmull_p64(u64::from(register), factor) as u64
}
