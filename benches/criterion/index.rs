//! The tree beside LMDB: reads in batches, reads one at a time, updates, scans, and the memory of both.
//!
//! One thread. Both engines have the same records, which were written in one random order, and get keys drawn alike, fresh ones in each phase. A round has one phase for each
//! side, one after another in an order that turns; what counts is the median over the rounds of LMDB's time by the tree's. The tree beside itself is the
//! row of control, and must be 1. Every phase's results go into a sum that is checked.
//!
//! `cargo bench -p dpb-benches --bench index -- 1000000` measures with that many records instead of the ten million that the table is about.
//! Without `--bench` it is a test, and small. No criterion: phases of two engines take turns.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use dpb_core::random::SplitMix64;
use dpb_dbmods::index::{
    Durability, Found, Index, KeyRange, Keys, Lmdb, LmdbOptions, Session, Tree, TreeOptions,
    Values, Write,
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

/// What is done with each key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    ReadBatches,
    ReadSingly,
    UpdateBatches,
    UpdateSingly,
    Scan,
}

/// With the ratio that is wanted.
const WORKS: [(Work, &str, f64); 5] = [
    (Work::ReadBatches, "reads, 64 a batch", 8.0),
    (Work::ReadSingly, "reads, one at a time", 2.0),
    (Work::UpdateBatches, "updates, 64 a transaction", 4.0),
    (Work::UpdateSingly, "updates, one a transaction", 4.0),
    (Work::Scan, "scans of 100", 2.0),
];

/// The key of a record: scattered, and another one for each (the finalizer of SplitMix64 is a bijection).
fn key(record: u64) -> [u8; 8] {
    SplitMix64::new(record).next_u64().to_be_bytes()
}

/// One engine and what a phase needs.
struct Side {
    index: Arc<dyn Index>,
    session: Box<dyn Session>,
    values: Vec<u8>,
    found: Vec<Found>,
    value: Vec<u8>,
}

impl Side {
    fn new(index: Arc<dyn Index>, size: &Size) -> Self {
        Self {
            session: index.clone().session().expect("few sessions"),
            index,
            values: vec![0; BATCH * size.value_bytes],
            found: vec![Found::Absent; BATCH],
            value: vec![0; size.value_bytes],
        }
    }

    fn load(&mut self, size: &Size) {
        let records: Vec<u64> = (0..size.records).collect();
        for records in records.chunks(LOADED) {
            let keys: Vec<_> = records.iter().map(|record| key(*record)).collect();
            self.put(&keys);
        }
    }

    /// One transaction. A value begins with its key.
    fn put(&mut self, keys: &[[u8; 8]]) {
        let len = self.value.len();
        if self.values.len() < keys.len() * len {
            self.values.resize(keys.len() * len, 0);
        }
        let mut writes = Vec::with_capacity(keys.len());
        for (key, value) in keys.iter().zip(self.values.chunks_exact_mut(len)) {
            value[..8].copy_from_slice(key);
            writes.push(Write::Put { key, value });
        }
        self.index.apply(&writes).expect("writes");
    }

    /// Does a phase, and gives its seconds and the sum of what it read or wrote.
    fn phase(&mut self, work: Work, keys: &[[u8; 8]]) -> (f64, u64) {
        let start = Instant::now();
        let sum = match work {
            Work::ReadBatches => self.read_batches(keys),
            Work::ReadSingly => self.read_singly(keys),
            Work::UpdateBatches => {
                keys.chunks(BATCH).for_each(|keys| self.put(keys));
                keys.len() as u64
            }
            Work::UpdateSingly => {
                for key in keys {
                    self.value[..8].copy_from_slice(key);
                    self.index.put(key, &self.value).expect("writes");
                }
                keys.len() as u64
            }
            Work::Scan => self.scan(keys),
        };
        (start.elapsed().as_secs_f64(), black_box(sum))
    }

    fn read_batches(&mut self, keys: &[[u8; 8]]) -> u64 {
        let each = self.value.len();
        let mut sum = 0;
        for keys in keys.chunks(BATCH) {
            let mut values = Values::new(&mut self.values, each, &mut self.found).expect("room");
            (self.session.get_batch(Keys::Eight(keys), &mut values)).expect("reads");
            for at in 0..keys.len() {
                sum = add(sum, values.value(at).expect("is there"));
            }
        }
        sum
    }

    fn read_singly(&mut self, keys: &[[u8; 8]]) -> u64 {
        let mut sum = 0;
        for key in keys {
            let found = self.session.get(key, &mut self.value).expect("reads");
            assert!(matches!(found, Found::Whole(_)), "{found:?}");
            sum = add(sum, &self.value);
        }
        sum
    }

    fn scan(&mut self, keys: &[[u8; 8]]) -> u64 {
        let mut sum = 0;
        for key in keys {
            let each = &mut |_: &[u8], value: &[u8]| {
                sum = add(sum, value);
                ControlFlow::Continue(())
            };
            self.session
                .scan(KeyRange::from(key), ROWS, each)
                .expect("reads");
        }
        sum
    }
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
    if let Some(records) = std::env::args().find_map(|arg| arg.parse().ok()) {
        size.records = records;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let lmdb = Lmdb::open(&LmdbOptions {
        durability: Durability::None,
        ..LmdbOptions::new(
            folder.path(),
            Lmdb::map_bytes(size.records, 8, size.value_bytes as u64),
        )
    });
    let lmdb: Arc<dyn Index> = Arc::new(lmdb.expect("room for a map"));
    let tree: Arc<dyn Index> = Arc::new(Tree::new(TreeOptions::default()).expect("memory"));
    let mut sides = [tree.clone(), tree, lmdb].map(|index| Side::new(index, &size));
    for side in [0, 2] {
        let start = Instant::now();
        sides[side].load(&size);
        let seconds = start.elapsed().as_secs_f64();
        let name = sides[side].index.name();
        println!(
            "index: {name} loads {:.2} M/s",
            size.records as f64 / seconds / 1e6
        );
    }
    print_memory(&sides, &size);
    println!(
        "index: {} records of {} bytes, one thread; medians of {} rounds",
        size.records, size.value_bytes, size.rounds
    );
    println!(
        "{:<28}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "tree M/s", "LMDB M/s", "ratio", "wanted", "control"
    );
    let mut random = SplitMix64::new(1);
    for (work, name, wanted) in WORKS {
        let rounds: Vec<[f64; 3]> = (0..size.rounds)
            .map(|round| one_round(&mut sides, work, &size, round, &mut random))
            .collect();
        print(name, wanted, &rounds, work, &size);
    }
}

/// Seconds of each side. Each has keys of its own, as the second would find the first one's lines in caches.
fn one_round(
    sides: &mut [Side; 3],
    work: Work,
    size: &Size,
    round: usize,
    random: &mut SplitMix64,
) -> [f64; 3] {
    let mut seconds = [0.0; 3];
    for turn in 0..3 {
        let side = (turn + round) % 3;
        let keys = draw(random, count_of(work, size), size);
        let (taken, sum) = sides[side].phase(work, &keys);
        seconds[side] = taken;
        if matches!(work, Work::ReadBatches | Work::ReadSingly) {
            // A value is its key and zeroes.
            let right = keys.iter().fold(0, |sum, key| add_word(sum, Some(key)));
            assert_eq!(sum, right, "{work:?}");
        }
    }
    if work == Work::Scan {
        let keys = draw(random, 16, size);
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

fn draw(random: &mut SplitMix64, count: usize, size: &Size) -> Vec<[u8; 8]> {
    (0..count)
        .map(|_| key(random.below(size.records as usize) as u64))
        .collect()
}

fn print(name: &str, wanted: f64, rounds: &[[f64; 3]], work: Work, size: &Size) {
    let count = count_of(work, size);
    let rate = |side: usize| count as f64 / median(rounds.iter().map(|round| round[side])) / 1e6;
    let ratio = median(rounds.iter().map(|round| round[2] / round[0]));
    let control = median(rounds.iter().map(|round| round[1] / round[0]));
    println!(
        "{name:<28}{:>10.3}{:>10.3}{ratio:>10.2}{wanted:>10.1}{control:>10.3}",
        rate(0),
        rate(2)
    );
}

fn print_memory(sides: &[Side; 3], size: &Size) {
    let [tree, _, lmdb] = sides;
    let [tree, lmdb] = [tree, lmdb].map(|side| side.index.usage().expect("counts"));
    assert_eq!((tree.keys, lmdb.keys), (size.records, size.records));
    let each = |bytes: u64| bytes as f64 / size.records as f64;
    println!(
        "index: bytes a record: tree {:.1}, LMDB {:.1}, ratio {:.3} (wanted 1.2 at most)",
        each(tree.bytes),
        each(lmdb.bytes),
        tree.bytes as f64 / lmdb.bytes as f64
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
