//! The version lock and the registry of the tree under loom: every order in which threads may take turns, up to a bound, with all that weak
//! memory may show.
//!
//! The files under test are compiled here once more, with loom's primitives in place of the standard library's. Each mistake that
//! is planted must be found. The number of orders is printed with `--nocapture`.
#![allow(dead_code, missing_docs, unreachable_pub)]

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

use loom::sync::Arc;
use loom::thread::spawn;

use registry::Registry;
use sync::{AtomicU64, Ordering};

/// Runs `scenario` in every order. Three times held up is one more than finds most faults, see loom's documentation.
fn explore(name: &str, scenario: impl Fn() + Send + Sync + 'static) {
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
        if lock::holds(&read.lock, version) || mistake == Misread::NotChecked {
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
    explore("one write and the end", || {
        reads_are_whole(Misread::None, 1)
    });
    explore("two writes and the end", || {
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

/// A way to forget too early.
#[derive(Clone, Copy, PartialEq)]
enum Misstep {
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
fn what_is_read_is_kept(mistake: Misstep, writes: u64) {
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
            Misstep::OldState => {
                let state = registry.committed();
                registry.enter(&seat);
                state
            }
            _ => registry.enter(&seat),
        };
        if mistake == Misstep::ExitsFirst {
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
        if mistake != Misstep::ExitsFirst {
            registry.exit(&seat);
        }
    });
    let mut head = registry::FIRST;
    for _ in 0..writes {
        world.position.store(head, Ordering::Release);
        head += 2;
        world.registry.commit(head);
        let oldest = match mistake {
            Misstep::AsksNobody => head,
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
    explore("one write", || what_is_read_is_kept(Misstep::None, 1));
    explore("two writes", || what_is_read_is_kept(Misstep::None, 2));
    explore("three writes", || what_is_read_is_kept(Misstep::None, 3));
}

#[test]
fn finds_a_writer_that_asks_nobody() {
    let said = found(|| what_is_read_is_kept(Misstep::AsksNobody, 1));
    assert!(said.contains("forgotten"), "{said}");
}

#[test]
fn finds_a_reader_that_leaves_before_it_reads() {
    let said = found(|| what_is_read_is_kept(Misstep::ExitsFirst, 1));
    assert!(said.contains("forgotten"), "{said}");
}

#[test]
fn finds_a_reader_of_a_state_that_it_did_not_announce() {
    let said = found(|| what_is_read_is_kept(Misstep::OldState, 2));
    assert!(said.contains("forgotten"), "{said}");
}

#[test]
fn slots_are_taken_once_and_given_back() {
    explore("two sessions for one slot", || {
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
