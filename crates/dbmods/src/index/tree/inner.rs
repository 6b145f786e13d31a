//! An inner node: children, and the keys that separate them.
//!
//! The slot of an entry is the number of a child. Entry *i* has the keys from its separator up to that of the next one; the first separator
//! is below every key. A separator is a head where the heads of its two sides differ, as they always do with keys of eight bytes. Else it is the beginning of
//! a key in a chain, named by a word of its own that only an equal head makes a search read.

use super::chain::Chains;
use super::leaf::Key;
use super::node::{
    ENTRIES_MAX, GROUP_WORDS, GROUPS, META, Word, below, close_gap, count_of, group_of, head_at,
    head_behind, load, not_above, open_gap, resample, skip_bits, skip_of, slot_at, store,
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
    /// Length and number of a chain with all its bytes, or zero.
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

    /// All its bytes. Those that the heads of its node leave out are the first `skip` of `key`, which lies in the node's range.
    pub(super) fn bytes(self, skip: usize, key: &[u8], separators: &Separators) -> Vec<u8> {
        if let Some(chain) = self.chain() {
            let mut bytes = vec![0; (self.long >> 32) as usize];
            let is_whole = separators.read(chain, &mut bytes);
            debug_assert!(is_whole, "the writer reads what it wrote");
            return bytes;
        }
        // A key that ends here has the same head as one that goes on with zeroes, so the zeroes are no part of what separates.
        let head = self.head.to_be_bytes();
        let end = head.iter().rposition(|&byte| byte != 0);
        [&key[..skip], &head[..end.map_or(0, |last| last + 1)]].concat()
    }

    /// The same in a node that leaves out `skip` bytes, given all its bytes. `None` for a short one that needs a chain there.
    pub(super) fn moved(self, bytes: &[u8], skip: usize) -> Option<Self> {
        let head = head_behind(bytes, skip);
        match self.long == 0 && bytes.len() > skip + size_of_val(&head) {
            true => None,
            false => Some(Self { head, ..self }),
        }
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

/// The bytes that its heads leave out.
pub(super) fn skip(inner: &Inner) -> usize {
    skip_of(load(&inner[META]))
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
    let meta = load(&inner[META]);
    let head = key.head(skip_of(meta));
    let entry = not_above(search, inner, count, group, head).max(1) - 1;
    if meta & HAS_LONG == 0 {
        return entry;
    }
    entry_before(search, inner, count, entry, (key.bytes, head), separators)
}

/// The last entry up to `last` whose separator is not above the key. Those with the head of the key are in the order of their keys, a short one first.
#[inline(never)]
fn entry_before(
    search: impl Search,
    inner: &Inner,
    count: usize,
    last: usize,
    (key, head): (&[u8], u64),
    separators: &Separators,
) -> usize {
    if separator(inner, last).head != head {
        return last;
    }
    // Separators below `low` are not above the key, those from `high` on are.
    let (mut low, mut high) = (below(search, inner, count, head).max(1), last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match separator(inner, middle).is_above(key, separators) {
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
    let meta = load(&inner[META]);
    let count = count_of(meta);
    let group = group_of(search, inner, count, key.head(skip_of(meta)));
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
    let meta = load(&inner[META]);
    let kept = meta & HAS_LONG | skip_bits(skip_of(meta));
    store(&inner[META], kept | count as u64);
    resample(inner, count);
}

/// Makes a node with one child, whose heads leave out `skip` bytes.
pub(super) fn clear(inner: &Inner, first: u32, skip: usize) {
    store(&inner[META], skip_bits(skip));
    put(inner, 0, Separator::LOWEST, first);
    set_count(inner, 1);
}

/// Makes it leave out `skip` bytes. `separators` are those of all its children but the first, as they are then.
pub(super) fn leave_out(inner: &Inner, skip: usize, separators: &[Separator]) {
    let meta = load(&inner[META]) & !skip_bits(skip_of(u64::MAX));
    store(&inner[META], meta | skip_bits(skip));
    for (entry, separator) in (1..).zip(separators) {
        put(inner, entry, *separator, child(inner, entry));
    }
    set_count(inner, count(inner));
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

/// Adds children of another node behind the last one, from `first` on, with these separators.
pub(super) fn append(inner: &Inner, separators: &[Separator], from: &Inner, first: usize) {
    let mut at = count(inner);
    for (entry, separator) in (first..count(from)).zip(separators) {
        put(inner, at, *separator, child(from, entry));
        at += 1;
    }
    set_count(inner, at);
}

/// Keeps the first children alone.
pub(super) fn keep(inner: &Inner, children: usize) {
    set_count(inner, children);
}
