//! x86-64 with AVX2: a line is two vectors.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::GROUP;
use super::lines::{Lines, Task};
use super::quarters::{self, Narrow, Quarters, quarter_of};
use crate::isa::Avx2;

super::sse42::quarters!(Avx2);

impl Narrow for Avx2 {
    type Quarters = Self;

    #[inline(always)]
    fn quarters(self) -> Self {
        self
    }

    #[inline(always)]
    fn line(self, [a, b, c, d]: [__m128i; 4]) -> Self::Line {
        // SAFETY: the token exists only where these instructions do.
        unsafe { [_mm256_set_m128i(b, a), _mm256_set_m128i(d, c)] }
    }

    #[inline(always)]
    fn four<const QUARTERS: usize>(self, [a, b, c, d]: [&[u8]; 4], order: &[u8; 16]) -> Self::Line {
        [
            pair::<QUARTERS>(self, a, b, order),
            pair::<QUARTERS>(self, c, d, order),
        ]
    }
}

/// The sums of two items in a vector: half as many instructions.
#[inline(always)]
fn pair<const QUARTERS: usize>(proof: Avx2, a: &[u8], b: &[u8], order: &[u8; 16]) -> __m256i {
    // SAFETY: the token exists only where these instructions do.
    unsafe {
        let order = _mm256_broadcastsi128_si256(proof.quarter(order));
        let last = _mm256_shuffle_epi8(both::<QUARTERS>(proof, a, b, QUARTERS - 1), order);
        let mut sum = plus(proof, _mm256_setzero_si256(), last);
        for i in 0..QUARTERS - 1 {
            sum = plus(proof, sum, both::<QUARTERS>(proof, a, b, i));
        }
        sum
    }
}

/// Quarter `i` of both items.
#[inline(always)]
fn both<const QUARTERS: usize>(proof: Avx2, a: &[u8], b: &[u8], i: usize) -> __m256i {
    let low = proof.quarter(quarter_of::<QUARTERS>(a, i));
    let high = proof.quarter(quarter_of::<QUARTERS>(b, i));
    // SAFETY: the token exists only where these instructions do.
    unsafe { _mm256_set_m128i(high, low) }
}

impl Lines for Avx2 {
    type Line = [__m256i; 2];

    const LOW: u32 = 4 * <Self as Quarters>::LOW;

    #[inline(always)]
    fn enter<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "avx2")]
        fn inside<T: Task>(lines: Avx2, task: T) -> T::Output {
            task.run(lines)
        }
        // SAFETY: the token exists only where these instructions do.
        unsafe { inside(self, task) }
    }

    #[inline(always)]
    fn zero(self) -> Self::Line {
        // SAFETY: the token exists only where these instructions do.
        [unsafe { _mm256_setzero_si256() }; 2]
    }

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> Self::Line {
        let at = bytes.as_ptr();
        // SAFETY: the token exists only where these instructions do; twice 32 bytes, which need no alignment.
        unsafe {
            [
                _mm256_loadu_si256(at.cast()),
                _mm256_loadu_si256(at.add(32).cast()),
            ]
        }
    }

    #[inline(always)]
    fn store(self, [low, high]: Self::Line, to: &mut [u8; 64]) {
        let at = to.as_mut_ptr();
        // SAFETY: the token exists only where these instructions do; twice 32 bytes, which need no alignment.
        unsafe {
            _mm256_storeu_si256(at.cast(), low);
            _mm256_storeu_si256(at.add(32).cast(), high);
        }
    }

    #[inline(always)]
    fn lanes(self, lanes: &[u32; GROUP]) -> Self::Line {
        let at = lanes.as_ptr();
        // SAFETY: the token exists only where these instructions do; twice eight lanes, which need no alignment.
        unsafe {
            [
                _mm256_loadu_si256(at.cast()),
                _mm256_loadu_si256(at.add(8).cast()),
            ]
        }
    }

    #[inline(always)]
    fn plus(self, [a, b]: Self::Line, [low, high]: Self::Line) -> Self::Line {
        [plus(self, a, low), plus(self, b, high)]
    }

    #[inline(always)]
    fn add(self, [a, b]: Self::Line, [c, d]: Self::Line) -> Self::Line {
        // SAFETY: the token exists only where these instructions do.
        unsafe { [_mm256_add_epi32(a, c), _mm256_add_epi32(b, d)] }
    }

    #[inline(always)]
    fn total(self, [a, b]: Self::Line) -> u32 {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let sum = _mm256_add_epi32(a, b);
            let sum = _mm_add_epi32(
                _mm256_castsi256_si128(sum),
                _mm256_extracti128_si256::<1>(sum),
            );
            let sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
            let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<1>(sum));
            _mm_cvtsi128_si32(sum) as u32
        }
    }

    #[inline(always)]
    fn folded(self, [a, b]: Self::Line) -> Self::Line {
        [folded(self, a), folded(self, b)]
    }

    #[inline(always)]
    fn complements(self, [a, b]: Self::Line) -> [u16; GROUP] {
        let mut complements = [0; GROUP];
        // SAFETY: the token exists only where these instructions do; sixteen words, which need no alignment.
        unsafe {
            // Packing leaves the halves of both beside each other.
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(a, b));
            let words = _mm256_xor_si256(words, _mm256_set1_epi8(-1));
            _mm256_storeu_si256(complements.as_mut_ptr().cast(), words);
        }
        complements
    }

    #[inline(always)]
    fn join_halves(self, [a, b]: Self::Line, [c, d]: Self::Line) -> Self::Line {
        // SAFETY: the token exists only where these instructions do.
        unsafe { [_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)] }
    }

    #[inline(always)]
    fn join_quarters(self, [a, b]: Self::Line, [c, d]: Self::Line) -> Self::Line {
        [join_halves(self, a, c), join_halves(self, b, d)]
    }

    #[inline(always)]
    fn join_lanes(self, [[a, b], [c, d], [e, f], [g, h]]: [Self::Line; 4]) -> Self::Line {
        [join_lanes(self, a, c, e, g), join_lanes(self, b, d, f, h)]
    }

    #[inline(always)]
    fn short(self, items: &[&[u8]; GROUP], longest: usize) -> Self::Line {
        quarters::short(self, items, longest)
    }

    #[inline(always)]
    fn rest<const COPY: bool>(
        self,
        sum: Self::Line,
        block: &[u8],
        dst: &mut [u8],
    ) -> (Self::Line, u32) {
        quarters::rest::<_, COPY>(self, sum, block, dst)
    }
}

#[inline(always)]
fn plus(_proof: Avx2, sum: __m256i, bytes: __m256i) -> __m256i {
    // SAFETY: the token exists only where these instructions do.
    unsafe {
        let words = _mm256_xor_si256(bytes, _mm256_set1_epi16(i16::MIN));
        _mm256_add_epi32(sum, _mm256_madd_epi16(words, _mm256_set1_epi16(1)))
    }
}

#[inline(always)]
fn folded(_proof: Avx2, sums: __m256i) -> __m256i {
    // SAFETY: the token exists only where these instructions do.
    unsafe {
        let low = _mm256_and_si256(sums, _mm256_set1_epi32(0xffff));
        _mm256_add_epi32(low, _mm256_srli_epi32::<16>(sums))
    }
}

/// The halves of `a` added in the low half, those of `b` in the high one.
#[inline(always)]
fn join_halves(_proof: Avx2, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the token exists only where these instructions do.
    unsafe {
        let outer = _mm256_blend_epi32::<0b1111_0000>(a, b);
        _mm256_add_epi32(outer, _mm256_permute2x128_si256::<0x21>(a, b))
    }
}

/// In each half, the four lanes of each added: of each in a lane of its own.
#[inline(always)]
fn join_lanes(_proof: Avx2, a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> __m256i {
    // SAFETY: the token exists only where these instructions do.
    unsafe {
        let ab = _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
        let cd = _mm256_add_epi32(_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
        let (ab, cd) = (_mm256_castsi256_ps(ab), _mm256_castsi256_ps(cd));
        let even = _mm256_shuffle_ps::<0b10_00_10_00>(ab, cd);
        let odd = _mm256_shuffle_ps::<0b11_01_11_01>(ab, cd);
        _mm256_add_epi32(_mm256_castps_si256(even), _mm256_castps_si256(odd))
    }
}
