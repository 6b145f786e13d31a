//! x86-64 with SSE4.2, and the quarters that AVX2 has too: words as signed ones, 32,768 less than they are, added in pairs.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lines::Task;
use super::quarters::{Fours, OfFour};
use crate::isa::Sse42;

macro_rules! quarters {
    ($Token:ident) => {
        impl $crate::network::checksum::quarters::Quarters for $Token {
            type Quarter = std::arch::x86_64::__m128i;

            const LOW: u32 = 8 * 0x8000;

            #[inline(always)]
            fn none(self) -> Self::Quarter {
                // SAFETY: the token exists only where these instructions do.
                unsafe { std::arch::x86_64::_mm_setzero_si128() }
            }

            #[inline(always)]
            fn quarter(self, bytes: &[u8; 16]) -> Self::Quarter {
                // SAFETY: as above; sixteen bytes, which need no alignment.
                unsafe { std::arch::x86_64::_mm_loadu_si128(bytes.as_ptr().cast()) }
            }

            #[inline(always)]
            fn store_quarter(self, quarter: Self::Quarter, to: &mut [u8; 16]) {
                // SAFETY: as above; sixteen bytes, which need no alignment.
                unsafe { std::arch::x86_64::_mm_storeu_si128(to.as_mut_ptr().cast(), quarter) }
            }

            #[inline(always)]
            fn plus_quarter(self, sum: Self::Quarter, bytes: Self::Quarter) -> Self::Quarter {
                use std::arch::x86_64::*;
                // SAFETY: as above.
                unsafe {
                    let words = _mm_xor_si128(bytes, _mm_set1_epi16(i16::MIN));
                    _mm_add_epi32(sum, _mm_madd_epi16(words, _mm_set1_epi16(1)))
                }
            }

            #[inline(always)]
            fn picked(self, bytes: Self::Quarter, order: &[u8; 16]) -> Self::Quarter {
                // SAFETY: as above.
                unsafe { std::arch::x86_64::_mm_shuffle_epi8(bytes, self.quarter(order)) }
            }
        }
    };
}
pub(super) use quarters;

quarters!(Sse42);

impl OfFour for Sse42 {
    #[inline(always)]
    fn enter_fours<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "sse4.2")]
        fn inside<T: Task>(quarters: Sse42, task: T) -> T::Output {
            task.run(Fours::new(quarters))
        }
        // SAFETY: the token exists only where these instructions do.
        unsafe { inside(self, task) }
    }

    #[inline(always)]
    fn add_quarters(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm_add_epi32(a, b) }
    }

    #[inline(always)]
    fn join(self, [a, b, c, d]: [__m128i; 4]) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let ab = _mm_add_epi32(_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b));
            let cd = _mm_add_epi32(_mm_unpacklo_epi64(c, d), _mm_unpackhi_epi64(c, d));
            let (ab, cd) = (_mm_castsi128_ps(ab), _mm_castsi128_ps(cd));
            let even = _mm_shuffle_ps::<0b10_00_10_00>(ab, cd);
            let odd = _mm_shuffle_ps::<0b11_01_11_01>(ab, cd);
            _mm_add_epi32(_mm_castps_si128(even), _mm_castps_si128(odd))
        }
    }

    #[inline(always)]
    fn total_of_quarter(self, sum: __m128i) -> u32 {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
            let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<1>(sum));
            _mm_cvtsi128_si32(sum) as u32
        }
    }

    #[inline(always)]
    fn folded_quarter(self, sums: __m128i) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let low = _mm_and_si128(sums, _mm_set1_epi32(0xffff));
            _mm_add_epi32(low, _mm_srli_epi32::<16>(sums))
        }
    }

    #[inline(always)]
    fn complements_of_quarter(self, sums: __m128i) -> [u16; 4] {
        // SAFETY: the token exists only where these instructions do.
        let words = unsafe {
            let complements = _mm_xor_si128(sums, _mm_set1_epi32(0xffff));
            _mm_cvtsi128_si64(_mm_packus_epi32(complements, complements))
        };
        let [a, b, c, d] = [0, 16, 32, 48].map(|by| (words >> by) as u16);
        [a, b, c, d]
    }
}
