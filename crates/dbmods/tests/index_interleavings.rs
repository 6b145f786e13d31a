//! The version lock and the registry of the tree under loom: every order in which threads may take turns, up to a bound, with all that weak
//! memory may show.
//!
//! The files under test are compiled here once more, with loom's primitives in place of the standard library's. Each mistake that
//! is planted must be found. The number of orders is printed with `--nocapture`.
#![allow(dead_code, missing_docs, unreachable_pub, unsafe_code)]

#[path = "../src/index/tree/lock.rs"]
mod lock;
#[path = "../src/index/tree/registry.rs"]
mod registry;

mod sync {
    //! loom's, by the names of the tree's own list.

    pub(super) use loom::hint::spin_loop;
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
    pub(super) use loom::thread::yield_now;
}

use std::sync::atomic::AtomicUsize as Count;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::spawn;

use registry::Registry;
use sync::{AtomicU64, Ordering};

/// Runs `scenario` in every order in which no thread is held up more than three times: most faults need two (loom's documentation). Gives how many
/// orders there were.
fn explore(name: &str, scenario: impl Fn() + Send + Sync + 'static) -> usize {
    let orders = std::sync::Arc::new(Count::new(0));
    let counted = orders.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        scenario();
    });
    let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
    println!("{name}: {orders} orders");
    orders
}

/// The same, in `least` orders at least: fewer would mean that the threads no longer meet.
fn explore_all(name: &str, least: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let orders = explore(name, scenario);
    assert!(orders >= least, "{name}: {orders} orders alone");
}

/// What is said of `scenario` in the order in which it fails.
fn found(scenario: impl Fn() + Send + Sync + 'static) -> String {
    let explore = std::panic::AssertUnwindSafe(|| explore("a mistake", scenario));
    let said = std::panic::catch_unwind(explore).expect_err("fails in some order");
    match said.downcast::<String>() {
        Ok(said) => *said,
        Err(said) => said
            .downcast::<&str>()
            .map_or_else(|_| String::new(), |said| said.to_string()),
    }
}

/// Two words that a writer keeps equal, under a version lock.
struct Node {
    lock: AtomicU64,
    words: [AtomicU64; 2],
}

impl Node {
    fn new() -> Self {
        Self {
            lock: AtomicU64::new(0),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    fn load(&self) -> (u64, u64) {
        let [first, second] = &self.words;
        (
            first.load(Ordering::Relaxed),
            second.load(Ordering::Relaxed),
        )
    }

    fn store(&self, value: u64) {
        for word in &self.words {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// A way to read or write a node wrong.
#[derive(Clone, Copy, PartialEq)]
enum Misread {
    None,
    NotChecked,
    NotLocked,
    StaysInTheTree,
}

/// A writer changes a node `writes` times and takes it out of the tree; a reader sees one value, or that the node is gone.
fn reads_are_whole(mistake: Misread, writes: u64) {
    let node = Arc::new(Node::new());
    let read = node.clone();
    let reader = spawn(move || {
        let Some(version) = lock::read(&read.lock) else {
            return;
        };
        let (first, second) = read.load();
        if lock::unchanged(&read.lock, version) || mistake == Misread::NotChecked {
            assert_eq!(first, second, "a torn read");
            assert!(first <= writes, "a read of what lies there later");
        }
    });
    for value in 1..=writes {
        if mistake != Misread::NotLocked {
            lock::lock(&node.lock);
        }
        node.store(value);
        if mistake != Misread::NotLocked {
            lock::unlock(&node.lock);
        }
    }
    lock::lock(&node.lock);
    match mistake {
        Misread::StaysInTheTree => lock::unlock(&node.lock),
        _ => lock::unlock_obsolete(&node.lock),
    }
    node.store(99);
    reader.join().expect("a reader ends");
}

#[test]
fn a_reader_sees_one_version_of_a_node() {
    explore_all("one write and the end", 100, || {
        reads_are_whole(Misread::None, 1)
    });
    explore_all("two writes and the end", 100, || {
        reads_are_whole(Misread::None, 2)
    });
}

#[test]
fn finds_a_reader_that_does_not_check() {
    let said = found(|| reads_are_whole(Misread::NotChecked, 1));
    assert!(said.contains("torn") || said.contains("later"), "{said}");
}

#[test]
fn finds_a_writer_that_does_not_lock() {
    let said = found(|| reads_are_whole(Misread::NotLocked, 1));
    assert!(said.contains("torn"), "{said}");
}

#[test]
fn finds_a_node_that_is_used_again_and_not_obsolete() {
    let said = found(|| reads_are_whole(Misread::StaysInTheTree, 0));
    assert!(said.contains("torn") || said.contains("later"), "{said}");
}

/// A way to go from a node to its child wrong.
#[derive(Clone, Copy, PartialEq)]
enum Misstep {
    None,
    /// The node's version is not asked for when the child's is known.
    ParentNotChecked,
    /// The child's version is not asked for when its words were read.
    ChildNotChecked,
    /// The writer changes the child without the lock of its parent.
    ParentNotLocked,
}

/// A node with two children. A split moves what a reader looks for from the first to the second.
fn a_reader_finds_what_a_split_moves(mistake: Misstep) {
    struct Tree {
        parent: AtomicU64,
        /// Where the reader's key lies.
        child: AtomicU64,
        children: [Node; 2],
    }
    let tree = Arc::new(Tree {
        parent: AtomicU64::new(0),
        child: AtomicU64::new(0),
        children: [Node::new(), Node::new()],
    });
    tree.children[0].store(1);
    let shared = tree.clone();
    let reader = spawn(move || {
        let Some(version) = lock::read(&shared.parent) else {
            return;
        };
        let number = shared.child.load(Ordering::Relaxed) as usize;
        if !lock::unchanged(&shared.parent, version) {
            return;
        }
        let child = &shared.children[number];
        let Some(child_version) = lock::read(&child.lock) else {
            return;
        };
        if mistake != Misstep::ParentNotChecked && !lock::unchanged(&shared.parent, version) {
            return;
        }
        let seen = child.load();
        if mistake == Misstep::ChildNotChecked || lock::unchanged(&child.lock, child_version) {
            assert_eq!(seen, (1, 1), "it is not where the parent said");
        }
    });
    let [left, right] = &tree.children;
    right.store(1);
    let locks_parent = mistake != Misstep::ParentNotLocked;
    if locks_parent {
        lock::lock(&tree.parent);
    }
    lock::lock(&left.lock);
    left.store(0);
    tree.child.store(1, Ordering::Relaxed);
    lock::unlock(&left.lock);
    if locks_parent {
        lock::unlock(&tree.parent);
    }
    reader.join().expect("a reader ends");
}

#[test]
fn a_reader_goes_from_a_node_to_its_child() {
    explore_all("a split", 100, || {
        a_reader_finds_what_a_split_moves(Misstep::None);
    });
}

#[test]
fn finds_a_reader_that_does_not_check_the_parent_again() {
    let said = found(|| a_reader_finds_what_a_split_moves(Misstep::ParentNotChecked));
    assert!(said.contains("not where"), "{said}");
}

#[test]
fn finds_a_reader_that_does_not_check_the_child() {
    let said = found(|| a_reader_finds_what_a_split_moves(Misstep::ChildNotChecked));
    assert!(said.contains("not where"), "{said}");
}

#[test]
fn finds_a_split_without_the_lock_of_the_parent() {
    let said = found(|| a_reader_finds_what_a_split_moves(Misstep::ParentNotLocked));
    assert!(said.contains("not where"), "{said}");
}

/// A way to forget too early.
#[derive(Clone, Copy, PartialEq)]
enum Forgets {
    None,
    /// A reader leaves before it has read.
    ExitsFirst,
    /// The writer looks at nobody.
    AsksNobody,
    /// A reader announces a state without looking at the horizon: with one try, of a state that it read long ago.
    OldState,
}

/// What an entry's old version holds until the writer uses its memory again.
const KEPT: u64 = 7;

/// A writer replaces a value `writes` times: the old one stays where it is until no reader needs it. A reader of a state below reads the old one.
fn what_is_read_is_kept(mistake: Forgets, writes: u64) {
    struct World {
        registry: Registry,
        /// The position of the last write.
        position: AtomicU64,
        /// What the last write replaced.
        old: AtomicU64,
    }
    let world = Arc::new(World {
        registry: Registry::new(1),
        position: AtomicU64::new(0),
        old: AtomicU64::new(KEPT),
    });
    let seat = world.registry.claim().expect("a slot");
    let shared = world.clone();
    let reader = spawn(move || {
        let registry = &shared.registry;
        let state = match mistake {
            Forgets::OldState => {
                let state = registry.committed();
                registry.enter(&seat);
                state
            }
            _ => registry.enter(&seat),
        };
        if mistake == Forgets::ExitsFirst {
            registry.exit(&seat);
        }
        let position = shared.position.load(Ordering::Acquire);
        if position >= state {
            // The version that the reader sees is the replaced one.
            assert_eq!(
                shared.old.load(Ordering::Relaxed),
                KEPT,
                "a version that was forgotten"
            );
        }
        if mistake != Forgets::ExitsFirst {
            registry.exit(&seat);
        }
    });
    let mut head = registry::FIRST;
    for _ in 0..writes {
        world.position.store(head, Ordering::Release);
        head += 2;
        world.registry.commit(head);
        let oldest = match mistake {
            Forgets::AsksNobody => head,
            _ => world.registry.oldest(),
        };
        if oldest < head {
            // Somebody may read it; the next write would need a place of its own.
            break;
        }
        world.old.store(0, Ordering::Relaxed);
        world.old.store(KEPT, Ordering::Release);
    }
    reader.join().expect("a reader ends");
}

#[test]
fn a_version_that_is_read_is_kept() {
    explore_all("one write", 100, || what_is_read_is_kept(Forgets::None, 1));
    explore_all("two writes", 100, || what_is_read_is_kept(Forgets::None, 2));
    explore_all("three writes", 100, || {
        what_is_read_is_kept(Forgets::None, 3)
    });
}

#[test]
fn finds_a_writer_that_asks_nobody() {
    let said = found(|| what_is_read_is_kept(Forgets::AsksNobody, 1));
    assert!(said.contains("forgotten"), "{said}");
}

#[test]
fn finds_a_reader_that_leaves_before_it_reads() {
    let said = found(|| what_is_read_is_kept(Forgets::ExitsFirst, 1));
    assert!(said.contains("forgotten"), "{said}");
}

#[test]
fn finds_a_reader_of_a_state_that_it_did_not_announce() {
    let said = found(|| what_is_read_is_kept(Forgets::OldState, 2));
    assert!(said.contains("forgotten"), "{said}");
}

/// A way to lend a value wrong.
#[derive(Clone, Copy, PartialEq)]
enum Lends {
    None,
    /// The reader does not ask whether the leaf's version held.
    NotChecked,
    /// It goes on reading when its state is no longer announced.
    ExitsFirst,
    /// The writer uses a value's lines again without asking who reads.
    AsksNobody,
}

/// A leaf names a value that is read where it lies, without atomics. A writer replaces it by another one, and uses the first one's lines again when nobody can read
/// them. loom finds a read and a write of the same lines that do not follow each other.
fn a_lent_value_is_left_alone(mistake: Lends) {
    struct World {
        registry: Registry,
        leaf: AtomicU64,
        /// The entry: the position of its version, and where its value lies.
        position: AtomicU64,
        word: AtomicU64,
        /// What the version before has.
        old: AtomicU64,
        values: [UnsafeCell<u64>; 2],
    }
    // SAFETY: that is what the test is about: loom panics where two threads meet.
    unsafe impl Sync for World {}
    let world = Arc::new(World {
        registry: Registry::new(1),
        leaf: AtomicU64::new(0),
        position: AtomicU64::new(0),
        word: AtomicU64::new(0),
        old: AtomicU64::new(0),
        values: [UnsafeCell::new(KEPT), UnsafeCell::new(0)],
    });
    let seat = world.registry.claim().expect("a slot");
    let shared = world.clone();
    let reader = spawn(move || {
        let state = shared.registry.enter(&seat);
        let Some(version) = lock::read(&shared.leaf) else {
            return;
        };
        let position = shared.position.load(Ordering::Relaxed);
        let word = match position < state {
            true => shared.word.load(Ordering::Relaxed),
            false => shared.old.load(Ordering::Relaxed),
        };
        let holds = mistake == Lends::NotChecked || lock::unchanged(&shared.leaf, version);
        if mistake == Lends::ExitsFirst {
            shared.registry.exit(&seat);
        }
        if holds {
            // SAFETY: as above.
            let value = shared.values[word as usize].with(|value| unsafe { *value });
            assert!(
                value == KEPT || value == KEPT + 1,
                "lines that were used again"
            );
        }
        if mistake != Lends::ExitsFirst {
            shared.registry.exit(&seat);
        }
    });
    // SAFETY: as above.
    world.values[1].with_mut(|value| unsafe { *value = KEPT + 1 });
    world.old.store(0, Ordering::Relaxed);
    lock::lock(&world.leaf);
    world.position.store(registry::FIRST, Ordering::Relaxed);
    world.word.store(1, Ordering::Relaxed);
    lock::unlock(&world.leaf);
    // No state above this position has the first value.
    let (retired, head) = (registry::FIRST, registry::FIRST + 2);
    world.registry.commit(head);
    if mistake == Lends::AsksNobody || retired < world.registry.oldest() {
        // SAFETY: as above.
        world.values[0].with_mut(|value| unsafe { *value = 0 });
    }
    reader.join().expect("a reader ends");
}

#[test]
fn a_value_is_lent_while_its_state_is_announced() {
    explore_all("a value that is lent", 100, || {
        a_lent_value_is_left_alone(Lends::None)
    });
}

#[test]
fn finds_values_that_are_lent_wrongly() {
    for mistake in [Lends::NotChecked, Lends::ExitsFirst, Lends::AsksNobody] {
        let said = found(move || a_lent_value_is_left_alone(mistake));
        assert!(
            said.contains("used again") || said.contains("Causality violation"),
            "{said}"
        );
    }
}

#[test]
fn slots_are_taken_once_and_given_back() {
    explore_all("two sessions for one slot", 6, || {
        let registry = Arc::new(Registry::new(1));
        let shared = registry.clone();
        let other = spawn(move || match shared.claim() {
            Some(seat) => {
                shared.leave(&seat);
                true
            }
            None => false,
        });
        let mine = registry.claim();
        if let Some(seat) = &mine {
            registry.leave(seat);
        }
        let others = other.join().expect("ends");
        assert!(mine.is_some() || others, "nobody had the slot");
        assert!(registry.claim().is_some(), "the slot is free");
    });
}
