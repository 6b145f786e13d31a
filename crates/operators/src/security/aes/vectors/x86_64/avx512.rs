//! Registers of four blocks: VAES with AVX-512.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::*;

use super::TURNED;
use crate::isa::{AesNi, Vaes};
use crate::security::aes::vectors::blocks::{Block, Blocks, Task};
use crate::security::aes::vectors::rounds::broadcast;

impl Blocks for Vaes {
    const LANES: usize = 16;
    const READS_AGAIN: bool = false;

    by_names! {
        "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,aes,pclmulqdq", 4, 4, __m512i, 1, zmm_reg, registers;
        _mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_broadcast_i32x4,
        _mm512_sll_epi64, _mm512_srl_epi64, _mm512_bslli_epi128, _mm512_bsrli_epi128
    }

    instructions! {
        self, __m512i;
        xor(a, b) = _mm512_xor_si512(a, b);
        and(a, b) = _mm512_and_si512(a, b);
        xor3(a, b, c) = _mm512_ternarylogic_epi64::<0x96>(a, b, c);
        add32(a, b) = _mm512_add_epi32(a, b);
        add64(a, b) = _mm512_add_epi64(a, b);
        low_product(a, b) = _mm512_clmulepi64_epi128::<0x00>(a, b);
        high_product(a, b) = _mm512_clmulepi64_epi128::<0x11>(a, b);
        cross_product(a, b) = _mm512_clmulepi64_epi128::<0x01>(a, b);
        swap(reg) = _mm512_shuffle_epi8(reg, self.set_words(TURNED));
        swap_words(reg) = _mm512_shuffle_epi32::<0b01_00_11_10>(reg);
        start(block, key) = _mm512_xor_si512(block, key);
    }

    rounds! { __m512i; round _mm512_aesenc_epi128, last _mm512_aesenclast_epi128, inverse_round _mm512_aesdec_epi128, inverse_last _mm512_aesdeclast_epi128 }

    #[inline(always)]
    fn low(self, reg: __m512i) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_castsi512_si128(reg) }
    }

    #[inline(always)]
    fn widen(self, block: __m128i) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_zextsi128_si512(block) }
    }

    #[inline(always)]
    fn broadcast(self, block: __m128i) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_broadcast_i32x4(block) }
    }

    #[inline(always)]
    fn across(self, reg: __m512i) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let [low, high] = [
                _mm512_castsi512_si256(reg),
                _mm512_extracti64x4_epi64::<1>(reg),
            ];
            let two = _mm256_xor_si256(low, high);
            _mm_xor_si128(
                _mm256_castsi256_si128(two),
                _mm256_extracti128_si256::<1>(two),
            )
        }
    }

    #[inline(always)]
    fn load_part(self, bytes: &[u8]) -> __m512i {
        // SAFETY: the mask has bits only for bytes that are there.
        unsafe { _mm512_maskz_loadu_epi8(mask(bytes.len()), bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_part(self, to: &mut [u8], reg: __m512i) {
        // SAFETY: the mask has bits only for bytes that are there.
        unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask(to.len()), reg) }
    }

    #[inline(always)]
    fn load_some(self, bytes: &[u8]) -> [__m512i; 1] {
        match bytes.try_into() {
            Ok(all) => self.load(all),
            Err(_) => [self.load_part(bytes)],
        }
    }

    #[inline(always)]
    fn store_some(self, to: &mut [u8], [reg]: [__m512i; 1]) {
        match to.try_into() {
            Ok(all) => self.store(all, [reg]),
            Err(_) => self.store_part(to, reg),
        }
    }

    #[inline(always)]
    fn first(self, [reg]: [__m512i; 1], bytes: usize) -> [__m512i; 1] {
        // SAFETY: the token exists only where these instructions do.
        [unsafe { _mm512_maskz_mov_epi8(mask(bytes), reg) }]
    }

    #[inline(always)]
    fn times_alphas(self, reg: __m512i) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        let [left, out] = unsafe {
            let bits = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
            let rest = _mm512_sub_epi64(_mm512_set1_epi64(64), bits);
            [_mm512_sllv_epi64(reg, bits), _mm512_srlv_epi64(reg, rest)]
        };
        let back = self.cross_product(out, self.set_words([0x87; 2]));
        self.xor3(left, self.up::<8>(out), back)
    }

    #[inline(always)]
    fn behind(self, [before]: [__m512i; 1], [four]: [__m512i; 1]) -> [__m512i; 1] {
        // SAFETY: the token exists only where these instructions do.
        [unsafe { _mm512_alignr_epi64::<6>(four, before) }]
    }

    #[inline(always)]
    unsafe fn gather(self, from: [*const u8; 4]) -> [__m512i; 1] {
        // SAFETY: the caller says so; no load needs alignment.
        unsafe {
            let [a, b, c, d] = from;
            let low = _mm256_loadu2_m128i(b.cast(), a.cast());
            let high = _mm256_loadu2_m128i(d.cast(), c.cast());
            [_mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)]
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, to: [*mut u8; 4], [four]: [__m512i; 1]) {
        // SAFETY: the caller says so; no store needs alignment.
        unsafe {
            _mm_storeu_si128(to[0].cast(), _mm512_castsi512_si128(four));
            _mm_storeu_si128(to[1].cast(), _mm512_extracti32x4_epi32::<1>(four));
            _mm_storeu_si128(to[2].cast(), _mm512_extracti32x4_epi32::<2>(four));
            _mm_storeu_si128(to[3].cast(), _mm512_extracti32x4_epi32::<3>(four));
        }
    }
}

/// A bit for each of the first `bytes`, of 64 at most.
#[inline(always)]
fn mask(bytes: usize) -> u64 {
    match bytes {
        0 => 0,
        bytes => u64::MAX >> 64usize.saturating_sub(bytes),
    }
}
