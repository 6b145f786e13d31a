//! YCSB's core workloads A to F on two threads: the tree, directly and behind the router, beside LMDB, redb, and a concurrent map with an ordered index.
//!
//! Each side has the same records, and gets the same requests, which were drawn before the clock runs. Threads hand requests in by windows of 64, and each
//! side does with a window what is fastest for it: the tree and LMDB read in one batch and write in one transaction, redb has one transaction for each,
//! the map takes one request at a time. In a window reads come before writes. Every value that is read is copied out, and its record compared.
//! Values of scans are copied out in row E; in row E*, every word of them is read where the engine shows it, which all of them do.
//!
//! A round has one phase for each side, in an order that turns. A figure is the median over the rounds of the other side's time by the tree's. A second
//! tree is the row of control; its rounds, without the fastest and the slowest, must lie on both sides of 1.
//!
//! The sides differ in what they promise: tree and LMDB give a snapshot and transactions, redb too, the map neither. LMDB and redb write to a file, though
//! they wait for no disk. `cargo bench -p dpb-benches --bench ycsb -- 100000 a c` measures with that many records, and these workloads alone. A second number
//! is the bytes of a value, [`VALUE_BYTES_MIN`] at least. Without `--bench` it is a test, and small.

#[path = "ycsb/requests.rs"]
mod requests;
#[path = "ycsb/sides.rs"]
mod sides;

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use dpb_dbmods::index::ycsb::{Inserted, KeyForm, VALUE_BYTES_MIN, Workload};
use requests::{Draw, Put, Room, Rows, Streams, WINDOW, Window};
use sides::{Direct, Engine, Map, Redb, Routed, Sum};

const THREADS: u32 = 2;

/// The sizes of a run.
struct Size {
    records: u64,
    value_bytes: usize,
    /// Requests of a thread in a phase, and in one that scans.
    requests: usize,
    scans: usize,
    rounds: usize,
}

const MEASURE: Size = Size {
    records: 1_000_000,
    value_bytes: 1024,
    requests: 1 << 17,
    scans: 1 << 13,
    rounds: 9,
};
const TEST: Size = Size {
    records: 2000,
    value_bytes: 100,
    requests: 1280,
    scans: 128,
    rounds: 1,
};

/// The least and the greatest ratio that is wanted of the sides after the tree and its control.
const WANTED: [(f64, f64); 4] = [
    (0.0, 1.05),
    (3.0, f64::INFINITY),
    (2.0, f64::INFINITY),
    (1.0, f64::INFINITY),
];

fn main() {
    let measuring = std::env::args().any(|arg| arg == "--bench");
    let mut size = if measuring { MEASURE } else { TEST };
    let mut numbers = std::env::args().filter_map(|arg| arg.parse().ok());
    size.records = numbers.next().unwrap_or(size.records);
    size.value_bytes = numbers
        .next()
        .map_or(size.value_bytes, |bytes| bytes as usize);
    assert!(
        size.value_bytes >= VALUE_BYTES_MIN,
        "a value has {VALUE_BYTES_MIN} bytes at least"
    );
    let asked: Vec<Workload> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let workloads = match asked.is_empty() {
        true => Workload::ALL.to_vec(),
        false => asked,
    };
    if !measure(&size, &workloads) && measuring {
        eprintln!("ycsb: a row of control is off, so this machine is too busy to measure");
        std::process::exit(1);
    }
}

/// True if all rows of control hold.
fn measure(size: &Size, workloads: &[Workload]) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let (records, value_bytes) = (size.records, size.value_bytes as u64);
    let sides: [Box<dyn Engine>; 6] = [
        Box::new(Direct::tree("tree")),
        Box::new(Direct::tree("control")),
        Box::new(Routed::new(size.value_bytes)),
        Box::new(Direct::lmdb(folder.path(), 2 * records, value_bytes)),
        Box::new(Redb::new(folder.path(), records, value_bytes)),
        Box::new(Map::default()),
    ];
    println!(
        "ycsb: {records} records, values of {value_bytes} bytes, {THREADS} threads, windows of {WINDOW}; medians of {} rounds",
        size.rounds
    );
    for side in &sides {
        let start = Instant::now();
        load(&**side, size);
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{} loads {:.2} M/s",
            side.name(),
            records as f64 / seconds / 1e6
        );
    }
    let capacity = 4 * records + 1000 * WINDOW as u64;
    let inserted = Inserted::new(records, capacity).expect("records");
    let inserted = Arc::new(inserted);
    print!("{:<10}{:>10}", "workload", "tree M/s");
    for side in &sides[1..] {
        print!("{:>22}", side.name());
    }
    println!();
    let mut stable = true;
    let rows = workloads.iter().flat_map(|&workload| match workload {
        Workload::E => vec![(workload, Rows::Copied), (workload, Rows::InPlace)],
        _ => vec![(workload, Rows::Copied)],
    });
    for (workload, rows) in rows {
        let count = match workload {
            Workload::E => size.scans,
            _ => size.requests,
        };
        let mut draw = Draw::new(workload, &inserted, THREADS, (count * size.rounds) as u64);
        let rounds: Vec<Vec<f64>> = (0..size.rounds)
            .map(|round| one_round(&sides, &draw.streams(count), (size, rows), round))
            .collect();
        let name = match rows {
            Rows::Copied => workload.name().to_owned(),
            Rows::InPlace => format!("{}*", workload.name()),
        };
        stable &= print_row(&name, &rounds, count);
    }
    stable
}

/// Writes all records in the order of their numbers, which is random in keys.
fn load(side: &dyn Engine, size: &Size) {
    let mut room = Room::new(size.value_bytes, Rows::Copied);
    let mut worker = side.worker();
    for from in (0..size.records).step_by(WINDOW) {
        let records = from..(from + WINDOW as u64).min(size.records);
        let writes = records.map(|record| Put {
            record,
            key: KeyForm::Ycsb.key(record),
            inserts: true,
        });
        let window = Window {
            writes: writes.collect(),
            ..Window::default()
        };
        worker.carry_out(&window, &mut room, &mut Sum::default());
    }
    drop(worker);
    side.settle();
    assert_eq!(side.keys(), size.records);
}

/// Seconds of each side.
fn one_round(
    sides: &[Box<dyn Engine>],
    streams: &Streams,
    (size, rows): (&Size, Rows),
    round: usize,
) -> Vec<f64> {
    let mut seconds = vec![0.0; sides.len()];
    for turn in 0..sides.len() {
        let at = (turn + round) % sides.len();
        seconds[at] = phase(&*sides[at], streams, (size, rows));
        sides[at].settle();
    }
    let keys: Vec<u64> = sides.iter().map(|side| side.keys()).collect();
    assert!(keys.iter().all(|&count| count == keys[0]), "{keys:?}");
    check_scans(sides, size, rows);
    seconds
}

/// All sides give rows of the same records, now that nobody writes.
fn check_scans(sides: &[Box<dyn Engine>], size: &Size, rows: Rows) {
    let window = Window {
        scans: (0..16).map(|at| (KeyForm::Ycsb.key(at), 100)).collect(),
        ..Window::default()
    };
    let sums: Vec<(u64, u64)> = (sides.iter())
        .map(|side| {
            let mut sum = Sum::default();
            let mut room = Room::new(size.value_bytes, rows);
            side.worker().carry_out(&window, &mut room, &mut sum);
            (sum.rows, sum.records)
        })
        .collect();
    assert!(sums.iter().all(|&sum| sum == sums[0]), "{sums:?}");
}

/// Seconds from when the first thread begins, as all are ready, until the last one is done.
fn phase(side: &dyn Engine, streams: &Streams, (size, rows): (&Size, Rows)) -> f64 {
    let ready = Barrier::new(streams.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = streams
            .iter()
            .map(|stream| {
                let ready = &ready;
                scope.spawn(move || {
                    let mut worker = side.worker();
                    let mut room = Room::new(size.value_bytes, rows);
                    let mut sum = Sum::default();
                    ready.wait();
                    let start = Instant::now();
                    for window in stream {
                        worker.carry_out(window, &mut room, &mut sum);
                    }
                    black_box(sum);
                    (start, Instant::now())
                })
            })
            .collect();
        let (starts, ends): (Vec<Instant>, Vec<Instant>) = threads
            .into_iter()
            .map(|thread| thread.join().expect("the thread's own checks hold"))
            .unzip();
        let (start, end) = (starts.iter().min(), ends.iter().max());
        (*end.expect("there are threads") - *start.expect("there are threads")).as_secs_f64()
    })
}

/// False if the control is off.
fn print_row(workload: &str, rounds: &[Vec<f64>], count: usize) -> bool {
    let requests = count.next_multiple_of(WINDOW) as f64 * f64::from(THREADS);
    let rate = |side: usize| requests / median(rounds.iter().map(|round| round[side])) / 1e6;
    let ratios = |side: usize| rounds.iter().map(move |round| round[side] / round[0]);
    print!("{workload:<10}{:>10.3}", rate(0));
    for side in 1..rounds[0].len() {
        let ratio = median(ratios(side));
        let missed = side > 1 && {
            let (least, most) = WANTED[side - 2];
            ratio < least || ratio > most
        };
        let cell = format!(
            "{:.3} M/s {ratio:.2}x{}",
            rate(side),
            if missed { " †" } else { "" }
        );
        print!("{cell:>22}");
    }
    println!();
    let controls = sorted(ratios(1));
    // With nine rounds, the second and the last but one hold the median with 96 %.
    match controls[..] {
        [_, low, .., high, _] => low <= 1.0 && high >= 1.0,
        _ => true,
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    values[values.len() / 2]
}
