//! How the tree keeps its shape: nodes that are full split, nodes that are nearly empty merge.
//!
//! A new node is filled before anybody can reach it. Then its parent and its neighbour are locked and changed, and a reader that is
//! between the two sees that the parent's version no longer holds.
//!
//! What heads may leave out follows from the fences of a node, the separators left and right of its range. A range gets smaller when its node splits and
//! larger when it merges; so only a merge makes heads leave out less.

use super::inner::{self, Inner, Separator};
use super::leaf::{self, Key, KeyBytes, LEAF, Leaf, Meta};
use super::lock;
use super::node::{LOCK, NEXT, groups_end, head_behind, load, shared_bytes, store};
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
        self.split(shared, number, key, is_append);
        let number = self.leaf_of(shared, key);
        let leaf = shared.leaves.node(number);
        let at = leaf::find(shared.search, leaf, Meta::of(leaf), key);
        (number, at.unwrap_or_else(|at| at))
    }

    /// Splits the leaf of a key, whose parent has a place: in the middle, or behind its last entry if the key will be the first of the new one. Keys that come
    /// in order leave full leaves so.
    fn split(&mut self, shared: &Shared, number: u32, key: Key<'_>, is_append: bool) {
        let left = shared.leaves.node(number);
        let count = Meta::of(left).count;
        let kept = if is_append {
            count
        } else {
            middle(left, count)
        };
        let (mut last, mut first): (KeyBytes, KeyBytes) = ([0; 512], [0; 512]);
        let last = entry_key(left, kept - 1, &mut last);
        let first = match is_append {
            true => key.bytes,
            false => entry_key(left, kept, &mut first),
        };
        let level = self.path.len() - 1;
        let separator = self.separator(shared, level, key, last, first);
        let (parent, entry) = self.path[level];
        let parent = shared.inners.node(parent);
        let middle = separator.bytes(inner::skip(parent), key.bytes, &shared.separators);
        let low = self.low_fence(shared, level, entry, key);
        let high = self.high_fence(shared, level, entry, key);
        let left_skip = leaf::skip_for(left, 0..kept, in_common(low.as_ref(), Some(&middle)));
        let right_skip = leaf::skip_for(left, kept..count, in_common(Some(&middle), high.as_ref()));
        let right_number = self.leaves.take();
        let right = shared.leaves.node(right_number);
        lock::renew(&right[LOCK]);
        leaf::clear(right, right_skip);
        leaf::append(right, left, kept..count);
        store(&right[NEXT], load(&left[NEXT]));
        lock::lock(&parent[LOCK]);
        lock::lock(&left[LOCK]);
        leaf::keep(left, kept, left_skip);
        store(&left[NEXT], u64::from(right_number));
        inner::insert(parent, entry + 1, separator, right_number);
        lock::unlock(&left[LOCK]);
        lock::unlock(&parent[LOCK]);
    }

    /// What separates two keys in the node at a level of the path, which is that of `key`: of the second one, the bytes up to the first that differs.
    fn separator(
        &mut self,
        shared: &Shared,
        level: usize,
        key: Key<'_>,
        last: &[u8],
        first: &[u8],
    ) -> Separator {
        let node = shared.inners.node(self.path[level].0);
        let differ = |skip| head_behind(last, skip) < head_behind(first, skip);
        if !differ(inner::skip(node)) {
            self.leave_out_more(shared, level, key);
        }
        let skip = inner::skip(node);
        if differ(skip) {
            return Separator::short(head_behind(first, skip));
        }
        let bytes = &first[..=shared_bytes(last, first)];
        self.long_separator(shared, bytes, skip)
    }

    fn long_separator(&mut self, shared: &Shared, bytes: &[u8], skip: usize) -> Separator {
        let number = shared.separators.write(&mut self.separators, bytes);
        Separator::long(head_behind(bytes, skip), bytes.len(), number)
    }

    /// The heads of the node at a level of the path, which is that of `key`, leave out all bytes that they may.
    fn leave_out_more(&mut self, shared: &Shared, level: usize, key: Key<'_>) {
        let Some(above) = level.checked_sub(1) else {
            return;
        };
        let entry = self.path[above].1;
        let low = self.low_fence(shared, above, entry, key);
        let high = self.high_fence(shared, above, entry, key);
        let node = shared.inners.node(self.path[level].0);
        let (before, skip) = (inner::skip(node), in_common(low.as_ref(), high.as_ref()));
        if skip <= before {
            return;
        }
        let separators: Vec<Separator> = (1..inner::count(node))
            .map(|entry| {
                let separator = inner::separator(node, entry);
                let bytes = separator.bytes(before, key.bytes, &shared.separators);
                let moved = separator.moved(&bytes, skip);
                moved.expect("the head has as many bytes behind a longer beginning")
            })
            .collect();
        lock::lock(&node[LOCK]);
        inner::leave_out(node, skip, &separators);
        lock::unlock(&node[LOCK]);
    }

    /// The key from which on the range of a child goes, of the node at a level of the path, which is that of `key`. `None` if it goes from the first key on.
    fn low_fence(
        &self,
        shared: &Shared,
        level: usize,
        child: usize,
        key: Key<'_>,
    ) -> Option<Vec<u8>> {
        let left_of = |_: &Inner, entry| Some(entry).filter(|&entry| entry > 0);
        self.fence(shared, level, child, key, left_of)
    }

    /// The key before which its range ends. `None` if it goes to the last key.
    fn high_fence(
        &self,
        shared: &Shared,
        level: usize,
        child: usize,
        key: Key<'_>,
    ) -> Option<Vec<u8>> {
        let right_of =
            |node: &Inner, entry| Some(entry + 1).filter(|&next| next < inner::count(node));
        self.fence(shared, level, child, key, right_of)
    }

    /// The nearest separator on one side of its range, up the path: `beside` gives the entry of that separator in a node, unless the range of the entry
    /// goes to that end of the node's.
    fn fence(
        &self,
        shared: &Shared,
        level: usize,
        child: usize,
        key: Key<'_>,
        beside: impl Fn(&Inner, usize) -> Option<usize>,
    ) -> Option<Vec<u8>> {
        let above = self.path[..level].iter().rev().copied();
        std::iter::once((self.path[level].0, child))
            .chain(above)
            .find_map(|(number, entry)| {
                let node = shared.inners.node(number);
                let separator = inner::separator(node, beside(node, entry)?);
                Some(separator.bytes(inner::skip(node), key.bytes, &shared.separators))
            })
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
                (full, all) => self.split_inner(shared, all - full, key),
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
        inner::clear(node, old.number, 0);
        shared.set_root(Root {
            number,
            height: old.height + 1,
        });
    }

    /// Splits the node at a level of the path, which is that of `key`. Its parent has a place.
    fn split_inner(&mut self, shared: &Shared, level: usize, key: Key<'_>) {
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
        let skip = inner::skip(left);
        let middle = inner::separator(left, kept);
        let bytes = middle.bytes(skip, key.bytes, &shared.separators);
        if middle.moved(&bytes, inner::skip(parent)).is_none() {
            self.leave_out_more(shared, level - 1, key);
        }
        let separator = self.moved(shared, middle, &bytes, inner::skip(parent));
        let number = self.inners.take();
        let right = shared.inners.node(number);
        lock::renew(&right[LOCK]);
        inner::clear(right, inner::child(left, kept), skip);
        let separators: Vec<Separator> = (kept + 1..count)
            .map(|entry| inner::separator(left, entry))
            .collect();
        inner::append(right, &separators, left, kept + 1);
        lock::lock(&parent[LOCK]);
        lock::lock(&left[LOCK]);
        inner::keep(left, kept);
        inner::insert(parent, parent_entry + 1, separator, number);
        lock::unlock(&left[LOCK]);
        lock::unlock(&parent[LOCK]);
    }

    /// A separator in a node that leaves out `skip` bytes, given all its bytes. Room for a chain was reserved.
    fn moved(
        &mut self,
        shared: &Shared,
        separator: Separator,
        bytes: &[u8],
        skip: usize,
    ) -> Separator {
        match separator.moved(bytes, skip) {
            Some(moved) => moved,
            None => self.long_separator(shared, bytes, skip),
        }
    }

    /// Merges the leaf of a key, whose path is kept, with a neighbour, if it is small and the two have room in one; then the nodes above.
    pub(super) fn merge_if_small(&mut self, shared: &Shared, number: u32, key: Key<'_>) {
        let small = Meta::of(shared.leaves.node(number)).live_words() < LEAF_SMALL;
        let Some((parent_number, entry)) = self.path.last().copied().filter(|_| small) else {
            return;
        };
        let parent = shared.inners.node(parent_number);
        let Some(left_entry) = pair(entry, inner::count(parent)) else {
            return self.merge_inner(shared, key);
        };
        let left = shared.leaves.node(inner::child(parent, left_entry));
        let right_number = inner::child(parent, left_entry + 1);
        let right = shared.leaves.node(right_number);
        if !merge_fits(left, right, shared.entries_max()) {
            return;
        }
        let separator = inner::separator(parent, left_entry + 1);
        let level = self.path.len() - 1;
        let low = self.low_fence(shared, level, left_entry, key);
        let high = self.high_fence(shared, level, left_entry + 1, key);
        let (left_meta, right_meta) = (Meta::of(left), Meta::of(right));
        let skip = in_common(low.as_ref(), high.as_ref())
            .min(left_meta.skip)
            .min(right_meta.skip);
        for node in [&parent[LOCK], &left[LOCK], &right[LOCK]] {
            lock::lock(node);
        }
        leaf::keep(left, left_meta.count, skip);
        leaf::append(left, right, 0..right_meta.count);
        store(&left[NEXT], load(&right[NEXT]));
        inner::remove(parent, left_entry + 1);
        lock::unlock_obsolete(&right[LOCK]);
        lock::unlock(&left[LOCK]);
        lock::unlock(&parent[LOCK]);
        self.retire(Retired::Leaf(right_number));
        if let Some(chain) = separator.chain() {
            self.retire(Retired::Separator(chain));
        }
        self.merge_inner(shared, key);
    }

    /// Merges the inner nodes of the path that have few children, from the lowest on, and takes a root with one child away. The path is that of `key`.
    fn merge_inner(&mut self, shared: &Shared, key: Key<'_>) {
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
            let low = self.low_fence(shared, level - 1, left_entry, key);
            let high = self.high_fence(shared, level - 1, left_entry + 1, key);
            let middle = inner::separator(parent, left_entry + 1);
            let middle_bytes = middle.bytes(inner::skip(parent), key.bytes, &shared.separators);
            let (left_skip, right_skip) = (inner::skip(left), inner::skip(right));
            let skip = in_common(low.as_ref(), high.as_ref())
                .min(left_skip)
                .min(right_skip);
            // A separator whose head began further on may need a chain now.
            let moved = inner::count(left) + inner::count(right);
            let bytes = 8 + inner::skip(parent).max(left_skip).max(right_skip);
            if (shared.separators)
                .reserve(&mut self.separators, moved * bytes, moved)
                .is_err()
            {
                // Nodes with few children are no harm.
                return;
            }
            // The fence on the left of a range lies in it, so it begins as all its keys do.
            let low = low.unwrap_or_default();
            let of_left = self.all_moved(shared, left, &low, skip);
            let mut of_right = vec![self.moved(shared, middle, &middle_bytes, skip)];
            of_right.extend(self.all_moved(shared, right, &middle_bytes, skip));
            for node in [&parent[LOCK], &left[LOCK], &right[LOCK]] {
                lock::lock(node);
            }
            inner::leave_out(left, skip, &of_left);
            inner::append(left, &of_right, right, 0);
            inner::remove(parent, left_entry + 1);
            lock::unlock_obsolete(&right[LOCK]);
            lock::unlock(&left[LOCK]);
            lock::unlock(&parent[LOCK]);
            self.retire(Retired::Inner(right_number));
        }
        self.shrink(shared);
    }

    /// The separators of a node in one that leaves out `skip` bytes. `key` lies in the node's range.
    fn all_moved(
        &mut self,
        shared: &Shared,
        node: &Inner,
        key: &[u8],
        skip: usize,
    ) -> Vec<Separator> {
        let before = inner::skip(node);
        let separators = (1..inner::count(node)).map(|entry| inner::separator(node, entry));
        separators
            .map(|separator| {
                let bytes = separator.bytes(before, key, &shared.separators);
                self.moved(shared, separator, &bytes, skip)
            })
            .collect()
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

fn entry_key<'a>(leaf: &Leaf, entry: usize, bytes: &'a mut KeyBytes) -> &'a [u8] {
    let (slot, head) = (leaf::slot(leaf, entry), leaf::head(leaf, entry));
    leaf::key(leaf, slot, head, bytes)
}

/// The number of bytes that all keys between two fences have in common.
fn in_common(low: Option<&Vec<u8>>, high: Option<&Vec<u8>>) -> usize {
    match (low, high) {
        (Some(low), Some(high)) => shared_bytes(low, high),
        _ => 0,
    }
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
