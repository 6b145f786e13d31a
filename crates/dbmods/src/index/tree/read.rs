//! Reads of one key.

use super::inner;
use super::leaf::{self, Key, Leaf, Meta};
use super::lock::{self, Version};
use super::log::Old;
use super::node::{LOCK, copy_bytes, load};
use super::shared::{Broken, Shared};
use super::slot::Slot;
use crate::index::Found;

/// The way down met a change; it begins anew.
pub(super) type Retry<T> = Option<T>;

impl Shared {
    /// The leaf that has a key, if any has, and the version from which on it was that.
    #[inline(always)]
    pub(super) fn leaf_of(&self, key: Key<'_>) -> Result<(&Leaf, Version), Broken> {
        #[cfg(test)]
        super::fault::goes_down();
        loop {
            if let Some(found) = self.try_leaf_of(key) {
                return Ok(found);
            }
            self.check_whole()?;
            self.retry();
        }
    }

    #[inline(always)]
    fn try_leaf_of(&self, key: Key<'_>) -> Retry<(&Leaf, Version)> {
        let root = self.root();
        let mut height = root.height;
        if height == 0 {
            let leaf = self.leaves.node(root.number);
            self.pause_at_root();
            let version = lock::read(&leaf[LOCK])?;
            return self.is_root(root).then_some((leaf, version));
        }
        let mut node = self.inners.node(root.number);
        self.pause_at_root();
        let mut version = lock::read(&node[LOCK])?;
        if !self.is_root(root) {
            return None;
        }
        loop {
            let entry = inner::entry_of(self.search, node, key, &self.separators);
            let child = inner::child(node, entry);
            self.pause();
            if !self.unchanged(node, version) {
                return None;
            }
            height -= 1;
            if height == 0 {
                let leaf = self.leaves.node(child);
                leaf::prefetch(leaf);
                let leaf_version = lock::read(&leaf[LOCK])?;
                // The leaf was this node's child when its version was read.
                return (self.unchanged(node, version)).then_some((leaf, leaf_version));
            }
            let next = self.inners.node(child);
            let next_version = lock::read(&next[LOCK])?;
            if !self.unchanged(node, version) {
                return None;
            }
            (node, version) = (next, next_version);
        }
    }

    /// Looks a key up in a state, and copies its value.
    #[inline(always)]
    pub(super) fn get(&self, key: Key<'_>, state: u64, to: &mut [u8]) -> Result<Found, Broken> {
        loop {
            let (leaf, version) = self.leaf_of(key)?;
            if let Some(found) = self.get_in(leaf, version, key, state, to) {
                return Ok(found);
            }
            self.retry();
        }
    }

    /// The value of a key whose leaf this is, unless the leaf has changed.
    #[inline(always)]
    pub(super) fn get_in(
        &self,
        leaf: &Leaf,
        version: Version,
        key: Key<'_>,
        state: u64,
        to: &mut [u8],
    ) -> Retry<Found> {
        match leaf::find(self.search, leaf, Meta::of(leaf), key) {
            Ok(entry) => {
                let slot = leaf::slot(leaf, entry);
                self.value_in(leaf, version, slot, state, to)
            }
            Err(_) => (self.unchanged(leaf, version)).then_some(Found::Absent),
        }
    }

    /// Copies the value that a state has of an entry.
    #[inline(always)]
    pub(super) fn value_in(
        &self,
        leaf: &Leaf,
        version: Version,
        slot: Slot,
        state: u64,
        to: &mut [u8],
    ) -> Retry<Found> {
        let position = leaf::older(leaf, slot);
        if !self.is_seen(position, state) {
            return self.older_value(leaf, version, position, state, to);
        }
        let words = leaf::value(leaf, slot)?;
        if slot.is_long() {
            let first = load(&words[0]);
            // Only a word that was right when it was read names a value.
            return match self.unchanged(leaf, version) {
                true => self.long_value(first, slot.value_len(), to),
                false => None,
            };
        }
        self.pause();
        let len = slot.value_len().min(to.len());
        copy_bytes(words, &mut to[..len]);
        self.pause();
        if !self.unchanged(leaf, version) {
            return None;
        }
        Some(match slot.is_absent() {
            true => Found::Absent,
            false => Found::of(slot.value_len(), to.len()),
        })
    }

    #[cold]
    fn older_value(
        &self,
        leaf: &Leaf,
        version: Version,
        position: u64,
        state: u64,
        to: &mut [u8],
    ) -> Retry<Found> {
        if !self.unchanged(leaf, version) {
            return None;
        }
        self.pause();
        let old = self.log.seen_by(state, position)?;
        self.old_value(old, to)
    }

    /// Copies the value of an older version.
    pub(super) fn old_value(&self, old: Old<'_>, to: &mut [u8]) -> Retry<Found> {
        let slot = old.slot;
        if slot.is_absent() {
            return Some(Found::Absent);
        }
        if slot.is_long() {
            return self.long_value(load(&old.value[0]), slot.value_len(), to);
        }
        let len = slot.value_len().min(to.len());
        copy_bytes(old.value, &mut to[..len]);
        Some(Found::of(slot.value_len(), to.len()))
    }

    #[inline(never)]
    fn long_value(&self, first: u64, len: usize, to: &mut [u8]) -> Retry<Found> {
        let copied = len.min(to.len());
        let whole = self.values.read(first, len, &mut to[..copied]);
        whole.then(|| Found::of(len, to.len()))
    }
}
