//! Sixteen lookups in a vector, and the whole of a line in another.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::spans::{self, ASK, CODES_AT, ENDS, ENDS_AT, Entry, LINE_BYTES, MASK_BITS, SIGN};
use super::lanes::Lanes;
use super::{GROUP, List, View};
use crate::isa::Avx512;

impl Lanes for Avx512 {
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
        let (index, rest, entry) = (
            &mut list.index[on..on + GROUP],
            &mut list.rest[on..on + GROUP],
            &mut list.entry[on..on + GROUP],
        );
        // SAFETY: `Avx512` exists only where these instructions do. Loads are of four addresses, stores of sixteen words or halves of words. Slots of
        // the top have sixteen bits, codes eight.
        unsafe {
            let quarter = |number: usize| {
                _mm512_loadu_si512(addresses[4 * number..4 * number + 4].as_ptr().cast())
            };
            // The words of this number of all addresses, of which each vector has four.
            let [a, b, c, d] = [quarter(0), quarter(1), quarter(2), quarter(3)];
            let words = |number: i32| {
                let eight = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 28, 24, 20, 16, 12, 8, 4, 0);
                let eight = _mm512_add_epi32(eight, _mm512_set1_epi32(number));
                let low = _mm512_permutex2var_epi32(a, eight, b);
                let high = _mm512_permutex2var_epi32(c, eight, d);
                let words = _mm512_inserti64x4::<1>(low, _mm512_castsi512_si256(high));
                let order = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
                _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(order))
            };
            let first = words(0);
            let slots = _mm512_srli_epi32::<16>(first);
            let entries = _mm512_i32gather_epi32::<4>(slots, view.top.as_ptr().cast());
            let code = _mm512_srli_epi32::<{ spans::CODE_AT }>(entries);
            let code = _mm512_and_si512(code, _mm512_set1_epi32(0xff));
            let hops = _mm512_i32gather_epi32::<4>(code, view.hops.as_ptr().cast());
            _mm512_storeu_si512(found.as_mut_ptr().cast(), hops);
            let least = _mm512_set1_epi32(spans::ON.cast_signed());
            let goes_on = _mm512_cmpge_epu32_mask(entries, least);
            if goes_on == 0 {
                return on;
            }
            // Bytes 2 and 3 of the first word, 0 and 1 of the second.
            let rests = _mm512_or_si512(
                _mm512_slli_epi32::<16>(first),
                _mm512_srli_epi32::<16>(words(1)),
            );
            let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
            let numbers = _mm512_add_epi32(lanes, _mm512_set1_epi32(number as i32));
            let numbers = _mm512_maskz_compress_epi32(goes_on, numbers);
            let [rests, entries] =
                [rests, entries].map(|of| _mm512_maskz_compress_epi32(goes_on, of));
            _mm256_storeu_si256(index.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(numbers));
            _mm512_storeu_si512(rest.as_mut_ptr().cast(), rests);
            _mm512_storeu_si512(entry.as_mut_ptr().cast(), entries);
            on + goes_on.count_ones() as usize
        }
    }

    #[inline(always)]
    fn finish(self, view: View<'_>, list: &mut List, on: usize, found: &mut [[u8; 4]]) -> usize {
        let lines = view.bytes.as_chunks::<LINE_BYTES>().0;
        let mut left = 0;
        for vector in (0..on).step_by(GROUP) {
            let (entries, rests) = (
                &list.entry[vector..vector + GROUP],
                &list.rest[vector..vector + GROUP],
            );
            let mut below = [0u32; GROUP];
            for (below, (entry, rest)) in below.iter_mut().zip(entries.iter().zip(rests)) {
                *below = self.ends_below(&lines[spans::line_of(*entry)], *rest as u16);
            }
            let live = (u32::MAX >> (32 - (on - vector).min(GROUP))) as u16;
            // SAFETY: `Avx512` exists only where these instructions do. Loads are of sixteen words or halves of words. A code lies in its line, behind
            // which there is another one; hops have one for each byte. Live indices are those of addresses, of which each has a place.
            unsafe {
                let run = _mm512_popcnt_epi32(_mm512_loadu_si512(below.as_ptr().cast()));
                let entry = _mm512_loadu_si512(entries.as_ptr().cast());
                let line = _mm512_slli_epi32::<2>(_mm512_srli_epi32::<MASK_BITS>(entry));
                let at = _mm512_add_epi32(line, _mm512_set1_epi32(CODES_AT as i32));
                let at = _mm512_add_epi32(at, run);
                let code = _mm512_i32gather_epi32::<1>(at, view.bytes.as_ptr().cast());
                let code = _mm512_and_si512(code, _mm512_set1_epi32(0xff));
                let hops = _mm512_i32gather_epi32::<4>(code, view.hops.as_ptr().cast());
                let index = _mm256_loadu_si256(list.index[vector..vector + GROUP].as_ptr().cast());
                let index = _mm512_cvtepu16_epi32(index);
                let len = _mm512_set1_epi32(found.len() as i32);
                debug_assert_eq!(_mm512_mask_cmpge_epu32_mask(live, index, len), 0);
                _mm512_mask_i32scatter_epi32::<4>(found.as_mut_ptr().cast(), live, index, hops);
                let ask = _mm512_set1_epi32(i32::from(ASK));
                let asks = _mm512_mask_cmpeq_epi32_mask(live, code, ask);
                let kept = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(asks, index));
                let places = &mut list.index[left..left + GROUP];
                _mm256_storeu_si256(places.as_mut_ptr().cast(), kept);
                left += asks.count_ones() as usize;
            }
        }
        left
    }

    #[inline(always)]
    fn step<const SHIFT: u32>(self, view: View<'_>, rest: &[u32], entry: &mut [Entry]) {
        let vectors = entry.as_chunks_mut::<GROUP>().0.iter_mut();
        for (entry, rest) in vectors.zip(rest.as_chunks::<GROUP>().0) {
            // SAFETY: `Avx512` exists only where these instructions do. Loads and stores are of sixteen words. Entries lead to words in the
            // memory, see `View`.
            unsafe {
                let at = _mm512_loadu_si512(entry.as_ptr().cast());
                let rest = _mm512_srl_epi32(
                    _mm512_loadu_si512(rest.as_ptr().cast()),
                    _mm_cvtsi32_si128(SHIFT as i32),
                );
                let byte = _mm512_and_si512(_mm512_and_si512(rest, at), _mm512_set1_epi32(0xff));
                let place = _mm512_add_epi32(_mm512_srli_epi32::<MASK_BITS>(at), byte);
                let next = _mm512_i32gather_epi32::<4>(place, view.bytes.as_ptr().cast());
                _mm512_storeu_si512(entry.as_mut_ptr().cast(), next);
            }
        }
    }

    #[inline(always)]
    fn below(self, line: &[u8; LINE_BYTES], value: u16) -> usize {
        self.ends_below(line, value).count_ones() as usize
    }
}

impl Avx512 {
    /// A bit for each half of a word of a line that is an end below a value.
    #[inline(always)]
    fn ends_below(self, line: &[u8; LINE_BYTES], value: u16) -> u32 {
        const ENDS_MASK: u32 = ((1 << ENDS) - 1) << (ENDS_AT / 2);
        // SAFETY: `Avx512` exists only where these instructions do. The load is of the line, and needs no alignment.
        unsafe {
            let value = _mm512_set1_epi16((value ^ SIGN).cast_signed());
            let line = _mm512_loadu_si512(line.as_ptr().cast());
            _mm512_mask_cmplt_epi16_mask(ENDS_MASK, line, value)
        }
    }
}
