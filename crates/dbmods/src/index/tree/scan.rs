//! Reads of ranges.
//!
//! A leaf's rows are copied, the version is checked, and then the caller gets them. The next leaf is the right neighbour, which
//! stays the next one unless it merges into another; then it is obsolete, and the way leads down again. Its header is asked for before the rows of this one
//! are copied, and its entries, as many as the scan still wants, when half of them are. All lines of the leaf would be a third more.

use std::ops::{ControlFlow, Range};

use dpb_core::prefetch::prefetch_item;

use super::leaf::{self, Key, KeyBytes, Leaf, Meta};
use super::lock::{self, Version};
use super::node::{GROUP_WORDS, GROUPS, LOCK, NEXT, Word, load};
use super::read::Retry;
use super::shared::Shared;
use crate::index::Found;

/// Words of a cache line.
const LINE: usize = 8;
/// Groups that are fetched with the header of the next leaf.
const GROUPS_AHEAD: usize = 4;

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

impl Shared {
    /// Gives `each` up to `limit` rows of a state, from a key on.
    pub(super) fn scan(
        &self,
        start: &[u8],
        limit: usize,
        state: u64,
        rows: &mut Rows,
        each: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
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
            false => match leaf::find(leaf, count, Key::new(&rows.key)) {
                Ok(entry) => entry + usize::from(rows.behind),
                Err(entry) => entry,
            },
        };
        let end = count.min(first.saturating_add(limit));
        if !from_start {
            prefetch_entries(leaf, first..end);
        }
        let wanted = limit - (end - first.min(end));
        let ahead = (next != 0 && wanted > 0 && self.holds(leaf, version))
            .then(|| self.leaves.node(next));
        if let Some(ahead) = ahead {
            prefetch_groups(ahead);
        }
        // By then the next leaf's header has come, and its entries have half of this one's rows to come.
        let middle = first + (end - first.min(end)) / 2;
        for entry in first..count {
            if rows.lens.len() == limit {
                break;
            }
            if let (Some(ahead), true) = (ahead, entry == middle) {
                prefetch_entries(ahead, 0..Meta::of(ahead).count.min(wanted));
            }
            self.row(leaf, version, entry, state, rows)?;
        }
        if let (Some(last), true) = (count.checked_sub(1), first < count) {
            let mut bytes: KeyBytes = [0; 512];
            let slot = leaf::slot(leaf, last);
            let key = leaf::key(leaf, slot, leaf::head(leaf, last), &mut bytes);
            rows.last.clear();
            rows.last.extend_from_slice(key);
            rows.some = true;
        }
        self.pause();
        self.holds(leaf, version).then_some(next)
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
        let mut bytes: KeyBytes = [0; 512];
        let key = leaf::key(leaf, slot, leaf::head(leaf, entry), &mut bytes);
        let start = rows.used + key.len();
        let end = start + len;
        if rows.bytes.len() < end {
            rows.bytes.resize(end.next_power_of_two(), 0);
        }
        rows.bytes[rows.used..start].copy_from_slice(key);
        let to = &mut rows.bytes[start..end];
        if self.value_in(leaf, version, slot, state, to)? == Found::Absent {
            return None;
        }
        rows.used = end;
        rows.lens.push((key.len() as u32, len as u32));
        Some(())
    }
}

/// Asks for a leaf's header and the groups that are likely there.
#[inline(always)]
fn prefetch_groups(leaf: &Leaf) {
    for line in (0..GROUPS + GROUPS_AHEAD * GROUP_WORDS).step_by(LINE) {
        prefetch_item::<Word>(leaf, line);
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
fn give(
    rows: &Rows,
    each: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> (usize, ControlFlow<()>) {
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
