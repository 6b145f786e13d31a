//! The count of records.

use crate::index::ycsb::{Full, Inserted, RECORDS_MAX, SpecError};

#[test]
fn records_count_once_all_before_them_are_acknowledged() {
    let inserted = Inserted::new(5, 205).expect("room");
    assert_eq!((inserted.loaded(), inserted.records()), (5, 5));
    let taken: Vec<u64> = (0..200).map(|_| inserted.take().expect("room")).collect();
    assert_eq!(taken, (5..205).collect::<Vec<_>>());
    assert_eq!(inserted.take(), Err(Full { capacity: 205 }));
    // From the last to the first but one: nothing counts.
    for record in (6..205).rev() {
        inserted.acknowledge(record);
        assert_eq!(inserted.records(), 5);
    }
    inserted.acknowledge(5);
    assert_eq!(inserted.records(), 205);
}

#[test]
#[should_panic(expected = "record 7 was not taken")]
fn a_record_that_nobody_took_cannot_be_acknowledged() {
    let inserted = Inserted::new(5, 20).expect("room");
    let _ = inserted.take();
    inserted.acknowledge(7);
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let refused = |records, capacity| Inserted::new(records, capacity).expect_err("refused");
    assert_eq!(refused(0, 5), SpecError::NoRecords);
    assert_eq!(
        refused(1, RECORDS_MAX + 1),
        SpecError::TooManyRecords {
            records: RECORDS_MAX + 1
        }
    );
    assert_eq!(
        Inserted::new(9, 3).expect("no room beyond").take(),
        Err(Full { capacity: 9 })
    );
}

#[test]
fn threads_take_each_number_once() {
    const EACH: u64 = if cfg!(miri) { 100 } else { 50_000 };
    let inserted = Inserted::new(3, 3 + 2 * EACH).expect("room");
    let take = || {
        let mut held = inserted.take().expect("room");
        for _ in 1..EACH {
            // Out of order: the one before is acknowledged after the next is taken.
            let next = inserted.take().expect("room");
            assert!(inserted.records() <= held);
            inserted.acknowledge(held);
            held = next;
        }
        inserted.acknowledge(held);
    };
    std::thread::scope(|scope| {
        scope.spawn(take);
        scope.spawn(take);
    });
    assert_eq!(inserted.records(), 3 + 2 * EACH);
    assert_eq!(
        inserted.take(),
        Err(Full {
            capacity: 3 + 2 * EACH
        })
    );
}
