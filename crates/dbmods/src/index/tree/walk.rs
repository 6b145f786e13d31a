//! A walk over a whole tree that checks what its nodes promise each other: fences, bytes that heads leave out, chains, runs.

use super::Tree;
use super::inner;
use super::leaf::{self, KeyBytes, LEAF, Leaf, Meta};
use super::node::{NEXT, head_behind, load, shared_bytes};
use super::shared::Shared;
use super::write::{Retired, Writer};

/// What a walk has met.
#[derive(Debug, Default)]
pub(in crate::index) struct Walked {
    /// The numbers of the leaves, from the left.
    leaves: Vec<u32>,
    /// Where each leaf's next one should be.
    next: Vec<u32>,
    /// Of each leaf, the bytes that its heads leave out, and the number of entries with the head of the one before.
    pub(in crate::index) skips: Vec<(usize, usize)>,
    /// Separators that are chains.
    pub(in crate::index) chains: usize,
    inners: usize,
    extents: usize,
    lines: u64,
}

/// A range of keys.
type Fences = (Option<Vec<u8>>, Option<Vec<u8>>);

impl Tree {
    /// Checks all nodes, while nobody writes.
    ///
    /// # Panics
    /// If something is wrong.
    pub(in crate::index) fn walk(&self) -> Walked {
        let writer = self.writer.lock().expect("no writer panicked");
        let mut walked = Walked::default();
        let root = self.shared.root();
        walk(
            &self.shared,
            root.number,
            root.height,
            &(None, None),
            &mut walked,
        );
        let mut behind: Vec<u32> = walked.leaves[1..].to_vec();
        behind.push(0);
        assert_eq!(walked.next, behind, "each leaf names the next");
        check_numbers(&self.shared, &writer, &walked);
        walked
    }
}

/// Nothing is lost, and nothing is there twice.
fn check_numbers(shared: &Shared, writer: &Writer, walked: &Walked) {
    let (mut leaves, mut inners) = (walked.leaves.len(), walked.inners);
    let (mut extents, mut lines) = (walked.extents, walked.lines);
    for (_, what) in &writer.retired {
        match *what {
            Retired::Leaf(_) => leaves += 1,
            Retired::Inner(_) => inners += 1,
            Retired::Separator(first) => extents += shared.separators.extents_of(first),
            Retired::Value(first, len, _) => {
                lines += shared.values.lines_of_chain(first, len as usize);
            }
        }
    }
    assert_eq!(writer.leaves.in_use(), leaves, "leaves");
    assert_eq!(writer.inners.in_use(), inners, "inner nodes");
    assert_eq!(writer.separators.in_use(), extents, "extents of separators");
    assert_eq!(writer.values.lines_in_use(), lines, "lines of values");
}

fn in_common((low, high): &Fences) -> usize {
    match (low, high) {
        (Some(low), Some(high)) => shared_bytes(low, high),
        _ => 0,
    }
}

/// True if a key lies in a range.
fn lies_in(key: &[u8], (low, high): &Fences) -> bool {
    low.as_deref().is_none_or(|low| low <= key) && high.as_deref().is_none_or(|high| key < high)
}

fn walk(shared: &Shared, number: u32, height: u32, fences: &Fences, walked: &mut Walked) {
    if height == 0 {
        return walk_leaf(shared, number, fences, walked);
    }
    walked.inners += 1;
    let node = shared.inners.node(number);
    let (count, skip) = (inner::count(node), inner::skip(node));
    assert!(count >= 1 && skip <= in_common(fences), "{skip} {fences:?}");
    let low = fences.0.clone().unwrap_or_default();
    let mut separators = vec![fences.0.clone()];
    for entry in 1..count {
        let separator = inner::separator(node, entry);
        let bytes = separator.bytes(skip, &low, &shared.separators);
        if let Some(chain) = separator.chain() {
            walked.chains += 1;
            walked.extents += shared.separators.extents_of(chain);
        }
        assert_eq!(separator.head, head_behind(&bytes, skip), "{bytes:?}");
        assert!(
            separators[entry - 1]
                .as_ref()
                .is_none_or(|before| *before < bytes),
            "separators rise: {bytes:?}"
        );
        assert!(
            lies_in(&bytes, fences),
            "a separator of the node's range: {bytes:?}"
        );
        separators.push(Some(bytes));
    }
    separators.push(fences.1.clone());
    for (entry, pair) in separators.windows(2).enumerate() {
        let fences = (pair[0].clone(), pair[1].clone());
        walk(
            shared,
            inner::child(node, entry),
            height - 1,
            &fences,
            walked,
        );
    }
}

fn walk_leaf(shared: &Shared, number: u32, fences: &Fences, walked: &mut Walked) {
    let leaf: &Leaf = shared.leaves.node(number);
    let meta = Meta::of(leaf);
    assert!(meta.skip <= in_common(fences), "{} {fences:?}", meta.skip);
    let (mut before, mut alike) = (None::<(Vec<u8>, u64)>, 0);
    let mut words = 0;
    for entry in 0..meta.count {
        let (slot, head) = (leaf::slot(leaf, entry), leaf::head(leaf, entry));
        let mut bytes: KeyBytes = [0; 512];
        let key = leaf::key(leaf, slot, head, &mut bytes).to_vec();
        assert!(slot.is_keyed() || meta.skip == 0, "a key that is its head");
        assert!(lies_in(&key, fences), "{key:?} in {fences:?}");
        assert_eq!(head, head_behind(&key, meta.skip), "{key:?}");
        if let Some((last, last_head)) = before {
            assert!(last < key, "keys rise: {last:?} {key:?}");
            alike += usize::from(last_head == head);
        }
        if slot.is_long() {
            let first = load(&leaf::value(leaf, slot).expect("nobody writes")[0]);
            walked.lines += shared.values.lines_of_chain(first, slot.value_len());
        }
        words += slot.words() + 2;
        before = Some((key, head));
    }
    assert_eq!(words, meta.live_words(), "words that entries take");
    assert!(words <= LEAF);
    walked.leaves.push(number);
    walked.next.push(load(&leaf[NEXT]) as u32);
    walked.skips.push((meta.skip, alike));
}
