//! What tables with versions promise about changes that are refused, tables that are shared, and panics.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dpb_core::{Versioned, Versions};

/// A sum whose copies are counted.
struct Sum {
    total: usize,
    copies: Arc<AtomicUsize>,
}

/// What is not taken: 0.
#[derive(Debug, PartialEq)]
struct Nothing;

/// A change at which there is a panic, half done.
const UNLUCKY: usize = 13;

impl Sum {
    fn new(total: usize) -> Arc<Self> {
        let copies = Arc::default();
        Arc::new(Self { total, copies })
    }
}

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
            // Half done, so that it must be thrown away.
            self.total += 1000;
            return Err(Nothing);
        }
        self.total += change;
        if *change == UNLUCKY {
            resume_unwind(Box::new("on purpose, and quietly"));
        }
        Ok(())
    }
}

#[test]
fn what_is_refused_changes_nothing() {
    let versions = Versions::new(Sum::new(0));
    assert_eq!(versions.commit(), 0, "nothing to commit");
    assert_eq!(versions.change(0), Err(Nothing));
    assert_eq!(versions.commit(), 0, "nothing was taken");
    assert_eq!(versions.change(5), Ok(()));
    assert_eq!(versions.change(0), Err(Nothing));
    let mut reader = versions.reader();
    assert_eq!(reader.enter().total, 0, "not committed");
    assert_eq!(versions.commit(), 1);
    assert_eq!(reader.enter().total, 5);
    assert_eq!(versions.change(6), Ok(()));
    assert_eq!(versions.commit(), 2);
    assert_eq!(reader.enter().total, 11);
}

#[test]
fn a_table_that_others_share_is_left_alone() {
    let sum = Sum::new(7);
    let versions = Versions::new(sum.clone());
    for _ in 0..3 {
        versions.change(1).expect("taken");
        versions.commit();
    }
    assert_eq!((sum.total, versions.reader().enter().total), (7, 10));
    let copies = sum.copies.load(Ordering::Relaxed);
    assert_eq!(copies, 2, "a table for each side");
}

#[test]
fn tables_go_with_the_last_who_has_them() {
    let sum = Sum::new(0);
    let tables = sum.copies.clone();
    let versions = Versions::new(sum);
    let mut reader = versions.reader();
    for _ in 0..5 {
        versions.change(1).expect("taken");
        versions.commit();
    }
    // Each table has a reference to the counter, and so has this test. The reader has version zero until it enters.
    assert_eq!(Arc::strong_count(&tables), 4);
    assert_eq!(reader.enter().total, 5);
    versions.change(1).expect("taken");
    versions.commit();
    assert_eq!(Arc::strong_count(&tables), 3);
    drop(versions);
    assert_eq!(reader.enter().total, 6, "readers may stay");
    drop(reader);
    assert_eq!(Arc::strong_count(&tables), 1);
}

/// To free a table takes time, and a reader enters in a job.
#[test]
fn a_reader_that_enters_frees_no_table() {
    for panics in [false, true] {
        let sum = Sum::new(0);
        let tables = sum.copies.clone();
        let versions = Versions::new(sum);
        let mut reader = versions.reader();
        versions.change(1).expect("taken");
        versions.commit();
        let writer = match panics {
            true => {
                catch_unwind(AssertUnwindSafe(|| versions.change(UNLUCKY))).expect_err("a panic");
                Some(versions)
            }
            false => {
                drop(versions);
                None
            }
        };
        let before = Arc::strong_count(&tables);
        assert_eq!(reader.enter().total, 1);
        assert_eq!(Arc::strong_count(&tables), before);
        drop((writer, reader));
        assert_eq!(Arc::strong_count(&tables), 1);
    }
}

#[test]
fn seated_versions_have_two_tables_whatever_readers_do() {
    let sum = Sum::new(0);
    let tables = sum.copies.clone();
    let versions = Versions::seated(sum);
    let mut reader = versions.reader();
    for total in 1..=5 {
        versions.change(1).expect("taken");
        assert_eq!(versions.commit(), total);
        // And one for this test.
        assert_eq!(Arc::strong_count(&tables), 3);
    }
    assert_eq!(reader.enter().total, 5);
    assert_eq!(tables.load(Ordering::Relaxed), 1, "copied once");
    drop((versions, reader));
    assert_eq!(Arc::strong_count(&tables), 1);
}

#[test]
fn after_a_panic_the_table_is_that_of_the_last_commit() {
    let versions = Versions::new(Sum::new(0));
    let mut reader = versions.reader();
    for commit in 1..=3 {
        versions.change(1).expect("taken");
        assert_eq!(versions.commit(), commit);
        versions.change(100).expect("taken");
        catch_unwind(AssertUnwindSafe(|| versions.change(UNLUCKY))).expect_err("a panic");
        assert_eq!(versions.commit(), commit, "nothing is left to commit");
        assert_eq!(reader.enter().total, commit as usize);
    }
}

#[test]
fn a_reader_that_panics_leaves() {
    let versions = Versions::new(Sum::new(0));
    let mut reader = versions.reader();
    for total in 1..=4 {
        let panics = AssertUnwindSafe(|| {
            let _version = reader.enter();
            resume_unwind(Box::new("on purpose, and quietly"));
        });
        catch_unwind(panics).expect_err("a panic");
        versions.change(1).expect("nobody is in it");
        versions.commit();
        assert_eq!(reader.enter().total, total);
    }
}

/// A table that each change makes anew.
#[derive(Clone)]
struct Whole(Arc<str>);

impl Versioned for Whole {
    type Change = Arc<str>;
    type Error = Nothing;
    const REPLACES: bool = true;

    fn apply(&mut self, change: &Arc<str>) -> Result<(), Nothing> {
        self.0 = change.clone();
        Ok(())
    }
}

#[test]
fn changes_that_replace_the_table_keep_the_last_one_alone() {
    let versions = Versions::new(Arc::new(Whole("first".into())));
    let mut reader = versions.reader();
    let changes: Vec<Arc<str>> = (0..100).map(|i| i.to_string().into()).collect();
    for change in &changes {
        assert!(versions.change(change.clone()).is_ok());
    }
    assert_eq!(&*reader.enter().0, "first");
    let kept = |change: &Arc<str>| Arc::strong_count(change) > 1;
    assert!(!changes[..99].iter().any(kept) && kept(&changes[99]));
    assert_eq!(versions.commit(), 1);
    assert_eq!(&*reader.enter().0, "99");
    // The other copy catches up by the same change.
    assert!(versions.change("last".into()).is_ok());
    assert_eq!(versions.commit(), 2);
    assert_eq!(&*reader.enter().0, "last");
}
