//! Tests of both engines: against a model, and of histories of threads.

mod checker;
mod edges;
mod history;
#[cfg(not(miri))]
mod lmdb;
#[cfg(not(miri))]
mod lookups;
#[cfg(not(miri))]
mod memory;
mod model;

use std::sync::Arc;

#[cfg(not(miri))]
use super::{Durability, Lmdb, LmdbOptions};
use super::{Found, Index, KeyRange, Reads, Tree, TreeOptions};

/// LMDB in a folder that goes with it.
#[cfg(not(miri))]
fn lmdb() -> (Arc<Lmdb>, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let index = Lmdb::open(&LmdbOptions {
        durability: Durability::None,
        ..LmdbOptions::new(folder.path().join("index"), 64 << 20)
    });
    (Arc::new(index.expect("a map of 64 MiB")), folder)
}

/// The value of a key.
fn value_of(session: &mut dyn Reads, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = vec![0; 100_000];
    match session.get(key, &mut value).expect("reads") {
        Found::Absent => None,
        Found::Whole(len) => {
            value.truncate(len as usize);
            Some(value)
        }
        Found::Cut(len) => panic!("a value of {len} bytes"),
    }
}

/// The rows of a range, as far as `limit`.
fn rows(session: &mut dyn Reads, range: KeyRange<'_>, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let count = session.scan(range, limit, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(count.expect("reads"), rows.len());
    rows
}

fn tree(options: TreeOptions) -> Arc<Tree> {
    Arc::new(Tree::new(options).expect("memory"))
}

/// Every engine, with its name in messages.
fn each_engine(mut test: impl FnMut(Arc<dyn Index>)) {
    test(tree(TreeOptions::default()));
    #[cfg(not(miri))]
    {
        let (lmdb, _folder) = lmdb();
        test(lmdb);
    }
}
