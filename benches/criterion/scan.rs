//! The predicate scan against DuckDB on its own file: same rows, same threads, same run.
//!
//! `cargo bench -p dpb-benches --bench scan` measures every work with criterion, and prints a table of ratios from runs that
//! take turns. `DPB_BENCH_SF` sets the scale factor (0.01 without it; 1 and 10 are what METHODOLOGY quotes), data lie under
//! `DPB_DATA_DIR`. Answers are compared before anything is timed. Without DuckDB's library only dpb's rows are there.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};

use dpb_dbmods::compare::digest::Digest;
use dpb_dbmods::compare::tpch_predicates;
use dpb_dbmods::duckdb::{Config, Connection, Database, Delivery, Library, tpch_baseline};
use dpb_dbmods::ipc::decode_batches;
use dpb_dbmods::query::sql;
use dpb_dbmods::query::{Output, Query};
use dpb_dbmods::scan::operator::own_cores;
use dpb_dbmods::scan::{Message, Plan, ScanOptions, Slots, output_schema};
use dpb_dbmods::schema::Schema;
use dpb_dbmods::table::{Cache, Chunk, Segment};
use dpb_dbmods::tpch;

/// Threads of both sides.
const THREADS: usize = 1;
/// Turns that each side takes in the table.
const TURNS: usize = 5;
/// Runs of a turn that are not timed: they find the other side's data in the caches.
const WARM_UP_RUNS: usize = 3;
/// Runs of a turn that are.
const RUNS: usize = 5;

/// A row of the table: its name, the predicate, what comes back, and how many times DuckDB's speed it should have.
struct Work {
    name: &'static str,
    predicate: &'static str,
    output: Wanted,
    ratio_wanted: f64,
}

enum Wanted {
    Count,
    All,
    Preset(&'static str),
}

fn works() -> Vec<Work> {
    let preset = |name| tpch_predicates::preset(name).expect("a preset").predicate;
    let work = |name, predicate, output, ratio_wanted| Work {
        name,
        predicate,
        output,
        ratio_wanted,
    };
    vec![
        work("q6_count", preset("q6"), Wanted::Count, 10.0),
        work("one_column_count", "l_partkey < 20000", Wanted::Count, 10.0),
        work(
            "all_columns_1pct",
            "a hundredth of the parts",
            Wanted::All,
            8.0,
        ),
        work(
            "all_columns_10pct",
            "a tenth of the parts",
            Wanted::All,
            4.0,
        ),
        work(
            "like_count",
            "l_comment LIKE '%special%requests%'",
            Wanted::Count,
            4.0,
        ),
        work("q1_aggregate", preset("q1"), Wanted::Preset("q1"), 2.0),
    ]
}

fn main() {
    let test = std::env::args().any(|arg| arg == "--test");
    let scale_factor: f64 = std::env::var("DPB_BENCH_SF")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.01);
    let scale_factor = if test { 0.001 } else { scale_factor };
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let data_dir = match std::env::var_os("DPB_DATA_DIR") {
        Some(dir) if !test => dir.into(),
        _ => temporary.path().to_owned(),
    };
    let ours = Ours::new(&data_dir, scale_factor);
    let mut peer = Peer::new(&data_dir, scale_factor);
    let queries: Vec<(Work, Query)> = works()
        .into_iter()
        .map(|work| {
            let query = work.query(ours.segment.schema(), ours.parts);
            (work, query)
        })
        .collect();
    if let Some(peer) = &mut peer {
        for (work, query) in &queries {
            assert_eq!(
                peer.digest(query),
                ours.digest(query),
                "{} differs",
                work.name
            );
        }
        if !test {
            table(&ours, peer, &queries);
        }
    }
    let mut criterion = Criterion::default().configure_from_args();
    for (work, query) in &queries {
        let mut group = criterion.benchmark_group(format!("scan/{}", work.name));
        group.throughput(Throughput::Elements(ours.segment.rows()));
        group
            .measurement_time(Duration::from_secs(2))
            .sample_size(10);
        group.bench_function(BenchmarkId::from_parameter("dpb"), |bencher| {
            bencher.iter(|| ours.run(query));
        });
        if let Some(peer) = &mut peer {
            group.bench_function(BenchmarkId::from_parameter("duckdb"), |bencher| {
                bencher.iter(|| peer.run(query));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

/// Prints each work's median speeds and their ratio.
fn table(ours: &Ours, peer: &mut Peer, queries: &[(Work, Query)]) {
    println!("millions of tuples a CPU second, medians of {TURNS} turns of {RUNS} hot runs");
    println!(
        "{:<20} {:>12} {:>12} {:>8} {:>8}",
        "work", "dpb", "duckdb", "ratio", "wanted"
    );
    let mut column = None;
    for (work, query) in queries {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            a.extend(turn(|| ours.run(query)));
            b.extend(turn(|| peer.run(query)));
        }
        let speed = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            ours.segment.rows() as f64 / times[times.len() / 2] / 1e6
        };
        let (a, b) = (speed(a), speed(b));
        println!(
            "{:<20} {a:>12.1} {b:>12.1} {:>7.1}x {:>7.1}x",
            work.name,
            a / b,
            work.ratio_wanted
        );
        if work.name == "one_column_count" {
            column = Some(a);
        }
    }
    if let Some(column) = column {
        print_memory(ours, column);
    }
}

/// How near the one-column count, of so many million tuples a second, is to what the memory gives: one core only reads
/// that column's chunks.
fn print_memory(ours: &Ours, tuples_m: f64) {
    let column = ours.segment.schema().position("l_partkey");
    let column = column.expect("a column of lineitem");
    let groups = 0..ours.segment.groups().len();
    let read_chunk = |group| ours.segment.read_chunk(group, column);
    let chunks: Result<Vec<Chunk>, _> = groups.map(read_chunk).collect();
    let chunks = chunks.expect("a whole segment");
    let read = || chunks.iter().map(|chunk| sum(chunk.bytes())).sum();
    let mut times: Vec<f64> = (0..TURNS).flat_map(|_| turn(read)).collect();
    times.sort_by(f64::total_cmp);
    let bytes: usize = chunks.iter().map(|chunk| chunk.bytes().len()).sum();
    let memory = bytes as f64 / times[times.len() / 2] / 1e9;
    let count = tuples_m * 1e6 * (bytes as f64 / ours.segment.rows() as f64) / 1e9;
    println!(
        "one core reads the packed column's {:.0} MB at {memory:.1} GB/s; the one-column count takes {count:.1} GB/s of it, {:.0} %",
        bytes as f64 / 1e6,
        count / memory * 100.0
    );
}

/// Of all words, in sums that do not wait for each other.
fn sum(bytes: &[u8]) -> u64 {
    let (blocks, _) = bytes.as_chunks::<256>();
    let mut sums = [0u64; 32];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.iter().fold(0, |all, &sum| all.wrapping_add(sum))
}

/// The timed runs of a turn.
fn turn(mut work: impl FnMut() -> u64) -> Vec<f64> {
    let times = (0..WARM_UP_RUNS + RUNS).map(|_| seconds(&mut work));
    times.skip(WARM_UP_RUNS).collect()
}

/// CPU time of the whole process: other work on the machine moves it less than wall time, and no thread hides from it.
fn seconds(work: impl FnOnce() -> u64) -> f64 {
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let start = now();
    std::hint::black_box(work());
    let spent = now() - start;
    spent.tv_sec as f64 + spent.tv_nsec as f64 * 1e-9
}

impl Work {
    fn query(&self, schema: &Schema, parts: u64) -> Query {
        // Part keys are spread alike over the table, so zone maps exclude nothing.
        let predicate = match self.name {
            "all_columns_1pct" => format!("l_partkey <= {}", (parts / 100).max(1)),
            "all_columns_10pct" => format!("l_partkey <= {}", (parts / 10).max(1)),
            _ => self.predicate.to_owned(),
        };
        let aggregate = |functions: &str, group_by: Option<&str>| {
            Output::Aggregate(
                sql::parse_aggregate(schema, functions, group_by).expect("an aggregate"),
            )
        };
        Query {
            table: schema.table.clone(),
            predicate: sql::parse_predicate(schema, &predicate).expect("a predicate"),
            output: match self.output {
                Wanted::Count => aggregate("count(*)", None),
                Wanted::All => Output::Rows((0..schema.columns.len() as u32).collect()),
                Wanted::Preset(name) => {
                    let preset = tpch_predicates::preset(name).expect("a preset");
                    aggregate(preset.aggregate.expect("its aggregate"), preset.group_by)
                }
            },
            limit: None,
        }
    }
}

struct Ours {
    segment: Arc<Segment>,
    cache: Arc<Cache>,
    slots: Arc<Slots>,
    parts: u64,
}

impl Ours {
    fn new(data_dir: &Path, scale_factor: f64) -> Self {
        let set = tpch::ensure(
            data_dir,
            scale_factor,
            &["lineitem"],
            2,
            &dpb_core::WallClock::default(),
            &|_| ControlFlow::Continue(()),
        )
        .expect("TPC-H data");
        Self {
            segment: Arc::new(set.open("lineitem").expect("a segment")),
            cache: Arc::new(Cache::new(8 << 30)),
            slots: Arc::new(Slots::new(64 << 20)),
            parts: (200_000.0 * scale_factor) as u64,
        }
    }

    fn scan(&self, query: &Query, sink: &(dyn Fn(Message) + Sync)) {
        let stop = AtomicBool::new(false);
        let options = ScanOptions {
            threads: THREADS,
            stop: &stop,
            batch_rows: 16 << 10,
            memory_bytes: 64 << 20,
            sink_batches: 0,
            slots: Some(&self.slots),
        };
        let plan = Arc::new(Plan::new(self.segment.schema(), query).expect("it fits the table"));
        let (cores, query) = (own_cores(), Arc::new(query.clone()));
        let sink = |message| {
            sink(message);
            ControlFlow::Continue(())
        };
        plan.scan_on(&cores, &query, &self.segment, &self.cache, &options, &sink)
            .expect("a scan");
    }

    fn run(&self, query: &Query) -> u64 {
        let rows = AtomicU64::new(0);
        self.scan(query, &|message| {
            rows.fetch_add(message.rows(), Ordering::Relaxed);
        });
        rows.into_inner()
    }

    fn digest(&self, query: &Query) -> Digest {
        let digest = Mutex::new(Digest::default());
        let schema = output_schema(self.segment.schema(), query).expect("it fits the table");
        self.scan(query, &|message| {
            for batch in decode_batches(message.bytes(), &schema).expect("a batch") {
                let mut digest = digest.lock().expect("no panic");
                digest.update(&batch).expect("types of a scan");
            }
        });
        digest.into_inner().expect("no panic")
    }
}

struct Peer {
    connection: Connection,
    schema: Schema,
}

impl Peer {
    fn new(data_dir: &Path, scale_factor: f64) -> Option<Self> {
        let library = match Library::find() {
            Ok(library) => library,
            Err(missing) => {
                println!("skipped: DuckDB, the peer: {missing}");
                return None;
            }
        };
        let baseline = tpch_baseline::ensure(
            library,
            data_dir,
            scale_factor,
            "lineitem",
            2,
            &dpb_core::WallClock::default(),
            &mut |_| (),
        )
        .expect("DuckDB's file");
        let config = Config {
            threads: Some(THREADS),
            read_only: true,
            ..Config::default()
        };
        let database =
            Database::open(library, Some(&baseline.duckdb_path), &config).expect("a database");
        Some(Self {
            connection: database.connect().expect("a connection"),
            schema: tpch::schema("lineitem").expect("a schema"),
        })
    }

    fn batches(&mut self, query: &Query, mut each: impl FnMut(arrow_array::RecordBatch)) {
        let text = sql::query_to_sql(query, &self.schema, "lineitem");
        let schema = output_schema(&self.schema, query).expect("a schema");
        let rows = self
            .connection
            .query(&text, Some(schema), Delivery::Streamed)
            .expect("a query");
        for batch in rows {
            each(batch.expect("a batch"));
        }
    }

    fn run(&mut self, query: &Query) -> u64 {
        let mut rows = 0;
        self.batches(query, |batch| rows += batch.num_rows() as u64);
        rows
    }

    fn digest(&mut self, query: &Query) -> Digest {
        let mut digest = Digest::default();
        self.batches(query, |batch| {
            digest.update(&batch).expect("types of a scan")
        });
        digest
    }
}
