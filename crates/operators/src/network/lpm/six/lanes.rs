//! What the steps of lookups take, and the instructions that every CPU of the architecture has.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use dpb_core::prefetch::prefetch;

use super::super::ends::Baseline;
#[cfg(not(target_arch = "x86_64"))]
use super::super::spans::ENDS;
use super::super::spans::{self, ASK, CODES_AT, ENDS_AT, Entry, LINE_BYTES, SIGN};
use super::{GROUP, List, View, first, place};

/// What a step takes, for as many lookups at once as there are lanes.
pub(super) trait Lanes: Copy {
    /// The first step of a group of addresses, the first one of this number. Lists those that go on behind `on` others, and says how many there are
    /// then.
    fn begin(
        self,
        view: View<'_>,
        number: usize,
        addresses: &[[u8; 16]; GROUP],
        found: &mut [[u8; 4]; GROUP],
        list: &mut List,
        on: usize,
    ) -> usize;
    /// Takes each entry to the next one by the byte of `rest` that is `SHIFT` bits up. There are whole vectors of them.
    fn step<const SHIFT: u32>(self, view: View<'_>, rest: &[u32], entry: &mut [Entry]);
    /// How many ends of a line are below a value.
    fn below(self, line: &[u8; LINE_BYTES], value: u16) -> usize;

    /// The hops of the first `on` of a list, whose entries are lines'. Those that are left to the trie stay in the list; it says how many they are.
    #[inline(always)]
    fn finish(self, view: View<'_>, list: &mut List, on: usize, found: &mut [[u8; 4]]) -> usize {
        self.finish_each(view, list, on, found)
    }

    /// The same one after the other.
    #[inline(always)]
    fn finish_each(
        self,
        view: View<'_>,
        list: &mut List,
        on: usize,
        found: &mut [[u8; 4]],
    ) -> usize {
        let lines = view.bytes.as_chunks::<LINE_BYTES>().0;
        let mut left = 0;
        for i in 0..on {
            let index = list.index[i];
            let line = &lines[spans::line_of(list.entry[i])];
            let run = self.below(line, list.rest[i] as u16);
            let code = line[CODES_AT + run];
            found[usize::from(index)] = view.hops[usize::from(code)].to_le_bytes();
            list.index[left] = index;
            left += usize::from(code == ASK);
        }
        left
    }
}

impl Lanes for Baseline {
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
        let mut highest = 0;
        for (entry, address) in entries.iter_mut().zip(addresses) {
            *entry = view.top[first(address)];
            highest = highest.max(*entry);
        }
        for (found, entry) in found.iter_mut().zip(&entries) {
            *found = view.hops[usize::from(spans::code_of(*entry))].to_le_bytes();
        }
        // Either few of many go on, or nearly all do: the branch is mostly guessed.
        match highest >= spans::ON {
            true => list.note(number, addresses, &entries, on),
            false => on,
        }
    }

    #[inline(always)]
    fn step<const SHIFT: u32>(self, view: View<'_>, rest: &[u32], entry: &mut [Entry]) {
        let words = view.bytes.as_chunks().0;
        for (entry, rest) in entry.iter_mut().zip(rest) {
            *entry = Entry::from_le_bytes(words[place(*entry, rest >> SHIFT)]);
            if SHIFT > 0 {
                prefetch(view.bytes, 4 * place(*entry, rest >> (SHIFT - 8)));
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn below(self, line: &[u8; LINE_BYTES], value: u16) -> usize {
        // SAFETY: SSE2 is part of x86-64. Each load is of sixteen bytes of the line, and needs no alignment.
        let count = unsafe {
            let value = _mm_set1_epi16((value ^ SIGN).cast_signed());
            // All ones where an end is below.
            let below = |at: usize| {
                let ends = _mm_loadu_si128(line[ENDS_AT + at..].as_ptr().cast());
                _mm_cmpgt_epi16(value, ends)
            };
            // Behind the last four ends there are codes.
            let last = _mm_slli_si128::<8>(below(32));
            let all = _mm_add_epi16(_mm_add_epi16(below(0), below(16)), last);
            let zero = _mm_setzero_si128();
            let counts = _mm_packs_epi16(_mm_sub_epi16(zero, all), zero);
            _mm_cvtsi128_si64(_mm_sad_epu8(counts, zero))
        };
        count as usize
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    fn below(self, line: &[u8; LINE_BYTES], value: u16) -> usize {
        let value = (value ^ SIGN).cast_signed();
        let mut count = 0;
        for end in &line[ENDS_AT..].as_chunks().0[..ENDS] {
            count += u16::from(i16::from_le_bytes(*end) < value);
        }
        usize::from(count)
    }
}
