//! `dpb storage`: requests to a file or a block device, so many in flight, each one's time kept.

mod fio;

use std::path::{Path, PathBuf};

use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use dpb_core::WallClock;
use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Check, Evidence, Record, Samples};
use dpb_dbmods::tpch::default_data_dir;
use dpb_micro::storage::{
    self, Access, Engine, Fsync, Laying, Measured, Pattern, Plan, Target, TargetError,
};

use super::peer;
use super::sweep::{self, OUTPUT, Results, RunFlags, parameter};
use crate::args::{self, List};
use crate::exit::Failure;
use crate::output::{self, Column, Progress, Table, evidence, short, short_ns, verdict};
use crate::task::{
    Cost, Parameter, SharedFile, Task, View, axis, charted, flags, listed, recorded_by_name,
};
use crate::{Globals, interrupt};

const WHERE: &str = "The file or device";
const REQUESTS: &str = "The requests";

/// The file's name in the data directory.
const FILE: &str = "storage.dpb";
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// The task: reads and writes of a file or a device: throughput and latency.
pub const TASK: Task = Task {
    name: "storage",
    summary: "reads and writes of a file or a device: throughput and latency",
    example: "dpb storage --block 8KiB --depth 32",
    apart: &[
        "out",
        "beside",
        "data_dir",
        "i_know_this_destroys",
        "keep",
        "keep_for_next",
    ],
    prepare: None,
    shared_file: Some(SharedFile {
        flag: "--keep-for-next",
        of: shared_file,
        remove: |path| Target::remove_kept(path).map(drop).map_err(failure),
    }),
    view: VIEW,
    check,
    cost,
    recorded,
    published: None,
    server_end: None,
};

const VIEW: View = View {
    lead: &[
        "engine", "pattern", "access", "block", "depth", "jobs", "direct", "tool",
    ],
    series: &["pattern", "access", "engine", "direct", "tool"],
    sweeps: &[
        axis("block", "bytes per request", output::bytes),
        axis("depth", "requests in flight", output::number),
        axis("jobs", "threads", output::number),
    ],
    fixed: &["fsync", "registered", "verify"],
    metrics: &[
        charted("bytes_per_s", "bytes per second", output::short),
        listed("items_per_s", "requests per second", output::short),
        charted("latency_ns_p50", "latency, median", output::short_ns),
        charted(
            "latency_ns_p99",
            "latency, 99th percentile",
            output::short_ns,
        ),
        listed(
            "latency_ns_p999",
            "latency, 99.9th percentile",
            output::short_ns,
        ),
    ],
    base: None,
};

/// Checks that there are such requests. Room for the file is looked at when a test is to start.
fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    let args: Args = flags(matches)?;
    args.plans()?;
    args.runs.check()
}

/// The file, and what its contents hang on. A test that is to keep the file keeps it itself.
fn shared_file(matches: &ArgMatches, data_dir: &Path) -> Option<(PathBuf, String)> {
    let args = flags::<Args>(matches).ok()?;
    if args.device.is_some() || args.keep {
        return None;
    }
    let path = args.file.unwrap_or_else(|| data_dir.join(FILE));
    let unit = storage::unit_bytes(args.block.iter().copied());
    let contents = format!("{} {unit} {}", args.file_size, args.runs.seed);
    Some((path, contents))
}

/// A record names the file without its folder where no flag names it, so the file is the command line's.
fn recorded(parameter: &Parameter, record: &Record) -> Option<String> {
    match parameter.name.as_str() {
        "file" | "device" => None,
        _ => recorded_by_name(parameter, record),
    }
}

/// Tests of every kind of request; the file is written first.
fn cost(matches: &ArgMatches) -> Cost {
    const WRITE_BYTES_PER_S: f64 = 300e6;
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let axes = [
        args.engine.len().max(1),
        args.pattern.len().max(1),
        args.access.len().max(1),
        args.block.0.len(),
        args.depth.0.len(),
        args.jobs.0.len(),
        args.direct.0.len(),
        args.registered.0.len(),
        args.fsync.0.len(),
        args.verify.0.len(),
    ];
    let tests = axes.iter().product::<usize>() as u32;
    let runs = args.runs.runs();
    Cost {
        once: tests * runs.warm_up
            + Duration::from_secs_f64(args.file_size as f64 / WRITE_BYTES_PER_S),
        each_run: tests * runs.seconds,
        memory_bytes: 256 << 20,
        disk_bytes: if args.device.is_some() {
            0
        } else {
            args.file_size
        },
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The file is made by dpb, never one that was there: a file that dpb did not make is refused. Its name is removed from the folder as \
                  soon as it is open, so the system frees its space when dpb ends, however it ends; --keep leaves the file there. Each block says where it lies, which write it is of, \
                  and a checksum; a read that brings another is a failure.\n\
                  Without --direct the page cache is part of what is measured, and reads come from it.\n\
                  Examples:\n  dpb storage --file /mnt/nvme/test --direct\n  \
                  dpb storage --access read --pattern random --block 8KiB --depth 1..64 --engine io_uring,libaio --direct\n  \
                  dpb storage --access mixed --read-share 70% --block 8KiB --depth 32 --jobs 1,2 --verify\n  \
                  dpb storage --access write --pattern sequential --block 1MiB --fsync end --beside\n  \
                  dpb storage --device /dev/nvme0n1 --access read --direct"
)]
pub struct Args {
    /// The file to make, in a folder that is there [default: storage.dpb in the data directory]
    #[arg(long, value_name = "FILE", help_heading = WHERE)]
    file: Option<PathBuf>,
    /// A folder for the file, if --file names none [default: $DPB_DATA_DIR, else ~/.local/share/dpb]
    #[arg(long, value_name = "FOLDER", help_heading = WHERE, conflicts_with_all = ["file", "device"])]
    data_dir: Option<PathBuf>,
    /// Bytes of the file, or the first bytes of the device that are used
    #[arg(long, value_name = "SIZE", help_heading = WHERE, value_parser = args::size, default_value = "1GiB")]
    file_size: u64,
    /// Leave the file there; the next run with the same size and seed uses it as it is, and `dpb clean` removes it from the data directory
    #[arg(long, help_heading = WHERE, conflicts_with = "device")]
    keep: bool,
    /// For `dpb run`: leave the file to the next test, which names the same
    #[arg(long, hide = true, conflicts_with = "device")]
    keep_for_next: bool,
    /// A block device to read; what it holds is not checked
    #[arg(long, value_name = "FILE", help_heading = WHERE, conflicts_with = "file")]
    device: Option<PathBuf>,
    /// The same device once more: it is written to, and all that it holds is lost
    #[arg(long, help_heading = WHERE, value_name = "DEVICE", requires = "device")]
    i_know_this_destroys: Option<PathBuf>,
    /// How requests reach the kernel; libaio stands for the kernel's calls that this library wraps
    #[arg(long, help_heading = REQUESTS, value_enum, value_delimiter = ',', default_value = "io_uring")]
    engine: Vec<EngineName>,
    /// Where requests go
    #[arg(long, help_heading = REQUESTS, value_enum, value_delimiter = ',', default_value = "random,sequential")]
    pattern: Vec<PatternName>,
    /// What requests are [default: read,write; of a device that is not to be destroyed, read]
    #[arg(long, help_heading = REQUESTS, value_enum, value_delimiter = ',')]
    access: Vec<AccessName>,
    /// The part of mixed requests that reads
    #[arg(long, value_name = "SHARES", help_heading = REQUESTS, value_parser = args::share, value_delimiter = ',', default_value = "70%")]
    read_share: Vec<f64>,
    /// Bytes of a request
    #[arg(long, value_name = "SIZES", help_heading = REQUESTS, value_parser = args::sizes, default_value = "8KiB,4MiB")]
    block: List<u64>,
    /// Requests in flight of each job
    #[arg(long, value_name = "COUNTS", help_heading = REQUESTS, value_parser = args::counts, default_value = "1")]
    depth: List<u64>,
    /// Threads, each with an equal part of the file of its own
    #[arg(long, value_name = "COUNTS", help_heading = REQUESTS, value_parser = args::thread_counts, default_value = "1")]
    jobs: List<u64>,
    /// Pass by the page cache (O_DIRECT)
    #[arg(long, help_heading = REQUESTS, value_parser = switches, value_name = "YES|NO", num_args = 0..=1, default_missing_value = "yes", default_value = "no")]
    direct: List<bool>,
    /// Register buffers and file with io_uring
    #[arg(long, help_heading = REQUESTS, value_parser = switches, value_name = "YES|NO", num_args = 0..=1, default_missing_value = "yes", default_value = "no")]
    registered: List<bool>,
    /// When writes must be on the device: never, at the end of each run (on the clock), or after so many writes of a job
    #[arg(long, help_heading = REQUESTS, value_parser = syncs, value_name = "never|end|WRITES", default_value = "never")]
    fsync: List<SyncAt>,
    /// Check all of each block that is read, on the clock, and read back all that was written, off it; without this, the first bytes of
    /// each block, and 64 blocks of each run
    #[arg(long, help_heading = REQUESTS, value_parser = switches, value_name = "YES|NO", num_args = 0..=1, default_missing_value = "yes", default_value = "no")]
    verify: List<bool>,
    #[command(flatten)]
    runs: RunFlags,
    /// Run fio too, on the same file with the same parameters
    #[arg(long, help_heading = OUTPUT)]
    beside: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// io_uring
    #[value(name = "io_uring")]
    IoUring,
    /// io_submit(2)
    Libaio,
    /// pread(2) and pwrite(2), one request at a time
    Sync,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PatternName {
    /// To blocks that are drawn
    Random,
    /// To one block after the other
    Sequential,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AccessName {
    Read,
    Write,
    /// Either, drawn for each request
    Mixed,
}

/// When writes must be on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SyncAt(Fsync);

impl std::fmt::Display for SyncAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Fsync::Never => f.write_str("never"),
            Fsync::End => f.write_str("end"),
            Fsync::Every(writes) => write!(f, "{writes}"),
        }
    }
}

/// A list of switches.
fn switches(text: &str) -> Result<List<bool>, String> {
    let switch = |word: &str| match word.trim() {
        "yes" | "true" | "1" => Ok(true),
        "no" | "false" | "0" => Ok(false),
        other => Err(format!("`{other}` is neither yes nor no")),
    };
    text.split(',')
        .map(switch)
        .collect::<Result<_, _>>()
        .map(List)
}

/// A list of moments.
fn syncs(text: &str) -> Result<List<SyncAt>, String> {
    let moment = |word: &str| match word.trim() {
        "never" => Ok(SyncAt(Fsync::Never)),
        "end" => Ok(SyncAt(Fsync::End)),
        other => args::count(other).map(|writes| SyncAt(Fsync::Every(writes as u32))),
    };
    text.split(',')
        .map(moment)
        .collect::<Result<_, _>>()
        .map(List)
}

/// Runs every combination.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let plans = args.plans()?;
    let jobs = args.jobs.iter().copied().max().unwrap_or(1);
    args.runs.check()?;
    args.runs.say_sharing(jobs);
    let mut results = Results::new(&args.runs, globals)?;
    let progress = Progress::of_task(plans.len() as u64, globals);
    progress.set(0, "laying out the file");
    let target = args.target()?;
    let swept = sweep(&args, &plans, &target, &progress, &mut results);
    drop((progress, target));
    results.print(for_people, for_machines)?;
    swept?;
    results.judge(plans.len())
}

fn sweep(
    args: &Args,
    plans: &[Plan],
    target: &Target,
    progress: &Progress,
    results: &mut Results,
) -> Result<(), Failure> {
    for (at, plan) in plans.iter().enumerate() {
        if interrupt::is_set() {
            break;
        }
        let blank = args.record(plan);
        progress.set(at as u64, &named(plan));
        results.keep(args.measure(plan, target, blank.clone()))?;
        if !args.beside || interrupt::is_set() {
            continue;
        }
        progress.set(at as u64, &format!("{}, fio", named(plan)));
        if plan.access.writes() {
            target.give_up_contents().map_err(failure)?;
        }
        // What the runs before have left in the cache is not fio's to write.
        let before = || drop(target.sync());
        for record in peer::records(&blank, &fio::peer(&args.runs, plan, target, &before)) {
            results.keep(record)?;
        }
        if plan.access.writes() && !interrupt::is_set() {
            target.lay_out(interrupt::flag()).map_err(failure)?;
        }
    }
    Ok(())
}

fn failure(error: TargetError) -> Failure {
    let message = error.to_string();
    match error {
        TargetError::Refused(_) => Failure::usage(message),
        TargetError::NoSpace(_) => Failure::unavailable(message),
        TargetError::Failed(_) => Failure::check(message),
        TargetError::Interrupted => Failure::interrupted(message),
    }
}

/// The file in a data directory that `--keep` leaves there.
pub fn kept_file(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

impl Args {
    fn accesses(&self) -> Vec<Access> {
        let usual = match self.device.is_some() && self.i_know_this_destroys.is_none() {
            true => &[AccessName::Read][..],
            false => &[AccessName::Read, AccessName::Write],
        };
        let names = if self.access.is_empty() {
            usual
        } else {
            &self.access
        };
        let mut accesses = Vec::new();
        for name in names {
            match name {
                AccessName::Read => accesses.push(Access::Read),
                AccessName::Write => accesses.push(Access::Write),
                AccessName::Mixed => {
                    let shares = self.read_share.iter();
                    accesses.extend(shares.map(|&read_share| Access::Mixed { read_share }));
                }
            }
        }
        accesses
    }

    /// The cartesian product, engines innermost so that what is compared is measured close together.
    fn plans(&self) -> Result<Vec<Plan>, Failure> {
        let mut plans = vec![Plan {
            engine: Engine::Sync,
            pattern: Pattern::Random,
            access: Access::Read,
            block: 0,
            depth: 1,
            jobs: 1,
            direct: false,
            sync: Fsync::Never,
            registered: false,
            verify: false,
            runs: self.runs.runs(),
            seed: self.runs.seed,
        }];
        fn by<T: Copy>(plans: &mut Vec<Plan>, values: &[T], set: impl Fn(&mut Plan, T)) {
            let each = |plan: &Plan| {
                values
                    .iter()
                    .map(|&value| (plan.clone(), value))
                    .collect::<Vec<_>>()
            };
            let pairs: Vec<_> = plans.iter().flat_map(each).collect();
            *plans = pairs
                .into_iter()
                .map(|(mut plan, value)| {
                    set(&mut plan, value);
                    plan
                })
                .collect();
        }
        by(&mut plans, &self.block.0, |plan, block| plan.block = block);
        by(&mut plans, &self.pattern, |plan, pattern| {
            plan.pattern = pattern.pattern()
        });
        by(&mut plans, &self.accesses(), |plan, access| {
            plan.access = access
        });
        by(&mut plans, &self.direct.0, |plan, direct| {
            plan.direct = direct
        });
        by(&mut plans, &self.fsync.0, |plan, SyncAt(sync)| {
            plan.sync = sync
        });
        by(&mut plans, &self.verify.0, |plan, verify| {
            plan.verify = verify
        });
        by(&mut plans, &self.jobs.0, |plan, jobs| {
            plan.jobs = jobs as u32
        });
        by(&mut plans, &self.depth.0, |plan, depth| {
            plan.depth = depth as u32
        });
        by(&mut plans, &self.registered.0, |plan, registered| {
            plan.registered = registered
        });
        by(&mut plans, &self.engine, |plan, engine| {
            plan.engine = engine.engine()
        });
        self.check(&plans)?;
        Ok(plans)
    }

    fn check(&self, plans: &[Plan]) -> Result<(), Failure> {
        if let Some(plan) = plans.iter().find(|plan| !storage::is_block(plan.block)) {
            return Err(Failure::usage(format!(
                "--block {}: requests are multiples of 512 bytes, of {} at most",
                plan.block,
                storage::BLOCK_BYTES_MAX
            )));
        }
        let unit = storage::unit_bytes(self.block.iter().copied());
        if !self.file_size.is_multiple_of(unit) || self.file_size == 0 {
            return Err(Failure::usage(format!(
                "--file-size {}: it is a multiple of {unit} bytes",
                self.file_size
            )));
        }
        let Some(device) = &self.device else {
            return Ok(());
        };
        match &self.i_know_this_destroys {
            Some(named) if named != device => Err(Failure::usage(format!(
                "--i-know-this-destroys {} names another device than --device {}; nothing was written",
                named.display(),
                device.display()
            ))),
            None if plans.iter().any(|plan| plan.access.writes()) => Err(Failure::usage(format!(
                "writing destroys all that {0} holds; if that is meant, add --i-know-this-destroys {0}",
                device.display()
            ))),
            None if plans.iter().any(|plan| plan.verify) => Err(Failure::usage(format!(
                "what {} holds is not dpb's and cannot be verified; leave --verify out",
                device.display()
            ))),
            _ => Ok(()),
        }
    }

    fn target(&self) -> Result<Target, Failure> {
        let laying = Laying {
            bytes: self.file_size,
            unit: storage::unit_bytes(self.block.iter().copied()),
            seed: self.runs.seed,
            stop: interrupt::flag(),
        };
        let target = match (&self.device, &self.i_know_this_destroys) {
            (Some(device), Some(_)) => Target::of_device_to_destroy(device, &laying),
            (Some(device), None) => Target::of_device(device, self.file_size),
            (None, _) => Target::of_file(&self.path()?, &laying, self.keep || self.keep_for_next),
        };
        target.map_err(failure)
    }

    fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let folder = self.data_dir.clone().unwrap_or_else(default_data_dir);
        std::fs::create_dir_all(&folder).map_err(|error| {
            Failure::usage(format!("the data directory {}: {error}", folder.display()))
        })?;
        Ok(kept_file(&folder))
    }

    fn record(&self, plan: &Plan) -> Record {
        let place = self.device.as_deref().or(self.file.as_deref());
        let place = place.unwrap_or(Path::new(FILE)).display().to_string();
        let mut record = Record::new("storage", Evidence::Measured, plan.seed)
            .with(
                if self.device.is_some() {
                    "device"
                } else {
                    "file"
                },
                place,
            )
            .with("file_size", self.file_size)
            .with("engine", plan.engine.to_string())
            .with("pattern", pattern_name(plan.pattern))
            .with("access", access_name(plan.access))
            .with("block", plan.block)
            .with("depth", u64::from(plan.depth))
            .with("jobs", u64::from(plan.jobs))
            .with("direct", plan.direct)
            .with("registered", plan.registered)
            .with("fsync", SyncAt(plan.sync).to_string())
            .with("verify", plan.verify)
            .with("tool", "dpb");
        if let Access::Mixed { read_share } = plan.access {
            record = record.with("read_share", read_share);
        }
        self.runs.note(record)
    }

    /// One test, as one record whatever comes of it.
    fn measure(&self, plan: &Plan, target: &Target, record: Record) -> Record {
        match storage::measure(plan, target, &WallClock::default(), interrupt::flag()) {
            Ok(measured) => self.filled(record, plan, target, &measured),
            Err(broken) => sweep::broken(record, &broken),
        }
    }

    fn filled(
        &self,
        mut record: Record,
        plan: &Plan,
        target: &Target,
        measured: &Measured,
    ) -> Record {
        let runs = &measured.runs;
        let each = |of: fn(&storage::Run) -> f64| runs.iter().map(of).collect::<Vec<_>>();
        let rates = each(|run| run.items_per_s);
        record.sample("items_per_s", rates.clone());
        record.sample("bytes_per_s", each(|run| run.bytes_per_s));
        record.sample(
            "cpu_ns_per_item",
            each(|run| run.cpu_ns as f64 / run.handled.items().max(1) as f64),
        );
        let mean = |run: &storage::Run| run.latency_ns as f64 / run.handled.items().max(1) as f64;
        record.sample("latency_ns_mean", each(mean));
        let all: Vec<Latencies> = runs.iter().map(storage::Run::all).collect();
        add_latencies(&mut record, "latency_ns", &all);
        if plan.access.reads() && plan.access.writes() {
            add_latencies(
                &mut record,
                "read_latency_ns",
                &each_of(runs, |run| &run.reads),
            );
            add_latencies(
                &mut record,
                "write_latency_ns",
                &each_of(runs, |run| &run.writes),
            );
        }
        if plan.sync != Fsync::Never {
            add_latencies(&mut record, "fsync_ns", &each_of(runs, |run| &run.syncs));
        }
        let total =
            |of: fn(&storage::Handled) -> u64| runs.iter().map(|run| of(&run.handled)).sum::<u64>();
        for (name, count) in [
            ("reads", total(|handled| handled.reads)),
            ("writes", total(|handled| handled.writes)),
            ("bytes_read", total(|handled| handled.bytes_read)),
            ("bytes_written", total(|handled| handled.bytes_written)),
            ("fsyncs", total(|handled| handled.syncs)),
        ] {
            record.counts.insert(name.to_owned(), count);
        }
        record.check = Some(check_of(plan, target, measured));
        let (jobs, repeat) = (u64::from(plan.jobs), self.runs.repeat());
        sweep::conclude(
            &mut record,
            &rates,
            repeat,
            jobs,
            &measured.interference,
            measured.interrupted,
        );
        record
    }
}

fn check_of(plan: &Plan, target: &Target, measured: &Measured) -> Check {
    let against = match (target.is_stamped(), plan.verify) {
        (true, true) => "place, write and checksum of every unit; all that was written read back",
        (true, false) => "the place of each block; 64 blocks of each run and job read back",
        (false, _) => "lengths alone: what the device holds is not dpb's",
    };
    Check {
        against: against.to_owned(),
        compared: measured.compared,
        digest: None,
    }
}

fn each_of(runs: &[storage::Run], of: fn(&storage::Run) -> &Latencies) -> Vec<Latencies> {
    runs.iter().map(|run| of(run).clone()).collect()
}

/// A percentile is taken of each run, so that it has an interval; the histogram is of all runs.
fn add_latencies(record: &mut Record, name: &str, runs: &[Latencies]) {
    let each =
        |of: &dyn Fn(&Latencies) -> u64| runs.iter().map(|run| of(run) as f64).collect::<Vec<_>>();
    for (end, share) in PERCENTILES {
        record.sample(
            &format!("{name}_{end}"),
            each(&|run| run.percentile_ns(share)),
        );
    }
    record.sample(&format!("{name}_max"), each(&Latencies::max_ns));
    let mut all = Latencies::default();
    runs.iter().for_each(|run| all.add(run));
    let histogram = Samples {
        values: Vec::new(),
        hdr: Some(all.to_base64()),
    };
    record.samples.insert(name.to_owned(), histogram);
}

impl EngineName {
    fn engine(self) -> Engine {
        match self {
            Self::IoUring => Engine::IoUring,
            Self::Libaio => Engine::Libaio,
            Self::Sync => Engine::Sync,
        }
    }
}

impl PatternName {
    fn pattern(self) -> Pattern {
        match self {
            Self::Random => Pattern::Random,
            Self::Sequential => Pattern::Sequential,
        }
    }
}

fn pattern_name(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Random => "random",
        Pattern::Sequential => "sequential",
    }
}

fn access_name(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
        Access::Mixed { .. } => "mixed",
    }
}

fn named(plan: &Plan) -> String {
    format!(
        "{} {}, {} B, {} in flight, {} jobs, {}",
        pattern_name(plan.pattern),
        access_name(plan.access),
        plan.block,
        plan.depth,
        plan.jobs,
        plan.engine
    )
}

/// Parameters that a person sees only where they vary.
const OPTIONAL: [&str; 6] = [
    "jobs",
    "direct",
    "registered",
    "fsync",
    "verify",
    "read_share",
];

fn for_people(records: &[Record]) -> Table {
    let varies = |name: &&str| {
        let mut values = records.iter().map(|record| parameter(record, name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let has_peers = records
        .iter()
        .any(|record| parameter(record, "tool") != "dpb");
    let shown: Vec<&str> = OPTIONAL.into_iter().filter(varies).collect();
    let mut columns = vec![
        Column::left("requests"),
        Column::right("block"),
        Column::right("depth"),
        Column::left("engine"),
    ];
    columns.extend(shown.iter().map(|name| Column::left(*name)));
    columns.extend(has_peers.then(|| Column::left("by")));
    let figures = [
        "requests/s",
        "bytes/s",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "max",
        "CPU",
    ];
    columns.extend(figures.map(Column::right));
    columns.extend(has_peers.then(|| Column::right("vs fio")));
    columns.extend([Column::left("evidence"), Column::noted("verdict")]);
    let mut table = Table::new(columns);
    for record in records {
        let mut row = row_start(record, &shown);
        row.extend(has_peers.then(|| parameter(record, "tool")));
        row.extend(row_figures(record));
        row.extend(has_peers.then(|| sweep::versus(record, records, "fio", "items_per_s")));
        row.extend([evidence(record).to_owned(), verdict(record)]);
        table.row(row);
    }
    table
}

fn row_start(record: &Record, shown: &[&str]) -> Vec<String> {
    let kind = ["pattern", "access", "direction"].map(|name| parameter(record, name));
    let mut row = vec![kind.join(" ").trim_end().to_owned()];
    row.extend(["block", "depth", "engine"].map(|name| parameter(record, name)));
    row.extend(shown.iter().map(|name| parameter(record, name)));
    row
}

fn row_figures(record: &Record) -> Vec<String> {
    let figure = |name: &str, text: fn(f64) -> String| {
        let figure = record.summary.get(name);
        figure.map_or("-".to_owned(), |figure| text(figure.median))
    };
    let mut row = ["items_per_s", "bytes_per_s"]
        .map(|name| figure(name, short))
        .to_vec();
    let times = ["mean", "p50", "p99", "p999", "max"];
    row.extend(times.map(|end| figure(&format!("latency_ns_{end}"), short_ns)));
    row.push(figure("cpu_ns_per_item", short_ns));
    row
}

fn for_machines(records: &[Record]) -> Table {
    let parameters = [
        "file",
        "device",
        "file_size",
        "engine",
        "pattern",
        "access",
        "read_share",
        "block",
        "depth",
        "jobs",
        "direct",
        "registered",
        "fsync",
        "verify",
        "tool",
        "direction",
    ];
    let figures = [
        "items_per_s",
        "bytes_per_s",
        "latency_ns_mean",
        "latency_ns_p50",
        "latency_ns_p90",
        "latency_ns_p99",
        "latency_ns_p999",
        "latency_ns_max",
        "cpu_ns_per_item",
    ];
    sweep::for_machines(records, &parameters, &figures)
}
