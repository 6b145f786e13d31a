//! Histories of threads that read, write and scan at once, given to the [checker](super::checker). Mistakes that are planted must be found.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dpb_core::random::SplitMix64;

use super::checker::{Read, Transaction, check};
use crate::index::tree::fault::Fault;
use crate::index::{
    Found, Index, KeyRange, Keys, Reads, Snapshot, Tree, TreeOptions, Values, Write,
};

/// Keys that threads share: some twenty leaves with values of a hundred bytes.
const KEYS: u64 = if cfg!(miri) { 40 } else { 600 };
/// Bytes of a value, at most: those above 512 lie in extents.
const VALUE_MAX: usize = 700;
/// A value that nobody wrote: its parts differ.
const TORN: u64 = u64::MAX;

/// How much is done.
#[derive(Clone, Copy)]
struct Size {
    writers: u64,
    transactions: u64,
    readers: u64,
    reads: u64,
}

const SIZE: Size = Size {
    writers: 2,
    transactions: if cfg!(miri) { 15 } else { 1500 },
    readers: 2,
    reads: if cfg!(miri) { 15 } else { 1500 },
};

/// A value that says which it is in all of its parts, and whose length changes.
fn value_of(number: u64) -> Vec<u8> {
    let parts = match number % 16 {
        0 => 70 + number as usize % 9,
        1..8 => 12,
        parts => parts as usize,
    };
    number.to_be_bytes().repeat(parts)
}

/// The number of a value, or [`TORN`].
fn number_of(value: &[u8]) -> u64 {
    let (parts, rest) = value.as_chunks::<8>();
    let number = parts.first().map_or(TORN, |part| u64::from_be_bytes(*part));
    match rest.is_empty() && *value == value_of(number)[..] {
        true => number,
        false => TORN,
    }
}

/// Keys spread over the heads, so that they are no neighbours in a group alone.
fn key_of(key: u64) -> [u8; 8] {
    (key << 32).to_be_bytes()
}

struct World {
    index: Arc<dyn Index>,
    /// Time: it counts what happens.
    clock: AtomicU64,
}

impl World {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn write(&self, writer: u64, size: Size, seed: u64) -> Vec<Transaction> {
        let mut random = SplitMix64::new(seed);
        let mut done = Vec::new();
        for round in 0..size.transactions {
            let writes = random_writes(&mut random, (writer << 32 | round) << 8);
            let owned: Vec<_> = (writes.iter())
                .map(|(key, number)| (key_of(*key), number.map(value_of)))
                .collect();
            let writes_given: Vec<_> = (owned.iter())
                .map(|(key, value)| match value {
                    Some(value) => Write::Put { key, value },
                    None => Write::Delete { key },
                })
                .collect();
            let began = self.now();
            let number = self.index.apply(&writes_given).expect("writes");
            let ended = self.now();
            done.push(Transaction {
                number,
                began,
                ended,
                writes,
            });
        }
        done
    }

    fn read(&self, size: Size, seed: u64) -> Vec<Read> {
        let mut random = SplitMix64::new(seed);
        let mut session = self.index.clone().session().expect("few sessions");
        let mut done = Vec::new();
        for _ in 0..size.reads {
            let began = self.now();
            let mut seen = Vec::new();
            let ended = match random.below(4) {
                0 => {
                    let snapshot = Snapshot::of(&mut *session);
                    let mut snapshot = snapshot.expect("holds none");
                    // Its state is that of a moment up to now, whenever it is read.
                    let ended = self.now();
                    for _ in 0..1 + random.below(6) {
                        seen_by_call(&mut snapshot, &mut random, &mut seen);
                        std::thread::yield_now();
                    }
                    ended
                }
                _ => {
                    seen_by_call(&mut *session, &mut random, &mut seen);
                    self.now()
                }
            };
            done.push(Read { began, ended, seen });
        }
        done
    }
}

fn seen_by_call(
    session: &mut dyn Reads,
    random: &mut SplitMix64,
    seen: &mut Vec<(u64, Option<u64>)>,
) {
    match random.below(3) {
        0 => seen_by_get(session, random, seen),
        1 => seen_by_batch(session, random, seen),
        _ => seen_by_scan(session, random, seen),
    }
}

/// Few or many keys, near or far, given or taken away.
fn random_writes(random: &mut SplitMix64, number: u64) -> Vec<(u64, Option<u64>)> {
    let from = random.below(KEYS as usize) as u64;
    let (count, stride) = match random.below(6) {
        0 => (1, 1),
        1 => (40, 1),
        2 => (20, 31),
        _ => (6, 97),
    };
    let takes = random.below(3) == 0;
    let mut writes: Vec<_> = (0..count)
        .map(|at| {
            let key = (from + at * stride) % KEYS;
            (key, (!takes).then_some(number + at))
        })
        .collect();
    // A key behind those that are read, so that every transaction changes something and has a number of its own.
    writes.push((KEYS, Some(number + count)));
    writes
}

fn seen_by_get(
    session: &mut dyn Reads,
    random: &mut SplitMix64,
    seen: &mut Vec<(u64, Option<u64>)>,
) {
    let key = random.below(KEYS as usize) as u64;
    let mut value = [0; VALUE_MAX];
    let number = match session.get(&key_of(key), &mut value).expect("reads") {
        Found::Absent => None,
        Found::Whole(len) => Some(number_of(&value[..len as usize])),
        Found::Cut(_) => Some(TORN),
    };
    seen.push((key, number));
}

fn seen_by_batch(
    session: &mut dyn Reads,
    random: &mut SplitMix64,
    seen: &mut Vec<(u64, Option<u64>)>,
) {
    let count = 1 + random.below(50);
    let numbers: Vec<u64> = (0..count)
        .map(|_| random.below(KEYS as usize) as u64)
        .collect();
    let keys: Vec<_> = numbers.iter().map(|key| key_of(*key)).collect();
    let (mut bytes, mut found) = (vec![0; VALUE_MAX * count], vec![Found::Absent; count]);
    let mut values = Values::new(&mut bytes, VALUE_MAX, &mut found).expect("laid out for it");
    session
        .get_batch(Keys::Eight(&keys), &mut values)
        .expect("reads");
    for (at, key) in numbers.iter().enumerate() {
        let number = match values.found(at) {
            Found::Absent => None,
            Found::Whole(_) => values.value(at).map(number_of),
            Found::Cut(_) => Some(TORN),
        };
        seen.push((*key, number));
    }
}

fn seen_by_scan(
    session: &mut dyn Reads,
    random: &mut SplitMix64,
    seen: &mut Vec<(u64, Option<u64>)>,
) {
    let from = random.below(KEYS as usize) as u64;
    let limit = 1 + random.below(200);
    let mut next = from;
    let count = session.scan(KeyRange::from(&key_of(from)), limit, &mut |key, value| {
        let key = key
            .try_into()
            .map_or(TORN, |key| u64::from_be_bytes(key) >> 32);
        if key == KEYS {
            return ControlFlow::Continue(());
        }
        // Keys that the scan passed over are not there. A key out of order is seen with a value that nobody wrote.
        match key >= next && key < KEYS {
            true => {
                seen.extend((next..key).map(|absent| (absent, None)));
                seen.push((key, Some(number_of(value))));
                next = key + 1;
            }
            false => seen.push((0, Some(TORN))),
        }
        ControlFlow::Continue(())
    });
    if count.expect("reads") < limit {
        seen.extend((next..KEYS).map(|absent| (absent, None)));
    }
}

/// One history, and what the checker says of it.
fn history(index: Arc<dyn Index>, size: Size, seed: u64) -> Result<(), String> {
    let world = World {
        index,
        clock: AtomicU64::new(1),
    };
    let world = &world;
    let (transactions, reads) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..size.writers)
            .map(|writer| scope.spawn(move || world.write(writer + 1, size, seed * 100 + writer)))
            .collect();
        let readers: Vec<_> = (0..size.readers)
            .map(|reader| scope.spawn(move || world.read(size, seed * 100 + 50 + reader)))
            .collect();
        let mut transactions = Vec::new();
        for writer in writers {
            transactions.extend(writer.join().map_err(|_| "a writer panicked".to_string())?);
        }
        let mut reads = Vec::new();
        for reader in readers {
            reads.extend(reader.join().map_err(|_| "a reader panicked".to_string())?);
        }
        Ok::<_, String>((transactions, reads))
    })?;
    check(&transactions, &reads)
}

fn tree(fault: Fault) -> Arc<Tree> {
    Arc::new(Tree::with_fault(TreeOptions::default(), fault).expect("memory"))
}

#[test]
fn histories_of_the_tree_are_snapshot_isolated() {
    let seeds = if cfg!(miri) { 1 } else { 6 };
    for seed in 0..seeds {
        for fault in [Fault::None, Fault::Pauses] {
            let said = history(tree(fault), SIZE, seed);
            assert_eq!(said, Ok(()), "seed {seed}, {fault:?}");
        }
    }
}

#[cfg(not(miri))]
#[test]
fn histories_of_lmdb_are_snapshot_isolated() {
    let (lmdb, _folder) = super::lmdb();
    assert_eq!(history(lmdb, SIZE, 1), Ok(()));
}

/// Histories until the checker finds the mistake.
#[cfg(not(miri))]
fn finds(fault: Fault) {
    const HISTORIES: u64 = 60;
    let found = (0..HISTORIES).find_map(|seed| history(tree(fault), SIZE, seed).err());
    assert!(
        found.is_some(),
        "{fault:?} was not found in {HISTORIES} histories"
    );
}

#[cfg(not(miri))]
#[test]
fn finds_readers_that_do_not_check_a_leaf() {
    finds(Fault::NoLeafVersion);
}

#[cfg(not(miri))]
#[test]
fn finds_readers_that_do_not_check_an_inner_node() {
    finds(Fault::NoInnerVersion);
}

#[cfg(not(miri))]
#[test]
fn finds_readers_of_the_newest() {
    finds(Fault::SeesTheNewest);
}

#[cfg(not(miri))]
#[test]
fn finds_a_commit_before_the_end() {
    finds(Fault::CommitsEarly);
}

#[cfg(not(miri))]
#[test]
fn finds_a_writer_that_forgets_early() {
    finds(Fault::ForgetsEarly);
}
