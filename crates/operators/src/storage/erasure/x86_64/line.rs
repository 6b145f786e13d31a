//! Registers of 16, 32 and 64 bytes, as far as all paths need them.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// A register that holds a line of a block. Of all its functions the caller vouches that the CPU has the register's instructions.
pub(super) trait Line: Copy {
    /// Bytes of it.
    const BYTES: usize;

    /// # Safety
    /// See the trait.
    unsafe fn zero() -> Self;
    /// # Safety
    /// So many bytes are there.
    unsafe fn load(from: *const u8) -> Self;
    /// # Safety
    /// There is room for so many bytes.
    unsafe fn store(self, to: *mut u8);
    /// The sum in the field, which is the exclusive or.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn plus(self, other: Self) -> Self;
}

macro_rules! line {
    ($register:ty: $zero:ident, $load:ident, $store:ident, $plus:ident) => {
        impl Line for $register {
            const BYTES: usize = size_of::<Self>();

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller vouches for the instructions; so below.
                unsafe { $zero() }
            }

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller vouches for the bytes.
                unsafe { $load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller vouches for the room.
                unsafe { $store(to.cast(), self) }
            }

            #[inline(always)]
            unsafe fn plus(self, other: Self) -> Self {
                // SAFETY: as of `zero`.
                unsafe { $plus(self, other) }
            }
        }
    };
}

line!(__m128i: _mm_setzero_si128, _mm_loadu_si128, _mm_storeu_si128, _mm_xor_si128);
line!(__m256i: _mm256_setzero_si256, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_xor_si256);
line!(__m512i: _mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_xor_si512);
