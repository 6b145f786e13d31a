//! What leaves and inner nodes have in common: a header, and groups of eight ordered heads with eight slots.
//!
//! ```text
//! word 0      version lock
//! word 1      count of entries, flags, bytes that heads leave out; of a leaf also where its heap begins and how much of it is dead
//! word 2      of a leaf: its right neighbour
//! word 3..16  samples: the first head of each group but the first
//! then        groups: eight heads, which are one cache line, and their eight slots, which are the next
//! ```
//!
//! The head of a key is eight of its bytes as a big-endian number, filled up with zeroes. They begin behind the bytes that all keys share which may lie
//! in the node: those that the keys left and right of the node's range, its fences, have in common (Graefe, "Modern B-Tree Techniques", 2011,
//! section 3.6). A search of heads knows that its key has these bytes, as it got there, and compares none of them. A node leaves bytes out from when two of its heads
//! would be alike. Keys of eight bytes are their heads where nothing is left out.
//!
//! A search counts the samples that are not above the head, which names a group, then the heads of the group ([`search`](super::search)). Both take
//! a fixed number of steps without a branch, so nothing is mispredicted, and a node costs three lines whatever it holds. Ideas are from Hankins and
//! Patel ("Effect of Node Size on the Performance of Cache-Conscious B+-trees", 2003) and of FB+-tree (VLDB 2025).

use super::search::{Line, Search};
pub(super) use super::word::{
    LINE, Word, compare_bytes, compare_words, copy_bytes, load, store, words_for, write_bytes,
};

pub(super) const LOCK: usize = 0;
pub(super) const META: usize = 1;
pub(super) const NEXT: usize = 2;
/// The first sample.
pub(super) const SAMPLES: usize = 3;
/// The first word of the first group.
pub(super) const GROUPS: usize = 16;
/// Entries of a group.
pub(super) const GROUP: usize = 8;
/// Words of a group.
pub(super) const GROUP_WORDS: usize = 2 * GROUP;
/// Samples of the header.
const SAMPLES_MAX: usize = GROUPS - SAMPLES;
/// Samples in the first line.
const SAMPLES_NEAR: usize = 8 - SAMPLES;
/// Entries of a node, at most.
pub(super) const ENTRIES_MAX: usize = (SAMPLES_MAX + 1) * GROUP;
/// The head of places without an entry. It is a key's head too, so the count decides.
const NO_HEAD: u64 = u64::MAX;

/// In the meta word, from this bit on: bytes that heads leave out.
const SKIP_SHIFT: u32 = 48;

/// The bytes of keys that the heads of a node leave out, by its meta word.
#[inline(always)]
pub(super) fn skip_of(meta: u64) -> usize {
    (meta >> SKIP_SHIFT) as usize
}

/// The meta word's part that says so.
pub(super) fn skip_bits(skip: usize) -> u64 {
    (skip as u64) << SKIP_SHIFT
}

/// The first eight bytes of a key.
#[inline(always)]
pub(super) fn head_of(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// The head of a key in a node that leaves `skip` bytes out.
#[inline(always)]
pub(super) fn head_behind(key: &[u8], skip: usize) -> u64 {
    // A number that was read while its node changed may be any.
    head_of(key.get(skip..).unwrap_or(&[]))
}

/// The same of a key that lies in words.
pub(super) fn head_in(words: &[Word], skip: usize) -> u64 {
    let word = |at: usize| words.get(at).map_or(0, |word| load(word).to_be());
    let (at, bits) = (skip / 8, 8 * (skip % 8) as u32);
    match bits {
        0 => word(at),
        bits => word(at) << bits | word(at + 1) >> (64 - bits),
    }
}

/// The number of bytes that two keys have in common.
pub(super) fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The word of a head.
#[inline(always)]
pub(super) fn head_at(entry: usize) -> usize {
    GROUPS + entry / GROUP * GROUP_WORDS + entry % GROUP
}

/// The word of a slot.
#[inline(always)]
pub(super) fn slot_at(entry: usize) -> usize {
    head_at(entry) + GROUP
}

/// Words of the header and of the groups of so many entries.
#[inline]
pub(super) fn groups_end(entries: usize) -> usize {
    GROUPS + entries.div_ceil(GROUP) * GROUP_WORDS
}

/// The entries that a meta word counts. A word that changed while it was read is kept in bounds.
#[inline(always)]
pub(super) fn count_of(meta: u64) -> usize {
    (meta as u8 as usize).min(ENTRIES_MAX)
}

/// The eight words from a multiple of eight on.
#[inline(always)]
fn line<const W: usize>(node: &[Word; W], at: usize) -> &Line {
    let words: Option<&Line> = node[at..].first_chunk();
    words.expect("a node is whole lines")
}

/// The group in which the last head that is not above `head` lies, if there is one.
#[inline(always)]
pub(super) fn group_of<const W: usize>(
    search: impl Search,
    node: &[Word; W],
    count: usize,
    head: u64,
) -> usize {
    let last = count.saturating_sub(1) / GROUP;
    let mut group = search.not_above_of_five(line(node, 0), head);
    if last > SAMPLES_NEAR {
        group += search.not_above(line(node, SAMPLES + SAMPLES_NEAR), head);
    }
    group.min(last)
}

/// Entries up to the end of `group` whose heads are not above `head`, all before the group among them.
#[inline(always)]
pub(super) fn not_above<const W: usize>(
    search: impl Search,
    node: &[Word; W],
    count: usize,
    group: usize,
    head: u64,
) -> usize {
    let heads = line(node, GROUPS + group * GROUP_WORDS);
    (group * GROUP + search.not_above(heads, head)).min(count)
}

/// Entries whose heads are below `head`.
#[inline]
pub(super) fn below<const W: usize>(
    search: impl Search,
    node: &[Word; W],
    count: usize,
    head: u64,
) -> usize {
    match head.checked_sub(1) {
        Some(before) => {
            let group = group_of(search, node, count, before);
            not_above(search, node, count, group, before)
        }
        None => 0,
    }
}

/// Writes the samples anew, and the heads of places without an entry.
pub(super) fn resample<const W: usize>(node: &[Word; W], count: usize) {
    for group in 1..=SAMPLES_MAX {
        let entry = group * GROUP;
        let sample = match entry < count {
            true => load(&node[head_at(entry)]),
            false => NO_HEAD,
        };
        store(&node[SAMPLES + group - 1], sample);
    }
    for entry in count..count.next_multiple_of(GROUP) {
        store(&node[head_at(entry)], NO_HEAD);
    }
}

/// Makes room for an entry at `at`: moves those from there on by one. The place behind the last has to be there.
pub(super) fn open_gap<const W: usize>(node: &[Word; W], count: usize, at: usize) {
    for entry in (at..count).rev() {
        store(&node[head_at(entry + 1)], load(&node[head_at(entry)]));
        store(&node[slot_at(entry + 1)], load(&node[slot_at(entry)]));
    }
}

/// Takes the entry at `at` away: moves those behind it by one.
pub(super) fn close_gap<const W: usize>(node: &[Word; W], count: usize, at: usize) {
    for entry in at + 1..count {
        store(&node[head_at(entry - 1)], load(&node[head_at(entry)]));
        store(&node[slot_at(entry - 1)], load(&node[slot_at(entry)]));
    }
}
