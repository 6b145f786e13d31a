//! The queue between two threads and the stacks of pools under loom: every order in which threads may take turns, up to a bound, with all that weak memory may show.
//!
//! The files under test are compiled here again: with loom's primitives in place of the standard library's, and with those and a mistake each, which must be found.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::duplicate_mod)]

use std::panic::AssertUnwindSafe;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};

#[path = "interleavings/relaxed.rs"]
mod relaxed;
#[path = "interleavings/right.rs"]
mod right;
#[path = "interleavings/uncounted.rs"]
mod uncounted;

/// How often a thread that could go on is held up, at most. Two are said to find most faults, see loom's documentation.
const PREEMPTIONS: usize = 3;

fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(scenario);
}

/// One thread puts three items in, in two calls, and another takes out as they come. What is refused stays, what is taken comes in order, what is left is dropped.
macro_rules! exchange {
    ($ring:path, $capacity:expr) => {{
        use std::collections::VecDeque;
        use $ring as ring;
        let (mut producer, mut consumer) = ring::ring::<Box<usize>>($capacity);
        let other = loom::thread::spawn(move || {
            let mut items = Vec::new();
            for _ in 0..2 {
                consumer.take(&mut items, 2);
            }
            (consumer, items)
        });
        let mut ready: VecDeque<_> = (0..3).map(Box::new).collect();
        let put = producer.put(&mut ready, 2) + producer.put(&mut ready, 3);
        assert_eq!(put + ready.len(), 3);
        assert!(put >= $capacity.min(3));
        let (mut consumer, mut items) = other.join().expect("takes");
        // One stays, for the last of both to drop.
        let left = put - items.len();
        consumer.take(&mut items, left.saturating_sub(1));
        assert!(items.iter().map(|item| **item).eq(0..items.len()));
    }};
}

#[test]
fn items_cross_once_and_in_order() {
    for capacity in [1_usize, 2, 3] {
        explore(move || exchange!(crate::right::ring, capacity));
    }
}

#[test]
fn finds_counts_that_order_nothing() {
    assert_found(|| exchange!(crate::relaxed::ring, 2_usize));
}

fn assert_found(scenario: impl Fn() + Send + Sync + 'static) {
    let found = AssertUnwindSafe(|| explore(scenario));
    assert!(
        std::panic::catch_unwind(found).is_err(),
        "fails in some order"
    );
}

/// Of each number, how often somebody had it: who has it alone counts, and sees all counts before.
struct Had([AtomicUsize; 2]);

impl Had {
    fn new() -> Self {
        Self([AtomicUsize::new(0), AtomicUsize::new(0)])
    }

    fn count(&self, number: u32) {
        let had = &self.0[number as usize];
        had.store(had.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn total(&self) -> usize {
        let had = self.0.iter().map(|had| had.load(Ordering::Relaxed));
        had.sum()
    }
}

/// Two threads give back a number each while a third one takes: each number comes back once, with what was done by who had it.
macro_rules! give_back {
    ($returns:path) => {{
        use $returns as returns;
        let (returns, mut own) = returns::Returns::new(2);
        let shared = Arc::new((returns, Had::new()));
        let mut have = |had: &mut Vec<u32>| {
            let number = shared.0.take(&mut own);
            if let Some(number) = number {
                shared.1.count(number);
                had.push(number);
            }
            number
        };
        let mut first = Vec::new();
        while have(&mut first).is_some() {}
        assert_eq!(first, [0, 1]);
        let givers: Vec<_> = (first.into_iter())
            .map(|number| {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    shared.1.count(number);
                    shared.0.put(number);
                })
            })
            .collect();
        let mut again = Vec::new();
        have(&mut again);
        have(&mut again);
        for giver in givers {
            giver.join().expect("gives back");
        }
        while have(&mut again).is_some() {}
        again.sort_unstable();
        assert_eq!((again, shared.1.total()), (vec![0, 1], 6));
    }};
}

#[test]
fn numbers_come_back_once() {
    explore(|| give_back!(crate::right::returns));
}

#[test]
fn finds_returns_that_order_nothing() {
    assert_found(|| give_back!(crate::relaxed::returns));
}

/// Two threads take and give back: nobody has a number that another one has, and none is lost.
macro_rules! take_and_give {
    ($slots:path) => {{
        use $slots as slots;
        let shared = Arc::new((slots::Slots::new(2), Had::new()));
        let take = |shared: &(slots::Slots, Had)| {
            let number = shared.0.take()?;
            shared.1.count(number);
            Some(number)
        };
        let other = {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || {
                let (one, two) = (take(&shared), take(&shared));
                if let Some(number) = one {
                    shared.0.give(number);
                }
                (usize::from(one.is_some()), two)
            })
        };
        let mine = take(&shared);
        let (given, theirs) = other.join().expect("takes and gives");
        let mut all: Vec<u32> = mine.into_iter().chain(theirs).collect();
        while let Some(number) = take(&shared) {
            all.push(number);
        }
        all.sort_unstable();
        assert_eq!((all, shared.1.total()), (vec![0, 1], 2 + given));
    }};
}

#[test]
fn slots_are_nobodys_or_one_threads() {
    explore(|| take_and_give!(crate::right::slots));
}

#[test]
fn finds_slots_that_order_nothing() {
    assert_found(|| take_and_give!(crate::relaxed::slots));
}

#[test]
fn finds_a_slot_that_went_and_came_back() {
    assert_found(|| take_and_give!(crate::uncounted::slots));
}
