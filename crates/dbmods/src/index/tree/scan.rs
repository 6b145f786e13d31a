//! Reads of ranges.
//!
//! A leaf's rows are copied, the version is checked, and then the caller gets them. The next leaf is the right neighbour, which
//! stays the next one unless it merges into another; then it is obsolete, and the way leads down again. While rows of this one are copied, its entries are
//! asked for one by one, as many as the scan still wants, and the header of the one behind it. All lines of each leaf would be a third more; all entries at once
//! would wait for each other.

use std::ops::{ControlFlow, Range};

use dpb_core::prefetch::prefetch_item;

use super::leaf::{self, Key, Leaf, Meta};
use super::lock::{self, Version};
use super::node::{LOCK, NEXT, Word, copy_bytes, load};
use super::read::Retry;
use super::shared::Shared;
use crate::index::{EachRow, Found};

/// Words of a cache line.
const LINE: usize = 8;

/// Rows of a leaf, and where the scan stands. A session keeps it, so that scans allocate nothing.
#[derive(Debug, Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    /// Bytes of the rows. What lies behind them is of other leaves.
    used: usize,
    /// Bytes of each row's key and value, which lie one behind another.
    lens: Vec<(u32, u32)>,
    /// The scan goes on at this key, or behind it.
    key: Vec<u8>,
    behind: bool,
    /// The last key of the leaf that is being read, if `some` says so.
    last: Vec<u8>,
    some: bool,
}

impl Rows {
    /// Makes room behind the rows: where a value of so many bytes begins behind its key, and where it ends.
    #[inline(always)]
    fn room(&mut self, key_len: usize, value_len: usize) -> (usize, usize) {
        let start = self.used + key_len;
        let end = start + value_len;
        if self.bytes.len() < end {
            self.bytes.resize(end.next_power_of_two(), 0);
        }
        (start, end)
    }
}

impl Shared {
    /// Gives `each` up to `limit` rows of a state, from a key on.
    pub(super) fn scan(
        &self,
        start: &[u8],
        limit: usize,
        state: u64,
        rows: &mut Rows,
        each: &mut EachRow<'_>,
    ) -> usize {
        rows.key.clear();
        rows.key.extend_from_slice(start);
        rows.behind = false;
        let mut given = 0;
        let mut neighbour: Option<(&Leaf, Version)> = None;
        while given < limit {
            let is_neighbour = neighbour.is_some();
            let (leaf, version) = match neighbour.take() {
                Some(next) => next,
                None => self.leaf_of(Key::new(&rows.key)),
            };
            let Some(next) = self.rows_of(leaf, version, is_neighbour, limit - given, state, rows)
            else {
                self.retry();
                continue;
            };
            if rows.some {
                std::mem::swap(&mut rows.key, &mut rows.last);
                rows.behind = true;
            }
            match give(rows, each) {
                (count, ControlFlow::Continue(())) => given += count,
                (count, ControlFlow::Break(())) => return given + count,
            }
            if next == 0 {
                break;
            }
            let leaf = self.leaves.node(next);
            neighbour = lock::read(&leaf[LOCK]).map(|version| (leaf, version));
        }
        given
    }

    /// Copies up to `limit` rows of a leaf, and gives the number of the next leaf or zero.
    fn rows_of(
        &self,
        leaf: &Leaf,
        version: Version,
        from_start: bool,
        limit: usize,
        state: u64,
        rows: &mut Rows,
    ) -> Retry<u32> {
        rows.used = 0;
        rows.lens.clear();
        rows.some = false;
        let count = Meta::of(leaf).count;
        let next = load(&leaf[NEXT]) as u32;
        let first = match from_start {
            true => 0,
            false => match leaf::find(self.search, leaf, count, Key::new(&rows.key)) {
                Ok(entry) => entry + usize::from(rows.behind),
                Err(entry) => entry,
            },
        };
        let end = count.min(first.saturating_add(limit));
        if !from_start {
            prefetch_entries(leaf, first..end);
        }
        let mut ahead = self.ahead(leaf, version, next, limit - (end - first.min(end)));
        if from_start {
            self.fetch_behind(&ahead);
        }
        for entry in first..count {
            if rows.lens.len() == limit {
                break;
            }
            ahead.fetch_one();
            self.row(leaf, version, entry, state, rows)?;
        }
        if !from_start {
            self.fetch_behind(&ahead);
        }
        while ahead.fetch_one() {}
        if let (Some(last), true) = (count.checked_sub(1), first < count) {
            let slot = leaf::slot(leaf, last);
            rows.last.clear();
            match slot.is_keyed() {
                true => {
                    rows.last.resize(slot.key_len(), 0);
                    copy_bytes(leaf::key_words(leaf, slot)?, &mut rows.last);
                }
                false => rows.last.extend(leaf::head(leaf, last).to_be_bytes()),
            }
            rows.some = true;
        }
        self.pause();
        self.holds(leaf, version).then_some(next)
    }

    /// The leaf behind this one, for a scan that wants so many rows more. Its groups are asked for.
    fn ahead<'s>(&'s self, leaf: &Leaf, version: Version, next: u32, wanted: usize) -> Ahead<'s> {
        let is_wanted = next != 0 && wanted > 0 && self.holds(leaf, version);
        let leaf = is_wanted.then(|| self.leaves.node(next));
        if let Some(leaf) = leaf {
            leaf::prefetch(leaf);
        }
        Ahead {
            leaf,
            wanted,
            fetched: 0,
        }
    }

    /// Asks for the header of the leaf behind the next one.
    fn fetch_behind(&self, ahead: &Ahead<'_>) {
        // The word has been the number of a leaf or zero at all times, and nothing but the request depends on it.
        let behind = ahead.leaf.map_or(0, |leaf| load(&leaf[NEXT]) as u32);
        if behind != 0 {
            leaf::prefetch(self.leaves.node(behind));
        }
    }

    /// Copies one row, if the state has it.
    #[inline(always)]
    fn row(
        &self,
        leaf: &Leaf,
        version: Version,
        entry: usize,
        state: u64,
        rows: &mut Rows,
    ) -> Retry<()> {
        let slot = leaf::slot(leaf, entry);
        let position = leaf::older(leaf, slot);
        let mut len = slot.value_len();
        if !self.is_seen(position, state) {
            // Only what was right when it was read may be asked for its past.
            if !self.holds(leaf, version) {
                return None;
            }
            let old = self.log.seen_by(state, position)?;
            if old.slot.is_absent() {
                return Some(());
            }
            len = old.slot.value_len();
        } else if slot.is_absent() {
            return Some(());
        } else if slot.is_long() && !self.holds(leaf, version) {
            // Nor may it be asked for room.
            return None;
        }
        let (start, end) = rows.room(slot.key_len(), len);
        let key = &mut rows.bytes[rows.used..start];
        match (slot.is_keyed(), key.first_chunk_mut()) {
            (false, Some(eight)) => *eight = leaf::head(leaf, entry).to_be_bytes(),
            _ => copy_bytes(leaf::key_words(leaf, slot)?, key),
        }
        let to = &mut rows.bytes[start..end];
        if self.value_in(leaf, version, slot, state, to)? == Found::Absent {
            return None;
        }
        rows.used = end;
        rows.lens.push((slot.key_len() as u32, len as u32));
        Some(())
    }
}

/// The next leaf, whose entries are asked for one by one, so that requests do not wait for each other.
struct Ahead<'s> {
    leaf: Option<&'s Leaf>,
    wanted: usize,
    fetched: usize,
}

impl Ahead<'_> {
    /// Asks for the next entry, if there is one that the scan may want.
    #[inline(always)]
    fn fetch_one(&mut self) -> bool {
        let Some(leaf) = self.leaf else { return false };
        let entry = self.fetched;
        if entry >= Meta::of(leaf).count.min(self.wanted) {
            return false;
        }
        prefetch_entries(leaf, entry..entry + 1);
        self.fetched += 1;
        true
    }
}

/// Asks for entries.
#[inline(always)]
fn prefetch_entries(leaf: &Leaf, entries: Range<usize>) {
    for entry in entries {
        let slot = leaf::slot(leaf, entry);
        let start = slot.offset();
        for line in (start..start + slot.words() + LINE - 1).step_by(LINE) {
            prefetch_item::<Word>(leaf, line);
        }
    }
}

/// Gives the rows of a leaf.
fn give(rows: &Rows, each: &mut EachRow<'_>) -> (usize, ControlFlow<()>) {
    let mut bytes = &rows.bytes[..];
    for (row, (key, value)) in rows.lens.iter().enumerate() {
        let (row_bytes, rest) = bytes.split_at((key + value) as usize);
        let (key, value) = row_bytes.split_at(*key as usize);
        bytes = rest;
        if each(key, value).is_break() {
            return (row + 1, ControlFlow::Break(()));
        }
    }
    (rows.lens.len(), ControlFlow::Continue(()))
}
