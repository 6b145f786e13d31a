//! `dpb index`: an ordered index, range-partitioned between this process and the DPU's side, under YCSB's requests.

mod dpu;
mod measure;
mod plans;
mod table;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use dpb_dbmods::index::Needs;
use dpb_micro::Broken;

use super::agent::AgentFlags;
use super::sweep::{Results, RunFlags};
use crate::args::{self, List};
use crate::exit::Failure;
use crate::output::{self, Progress};
use crate::report::published;
use crate::task::{
    Base, Cost, EndPass, ServerEnd, Task, View, axis, charted, flags, listed, recorded_by_name,
};
use crate::{Globals, interrupt};
use words::{
    DistributionName, DurabilityName, EngineName, KeysName, LoopName, Parts, WorkloadName, splits,
};

const WORK: &str = "The requests";
const SIDES: &str = "The two sides";

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
    #[command(flatten, next_help_heading = SIDES)]
    agent: AgentFlags,
    /// The folder that files of LMDB are kept in while a test lasts [default: $DPB_DATA_DIR, $XDG_DATA_HOME/dpb, ~/.local/share/dpb; without HOME ./dpb-data]
    #[arg(long, value_name = "FOLDER", help_heading = SIDES)]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    runs: RunFlags,
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
