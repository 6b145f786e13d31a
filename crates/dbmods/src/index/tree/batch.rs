//! Reads of many keys, whose waits for memory overlap.
//!
//! A group of keys takes each step together (group prefetching: Chen, Ailamaki, Gibbons and Mowry, "Improving Hash Join Performance
//! through Prefetching", ICDE 2004; for trees, Kocberber, Falsafi and Grot, "Asynchronous Memory Access Chaining", PVLDB 9(4)): a step reads
//! lines that the step before asked for, and asks for those of the next. All leaves are equally deep, so keys take equally many steps, and a
//! group needs no state machine. A key that meets a change goes down again alone, at the end.

use dpb_core::prefetch::prefetch_item;

use super::inner;
use super::leaf::{self, Key, Meta};
use super::lock::{self, Version};
use super::node::{GROUP, GROUP_WORDS, GROUPS, LOCK, META, Word, count_of, group_of, load};
use super::shared::{Root, Shared};
use super::slot::Slot;
use crate::index::{Found, Keys, Values};

/// Keys that take each step together.
pub(super) const TOGETHER: usize = 32;
/// Words of a cache line.
const LINE: usize = 8;

/// Where a key is on its way down.
#[derive(Clone, Copy)]
struct Lane {
    /// The node that it is at, and the version of it.
    node: u32,
    version: Version,
    /// The same of the node above.
    above: u32,
    above_version: Version,
    /// The group of entries in the node.
    group: u32,
    /// How many entries the node has.
    count: u32,
    slot: Slot,
    step: Step,
}

/// What became of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is on its way.
    Under,
    /// It is not there.
    Absent,
    /// It met a change.
    Changed,
}

impl Shared {
    /// Looks all keys up in a state.
    pub(super) fn get_batch(&self, keys: Keys<'_>, state: u64, values: &mut Values<'_>) {
        match keys {
            Keys::Eight(eight) => self.groups(eight.len(), |at| &eight[at], state, values),
            _ => self.groups(keys.len(), |at| keys.key(at), state, values),
        }
    }

    #[inline(always)]
    fn groups<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8],
        state: u64,
        values: &mut Values<'_>,
    ) {
        let mut start = 0;
        while start < count {
            let len = (count - start).min(TOGETHER);
            let mut group = [Key { bytes: &[], head: 0 }; TOGETHER];
            for (at, slot) in group[..len].iter_mut().enumerate() {
                *slot = Key::new(key(start + at));
            }
            self.group(&group[..len], state, values, start);
            start += len;
        }
    }

    #[inline(always)]
    fn group(&self, keys: &[Key<'_>], state: u64, values: &mut Values<'_>, start: usize) {
        let mut lanes = [Lane::START; TOGETHER];
        let lanes = &mut lanes[..keys.len()];
        self.down(keys, lanes);
        self.find(keys, lanes);
        for (at, lane) in lanes.iter().enumerate() {
            let (to, found) = values.place(start + at);
            let leaf = self.leaves.node(lane.node);
            let value = match lane.step {
                Step::Under => self.value_in(leaf, lane.version, lane.slot, state, to),
                Step::Absent => Some(Found::Absent),
                Step::Changed => None,
            };
            *found = match value {
                Some(value) => value,
                None => self.get(keys[at], state, to),
            };
        }
    }

    /// Brings every key to its leaf, whose groups are asked for.
    #[inline(always)]
    fn down(&self, keys: &[Key<'_>], lanes: &mut [Lane]) {
        let root = self.root();
        for lane in lanes.iter_mut() {
            lane.node = root.number;
        }
        for level in (0..root.height).rev() {
            let is_first = level + 1 == root.height;
            for (lane, key) in lanes.iter_mut().zip(keys) {
                self.enter_inner(lane, *key, root, is_first);
            }
            for (lane, key) in lanes.iter_mut().zip(keys) {
                self.leave_inner(lane, *key, level == 0);
            }
        }
        for (lane, key) in lanes.iter_mut().zip(keys) {
            self.enter_leaf(lane, *key, root);
        }
    }

    /// Reads an inner node's header, and asks for a group.
    #[inline(always)]
    fn enter_inner(&self, lane: &mut Lane, key: Key<'_>, root: Root, is_first: bool) {
        if lane.step == Step::Changed {
            return;
        }
        let node = self.inners.node(lane.node);
        let version = lock::read(&node[LOCK]);
        let is_linked = match is_first {
            true => self.root() == root,
            false => self.holds(self.inners.node(lane.above), lane.above_version),
        };
        let (Some(version), true) = (version, is_linked) else {
            lane.step = Step::Changed;
            return;
        };
        lane.version = version;
        lane.count = count_of(load(&node[META])) as u32;
        let group = group_of(node, lane.count as usize, key.head);
        prefetch_group(node, group);
        lane.group = group as u32;
    }

    /// Finds the child in the group, and asks for its header.
    #[inline(always)]
    fn leave_inner(&self, lane: &mut Lane, key: Key<'_>, to_leaf: bool) {
        if lane.step == Step::Changed {
            return;
        }
        let node = self.inners.node(lane.node);
        let (count, group) = (lane.count as usize, lane.group as usize);
        let entry = inner::entry_in(node, count, group, key, &self.separators);
        let child = inner::child(node, entry);
        self.pause();
        if !self.holds(node, lane.version) {
            lane.step = Step::Changed;
            return;
        }
        match to_leaf {
            true => prefetch_item::<Word>(self.leaves.node(child), 0),
            false => {
                let child = self.inners.node(child);
                prefetch_item::<Word>(child, 0);
                prefetch_item::<Word>(child, LINE);
            }
        }
        (lane.above, lane.above_version) = (lane.node, lane.version);
        lane.node = child;
    }

    /// Reads a leaf's header, and asks for a group.
    #[inline(always)]
    fn enter_leaf(&self, lane: &mut Lane, key: Key<'_>, root: Root) {
        if lane.step == Step::Changed {
            return;
        }
        let leaf = self.leaves.node(lane.node);
        let version = lock::read(&leaf[LOCK]);
        let is_linked = match root.height {
            0 => self.root() == root,
            _ => self.holds(self.inners.node(lane.above), lane.above_version),
        };
        let (Some(version), true) = (version, is_linked) else {
            lane.step = Step::Changed;
            return;
        };
        lane.version = version;
        lane.count = Meta::of(leaf).count as u32;
        let group = group_of(leaf, lane.count as usize, key.head);
        prefetch_group(leaf, group);
        lane.group = group as u32;
    }

    /// Finds the entries, and asks for them.
    #[inline(always)]
    fn find(&self, keys: &[Key<'_>], lanes: &mut [Lane]) {
        for (lane, key) in lanes.iter_mut().zip(keys) {
            if lane.step == Step::Changed {
                continue;
            }
            let leaf = self.leaves.node(lane.node);
            let found = leaf::find_in(leaf, lane.count as usize, lane.group as usize, *key);
            let slot = found.map(|entry| leaf::slot(leaf, entry));
            lane.step = match (self.holds(leaf, lane.version), slot) {
                (false, _) => Step::Changed,
                (true, Err(_)) => Step::Absent,
                (true, Ok(slot)) => {
                    lane.slot = slot;
                    let start = slot.offset();
                    for line in (start..start + slot.words() + LINE - 1).step_by(LINE) {
                        prefetch_item::<Word>(leaf, line);
                    }
                    Step::Under
                }
            };
        }
    }

    /// Fetches what a write of each key will read. What it finds on the way is not checked.
    pub(super) fn fetch(&self, keys: &[Key<'_>]) {
        let mut lanes = [Lane::START; TOGETHER];
        let lanes = &mut lanes[..keys.len()];
        self.down(keys, lanes);
        self.find(keys, lanes);
    }
}

impl Lane {
    const START: Self = Self {
        node: 0,
        version: Version::NONE,
        above: 0,
        above_version: Version::NONE,
        group: 0,
        count: 0,
        slot: Slot::NONE,
        step: Step::Under,
    };
}

/// Asks for a group's heads and slots.
#[inline(always)]
fn prefetch_group<const W: usize>(node: &[Word; W], group: usize) {
    let start = GROUPS + group * GROUP_WORDS;
    prefetch_item::<Word>(node, start);
    prefetch_item::<Word>(node, start + GROUP);
}
