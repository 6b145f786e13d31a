//! Histories of threads that read, write and scan at once, given to the [checker](super::checker). Mistakes that are planted must be found.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dpb_core::random::SplitMix64;

use super::checker::{Read, Transaction, check};
use crate::index::tree::fault::Fault;
use crate::index::{
    Found, Index, IndexError, KeyRange, Keys, Reads, Snapshot, Tree, TreeOptions, Values, Write,
};

/// Keys that threads share: some thirty leaves with values of a hundred bytes, or some hundred of small ones.
const KEYS: u64 = if cfg!(miri) { 40 } else { 600 };
/// Bytes of a value, at most: those above 512 lie in extents.
const VALUE_MAX: usize = 700;
/// A value that nobody wrote: its parts differ.
const TORN: u64 = u64::MAX;

/// Entries of a node: as many as there may be, or few, so that the tree is deep and its nodes split and merge all the time.
const WIDE: usize = 112;
const SMALL: usize = 8;

/// How keys look.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Of eight bytes, spread over the heads, so that they are no neighbours in a group alone.
    Eight,
    /// Longer than a separator's extent, and alike up to their ends.
    Alike,
    /// Of eight bytes and of more, of which two have a head at a time.
    Mixed,
}

impl Shape {
    fn key(self, key: u64) -> Vec<u8> {
        match self {
            Self::Eight => (key << 32).to_be_bytes().to_vec(),
            Self::Alike => [&[b'a'; 70][..], &key.to_be_bytes()].concat(),
            Self::Mixed => {
                let mut bytes = ((key / 2) << 32).to_be_bytes().to_vec();
                bytes.resize(8 + 9 * (key % 2) as usize, 0);
                bytes
            }
        }
    }

    /// The number of a key, if it is one of these.
    fn number(self, key: &[u8]) -> Option<u64> {
        let first = || Some(u64::from_be_bytes(*key.first_chunk()?) >> 32);
        let number = match self {
            Self::Eight => first()?,
            Self::Alike => u64::from_be_bytes(*key.last_chunk()?),
            Self::Mixed => 2 * first()? + u64::from(key.len() > 8),
        };
        (self.key(number) == key).then_some(number)
    }
}

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
    transactions: if cfg!(miri) { 4 } else { 500 },
    readers: 2,
    reads: if cfg!(miri) { 4 } else { 500 },
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

struct World {
    index: Arc<dyn Index>,
    shape: Shape,
    /// Time: it counts what happens.
    clock: AtomicU64,
}

/// A thread's reads.
struct Reader<'a> {
    shape: Shape,
    random: SplitMix64,
    session: &'a mut dyn Reads,
    /// What it saw.
    seen: Vec<(u64, Option<u64>)>,
}

impl World {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn write(&self, writer: u64, size: Size, seed: u64) -> Vec<Transaction> {
        let mut random = SplitMix64::new(seed);
        let mut done = Vec::new();
        for round in 0..size.transactions {
            // Keys become more, and fewer.
            let fills = (round * 6 / size.transactions).is_multiple_of(2);
            let writes = random_writes(&mut random, fills, (writer << 32 | round) << 8);
            let owned: Vec<_> = (writes.iter())
                .map(|(key, number)| (self.shape.key(*key), number.map(value_of)))
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
            let reader = |session, random| Reader {
                shape: self.shape,
                random,
                session,
                seen: Vec::new(),
            };
            let calls = 1 + random.below(6);
            let holds = random.below(4) == 0;
            let seed = SplitMix64::new(random.next_u64());
            let (ended, seen) = match holds {
                true => {
                    let snapshot = Snapshot::of(&mut *session);
                    let mut snapshot = snapshot.expect("holds none");
                    // Its state is that of a moment up to now, whenever it is read.
                    let ended = self.now();
                    let mut reader = reader(&mut snapshot, seed);
                    for _ in 0..calls {
                        reader.call();
                        std::thread::yield_now();
                    }
                    (ended, reader.seen)
                }
                false => {
                    let mut reader = reader(&mut *session, seed);
                    reader.call();
                    (self.now(), reader.seen)
                }
            };
            done.push(Read { began, ended, seen });
        }
        done
    }
}

/// Few or many keys, near or far, given or taken away.
fn random_writes(random: &mut SplitMix64, fills: bool, number: u64) -> Vec<(u64, Option<u64>)> {
    let from = random.below(KEYS as usize) as u64;
    let (count, stride) = match random.below(7) {
        0 => (1, 1),
        1 => (if cfg!(miri) { 10 } else { 40 }, 1),
        // Numbers of values have eight bits for the keys of a transaction.
        3 => (if cfg!(miri) { 20 } else { 200 }, 1),
        2 => (20, 31),
        _ => (6, 97),
    };
    let takes = random.below(4) < if fills { 1 } else { 3 };
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

impl Reader<'_> {
    fn call(&mut self) {
        match self.random.below(3) {
            0 => self.get(),
            1 => self.get_batch(),
            _ => self.scan(),
        }
    }

    fn key(&mut self) -> u64 {
        self.random.below(KEYS as usize) as u64
    }

    fn get(&mut self) {
        let key = self.key();
        let mut value = [0; VALUE_MAX];
        let found = self.session.get(&self.shape.key(key), &mut value);
        let number = match found.expect("reads") {
            Found::Absent => None,
            Found::Whole(len) => Some(number_of(&value[..len as usize])),
            Found::Cut(_) => Some(TORN),
        };
        self.seen.push((key, number));
    }

    fn get_batch(&mut self) {
        let count = 1 + self.random.below(50);
        let numbers: Vec<u64> = (0..count).map(|_| self.key()).collect();
        let keys: Vec<_> = numbers.iter().map(|key| self.shape.key(*key)).collect();
        let (mut bytes, mut found) = (vec![0; VALUE_MAX * count], vec![Found::Absent; count]);
        let mut values = Values::new(&mut bytes, VALUE_MAX, &mut found).expect("laid out for it");
        let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let eight: Option<Vec<[u8; 8]>> =
            (slices.iter()).map(|key| (*key).try_into().ok()).collect();
        let keys = match &eight {
            Some(eight) => Keys::Eight(eight),
            None => Keys::Slices(&slices),
        };
        self.session.get_batch(keys, &mut values).expect("reads");
        for (at, key) in numbers.iter().enumerate() {
            let number = match values.found(at) {
                Found::Absent => None,
                Found::Whole(_) => values.value(at).map(number_of),
                Found::Cut(_) => Some(TORN),
            };
            self.seen.push((*key, number));
        }
    }

    fn scan(&mut self) {
        let from = self.key();
        let to = (from + 1 + self.random.below(400) as u64).min(KEYS);
        let limit = 1 + self.random.below(200);
        let (shape, seen) = (self.shape, &mut self.seen);
        let (start, end) = (shape.key(from), shape.key(to));
        let mut next = from;
        let range = KeyRange::from(&start).before(&end);
        let count = self.session.scan(range, limit, &mut |key, value| {
            // Keys that the scan passed over are not there. A key out of order is seen with a value that nobody wrote.
            match shape.number(key).filter(|key| (next..to).contains(key)) {
                Some(key) => {
                    seen.extend((next..key).map(|absent| (absent, None)));
                    seen.push((key, Some(number_of(value))));
                    next = key + 1;
                }
                None => seen.push((0, Some(TORN))),
            }
            ControlFlow::Continue(())
        });
        if count.expect("reads") < limit {
            seen.extend((next..to).map(|absent| (absent, None)));
        }
    }
}

/// One history, and what the checker says of it.
fn history(index: Arc<dyn Index>, shape: Shape, size: Size, seed: u64) -> Result<(), String> {
    let world = World {
        index,
        shape,
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
        // All are joined, also behind one that panicked.
        let transactions: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        let reads: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        (transactions, reads)
    });
    let of_panic = |who: &str| format!("a {who} panicked");
    let transactions: Result<Vec<_>, _> = transactions.into_iter().collect();
    let transactions = transactions.map_err(|_| of_panic("writer"))?.concat();
    let reads: Result<Vec<_>, _> = reads.into_iter().collect();
    let reads = reads.map_err(|_| of_panic("reader"))?.concat();
    check(&transactions, &reads)
}

fn tree(fault: Fault, entries_max: usize) -> Arc<Tree> {
    let tree = Tree::with_fault(TreeOptions::default(), fault, entries_max);
    Arc::new(tree.expect("memory"))
}

#[test]
fn histories_of_the_tree_are_snapshot_isolated() {
    // Miri changes threads by itself, and has time for deep trees alone.
    let seeds = if cfg!(miri) { 1 } else { 2 };
    let widths = if cfg!(miri) {
        &[SMALL][..]
    } else {
        &[WIDE, SMALL]
    };
    let faults = if cfg!(miri) {
        &[Fault::None][..]
    } else {
        &[Fault::None, Fault::Pauses]
    };
    for seed in 0..seeds {
        for &entries_max in widths {
            for shape in [Shape::Eight, Shape::Alike, Shape::Mixed] {
                for &fault in faults {
                    let said = history(tree(fault, entries_max), shape, SIZE, seed);
                    let world = format!("seed {seed}, {entries_max} entries, {shape:?}, {fault:?}");
                    assert_eq!(said, Ok(()), "{world}");
                }
            }
        }
    }
}

/// The trees of histories with small nodes are deep when they are full, and a leaf when they are empty.
#[test]
fn small_nodes_make_deep_trees() {
    for shape in [Shape::Eight, Shape::Alike, Shape::Mixed] {
        let tree = tree(Fault::None, SMALL);
        let keys: Vec<_> = (0..KEYS).map(|key| shape.key(key * 7 % KEYS)).collect();
        for key in &keys {
            tree.put(key, &[1; 100]).expect("writes");
        }
        let height = tree.height();
        assert!(
            height >= if cfg!(miri) { 1 } else { 3 },
            "{height}, {shape:?}"
        );
        for key in &keys {
            tree.delete(key).expect("writes");
        }
        for _ in 0..keys.len() {
            tree.apply(&[]).expect("writes nothing");
        }
        assert_eq!(tree.height(), 0, "{shape:?}");
    }
}

#[cfg(not(miri))]
#[test]
fn histories_of_lmdb_are_snapshot_isolated() {
    for shape in [Shape::Eight, Shape::Alike] {
        let (lmdb, _folder) = super::lmdb();
        assert_eq!(history(lmdb, shape, SIZE, 1), Ok(()), "{shape:?}");
    }
}

/// Histories until the checker says that a read is wrong. A panic on the way is no proof that it sees wrong data.
#[cfg(not(miri))]
fn finds(fault: Fault, entries_max: usize) {
    finds_by("a read from", fault, entries_max);
}

/// Histories until one fails with such a message.
#[cfg(not(miri))]
fn finds_by(message: &str, fault: Fault, entries_max: usize) {
    const HISTORIES: u64 = 100;
    let mut said = Vec::new();
    for seed in 0..HISTORIES {
        let shape = [Shape::Eight, Shape::Alike, Shape::Mixed][seed as usize % 3];
        if let Err(why) = history(tree(fault, entries_max), shape, SIZE, seed) {
            if why.starts_with(message) {
                return;
            }
            said.push(why);
        }
    }
    panic!("{fault:?} was not found in {HISTORIES} histories: {said:?}");
}

#[cfg(not(miri))]
#[test]
fn finds_readers_that_do_not_check_a_leaf() {
    finds(Fault::NoLeafVersion, WIDE);
}

#[cfg(not(miri))]
#[test]
fn finds_readers_that_do_not_check_an_inner_node() {
    finds(Fault::NoInnerVersion, SMALL);
}

#[cfg(not(miri))]
#[test]
fn finds_readers_of_the_newest() {
    finds(Fault::SeesTheNewest, WIDE);
}

#[cfg(not(miri))]
#[test]
fn finds_a_commit_before_the_end() {
    finds(Fault::CommitsEarly, WIDE);
}

/// A reader finds no version there, or the beginning of another one, and waits until the fault ends it.
#[cfg(not(miri))]
#[test]
fn finds_a_writer_that_forgets_early() {
    finds_by("a reader panicked", Fault::ForgetsEarly, WIDE);
}

#[cfg(not(miri))]
#[test]
fn finds_a_writer_that_uses_nodes_again_early() {
    finds(Fault::GivesNodesEarly, SMALL);
}

#[cfg(not(miri))]
#[test]
fn finds_a_writer_that_purges_early() {
    finds(Fault::PurgesEarly, WIDE);
}

#[cfg(not(miri))]
#[test]
fn finds_readers_that_keep_an_old_root() {
    finds(Fault::KeepsRoot, SMALL);
}

#[cfg(not(miri))]
#[test]
fn finds_batches_that_keep_an_old_child() {
    finds(Fault::KeepsChild, SMALL);
}

/// Readers that wait for the node that it locked, later readers, and writers all get an error.
#[test]
fn a_writer_that_panics_breaks_the_tree() {
    let tree = tree(Fault::Panics, WIDE);
    tree.put(b"key", b"one").expect("a new key");
    let mut session = tree.clone().session().expect("the first");
    let reads = move || loop {
        if let Err(error) = session.get(b"key", &mut [0; 8]) {
            break (error, session);
        }
    };
    let (error, mut session) = std::thread::scope(|scope| {
        let reader = scope.spawn(reads);
        let writer = scope.spawn(|| tree.put(b"key", b"two"));
        assert!(writer.join().is_err(), "it panics");
        reader.join().expect("it does not")
    });
    assert!(matches!(error, IndexError::Broken), "{error}");
    let scanned = session.scan(KeyRange::ALL, 1, &mut |_, _| ControlFlow::Continue(()));
    assert!(matches!(scanned, Err(IndexError::Broken)), "{scanned:?}");
    let (put, usage) = (tree.put(b"key", b"two"), tree.usage());
    assert!(matches!(put, Err(IndexError::Broken)), "{put:?}");
    assert!(matches!(usage, Err(IndexError::Broken)), "{usage:?}");
}
