//! x86-64: vectors of 128 bits with SSE4.2, of 256 with AVX2, of 512 with AVX-512.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Enter, Vectors, Work};
use crate::isa::{Avx2, Avx512, Sse42};

/// A place on the stack that makes the compiler align all of a function's part of it. Otherwise vectors for which there is no register lie
/// there as they happen to, across lines of the cache.
#[repr(align(64))]
#[allow(dead_code, reason = "its address is all that is used")]
struct Aligned([u8; 1]);

macro_rules! enter {
    ($proof:ty, $features:literal, $keeps:literal) => {
        impl Enter for $proof {
            const KEEPS_OPERANDS: bool = $keeps;

            #[inline]
            fn enter(self, work: impl Work<Self>) {
                #[target_feature(enable = $features)]
                fn inside(proof: $proof, work: impl Work<$proof>) {
                    let place = Aligned([0]);
                    // SAFETY: no instruction.
                    unsafe {
                        std::arch::asm!("/* {0} */", in(reg) &place, options(nostack, preserves_flags));
                    }
                    work.run(proof);
                }
                // SAFETY: the proof exists only where these instructions do.
                unsafe { inside(self, work) }
            }
        }
    };
}

enter!(Sse42, "sse4.2", false);
enter!(Avx2, "avx2,bmi1,bmi2", true);
enter!(Avx512, "avx512f,avx512bw,bmi1,bmi2", true);

/// Methods that are an intrinsic each.
macro_rules! intrinsics {
    ($vector:ty: $($name:ident($($arg:ident),*) = $intrinsic:expr;)+) => {
        $(
            #[inline(always)]
            fn $name(self, $($arg: $vector),*) -> $vector {
                // SAFETY: the proof exists only where these instructions do.
                unsafe { $intrinsic($($arg),*) }
            }
        )+
    };
}

/// The methods that all widths have, with their intrinsics.
macro_rules! methods {
    (
        $word:ty, $lanes:literal, $vector:ty, $load:ident $store:ident $zero:ident,
        $xor:ident $and:ident $not_and:ident, $add:ident $splat:ident, $shuffle:ident($order:expr)
    ) => {
        type V = $vector;

        intrinsics! {
            $vector:
            add(a, b) = $add;
            xor(a, b) = $xor;
            and(a, b) = $and;
            not_and(a, b) = $not_and;
            zero() = $zero;
        }

        #[inline(always)]
        fn load(self, words: &[$word; $lanes]) -> $vector {
            // SAFETY: as many bytes as a vector has, which need no alignment; the proof for the instruction.
            unsafe { $load(words.as_ptr().cast()) }
        }

        #[inline(always)]
        fn store(self, words: &mut [$word; $lanes], vector: $vector) {
            // SAFETY: as many bytes as a vector has, which need no alignment; the proof for the instruction.
            unsafe { $store(words.as_mut_ptr().cast(), vector) }
        }

        #[inline(always)]
        fn splat(self, word: $word) -> $vector {
            // SAFETY: the proof exists only where these instructions do.
            unsafe { $splat(word.cast_signed()) }
        }

        #[inline(always)]
        fn swap(self, a: $vector) -> $vector {
            // SAFETY: the proof exists only where these instructions do.
            unsafe { $shuffle(a, $order) }
        }
    };
}

/// Rotates and choices of vectors without instructions for them.
macro_rules! composed {
    ($vector:ty, $left:ident $right:ident $or:ident $xor:ident $ones:expr) => {
        const CHOOSES: bool = false;

        #[inline(always)]
        fn rotate<const LEFT: i32, const RIGHT: i32>(self, a: $vector) -> $vector {
            // SAFETY: the proof exists only where these instructions do.
            unsafe { $or($left::<LEFT>(a), $right::<RIGHT>(a)) }
        }

        #[inline(always)]
        fn shift_right<const BITS: i32>(self, a: $vector) -> $vector {
            // SAFETY: the proof exists only where these instructions do.
            unsafe { $right::<BITS>(a) }
        }

        #[inline(always)]
        fn xor_or_not(self, a: $vector, b: $vector, c: $vector) -> $vector {
            // SAFETY: the proof exists only where these instructions do.
            unsafe { $xor(a, $or(b, $xor(c, $ones))) }
        }
    };
}

/// Square blocks of words.
macro_rules! mirror {
    ($vector:ty: $low_32:ident $high_32:ident $low_64:ident $high_64:ident) => {
        #[inline(always)]
        fn mirror(self, [a, b, c, d]: [$vector; 4]) -> [$vector; 4] {
            // SAFETY: the proof exists only where these instructions do.
            unsafe {
                let (ab, cd) = ($low_32(a, b), $low_32(c, d));
                let (ab_high, cd_high) = ($high_32(a, b), $high_32(c, d));
                [
                    $low_64(ab, cd),
                    $high_64(ab, cd),
                    $low_64(ab_high, cd_high),
                    $high_64(ab_high, cd_high),
                ]
            }
        }
    };
    ($vector:ty: $low_64:ident $high_64:ident) => {
        #[inline(always)]
        fn mirror(self, [a, b, c, d]: [$vector; 4]) -> [$vector; 4] {
            // SAFETY: the proof exists only where these instructions do.
            unsafe { [$low_64(a, b), $high_64(a, b), c, d] }
        }
    };
}

/// Bytes of words of 32 bits, and of 64, turned around.
const ORDER_32: [u64; 2] = [0x0405_0607_0001_0203, 0x0c0d_0e0f_0809_0a0b];
const ORDER_64: [u64; 2] = [0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f];

macro_rules! order {
    ($order:ident) => {
        _mm_set_epi64x($order[1].cast_signed(), $order[0].cast_signed())
    };
}

/// The three numbers in ascending order.
const fn sorted([a, b, c]: [i32; 3]) -> [i32; 3] {
    let (a, b) = if a > b { (b, a) } else { (a, b) };
    let (b, c) = if b > c { (c, b) } else { (b, c) };
    if a > b { [b, a, c] } else { [a, b, c] }
}

/// The same value. The compiler does not see how it was made: it would join two shifts into one of what was shifted first, which it would copy.
#[inline(always)]
fn opaque(mut a: __m128i) -> __m128i {
    // SAFETY: no instruction: the value stays as it is.
    unsafe {
        std::arch::asm!("/* {0} */", inout(xmm_reg) a, options(pure, nomem, nostack, preserves_flags));
    }
    a
}

/// SSE4.2's vectors, by words.
macro_rules! sse {
    ($word:ty, $lanes:literal, $order:ident, $add:ident $splat:ident $left:ident $right:ident $by_left:ident $by_right:ident,
        $($mirror:ident)+
    ) => {
        impl Vectors<$word, $lanes> for Sse42 {
            methods! {
                $word, $lanes, __m128i, _mm_loadu_si128 _mm_storeu_si128 _mm_setzero_si128,
                _mm_xor_si128 _mm_and_si128 _mm_andnot_si128, $add $splat,
                _mm_shuffle_epi8(order!($order))
            }
            composed! { __m128i, $left $right _mm_or_si128 _mm_xor_si128 _mm_set1_epi32(-1) }
            mirror! { __m128i: $($mirror)+ }

            /// A shift overwrites its operand. So each shifts what the one before has left, where rotations would copy `a` for each of theirs.
            #[inline(always)]
            fn xor_rotated<
                const L1: i32,
                const R1: i32,
                const L2: i32,
                const R2: i32,
                const L3: i32,
                const R3: i32,
            >(
                self,
                a: __m128i,
            ) -> __m128i {
                let [r1, r2, r3] = const { sorted([R1, R2, R3]) };
                let [l1, l2, l3] = const { sorted([L1, L2, L3]) };
                // SAFETY: the proof exists only where these instructions do.
                unsafe {
                    let count = |bits| _mm_cvtsi32_si128(bits);
                    let mut right = $by_right(a, count(r1));
                    let mut all = right;
                    let mut left = a;
                    if l1 > 0 {
                        left = $by_left(left, count(l1));
                        all = _mm_xor_si128(all, left);
                    }
                    right = $by_right(opaque(right), count(r2 - r1));
                    all = _mm_xor_si128(all, right);
                    left = $by_left(opaque(left), count(l2 - l1));
                    all = _mm_xor_si128(all, left);
                    right = $by_right(opaque(right), count(r3 - r2));
                    left = $by_left(opaque(left), count(l3 - l2));
                    _mm_xor_si128(all, _mm_xor_si128(right, left))
                }
            }

            #[inline(always)]
            fn columns(self, [row, ..]: [&[u8; 64]; 4]) -> [__m128i; 4] {
                let mut columns = [<Self as Vectors<$word, $lanes>>::zero(self); 4];
                for (column, bytes) in columns.iter_mut().zip(row.as_chunks::<16>().0) {
                    // SAFETY: sixteen bytes, which need no alignment; the proof for the instruction.
                    *column = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
                }
                columns
            }
        }
    };
}

sse! {
    u32, 4, ORDER_32, _mm_add_epi32 _mm_set1_epi32 _mm_slli_epi32 _mm_srli_epi32 _mm_sll_epi32 _mm_srl_epi32,
    _mm_unpacklo_epi32 _mm_unpackhi_epi32 _mm_unpacklo_epi64 _mm_unpackhi_epi64
}
sse! {
    u64, 2, ORDER_64, _mm_add_epi64 _mm_set1_epi64x _mm_slli_epi64 _mm_srli_epi64 _mm_sll_epi64 _mm_srl_epi64,
    _mm_unpacklo_epi64 _mm_unpackhi_epi64
}

/// AVX2's vectors, by words.
macro_rules! avx2 {
    ($word:ty, $lanes:literal, $order:ident, $add:ident $splat:ident $left:ident $right:ident, $($mirror:ident)+) => {
        impl Vectors<$word, $lanes> for Avx2 {
            methods! {
                $word, $lanes, __m256i, _mm256_loadu_si256 _mm256_storeu_si256 _mm256_setzero_si256,
                _mm256_xor_si256 _mm256_and_si256 _mm256_andnot_si256, $add $splat,
                _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(order!($order)))
            }
            composed! { __m256i, $left $right _mm256_or_si256 _mm256_xor_si256 _mm256_set1_epi32(-1) }
            mirror! { __m256i: $($mirror)+ }

            #[inline(always)]
            fn columns(self, [low, high, ..]: [&[u8; 64]; 4]) -> [__m256i; 4] {
                let mut columns = [<Self as Vectors<$word, $lanes>>::zero(self); 4];
                let (low, high) = (low.as_chunks::<16>().0, high.as_chunks::<16>().0);
                for (column, (low, high)) in columns.iter_mut().zip(low.iter().zip(high)) {
                    // SAFETY: twice sixteen bytes, which need no alignment; the proof for the instruction.
                    *column = unsafe {
                        _mm256_loadu2_m128i(high.as_ptr().cast(), low.as_ptr().cast())
                    };
                }
                columns
            }
        }
    };
}

avx2! {
    u32, 8, ORDER_32, _mm256_add_epi32 _mm256_set1_epi32 _mm256_slli_epi32 _mm256_srli_epi32,
    _mm256_unpacklo_epi32 _mm256_unpackhi_epi32 _mm256_unpacklo_epi64 _mm256_unpackhi_epi64
}
avx2! {
    u64, 4, ORDER_64, _mm256_add_epi64 _mm256_set1_epi64x _mm256_slli_epi64 _mm256_srli_epi64,
    _mm256_unpacklo_epi64 _mm256_unpackhi_epi64
}

/// AVX-512's vectors, by words: with rotates, and any function of three inputs by its truth table.
macro_rules! avx512 {
    ($word:ty, $lanes:literal, $order:ident, $add:ident $splat:ident $rotate:ident $right:ident, $($mirror:ident)+) => {
        impl Vectors<$word, $lanes> for Avx512 {
            methods! {
                $word, $lanes, __m512i, _mm512_loadu_si512 _mm512_storeu_si512 _mm512_setzero_si512,
                _mm512_xor_si512 _mm512_and_si512 _mm512_andnot_si512, $add $splat,
                _mm512_shuffle_epi8(_mm512_broadcast_i32x4(order!($order)))
            }
            mirror! { __m512i: $($mirror)+ }

            const CHOOSES: bool = true;

            intrinsics! {
                __m512i:
                choose(mask, a, b) = _mm512_ternarylogic_epi32::<0xca>;
                majority(a, b, c) = _mm512_ternarylogic_epi32::<0xe8>;
                xor_3(a, b, c) = _mm512_ternarylogic_epi32::<0x96>;
                xor_or_not(a, b, c) = _mm512_ternarylogic_epi32::<0x2d>;
            }

            #[inline(always)]
            fn rotate<const LEFT: i32, const RIGHT: i32>(self, a: __m512i) -> __m512i {
                // SAFETY: the proof exists only where these instructions do.
                unsafe { $rotate::<LEFT>(a) }
            }

            #[inline(always)]
            fn shift_right<const BITS: i32>(self, a: __m512i) -> __m512i {
                // SAFETY: the proof exists only where these instructions do.
                unsafe { $right(a, _mm_cvtsi32_si128(BITS)) }
            }

            #[inline(always)]
            fn columns(self, [a, b, c, d]: [&[u8; 64]; 4]) -> [__m512i; 4] {
                // SAFETY: 64 bytes each, which need no alignment; the proof for the instructions.
                unsafe {
                    let (a, b) = (_mm512_loadu_si512(a.as_ptr().cast()), _mm512_loadu_si512(b.as_ptr().cast()));
                    let (c, d) = (_mm512_loadu_si512(c.as_ptr().cast()), _mm512_loadu_si512(d.as_ptr().cast()));
                    let (ab, cd) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d));
                    let (ab_high, cd_high) = (_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d));
                    [
                        _mm512_shuffle_i32x4::<0x88>(ab, cd),
                        _mm512_shuffle_i32x4::<0xdd>(ab, cd),
                        _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
                        _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
                    ]
                }
            }
        }
    };
}

avx512! {
    u32, 16, ORDER_32, _mm512_add_epi32 _mm512_set1_epi32 _mm512_rol_epi32 _mm512_srl_epi32,
    _mm512_unpacklo_epi32 _mm512_unpackhi_epi32 _mm512_unpacklo_epi64 _mm512_unpackhi_epi64
}
avx512! {
    u64, 8, ORDER_64, _mm512_add_epi64 _mm512_set1_epi64 _mm512_rol_epi64 _mm512_srl_epi64,
    _mm512_unpacklo_epi64 _mm512_unpackhi_epi64
}
