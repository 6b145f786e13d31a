//! Eight lookups in a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::spans::{self, ASK, ENDS, ENDS_AT, Entry, LINE_BYTES, MASK_BITS, SIGN};
use super::lanes::Lanes;
use super::{GROUP, List, View};
use crate::isa::Avx2;

impl Lanes for Avx2 {
    #[inline(always)]
    fn begin(
        self,
        view: View<'_>,
        number: usize,
        addresses: &[[u8; 16]; GROUP],
        found: &mut [[u8; 4]; GROUP],
        list: &mut List,
        on: usize,
    ) -> usize {
        let mut entries = [0; GROUP];
        let mut goes_on = 0;
        for half in [0, GROUP / 2] {
            let addresses = &addresses[half..half + GROUP / 2];
            let found = &mut found[half..half + GROUP / 2];
            let entries = &mut entries[half..half + GROUP / 2];
            // SAFETY: `Avx2` exists only where these instructions do. Loads are of eight bytes of an address, stores of eight words. Slots of the top have
            // sixteen bits, codes eight.
            unsafe {
                let pair = |low: usize| {
                    let [low, high] = [&addresses[low], &addresses[low + 4]];
                    let low = _mm_loadl_epi64(low.as_ptr().cast());
                    let high = _mm_loadl_epi64(high.as_ptr().cast());
                    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
                };
                let first = _mm256_unpacklo_epi32(pair(0), pair(1));
                let second = _mm256_unpacklo_epi32(pair(2), pair(3));
                let words = _mm256_unpacklo_epi64(first, second);
                // The first two bytes, the second one lowest.
                let slots = _mm256_or_si256(
                    _mm256_and_si256(_mm256_slli_epi32::<8>(words), _mm256_set1_epi32(0xff00)),
                    _mm256_and_si256(_mm256_srli_epi32::<8>(words), _mm256_set1_epi32(0xff)),
                );
                let entry = _mm256_i32gather_epi32::<4>(view.top.as_ptr().cast(), slots);
                let place = _mm256_srli_epi32::<{ spans::CODE_AT as i32 }>(entry);
                let code = _mm256_and_si256(place, _mm256_set1_epi32(0xff));
                let hop = _mm256_i32gather_epi32::<4>(view.hops.as_ptr().cast(), code);
                _mm256_storeu_si256(found.as_mut_ptr().cast(), hop);
                _mm256_storeu_si256(entries.as_mut_ptr().cast(), entry);
                // Places have 20 bits, so the sign does not matter.
                let asks = _mm256_cmpgt_epi32(place, _mm256_set1_epi32(i32::from(ASK) - 1));
                let asks = _mm256_movemask_ps(_mm256_castsi256_ps(asks));
                goes_on |= asks.cast_unsigned() << half;
            }
        }
        match goes_on.count_ones() {
            0 => on,
            1 => {
                let which = goes_on.trailing_zeros() as usize % GROUP;
                list.note_one(number, addresses, &entries, which, on)
            }
            _ => list.note(number, addresses, &entries, on),
        }
    }

    #[inline(always)]
    fn step<const SHIFT: u32>(self, view: View<'_>, rest: &[u32], entry: &mut [Entry]) {
        let vectors = entry.as_chunks_mut::<8>().0.iter_mut();
        for (entry, rest) in vectors.zip(rest.as_chunks::<8>().0) {
            // SAFETY: `Avx2` exists only where these instructions do. Loads and stores are of eight words. Entries lead to words in the memory, see
            // `View`.
            unsafe {
                let at = _mm256_loadu_si256(entry.as_ptr().cast());
                let rest = _mm256_srl_epi32(
                    _mm256_loadu_si256(rest.as_ptr().cast()),
                    _mm_cvtsi32_si128(SHIFT as i32),
                );
                let byte = _mm256_and_si256(_mm256_and_si256(rest, at), _mm256_set1_epi32(0xff));
                let place = _mm256_add_epi32(_mm256_srli_epi32::<{ MASK_BITS as i32 }>(at), byte);
                let next = _mm256_i32gather_epi32::<4>(view.bytes.as_ptr().cast(), place);
                _mm256_storeu_si256(entry.as_mut_ptr().cast(), next);
            }
        }
    }

    #[inline(always)]
    fn below(self, line: &[u8; LINE_BYTES], value: u16) -> usize {
        // SAFETY: `Avx2` exists only where these instructions do. Both loads lie in the line, and need no alignment.
        let (low, high) = unsafe {
            let value = _mm256_set1_epi16((value ^ SIGN).cast_signed());
            let low = _mm256_loadu_si256(line[ENDS_AT..].as_ptr().cast());
            let high = _mm_loadu_si128(line[ENDS_AT + 32..].as_ptr().cast());
            let low = _mm256_movemask_epi8(_mm256_cmpgt_epi16(value, low));
            let high = _mm_cmpgt_epi16(_mm256_castsi256_si128(value), high);
            (low, _mm_movemask_epi8(high))
        };
        // Two bits for each end; behind the ends there are codes.
        let both = u64::from(low.cast_unsigned()) | u64::from(high.cast_unsigned()) << 32;
        ((both & ((1 << (2 * ENDS)) - 1)).count_ones() / 2) as usize
    }
}
