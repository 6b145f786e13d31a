//! The switch of versions under loom: every order in which threads may take turns, up to a bound, with all that weak memory may show.
//!
//! The file under test is compiled here once more, with loom's primitives in place of the standard library's. Each mistake that is
//! planted must be found.
#![allow(dead_code, missing_docs, unreachable_pub)]

#[path = "../src/versions.rs"]
mod versions;

mod sync {
    //! loom's, by the names of `dpb-core`'s own list.

    pub(crate) use std::sync::{PoisonError, TryLockError};

    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};
    pub(crate) use loom::thread::spawn;

    /// How many readers and commits a scenario has. There are hours of orders of two and two.
    pub(crate) const READERS: usize = 1;
    pub(crate) const COMMITS: usize = 2;

    /// How often a thread that could go on is held up, at most. Two are said to find most faults, see loom's documentation.
    const PREEMPTIONS: usize = 3;

    /// Runs `scenario` in every order.
    pub(crate) fn explore(scenario: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(PREEMPTIONS);
        model.check(scenario);
    }
}

use versions::scenarios::{
    Mistake, commits_are_seen_in_order, readers_leave_nothing_behind, version_zero_ends,
    version_zero_is_used_again,
};

/// What is said of `scenario` in the order in which it fails.
fn found(scenario: impl Fn() + Send + Sync + 'static) -> String {
    let explore = std::panic::AssertUnwindSafe(|| sync::explore(scenario));
    let said = std::panic::catch_unwind(explore).expect_err("fails in some order");
    *said.downcast().expect("says why")
}

#[test]
fn two_readers_see_a_commit() {
    sync::explore(|| commits_are_seen_in_order(Mistake::None, 2, 1));
}

#[test]
fn finds_a_reader_that_does_not_look_twice() {
    let said = found(|| commits_are_seen_in_order(Mistake::NoSecondLook, 1, 2));
    assert!(said.contains("saw 4, not 6 to 6"), "{said}");
}

#[test]
fn finds_a_writer_that_does_not_wait_for_readers() {
    let said = found(|| commits_are_seen_in_order(Mistake::NoWait, 1, 2));
    assert!(said.contains("one copy"), "{said}");
}

#[test]
fn finds_a_writer_that_forgets_the_other_table() {
    let said = found(|| commits_are_seen_in_order(Mistake::NotTwice, 1, 2));
    assert!(said.contains("after all commits"), "{said}");
}

#[test]
fn finds_a_commit_of_half_a_change() {
    let said = found(|| commits_are_seen_in_order(Mistake::TooEarly, 1, 1));
    assert!(said.contains("3 is half a commit"), "{said}");
}

#[test]
fn finds_a_reader_that_leaves_its_seat_first() {
    let said = found(|| readers_leave_nothing_behind(Mistake::SeatFirst));
    assert!(said.contains("one copy"), "{said}");
}

#[test]
fn finds_a_reader_that_stays_at_version_zero() {
    let said = found(|| version_zero_ends(Mistake::StaysAtZero, 1));
    assert!(said.contains("saw 0, not 2 or more"), "{said}");
}

#[test]
fn finds_a_writer_that_does_not_use_version_zero_again() {
    let wanted = "version zero is used again";
    let said = found(|| version_zero_ends(Mistake::KeepsZero, 2));
    assert!(said.contains(wanted), "{said}");
    let said = found(|| version_zero_is_used_again(Mistake::KeepsZero));
    assert!(said.contains(wanted), "{said}");
}
