//! A leaf: groups of heads and slots that grow up, and a heap of entries that grows down to meet them.

use std::cmp::Ordering;

use dpb_core::prefetch::prefetch_item;

use super::node::{
    GROUPS, LINE, META, Word, below, close_gap, compare_bytes, copy_bytes, count_of, group_of,
    groups_end, head_at, head_behind, head_in, load, not_above, open_gap, resample, skip_bits,
    skip_of, slot_at, store, write_bytes,
};
use super::search::Search;
use super::slot::Slot;

/// Words of a leaf: 4 KiB, like the pages of LMDB. Leaves of half the size have a third more inner nodes above them, which a small core's cache does not hold.
pub(super) const LEAF: usize = 512;
/// A leaf.
pub(super) type Leaf = [Word; LEAF];

/// Lines of groups that are fetched with a leaf's header: those of 32 entries, as many of 100 bytes as fill a leaf.
const GROUP_LINES: usize = 8;

const HEAP_SHIFT: u32 = 16;
const DEAD_SHIFT: u32 = 32;

/// The meta word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) count: usize,
    /// Bytes that heads leave out. Zero if a key is only there as a head.
    pub(super) skip: usize,
    /// Where the heap begins.
    heap: usize,
    /// Words of the heap that belong to no entry.
    dead: usize,
}

/// A value as a leaf stores it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stored<'a> {
    /// Its bytes.
    Here(&'a [u8]),
    /// The word of its first run.
    Long(u64),
}

/// A key and its head, where nothing is left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    pub(super) bytes: &'a [u8],
    head: u64,
}

impl<'a> Key<'a> {
    pub(super) const EMPTY: Self = Self {
        bytes: &[],
        head: 0,
    };

    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            head: super::node::head_of(bytes),
        }
    }

    /// Its head in a node that leaves `skip` bytes out.
    #[inline(always)]
    pub(super) fn head(&self, skip: usize) -> u64 {
        match skip {
            0 => self.head,
            skip => head_behind(self.bytes, skip),
        }
    }
}

/// Bytes of a key that was read.
pub(super) type KeyBytes = [u8; 512];

impl Meta {
    #[inline(always)]
    pub(super) fn of(leaf: &Leaf) -> Self {
        let word = load(&leaf[META]);
        Self {
            count: count_of(word),
            skip: skip_of(word),
            heap: (word >> HEAP_SHIFT) as u16 as usize,
            dead: (word >> DEAD_SHIFT) as u16 as usize,
        }
    }

    fn put(self, leaf: &Leaf) {
        let word = self.count | self.heap << HEAP_SHIFT | self.dead << DEAD_SHIFT;
        store(&leaf[META], word as u64 | skip_bits(self.skip));
    }

    /// Words that all entries take, with their heads and slots.
    pub(super) fn live_words(self) -> usize {
        LEAF - self.heap - self.dead + 2 * self.count
    }

    /// True if there is room for `words` of heap and so many entries more, as the heap is. A leaf has `entries_max` at most.
    pub(super) fn has_room(self, words: usize, entries: usize, entries_max: usize) -> bool {
        let count = self.count + entries;
        count <= entries_max && groups_end(count) + words <= self.heap
    }

    /// True if there would be, without dead words.
    pub(super) fn has_room_compacted(
        self,
        words: usize,
        entries: usize,
        entries_max: usize,
    ) -> bool {
        let count = self.count + entries;
        count <= entries_max && groups_end(count) + words <= self.heap + self.dead
    }
}

/// Asks for the header of a leaf and the groups that are likely there, so that they come together. The second line of the header serves leaves with more.
#[inline(always)]
pub(super) fn prefetch(leaf: &Leaf) {
    prefetch_item::<Word>(leaf, 0);
    for line in 0..GROUP_LINES {
        prefetch_item::<Word>(leaf, GROUPS + line * LINE);
    }
}

/// Makes a leaf empty, whose heads will leave `skip` bytes out.
pub(super) fn clear(leaf: &Leaf, skip: usize) {
    let empty = Meta {
        count: 0,
        skip,
        heap: LEAF,
        dead: 0,
    };
    empty.put(leaf);
    store(&leaf[super::node::NEXT], 0);
    resample(leaf, 0);
}

#[inline(always)]
pub(super) fn slot(leaf: &Leaf, entry: usize) -> Slot {
    Slot(load(&leaf[slot_at(entry)]))
}

#[inline(always)]
pub(super) fn head(leaf: &Leaf, entry: usize) -> u64 {
    load(&leaf[head_at(entry)])
}

/// The position of an entry's older version. Any number, if the slot changed while it was read.
#[inline(always)]
pub(super) fn older(leaf: &Leaf, slot: Slot) -> u64 {
    load(&leaf[slot.offset() % LEAF])
}

/// An entry's value, or the word of a long one. `None` if the slot changed while it was read.
#[inline(always)]
pub(super) fn value(leaf: &Leaf, slot: Slot) -> Option<&[Word]> {
    let start = slot.value_at();
    leaf.get(start..start + slot.value_words())
}

/// The words of an entry's key that is not its head. `None` if the slot changed while it was read.
#[inline(always)]
pub(super) fn key_words(leaf: &Leaf, slot: Slot) -> Option<&[Word]> {
    let start = slot.offset() + 1;
    leaf.get(start..start + slot.key_words())
}

/// An entry's key. Any bytes, if the slot changed while it was read.
#[inline]
pub(super) fn key<'a>(leaf: &Leaf, slot: Slot, head: u64, bytes: &'a mut KeyBytes) -> &'a [u8] {
    let len = slot.key_len().min(bytes.len());
    match slot.is_keyed() {
        true => {
            copy_bytes(key_words(leaf, slot).unwrap_or(&[]), &mut bytes[..len]);
            &bytes[..len]
        }
        false => {
            bytes[..8].copy_from_slice(&head.to_be_bytes());
            &bytes[..8]
        }
    }
}

/// How an entry with the head of `than` compares with it.
#[inline(always)]
pub(super) fn compare(leaf: &Leaf, slot: Slot, than: Key<'_>) -> Ordering {
    match slot.is_keyed() {
        // Both begin with the same eight bytes, where the shorter one is filled up with zeroes.
        false => 8.cmp(&than.bytes.len()),
        true => {
            let words = key_words(leaf, slot).unwrap_or(&[]);
            compare_bytes(words, slot.key_len(), than.bytes)
        }
    }
}

/// The last entry with this head, or else where an entry with it would be. `group` is that of the head.
#[inline(always)]
pub(super) fn last_with(
    search: impl Search,
    leaf: &Leaf,
    count: usize,
    group: usize,
    of: u64,
) -> Result<usize, usize> {
    let end = not_above(search, leaf, count, group, of);
    match end == 0 || head(leaf, end - 1) != of {
        true => Err(end),
        false => Ok(end - 1),
    }
}

/// The same among entries with the head of the key, which end at `end`.
#[inline(never)]
fn find_alike(
    search: impl Search,
    leaf: &Leaf,
    meta: Meta,
    end: usize,
    of: Key<'_>,
) -> Result<usize, usize> {
    let before = below(search, leaf, meta.count, of.head(meta.skip));
    let (mut low, mut high) = (before, end);
    while low < high {
        let middle = low + (high - low) / 2;
        match compare(leaf, slot(leaf, middle), of) {
            Ordering::Equal => return Ok(middle),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    Err(low.min(end))
}

/// The entry with this key, which lies in the leaf's range, or where it would be.
#[inline(always)]
pub(super) fn find(
    search: impl Search,
    leaf: &Leaf,
    meta: Meta,
    of: Key<'_>,
) -> Result<usize, usize> {
    let of_head = of.head(meta.skip);
    let group = group_of(search, leaf, meta.count, of_head);
    let last = last_with(search, leaf, meta.count, group, of_head)?;
    match compare(leaf, slot(leaf, last), of) {
        Ordering::Equal => Ok(last),
        Ordering::Less => Err(last + 1),
        Ordering::Greater if last == 0 || head(leaf, last - 1) != of_head => Err(last),
        Ordering::Greater => find_alike(search, leaf, meta, last, of),
    }
}

/// How the key of an entry compares with another key, which need not lie in the leaf's range. Any order, if the leaf changed while it was read.
#[inline]
pub(super) fn compare_any(leaf: &Leaf, entry: usize, than: &[u8]) -> Ordering {
    let slot = slot(leaf, entry);
    match slot.is_keyed() {
        true => {
            let words = key_words(leaf, slot).unwrap_or(&[]);
            compare_bytes(words, slot.key_len(), than)
        }
        false => head(leaf, entry).to_be_bytes().as_slice().cmp(than),
    }
}

/// The bytes that the heads of some entries should leave out, where `shared` bytes may be: more than they do if two heads are alike.
pub(super) fn skip_for(leaf: &Leaf, entries: std::ops::Range<usize>, shared: usize) -> usize {
    let skip = Meta::of(leaf).skip;
    let are_alike = |entry: usize| head(leaf, entry) == head(leaf, entry + 1);
    let (start, end) = (entries.start, entries.end);
    let pays = shared > skip && (start..end.saturating_sub(1)).any(are_alike);
    match pays
        && entries
            .into_iter()
            .all(|entry| slot(leaf, entry).is_keyed())
    {
        true => shared,
        false => skip,
    }
}

fn write_stored(words: &[Word], stored: Stored<'_>) {
    match stored {
        Stored::Here(bytes) => write_bytes(words, bytes),
        Stored::Long(first) => store(&words[0], first),
    }
}

/// Gives an entry a value that takes as many words as the one it has.
pub(super) fn overwrite(leaf: &Leaf, entry: usize, to: Slot, older: u64, stored: Stored<'_>) {
    store(&leaf[to.offset()], older);
    let start = to.value_at();
    write_stored(&leaf[start..start + to.value_words()], stored);
    store(&leaf[slot_at(entry)], to.0);
}

/// Takes an entry's value away. Its key stays.
pub(super) fn remove_value(leaf: &Leaf, entry: usize, older: u64) {
    let from = slot(leaf, entry);
    let mut meta = Meta::of(leaf);
    meta.dead += from.value_words();
    store(&leaf[from.offset()], older);
    store(&leaf[slot_at(entry)], from.without_value().0);
    meta.put(leaf);
}

/// Gives an entry a value of another length. There is room for the whole entry.
pub(super) fn replace(leaf: &Leaf, entry: usize, value_len: usize, older: u64, stored: Stored<'_>) {
    let from = slot(leaf, entry);
    let mut meta = Meta::of(leaf);
    let to = from.with_value(value_len);
    let to = to.at(meta.heap - to.words());
    for word in 0..from.key_words() {
        let key = load(&leaf[from.offset() + 1 + word]);
        store(&leaf[to.offset() + 1 + word], key);
    }
    meta.heap -= to.words();
    meta.dead += from.words();
    overwrite(leaf, entry, to, older, stored);
    meta.put(leaf);
}

/// Adds an entry. There is room for it.
pub(super) fn insert(
    leaf: &Leaf,
    at: usize,
    of: Key<'_>,
    value_len: usize,
    older: u64,
    stored: Stored<'_>,
) {
    let mut meta = Meta::of(leaf);
    let to = Slot::new(of.bytes, value_len, meta.skip);
    let to = to.at(meta.heap - to.words());
    open_gap(leaf, meta.count, at);
    store(&leaf[head_at(at)], of.head(meta.skip));
    if to.is_keyed() {
        let start = to.offset() + 1;
        write_bytes(&leaf[start..start + to.key_words()], of.bytes);
    }
    overwrite(leaf, at, to, older, stored);
    meta.heap -= to.words();
    meta.count += 1;
    meta.put(leaf);
    resample(leaf, meta.count);
}

/// Takes an entry away.
pub(super) fn remove(leaf: &Leaf, entry: usize) {
    let mut meta = Meta::of(leaf);
    meta.dead += slot(leaf, entry).words();
    close_gap(leaf, meta.count, entry);
    meta.count -= 1;
    meta.put(leaf);
    resample(leaf, meta.count);
}

/// Adds copies of entries of another leaf behind the last one. There is room for them.
pub(super) fn append(leaf: &Leaf, from: &Leaf, entries: std::ops::Range<usize>) {
    let mut meta = Meta::of(leaf);
    let is_alike = meta.skip == Meta::of(from).skip;
    for entry in entries {
        let old = slot(from, entry);
        meta.heap -= old.words();
        let new = old.at(meta.heap);
        for word in 0..old.words() {
            store(&leaf[meta.heap + word], load(&from[old.offset() + word]));
        }
        let head = match is_alike {
            true => head(from, entry),
            false => head_behind_of(from, entry, meta.skip),
        };
        store(&leaf[head_at(meta.count)], head);
        store(&leaf[slot_at(meta.count)], new.0);
        meta.count += 1;
    }
    meta.put(leaf);
    resample(leaf, meta.count);
}

/// The head of an entry where `skip` bytes are left out. A key that is only there as a head has none left out.
fn head_behind_of(leaf: &Leaf, entry: usize, skip: usize) -> u64 {
    let slot = slot(leaf, entry);
    match slot.is_keyed() {
        true => head_in(key_words(leaf, slot).unwrap_or(&[]), skip),
        false => head(leaf, entry),
    }
}

/// Gives dead words back.
pub(super) fn compact(leaf: &Leaf) {
    let Meta { count, skip, .. } = Meta::of(leaf);
    keep(leaf, count, skip);
}

/// Keeps the first entries alone, with heads that leave `skip` bytes out, and gives dead words back.
pub(super) fn keep(leaf: &Leaf, entries: usize, skip: usize) {
    if skip != Meta::of(leaf).skip {
        for entry in 0..entries {
            store(&leaf[head_at(entry)], head_behind_of(leaf, entry, skip));
        }
    }
    let heap: [u64; LEAF] = std::array::from_fn(|at| load(&leaf[at]));
    let mut meta = Meta {
        count: entries,
        skip,
        heap: LEAF,
        dead: 0,
    };
    for entry in 0..entries {
        let old = slot(leaf, entry);
        meta.heap -= old.words();
        for word in 0..old.words() {
            store(&leaf[meta.heap + word], heap[old.offset() + word]);
        }
        store(&leaf[slot_at(entry)], old.at(meta.heap).0);
    }
    meta.put(leaf);
    resample(leaf, entries);
}
