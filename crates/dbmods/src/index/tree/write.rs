//! Transactions. One writer at a time: whoever has the [`Writer`].
//!
//! The writer reads the tree without asking for versions, as nobody else changes it, and locks the one or two nodes that it is about to
//! change, so that readers see each change whole. Nodes of a batch are fetched ahead, as reads do it ([`Shared::fetch`]).
//!
//! A transaction writes every entry in place and keeps what was there in the log. Its state becomes the newest with one store at its end; till then every
//! reader takes what the log has. So nothing is undone when it fails, because it fails before it writes: room for all of it is
//! made first.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use super::batch::TOGETHER;
#[cfg(test)]
use super::fault::Fault;
use super::inner::{self, Inner};
use super::leaf::{self, Key, LEAF, Leaf, Meta, Stored};
use super::lock;
use super::log::Ends;
use super::node::{LOCK, Word, load};
use super::numbers::Numbers;
use super::scan::Rows;
use super::shared::{Root, Shared};
use super::slot::{INLINE_BYTES_MAX, Slot};
use super::values::FreeRuns;
use crate::index::{Deleted, IndexError, KEY_BYTES_MAX, KeyRange, Write};

/// What left the tree, and may be used again when nobody can reach it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Retired {
    Leaf(u32),
    Inner(u32),
    /// The word of its first run, its length, and bytes of memory.
    Value(u64, u32, ValueBytes),
    Separator(u32),
}

/// Bytes of memory that a long value takes.
pub(super) type ValueBytes = u32;

/// The way from the root to a leaf: inner nodes and the entries that were taken, the root first.
pub(super) type Path = Vec<(u32, usize)>;

/// What the writer alone has.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) leaves: Numbers,
    pub(super) inners: Numbers,
    pub(super) values: FreeRuns,
    pub(super) separators: Numbers,
    pub(super) ends: Ends,
    /// By the newest state that may lead to them: the log's head when they left, of values the position of their last version.
    pub(super) retired: VecDeque<(u64, Retired)>,
    /// Keys that were deleted, by the position of their last version: entries without a value, which leave when no state has one.
    pub(super) deleted: VecDeque<(u64, Box<[u8]>)>,
    /// Bytes of the long values that retired, and of what `deleted` holds.
    retired_bytes: u64,
    deleted_bytes: u64,
    pub(super) path: Path,
    keys: u64,
}

/// Entries without a value that leave with a transaction that writes nothing, at most; and how many more leave with each write. So a transaction takes
/// time in proportion to its writes, and leaves fewer such entries than it found, or made.
const PURGED_MAX: usize = 4;
const PURGED_A_WRITE: usize = 2;

/// More levels of inner nodes than a tree has.
const LEVELS_MAX: usize = 32;

/// Bytes that a key in `deleted` takes.
fn deleted_bytes(key: &[u8]) -> u64 {
    (size_of::<(u64, Box<[u8]>)>() + key.len().next_multiple_of(16)) as u64
}

impl Writer {
    /// The writer of a tree that it makes a leaf for.
    pub(super) fn new(shared: &Shared) -> Result<Self, IndexError> {
        let mut leaves = Numbers::new();
        leaves.reserve(&shared.leaves, 1)?;
        let number = leaves.take();
        leaf::clear(shared.leaves.node(number), 0);
        shared.set_root(Root { number, height: 0 });
        Ok(Self {
            leaves,
            inners: Numbers::new(),
            values: FreeRuns::new(),
            separators: Numbers::new(),
            ends: Ends::new(),
            retired: VecDeque::new(),
            deleted: VecDeque::new(),
            retired_bytes: 0,
            deleted_bytes: 0,
            path: Path::new(),
            keys: 0,
        })
    }

    /// Carries out a transaction, and gives the state that it makes.
    pub(super) fn apply(
        &mut self,
        shared: &Shared,
        writes: &[Write<'_>],
    ) -> Result<u64, IndexError> {
        let purged_max = PURGED_MAX + PURGED_A_WRITE * writes.len();
        if self.wants_reclaim() {
            self.reclaim(shared, purged_max);
        }
        if let Err(error) = self.reserve(shared, writes) {
            // What nobody reads any more may be enough.
            self.reclaim(shared, usize::MAX);
            self.reserve(shared, writes).map_err(|_| error)?;
        }
        self.write_all(shared, writes);
        let state = self.ends.head();
        shared.registry.commit(state);
        Ok(state)
    }

    /// Takes the first keys of a range away in one transaction.
    pub(super) fn delete_range(
        &mut self,
        shared: &Shared,
        range: KeyRange<'_>,
        limit: usize,
    ) -> Result<Deleted, IndexError> {
        let state = self.ends.head();
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        // All transactions up to now are part of the newest state, so it is what the writer would read.
        shared.scan(range, limit, state, &mut Rows::default(), &mut |key, _| {
            keys.push(key.into());
            ControlFlow::Continue(())
        })?;
        let writes: Vec<_> = (keys.iter())
            .map(|key| Write::Delete { key: &key[..] })
            .collect();
        let state = self.apply(shared, &writes)?;
        Ok(Deleted {
            state,
            keys: keys.len(),
        })
    }

    /// Tells readers that no more writes come, and lets those go that wait for a locked node.
    pub(super) fn break_tree(&mut self, shared: &Shared) {
        shared.set_broken();
        for number in self.leaves.all() {
            lock::abandon(&shared.leaves.node(number)[LOCK]);
        }
        for number in self.inners.all() {
            lock::abandon(&shared.inners.node(number)[LOCK]);
        }
    }

    /// Tells what the index holds now.
    pub(super) fn publish(&self, shared: &Shared) {
        let counts = &shared.counts;
        counts.keys.store(self.keys, Ordering::Relaxed);
        counts.bytes.store(self.bytes(), Ordering::Relaxed);
        (counts.versions_bytes).store(self.versions_bytes(), Ordering::Relaxed);
    }

    fn write_all(&mut self, shared: &Shared, writes: &[Write<'_>]) {
        for writes in writes.chunks(TOGETHER) {
            if writes.len() > 1 {
                fetch(shared, writes);
            }
            for write in writes {
                match *write {
                    Write::Put { key, value } => self.put(shared, Key::new(key), value),
                    Write::Delete { key } => self.delete(shared, Key::new(key)),
                }
                shared.pause();
                #[cfg(test)]
                if shared.has(Fault::CommitsEarly) {
                    shared.registry.commit(self.ends.head());
                }
            }
        }
    }

    /// Makes room for all that a transaction may take.
    fn reserve(&mut self, shared: &Shared, writes: &[Write<'_>]) -> Result<(), IndexError> {
        let limit_bytes = shared.log.bytes_max();
        if self.versions_bytes() > limit_bytes {
            return Err(super::log::full(limit_bytes));
        }
        // A leaf without room for an entry has it when it is split twice, whatever the entries.
        let splits = 2 * writes.len();
        self.leaves.reserve(&shared.leaves, splits)?;
        let inner_splits = self.inner_splits(shared, splits);
        self.inners.reserve(&shared.inners, inner_splits)?;
        // Each split makes one.
        let separators = splits + inner_splits;
        shared
            .separators
            .reserve(&mut self.separators, KEY_BYTES_MAX * separators, separators)?;
        let long = writes.iter().filter_map(|write| match write {
            Write::Put { value, .. } => Some(value.len()).filter(|&len| len > INLINE_BYTES_MAX),
            Write::Delete { .. } => None,
        });
        self.values.reserve(&shared.values, long)?;
        self.ends.reserve(&shared.log, writes.len())
    }

    /// Inner nodes that so many splits of leaves make, at most.
    fn inner_splits(&self, shared: &Shared, mut splits: usize) -> usize {
        let nodes = self.inners.in_use();
        let mut all = 0;
        for _ in 0..shared.root().height {
            // A node that was there may be full, and splits at once. One that a split made takes a child before it is full, and splits with the next.
            splits = splits.min(nodes + splits / 2 + 1);
            all += splits;
        }
        // Above the root there are new nodes alone: half as many on each level, and one more on each that is begun.
        all + splits + LEVELS_MAX
    }

    /// Bytes that serve older states, or wait until nobody reads these.
    fn versions_bytes(&self) -> u64 {
        self.ends.bytes_in_use() + self.retired_bytes + self.deleted_bytes
    }

    /// The leaf of a key; its path is kept.
    pub(super) fn leaf_of(&mut self, shared: &Shared, key: Key<'_>) -> u32 {
        self.path.clear();
        let root = shared.root();
        let mut number = root.number;
        for _ in 0..root.height {
            let node = shared.inners.node(number);
            let entry = inner::entry_of(shared.search, node, key, &shared.separators);
            self.path.push((number, entry));
            number = inner::child(node, entry);
        }
        leaf::prefetch(shared.leaves.node(number));
        number
    }

    fn put(&mut self, shared: &Shared, key: Key<'_>, value: &[u8]) {
        let number = self.leaf_of(shared, key);
        let leaf = shared.leaves.node(number);
        let stored = match value.len() > INLINE_BYTES_MAX {
            true => Stored::Long(shared.values.write(&mut self.values, value)),
            false => Stored::Here(value),
        };
        match leaf::find(shared.search, leaf, Meta::of(leaf), key) {
            Ok(entry) => self.update(shared, (number, entry), key, value.len(), stored),
            Err(at) => {
                let older = self.ends.append(&shared.log, 0, Slot::NONE, &[]);
                self.keys += 1;
                self.insert(shared, (number, at), key, value.len(), older, stored);
            }
        }
    }

    /// Gives an entry another value.
    fn update(
        &mut self,
        shared: &Shared,
        (mut number, mut entry): (u32, usize),
        key: Key<'_>,
        value_len: usize,
        stored: Stored<'_>,
    ) {
        let leaf = shared.leaves.node(number);
        let old = leaf::slot(leaf, entry);
        let older = self.keep_old(shared, leaf, old);
        if old.is_absent() {
            self.keys += 1;
        }
        let new = old.with_value(value_len);
        if new.value_words() == old.value_words() {
            lock::lock(&leaf[LOCK]);
            #[cfg(test)]
            assert!(
                !shared.has(Fault::Panics),
                "a writer that panics, on purpose"
            );
            leaf::overwrite(leaf, entry, new, older, stored);
            lock::unlock(&leaf[LOCK]);
            return;
        }
        let entries_max = shared.entries_max();
        while !Meta::of(shared.leaves.node(number)).has_room(new.words(), 0, entries_max) {
            (number, entry) = self.make_room(shared, (number, entry), key, new.words(), 0);
        }
        let leaf = shared.leaves.node(number);
        lock::lock(&leaf[LOCK]);
        leaf::replace(leaf, entry, value_len, older, stored);
        lock::unlock(&leaf[LOCK]);
    }

    /// Adds an entry.
    fn insert(
        &mut self,
        shared: &Shared,
        (mut number, mut at): (u32, usize),
        key: Key<'_>,
        value_len: usize,
        older: u64,
        stored: Stored<'_>,
    ) {
        let entries_max = shared.entries_max();
        let leaf = loop {
            let leaf = shared.leaves.node(number);
            let meta = Meta::of(leaf);
            let words = Slot::new(key.bytes, value_len, meta.skip).words();
            if meta.has_room(words, 1, entries_max) {
                break leaf;
            }
            (number, at) = self.make_room(shared, (number, at), key, words, 1);
        };
        lock::lock(&leaf[LOCK]);
        leaf::insert(leaf, at, key, value_len, older, stored);
        lock::unlock(&leaf[LOCK]);
    }

    fn delete(&mut self, shared: &Shared, key: Key<'_>) {
        let number = self.leaf_of(shared, key);
        let leaf = shared.leaves.node(number);
        let Ok(entry) = leaf::find(shared.search, leaf, Meta::of(leaf), key) else {
            return;
        };
        let old = leaf::slot(leaf, entry);
        if old.is_absent() {
            return;
        }
        let older = self.keep_old(shared, leaf, old);
        lock::lock(&leaf[LOCK]);
        leaf::remove_value(leaf, entry, older);
        lock::unlock(&leaf[LOCK]);
        self.keys -= 1;
        self.deleted_bytes += deleted_bytes(key.bytes);
        self.deleted.push_back((older, key.bytes.into()));
    }

    /// Appends an entry's version to the log. A long value retires with it.
    fn keep_old(&mut self, shared: &Shared, leaf: &Leaf, old: Slot) -> u64 {
        let value: &[Word] = leaf::value(leaf, old).expect("the writer reads what it wrote");
        let before = leaf::older(leaf, old);
        let older = self.ends.append(&shared.log, before, old, value);
        if old.is_long() {
            let bytes = shared.values.bytes_of(old.value_len());
            self.retired_bytes += u64::from(bytes);
            // No state above the position of the record has this value.
            let value = Retired::Value(load(&value[0]), old.value_len() as u32, bytes);
            self.retired.push_back((older, value));
        }
        older
    }

    pub(super) fn retire(&mut self, what: Retired) {
        self.retired.push_back((self.ends.head(), what));
    }

    fn wants_reclaim(&self) -> bool {
        !self.retired.is_empty() || !self.deleted.is_empty() || self.ends.is_long()
    }

    /// Uses again what no reader can reach.
    fn reclaim(&mut self, shared: &Shared, purged_max: usize) {
        let oldest = shared.registry.oldest();
        let [of_versions, of_nodes, of_keys] = oldest_of_each(shared, oldest);
        self.ends.forget(&shared.log, of_versions);
        while let Some((_, what)) = self.retired.pop_front_if(|(head, _)| *head < of_nodes) {
            match what {
                Retired::Leaf(number) => self.leaves.give(number),
                Retired::Inner(number) => self.inners.give(number),
                Retired::Value(first, len, bytes) => {
                    self.retired_bytes -= u64::from(bytes);
                    (shared.values).free(&mut self.values, first, len as usize);
                }
                Retired::Separator(number) => shared.separators.free(&mut self.separators, number),
            }
        }
        for _ in 0..purged_max {
            let Some((position, key)) = self.deleted.pop_front_if(|(at, _)| *at < of_keys) else {
                break;
            };
            self.deleted_bytes -= deleted_bytes(&key);
            self.purge(shared, position, &key);
        }
    }

    /// Takes an entry without a value out of its leaf, unless it has one again.
    fn purge(&mut self, shared: &Shared, position: u64, key: &[u8]) {
        let key = Key::new(key);
        let number = self.leaf_of(shared, key);
        let leaf = shared.leaves.node(number);
        let Ok(entry) = leaf::find(shared.search, leaf, Meta::of(leaf), key) else {
            return;
        };
        let slot = leaf::slot(leaf, entry);
        if !slot.is_absent() || leaf::older(leaf, slot) != position {
            return;
        }
        lock::lock(&leaf[LOCK]);
        leaf::remove(leaf, entry);
        lock::unlock(&leaf[LOCK]);
        self.merge_if_small(shared, number, key);
    }

    /// Bytes of memory that it ever took for the tree, and of the lists that it keeps.
    fn bytes(&self) -> u64 {
        let words = self.leaves.ever() * LEAF as u64
            + self.inners.ever() * (size_of::<Inner>() / 8) as u64
            + self.separators.ever() * 8;
        let lists = (self.retired.capacity() * size_of::<(u64, Retired)>()) as u64
            + ((self.deleted.capacity() - self.deleted.len()) * size_of::<(u64, Box<[u8]>)>())
                as u64
            + self.deleted_bytes;
        words * 8 + self.values.ever_bytes() + self.ends.bytes() + lists
    }
}

/// The oldest state that is read, for versions, for nodes and values, and for keys that were deleted: the same, without a mistake.
#[cfg(not(test))]
fn oldest_of_each(_shared: &Shared, oldest: u64) -> [u64; 3] {
    [oldest; 3]
}

#[cfg(test)]
fn oldest_of_each(shared: &Shared, oldest: u64) -> [u64; 3] {
    let faults = [
        Fault::ForgetsEarly,
        Fault::GivesNodesEarly,
        Fault::PurgesEarly,
    ];
    faults.map(|fault| match shared.has(fault) {
        true => shared.registry.committed(),
        false => oldest,
    })
}

/// Fetches what writes will read.
fn fetch(shared: &Shared, writes: &[Write<'_>]) {
    let mut keys = [Key::EMPTY; TOGETHER];
    for (key, write) in keys.iter_mut().zip(writes) {
        let (Write::Put { key: bytes, .. } | Write::Delete { key: bytes }) = write;
        *key = Key::new(bytes);
    }
    shared.fetch(&keys[..writes.len()]);
}
