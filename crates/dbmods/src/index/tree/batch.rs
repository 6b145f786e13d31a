//! Reads of many keys, whose waits for memory overlap.
//!
//! Some keys take each step together (group prefetching: Chen, Ailamaki, Gibbons and Mowry, "Improving Hash Join Performance
//! through Prefetching", ICDE 2004; for trees, Kocberber, Falsafi and Grot, "Asynchronous Memory Access Chaining", PVLDB 9(4)): a step reads
//! lines that the step before asked for, and asks for those of the next. All leaves are equally deep, so keys take equally many steps, and need
//! no state machine. A key that meets a change goes down again alone, at the end.
#![allow(
    clippy::needless_range_loop,
    reason = "a lane is a place in several arrays"
)]

use dpb_core::prefetch::prefetch_item;

use super::inner::{self, Inner};
use super::leaf::{self, Key, Leaf, Meta};
use super::lock::{self, Version};
use super::node::{
    GROUP, GROUP_WORDS, GROUPS, LINE, LOCK, META, Word, count_of, group_of, load, skip_of,
};
use super::search::{Best, Search, with_search};
use super::shared::{Broken, Shared};
use super::slot::Slot;
use crate::index::{Found, Keys, Values};

/// Keys that take each step together.
pub(super) const TOGETHER: usize = 32;

/// Where keys are on their way down, each in a lane.
struct Lanes<'s> {
    /// The nodes that they are at, and the versions of them.
    inner: [Option<&'s Inner>; TOGETHER],
    leaf: [Option<&'s Leaf>; TOGETHER],
    version: [Version; TOGETHER],
    count: [u32; TOGETHER],
    group: [u32; TOGETHER],
    /// Of leaves, the keys' heads in them.
    head: [u64; TOGETHER],
    slot: [Slot; TOGETHER],
    /// A bit for each lane whose key met a change, the first lane lowest; and for each whose key is not there.
    changed: u32,
    absent: u32,
}

impl Shared {
    /// Looks all keys up in a state.
    pub(super) fn get_batch(
        &self,
        keys: Keys<'_>,
        state: u64,
        values: &mut Values<'_>,
    ) -> Result<(), Broken> {
        with_search!(self.search, search => self.get_batch_with(search, keys, state, values))
    }

    fn get_batch_with(
        &self,
        search: impl Search,
        keys: Keys<'_>,
        state: u64,
        values: &mut Values<'_>,
    ) -> Result<(), Broken> {
        let mut lanes = Lanes::new();
        let mut start = 0;
        while start < keys.len() {
            let len = (keys.len() - start).min(TOGETHER);
            let mut together = [Key::EMPTY; TOGETHER];
            for (at, key) in together[..len].iter_mut().enumerate() {
                *key = Key::new(keys.key(start + at));
            }
            let together = &together[..len];
            self.down(search, together, &mut lanes);
            self.find(search, together, &mut lanes);
            self.fetch_long(together, &lanes);
            self.copy_values(together, &lanes, state, values, start)?;
            start += len;
        }
        Ok(())
    }

    /// Copies the values.
    #[inline(always)]
    fn copy_values(
        &self,
        keys: &[Key<'_>],
        lanes: &Lanes<'_>,
        state: u64,
        values: &mut Values<'_>,
        start: usize,
    ) -> Result<(), Broken> {
        for (lane, key) in keys.iter().enumerate().take(TOGETHER) {
            let (to, found) = values.place(start + lane);
            let bit = 1 << lane;
            let value = match lanes.leaf[lane] {
                Some(leaf) if (lanes.absent | lanes.changed) & bit == 0 => {
                    let (version, slot) = (lanes.version[lane], lanes.slot[lane]);
                    match leaf::compare(leaf, slot, *key).is_eq() {
                        true => self.value_in(leaf, version, slot, state, to),
                        // Another key with the same head.
                        false => self.get_in(leaf, version, *key, state, to),
                    }
                }
                _ if lanes.absent & bit != 0 => Some(Found::Absent),
                _ => None,
            };
            *found = match value {
                Some(value) => value,
                None => self.get(*key, state, to)?,
            };
        }
        Ok(())
    }

    /// Brings every key to its leaf, a group of which is asked for.
    #[inline(always)]
    fn down<'s>(&'s self, search: impl Search, keys: &[Key<'_>], lanes: &mut Lanes<'s>) {
        let root = self.root();
        (lanes.changed, lanes.absent) = (0, 0);
        if root.height == 0 {
            let leaf = self.leaves.node(root.number);
            for lane in 0..keys.len().min(TOGETHER) {
                lanes.leaf[lane] = Some(leaf);
                lanes.version[lane] = Version::NONE;
                match lock::read(&leaf[LOCK]) {
                    Some(version) if self.is_root(root) => lanes.version[lane] = version,
                    _ => lanes.changed |= 1 << lane,
                }
                enter_leaf(search, lanes, lane, keys[lane]);
            }
            return;
        }
        let top = self.inners.node(root.number);
        for lane in 0..keys.len().min(TOGETHER) {
            match lock::read(&top[LOCK]) {
                Some(version) if self.is_root(root) => lanes.version[lane] = version,
                _ => lanes.changed |= 1 << lane,
            }
            enter_inner(search, lanes, lane, top, keys[lane]);
        }
        for _ in 1..root.height {
            self.to_inner(search, keys, lanes);
        }
        self.to_leaf(search, keys, lanes);
    }

    /// One level down: finds children and asks for their headers; then reads these, and asks for a group of each.
    #[inline(always)]
    fn to_inner<'s>(&'s self, search: impl Search, keys: &[Key<'_>], lanes: &mut Lanes<'s>) {
        let mut children = [None; TOGETHER];
        for lane in 0..keys.len().min(TOGETHER) {
            if let Some(number) = self.child(search, keys[lane], lanes, lane) {
                let child = self.inners.node(number);
                prefetch_item::<Word>(child, 0);
                prefetch_item::<Word>(child, LINE);
                children[lane] = Some(child);
            }
        }
        for lane in 0..keys.len().min(TOGETHER) {
            let Some(child) = children[lane] else {
                continue;
            };
            let version = self.linked(child, lanes, lane);
            lanes.version[lane] = version;
            enter_inner(search, lanes, lane, child, keys[lane]);
        }
    }

    /// The last level down.
    #[inline(always)]
    fn to_leaf<'s>(&'s self, search: impl Search, keys: &[Key<'_>], lanes: &mut Lanes<'s>) {
        for lane in 0..keys.len().min(TOGETHER) {
            lanes.leaf[lane] = None;
            if let Some(number) = self.child(search, keys[lane], lanes, lane) {
                let child = self.leaves.node(number);
                prefetch_item::<Word>(child, 0);
                lanes.leaf[lane] = Some(child);
            }
        }
        for lane in 0..keys.len().min(TOGETHER) {
            let Some(child) = lanes.leaf[lane] else {
                continue;
            };
            let version = self.linked(child, lanes, lane);
            lanes.version[lane] = version;
            enter_leaf(search, lanes, lane, keys[lane]);
        }
    }

    /// The number of a lane's child; none if the lane met a change.
    #[inline(always)]
    fn child(
        &self,
        search: impl Search,
        key: Key<'_>,
        lanes: &mut Lanes<'_>,
        lane: usize,
    ) -> Option<u32> {
        let node = lanes.inner[lane].filter(|_| lanes.changed & 1 << lane == 0)?;
        let (count, group) = (lanes.count[lane] as usize, lanes.group[lane] as usize);
        let entry = inner::entry_in(search, node, count, group, key, &self.separators);
        let child = inner::child(node, entry);
        self.pause();
        if !self.unchanged(node, lanes.version[lane]) {
            lanes.changed |= 1 << lane;
            return None;
        }
        Some(child)
    }

    /// The version of a lane's child, which was its node's child then; else the lane met a change.
    #[inline(always)]
    fn linked<const W: usize>(
        &self,
        child: &[Word; W],
        lanes: &mut Lanes<'_>,
        lane: usize,
    ) -> Version {
        self.pause();
        let version = lock::read(&child[LOCK]);
        #[cfg(test)]
        if let (true, Some(version)) = (self.has(super::fault::Fault::KeepsChild), version) {
            return version;
        }
        let above = lanes.inner[lane];
        match version {
            Some(version)
                if above.is_some_and(|node| self.unchanged(node, lanes.version[lane])) =>
            {
                version
            }
            _ => {
                lanes.changed |= 1 << lane;
                Version::NONE
            }
        }
    }

    /// Finds the entries with the heads of the keys, and asks for them.
    #[inline(always)]
    fn find(&self, search: impl Search, keys: &[Key<'_>], lanes: &mut Lanes<'_>) {
        for lane in 0..keys.len().min(TOGETHER) {
            let bit = 1 << lane;
            let Some(leaf) = lanes.leaf[lane].filter(|_| lanes.changed & bit == 0) else {
                continue;
            };
            let (count, group) = (lanes.count[lane] as usize, lanes.group[lane] as usize);
            let entry = leaf::last_with(search, leaf, count, group, lanes.head[lane]);
            let slot = entry.map(|entry| leaf::slot(leaf, entry));
            if !self.unchanged(leaf, lanes.version[lane]) {
                lanes.changed |= bit;
                continue;
            }
            let Ok(slot) = slot else {
                lanes.absent |= bit;
                continue;
            };
            lanes.slot[lane] = slot;
            let (start, last) = (slot.offset(), slot.offset() + slot.words() - 1);
            let mut line = start;
            while line <= last {
                prefetch_item::<Word>(leaf, line);
                line += LINE;
            }
            prefetch_item::<Word>(leaf, last);
        }
    }

    /// Asks for the long values of the entries.
    #[inline(always)]
    fn fetch_long(&self, keys: &[Key<'_>], lanes: &Lanes<'_>) {
        for lane in 0..keys.len().min(TOGETHER) {
            let found =
                lanes.leaf[lane].filter(|_| (lanes.absent | lanes.changed) & 1 << lane == 0);
            if let Some(leaf) = found.filter(|_| lanes.slot[lane].is_long())
                && let Some([first]) = leaf::value(leaf, lanes.slot[lane])
            {
                // All of it: values of a batch lie anywhere.
                self.values.prefetch(load(first), usize::MAX);
            }
        }
    }

    /// Fetches what a write of each key will read. What it finds on the way is not used.
    pub(super) fn fetch(&self, keys: &[Key<'_>]) {
        let mut lanes = Lanes::new();
        self.down(self.search, keys, &mut lanes);
        self.find(self.search, keys, &mut lanes);
    }
}

impl Lanes<'_> {
    fn new() -> Self {
        Self {
            inner: [None; TOGETHER],
            leaf: [None; TOGETHER],
            version: [Version::NONE; TOGETHER],
            count: [0; TOGETHER],
            group: [0; TOGETHER],
            head: [0; TOGETHER],
            slot: [Slot::NONE; TOGETHER],
            changed: 0,
            absent: 0,
        }
    }
}

/// Reads an inner node's header, and asks for a group.
#[inline(always)]
fn enter_inner<'s>(
    search: impl Search,
    lanes: &mut Lanes<'s>,
    lane: usize,
    node: &'s Inner,
    key: Key<'_>,
) {
    let meta = load(&node[META]);
    let count = count_of(meta);
    let group = group_of(search, node, count, key.head(skip_of(meta)));
    prefetch_group(node, group);
    lanes.inner[lane] = Some(node);
    (lanes.count[lane], lanes.group[lane]) = (count as u32, group as u32);
}

/// Reads a leaf's header, and asks for a group.
#[inline(always)]
fn enter_leaf(search: impl Search, lanes: &mut Lanes<'_>, lane: usize, key: Key<'_>) {
    let Some(leaf) = lanes.leaf[lane] else { return };
    let Meta { count, skip, .. } = Meta::of(leaf);
    let head = key.head(skip);
    lanes.head[lane] = head;
    let group = group_of(search, leaf, count, head);
    prefetch_group(leaf, group);
    (lanes.count[lane], lanes.group[lane]) = (count as u32, group as u32);
}

/// Asks for a group's heads and slots.
#[inline(always)]
fn prefetch_group<const W: usize>(node: &[Word; W], group: usize) {
    let start = GROUPS + group * GROUP_WORDS;
    prefetch_item::<Word>(node, start);
    prefetch_item::<Word>(node, start + GROUP);
}
