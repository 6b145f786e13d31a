//! Registers of two blocks: VAES with AVX2.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::*;

use super::TURNED;
use crate::isa::{AesNi, VaesAvx2};
use crate::security::aes::vectors::blocks::{Block, Blocks, Stored, Task};

impl Blocks for VaesAvx2 {
    const LANES: usize = 16;
    const READS_AGAIN: bool = true;

    by_names! {
        "avx2,vaes,vpclmulqdq,aes,pclmulqdq", 4, 4, __m256i, 2, ymm_reg, stored;
        _mm256_setzero_si256, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_broadcastsi128_si256,
        _mm256_sll_epi64, _mm256_srl_epi64, _mm256_bslli_epi128, _mm256_bsrli_epi128
    }

    instructions! {
        self, __m256i;
        xor(a, b) = _mm256_xor_si256(a, b);
        and(a, b) = _mm256_and_si256(a, b);
        add32(a, b) = _mm256_add_epi32(a, b);
        add64(a, b) = _mm256_add_epi64(a, b);
        low_product(a, b) = _mm256_clmulepi64_epi128::<0x00>(a, b);
        high_product(a, b) = _mm256_clmulepi64_epi128::<0x11>(a, b);
        cross_product(a, b) = _mm256_clmulepi64_epi128::<0x01>(a, b);
        swap(reg) = _mm256_shuffle_epi8(reg, self.set_words(TURNED));
        swap_words(reg) = _mm256_shuffle_epi32::<0b01_00_11_10>(reg);
        start(block, key) = _mm256_xor_si256(block, key);
    }

    rounds! { __m256i; round _mm256_aesenc_epi128, last _mm256_aesenclast_epi128, inverse_round _mm256_aesdec_epi128, inverse_last _mm256_aesdeclast_epi128 }

    #[inline(always)]
    fn low(self, reg: __m256i) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_castsi256_si128(reg) }
    }

    #[inline(always)]
    fn widen(self, block: __m128i) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_zextsi128_si256(block) }
    }

    #[inline(always)]
    fn broadcast(self, block: __m128i) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_broadcastsi128_si256(block) }
    }

    #[inline(always)]
    fn across(self, reg: __m256i) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            _mm_xor_si128(
                _mm256_castsi256_si128(reg),
                _mm256_extracti128_si256::<1>(reg),
            )
        }
    }

    #[inline(always)]
    fn load_part(self, bytes: &[u8]) -> __m256i {
        let one = self.one();
        match bytes.split_at_checked(16) {
            None => self.widen(one.load_part(bytes)),
            Some((whole, rest)) => {
                let (low, high) = (one.load_reg(whole), one.load_part(rest));
                // SAFETY: the token exists only where these instructions do.
                unsafe { _mm256_set_m128i(high, low) }
            }
        }
    }

    #[inline(always)]
    fn store_part(self, to: &mut [u8], reg: __m256i) {
        let one = self.one();
        match to.split_at_mut_checked(16) {
            None => one.store_part(to, self.low(reg)),
            Some((whole, rest)) => {
                one.store_reg(whole, self.low(reg));
                // SAFETY: the token exists only where these instructions do.
                one.store_part(rest, unsafe { _mm256_extracti128_si256::<1>(reg) });
            }
        }
    }

    #[inline(always)]
    fn times_alphas(self, reg: __m256i) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        let [left, out] = unsafe {
            [
                _mm256_sllv_epi64(reg, _mm256_set_epi64x(1, 1, 0, 0)),
                _mm256_srlv_epi64(reg, _mm256_set_epi64x(63, 63, 64, 64)),
            ]
        };
        let back = self.cross_product(out, self.set_words([0x87; 2]));
        self.xor3(left, self.up::<8>(out), back)
    }

    #[inline(always)]
    fn behind(self, before: [__m256i; 2], four: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            [
                _mm256_permute2x128_si256::<0x21>(before[1], four[0]),
                _mm256_permute2x128_si256::<0x21>(four[0], four[1]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn gather(self, from: [*const u8; 4]) -> [__m256i; 2] {
        // SAFETY: the caller says so; no load needs alignment.
        unsafe {
            let [a, b, c, d] = from;
            [
                _mm256_loadu2_m128i(b.cast(), a.cast()),
                _mm256_loadu2_m128i(d.cast(), c.cast()),
            ]
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, to: [*mut u8; 4], four: [__m256i; 2]) {
        // SAFETY: the caller says so; no store needs alignment.
        unsafe {
            let [a, b, c, d] = to;
            _mm256_storeu2_m128i(b.cast(), a.cast(), four[0]);
            _mm256_storeu2_m128i(d.cast(), c.cast(), four[1]);
        }
    }
}
