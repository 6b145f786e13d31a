//! Random operations against a `BTreeMap`, and snapshots against copies of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{each_engine, rows, value_of};
use crate::index::tree::fault::Fault;
use crate::index::{
    Found, Index, KeyRange, Keys, Reads, Session, Snapshot, Tree, TreeOptions, Values, Write,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key by a number: of eight bytes, or of other lengths with much in common.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Eight,
    /// Scattered over all heads.
    Scattered,
    /// Lengths from 1 to 20, with few heads.
    Alike,
    /// Parts of several lengths, one behind another, so that keys share beginnings of all lengths; every third key is cut to eight bytes.
    Nested,
}

impl Shape {
    fn key(self, number: u16) -> Vec<u8> {
        let number = u64::from(number);
        match self {
            Self::Eight => number.to_be_bytes().to_vec(),
            Self::Scattered => (number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .to_be_bytes()
                .to_vec(),
            Self::Alike => {
                let mut key =
                    b"user0000\x00\x00000000000000"[..=(number as usize * 7) % 20].to_vec();
                key.extend_from_slice(&number.to_be_bytes()[6..]);
                key
            }
            Self::Nested => {
                const PARTS: [&[u8]; 5] = [
                    b"\0",
                    b"\0\0\0\0\0\0\0\0\0",
                    b"aaaaaaaaaaa",
                    b"aaaaaaaaaab",
                    b"\xff",
                ];
                let digits = (0..7).map(|digit| number / 5u64.pow(6 - digit) % 5);
                let mut key: Vec<u8> = digits
                    .flat_map(|digit| PARTS[digit as usize])
                    .copied()
                    .collect();
                if number.is_multiple_of(3) {
                    key.truncate(8);
                }
                key
            }
        }
    }
}

/// What is done. Keys are numbers.
#[derive(Clone, Debug)]
enum Step {
    Put(u16, usize),
    Delete(u16),
    /// Many puts in one transaction: from a number on, each `stride` further.
    Fill(u16, u16, u16, usize),
    /// As many deletes.
    Clear(u16, u16, u16),
    /// Puts and deletes of few keys in one transaction, some of them twice.
    Mixed(Vec<(u8, Option<usize>)>),
    Get(u16),
    Batch(Vec<u16>),
    Scan(u16, usize),
    Hold,
    Release(usize),
    /// Reads of a snapshot that is held.
    Old(usize, u16),
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![
        6 => 0usize..120,
        1 => Just(512usize),
        1 => Just(513usize),
        1 => 514usize..9000,
    ];
    let many = if cfg!(miri) { 40u16 } else { 700 };
    prop_oneof![
        4 => (any::<u16>(), len.clone()).prop_map(|(key, len)| Step::Put(key, len)),
        2 => any::<u16>().prop_map(Step::Delete),
        3 => (any::<u16>(), 1..many, 1u16..90, 0usize..200)
            .prop_map(|(from, count, stride, len)| Step::Fill(from, count, stride, len)),
        2 => (any::<u16>(), 1..many, 1u16..90)
            .prop_map(|(from, count, stride)| Step::Clear(from, count, stride)),
        2 => proptest::collection::vec((any::<u8>(), proptest::option::of(len)), 1..40)
            .prop_map(Step::Mixed),
        2 => any::<u16>().prop_map(Step::Get),
        2 => proptest::collection::vec(any::<u16>(), 0..100).prop_map(Step::Batch),
        2 => (any::<u16>(), 0usize..300).prop_map(|(from, limit)| Step::Scan(from, limit)),
        2 => Just(Step::Hold),
        1 => any::<usize>().prop_map(Step::Release),
        3 => (any::<usize>(), any::<u16>()).prop_map(|(which, from)| Step::Old(which, from)),
    ]
}

/// Values tell their key and the time at which they were written.
fn value(number: u16, time: usize, len: usize) -> Vec<u8> {
    let seed = u64::from(number) << 32 | time as u64;
    let mut random = dpb_core::random::SplitMix64::new(seed);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

struct Run {
    index: Arc<dyn Index>,
    shape: Shape,
    session: Box<dyn Session>,
    model: Model,
    held: Vec<(Snapshot<Box<dyn Session>>, Model)>,
    time: usize,
}

impl Run {
    fn apply(&mut self, writes: &[(u16, Option<usize>)]) {
        self.time += 1;
        let owned: Vec<(Vec<u8>, Option<Vec<u8>>)> = (writes.iter())
            .map(|(number, len)| {
                let value = len.map(|len| value(*number, self.time, len));
                (self.shape.key(*number), value)
            })
            .collect();
        let writes: Vec<Write<'_>> = (owned.iter())
            .map(|(key, value)| match value {
                Some(value) => Write::Put { key, value },
                None => Write::Delete { key },
            })
            .collect();
        self.index.apply(&writes).expect("writes");
        for (key, value) in owned {
            match value {
                Some(value) => self.model.insert(key, value),
                None => self.model.remove(&key),
            };
        }
    }

    fn step(&mut self, step: &Step) {
        let along = |from: u16, count: u16, stride: u16| {
            (0..count).map(move |at| from.wrapping_add(at.wrapping_mul(stride)))
        };
        match step {
            Step::Put(key, len) => self.apply(&[(*key, Some(*len))]),
            Step::Delete(key) => self.apply(&[(*key, None)]),
            Step::Fill(from, count, stride, len) => {
                let writes: Vec<_> = along(*from, *count, *stride)
                    .map(|key| (key, Some(*len)))
                    .collect();
                self.apply(&writes);
            }
            Step::Clear(from, count, stride) => {
                let writes: Vec<_> = along(*from, *count, *stride)
                    .map(|key| (key, None))
                    .collect();
                self.apply(&writes);
            }
            Step::Mixed(writes) => {
                let writes: Vec<_> = (writes.iter())
                    .map(|(key, len)| (u16::from(*key), *len))
                    .collect();
                self.apply(&writes);
            }
            Step::Get(key) => {
                let key = self.shape.key(*key);
                assert_eq!(
                    value_of(&mut *self.session, &key).as_ref(),
                    self.model.get(&key)
                );
            }
            Step::Batch(numbers) => {
                let keys: Vec<_> = numbers.iter().map(|key| self.shape.key(*key)).collect();
                check_batch(&mut *self.session, &keys, &self.model);
            }
            Step::Scan(from, limit) => {
                let (from, to) = (
                    self.shape.key(*from),
                    self.shape.key(from.wrapping_add(500)),
                );
                for range in [KeyRange::from(&from), KeyRange::from(&from).before(&to)] {
                    check_scan(&mut *self.session, range, *limit, &self.model);
                }
            }
            Step::Hold if self.held.len() < 4 => {
                let session = self.index.clone().session().expect("few sessions");
                let snapshot = Snapshot::of(session).expect("holds nothing yet");
                self.held.push((snapshot, self.model.clone()));
            }
            Step::Hold => {}
            Step::Release(which) => {
                if !self.held.is_empty() {
                    let which = which % self.held.len();
                    let (snapshot, _) = self.held.swap_remove(which);
                    let mut session = snapshot.release();
                    check_all(&mut *session, &self.model);
                }
            }
            Step::Old(which, from) => {
                if !self.held.is_empty() {
                    let which = which % self.held.len();
                    let (snapshot, model) = &mut self.held[which];
                    let numbers = along(*from, 40, 331);
                    let keys: Vec<_> = numbers.map(|key| self.shape.key(key)).collect();
                    check_batch(snapshot, &keys, model);
                    check_scan(snapshot, KeyRange::from(&keys[0]), 100, model);
                    check_scan(
                        snapshot,
                        KeyRange::after(&keys[1]).through(&keys[9]),
                        100,
                        model,
                    );
                    check_all(snapshot, model);
                }
            }
        }
    }
}

fn check_scan(session: &mut dyn Reads, range: KeyRange<'_>, limit: usize, model: &Model) {
    let expected: Vec<_> = (model.iter())
        .filter(|(key, _)| range.contains(key))
        .take(limit)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert!(rows(session, range, limit) == expected, "{range:?}");
}

fn check_all(session: &mut dyn Reads, model: &Model) {
    check_scan(session, KeyRange::ALL, usize::MAX, model);
}

fn check_batch(session: &mut dyn Reads, keys: &[Vec<u8>], model: &Model) {
    const ROOM: usize = 600;
    let (mut bytes, mut found) = (vec![0; ROOM * keys.len()], vec![Found::Absent; keys.len()]);
    let mut values = Values::new(&mut bytes, ROOM, &mut found).expect("laid out for it");
    let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let eight: Option<Vec<[u8; 8]>> = (slices.iter()).map(|key| (*key).try_into().ok()).collect();
    match &eight {
        Some(eight) => session.get_batch(Keys::Eight(eight), &mut values),
        None => session.get_batch(Keys::Slices(&slices), &mut values),
    }
    .expect("reads");
    for (at, key) in keys.iter().enumerate() {
        match model.get(key) {
            Some(value) if value.len() > ROOM => {
                assert_eq!(values.found(at), Found::Cut(value.len() as u32));
            }
            value => assert_eq!(values.value(at), value.map(|value| &value[..]), "{key:?}"),
        }
    }
}

/// `after` is called behind each step.
fn run(index: Arc<dyn Index>, shape: Shape, steps: &[Step], after: &dyn Fn()) {
    let mut run = Run {
        session: index.clone().session().expect("the first"),
        index,
        shape,
        model: Model::new(),
        held: Vec::new(),
        time: 0,
    };
    for step in steps {
        run.step(step);
        after();
    }
    check_all(&mut *run.session, &run.model);
    for (snapshot, model) in &mut run.held {
        check_all(snapshot, model);
    }
    let keys = run.index.usage().expect("reads").keys;
    assert_eq!(keys, run.model.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 64 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn engines_do_what_a_map_does(
        shape in prop_oneof![
            1 => Just(Shape::Eight),
            1 => Just(Shape::Scattered),
            1 => Just(Shape::Alike),
            2 => Just(Shape::Nested),
        ],
        steps in proptest::collection::vec(step(), 1..if cfg!(miri) { 20 } else { 120 }),
    ) {
        each_engine(|index| run(index, shape, &steps, &|| ()));
        // Deep, of few keys.
        let narrow = Tree::with_fault(TreeOptions::default(), Fault::None, 8);
        let narrow = Arc::new(narrow.expect("memory"));
        run(narrow.clone(), shape, &steps, &|| drop(narrow.walk()));
    }
}

#[test]
fn heads_leave_out_what_the_keys_of_a_leaf_share() {
    // 70 bytes that are alike, and some that are not.
    let key = |number: u32| {
        let mut key = vec![b'k'; 70];
        key.extend_from_slice(&number.to_be_bytes());
        key
    };
    let tree = Tree::new(TreeOptions::default()).expect("memory");
    let keys: Vec<Vec<u8>> = (0..if cfg!(miri) { 200 } else { 6000 }).map(key).collect();
    for key in &keys {
        tree.put(key, b"value").expect("writes");
    }
    let walked = tree.walk();
    let inside = &walked.skips[1..walked.skips.len() - 1];
    assert!(!inside.is_empty());
    for (skip, alike) in inside {
        assert!(*skip >= 70 && *alike == 0, "{skip} {alike}");
    }
    // The root leaves nothing out, so what separates there is longer than a head.
    assert!(walked.chains > 0);
    // What merges takes bytes back, and gives chains back.
    for key in &keys[..keys.len() - 3] {
        tree.delete(key).expect("writes");
    }
    for _ in 0..keys.len() {
        tree.put(&keys[keys.len() - 1], b"value").expect("writes");
    }
    let walked = tree.walk();
    assert_eq!((walked.skips.len(), walked.chains), (1, 0), "{walked:?}");
    assert_eq!(walked.skips[0].0, 0);
}
