//! The tree beside LMDB: reads in batches, reads one at a time, updates, scans, and the memory of both.
//!
//! One thread. Both engines have the same records, which were written in one random order, and get keys drawn alike, fresh ones in each phase. A
//! round has one phase for each side, one after another in an order that turns; the median over the rounds of LMDB's time by the tree's is the
//! figure. The tree beside itself is the row of control, and its rounds, without the fastest and the slowest, must lie on both sides of 1. Every
//! phase is checked, outside of its time.
//!
//! LMDB is at its fastest: `MDB_NOSYNC`, `MDB_WRITEMAP`, `MDB_NORDAHEAD`. Each call of a session of its takes a lock and begins a transaction; the row in a
//! snapshot begins one for the phase.
//!
//! Keys are integers of eight bytes; those of YCSB ("user" and a number of up to 19 digits); and integers behind 16 bytes that all keys begin with.
//!
//! `cargo bench -p dpb-benches --bench index -- 1000000` measures with that many records instead of the ten million that the table is about, and a second number is the bytes of a value; a word `integer`,
//! `ycsb` or `prefix` takes those keys alone. Without `--bench` it is a test, and small. No criterion: phases of two engines take turns.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use dpb_core::random::SplitMix64;
use dpb_dbmods::index::{
    Durability, Found, Index, KeyRange, Keys, Lmdb, LmdbOptions, Reads, Session, Snapshot, Tree,
    TreeOptions, Values, Write,
};

/// The sizes of a run.
struct Size {
    records: u64,
    value_bytes: usize,
    /// Keys of a phase, and of a phase that scans.
    keys: usize,
    scans: usize,
    rounds: usize,
}

const MEASURE: Size = Size {
    records: 10_000_000,
    value_bytes: 100,
    keys: 1 << 18,
    scans: 1 << 13,
    rounds: 9,
};
const TEST: Size = Size {
    records: 5000,
    value_bytes: 100,
    keys: 640,
    scans: 16,
    rounds: 1,
};

/// Keys of a batch, and writes of a transaction.
const BATCH: usize = 64;
/// Rows of a scan.
const ROWS: usize = 100;
/// Writes of a transaction while records are loaded.
const LOADED: usize = 1000;

/// How keys look.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Integer,
    Ycsb,
    Prefix,
}

const SHAPES: [(Shape, &str); 3] = [
    (Shape::Integer, "integer"),
    (Shape::Ycsb, "ycsb"),
    (Shape::Prefix, "prefix"),
];

impl Shape {
    /// The key of a number.
    fn write(self, number: u64, to: &mut Vec<u8>) {
        match self {
            Self::Integer => to.extend(number.to_be_bytes()),
            Self::Ycsb => to.extend(format!("user{}", number >> 1).bytes()),
            Self::Prefix => {
                to.extend(b"tenant0000000042");
                to.extend(number.to_be_bytes());
            }
        }
    }

    /// Bytes of a key, at most.
    fn bytes_max(self) -> u64 {
        match self {
            Self::Integer => 8,
            Self::Ycsb => 23,
            Self::Prefix => 24,
        }
    }
}

/// What is done with each key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    ReadBatches,
    ReadSingly,
    ReadSinglyHeld,
    UpdateBatches,
    UpdateSingly,
    Scan,
}

/// With the ratio that is wanted.
const WORKS: [(Work, &str, f64); 6] = [
    (Work::ReadBatches, "reads, 64 a batch", 8.0),
    (Work::ReadSingly, "reads, one at a time", 2.0),
    (Work::ReadSinglyHeld, "the same in a snapshot", 2.0),
    (Work::UpdateBatches, "updates, 64 a transaction", 4.0),
    (Work::UpdateSingly, "updates, one a transaction", 4.0),
    (Work::Scan, "scans of 100", 2.0),
];

/// Keys, where they lie, and the numbers that they are made of.
#[derive(Default)]
struct Drawn {
    numbers: Vec<u64>,
    bytes: Vec<u8>,
    offsets: Vec<u32>,
}

impl Drawn {
    /// Scattered numbers, another one for each record (the finalizer of SplitMix64 is a bijection).
    fn of(shape: Shape, records: impl Iterator<Item = u64>) -> Self {
        let mut drawn = Self::default();
        drawn.offsets.push(0);
        for record in records {
            let number = SplitMix64::new(record).next_u64();
            drawn.numbers.push(number);
            shape.write(number, &mut drawn.bytes);
            drawn.offsets.push(drawn.bytes.len() as u32);
        }
        drawn
    }

    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn key(&self, at: usize) -> &[u8] {
        &self.bytes[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }

    /// Up to `count` keys from one on.
    fn keys(&self, shape: Shape, from: usize, count: usize) -> Keys<'_> {
        let to = (from + count).min(self.len());
        match shape {
            Shape::Integer => Keys::Eight(&self.bytes.as_chunks().0[from..to]),
            _ => Keys::Offsets {
                bytes: &self.bytes,
                offsets: &self.offsets[from..=to],
            },
        }
    }
}

/// One engine and what a phase needs.
struct Side {
    index: Arc<dyn Index>,
    shape: Shape,
    session: Box<dyn Session>,
    values: Vec<u8>,
    found: Vec<Found>,
    value: Vec<u8>,
    /// Updates so far: the second word of values that were written since.
    stamp: u64,
}

impl Side {
    fn new(index: Arc<dyn Index>, shape: Shape, size: &Size) -> Self {
        Self {
            session: index.clone().session().expect("few sessions"),
            index,
            shape,
            values: vec![0; LOADED * size.value_bytes],
            found: vec![Found::Absent; BATCH],
            value: vec![0; size.value_bytes],
            stamp: 0,
        }
    }

    fn load(&mut self, size: &Size) {
        for from in (0..size.records).step_by(LOADED) {
            let records = from..(from + LOADED as u64).min(size.records);
            let keys = Drawn::of(self.shape, records);
            self.put(&keys, 0, LOADED);
        }
    }

    /// One transaction. A value begins with the number of its key, and the stamp.
    fn put(&mut self, keys: &Drawn, from: usize, count: usize) {
        let to = (from + count).min(keys.len());
        let values = self.values.chunks_exact_mut(self.value.len());
        let mut writes = Vec::with_capacity(count);
        for (at, value) in (from..to).zip(values) {
            value[..8].copy_from_slice(&keys.numbers[at].to_be_bytes());
            value[8..16].copy_from_slice(&self.stamp.to_be_bytes());
            let key = keys.key(at);
            writes.push(Write::Put { key, value });
        }
        self.index.apply(&writes).expect("writes");
    }

    /// Does a phase, and gives its seconds and the sum of what it read.
    fn phase(&mut self, work: Work, keys: &Drawn) -> (f64, u64) {
        self.stamp += 1;
        let held = match work {
            // A snapshot takes the session and gives it back.
            Work::ReadSinglyHeld => Some(self.index.clone().session().expect("few sessions")),
            _ => None,
        };
        let start = Instant::now();
        let sum = match work {
            Work::ReadBatches => self.read_batches(keys),
            Work::ReadSingly => read_singly(&mut *self.session, &mut self.value, keys),
            Work::ReadSinglyHeld => {
                let mut snapshot =
                    Snapshot::of(held.expect("was opened")).expect("it holds nothing");
                read_singly(&mut snapshot, &mut self.value, keys)
            }
            Work::UpdateBatches => {
                for from in (0..keys.len()).step_by(BATCH) {
                    self.put(keys, from, BATCH);
                }
                0
            }
            Work::UpdateSingly => {
                for at in 0..keys.len() {
                    self.put(keys, at, 1);
                }
                0
            }
            Work::Scan => self.scan(keys),
        };
        let seconds = start.elapsed().as_secs_f64();
        if matches!(work, Work::UpdateBatches | Work::UpdateSingly) {
            self.check_updates(keys);
        }
        (seconds, black_box(sum))
    }

    fn read_batches(&mut self, keys: &Drawn) -> u64 {
        let each = self.value.len();
        let mut sum = 0;
        for from in (0..keys.len()).step_by(BATCH) {
            let mut values = Values::new(&mut self.values, each, &mut self.found).expect("room");
            let keys = keys.keys(self.shape, from, BATCH);
            self.session.get_batch(keys, &mut values).expect("reads");
            for at in 0..keys.len() {
                sum = add(sum, values.value(at).expect("is there"));
            }
        }
        sum
    }

    /// Every key has what was written last.
    fn check_updates(&mut self, keys: &Drawn) {
        for (at, number) in keys.numbers.iter().enumerate() {
            let found = self.session.get(keys.key(at), &mut self.value);
            assert!(matches!(found, Ok(Found::Whole(_))), "{found:?}");
            let written = [number.to_be_bytes(), self.stamp.to_be_bytes()].concat();
            assert_eq!(self.value[..16], written);
        }
        self.value[..16].fill(0);
    }

    fn scan(&mut self, keys: &Drawn) -> u64 {
        let mut sum = 0;
        for at in 0..keys.len() {
            let each = &mut |_: &[u8], value: &[u8]| {
                sum = add(sum, value);
                ControlFlow::Continue(())
            };
            self.session
                .scan(KeyRange::from(keys.key(at)), ROWS, each)
                .expect("reads");
        }
        sum
    }
}

fn read_singly(session: &mut dyn Reads, value: &mut [u8], keys: &Drawn) -> u64 {
    let mut sum = 0;
    for at in 0..keys.len() {
        let found = session.get(keys.key(at), value).expect("reads");
        assert!(matches!(found, Found::Whole(_)), "{found:?}");
        sum = add(sum, value);
    }
    sum
}

/// Adds the first and the last word of a value.
fn add(sum: u64, value: &[u8]) -> u64 {
    add_word(add_word(sum, value.first_chunk()), value.last_chunk())
}

fn add_word(sum: u64, word: Option<&[u8; 8]>) -> u64 {
    sum.wrapping_add(word.map_or(0, |word| u64::from_be_bytes(*word)))
}

fn main() {
    // As criterion does: without `--bench` this is a test, and runs once.
    let measuring = std::env::args().any(|arg| arg == "--bench");
    let mut size = if measuring { MEASURE } else { TEST };
    let mut numbers = std::env::args().filter_map(|arg| arg.parse().ok());
    if let Some(records) = numbers.next() {
        size.records = records;
    }
    if let Some(bytes) = numbers.next() {
        size.value_bytes = bytes as usize;
    }
    let asked: Vec<String> = std::env::args().collect();
    let is_named = |name: &str| asked.iter().any(|arg| arg == name);
    let names_some = SHAPES.iter().any(|(_, name)| is_named(name));
    let shapes = SHAPES
        .iter()
        .filter(|(_, name)| !names_some || is_named(name));
    let mut stable = true;
    for (shape, name) in shapes {
        stable &= measure(*shape, name, &size);
    }
    if measuring && !stable {
        eprintln!("index: a row of control is off, so this machine is too busy to measure");
        std::process::exit(1);
    }
}

/// The rows of keys of a shape. False if a row of control is off.
fn measure(shape: Shape, shape_name: &str, size: &Size) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let map_bytes = Lmdb::map_bytes(size.records, shape.bytes_max(), size.value_bytes as u64);
    let lmdb = Lmdb::open(&LmdbOptions {
        durability: Durability::None,
        ..LmdbOptions::new(folder.path(), map_bytes)
    });
    let lmdb: Arc<dyn Index> = Arc::new(lmdb.expect("room for a map"));
    let tree: Arc<dyn Index> = Arc::new(Tree::new(TreeOptions::default()).expect("memory"));
    let mut sides = [tree.clone(), tree, lmdb].map(|index| Side::new(index, shape, size));
    println!(
        "index: {} records, keys `{shape_name}`, values of {} bytes, one thread; medians of {} rounds",
        size.records, size.value_bytes, size.rounds
    );
    for side in [0, 2] {
        let start = Instant::now();
        sides[side].load(size);
        let seconds = start.elapsed().as_secs_f64();
        let name = sides[side].index.name();
        println!(
            "{name} loads {:.2} M/s",
            size.records as f64 / seconds / 1e6
        );
    }
    print_memory("after the load", &sides, size);
    println!(
        "{:<28}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "tree M/s", "LMDB M/s", "ratio", "wanted", "control"
    );
    let mut random = SplitMix64::new(1);
    let mut stable = true;
    for (work, name, wanted) in WORKS {
        let rounds: Vec<[f64; 3]> = (0..size.rounds)
            .map(|round| one_round(&mut sides, work, size, round, &mut random))
            .collect();
        stable &= print(name, wanted, &rounds, work, size);
    }
    print_memory("after all", &sides, size);
    stable
}

/// Seconds of each side. Each has keys of its own, as the second would find the first one's lines in caches.
fn one_round(
    sides: &mut [Side; 3],
    work: Work,
    size: &Size,
    round: usize,
    random: &mut SplitMix64,
) -> [f64; 3] {
    let mut draw = |shape, count: usize| {
        let records = (0..count).map(|_| random.below(size.records as usize) as u64);
        Drawn::of(shape, records)
    };
    let shape = sides[0].shape;
    let mut seconds = [0.0; 3];
    for turn in 0..3 {
        let side = (turn + round) % 3;
        let keys = draw(shape, count_of(work, size));
        let (taken, sum) = sides[side].phase(work, &keys);
        seconds[side] = taken;
        if matches!(
            work,
            Work::ReadBatches | Work::ReadSingly | Work::ReadSinglyHeld
        ) {
            // A value is its key's number, a stamp and zeroes.
            let right = keys
                .numbers
                .iter()
                .fold(0, |sum: u64, number| sum.wrapping_add(*number));
            assert_eq!(sum, right, "{work:?}");
        }
    }
    if work == Work::Scan {
        let keys = draw(shape, 16);
        let sums = [0, 1, 2].map(|side: usize| sides[side].phase(work, &keys).1);
        assert!(
            sums[0] == sums[1] && sums[1] == sums[2],
            "{work:?}: {sums:?}"
        );
    }
    seconds
}

fn count_of(work: Work, size: &Size) -> usize {
    match work {
        Work::Scan => size.scans,
        _ => size.keys,
    }
}

/// False if the row of control is off.
fn print(name: &str, wanted: f64, rounds: &[[f64; 3]], work: Work, size: &Size) -> bool {
    let count = count_of(work, size);
    let rate = |side: usize| count as f64 / median(&sorted(rounds.iter().map(|r| r[side]))) / 1e6;
    let ratio = median(&sorted(rounds.iter().map(|round| round[2] / round[0])));
    let controls = sorted(rounds.iter().map(|round| round[1] / round[0]));
    println!(
        "{name:<28}{:>10.3}{:>10.3}{ratio:>10.2}{wanted:>10.1}{:>10.3}",
        rate(0),
        rate(2),
        median(&controls)
    );
    // With nine rounds, the second and the last but one hold the median with 96 %.
    match controls[..] {
        [_, low, .., high, _] => low <= 1.0 && high >= 1.0,
        _ => true,
    }
}

fn print_memory(when: &str, sides: &[Side; 3], size: &Size) {
    let [tree, _, lmdb] = sides;
    let [tree, lmdb] = [tree, lmdb].map(|side| side.index.usage().expect("counts"));
    assert_eq!((tree.keys, lmdb.keys), (size.records, size.records));
    let each = |bytes: u64| bytes as f64 / size.records as f64;
    println!(
        "bytes a record {when}: tree {:.1}, LMDB {:.1}, ratio {:.3} (wanted 1.2 at most)",
        each(tree.bytes),
        each(lmdb.bytes),
        tree.bytes as f64 / lmdb.bytes as f64
    );
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}
