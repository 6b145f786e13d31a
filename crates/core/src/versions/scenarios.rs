//! Scenarios of readers and a writer, and mistakes that they must find. Here threads interleave as they happen to; `tests/interleavings.rs`
//! compiles this file with loom's primitives and tries every order.

use super::*;
use crate::sync::{COMMITS, READERS, explore, spawn};

/// A sum whose copies are counted.
struct Sum {
    total: usize,
    copies: Arc<AtomicUsize>,
}

/// What is added. Nothing is no change.
#[derive(Debug, PartialEq)]
struct Nothing;

impl Clone for Sum {
    fn clone(&self) -> Self {
        self.copies.fetch_add(1, Ordering::Relaxed);
        Self {
            total: self.total,
            copies: self.copies.clone(),
        }
    }
}

impl Versioned for Sum {
    type Change = usize;
    type Error = Nothing;

    fn apply(&mut self, change: &usize) -> Result<(), Nothing> {
        if *change == 0 {
            return Err(Nothing);
        }
        self.total += change;
        Ok(())
    }
}

/// A way to do it wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(dead_code, reason = "planted where they must be found")]
pub(crate) enum Mistake {
    None,
    /// A reader does not look again which table is live.
    NoSecondLook,
    /// The writer does not wait for readers.
    NoWait,
    /// The writer leaves its last changes out of the table that it takes back.
    NotTwice,
    /// A commit makes a table live in the middle of a change.
    TooEarly,
    /// A reader of version zero does not look whether it is over.
    StaysAtZero,
    /// A reader gives up its seat, and later what it holds.
    SeatFirst,
    /// Somebody has version zero for good, so that the writer never changes it.
    KeepsZero,
}

/// Sums that were committed so far, as the test knows it.
struct Known {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// At version zero.
fn fresh() -> (Arc<Versions<Sum>>, Arc<AtomicUsize>) {
    let copies = Arc::new(AtomicUsize::new(0));
    let sum = Sum {
        total: 0,
        copies: copies.clone(),
    };
    (Arc::new(Versions::new(Arc::new(sum))), copies)
}

/// At version two: version zero was used again.
fn new() -> (Arc<Versions<Sum>>, Arc<AtomicUsize>) {
    let (versions, copies) = fresh();
    for _ in 0..FIRST {
        versions.change(1).expect("something");
        versions.commit();
    }
    (versions, copies)
}

/// The sum at version two.
const FIRST: usize = 2;

/// Each commit adds 2, in two changes. Readers see even sums alone, the newest at least that was committed when they entered, and
/// none that is older than what was seen before; and the table is copied once.
pub(crate) fn commits_are_seen_in_order(mistake: Mistake, readers: usize, commits: usize) {
    let (versions, copies) = new();
    let known = Arc::new(Known {
        begun: AtomicUsize::new(FIRST),
        ended: AtomicUsize::new(FIRST),
    });
    let threads: Vec<_> = (0..readers)
        .map(|_| {
            let (mut reader, known) = (versions.reader(), known.clone());
            spawn(move || {
                let mut last = 0;
                for _ in 0..2 {
                    let least = known.ended.load(Ordering::Acquire).max(last);
                    last = total(&mut reader, mistake);
                    let most = known.begun.load(Ordering::Acquire);
                    assert!(
                        (least..=most).contains(&last),
                        "saw {last}, not {least} to {most}"
                    );
                    assert!(last.is_multiple_of(2), "{last} is half a commit");
                }
                leave(reader, mistake);
            })
        })
        .collect();
    for number in 1..=commits {
        change(&versions, 1, mistake);
        if mistake == Mistake::TooEarly {
            known.begun.store(FIRST + 2 * number, Ordering::Release);
            versions.commit();
        }
        change(&versions, 1, mistake);
        known.begun.store(FIRST + 2 * number, Ordering::Release);
        versions.commit();
        known.ended.store(FIRST + 2 * number, Ordering::Release);
    }
    for thread in threads {
        thread.join().expect("sees what it may");
    }
    let mut reader = versions.reader();
    assert_eq!(
        total(&mut reader, Mistake::None),
        FIRST + 2 * commits,
        "after all commits"
    );
    assert_eq!(copies.load(Ordering::Relaxed), 1, "one copy");
}

/// Readers of version zero see it until the first commit has ended, and the newest sum from then on. Each commit adds 2.
pub(crate) fn version_zero_ends(mistake: Mistake, commits: usize) {
    let (versions, copies) = fresh();
    let _kept =
        (mistake == Mistake::KeepsZero).then(|| lock(&versions.shared.readers).live.clone());
    let known = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(AtomicUsize::new(0));
    let (mut reader, ended, sees) = (versions.reader(), known.clone(), seen.clone());
    let thread = spawn(move || {
        let mut last = 0;
        for _ in 0..2 {
            let least = ended.load(Ordering::Acquire).max(last);
            last = match &reader.zero {
                Some(zero) if mistake == Mistake::StaysAtZero => zero.total,
                _ => reader.enter().total,
            };
            assert!(
                last >= least && last <= 2 * commits,
                "saw {last}, not {least} or more"
            );
            assert!(last.is_multiple_of(2), "{last} is half a commit");
            sees.store(last, Ordering::Release);
        }
    });
    let mut has_left = true;
    for number in 1..=commits {
        if number == 2 {
            has_left = seen.load(Ordering::Acquire) > 0;
        }
        versions.change(1).expect("something");
        versions.change(1).expect("something");
        versions.commit();
        known.store(2 * number, Ordering::Release);
    }
    thread.join().expect("sees what it may");
    assert_eq!(
        versions.reader().enter().total,
        2 * commits,
        "after all commits"
    );
    expect_copies(&copies, has_left);
}

/// One reader of version zero goes and another one comes while there are two commits, which add 2 each. Version zero is changed where nobody has it.
pub(crate) fn version_zero_is_used_again(mistake: Mistake) {
    let (versions, copies) = fresh();
    let _kept =
        (mistake == Mistake::KeepsZero).then(|| lock(&versions.shared.readers).live.clone());
    let ended = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(AtomicUsize::new(0));
    let (reader, other) = (versions.reader(), versions.clone());
    let (known, sees) = (ended.clone(), seen.clone());
    let thread = spawn(move || {
        drop(reader);
        let mut reader = other.reader();
        let least = known.load(Ordering::Acquire);
        let sum = reader.enter().total;
        assert!(sum >= least && sum <= 4, "saw {sum}, not {least} or more");
        sees.store(sum, Ordering::Release);
    });
    let mut has_left = false;
    for number in 1..=2 {
        if number == 2 {
            has_left = seen.load(Ordering::Acquire) > 0;
        }
        versions.change(2).expect("something");
        versions.commit();
        ended.store(2 * number, Ordering::Release);
    }
    thread.join().expect("sees what it may");
    versions.change(2).expect("something");
    expect_copies(&copies, has_left);
}

/// One copy if the readers had left version zero when the writer wanted it, or it never did; one more at most if they had not.
fn expect_copies(copies: &AtomicUsize, has_left: bool) {
    let copies = copies.load(Ordering::Relaxed);
    match has_left {
        true => assert_eq!(copies, 1, "version zero is used again"),
        false => assert!((1..=2).contains(&copies), "{copies} copies"),
    }
}

/// Versions with seats from the start: a reader that is there from version zero on sees sums in order, and the table is copied once, whether the reader
/// enters or not.
pub(crate) fn seats_leave_no_version_zero() {
    let copies = Arc::new(AtomicUsize::new(0));
    let sum = Sum {
        total: 0,
        copies: copies.clone(),
    };
    let versions = Versions::seated(Arc::new(sum));
    let ended = Arc::new(AtomicUsize::new(0));
    let (idle, mut reader, known) = (versions.reader(), versions.reader(), ended.clone());
    let thread = spawn(move || {
        let least = known.load(Ordering::Acquire);
        let sum = reader.enter().total;
        assert!(sum >= least && sum <= 4, "saw {sum}, not {least} or more");
    });
    for number in 1..=2 {
        versions.change(2).expect("something");
        versions.commit();
        ended.store(2 * number, Ordering::Release);
    }
    thread.join().expect("sees what it may");
    versions.change(2).expect("something");
    drop(idle);
    assert_eq!(copies.load(Ordering::Relaxed), 1, "one copy");
}

/// A reader comes and goes while the table is changed. No version outlives its readers: the table is copied once.
pub(crate) fn readers_leave_nothing_behind(mistake: Mistake) {
    let (versions, copies) = new();
    let reader = versions.reader();
    let thread = spawn(move || leave(reader, mistake));
    for _ in 0..2 {
        change(&versions, 2, mistake);
        versions.commit();
    }
    change(&versions, 2, mistake);
    thread.join().expect("leaves");
    assert_eq!(copies.load(Ordering::Relaxed), 1, "one copy");
}

/// Two writers: each change is there once, and each commit has all that came before.
pub(crate) fn writers_take_turns() {
    let (versions, copies) = new();
    let other = versions.clone();
    let thread = spawn(move || {
        other.change(1).expect("something");
        other.commit()
    });
    versions.change(1).expect("something");
    let here = versions.commit();
    let there = thread.join().expect("commits");
    assert!(
        here.max(there) <= 4 && here.min(there) >= 3,
        "{here} {there}"
    );
    assert_eq!(versions.reader().enter().total, FIRST + 2);
    assert_eq!(copies.load(Ordering::Relaxed), 1, "one copy");
}

fn total(reader: &mut Reader<Sum>, mistake: Mistake) -> usize {
    if mistake != Mistake::NoSecondLook {
        return reader.enter().total;
    }
    loop {
        let side = reader.shared.side.load(Ordering::Acquire);
        if let Some(table) = try_lock(&reader.seat.0[side])
            && let Some(sum) = &*table
        {
            return sum.total;
        }
        spin_loop();
    }
}

fn leave(reader: Reader<Sum>, mistake: Mistake) {
    if mistake == Mistake::SeatFirst {
        let mut readers = lock(&reader.shared.readers);
        readers
            .seats
            .retain(|seat| !Arc::ptr_eq(seat, &reader.seat));
    }
    drop(reader);
}

fn change(versions: &Versions<Sum>, by: usize, mistake: Mistake) {
    let mut draft = lock(&versions.draft);
    if mistake == Mistake::NotTwice && !draft.missed.is_empty() {
        versions.reclaim();
        draft.missed.clear();
    }
    if mistake == Mistake::NoWait && !draft.missed.is_empty() {
        // As `reclaim`, if it tried.
        let side = 1 - versions.shared.side.load(Ordering::Relaxed);
        for seat in &lock(&versions.shared.readers).seats {
            if let Some(mut table) = try_lock(&seat.0[side]) {
                *table = None;
            }
        }
        let table = draft.table.as_mut().expect("of the last commit");
        if Arc::get_mut(table).is_none() {
            *table = Arc::new(Sum::clone(table));
        }
    }
    drop(draft);
    versions.change(by).expect("something");
}

#[test]
fn readers_see_commits_in_order() {
    explore(|| commits_are_seen_in_order(Mistake::None, READERS, COMMITS));
}

#[test]
fn version_zero_is_left() {
    explore(|| version_zero_ends(Mistake::None, COMMITS));
}

#[test]
fn version_zero_is_changed_where_nobody_has_it() {
    explore(|| version_zero_is_used_again(Mistake::None));
}

#[test]
fn seats_are_enough_from_the_start() {
    explore(seats_leave_no_version_zero);
}

#[test]
fn two_tables_are_enough() {
    explore(|| readers_leave_nothing_behind(Mistake::None));
}

#[test]
fn two_writers_lose_no_change() {
    explore(writers_take_turns);
}
