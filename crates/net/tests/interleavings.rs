//! Shards and a reader of their counters under loom: every order in which threads may take turns, up to a bound.
//!
//! The file under test is compiled here once more, with loom's primitives in place of the standard library's. Each mistake that is planted must be found.
#![allow(dead_code, missing_docs, unreachable_pub)]

#[path = "../src/flow/ledger.rs"]
mod ledger;

mod sync {
    //! loom's, by the names of the crate's own list.

    pub(crate) use std::sync::{PoisonError, TryLockError};

    pub(crate) use loom::sync::{Arc, Mutex};
    pub(crate) use loom::thread::{spawn, yield_now};

    /// How many shards a scenario has, and how many jobs each.
    pub(crate) const SHARDS: u64 = 2;
    pub(crate) const JOBS: u64 = 2;

    /// How often a thread that could go on is held up, at most.
    const PREEMPTIONS: usize = 3;

    /// Runs `scenario` in every order.
    pub(crate) fn explore(scenario: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(PREEMPTIONS);
        model.check(scenario);
    }
}

use ledger::scenarios::{Mistake, what_is_read_adds_up};

/// What is said of `mistake` in the order in which it fails.
fn found(mistake: Mistake) -> String {
    let explore = || sync::explore(move || what_is_read_adds_up(mistake));
    let said = std::panic::catch_unwind(explore).expect_err("fails in some order");
    *said.downcast().expect("says why")
}

#[test]
fn finds_half_a_job() {
    let said = found(Mistake::HalfAJob);
    assert!(said.contains("half a job"), "{said}");
}

#[test]
fn finds_what_is_forgotten() {
    let said = found(Mistake::Forgets);
    assert!(said.contains("at the end"), "{said}");
}
