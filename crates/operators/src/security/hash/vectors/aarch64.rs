//! Armv8-A: vectors of 128 bits by Advanced SIMD.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::{Enter, Vectors, Work};
use crate::isa::Neon;

impl Enter for Neon {
    const KEEPS_OPERANDS: bool = true;

    #[inline]
    fn enter(self, work: impl Work<Self>) {
        #[target_feature(enable = "neon")]
        fn inside(proof: Neon, work: impl Work<Neon>) {
            work.run(proof);
        }
        // SAFETY: the proof exists only where these instructions do.
        unsafe { inside(self, work) }
    }
}

/// Methods that are an expression each.
macro_rules! expressions {
    ($vector:ty: $($name:ident($($arg:ident),*) = $value:expr;)+) => {
        $(
            #[inline(always)]
            fn $name(self, $($arg: $vector),*) -> $vector {
                // SAFETY: the proof exists only where these instructions do.
                unsafe { $value }
            }
        )+
    };
}

/// The vectors of one width of words.
macro_rules! neon {
    (
        $word:ty, $lanes:literal, $vector:ty, $load:ident $store:ident $splat:ident $add:ident $xor:ident $and:ident
        $not_and:ident $or_not:ident $choose:ident $left:ident $right:ident $insert:ident,
        $from_bytes:ident($swap:ident($to_bytes:ident)), mirror($a:ident, $b:ident, $c:ident, $d:ident) = $mirrored:expr
    ) => {
        impl Vectors<$word, $lanes> for Neon {
            type V = $vector;
            const CHOOSES: bool = true;

            expressions! {
                $vector:
                zero() = $splat(0);
                add(a, b) = $add(a, b);
                xor(a, b) = $xor(a, b);
                and(a, b) = $and(a, b);
                not_and(a, b) = $not_and(b, a);
                choose(mask, a, b) = $choose(mask, a, b);
                majority(a, b, c) = $choose($xor(a, b), c, b);
                xor_or_not(a, b, c) = $xor(a, $or_not(b, c));
                swap(a) = $from_bytes($swap($to_bytes(a)));
            }

            #[inline(always)]
            fn load(self, words: &[$word; $lanes]) -> $vector {
                // SAFETY: as many bytes as a vector has; the proof for the instruction.
                unsafe { $load(words.as_ptr()) }
            }

            #[inline(always)]
            fn store(self, words: &mut [$word; $lanes], vector: $vector) {
                // SAFETY: as many bytes as a vector has; the proof for the instruction.
                unsafe { $store(words.as_mut_ptr(), vector) }
            }

            #[inline(always)]
            fn splat(self, word: $word) -> $vector {
                // SAFETY: the proof exists only where these instructions do.
                unsafe { $splat(word) }
            }

            #[inline(always)]
            fn rotate<const LEFT: i32, const RIGHT: i32>(self, a: $vector) -> $vector {
                // SAFETY: the proof exists only where these instructions do.
                unsafe { $insert::<RIGHT>($left::<LEFT>(a), a) }
            }

            #[inline(always)]
            fn shift_right<const BITS: i32>(self, a: $vector) -> $vector {
                // SAFETY: the proof exists only where these instructions do.
                unsafe { $right::<BITS>(a) }
            }

            #[inline(always)]
            fn columns(self, [row, ..]: [&[u8; 64]; 4]) -> [$vector; 4] {
                let mut columns = [<Self as Vectors<$word, $lanes>>::zero(self); 4];
                for (column, bytes) in columns.iter_mut().zip(row.as_chunks::<16>().0) {
                    // SAFETY: sixteen bytes; the proof for the instruction.
                    *column = unsafe { $from_bytes(vld1q_u8(bytes.as_ptr())) };
                }
                columns
            }

            #[inline(always)]
            fn mirror(self, [$a, $b, $c, $d]: [$vector; 4]) -> [$vector; 4] {
                // SAFETY: the proof exists only where these instructions do.
                unsafe { $mirrored }
            }
        }
    };
}

neon! {
    u32, 4, uint32x4_t, vld1q_u32 vst1q_u32 vdupq_n_u32 vaddq_u32 veorq_u32 vandq_u32
    vbicq_u32 vornq_u32 vbslq_u32 vshlq_n_u32 vshrq_n_u32 vsriq_n_u32,
    vreinterpretq_u32_u8(vrev32q_u8(vreinterpretq_u8_u32)), mirror(a, b, c, d) = {
        let (ab, cd) = (vzip1q_u32(a, b), vzip1q_u32(c, d));
        let (ab_high, cd_high) = (vzip2q_u32(a, b), vzip2q_u32(c, d));
        [pairs(ab, cd)[0], pairs(ab, cd)[1], pairs(ab_high, cd_high)[0], pairs(ab_high, cd_high)[1]]
    }
}
neon! {
    u64, 2, uint64x2_t, vld1q_u64 vst1q_u64 vdupq_n_u64 vaddq_u64 veorq_u64 vandq_u64
    vbicq_u64 vornq_u64 vbslq_u64 vshlq_n_u64 vshrq_n_u64 vsriq_n_u64,
    vreinterpretq_u64_u8(vrev64q_u8(vreinterpretq_u8_u64)), mirror(a, b, c, d) =
        [vtrn1q_u64(a, b), vtrn2q_u64(a, b), c, d]
}

/// The lower halves of both, and the upper halves.
///
/// # Safety
/// The CPU has Advanced SIMD.
#[inline(always)]
unsafe fn pairs(a: uint32x4_t, b: uint32x4_t) -> [uint32x4_t; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b));
        [
            vreinterpretq_u32_u64(vtrn1q_u64(a, b)),
            vreinterpretq_u32_u64(vtrn2q_u64(a, b)),
        ]
    }
}
