//! `dpb index`: an ordered index, range-partitioned between this process and the DPU's side, under YCSB's requests.

mod dpu;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use dpb_core::WallClock;
use dpb_core::measure::latency::Latencies;
use dpb_core::measure::provenance::{allowed_cpus, memory_available_bytes};
use dpb_core::measure::{Check, Evidence, Record, Samples};
use dpb_dbmods::index::drive::{self, Load, Records};
use dpb_dbmods::index::router::{Lane, Router, RouterOptions};
use dpb_dbmods::index::runs::{self, RunPlan, RunResult};
use dpb_dbmods::index::ycsb::{Distribution, KeyForm, Spec, VALUE_BYTES_MIN, Workload};
use dpb_dbmods::index::{Durability, EngineKind, Index, Needs, Plan, VALUE_BYTES_MAX};
use dpb_dbmods::tpch;
use dpb_link::Connect;
use dpb_micro::Broken;
use dpb_micro::storage::available_bytes;

use super::sweep::{self, Results, RunFlags};
use crate::args::{self, List};
use crate::exit::Failure;
use crate::output::{self, Progress};
use crate::report::published;
use crate::task::{
    Base, Cost, EndPass, ServerEnd, Task, View, axis, charted, flags, listed, recorded_by_name,
};
use crate::{Globals, interrupt};

use dpu::DpuSide;

const WORK: &str = "The requests";
const SIDES: &str = "The two sides";

/// Marks at which the boundary may lie.
const MARKS: usize = 1024;
/// Requests of a burst while records are loaded.
const LOADED_AT_ONCE: usize = 256;
/// Requests a second of one thread that inserts make room for.
const REQUESTS_PER_S_MAX: f64 = 4e6;
/// A name ending and the share of requests that it stands for.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// The task: an index that is range-partitioned between host and DPU.
pub const TASK: Task = Task {
    name: "index",
    summary: "an ordered index, range-partitioned between host and DPU, under YCSB's requests",
    example: "dpb index --records 1000000 --split 10:1",
    apart: &["out", "server", "credentials", "token_file", "data_dir"],
    prepare: None,
    shared_file: None,
    view: VIEW,
    check,
    cost,
    recorded: recorded_by_name,
    published: Some(published::index),
    server_end: Some(ServerEnd {
        words: &["serve", "--until-stdin-closes", "--one-time-credentials"],
        pass: EndPass::Credentials,
        clears: None,
    }),
};

const VIEW: View = View {
    lead: &[
        "engine",
        "workload",
        "distribution",
        "records",
        "value_bytes",
        "split",
        "host_threads",
        "dpu_threads",
        "batch",
    ],
    series: &["split", "engine"],
    sweeps: &[
        axis("records", "records", output::short),
        axis("value_bytes", "bytes per value", output::bytes),
        axis("host_threads", "threads of the host", output::number),
        axis("dpu_threads", "threads of the DPU's side", output::number),
        axis("batch", "requests per burst", output::number),
    ],
    fixed: &["workload", "distribution", "mode"],
    metrics: &[
        charted("requests_per_s", "requests per second", output::short),
        charted(
            "latency_ns_p50",
            "time of a request, median",
            output::short_ns,
        ),
        charted(
            "latency_ns_p99",
            "time of a request, 99th percentile",
            output::short_ns,
        ),
        listed(
            "host_cpu_ns_per_request",
            "CPU time of the host per request",
            output::short_ns,
        ),
        listed(
            "dpu_cpu_ns_per_request",
            "CPU time of the DPU's side per request",
            output::short_ns,
        ),
        listed(
            "dpu_share",
            "share of the requests that the DPU's side had",
            output::percent,
        ),
    ],
    base: Some(Base {
        side: "split",
        base: "1:0",
        metric: "requests_per_s",
        own: &["dpu_threads"],
    }),
};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Records are spread over both sides by ranges of their keys: --split 10:1 gives the host ten parts and the DPU's side one. 1:0 is the host alone. Without \
                  --server the DPU's side is a process of its own on this machine, kept on cores of its own as far as there are any.\n\
                  Each value that is read is checked to its last byte, and its version against what was written; rows of scans are checked too.\n\
                  Examples:\n  dpb index --records 1000000 --value-bytes 1024 --workload c --split 10:1,1:0\n  \
                  dpb index --engine tree,lmdb --workload a,b,c,d,e,f --split 1:0\n  \
                  dpb index --adaptive --workload b --host-threads 2 --dpu-threads 2 --seconds 2\n  \
                  dpb index --failover --server 10.0.0.2:7400 --credentials client.credentials"
)]
pub struct Args {
    /// Records that are loaded before the first run
    #[arg(long, value_name = "COUNTS", help_heading = WORK, value_parser = args::counts, default_value = "1000000")]
    records: List<u64>,
    /// Bytes of a value, 24 at least, as a value says which record and version it is
    #[arg(long, value_name = "SIZES", help_heading = WORK, value_parser = args::sizes, default_value = "1024")]
    value_bytes: List<u64>,
    /// YCSB's core workloads: a (half updates), b (5 % updates), c (reads), d (reads of the latest), e (scans), f (read-modify-writes)
    #[arg(long, value_name = "LETTERS", help_heading = WORK, value_enum, value_delimiter = ',', default_value = "c")]
    workload: Vec<WorkloadName>,
    /// How often each record is asked for [default: the workload's own]
    #[arg(long, help_heading = WORK, value_enum, value_delimiter = ',')]
    distribution: Vec<DistributionName>,
    /// Keys: YCSB's ("user" and up to 19 digits), or integers of eight bytes
    #[arg(long, help_heading = WORK, value_enum, default_value = "ycsb")]
    keys: KeysName,
    /// Rows of a scan, at most; the numbers of rows are uniform from 1
    #[arg(long, value_name = "COUNT", help_heading = WORK, value_parser = args::count, default_value = "100")]
    scan_rows: u64,
    /// Closed loop: a thread keeps --window requests on their way. Open loop: requests are due at the given rate, whatever is answered
    #[arg(long, help_heading = WORK, value_enum, default_value = "closed")]
    mode: LoopName,
    /// Open loop: requests a second, of all threads together
    #[arg(long, value_name = "RATES", help_heading = WORK, value_parser = args::rates, required_if_eq("mode", "open"))]
    rate: Option<List<f64>>,
    /// The engine of both sides: tree (dpb's, in memory), lmdb (files in --data-dir)
    #[arg(long, help_heading = SIDES, value_enum, value_delimiter = ',', default_value = "tree")]
    engine: Vec<EngineName>,
    /// What a commit of LMDB survives: none (the end of the process), commit (a crash of the system, but for the last commits), sync. The tree is volatile
    #[arg(long, help_heading = SIDES, value_enum, default_value = "none")]
    durability: DurabilityName,
    /// Parts of the records, host:DPU
    #[arg(long, value_name = "NAMES", help_heading = SIDES, value_parser = splits, default_value = "10:1")]
    split: List<Parts>,
    /// Let the boundary follow the measured rates of both sides, from --split on
    #[arg(long, help_heading = SIDES)]
    adaptive: bool,
    /// Keep a copy of the DPU's range at the host, and go on with it when the DPU's side fails
    #[arg(long, help_heading = SIDES)]
    failover: bool,
    /// Threads of the host's side; each routes its own requests
    #[arg(long, value_name = "COUNTS", help_heading = SIDES, value_parser = args::thread_counts, default_value = "1")]
    host_threads: List<u64>,
    /// Threads of the DPU's side
    #[arg(long, value_name = "COUNTS", help_heading = SIDES, value_parser = args::thread_counts, default_value = "1")]
    dpu_threads: List<u64>,
    /// Requests of a burst to one side, at most; 1 handles each alone
    #[arg(long, value_name = "COUNTS", help_heading = SIDES, value_parser = args::counts, default_value = "64")]
    batch: List<u64>,
    /// Bursts of a connection that are on their way, at most
    #[arg(long, value_name = "COUNT", help_heading = SIDES, value_parser = args::count, default_value = "4")]
    depth: u64,
    /// Requests that a thread keeps on their way, at most [default: as many as both sides' bursts hold]
    #[arg(long, value_name = "COUNT", help_heading = SIDES, value_parser = args::count)]
    window: Option<u64>,
    /// The time that the DPU's side may take for a burst before it is given up
    #[arg(long, value_name = "TIME", help_heading = SIDES, value_parser = args::duration, default_value = "10s")]
    patience: Duration,
    /// The cores of the DPU's process on this machine [default: the last ones that --host-threads leaves]
    #[arg(long, value_name = "NUMBERS", help_heading = SIDES, value_parser = args::numbers, conflicts_with = "server")]
    dpu_cores: Option<List<u64>>,
    /// The address of an agent elsewhere (`dpb serve`), host:port [default: a process of our own on loopback]
    #[arg(long, value_name = "ADDRESS", help_heading = SIDES, value_parser = args::address)]
    server: Option<String>,
    /// The file `client.credentials` of the agent's credentials (`dpb serve init` there makes it): the connection is encrypted
    #[arg(long, value_name = "FILE", help_heading = SIDES, requires = "server")]
    credentials: Option<PathBuf>,
    /// A file with the token that an agent on this machine asks for; only its owner may read it
    #[arg(long, value_name = "FILE", help_heading = SIDES, requires = "server", conflicts_with = "credentials")]
    token_file: Option<PathBuf>,
    /// The folder that files of LMDB are kept in while a test lasts [default: $DPB_DATA_DIR, $XDG_DATA_HOME/dpb, ~/.local/share/dpb; without HOME ./dpb-data]
    #[arg(long, value_name = "FOLDER", help_heading = SIDES)]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    runs: RunFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WorkloadName {
    A,
    B,
    C,
    D,
    E,
    F,
}

impl WorkloadName {
    fn workload(self) -> Workload {
        match self {
            Self::A => Workload::A,
            Self::B => Workload::B,
            Self::C => Workload::C,
            Self::D => Workload::D,
            Self::E => Workload::E,
            Self::F => Workload::F,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DistributionName {
    /// Each as often as the others
    Uniform,
    /// A few much oftener (constant 0.99), spread over all keys
    Zipfian,
    /// The last ones that were inserted much oftener
    Latest,
}

impl DistributionName {
    fn distribution(self) -> Distribution {
        match self {
            Self::Uniform => Distribution::Uniform,
            Self::Zipfian => Distribution::Zipfian,
            Self::Latest => Distribution::Latest,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KeysName {
    Ycsb,
    Integer,
}

impl KeysName {
    fn form(self) -> KeyForm {
        match self {
            Self::Ycsb => KeyForm::Ycsb,
            Self::Integer => KeyForm::Integer,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ycsb => "ycsb",
            Self::Integer => "integer",
        }
    }

    fn bytes(self) -> u32 {
        match self {
            Self::Ycsb => 23,
            Self::Integer => 8,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoopName {
    Closed,
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EngineName {
    Tree,
    Lmdb,
}

impl EngineName {
    fn kind(self) -> EngineKind {
        match self {
            Self::Tree => EngineKind::Tree,
            Self::Lmdb => EngineKind::Lmdb,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DurabilityName {
    None,
    Commit,
    Sync,
}

/// Parts of the records, as they are written: `10:1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    host: u32,
    dpu: u32,
}

impl Parts {
    /// The host's share of the records.
    fn host_share(self) -> f64 {
        f64::from(self.host) / (f64::from(self.host) + f64::from(self.dpu))
    }
}

impl std::fmt::Display for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.dpu)
    }
}

/// A list of parts.
fn splits(text: &str) -> Result<List<Parts>, String> {
    let wrong = |part: &str| format!("`{part}` is no split; splits look like 10:1, 1:0, 0:1");
    let one = |part: &str| {
        let (host, dpu) = part.split_once(':').ok_or_else(|| wrong(part))?;
        let parts = Parts {
            host: host.trim().parse().map_err(|_| wrong(part))?,
            dpu: dpu.trim().parse().map_err(|_| wrong(part))?,
        };
        match (parts.host, parts.dpu) {
            (0, 0) => Err(wrong(part)),
            _ => Ok(parts),
        }
    };
    text.split(',').map(one).collect::<Result<_, _>>().map(List)
}

/// One test: a value for every parameter.
#[derive(Clone, Copy, Debug)]
struct Test {
    records: u64,
    value_bytes: u64,
    workload: WorkloadName,
    distribution: Distribution,
    rate: Option<f64>,
    engine: EngineKind,
    split: Parts,
    host_threads: u64,
    dpu_threads: u64,
    batch: u64,
}

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, workload {}, {} x {} B, split {}",
            self.engine,
            self.workload.workload().name(),
            self.records,
            self.value_bytes,
            self.split
        )
    }
}

/// Checks that there are such tests.
fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    flags::<Args>(matches)?.check()
}

/// Loading, at a rate that most machines reach, and the runs.
fn cost(matches: &ArgMatches) -> Cost {
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let tests = args.tests();
    let runs = args.runs.runs();
    let loads: f64 = tests
        .iter()
        .map(|test| test.records as f64 * (2e-6 + test.value_bytes as f64 * 2e-9))
        .sum();
    let needs = tests.iter().map(|test| args.needs(test));
    let (memory, disk) = needs.fold((0, 0), |(memory, disk), needs: Needs| {
        (memory.max(needs.memory_bytes), disk.max(needs.disk_bytes))
    });
    Cost {
        once: Duration::from_secs_f64(loads)
            + tests.len() as u32 * (runs.warm_up + Duration::from_millis(500)),
        each_run: tests.len() as u32 * runs.seconds,
        memory_bytes: memory,
        disk_bytes: disk,
    }
}

/// Runs every combination.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    args.check()?;
    let tests = args.tests();
    args.check_room(&tests)?;
    let most = tests
        .iter()
        .map(|test| test.host_threads + args.dpu_threads_here(test))
        .max();
    args.runs.say_sharing(most.unwrap_or(1));
    let mut results = Results::new(&args.runs, globals)?;
    interrupt::flag();
    let progress = Progress::of_task(tests.len() as u64, globals);
    let mut swept = Ok(());
    for (at, test) in tests.iter().enumerate() {
        if interrupt::is_set() {
            break;
        }
        progress.set(at as u64, &test.to_string());
        swept = args.measure(test).and_then(|record| results.keep(record));
        if swept.is_err() {
            break;
        }
    }
    drop(progress);
    results.print(table::for_people, table::for_machines)?;
    swept?;
    results.judge(tests.len())
}

impl Args {
    /// The cartesian product, splits innermost so that what is compared is measured close together.
    fn tests(&self) -> Vec<Test> {
        let rates: Vec<Option<f64>> = match &self.rate {
            Some(rates) => rates.iter().map(|&rate| Some(rate)).collect(),
            None => vec![None],
        };
        let mut tests = Vec::new();
        for &engine in &self.engine {
            for &workload in &self.workload {
                let own = [workload.workload().distribution()];
                let given: Vec<_> = self
                    .distribution
                    .iter()
                    .map(|name| name.distribution())
                    .collect();
                for &distribution in if given.is_empty() { &own[..] } else { &given } {
                    for &records in &self.records {
                        for &value_bytes in &self.value_bytes {
                            for &rate in &rates {
                                for &host_threads in &self.host_threads {
                                    for &dpu_threads in &self.dpu_threads {
                                        for &batch in &self.batch {
                                            tests.extend(self.split.iter().map(|&split| Test {
                                                records,
                                                value_bytes,
                                                workload,
                                                distribution,
                                                rate,
                                                engine: engine.kind(),
                                                split,
                                                host_threads,
                                                dpu_threads,
                                                batch,
                                            }));
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        tests
    }

    /// Refuses what cannot be.
    fn check(&self) -> Result<(), Failure> {
        if self.mode == LoopName::Closed && self.rate.is_some() {
            return Err(Failure::usage(
                "--rate needs --mode open: a closed loop has no rate",
            ));
        }
        let sizes = VALUE_BYTES_MIN as u64..=VALUE_BYTES_MAX as u64;
        if let Some(bytes) = self.value_bytes.iter().find(|bytes| !sizes.contains(bytes)) {
            return Err(Failure::usage(format!(
                "--value-bytes {bytes}: a value has {} to {} bytes",
                sizes.start(),
                sizes.end()
            )));
        }
        if let Some(batch) = self.batch.iter().find(|&&batch| batch > 4096) {
            return Err(Failure::usage(format!(
                "--batch {batch}: a burst has 4096 requests at most"
            )));
        }
        let is_split = |split: &Parts| split.host > 0 && split.dpu > 0;
        if self.adaptive && !self.split.iter().all(is_split) {
            return Err(Failure::usage(
                "--adaptive needs a --split that gives both sides a part, as 10:1",
            ));
        }
        for test in self.tests() {
            self.spec(&test)
                .validate()
                .map_err(|error| Failure::usage(error.to_string()))?;
        }
        self.runs.check()
    }

    /// The records and requests of a test.
    fn spec(&self, test: &Test) -> Spec {
        let seconds = self.runs.warm_up() + self.runs.seconds() * self.runs.repeat() as u32;
        let rate = test
            .rate
            .unwrap_or(REQUESTS_PER_S_MAX * test.host_threads as f64);
        Spec {
            distribution: test.distribution,
            scan_rows_max: self.scan_rows.min(u64::from(u32::MAX)) as u32,
            ..Spec::new(
                test.workload.workload(),
                test.records,
                (seconds.as_secs_f64() * rate) as u64,
            )
        }
    }

    /// The index of a side that has `share` of the records.
    fn plan(&self, test: &Test, share: f64) -> Plan {
        let spec = self.spec(test);
        let all = (spec.records + spec.inserts_expected()) as f64;
        Plan {
            engine: test.engine,
            durability: match (test.engine, self.durability) {
                (EngineKind::Tree, _) => Durability::Volatile,
                (EngineKind::Lmdb, DurabilityName::None) => Durability::None,
                (EngineKind::Lmdb, DurabilityName::Commit) => Durability::Commit,
                (EngineKind::Lmdb, DurabilityName::Sync) => Durability::Sync,
            },
            // Ranges of keys have their shares of the records about, not exactly.
            records_max: ((all * (share + 0.02)).min(all)).ceil() as u64,
            key_bytes: self.keys.bytes(),
            value_bytes: test.value_bytes as u32,
            sessions_max: (2 * (test.host_threads + test.dpu_threads) + 16).min(4096) as u32,
        }
    }

    /// Plans of the host's side, and of the DPU's if it has a part.
    fn plans(&self, test: &Test) -> (Plan, Option<Plan>) {
        let share = test.split.host_share();
        // A boundary that moves may give one side nearly all, and a copy is of all.
        let (host, dpu) = match (self.failover, self.adaptive) {
            (_, true) => (1.0, 1.0),
            (true, false) => (1.0, 1.0 - share),
            (false, false) => (share, 1.0 - share),
        };
        let dpu = (test.split.dpu > 0).then(|| self.plan(test, dpu));
        (self.plan(test, host), dpu)
    }

    /// What a test takes of this machine.
    fn needs(&self, test: &Test) -> Needs {
        let (host, dpu) = self.plans(test);
        let dpu = match (&self.server, dpu) {
            (None, Some(plan)) => plan.needs(),
            _ => Needs::default(),
        };
        let spec = self.spec(test);
        // What is known of each record.
        let known = (spec.records + spec.inserts_expected()).saturating_mul(24);
        let host = host.needs();
        Needs {
            memory_bytes: host
                .memory_bytes
                .saturating_add(dpu.memory_bytes)
                .saturating_add(known),
            disk_bytes: host.disk_bytes.saturating_add(dpu.disk_bytes),
        }
    }

    /// What needs more memory or disk than there is is refused before anything is loaded.
    fn check_room(&self, tests: &[Test]) -> Result<(), Failure> {
        let dir = self.dir();
        let there = dir
            .ancestors()
            .find(|folder| folder.is_dir())
            .unwrap_or(Path::new("."));
        let disk = available_bytes(there).unwrap_or(u64::MAX);
        let memory = memory_available_bytes();
        for test in tests {
            let needs = self.needs(test);
            let short = |bytes: u64| output::short(bytes as f64);
            if needs.memory_bytes > memory {
                return Err(Failure::unavailable(format!(
                    "{test} needs about {}B of memory, {}B are available; ask for fewer --records or a smaller --value-bytes",
                    short(needs.memory_bytes),
                    short(memory)
                )));
            }
            if needs.disk_bytes > disk {
                return Err(Failure::unavailable(format!(
                    "{test} needs about {}B in {}, {}B are free; ask for fewer --records, or name another --data-dir",
                    short(needs.disk_bytes),
                    dir.display(),
                    short(disk)
                )));
            }
        }
        Ok(())
    }

    fn dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(tpch::default_data_dir)
    }

    /// Threads of the DPU's side that run on this machine.
    fn dpu_threads_here(&self, test: &Test) -> u64 {
        match (&self.server, test.split.dpu) {
            (Some(_), _) | (_, 0) => 0,
            (None, _) => test.dpu_threads,
        }
    }

    /// The cores of the host's threads and of the DPU's process: disjoint where the machine has enough.
    fn cores(&self, test: &Test) -> (Vec<u32>, Vec<u32>) {
        let given = self.runs.pins();
        let dpu_given = self
            .dpu_cores
            .iter()
            .flat_map(List::iter)
            .map(|&core| core as u32);
        let dpu_given: Vec<u32> = dpu_given.collect();
        let cpus = allowed_cpus();
        let dpu = self.dpu_threads_here(test) as usize;
        let host_threads = test.host_threads as usize;
        let fits = host_threads + dpu <= cpus.len();
        let host = match given.is_empty() && dpu_given.is_empty() && fits {
            true => cpus[..host_threads].to_vec(),
            false => given,
        };
        let dpu_cores = match dpu > 0 && dpu_given.is_empty() && fits {
            true => cpus[cpus.len() - dpu..].to_vec(),
            false => dpu_given,
        };
        (host, dpu_cores)
    }

    fn record(&self, test: &Test) -> Record {
        let name = test.distribution.name();
        let mut record = Record::new("index", Evidence::of_this_cpu(), self.runs.seed)
            .with("engine", test.engine.name())
            .with("workload", test.workload.workload().name())
            .with("distribution", name)
            .with("records", test.records)
            .with("value_bytes", test.value_bytes)
            .with("keys", self.keys.name())
            .with("scan_rows", self.scan_rows)
            .with("split", test.split.to_string())
            .with("adaptive", self.adaptive)
            .with("failover", self.failover)
            .with("host_threads", test.host_threads)
            .with("dpu_threads", test.dpu_threads)
            .with("batch", test.batch)
            .with("depth", self.depth)
            .with("window", self.window(test))
            .with(
                "mode",
                if test.rate.is_some() {
                    "open"
                } else {
                    "closed"
                },
            )
            .with("server", self.server.as_deref().unwrap_or("loopback"));
        if let Some(rate) = test.rate {
            record = record.with("rate", rate);
        }
        let (host, _) = self.plans(test);
        record = record.with("durability", host.durability.word());
        let record = self.runs.note(record);
        let (cores, dpu_cores) = self.cores(test);
        let mut record = match dpu_cores.is_empty() {
            true => record,
            false => {
                let dpu_cores: Vec<String> = dpu_cores.iter().map(ToString::to_string).collect();
                record.with("dpu_cores", dpu_cores.join(","))
            }
        };
        record.provenance.pinned = cores;
        record
    }

    fn window(&self, test: &Test) -> u64 {
        match (self.window, test.batch) {
            (Some(window), _) => window,
            (None, 1) => 1,
            // Both sides' bursts, and those on their way.
            (None, batch) => batch * (2 + self.depth),
        }
    }

    /// One test, as one record whatever comes of it.
    fn measure(&self, test: &Test) -> Result<Record, Failure> {
        let record = self.record(test);
        match self.measured(test, record.clone()) {
            Ok(record) => Ok(record),
            Err(Ended::Broken(broken)) => Ok(sweep::broken(record, &broken)),
            Err(Ended::Failure(failure)) => Err(failure),
        }
    }

    fn measured(&self, test: &Test, mut record: Record) -> Result<Record, Ended> {
        let (host_cores, dpu_cores) = self.cores(test);
        let (host_plan, dpu_plan) = self.plans(test);
        let dir = self.dir();
        let files = match test.engine {
            EngineKind::Tree => None,
            EngineKind::Lmdb => Some(folder_in(&dir)?),
        };
        let side = match dpu_plan {
            Some(plan) => Some((
                DpuSide::find(self, &plan, test.dpu_threads, &dpu_cores)?,
                plan,
            )),
            None => None,
        };
        let path = files.as_ref().map_or(dir.as_path(), |folder| folder.path());
        let host = host_plan.make(path).map_err(unsupported)?;
        let records = Records::new(self.spec(test), self.keys.form(), test.value_bytes as usize)
            .map_err(unsupported)?;
        let router = self.router(
            test,
            host,
            &records,
            side.as_ref().map(|(side, plan)| (side.connect(), *plan)),
        )?;
        self.load(test, &router, &records)?;
        let (host_bytes, dpu_bytes) = sizes(&router)?;
        let runs = self.run_all(test, &router, &records, host_cores)?;
        if let Some((side, _)) = &side {
            record
                .provenance
                .libraries
                .insert("dpu".to_owned(), side.words());
        }
        record.counts.insert("index_bytes".to_owned(), host_bytes);
        record
            .counts
            .insert("dpu_index_bytes".to_owned(), dpu_bytes);
        self.fill(&mut record, test, &runs, &router);
        Ok(record)
    }

    fn router(
        &self,
        test: &Test,
        host: Arc<dyn Index>,
        records: &Records,
        dpu: Option<(Connect, Plan)>,
    ) -> Result<Arc<Router>, Ended> {
        let marks = records.marks(MARKS);
        let boundary = (test.split.host_share() * marks.len() as f64).round() as usize;
        let boundary = match test.split {
            Parts { host: 0, .. } => 0,
            Parts { dpu: 0, .. } => marks.len(),
            _ => boundary.clamp(1, marks.len().saturating_sub(1).max(1)),
        };
        let options = RouterOptions {
            dpu,
            marks,
            boundary,
            value_room: test.value_bytes as usize,
            burst_requests: test.batch as usize,
            depth: self.depth as usize,
            connections: test.dpu_threads.div_ceil(test.host_threads) as usize,
            patience: self.patience,
            mirror: self.failover,
            clock: Arc::new(WallClock::default()),
        };
        Router::new(host, options)
            .map_err(|error| Ended::Failure(Failure::unavailable(error.to_string())))
    }

    /// Writes all records, by one thread: the host's side and the DPU's take turns to be waited for.
    fn load(&self, test: &Test, router: &Arc<Router>, records: &Records) -> Result<(), Ended> {
        let mut lane = Lane::new(router).map_err(unsupported)?;
        let window = (test.batch as usize).max(LOADED_AT_ONCE);
        drive::load(records, 0, 1, window, &mut lane, interrupt::flag()).map_err(wrong)?;
        match interrupt::is_set() {
            true => Err(Ended::Failure(Failure::interrupted(
                "interrupted while records were loaded",
            ))),
            false => Ok(()),
        }
    }

    fn run_all(
        &self,
        test: &Test,
        router: &Arc<Router>,
        records: &Records,
        pin: Vec<u32>,
    ) -> Result<Vec<RunResult>, Ended> {
        let mut plan = RunPlan {
            threads: test.host_threads as u32,
            pin,
            load: Load {
                window: self.window(test) as usize,
                rate: test.rate.map(|rate| rate / test.host_threads as f64),
                requests: None,
            },
            seconds: self.runs.warm_up(),
            seed: self.runs.seed,
            adapt_to: self.adaptive.then_some(test.dpu_threads as u32),
        };
        let mut results = Vec::new();
        for run in 0..=self.runs.repeat() {
            if interrupt::is_set() {
                break;
            }
            plan.seed = self.runs.seed.wrapping_add(run as u64);
            let result = runs::run(router, records, &plan, &interrupt::is_set).map_err(wrong)?;
            if let Some(why) = &result.driven.wrong {
                return Err(wrong(why));
            }
            if let Some(why) = result
                .driven
                .failure
                .as_ref()
                .filter(|_| !self.failover || result.driven.requests == 0)
            {
                return Err(wrong(why));
            }
            // The first one warms caches up, and is no result.
            if run > 0 {
                results.push(result);
            }
            plan.seconds = self.runs.seconds();
        }
        Ok(results)
    }

    fn fill(&self, record: &mut Record, test: &Test, runs: &[RunResult], router: &Router) {
        let each = |of: &dyn Fn(&RunResult) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
        let requests = |run: &RunResult| run.driven.requests.max(1) as f64;
        let rates = each(&|run| run.driven.requests as f64 * 1e9 / run.elapsed_ns as f64);
        record.sample("requests_per_s", rates.clone());
        record.sample(
            "value_bytes_per_s",
            each(&|run| run.driven.value_bytes as f64 * 1e9 / run.elapsed_ns as f64),
        );
        record.sample(
            "host_cpu_ns_per_request",
            each(&|run| run.host_cpu_ns as f64 / requests(run)),
        );
        if runs.iter().all(|run| run.dpu_cpu_ns.is_some()) && !runs.is_empty() {
            record.sample(
                "dpu_cpu_ns_per_request",
                each(&|run| run.dpu_cpu_ns.unwrap_or(0) as f64 / requests(run)),
            );
        }
        record.sample(
            "dpu_share",
            each(&|run| run.work.dpu_share().unwrap_or(0.0)),
        );
        for (name, share) in PERCENTILES {
            record.sample(
                &format!("latency_ns_{name}"),
                each(&|run| run.driven.latencies.percentile_ns(share) as f64),
            );
        }
        let mut all = Latencies::default();
        runs.iter().for_each(|run| all.add(&run.driven.latencies));
        record.samples.insert(
            "latency_ns".to_owned(),
            Samples {
                values: Vec::new(),
                hdr: Some(all.to_base64()),
            },
        );
        let sum = |of: fn(&RunResult) -> u64| runs.iter().map(of).sum::<u64>();
        let counts = [
            ("requests", sum(|run| run.driven.requests)),
            ("requests_failed", sum(|run| run.driven.failed)),
            ("requests_late", sum(|run| run.driven.late)),
            ("lookups_found", sum(|run| run.driven.hits)),
            ("rows", sum(|run| run.driven.rows)),
            ("pieces_moved", sum(|run| run.moved.pieces)),
            ("records_moved", sum(|run| run.moved.records)),
            ("dpu_failures", router.failures()),
        ];
        record
            .counts
            .extend(counts.map(|(name, count)| (name.to_owned(), count)));
        record.check = Some(Check {
            against: "the bytes and the version of each value that was read, what was written before, and the order of rows".to_owned(),
            compared: sum(|run| run.driven.requests),
            digest: None,
        });
        let mut interference = runs
            .first()
            .map(|run| run.interference.clone())
            .unwrap_or_default();
        runs.iter()
            .skip(1)
            .for_each(|run| interference.add(&run.interference));
        let workers = test.host_threads;
        sweep::conclude(
            record,
            &rates,
            self.runs.repeat(),
            workers,
            &interference,
            interrupt::is_set(),
        );
        if let Some(reason) = runs.iter().find_map(|run| run.driven.failure.as_ref())
            && let Some(stability) = &mut record.stability
        {
            stability.stable = false;
            stability.reasons.push(format!("requests failed: {reason}"));
        }
    }
}

/// Bytes of both sides' indexes.
fn sizes(router: &Router) -> Result<(u64, u64), Ended> {
    let host = router.host().usage().map_err(unsupported)?.bytes;
    let dpu = match router.dpu_usage() {
        Some(usage) => usage.map_err(wrong)?.bytes,
        None => 0,
    };
    Ok((host, dpu))
}

/// A folder for one test's files, which is gone when the test ends.
fn folder_in(dir: &Path) -> Result<tempfile::TempDir, Ended> {
    let made = std::fs::create_dir_all(dir)
        .and_then(|()| tempfile::Builder::new().prefix("index-").tempdir_in(dir));
    made.map_err(|error| {
        Ended::Failure(Failure::unavailable(format!(
            "--data-dir {}: {error}",
            dir.display()
        )))
    })
}

/// How a test ended without a number.
enum Ended {
    Broken(Broken),
    Failure(Failure),
}

fn unsupported(error: impl std::fmt::Display) -> Ended {
    Ended::Broken(Broken::Unsupported(error.to_string()))
}

fn wrong(error: impl std::fmt::Display) -> Ended {
    Ended::Broken(Broken::Wrong(error.to_string()))
}
