//! LMDB's own: its limits, its file, and the stamp of an index that was not flushed.

use std::path::Path;
use std::sync::Arc;

use super::{rows, value_of};
use crate::index::{
    Durability, Index, IndexError, KeyRange, Keys, Lmdb, LmdbOptions, Snapshot, Values,
};

const MAP: u64 = 4 << 20;

fn open(folder: &Path, durability: Durability, map_bytes: u64) -> Result<Arc<Lmdb>, IndexError> {
    let options = LmdbOptions {
        durability,
        ..LmdbOptions::new(folder, map_bytes)
    };
    Lmdb::open(&options).map(Arc::new)
}

#[test]
fn a_map_that_is_full_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let index = open(folder.path(), Durability::None, MAP).expect("a small map");
    let mut keys = 0u64;
    let full = loop {
        match index.put(&keys.to_be_bytes(), &[1; 10_000]) {
            Ok(_) => keys += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(
            full,
            IndexError::Full {
                limit_bytes: MAP,
                ..
            }
        ),
        "{full}"
    );
    assert_eq!(index.usage().expect("reads").keys, keys);
    for key in 0..keys {
        index
            .delete(&key.to_be_bytes())
            .expect("a few pages are free");
    }
    index
        .put(b"key", &[2; 10_000])
        .expect("there is room again");
}

#[test]
fn a_map_beyond_the_disk_is_refused_also_when_its_file_has_holes() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = 1 << 30;
    drop(open(folder.path(), Durability::None, large).expect("a gibibyte of nothing"));
    let system = rustix::fs::statvfs(folder.path()).expect("a file system");
    let free = system.f_bavail * system.f_frsize;
    let refused = open(folder.path(), Durability::None, free + large / 2);
    assert!(
        matches!(refused, Err(IndexError::Disk { .. })),
        "{refused:?}"
    );
}

#[test]
fn sessions_are_counted_and_all_of_them_read_at_once() {
    const MAX: u32 = 5;
    let folder = tempfile::tempdir().expect("a folder");
    let index = Lmdb::open(&LmdbOptions {
        sessions_max: MAX,
        ..LmdbOptions::new(folder.path(), MAP)
    });
    let index = Arc::new(index.expect("a small map"));
    index.put(b"key", b"value").expect("writes");
    let session = || index.clone().session();
    let mut snapshots: Vec<_> = (0..MAX)
        .map(|_| Snapshot::of(session().expect("one of five")).expect("holds none"))
        .collect();
    assert!(matches!(session(), Err(IndexError::Sessions { max: 5 })));
    assert_eq!(
        index
            .usage()
            .expect("has a transaction of its own")
            .sessions,
        5
    );
    for snapshot in &mut snapshots {
        assert_eq!(value_of(snapshot, b"key"), Some(b"value".to_vec()));
    }
    drop(snapshots.pop());
    session().expect("one ended");
}

#[test]
fn an_index_is_there_when_it_is_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let durabilities = [
        Durability::None,
        Durability::Sync,
        Durability::Commit,
        Durability::None,
    ];
    let mut state = 0;
    for (round, durability) in durabilities.into_iter().enumerate() {
        // Smaller maps, too.
        let index = open(folder.path(), durability, MAP >> round).expect("opens");
        assert_eq!(index.durability(), durability);
        let mut session = index.clone().session().expect("the first");
        assert_eq!(rows(&mut *session, KeyRange::ALL, 10).len(), round);
        assert!(session.state() >= state);
        state = index.put(&[round as u8], b"value").expect("writes");
        index.flush().expect("flushes");
        let is_unflushed = folder.path().join("unflushed").exists();
        assert_eq!(is_unflushed, durability == Durability::None);
    }
    assert!(!folder.path().join("unflushed").exists());
    let refused = open(folder.path(), Durability::Volatile, MAP);
    assert!(
        matches!(refused, Err(IndexError::Durability { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_file_that_was_not_flushed_before_the_system_went_down_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let stamp = folder.path().join("unflushed");
    let of_now = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
    drop(open(folder.path(), Durability::Sync, MAP).expect("opens"));
    std::fs::write(&stamp, "another start of the system").expect("writes");
    for durability in [Durability::None, Durability::Sync] {
        let refused = open(folder.path(), durability, MAP);
        assert!(
            matches!(refused, Err(IndexError::Unclean { .. })),
            "{refused:?}"
        );
    }
    // A process that ended is no harm.
    std::fs::write(&stamp, of_now()).expect("writes");
    drop(open(folder.path(), Durability::Sync, MAP).expect("opens"));
    assert!(!stamp.exists(), "all is flushed");
    // A folder without data, neither.
    std::fs::remove_file(folder.path().join("data.mdb")).expect("is there");
    std::fs::remove_file(folder.path().join("lock.mdb")).expect("is there");
    std::fs::write(&stamp, "another start of the system").expect("writes");
    let index = open(folder.path(), Durability::None, MAP).expect("opens");
    assert_eq!(std::fs::read_to_string(&stamp).expect("is there"), of_now());
    // A session keeps the index open.
    let session = index.clone().session().expect("the first");
    drop(index);
    assert!(stamp.exists());
    drop(session);
    assert!(!stamp.exists());
}

#[test]
fn a_page_is_as_the_file_has_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let index = open(folder.path(), Durability::None, 64 << 20).expect("opens");
    for key in 0..1000u64 {
        index.put(&key.to_be_bytes(), &[0; 1000]).expect("writes");
    }
    let bytes = index.usage().expect("reads").bytes;
    assert!((1_000_000..4_000_000).contains(&bytes), "{bytes}");
    assert!(Lmdb::map_bytes(1000, 8, 1000) >= bytes);
    let mut session = index.session().expect("the first");
    let (mut bytes, mut found) = (vec![0; 3000], [Default::default(); 3]);
    let mut values = Values::new(&mut bytes, 1000, &mut found).expect("room for three");
    let keys = [1u64, 999, 1000].map(u64::to_be_bytes);
    session
        .get_batch(Keys::Eight(&keys), &mut values)
        .expect("reads");
    assert!(values.value(1).is_some() && values.value(2).is_none());
}
