//! What the last byte of an IPv4 address comes to where the first 24 bits do not decide: a page of 256 bytes for each child of a node
//! below the root, a byte for each value.
//!
//! The pages of a slot of the root lie side by side, by the number of the child that the fine direct table gives. So a lookup reads two bytes,
//! as in DIR-24-8, of a quarter of its size: the fine table's and the page's, whose place the address and the first byte say. What a byte
//! does not hold, the trie knows, as it does where there is no more room.

use dpb_core::huge::Huge;

use super::block::Leaf;
use super::direct::{ASK, SLOTS, byte_of};
use super::values::Values;

/// Bytes of a page: the values of a byte.
pub(super) const PAGE: usize = 256;
/// Children that the fine table can name.
pub(super) const NAMED: usize = (u8::MAX - ASK) as usize;
/// Sizes of room for a slot's pages: 1, 2, 4 and so on to 64.
const ROOMS: usize = 7;
/// Pages of a fresh table, of which the first [`NAMED`] leave all to the trie.
const PAGES_START: usize = 4096;
/// Most pages, with those for which there is room alone: 256 MiB.
const PAGES_MAX: usize = 1 << 20;

/// The pages of all slots.
#[derive(Debug)]
pub(super) struct Pages {
    memory: Huge,
    /// By slot, the place of the first page; 0, where nothing is decided, if it has none.
    first: Box<[u32; SLOTS]>,
    /// By slot, how many pages it has.
    count: Box<[u8; SLOTS]>,
    /// Pages that were ever given out, and how many may be.
    used: usize,
    most: usize,
    /// The places of room that was given back, by the logarithm of its pages.
    free: [Vec<u32>; ROOMS],
    /// True if each child has had its page so far. Once it is not, it stays so.
    is_whole: bool,
}

impl Pages {
    /// None.
    pub(super) fn new() -> Self {
        let mut memory = Huge::zeroed(PAGES_START * PAGE);
        memory[..NAMED * PAGE].fill(ASK);
        Self {
            memory,
            first: filled(0),
            count: filled(0),
            used: 1 << (ROOMS - 1),
            most: PAGES_MAX,
            free: [const { Vec::new() }; ROOMS],
            is_whole: true,
        }
    }

    /// The bytes of all pages, and the place of each slot's first one.
    #[inline]
    pub(super) fn parts(&self) -> (&[u8], &[u32; SLOTS]) {
        (&self.memory, &self.first)
    }

    /// What the page of a slot's child says of the last byte: a code, or [`ASK`].
    #[inline(always)]
    pub(super) fn code(&self, slot: usize, number: u8, value: u8) -> u8 {
        let page = self.first[slot] as usize + usize::from(number);
        self.memory[page * PAGE + usize::from(value)]
    }

    /// Room for so many pages from now on.
    #[cfg(test)]
    pub(super) fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// True if no child was ever left to the trie, for want of room or of a number.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Bytes of pages that were ever given out, and of the places of the first ones.
    pub(super) fn lookup_bytes(&self) -> usize {
        self.bytes() + size_of_val(&*self.first)
    }

    fn bytes(&self) -> usize {
        self.used * PAGE
    }

    /// Makes `slot` have as many pages as it has children, whatever they were; what they hold is to be written.
    pub(super) fn reset(&mut self, slot: usize, children: usize) {
        self.is_whole &= children <= NAMED;
        let (before, count) = self.of(slot);
        let to = self.place_for(before, count, children.min(NAMED));
        self.replace(slot, to, children.min(NAMED));
    }

    /// A child has come to `slot` as the one of this `number`; its page is to be written.
    pub(super) fn insert(&mut self, slot: usize, number: usize) {
        let (from, before) = self.of(slot);
        self.is_whole &= before < NAMED;
        if number >= NAMED {
            return;
        }
        let count = (before + 1).min(NAMED);
        let to = self.place_for(from, before, count);
        if to != 0 {
            // Those behind first, which may only move up by one.
            self.copy(from + number, to + number + 1, count - number - 1);
            self.copy(from, to, number);
        }
        self.replace(slot, to, count);
    }

    /// The child of `slot` with this `number` is gone; `left` are there. A child that had no page before has one that leaves all to the trie.
    pub(super) fn remove(&mut self, slot: usize, number: usize, left: usize) {
        let (from, before) = self.of(slot);
        let count = left.min(NAMED);
        let to = self.place_for(from, before, count);
        if to != 0 {
            let kept = number.min(count);
            let moved = before.saturating_sub(kept + 1);
            self.copy(from, to, kept);
            self.copy(from + kept + 1, to + kept, moved);
            let fresh = (to + kept + moved) * PAGE..(to + count) * PAGE;
            self.memory[fresh].fill(ASK);
        }
        self.replace(slot, to, count);
    }

    /// Writes the page of a child.
    pub(super) fn write(&mut self, slot: usize, number: usize, leaves: &[Leaf; PAGE]) {
        if let Some(page) = self.page(slot, number) {
            *page = leaves.map(byte_of);
        }
    }

    /// Sends those of a child's values to one leaf, the others where they went.
    pub(super) fn repaint(&mut self, slot: usize, number: usize, values: Values, leaf: Leaf) {
        if let Some(page) = self.page(slot, number) {
            for (first, last) in values.runs() {
                page[usize::from(first)..=usize::from(last)].fill(byte_of(leaf));
            }
        }
    }

    fn page(&mut self, slot: usize, number: usize) -> Option<&mut [u8; PAGE]> {
        let (first, count) = self.of(slot);
        (first != 0 && number < count).then(|| {
            let (pages, _) = self.memory.as_chunks_mut();
            &mut pages[first + number]
        })
    }

    /// The place for `count` pages of a slot that has `before` at `from`: the same one if there is room; 0 if there is none, or none is needed.
    fn place_for(&mut self, from: usize, before: usize, count: usize) -> usize {
        match (from, count) {
            (_, 0) => 0,
            (0, _) => self.take(count),
            _ if room_log2(before) == room_log2(count) => from,
            _ => self.take(count),
        }
    }

    /// The place of room for `count` pages side by side; 0 if there is none.
    fn take(&mut self, count: usize) -> usize {
        let log2 = room_log2(count);
        if let Some(place) = self.free[log2].pop() {
            return place as usize;
        }
        let place = self.used;
        if place + (1 << log2) > self.most {
            self.is_whole = false;
            return 0;
        }
        self.used += 1 << log2;
        if self.used * PAGE > self.memory.len() {
            let mut memory = Huge::zeroed(2 * self.memory.len());
            memory[..place * PAGE].copy_from_slice(&self.memory[..place * PAGE]);
            self.memory = memory;
        }
        place
    }

    /// The place of a slot's first page, and how many it has.
    fn of(&self, slot: usize) -> (usize, usize) {
        (self.first[slot] as usize, usize::from(self.count[slot]))
    }

    /// Gives a slot's pages back, unless they stay, and gives it others.
    fn replace(&mut self, slot: usize, first: usize, count: usize) {
        let (before, many) = self.of(slot);
        if before != 0 && before != first {
            self.free[room_log2(many)].push(before as u32);
        }
        self.first[slot] = first as u32;
        self.count[slot] = count as u8;
    }

    /// Copies so many pages.
    fn copy(&mut self, from: usize, to: usize, count: usize) {
        let from = from * PAGE..(from + count) * PAGE;
        self.memory.copy_within(from, to * PAGE);
    }
}

impl Clone for Pages {
    fn clone(&self) -> Self {
        let mut memory = Huge::zeroed(self.memory.len());
        memory[..self.bytes()].copy_from_slice(&self.memory[..self.bytes()]);
        Self {
            memory,
            first: self.first.clone(),
            count: self.count.clone(),
            used: self.used,
            most: self.most,
            free: self.free.clone(),
            is_whole: self.is_whole,
        }
    }
}

/// The logarithm of the pages that there is room for where a slot has `count` of them.
fn room_log2(count: usize) -> usize {
    count.next_power_of_two().trailing_zeros() as usize
}

fn filled<T: Copy>(value: T) -> Box<[T; SLOTS]> {
    let all: Box<[T]> = vec![value; SLOTS].into();
    all.try_into().ok().expect("so many")
}
