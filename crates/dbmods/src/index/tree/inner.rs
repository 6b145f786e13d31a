//! An inner node: children, and the keys that separate them.
//!
//! The slot of an entry is the number of a child. Entry *i* has the keys from its separator up to that of the next one; the first separator
//! is below every key. A separator is a head where the heads of its two sides differ, as they always do with keys of eight bytes. Else it is a whole
//! key in a chain, named by a word of its own that only an equal head makes a search read.

use super::chain::Chains;
use super::leaf::Key;
use super::node::{
    ENTRIES_MAX, GROUP_WORDS, GROUPS, META, Word, below, close_gap, count_of, group_of, head_at,
    load, not_above, open_gap, resample, slot_at, store,
};
use super::search::Search;

/// The first of the words that name the chains of long separators.
const CHAINS: usize = GROUPS + ENTRIES_MAX / 8 * GROUP_WORDS;
/// Words of an inner node.
pub(super) const INNER: usize = CHAINS + ENTRIES_MAX;
/// An inner node.
pub(super) type Inner = [Word; INNER];
/// In the meta word: some separator is long, or was.
const HAS_LONG: u64 = 1 << 8;

/// Extents of long separators.
pub(super) type Separators = Chains<8>;

/// What separates a child from the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Separator {
    pub(super) head: u64,
    /// Length and number of the whole key, or zero.
    long: u64,
}

impl Separator {
    pub(super) const LOWEST: Self = Self { head: 0, long: 0 };

    pub(super) fn short(head: u64) -> Self {
        Self { head, long: 0 }
    }

    pub(super) fn long(head: u64, len: usize, number: u32) -> Self {
        let long = (len as u64) << 32 | u64::from(number);
        Self { head, long }
    }

    /// The chain of a long one.
    pub(super) fn chain(self) -> Option<u32> {
        (self.long != 0).then_some(self.long as u32)
    }

    /// True if it is above a key with the same head.
    fn is_above(self, key: &[u8], separators: &Separators) -> bool {
        let len = (self.long >> 32) as usize;
        self.long != 0 && separators.compare(self.long as u32, len, key).is_gt()
    }
}

#[inline(always)]
pub(super) fn count(inner: &Inner) -> usize {
    count_of(load(&inner[META]))
}

/// The entry of a key in the group that [`group_of`] gave for its head.
#[inline(always)]
pub(super) fn entry_in(
    search: impl Search,
    inner: &Inner,
    count: usize,
    group: usize,
    key: Key<'_>,
    separators: &Separators,
) -> usize {
    let entry = not_above(search, inner, count, group, key.head).max(1) - 1;
    if load(&inner[META]) & HAS_LONG == 0 {
        return entry;
    }
    entry_before(search, inner, count, entry, key, separators)
}

/// The last entry up to `last` whose separator is not above the key. Those with the head of the key are in the order of their keys, a short one first.
#[inline(never)]
fn entry_before(
    search: impl Search,
    inner: &Inner,
    count: usize,
    last: usize,
    key: Key<'_>,
    separators: &Separators,
) -> usize {
    if separator(inner, last).head != key.head {
        return last;
    }
    // Separators below `low` are not above the key, those from `high` on are.
    let (mut low, mut high) = (below(search, inner, count, key.head).max(1), last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match separator(inner, middle).is_above(key.bytes, separators) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    (low - 1).min(last)
}

/// The entry of a key.
#[inline(always)]
pub(super) fn entry_of(
    search: impl Search,
    inner: &Inner,
    key: Key<'_>,
    separators: &Separators,
) -> usize {
    let count = count(inner);
    let group = group_of(search, inner, count, key.head);
    entry_in(search, inner, count, group, key, separators)
}

#[inline(always)]
pub(super) fn child(inner: &Inner, entry: usize) -> u32 {
    load(&inner[slot_at(entry)]) as u32
}

pub(super) fn separator(inner: &Inner, entry: usize) -> Separator {
    Separator {
        head: load(&inner[head_at(entry)]),
        long: load(&inner[CHAINS + entry]),
    }
}

fn put(inner: &Inner, entry: usize, separator: Separator, child: u32) {
    store(&inner[head_at(entry)], separator.head);
    store(&inner[slot_at(entry)], u64::from(child));
    store(&inner[CHAINS + entry], separator.long);
    if separator.long != 0 {
        store(&inner[META], load(&inner[META]) | HAS_LONG);
    }
}

fn set_count(inner: &Inner, count: usize) {
    let flags = load(&inner[META]) & HAS_LONG;
    store(&inner[META], flags | count as u64);
    resample(inner, count);
}

/// Makes a node with one child.
pub(super) fn clear(inner: &Inner, first: u32) {
    store(&inner[META], 0);
    put(inner, 0, Separator::LOWEST, first);
    set_count(inner, 1);
}

/// Adds a child. There is a place for it.
pub(super) fn insert(inner: &Inner, at: usize, separator: Separator, child: u32) {
    let count = count(inner);
    open_gap(inner, count, at);
    for entry in (at..count).rev() {
        store(&inner[CHAINS + entry + 1], load(&inner[CHAINS + entry]));
    }
    put(inner, at, separator, child);
    set_count(inner, count + 1);
}

/// Takes a child away that is not the first.
pub(super) fn remove(inner: &Inner, at: usize) {
    let count = count(inner);
    close_gap(inner, count, at);
    for entry in at + 1..count {
        store(&inner[CHAINS + entry - 1], load(&inner[CHAINS + entry]));
    }
    set_count(inner, count - 1);
}

/// Adds the children of another node from `first` on behind the last one; `before` is what separates them.
pub(super) fn append(inner: &Inner, before: Separator, from: &Inner, first: usize) {
    let mut at = count(inner);
    for entry in first..count(from) {
        let separator = if entry == first {
            before
        } else {
            separator(from, entry)
        };
        put(inner, at, separator, child(from, entry));
        at += 1;
    }
    set_count(inner, at);
}

/// Keeps the first children alone.
pub(super) fn keep(inner: &Inner, children: usize) {
    set_count(inner, children);
}
