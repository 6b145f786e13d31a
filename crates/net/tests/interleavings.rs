//! The queue between two threads under loom: every order in which they may take turns, up to a bound, with all that weak memory may show.
//!
//! The file under test is compiled here twice more: with loom's primitives in place of the standard library's, and with those and a mistake, which must be found.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::duplicate_mod)]

#[path = "interleavings/relaxed.rs"]
mod relaxed;
#[path = "interleavings/right.rs"]
mod right;

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
    let explored = std::panic::catch_unwind(|| {
        explore(|| exchange!(crate::relaxed::ring, 2_usize));
    });
    assert!(explored.is_err(), "fails in some order");
}
