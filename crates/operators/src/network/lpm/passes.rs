//! Any CPU: many lookups under way, without vectors of addresses.
//!
//! What a lookup waits for is memory, and a CPU asks for many lines at once as long as no branch that it guessed wrong stops it. So in
//! what is done for each address no branch depends on what a line says. A pass over the addresses asks a direct table, and notes those that it leaves in a list.
//! These go through the trie in two passes a byte: one finds the line that has the byte's run and asks for it, the other looks the run
//! up. The list is filled up to whole groups, so that its length, which is rarely the same, seldom changes the number of turns.
//!
//! Of the direct tables the coarse one pays where it decides for most addresses. From time to time a stretch asks it first, and
//! says whether the next ones do. A short burst asks the fine one alone: it waits for each table once, whatever the table's size.

#![allow(unsafe_code)]

use dpb_core::prefetch::prefetch;

use super::block::{self, Entry, KIND_BITS, KINDS};
use super::direct::{self, ASK, COARSE_AT, COARSE_BITS, FINE_BITS, ROOT_BITS};
use super::ends::{Baseline, Ends, run};
use super::hops::Hops;
use super::trie::Trie;
#[cfg(target_arch = "x86_64")]
use crate::isa::Avx2;

/// Addresses that take each pass together. What they note stays in the L1 cache.
pub(super) const STRETCH: usize = 256;
/// Lists are filled up to multiples of this.
const GROUP: usize = 4;
/// Addresses from which on the coarse table may pay.
const COARSE_MIN: usize = 128;
/// Stretches for which one answer holds, whether the coarse table pays.
const SAMPLE: u32 = 64;

/// A queue's memory. Of the lists, no value is read that the call has not written.
pub(super) struct Scratch {
    /// The lookups under way: the number of each one's address in the stretch.
    index: [u16; STRETCH + GROUP],
    /// The byte of the address that is looked up.
    depth: [u8; STRETCH + GROUP],
    /// The place in the pool of the entry of the next block.
    child: [u32; STRETCH + GROUP],
    entry: [Entry; STRETCH + GROUP],
    /// The start of the part that has the byte's run.
    part: [u32; STRETCH + GROUP],
    coarse_pays: bool,
    /// Stretches until it is found out again.
    until_sample: u32,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            index: [0; _],
            depth: [0; _],
            child: [0; _],
            entry: [0; _],
            part: [0; _],
            coarse_pays: false,
            until_sample: 0,
        }
    }
}

/// The memory that lookups read from.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    direct: &'a [u8; direct::BYTES],
    root: &'a [Entry; 1 << ROOT_BITS],
    pool: &'a [u8],
    hops: &'a [u32],
    /// The hops of the codes that direct tables have.
    frequent: &'a [u32; 256],
}

impl<'a> View<'a> {
    /// The memory of `trie`, whose codes are those of `hops`.
    pub(super) fn of(trie: &'a Trie, hops: &'a Hops) -> Self {
        let (direct, root, pool) = trie.parts();
        Self {
            direct,
            root,
            pool,
            hops: hops.by_code(),
            frequent: hops.frequent(),
        }
    }

    /// What the direct table by so many bits says of an address that begins with `word`.
    #[inline(always)]
    fn says<const BITS: u8>(&self, word: u32) -> u8 {
        let start = if BITS == COARSE_BITS { COARSE_AT } else { 0 };
        self.direct[start + (word >> (32 - BITS)) as usize]
    }
}

/// The hop of each address of `BYTES` bytes, little endian.
pub(super) fn lookup_all<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    found: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    stretches(Baseline, view, addresses, found, scratch);
}

/// The same by AVX2.
#[cfg(target_arch = "x86_64")]
pub(super) fn lookup_all_by_avx2<const BYTES: usize>(
    proof: Avx2,
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    found: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn by_avx2<const BYTES: usize>(
        proof: Avx2,
        view: View<'_>,
        addresses: &[[u8; BYTES]],
        found: &mut [[u8; 4]],
        scratch: &mut Scratch,
    ) {
        stretches(proof, view, addresses, found, scratch);
    }
    // SAFETY: `Avx2` exists only where these instructions do.
    unsafe { by_avx2(proof, view, addresses, found, scratch) }
}

/// The hops of those addresses of a stretch that a list has by number, from the trie.
#[inline(never)]
pub(super) fn lookup_listed<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    list: &[u16],
    found: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    scratch.index[..list.len()].copy_from_slice(list);
    // What the list is filled up with is the first address, which may be one of those that have a hop already: it gets the same one.
    let on = scratch.fill_up(list.len());
    scratch.enter(view, addresses, on);
    scratch.walk(Baseline, view, addresses, on, found);
}

#[inline(always)]
fn stretches<const BYTES: usize>(
    ends: impl Ends,
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    found: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    let stretches = addresses.chunks(STRETCH).zip(found.chunks_mut(STRETCH));
    for (addresses, found) in stretches {
        let left = scratch.decide(view, addresses, found);
        let on = scratch.fill_up(left);
        scratch.enter(view, addresses, on);
        scratch.walk(ends, view, addresses, on, found);
    }
}

impl Scratch {
    /// The hops that direct tables know. Lists the other addresses, and says how many they are.
    #[inline(always)]
    fn decide<const BYTES: usize>(
        &mut self,
        view: View<'_>,
        addresses: &[[u8; BYTES]],
        found: &mut [[u8; 4]],
    ) -> usize {
        let is_short = addresses.len() < COARSE_MIN;
        if is_short || self.until_sample > 0 && !self.coarse_pays {
            self.until_sample = self.until_sample.saturating_sub(1);
            return self.ask_all::<BYTES, FINE_BITS>(view, addresses, found);
        }
        let left = self.ask_all::<BYTES, COARSE_BITS>(view, addresses, found);
        if self.until_sample == 0 {
            self.until_sample = SAMPLE;
            self.coarse_pays = 2 * left < addresses.len();
        }
        self.until_sample -= 1;
        self.ask_listed(view, addresses, found, left)
    }

    /// Asks the table by so many bits for all addresses, and lists those that it leaves.
    #[inline(always)]
    fn ask_all<const BYTES: usize, const BITS: u8>(
        &mut self,
        view: View<'_>,
        addresses: &[[u8; BYTES]],
        found: &mut [[u8; 4]],
    ) -> usize {
        let mut left = 0;
        for (index, (address, found)) in addresses.iter().zip(found).enumerate() {
            let says = view.says::<BITS>(first_word(address));
            *found = view.frequent[usize::from(says)].to_le_bytes();
            self.index[left] = index as u16;
            left += usize::from(says >= ASK);
        }
        left
    }

    /// The same in the fine table for the first `on` addresses of the list.
    #[inline(always)]
    fn ask_listed<const BYTES: usize>(
        &mut self,
        view: View<'_>,
        addresses: &[[u8; BYTES]],
        found: &mut [[u8; 4]],
        on: usize,
    ) -> usize {
        let on = self.fill_up(on);
        let mut left = 0;
        for i in 0..on {
            let index = self.index[i];
            let says = view.says::<FINE_BITS>(first_word(&addresses[usize::from(index)]));
            found[usize::from(index)] = view.frequent[usize::from(says)].to_le_bytes();
            self.index[left] = index;
            left += usize::from(says >= ASK);
        }
        left
    }

    /// Fills a list up to whole groups, and says how long it is then. What is added is looked up once more than it must be, with the same
    /// result.
    #[inline(always)]
    fn fill_up(&mut self, on: usize) -> usize {
        self.index[on..on + GROUP].fill(0);
        on.next_multiple_of(GROUP).max(GROUP)
    }

    /// Takes the first `on` of the list into the trie: to the block of the root where the fine table does not say, else to that of the
    /// child that it names, one byte further down.
    #[inline(always)]
    fn enter<const BYTES: usize>(&mut self, view: View<'_>, addresses: &[[u8; BYTES]], on: usize) {
        for i in 0..on {
            let word = first_word(&addresses[usize::from(self.index[i])]);
            let (says, entry) = (
                view.says::<FINE_BITS>(word),
                view.root[(word >> 16) as usize],
            );
            let is_child = says > ASK;
            // By a mask, as the compiler would make a branch of a choice.
            let child = child_at(entry, u32::from(!says)) & usize::from(is_child).wrapping_neg();
            prefetch(view.pool, child);
            self.entry[i] = entry;
            self.child[i] = child as u32;
            self.depth[i] = 2 + u8::from(is_child);
        }
        for i in 0..on {
            let child = word(view.pool, self.child[i] as usize);
            let entry = match self.depth[i] {
                2 => self.entry[i],
                _ => child,
            };
            self.locate(view, addresses, i, entry);
        }
    }

    /// Notes where the block of `entry` has the next byte of an address, and asks for that line.
    #[inline(always)]
    fn locate<const BYTES: usize>(
        &mut self,
        view: View<'_>,
        addresses: &[[u8; BYTES]],
        i: usize,
        entry: Entry,
    ) {
        let value = self.value(addresses, i);
        let how = &HOWS[(entry % (1 << KIND_BITS)) as usize];
        let part = block::start(entry) + ((usize::from(value) >> how.shift) << how.stride_log2);
        prefetch(view.pool, part);
        self.entry[i] = entry;
        self.part[i] = part as u32;
    }

    /// The byte that a lookup is at.
    #[inline(always)]
    fn value<const BYTES: usize>(&self, addresses: &[[u8; BYTES]], i: usize) -> u8 {
        addresses[usize::from(self.index[i])][usize::from(self.depth[i]) % BYTES]
    }

    /// Looks the first `on` of the list up to their ends.
    #[inline(always)]
    fn walk<const BYTES: usize>(
        &mut self,
        ends: impl Ends,
        view: View<'_>,
        addresses: &[[u8; BYTES]],
        mut on: usize,
        found: &mut [[u8; 4]],
    ) {
        loop {
            let mut next = 0;
            for i in 0..on {
                let (index, entry, part) = (self.index[i], self.entry[i], self.part[i] as usize);
                let value = self.value(addresses, i);
                let number = (entry % (1 << KIND_BITS)) as usize;
                let how = &HOWS[number];
                let run = run(ends, view.pool, number, part, value);
                let at = part + usize::from(how.ends) + (run << how.width_log2);
                let code = word(view.pool, at) & how.highest;
                let is_child = code >= how.child_min;
                // A child's code is no hop's: the first one stands in for it.
                let hop = view.hops[if is_child { 0 } else { code as usize }];
                found[usize::from(index)] = hop.to_le_bytes();
                // Children are counted down from the highest code.
                let child = child_at(entry, (how.highest - code) & 0xff);
                // A hop leads to no child: the line at hand is asked for once more, which costs nothing.
                prefetch(view.pool, if is_child { child } else { part });
                self.index[next] = index;
                self.depth[next] = self.depth[i] + 1;
                self.child[next] = child as u32;
                next += usize::from(is_child);
            }
            if next == 0 {
                return;
            }
            on = next;
            for i in 0..on {
                let entry = word(view.pool, self.child[i] as usize);
                self.locate(view, addresses, i, entry);
            }
        }
    }
}

/// The first 32 bits of an address.
#[inline(always)]
fn first_word<const BYTES: usize>(address: &[u8; BYTES]) -> u32 {
    u32::from_be_bytes([address[0], address[1], address[2], address[3]])
}

/// The place of the entry of a child with this number, of the block that `entry` leads to.
#[inline(always)]
fn child_at(entry: Entry, number: u32) -> usize {
    (block::start(entry)).wrapping_sub(4 * (number as usize + 1))
}

/// What looking a value up in a block takes.
#[derive(Clone, Copy)]
struct How {
    shift: u8,
    stride_log2: u8,
    ends: u8,
    width_log2: u8,
    highest: u32,
    child_min: u32,
}

/// By number of a kind, with a place for each number that an entry could have.
static HOWS: [How; 1 << KIND_BITS] = {
    let plain = How {
        shift: 0,
        stride_log2: 0,
        ends: 0,
        width_log2: 0,
        highest: 0,
        child_min: 0,
    };
    let mut hows = [plain; 1 << KIND_BITS];
    let mut number = 0;
    while number < KINDS.len() {
        let kind = KINDS[number];
        hows[number] = How {
            shift: kind.shift,
            stride_log2: kind.stride_log2,
            ends: kind.ends,
            width_log2: kind.width_log2,
            highest: kind.highest(),
            child_min: kind.child_min(),
        };
        number += 1;
    }
    hows
};

#[inline(always)]
fn word(pool: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(pool[at..at + 4].try_into().expect("four bytes"))
}
