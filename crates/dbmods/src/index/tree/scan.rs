//! Reads of ranges.
//!
//! Rows of a leaf are copied, the version is checked, and then the caller gets them. Of long values the words are kept alone. The announced state keeps
//! their lines, so the caller gets them where they lie, without a copy; those that are chains are copied one by one as it takes them.
//!
//! The next leaf is the right neighbour, which stays the next one unless it merges into another; then it is obsolete, and the way leads down again.
//! While rows of a leaf are copied, two things are fetched: the entries of the next leaf, one for each row, and the header of the leaf behind that.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow, Range};

use dpb_core::prefetch::prefetch_item;

use super::leaf::{self, Key, LEAF, Leaf, Meta};
use super::lock::{self, Version};
use super::node::{LINE, LOCK, NEXT, Word, copy_bytes, load};
use super::read::Retry;
use super::shared::Shared;
use super::slot::INLINE_BYTES_MAX;
use crate::index::{EachRow, IndexError, KEY_BYTES_MAX, KeyRange};

/// Bytes of a long value that a session keeps room for between scans, at most.
const LONG_KEPT: usize = 1 << 20;

/// Lines of a long value that are fetched ahead. The CPU sees the sequence from there on, and more would keep the fetches of other values waiting.
const LINES_AHEAD: usize = 8;
/// Long values that are fetched before the one that is given.
const VALUES_AHEAD: usize = 4;

/// A row that was copied.
#[derive(Clone, Copy, Debug)]
struct Row {
    key_len: u32,
    value_len: u32,
    /// The word of a long value, which is not copied.
    long: Option<u64>,
}

/// Rows of a leaf, and where the scan stands. A session keeps it, so that scans allocate nothing.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Keys and short values of the rows, one behind another.
    bytes: Vec<u8>,
    /// Bytes of the rows. What lies behind them is of other leaves.
    used: usize,
    rows: Vec<Row>,
    /// A long value that is a chain.
    long: Vec<u8>,
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

    /// Gives room back that the next scan may not need.
    #[inline(always)]
    pub(super) fn trim(&mut self) {
        if self.long.capacity() > LONG_KEPT {
            self.long = Vec::new();
        }
    }
}

impl Shared {
    /// Gives `each` up to `limit` rows that a state has in a range.
    pub(super) fn scan(
        &self,
        range: KeyRange<'_>,
        limit: usize,
        state: u64,
        rows: &mut Rows,
        each: &mut EachRow<'_>,
    ) -> Result<usize, IndexError> {
        if range.is_empty() {
            return Ok(0);
        }
        let (start, behind) = match range.start {
            Bound::Unbounded => (&[][..], false),
            Bound::Included(key) => (key, false),
            Bound::Excluded(key) => (key, true),
        };
        rows.key.clear();
        rows.key.extend_from_slice(start);
        rows.behind = behind;
        let mut given = 0;
        let mut neighbour: Option<(&Leaf, Version)> = None;
        while given < limit {
            let is_neighbour = neighbour.is_some();
            let (leaf, version) = match neighbour.take() {
                Some(next) => next,
                None => self.leaf_of(Key::new(&rows.key))?,
            };
            let place = Place {
                leaf,
                version,
                is_neighbour,
                end: range.end,
                limit: limit - given,
                state,
            };
            let Some(next) = self.rows_of(&place, rows) else {
                self.retry();
                continue;
            };
            if rows.some {
                std::mem::swap(&mut rows.key, &mut rows.last);
                rows.behind = true;
            }
            match self.give(rows, each)? {
                (count, ControlFlow::Continue(())) => given += count,
                (count, ControlFlow::Break(())) => return Ok(given + count),
            }
            if next == 0 {
                break;
            }
            let leaf = self.leaves.node(next);
            self.pause();
            neighbour = lock::read(&leaf[LOCK]).map(|version| (leaf, version));
        }
        Ok(given)
    }

    /// Copies the rows of a leaf, and gives the number of the next leaf, or zero if the range ends here.
    fn rows_of(&self, place: &Place<'_>, rows: &mut Rows) -> Retry<u32> {
        let Place { leaf, version, .. } = *place;
        rows.used = 0;
        rows.rows.clear();
        rows.some = false;
        let meta = Meta::of(leaf);
        let count = meta.count;
        let first = match place.is_neighbour {
            true => 0,
            false => match leaf::find(self.search, leaf, meta, Key::new(&rows.key)) {
                Ok(entry) => entry + usize::from(rows.behind),
                Err(entry) => entry,
            },
        };
        let end = self.end_in(leaf, meta, place.end);
        let next = match end < count {
            true => 0,
            false => load(&leaf[NEXT]) as u32,
        };
        let likely = end.min(first.saturating_add(place.limit));
        if !place.is_neighbour {
            prefetch_entries(leaf, first..likely);
        }
        let copied = likely.saturating_sub(first);
        let mut ahead = self.ahead(leaf, version, next, place.limit - copied);
        if place.is_neighbour {
            self.fetch_behind(&ahead);
        }
        for entry in first..end {
            if rows.rows.len() == place.limit {
                break;
            }
            ahead.fetch_one();
            self.row(place, entry, rows)?;
        }
        if !place.is_neighbour {
            self.fetch_behind(&ahead);
        }
        while ahead.fetch_one() {}
        if let (Some(last), true) = (count.checked_sub(1), first < count) {
            copy_key(leaf, last, &mut rows.last)?;
            rows.some = true;
        }
        self.pause();
        (self.unchanged(leaf, version)).then_some(next)
    }

    /// The entry behind the last one that a range has in a leaf.
    #[inline(always)]
    fn end_in(&self, leaf: &Leaf, meta: Meta, end: Bound<&[u8]>) -> usize {
        let (key, is_included) = match end {
            Bound::Unbounded => return meta.count,
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
        };
        let Some(last) = meta.count.checked_sub(1) else {
            return 0;
        };
        // Only a key of the leaf's range may be searched for. One that lies between two of its keys is.
        match leaf::compare_any(leaf, last, key) {
            Ordering::Less => return meta.count,
            Ordering::Equal => return last + usize::from(is_included),
            Ordering::Greater => {}
        }
        match leaf::compare_any(leaf, 0, key) {
            Ordering::Less => {}
            Ordering::Equal => return usize::from(is_included),
            Ordering::Greater => return 0,
        }
        match leaf::find(self.search, leaf, meta, Key::new(key)) {
            Ok(entry) => entry + usize::from(is_included),
            Err(entry) => entry,
        }
    }

    /// The leaf behind this one, for a scan that wants so many rows more. Its groups are fetched.
    fn ahead<'s>(&'s self, leaf: &Leaf, version: Version, next: u32, wanted: usize) -> Ahead<'s> {
        let is_wanted = next != 0 && wanted > 0 && self.unchanged(leaf, version);
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

    /// Fetches the header of the leaf behind the next one. Nothing else depends on its number, which is not checked.
    fn fetch_behind(&self, ahead: &Ahead<'_>) {
        let behind = ahead.leaf.map_or(0, |leaf| load(&leaf[NEXT]) as u32);
        if behind != 0
            && let Some(leaf) = self.leaves.try_node(behind)
        {
            leaf::prefetch(leaf);
        }
    }

    /// Copies one row, if the state has it.
    #[inline(always)]
    fn row(&self, place: &Place<'_>, entry: usize, rows: &mut Rows) -> Retry<()> {
        let leaf = place.leaf;
        let slot = leaf::slot(leaf, entry);
        let position = leaf::older(leaf, slot);
        let (of, value) = match self.is_seen(position, place.state) {
            true => (slot, leaf::value(leaf, slot)?),
            false => {
                // Only a position that was read right leads to an older version.
                if !self.unchanged(leaf, place.version) {
                    return None;
                }
                let old = self.log.seen_by(place.state, position)?;
                (old.slot, old.value)
            }
        };
        if of.is_absent() {
            return Some(());
        }
        let (key_len, value_len) = (slot.key_len(), of.value_len());
        let long = of.is_long().then(|| load(&value[0]));
        let copied = if long.is_some() { 0 } else { value_len };
        if key_len > KEY_BYTES_MAX || copied > INLINE_BYTES_MAX {
            // No entry is like that: the slot changed while it was read.
            return None;
        }
        let (start, end) = rows.room(key_len, copied);
        let key = &mut rows.bytes[rows.used..start];
        match (slot.is_keyed(), key.first_chunk_mut()) {
            (false, Some(eight)) => *eight = leaf::head(leaf, entry).to_be_bytes(),
            _ => copy_bytes(leaf::key_words(leaf, slot)?, key),
        }
        self.pause();
        copy_bytes(value, &mut rows.bytes[start..end]);
        rows.used = end;
        rows.rows.push(Row {
            key_len: key_len as u32,
            value_len: value_len as u32,
            long,
        });
        Some(())
    }

    /// Gives the rows of a leaf.
    fn give(
        &self,
        rows: &mut Rows,
        each: &mut EachRow<'_>,
    ) -> Result<(usize, ControlFlow<()>), IndexError> {
        let Rows {
            bytes,
            rows,
            long: room,
            ..
        } = rows;
        let mut bytes = &bytes[..];
        for first in rows.iter().take(VALUES_AHEAD).filter_map(|row| row.long) {
            self.values.prefetch(first, LINES_AHEAD);
        }
        for (at, row) in rows.iter().enumerate() {
            let (key, rest) = bytes.split_at(row.key_len as usize);
            let len = row.value_len as usize;
            let value = match row.long {
                None => {
                    let (value, rest) = rest.split_at(len);
                    bytes = rest;
                    value
                }
                Some(first) => {
                    bytes = rest;
                    let ahead = rows.get(at + VALUES_AHEAD).and_then(|row| row.long);
                    if let Some(first) = ahead {
                        self.values.prefetch(first, LINES_AHEAD);
                    }
                    match self.lent(first, len) {
                        Some(value) => value,
                        None => {
                            let value = long_room(room, len)?;
                            if !self.values.read(first, len, value) {
                                return Err(IndexError::Broken);
                            }
                            value
                        }
                    }
                }
            };
            if each(key, value).is_break() {
                return Ok((at + 1, ControlFlow::Break(())));
            }
        }
        Ok((rows.len(), ControlFlow::Continue(())))
    }
}

impl Shared {
    /// A long value of a row that was read, where it lies.
    #[inline(always)]
    #[allow(unsafe_code)]
    fn lent(&self, first: u64, len: usize) -> Option<&[u8]> {
        // With a mistake planted, somebody may write there.
        #[cfg(test)]
        if !self.fault.is_right() {
            return None;
        }
        // SAFETY: `rows_of` asked whether the leaf's version held, after it had read the word and the length. Rows are given while their state is announced
        // ([`super::Reading`], or the writer itself, which writes nothing meanwhile).
        unsafe { self.values.lend(first, len) }
    }
}

/// The first `len` bytes of `room`, which grows if it has to.
fn long_room(room: &mut Vec<u8>, len: usize) -> Result<&mut [u8], IndexError> {
    if room.len() < len {
        let missing = len - room.len();
        room.try_reserve(missing)
            .map_err(|_| IndexError::Memory { bytes: missing })?;
        room.resize(len, 0);
    }
    Ok(&mut room[..len])
}

/// Copies the key of an entry.
fn copy_key(leaf: &Leaf, entry: usize, to: &mut Vec<u8>) -> Retry<()> {
    let slot = leaf::slot(leaf, entry);
    to.clear();
    match slot.is_keyed() {
        true => {
            to.resize(slot.key_len(), 0);
            copy_bytes(leaf::key_words(leaf, slot)?, to);
        }
        false => to.extend(leaf::head(leaf, entry).to_be_bytes()),
    }
    Some(())
}

/// A leaf that a scan reads, and its wishes.
struct Place<'a> {
    leaf: &'a Leaf,
    version: Version,
    /// Reached from its left neighbour, so that all of its entries are in the range.
    is_neighbour: bool,
    end: Bound<&'a [u8]>,
    limit: usize,
    state: u64,
}

/// The next leaf, whose entries are fetched one by one, so that requests do not wait for each other.
struct Ahead<'s> {
    leaf: Option<&'s Leaf>,
    wanted: usize,
    fetched: usize,
}

impl Ahead<'_> {
    /// Fetches the next entry, if there is one that the scan may want.
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

/// Fetches entries.
#[inline(always)]
fn prefetch_entries(leaf: &Leaf, entries: Range<usize>) {
    for entry in entries {
        let slot = leaf::slot(leaf, entry);
        let start = slot.offset();
        // A slot that changed while it was read may have any length.
        let end = (start + slot.words() + LINE - 1).min(LEAF);
        for line in (start..end).step_by(LINE) {
            prefetch_item::<Word>(leaf, line);
        }
    }
}
