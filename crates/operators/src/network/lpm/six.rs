//! IPv6 addresses by [`Spans`](super::spans::Spans), many under way.
//!
//! A stretch of addresses takes each step together: one entry read for each, in a pass of its own, so that the CPU has as many lines under way as
//! it can. No branch depends on what a table says: an address that is decided reads the line of its code once more. With AVX2 and AVX-512 a step is a
//! gather of eight or sixteen entries. What random addresses meet is the table by the first 16 bits alone, and few are left then.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod lanes;

use super::direct::SLOTS;
use super::ends::Baseline;
use super::hops::Hops;
use super::passes::{self, STRETCH};
use super::spans::{self, Entry, MASK_BITS};
use super::trie::Trie;
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512};
use lanes::Lanes;

/// Addresses that take the first step together, the most lookups of a vector. Lists are filled up to multiples of it.
const GROUP: usize = 16;

/// Lookups from which on they take each step together. Random keys leave fewer of a short call, keys of routes nearly all of it:
/// what lies between is rare.
const FEW: usize = 6;

/// The memory that lookups read from. [`Spans`](super::spans::Spans) sees to it that
///
/// * entries lead to tables and lines in it, and so do the words that a step reads;
/// * behind the last line there is one more.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    top: &'a [Entry; SLOTS],
    bytes: &'a [u8],
    hops: &'a [u32; 256],
}

/// The lookups under way, with room for one vector more. No value is read that the call has not written.
struct List {
    /// The number of each one's address in the stretch.
    index: [u16; STRETCH + GROUP],
    /// The bytes 2 to 5 of each address, the first one highest.
    rest: [u32; STRETCH + GROUP],
    entry: [Entry; STRETCH + GROUP],
}

/// A queue's memory.
pub(super) struct Scratch {
    list: List,
    /// For those that are left to the trie.
    passes: passes::Scratch,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            list: List {
                index: [0; _],
                rest: [0; _],
                entry: [0; _],
            },
            passes: passes::Scratch::default(),
        }
    }
}

impl<'a> View<'a> {
    /// The memory of `trie`, whose codes are those of `hops`; `None` if it does without.
    #[inline(always)]
    pub(super) fn of(trie: &'a Trie, hops: &'a Hops) -> Option<Self> {
        let (top, bytes) = trie.spans()?.parts();
        Some(Self {
            top,
            bytes,
            hops: hops.frequent(),
        })
    }
}

/// Where an entry's next one is, in words, by the byte that is the lowest of `rest`.
#[inline(always)]
fn place(entry: Entry, rest: u32) -> usize {
    ((entry >> MASK_BITS) + (rest & entry & 0xff)) as usize
}

impl List {
    /// The hops of up to [`STRETCH`] addresses but those that are left to the trie: these it lists, and says how many they are.
    #[inline(always)]
    fn decide(
        &mut self,
        lanes: impl Lanes,
        view: View<'_>,
        addresses: &[[u8; 16]],
        found: &mut [[u8; 4]],
    ) -> usize {
        let on = self.ask_top(lanes, view, addresses, found);
        if on < FEW {
            return self.walk(lanes, view, on, found);
        }
        let whole = on.next_multiple_of(GROUP);
        self.entry[on..whole].fill(spans::of_code(0));
        let (rest, entry) = (&self.rest[..whole], &mut self.entry[..whole]);
        lanes.step::<24>(view, rest, entry);
        lanes.step::<16>(view, rest, entry);
        lanes.step::<8>(view, rest, entry);
        lanes.step::<0>(view, rest, entry);
        lanes.finish(view, self, on, found)
    }

    /// The same of the first few of a list, one after the other: with few instructions for each, a CPU goes on to the next call while it waits.
    #[inline(always)]
    fn walk(
        &mut self,
        lanes: impl Lanes,
        view: View<'_>,
        on: usize,
        found: &mut [[u8; 4]],
    ) -> usize {
        let words = view.bytes.as_chunks().0;
        for (entry, rest) in self.entry.iter_mut().zip(&self.rest).take(on) {
            for shift in [24, 16, 8, 0] {
                *entry = Entry::from_le_bytes(words[place(*entry, rest >> shift)]);
            }
        }
        lanes.finish_each(view, self, on, found)
    }

    /// The hops that the table by the first 16 bits knows. Lists the other addresses, and says how many they are.
    #[inline(always)]
    fn ask_top(
        &mut self,
        lanes: impl Lanes,
        view: View<'_>,
        addresses: &[[u8; 16]],
        found: &mut [[u8; 4]],
    ) -> usize {
        let mut on = 0;
        let (groups, last) = addresses.as_chunks::<GROUP>();
        let (found_groups, found_last) = found.as_chunks_mut::<GROUP>();
        for (number, (addresses, found)) in groups.iter().zip(found_groups).enumerate() {
            on = lanes.begin(view, number * GROUP, addresses, found, self, on);
        }
        if last.is_empty() {
            return on;
        }
        let mut filled = [[0; 16]; GROUP];
        filled[..last.len()].copy_from_slice(last);
        let mut found = [[0; 4]; GROUP];
        on = lanes.begin(view, groups.len() * GROUP, &filled, &mut found, self, on);
        found_last.copy_from_slice(&found[..last.len()]);
        // Those that it was filled up with are last in the list, if they are there.
        while on > 0 && usize::from(self.index[on - 1]) >= addresses.len() {
            on -= 1;
        }
        on
    }

    /// Lists one of a group of addresses, the first one of this number, behind `on` others. Says how many there are then.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn note_one(
        &mut self,
        number: usize,
        addresses: &[[u8; 16]; GROUP],
        entries: &[Entry; GROUP],
        which: usize,
        on: usize,
    ) -> usize {
        let rest: [u8; 4] = *addresses[which][2..].first_chunk().expect("of sixteen");
        self.index[on] = (number + which) as u16;
        self.rest[on] = u32::from_be_bytes(rest);
        self.entry[on] = entries[which];
        on + 1
    }

    /// Lists those of a group of addresses, the first one of this number, that go on from their entries, behind `on` others. Says how many
    /// there are then.
    #[inline(always)]
    fn note(
        &mut self,
        number: usize,
        addresses: &[[u8; 16]; GROUP],
        entries: &[Entry; GROUP],
        mut on: usize,
    ) -> usize {
        for (i, (address, entry)) in addresses.iter().zip(entries).enumerate() {
            let rest: [u8; 4] = *address[2..].first_chunk().expect("of sixteen");
            self.index[on] = (number + i) as u16;
            self.rest[on] = u32::from_be_bytes(rest);
            self.entry[on] = *entry;
            on += usize::from(*entry >= spans::ON);
        }
        on
    }
}

/// The first 16 bits of an address.
#[inline(always)]
fn first(address: &[u8; 16]) -> usize {
    usize::from(u16::from_be_bytes([address[0], address[1]]))
}

/// The hop of each address, little endian.
pub(super) fn lookup_all(
    view: View<'_>,
    trie: passes::View<'_>,
    addresses: &[[u8; 16]],
    found: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    stretches(Baseline, view, trie, addresses, found, scratch);
}

/// The same by AVX2.
#[cfg(target_arch = "x86_64")]
pub(super) fn lookup_all_by_avx2(
    proof: Avx2,
    view: View<'_>,
    trie: passes::View<'_>,
    addresses: &[[u8; 16]],
    found: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn by_avx2(
        proof: Avx2,
        view: View<'_>,
        trie: passes::View<'_>,
        addresses: &[[u8; 16]],
        found: &mut [[u8; 4]],
        scratch: &mut Scratch,
    ) {
        stretches(proof, view, trie, addresses, found, scratch);
    }
    // SAFETY: `Avx2` exists only where these instructions do.
    unsafe { by_avx2(proof, view, trie, addresses, found, scratch) }
}

/// The same by AVX-512.
#[cfg(target_arch = "x86_64")]
pub(super) fn lookup_all_by_avx512(
    proof: Avx512,
    view: View<'_>,
    trie: passes::View<'_>,
    addresses: &[[u8; 16]],
    found: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    #[target_feature(
        enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq,avx2,bmi1,bmi2,lzcnt,popcnt"
    )]
    fn by_avx512(
        proof: Avx512,
        view: View<'_>,
        trie: passes::View<'_>,
        addresses: &[[u8; 16]],
        found: &mut [[u8; 4]],
        scratch: &mut Scratch,
    ) {
        stretches(proof, view, trie, addresses, found, scratch);
    }
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe { by_avx512(proof, view, trie, addresses, found, scratch) }
}

#[inline(always)]
fn stretches(
    lanes: impl Lanes,
    view: View<'_>,
    trie: passes::View<'_>,
    addresses: &[[u8; 16]],
    found: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    let stretches = addresses.chunks(STRETCH).zip(found.chunks_mut(STRETCH));
    for (addresses, found) in stretches {
        let left = scratch.list.decide(lanes, view, addresses, found);
        if left > 0 {
            let list = &scratch.list.index[..left];
            passes::lookup_listed(trie, addresses, list, found, &mut scratch.passes);
        }
    }
}
