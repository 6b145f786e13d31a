//! Tests of both engines: against a model, and of histories of threads.

mod checker;
mod edges;
mod history;
mod model;

#[cfg(not(miri))]
use super::{Durability, Lmdb, LmdbOptions};
use super::{Found, Index, Session};

/// LMDB in a folder that goes with it.
#[cfg(not(miri))]
fn lmdb() -> (Lmdb, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let index = Lmdb::open(&LmdbOptions {
        folder: folder.path().join("index"),
        map_bytes: 64 << 20,
        sessions_max: 126,
        durability: Durability::None,
    });
    (index.expect("a map of 64 MiB"), folder)
}

/// The value of a key.
fn value_of(session: &mut dyn Session, key: &[u8]) -> Option<Vec<u8>> {
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

/// All rows, as far as `limit`, from a key on.
fn rows(session: &mut dyn Session, from: &[u8], limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let count = session.scan(from, limit, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(count.expect("reads"), rows.len());
    rows
}

/// Every engine, with its name in messages.
fn each_engine(mut test: impl FnMut(&dyn Index)) {
    test(&super::Tree::new(super::TreeOptions::default()).expect("memory"));
    #[cfg(not(miri))]
    {
        let (lmdb, _folder) = lmdb();
        test(&lmdb);
    }
}
