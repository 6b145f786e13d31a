//! The ledger and the count of records of YCSB's work under loom: every order in which threads may take turns, up to a bound, with all that weak memory may
//! show.
//!
//! The files under test are compiled here once more, with loom's primitives in place of the standard library's. Each mistake that is planted must
//! be found. The number of orders is printed with `--nocapture`.
#![allow(dead_code, missing_docs, unreachable_pub, unused_imports)]

#[path = "../src/index/ycsb/hash.rs"]
mod hash;
#[path = "../src/index/ycsb/inserted.rs"]
mod inserted;
#[path = "../src/index/ycsb/key.rs"]
mod key;
#[path = "../src/index/ycsb/ledger.rs"]
mod ledger;
#[path = "../src/index/ycsb/spec.rs"]
mod spec;
#[path = "../src/index/ycsb/workload.rs"]
mod workload;

mod sync {
    //! loom's, by the names of the project's own list.

    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

use std::sync::atomic::AtomicUsize as Count;

use loom::sync::Arc;
use loom::thread::spawn;

use inserted::Inserted;
use ledger::{ABSENT, Ledger};
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

/// A way to use a ledger, or to keep a register, wrong.
#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    None,
    /// A write ends before it is done.
    EndsFirst,
    /// A write is done before it begins, with the version that it will have.
    BeginsLast,
    /// A read begins after it has read.
    ReadsFirst,
}

/// A register, and the ledger of what it may be read as.
struct World {
    ledger: Ledger,
    register: AtomicU64,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            ledger: Ledger::new(0, 1),
            register: AtomicU64::new(ABSENT),
        })
    }

    fn write(&self, mistake: Mistake) {
        if mistake == Mistake::BeginsLast {
            self.register.store(1, Ordering::Release);
        }
        let write = self.ledger.begin_write(0).expect("few writes");
        let version = write.version;
        if mistake == Mistake::EndsFirst {
            self.ledger.end_write(write);
            self.register.store(version, Ordering::Release);
            return;
        }
        self.register.store(version, Ordering::Release);
        self.ledger.end_write(write);
    }

    fn read(&self, mistake: Mistake) {
        let early = self.register.load(Ordering::Acquire);
        let floor = self.ledger.begin_read(0);
        let version = match mistake {
            Mistake::ReadsFirst => early,
            _ => self.register.load(Ordering::Acquire),
        };
        let said = self.ledger.end_read(0, floor, version);
        assert!(said.is_ok(), "{said:?}");
    }

    /// After all writes ended, the ledger lost none of them: it is exact.
    fn is_exact(&self) {
        self.write(Mistake::None);
        let version = self.register.load(Ordering::Acquire);
        let floor = self.ledger.begin_read(0);
        assert!(self.ledger.end_read(0, floor, version).is_ok());
        assert!(
            self.ledger.end_read(0, floor, version - 1).is_err(),
            "a write was lost"
        );
    }
}

/// Threads of so many writes each, and a reader of so many reads.
fn reads_are_right(mistake: Mistake, writers: &'static [usize], reads: usize) {
    let world = World::new();
    let threads: Vec<_> = (writers.iter().skip(1))
        .map(|writes| {
            let world = world.clone();
            spawn(move || (0..*writes).for_each(|_| world.write(Mistake::None)))
        })
        .collect();
    let reader = (reads > 0).then(|| {
        let world = world.clone();
        spawn(move || (0..reads).for_each(|_| world.read(mistake)))
    });
    (0..writers[0]).for_each(|_| world.write(mistake));
    for thread in threads.into_iter().chain(reader) {
        thread.join().expect("ends");
    }
    world.is_exact();
}

#[test]
fn no_read_of_a_register_is_refused_and_no_write_is_lost() {
    explore("two writes, two reads", || {
        reads_are_right(Mistake::None, &[2], 2);
    });
    explore("one write beside one, one read", || {
        reads_are_right(Mistake::None, &[1, 1], 1);
    });
    explore("two writes beside two", || {
        reads_are_right(Mistake::None, &[2, 2], 0);
    });
}

#[test]
fn finds_a_write_that_ends_before_it_is_done() {
    let said = found(|| reads_are_right(Mistake::EndsFirst, &[1], 1));
    assert!(said.contains("Stale"), "{said}");
}

#[test]
fn finds_a_version_that_had_not_begun() {
    let said = found(|| reads_are_right(Mistake::BeginsLast, &[1], 1));
    assert!(said.contains("FromNowhere"), "{said}");
}

#[test]
fn finds_a_read_of_what_was_there_before_it_began() {
    let said = found(|| reads_are_right(Mistake::ReadsFirst, &[1], 1));
    assert!(said.contains("Stale"), "{said}");
}

/// Two threads insert a record each; a third sees a record only with all before it. In the end both count.
fn records_are_there_when_they_count(acknowledges_first: bool) {
    let inserted = Arc::new(Inserted::new(1, 3).expect("room"));
    let rows = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let insert = {
        let (inserted, rows) = (inserted.clone(), rows.clone());
        move || {
            let record = inserted.take().expect("room");
            let row = &rows[record as usize - 1];
            if acknowledges_first {
                inserted.acknowledge(record);
                row.store(1, Ordering::Relaxed);
            } else {
                row.store(1, Ordering::Relaxed);
                inserted.acknowledge(record);
            }
        }
    };
    let look = {
        let (inserted, rows) = (inserted.clone(), rows.clone());
        move || {
            for record in 1..inserted.records() {
                let row = rows[record as usize - 1].load(Ordering::Relaxed);
                assert_eq!(row, 1, "a record that counts is not there");
            }
        }
    };
    let threads = [spawn(insert.clone()), spawn(look)];
    insert();
    for thread in threads {
        thread.join().expect("ends");
    }
    assert_eq!(inserted.records(), 3, "a record does not count");
}

#[test]
fn records_that_count_are_there() {
    explore("two inserts", || records_are_there_when_they_count(false));
}

#[test]
fn finds_a_record_that_counts_before_it_is_there() {
    let said = found(|| records_are_there_when_they_count(true));
    assert!(said.contains("not there"), "{said}");
}
