//! How the tree keeps its shape: nodes that are full split, nodes that are nearly empty merge.
//!
//! A new node is filled before anybody can reach it. Then its parent and its neighbour are locked and changed, and a reader that is
//! between the two sees that the parent's version no longer holds.

use super::inner::{self, Separator};
use super::leaf::{self, Key, KeyBytes, LEAF, Leaf, Meta};
use super::lock;
use super::node::{LOCK, NEXT, groups_end, load, store};
use super::shared::{Root, Shared};
use super::write::{Retired, Writer};

/// A leaf whose entries take fewer words merges, if a neighbour has room.
const LEAF_SMALL: usize = LEAF / 4;
/// Two leaves that merge leave room, so that the next entry splits nothing.
const LEAF_MERGED_MAX: usize = LEAF / 8 * 7;

impl Writer {
    /// Makes room in the leaf of a key, whose path is kept, for `words` of heap and so many entries more. Says where the key is then, or would be. A leaf that
    /// was split may still have too little, and then has it when split again.
    pub(super) fn make_room(
        &mut self,
        shared: &Shared,
        (number, at): (u32, usize),
        key: Key<'_>,
        words: usize,
        entries: usize,
    ) -> (u32, usize) {
        let leaf = shared.leaves.node(number);
        let meta = Meta::of(leaf);
        if meta.has_room_compacted(words, entries, shared.entries_max()) {
            lock::lock(&leaf[LOCK]);
            leaf::compact(leaf);
            lock::unlock(&leaf[LOCK]);
            return (number, at);
        }
        self.make_place(shared, key);
        let is_append = entries == 1 && at == meta.count && load(&leaf[NEXT]) == 0;
        self.split(shared, number, if is_append { Some(key) } else { None });
        let number = self.leaf_of(shared, key);
        let leaf = shared.leaves.node(number);
        let at = leaf::find(shared.search, leaf, Meta::of(leaf).count, key);
        (number, at.unwrap_or_else(|at| at))
    }

    /// Splits a leaf whose parent has a place: in the middle, or behind its last entry if `appended` will be the first of the new one. Keys that come
    /// in order leave full leaves so.
    fn split(&mut self, shared: &Shared, number: u32, appended: Option<Key<'_>>) {
        let left = shared.leaves.node(number);
        let count = Meta::of(left).count;
        let kept = if appended.is_some() {
            count
        } else {
            middle(left, count)
        };
        let right_number = self.leaves.take();
        let right = shared.leaves.node(right_number);
        lock::renew(&right[LOCK]);
        leaf::clear(right);
        leaf::append(right, left, kept..count);
        store(&right[NEXT], load(&left[NEXT]));
        let mut bytes: KeyBytes = [0; 512];
        let first = appended.unwrap_or_else(|| entry_key(left, kept, &mut bytes));
        let separator = self.separator(shared, leaf::head(left, kept - 1), first);
        let (parent, entry) = *self.path.last().expect("a place in a parent was made");
        let parent = shared.inners.node(parent);
        lock::lock(&parent[LOCK]);
        lock::lock(&left[LOCK]);
        leaf::keep(left, kept);
        store(&left[NEXT], u64::from(right_number));
        inner::insert(parent, entry + 1, separator, right_number);
        lock::unlock(&left[LOCK]);
        lock::unlock(&parent[LOCK]);
    }

    /// What separates a leaf whose last key has the head `below` from one that begins with `first`.
    fn separator(&mut self, shared: &Shared, below: u64, first: Key<'_>) -> Separator {
        if below < first.head {
            return Separator::short(first.head);
        }
        let number = (shared.separators).write(&mut self.separators, first.bytes);
        Separator::long(first.head, first.bytes.len(), number)
    }

    /// Makes a place for a child in the parent of a key's leaf. The path is that of the key then.
    fn make_place(&mut self, shared: &Shared, key: Key<'_>) {
        let is_full =
            |number: u32| inner::count(shared.inners.node(number)) >= shared.entries_max();
        loop {
            let full = self
                .path
                .iter()
                .rev()
                .take_while(|(number, _)| is_full(*number));
            match (full.count(), self.path.len()) {
                (0, 1..) => return,
                (full, all) if full == all => self.grow(shared),
                (full, all) => self.split_inner(shared, all - full),
            }
            self.leaf_of(shared, key);
        }
    }

    /// Puts a new root above the old one.
    fn grow(&mut self, shared: &Shared) {
        let old = shared.root();
        let number = self.inners.take();
        let node = shared.inners.node(number);
        lock::renew(&node[LOCK]);
        inner::clear(node, old.number);
        shared.set_root(Root {
            number,
            height: old.height + 1,
        });
    }

    /// Splits the node at a level of the path, whose parent has a place.
    fn split_inner(&mut self, shared: &Shared, level: usize) {
        let (parent, parent_entry) = self.path[level - 1];
        let (left, entry) = self.path[level];
        let (parent, left) = (shared.inners.node(parent), shared.inners.node(left));
        let count = inner::count(left);
        // As leaves, where keys come in order.
        let kept = if entry + 1 == count {
            count - 1
        } else {
            count / 2
        };
        let number = self.inners.take();
        let right = shared.inners.node(number);
        lock::renew(&right[LOCK]);
        inner::clear(right, inner::child(left, kept));
        if kept + 1 < count {
            inner::append(right, inner::separator(left, kept + 1), left, kept + 1);
        }
        let separator = inner::separator(left, kept);
        lock::lock(&parent[LOCK]);
        lock::lock(&left[LOCK]);
        inner::keep(left, kept);
        inner::insert(parent, parent_entry + 1, separator, number);
        lock::unlock(&left[LOCK]);
        lock::unlock(&parent[LOCK]);
    }

    /// Merges the leaf that the path leads to with a neighbour, if it is small and the two have room in one; then the nodes above.
    pub(super) fn merge_if_small(&mut self, shared: &Shared, number: u32) {
        let small = Meta::of(shared.leaves.node(number)).live_words() < LEAF_SMALL;
        let Some((parent_number, entry)) = self.path.last().copied().filter(|_| small) else {
            return;
        };
        let parent = shared.inners.node(parent_number);
        let Some(left_entry) = pair(entry, inner::count(parent)) else {
            return self.merge_inner(shared);
        };
        let left = shared.leaves.node(inner::child(parent, left_entry));
        let right_number = inner::child(parent, left_entry + 1);
        let right = shared.leaves.node(right_number);
        if !merge_fits(left, right, shared.entries_max()) {
            return;
        }
        let separator = inner::separator(parent, left_entry + 1);
        for node in [&parent[LOCK], &left[LOCK], &right[LOCK]] {
            lock::lock(node);
        }
        leaf::compact(left);
        leaf::append(left, right, 0..Meta::of(right).count);
        store(&left[NEXT], load(&right[NEXT]));
        inner::remove(parent, left_entry + 1);
        lock::unlock_obsolete(&right[LOCK]);
        lock::unlock(&left[LOCK]);
        lock::unlock(&parent[LOCK]);
        self.retire(Retired::Leaf(right_number));
        if let Some(chain) = separator.chain() {
            self.retire(Retired::Separator(chain));
        }
        self.merge_inner(shared);
    }

    /// Merges the inner nodes of the path that have few children, from the lowest on, and takes a root with one child away.
    fn merge_inner(&mut self, shared: &Shared) {
        // As leaves, in children.
        let (small, merged_max) = (shared.entries_max() / 4, shared.entries_max() / 4 * 3);
        for level in (1..self.path.len()).rev() {
            let (node, _) = self.path[level];
            let (parent, entry) = self.path[level - 1];
            let parent = shared.inners.node(parent);
            if inner::count(shared.inners.node(node)) >= small {
                return;
            }
            let Some(left_entry) = pair(entry, inner::count(parent)) else {
                continue;
            };
            let left = shared.inners.node(inner::child(parent, left_entry));
            let right_number = inner::child(parent, left_entry + 1);
            let right = shared.inners.node(right_number);
            if inner::count(left) + inner::count(right) > merged_max {
                return;
            }
            for node in [&parent[LOCK], &left[LOCK], &right[LOCK]] {
                lock::lock(node);
            }
            inner::append(left, inner::separator(parent, left_entry + 1), right, 0);
            inner::remove(parent, left_entry + 1);
            lock::unlock_obsolete(&right[LOCK]);
            lock::unlock(&left[LOCK]);
            lock::unlock(&parent[LOCK]);
            self.retire(Retired::Inner(right_number));
        }
        self.shrink(shared);
    }

    fn shrink(&mut self, shared: &Shared) {
        let root = shared.root();
        if root.height == 0 {
            return;
        }
        let node = shared.inners.node(root.number);
        if inner::count(node) > 1 {
            return;
        }
        lock::lock(&node[LOCK]);
        shared.set_root(Root {
            number: inner::child(node, 0),
            height: root.height - 1,
        });
        lock::unlock_obsolete(&node[LOCK]);
        self.retire(Retired::Inner(root.number));
    }
}

/// The first of two neighbours, one of which is `entry`.
fn pair(entry: usize, count: usize) -> Option<usize> {
    match entry + 1 < count {
        true => Some(entry),
        false => entry.checked_sub(1),
    }
}

/// The entry that begins the second half of a leaf's words.
fn middle(leaf: &Leaf, count: usize) -> usize {
    let words = |entry: usize| leaf::slot(leaf, entry).words() + 2;
    let all: usize = (0..count).map(words).sum();
    let mut before = 0;
    for entry in 0..count {
        before += words(entry);
        if 2 * before >= all {
            return (entry + 1).clamp(1, count - 1);
        }
    }
    count / 2
}

fn entry_key<'a>(leaf: &Leaf, entry: usize, bytes: &'a mut KeyBytes) -> Key<'a> {
    let key = leaf::key(
        leaf,
        leaf::slot(leaf, entry),
        leaf::head(leaf, entry),
        bytes,
    );
    Key::new(key)
}

fn merge_fits(left: &Leaf, right: &Leaf, entries_max: usize) -> bool {
    let (left, right) = (Meta::of(left), Meta::of(right));
    let count = left.count + right.count;
    let heap = left.live_words() + right.live_words() - 2 * count;
    let max = match left.count == 0 || right.count == 0 {
        true => LEAF,
        false => LEAF_MERGED_MAX,
    };
    count <= entries_max && groups_end(count) + heap <= max
}
