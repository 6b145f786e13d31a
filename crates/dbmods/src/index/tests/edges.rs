//! What is refused, and what lies at the edges of a node.

use std::sync::Arc;

use super::{each_engine, rows, tree, value_of};
use crate::index::tree::fault;
use crate::index::{
    Found, Index, IndexError, KEY_BYTES_MAX, KeyRange, Keys, Reads, Snapshot, Tree, TreeOptions,
    VALUE_BYTES_MAX, Values, Write,
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
        let mut session = index.clone().session().expect("the first");
        assert_eq!(rows(&mut *session, KeyRange::ALL, 10), []);
        assert_eq!(value_of(&mut *session, b""), None);
        assert_eq!(value_of(&mut *session, &long), None);
        assert_eq!(rows(&mut *session, KeyRange::from(&long), 10), []);
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
        let mut session = index.clone().session().expect("the first");
        assert_eq!(rows(&mut *session, KeyRange::ALL, 100).len(), 60);
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
        let mut session = index.clone().session().expect("the first");
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
        let mut session = index.clone().session().expect("the first");
        {
            let mut snapshot = Snapshot::of(&mut *session).expect("holds none");
            index.put(b"key", b"new").expect("writes");
            assert_eq!(value_of(&mut snapshot, b"key"), Some(b"old".to_vec()));
        }
        assert_eq!(value_of(&mut *session, b"key"), Some(b"new".to_vec()));
        std::mem::forget(Snapshot::of(&mut *session).expect("holds none"));
        assert!(matches!(Snapshot::of(session), Err(IndexError::Held)));
    });
}

#[test]
fn a_scan_ends_where_its_caller_breaks() {
    each_engine(|index| {
        for key in 0..100u64 {
            index.put(&key.to_be_bytes(), b"").expect("writes");
        }
        let mut session = index.clone().session().expect("the first");
        let mut seen = 0;
        let count = session.scan(KeyRange::ALL, 100, &mut |_, _| {
            seen += 1;
            match seen < 7 {
                true => std::ops::ControlFlow::Continue(()),
                false => std::ops::ControlFlow::Break(()),
            }
        });
        assert_eq!((count.expect("reads"), seen), (7, 7));
        assert_eq!(rows(&mut *session, KeyRange::ALL, 0), []);
    });
}

#[test]
fn sessions_end_and_begin() {
    let options = TreeOptions {
        sessions_max: 2,
        ..TreeOptions::default()
    };
    let tree = tree(options);
    let first = tree.clone().session().expect("the first");
    let _second = tree.clone().session().expect("the second");
    assert!(matches!(
        tree.clone().session(),
        Err(IndexError::Sessions { max: 2 })
    ));
    drop(first);
    tree.clone().session().expect("one is free again");
}

#[test]
fn a_snapshot_fills_what_versions_may_take_and_nothing_breaks() {
    let options = TreeOptions {
        versions_bytes_max: if cfg!(miri) { 1 << 14 } else { 1 << 18 },
        ..TreeOptions::default()
    };
    let tree = tree(options);
    tree.put(b"key", b"first").expect("writes");
    let session = tree.clone().session().expect("the first");
    let mut snapshot = Snapshot::of(session).expect("holds none");
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
    assert_eq!(value_of(&mut snapshot, b"key"), Some(b"first".to_vec()));
    let mut session = snapshot.release();
    assert_eq!(value_of(&mut *session, b"key"), Some(last));
    tree.put(b"key", b"more")
        .expect("versions that nobody needs are gone");
}

/// Puts and deletes of ranges of keys that move on, so many keys a transaction.
fn memory_is_used_again(together: usize, holds: bool) {
    let tree = tree(TreeOptions::default());
    let (rounds, keys) = if cfg!(miri) { (4, 32u64) } else { (30, 5000) };
    let session = tree.clone().session().expect("the first");
    let mut snapshot = holds.then(|| Snapshot::of(session).expect("holds none"));
    let mut bytes = Vec::new();
    for round in 0..rounds {
        let value = vec![round as u8; 100 + 500 * (round % 2)];
        let keys: Vec<_> = (0..keys)
            .map(|key| (key + round as u64 * keys).to_be_bytes())
            .collect();
        for keys in keys.chunks(together) {
            let writes: Vec<_> = (keys.iter())
                .map(|key| Write::Put { key, value: &value })
                .collect();
            tree.apply(&writes).expect("writes");
        }
        for keys in keys.chunks(together) {
            let writes: Vec<_> = keys.iter().map(|key| Write::Delete { key }).collect();
            tree.apply(&writes).expect("writes");
        }
        if round == rounds / 10 {
            // What it held goes on the way.
            snapshot = None;
        }
        bytes.push(tree.usage().expect("counts").bytes);
    }
    drop(snapshot);
    assert_eq!(tree.usage().expect("counts").keys, 0);
    let early = bytes[rounds / 3 + 1];
    assert!(bytes[rounds - 1] <= early + early / 4, "{bytes:?}");
    let mut session = tree.clone().session().expect("the first");
    assert_eq!(rows(&mut *session, KeyRange::ALL, 10), []);
    for _ in 0..together {
        tree.apply(&[]).expect("writes nothing");
    }
    let left = tree.usage().expect("counts").versions_bytes;
    assert!(left <= 1 << 17, "{left} bytes of versions are left");
}

#[test]
fn memory_of_single_writes_is_used_again() {
    memory_is_used_again(1, false);
}

#[test]
fn memory_of_transactions_is_used_again() {
    memory_is_used_again(64, false);
}

#[test]
fn memory_is_used_again_after_a_snapshot() {
    memory_is_used_again(64, true);
}

#[test]
fn a_snapshot_bounds_long_values_too() {
    const MAX: usize = if cfg!(miri) { 1 << 16 } else { 1 << 20 };
    for len in [1000, 100_000] {
        let tree = tree(TreeOptions {
            versions_bytes_max: MAX,
            ..TreeOptions::default()
        });
        tree.put(b"key", &vec![1; len]).expect("writes");
        let snapshot = Snapshot::of(tree.clone().session().expect("the first"));
        let mut snapshot = snapshot.expect("holds none");
        let mut writes = 0;
        let full = loop {
            match tree.put(b"key", &vec![2; len]) {
                Ok(_) => writes += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, IndexError::Full { .. }), "{full}");
        assert!(writes * len <= MAX + len, "{writes} values of {len} bytes");
        let usage = tree.usage().expect("counts");
        assert!(
            usage.bytes <= (2 * MAX + 2 * len + (1 << 17)) as u64,
            "{usage:?}"
        );
        assert_eq!(value_of(&mut snapshot, b"key"), Some(vec![1; len]));
        drop(snapshot);
        tree.put(b"key", &vec![3; len])
            .expect("nobody needs versions");
    }
}

/// A transaction that replaces more than versions may take succeeds where nobody reads the old ones.
#[cfg(not(miri))]
#[test]
fn without_a_snapshot_versions_have_room() {
    let tree = tree(TreeOptions {
        versions_bytes_max: 1 << 18,
        ..TreeOptions::default()
    });
    let value = vec![1; 1 << 20];
    for _ in 0..5 {
        tree.put(b"key", &value).expect("writes");
    }
    assert!(tree.usage().expect("counts").bytes < 4 << 20);
}

/// A writer that overwrites a key of the leaf all the time keeps no scan over long values from its end.
#[cfg(not(miri))]
#[test]
fn a_scan_of_long_values_ends_while_its_leaf_changes() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let tree = tree(TreeOptions::default());
    for key in 0..100u8 {
        tree.put(&[key; 8], &vec![key; 100_000]).expect("writes");
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                tree.put(&[50; 8], &[50; 600]).expect("writes");
            }
        });
        let mut session = tree.clone().session().expect("the first");
        for _ in 0..3 {
            let rows = rows(&mut *session, KeyRange::ALL, 100);
            assert_eq!(rows.len(), 100);
            for (key, value) in rows {
                let is_whole = value.len() == 600 || value.len() == 100_000;
                assert!(
                    is_whole && value.iter().all(|byte| *byte == key[0]),
                    "{key:?}"
                );
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Keys that are prefixes of each other, and bounds at, between and beyond them.
#[test]
fn ranges_are_those_of_a_sorted_list() {
    let longest = vec![9; KEY_BYTES_MAX];
    let longer = vec![9; KEY_BYTES_MAX + 1];
    let mut keys: Vec<Vec<u8>> = (0..200u8).map(|key| vec![key / 40, key % 40]).collect();
    keys.extend((0..5u8).map(|key| vec![key]));
    keys.extend((0..9).map(|zeroes| [&[2, 7][..], &vec![0; zeroes]].concat()));
    keys.push(longest.clone());
    keys.sort();
    keys.dedup();
    let mut ends = keys.clone();
    ends.extend([
        vec![],
        vec![2, 7, 1],
        vec![200],
        longer,
        [&longest[..], &[0]].concat(),
    ]);
    let ends: Vec<Vec<u8>> = ends
        .into_iter()
        .step_by(if cfg!(miri) { 80 } else { 3 })
        .collect();
    each_engine(|index| {
        for key in &keys {
            index.put(key, key).expect("writes");
        }
        let mut session = index.session().expect("the first");
        for start in &ends {
            for end in &ends {
                let ranges = [
                    KeyRange::from(start).before(end),
                    KeyRange::from(start).through(end),
                    KeyRange::after(start).before(end),
                    KeyRange::after(start).through(end),
                    KeyRange::after(start),
                    KeyRange::ALL.through(end),
                ];
                for range in ranges {
                    let expected = keys.iter().filter(|key| range.contains(key));
                    let found = rows(&mut *session, range, usize::MAX);
                    let found = found.iter().map(|(key, _)| key);
                    assert!(found.eq(expected), "{range:?}");
                }
            }
        }
    });
}

/// The usual ways to go on behind a row, at every page and with the longest keys.
#[test]
fn a_scan_goes_on_behind_its_last_key() {
    let keys: Vec<Vec<u8>> = (0..if cfg!(miri) { 12 } else { 40u8 })
        .map(|last| [&vec![7; KEY_BYTES_MAX - 1][..], &[last]].concat())
        .collect();
    each_engine(|index| {
        for key in &keys {
            index.put(key, b"").expect("writes");
        }
        let mut session = index.session().expect("the first");
        for page in [1, 7, 40, 41] {
            let (mut last, mut found) = (Vec::new(), Vec::new());
            loop {
                let range = match found.len() % 2 {
                    0 => KeyRange::after(&last),
                    _ => {
                        last.push(0);
                        KeyRange::from(&last)
                    }
                };
                let rows = rows(&mut *session, range, page);
                let Some((key, _)) = rows.last() else { break };
                last = key.clone();
                found.extend(rows.into_iter().map(|(key, _)| key));
            }
            assert_eq!(found, keys, "{page} a page");
        }
    });
}

#[test]
fn calls_say_which_state_they_read() {
    each_engine(|index| {
        let mut session = index.clone().session().expect("the first");
        let mut held = index.clone().session().expect("the second");
        let mut before = 0;
        for round in 0..if cfg!(miri) { 3 } else { 20u8 } {
            let state = index.put(b"key", &[round]).expect("writes");
            assert!(state > before, "{state} after {before}");
            let same = index.delete(b"none").expect("changes nothing");
            assert!((state..=state + 1).contains(&same), "{same} after {state}");
            let mut snapshot = Snapshot::of(&mut *held).expect("holds none");
            assert!(snapshot.state() >= same);
            index.put(b"key", b"later").expect("writes");
            assert_eq!(value_of(&mut snapshot, b"key"), Some(vec![round]));
            assert_eq!(snapshot.state(), state, "{}", index.name());
            assert_eq!(value_of(&mut *session, b"key"), Some(b"later".to_vec()));
            assert!(session.state() > state);
            assert_eq!(snapshot.renew().expect("holds anew"), session.state());
            assert_eq!(value_of(&mut snapshot, b"key"), Some(b"later".to_vec()));
            before = snapshot.state();
            let usage = index.usage().expect("reads");
            assert_eq!(
                (usage.newest, usage.oldest, usage.sessions),
                (before, before, 2)
            );
        }
    });
}

#[test]
fn a_range_is_emptied_in_steps() {
    // Miri takes some hundred times as long.
    let tenth = if cfg!(miri) { 5 } else { 50 };
    each_engine(|index| {
        let key_of = |key: u64| key.to_be_bytes();
        for key in 0..10 * tenth {
            index.put(&key_of(key), &[1; 50]).expect("writes");
        }
        let mut session = index.clone().session().expect("the first");
        let snapshot = Snapshot::of(index.clone().session().expect("the second"));
        let mut snapshot = snapshot.expect("holds none");
        let (from, to) = (key_of(2 * tenth), key_of(7 * tenth));
        let range = KeyRange::from(&from).before(&to);
        let (step, half) = (16 * tenth as usize / 10, 5 * tenth as usize);
        let mut taken = Vec::new();
        loop {
            let deleted = index.delete_range(range, step).expect("deletes");
            let left = rows(&mut *session, range, usize::MAX).len();
            assert!(session.state() >= deleted.state);
            taken.push(deleted.keys);
            assert_eq!(taken.iter().sum::<usize>() + left, half);
            if deleted.keys < step {
                break;
            }
        }
        assert_eq!(taken, [step, step, step, half - 3 * step]);
        assert_eq!(rows(&mut *session, KeyRange::ALL, usize::MAX).len(), half);
        assert_eq!(
            rows(&mut snapshot, KeyRange::ALL, usize::MAX).len(),
            2 * half
        );
        assert_eq!(index.usage().expect("reads").keys as usize, half);
        let before = index.usage().expect("reads").newest;
        let deleted = index.delete_range(range, step).expect("deletes");
        assert_eq!(
            (deleted.keys, deleted.state),
            (0, before),
            "{}",
            index.name()
        );
    });
}

#[test]
fn offsets_that_lie_outside_of_the_keys_are_refused() {
    each_engine(|index| {
        index.put(b"key", b"value").expect("writes");
        let mut session = index.session().expect("the first");
        let (mut bytes, mut found) = ([0; 40], [Found::Whole(8); 4]);
        let bytes_of_keys = b"keykenone";
        for offsets in [&[0, 3, 2][..], &[0, 10], &[9, 10], &[u32::MAX, u32::MAX]] {
            let keys = Keys::Offsets {
                bytes: bytes_of_keys,
                offsets,
            };
            let mut values = Values::new(&mut bytes, 10, &mut found).expect("room for four");
            let refused = session.get_batch(keys, &mut values);
            assert!(
                matches!(refused, Err(IndexError::Offsets { .. })),
                "{refused:?}"
            );
        }
        let keys = Keys::Offsets {
            bytes: bytes_of_keys,
            offsets: &[0, 3, 5, 9],
        };
        let mut values = Values::new(&mut bytes, 10, &mut found).expect("room for four");
        session.get_batch(keys, &mut values).expect("reads");
        assert_eq!(values.value(0), Some(&b"value"[..]));
        // The fourth was never asked for.
        assert_eq!(
            (1..4).map(|at| values.found(at)).collect::<Vec<_>>(),
            [Found::Absent; 3]
        );
    });
}

/// A caller that panics in the middle of a scan does not keep the writer from using memory again.
#[test]
fn a_scan_that_panics_reads_no_state_any_more() {
    let tree = tree(TreeOptions::default());
    tree.put(b"key", b"value").expect("writes");
    let mut session = tree.clone().session().expect("the first");
    let scan = std::panic::AssertUnwindSafe(|| {
        session.scan(KeyRange::ALL, 1, &mut |_, _| panic!("on purpose"))
    });
    assert!(std::panic::catch_unwind(scan).is_err());
    let state = tree.put(b"key", b"other").expect("writes");
    assert_eq!(tree.usage().expect("counts").oldest, state);
    assert_eq!(value_of(&mut *session, b"key"), Some(b"other".to_vec()));
}

/// A last word of a thread that unwinds for a reason of its own is a write like any other.
#[test]
fn a_write_while_the_thread_unwinds_breaks_nothing() {
    struct LastWord(Arc<Tree>);

    impl Drop for LastWord {
        fn drop(&mut self) {
            self.0.put(b"last", b"word").expect("writes");
        }
    }

    let tree = tree(TreeOptions::default());
    let word = LastWord(Arc::clone(&tree));
    let unwinds = std::panic::AssertUnwindSafe(move || {
        let _word = word;
        panic!("on purpose")
    });
    assert!(std::panic::catch_unwind::<_, ()>(unwinds).is_err());
    tree.put(b"next", b"word").expect("the tree is whole");
    let mut session = tree.session().expect("the first");
    assert_eq!(value_of(&mut *session, b"last"), Some(b"word".to_vec()));
}

#[test]
fn a_batch_finds_keys_with_one_head_in_the_leaf_that_it_has() {
    // The first bytes are alike, and the leaf has open fences, so no head leaves them out.
    let keys: Vec<Vec<u8>> = (0..20u8)
        .map(|at| [b"aaaaaaaa/", &[at][..]].concat())
        .collect();
    let index = tree(TreeOptions::default());
    for key in &keys {
        index.put(key, key).expect("writes");
    }
    let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let (mut bytes, mut found) = (vec![0; 16 * keys.len()], vec![Found::Absent; keys.len()]);
    let mut values = Values::new(&mut bytes, 16, &mut found).expect("laid out for it");
    let mut session = index.session().expect("the first");
    let before = fault::ways();
    session
        .get_batch(Keys::Slices(&slices), &mut values)
        .expect("reads");
    assert_eq!(fault::ways(), before, "no key went down alone");
    for (at, key) in slices.iter().enumerate() {
        assert_eq!(values.value(at), Some(*key));
    }
}
