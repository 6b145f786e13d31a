//! What is refused, and what lies at the edges of a node.

use super::{each_engine, rows, value_of};
use crate::index::{
    Found, Index, IndexError, KEY_BYTES_MAX, Keys, Snapshot, Tree, TreeOptions, VALUE_BYTES_MAX,
    Values, Write,
};

#[test]
fn lengths_that_no_engine_takes_are_refused_and_change_nothing() {
    each_engine(|index| {
        let long = vec![1; KEY_BYTES_MAX + 1];
        for key in [&b""[..], &long] {
            let writes = [
                Write::Put {
                    key: b"fine",
                    value: b"1",
                },
                Write::Put { key, value: b"2" },
            ];
            let refused = index.apply(&writes);
            assert!(
                matches!(refused, Err(IndexError::KeyLength { .. })),
                "{refused:?}"
            );
            assert!(matches!(
                index.delete(key),
                Err(IndexError::KeyLength { .. })
            ));
        }
        let value = vec![0; VALUE_BYTES_MAX + 1];
        let refused = index.put(b"key", &value);
        assert!(
            matches!(refused, Err(IndexError::ValueLength { .. })),
            "{refused:?}"
        );
        let mut session = index.session().expect("the first");
        assert_eq!(rows(&mut *session, b"", 10), []);
        assert_eq!(value_of(&mut *session, b""), None);
        assert_eq!(value_of(&mut *session, &long), None);
        assert_eq!(rows(&mut *session, &long, 10), []);
    });
}

#[test]
fn the_longest_keys_and_values_are_taken() {
    each_engine(|index| {
        let keys: Vec<_> = (0..60u8)
            .map(|last| {
                let mut key = vec![7; KEY_BYTES_MAX];
                key[KEY_BYTES_MAX - 1] = last;
                key
            })
            .collect();
        for (at, key) in keys.iter().enumerate() {
            index.put(key, &vec![at as u8; 512]).expect("writes");
        }
        let mut session = index.session().expect("the first");
        assert_eq!(rows(&mut *session, b"", 100).len(), 60);
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(value_of(&mut *session, key), Some(vec![at as u8; 512]));
        }
        if !cfg!(miri) {
            let long = vec![3; VALUE_BYTES_MAX];
            index.put(&keys[9], &long).expect("writes");
            let mut value = vec![0; VALUE_BYTES_MAX];
            let found = session.get(&keys[9], &mut value).expect("reads");
            assert_eq!(found, Found::Whole(VALUE_BYTES_MAX as u32));
            assert!(value == long);
        }
    });
}

#[test]
fn memory_that_is_too_small_is_refused() {
    each_engine(|index| {
        let (mut bytes, mut found) = ([0; 15], [Found::Absent; 2]);
        assert!(Values::new(&mut bytes, 8, &mut found).is_err());
        let mut values = Values::new(&mut bytes, 7, &mut found).expect("room for two");
        let mut session = index.session().expect("the first");
        let refused = session.get_batch(Keys::Eight(&[[0; 8]; 3]), &mut values);
        assert!(
            matches!(refused, Err(IndexError::Layout { keys: 3, .. })),
            "{refused:?}"
        );
    });
}

#[test]
fn a_session_holds_one_snapshot() {
    each_engine(|index| {
        index.put(b"key", b"old").expect("writes");
        let mut session = index.session().expect("the first");
        {
            let mut snapshot = Snapshot::of(&mut *session).expect("holds none");
            assert!(matches!(snapshot.hold(), Err(IndexError::Held)));
            index.put(b"key", b"new").expect("writes");
            assert_eq!(value_of(&mut *snapshot, b"key"), Some(b"old".to_vec()));
        }
        assert_eq!(value_of(&mut *session, b"key"), Some(b"new".to_vec()));
    });
}

#[test]
fn a_scan_ends_where_its_caller_breaks() {
    each_engine(|index| {
        for key in 0..100u64 {
            index.put(&key.to_be_bytes(), b"").expect("writes");
        }
        let mut session = index.session().expect("the first");
        let mut seen = 0;
        let count = session.scan(&[], 100, &mut |_, _| {
            seen += 1;
            match seen < 7 {
                true => std::ops::ControlFlow::Continue(()),
                false => std::ops::ControlFlow::Break(()),
            }
        });
        assert_eq!((count.expect("reads"), seen), (7, 7));
        assert_eq!(rows(&mut *session, &[], 0), []);
    });
}

#[test]
fn sessions_end_and_begin() {
    let options = TreeOptions {
        sessions_max: 2,
        ..TreeOptions::default()
    };
    let tree = Tree::new(options).expect("memory");
    let first = tree.session().expect("the first");
    let _second = tree.session().expect("the second");
    assert!(matches!(
        tree.session(),
        Err(IndexError::Sessions { max: 2 })
    ));
    drop(first);
    tree.session().expect("one is free again");
}

#[test]
fn a_snapshot_fills_what_versions_may_take_and_nothing_breaks() {
    let options = TreeOptions {
        versions_bytes_max: 1 << 18,
        ..TreeOptions::default()
    };
    let tree = Tree::new(options).expect("memory");
    tree.put(b"key", b"first").expect("writes");
    let mut session = tree.session().expect("the first");
    session.hold().expect("holds none");
    let mut last = b"first".to_vec();
    let full = loop {
        let next = [&last[..], b"."].concat();
        let next = if next.len() > 100 {
            b"again".to_vec()
        } else {
            next
        };
        match tree.put(b"key", &next) {
            Ok(_) => last = next,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, IndexError::Full { .. }), "{full}");
    assert_eq!(value_of(&mut *session, b"key"), Some(b"first".to_vec()));
    session.release();
    assert_eq!(value_of(&mut *session, b"key"), Some(last));
    tree.put(b"key", b"more")
        .expect("versions that nobody needs are gone");
}

#[test]
fn memory_is_used_again() {
    let tree = Tree::new(TreeOptions::default()).expect("memory");
    let (rounds, keys) = if cfg!(miri) { (3, 60u64) } else { (30, 5000) };
    let mut bytes = Vec::new();
    for round in 0..rounds {
        let value = vec![round as u8; 100 + 500 * (round % 2)];
        for key in 0..keys {
            let key = (key + round as u64 * keys).to_be_bytes();
            tree.put(&key, &value).expect("writes");
        }
        for key in 0..keys {
            let key = (key + round as u64 * keys).to_be_bytes();
            tree.delete(&key).expect("writes");
        }
        bytes.push(tree.usage().expect("counts").bytes);
    }
    assert_eq!(tree.usage().expect("counts").keys, 0);
    let early = bytes[rounds / 3 + 1];
    assert!(bytes[rounds - 1] <= early + early / 4, "{bytes:?}");
}
