//! `dpb op`: any operator over sizes, batches, threads and backends.

mod inputs;
mod table;

use std::num::NonZeroU32;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{ArgMatches, ValueEnum};
use dpb_core::measure::harness::{self, Broken, Mode, Plan};
use dpb_core::measure::provenance::{allowed_cpus, memory_available_bytes};
use dpb_core::measure::{Durability, Outcome, Record, Store};
use dpb_core::{Backend, ClockKind, Families, OpSpec, OpenError, SetupError};
use dpb_operators::registry::{Case, Entry, Operators};

use crate::args::{self, List};
use crate::exit::Failure;
use crate::output::{self, Format, Progress};
use crate::task::{
    Base, Cost, Parameter, Task, View, axis, charted, flags, listed, recorded_by_name,
};
use crate::{Globals, backends, interrupt, spec};

/// Told to stop, a test is awaited for so long: somewhat more than the harness waits for jobs in flight.
const GRACE: Duration = Duration::from_secs(3);
/// How often the signal is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The task: operators.
pub const TASK: Task = Task {
    name: "op",
    summary: "operators over sizes, batches, threads and backends",
    example: "dpb op crc32c --size 64..1024",
    apart: &["out"],
    prepare: None,
    shared_file: None,
    view: VIEW,
    check,
    cost,
    recorded,
    published: None,
    server_end: None,
};

const VIEW: View = View {
    lead: &[
        "operator", "backend", "size", "batch", "threads", "depth", "mode", "rate",
    ],
    series: &["backend"],
    sweeps: &[
        axis("size", "bytes per item", output::bytes),
        axis("threads", "threads", output::number),
        axis("batch", "items per job", output::number),
        axis("depth", "jobs in flight", output::number),
        axis("rate", "jobs offered per second", output::short),
    ],
    fixed: &["operator", "mode", "input", "working_set"],
    metrics: &[
        charted("bytes_per_s", "input bytes per second", output::short),
        listed("items_per_s", "items per second", output::short),
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
        listed(
            "host_cpu_ns_per_item",
            "host CPU time per item",
            output::short_ns,
        ),
    ],
    base: Some(Base {
        side: "backend",
        base: "cpu/portable",
        metric: "items_per_s",
        own: &[],
    }),
};

// The groups of flags in the help.
const WORK: &str = "The work";
const RUNS: &str = "The runs";
const FIGURES: &str = "Figures and output";

/// Measure an operator over sizes, batches, threads and backends.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dpb op crc32c --size 64..1024 --batch 256 --threads 1,2\n  \
                  dpb op deflate --parameters level=1 --parameters level=9,format=zlib --size 64KiB --input words.txt\n  \
                  dpb op deflate --backend cpu,cpu-threads,dpdk:compress_isal --size 1KiB..1MiB --batch 1 --host-cpu\n  \
                  dpb op lpm4 --backend cpu,dpdk/libraries,dpdk/lpm --size 4KiB\n  \
                  dpb op sha256 --mode open --rate 1e5 --backend cpu/best,pool/2\n  \
                  dpb op all --seconds 0.1 --out records.jsonl"
)]
pub struct Args {
    /// The operator to measure (see `dpb list`), or `all`
    #[arg(value_name = "NAME")]
    operator: String,
    /// The operator's own parameters, as key=value with commas between; give the flag several times to compare
    #[arg(long, value_name = "TEXT", help_heading = WORK, default_value = "")]
    parameters: Vec<String>,
    /// Bytes of an item; for a decoder the bytes that it decodes to
    #[arg(long, value_name = "SIZES", help_heading = WORK, value_parser = args::sizes, default_value = "64,1500,64KiB")]
    size: List<u64>,
    /// Items of a job [default: as many as fit 16 KiB, 256 at most; of costly ones, such as signatures, one]
    #[arg(long, value_name = "COUNTS", help_heading = WORK, value_parser = args::counts)]
    batch: Option<List<u64>>,
    /// Threads, each with a queue of its own
    #[arg(long, value_name = "COUNTS", help_heading = RUNS, value_parser = args::thread_counts, default_value = "1")]
    threads: List<u64>,
    /// Backends by name (see `dpb list`), or `all`
    #[arg(long, value_name = "NAMES", help_heading = WORK, value_parser = backends::names, default_value = "all")]
    backend: List<String>,
    /// Jobs in flight on each queue
    #[arg(long, value_name = "COUNTS", help_heading = RUNS, value_parser = args::counts, default_value = "8")]
    depth: List<u64>,
    /// How long one run takes
    #[arg(long, value_name = "TIME", help_heading = RUNS, value_parser = args::duration, default_value = "0.2")]
    seconds: Duration,
    /// How long each thread works before the first run
    #[arg(long, value_name = "TIME", help_heading = RUNS, value_parser = args::duration, default_value = "50ms")]
    warm_up: Duration,
    /// Runs of each test; below 6 a number has no 95 % interval
    #[arg(long, value_name = "COUNT", help_heading = RUNS, value_parser = args::count, default_value = "7")]
    repeat: u64,
    /// Seed of the inputs and of the open loop's schedule
    #[arg(long, value_name = "NUMBER", help_heading = WORK, default_value = "1")]
    seed: u64,
    /// Cut items from this file, of 1 GiB at most, instead of generating them
    #[arg(long, value_name = "FILE", help_heading = WORK)]
    input: Option<PathBuf>,
    /// Inputs cycle through this much memory; costly items, such as signatures, through as much as costs the same
    #[arg(long, value_name = "SIZE", help_heading = WORK, value_parser = args::size, default_value = "1MiB")]
    working_set: u64,
    /// Closed loop: a job starts when another ends. Open loop: jobs start at the given rate, whatever the backend does
    #[arg(long, help_heading = RUNS, value_enum, default_value = "closed")]
    mode: Loop,
    /// Open loop: how many jobs arrive a second, over all threads
    #[arg(long, value_name = "RATES", help_heading = RUNS, value_parser = args::rates, required_if_eq("mode", "open"))]
    rate: Option<List<f64>>,
    /// Closed loop: measure each job's time too, in runs of their own
    #[arg(long, help_heading = FIGURES)]
    latency: bool,
    /// Closed loop: measure the host's CPU time too, waiting not counted, in runs of their own
    #[arg(long, help_heading = FIGURES)]
    host_cpu: bool,
    /// Pin the threads to these cores, in order
    #[arg(long, value_name = "NUMBERS", help_heading = RUNS, value_parser = args::numbers)]
    pin: Option<List<u64>>,
    /// Append the records to this file, in a folder that is there
    #[arg(long, value_name = "FILE", help_heading = FIGURES)]
    out: Option<PathBuf>,
}

/// Who decides when a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Loop {
    Closed,
    Open,
}

/// One test: a value for every parameter.
struct Test {
    entry: &'static Entry,
    case: Case,
    size: u64,
    batch: u64,
    threads: u64,
    depth: u64,
    rate: Option<f64>,
    backend: Box<dyn Backend>,
}

/// Whether a command line names operators, parameters and backends that there are.
fn check(matches: &ArgMatches, globals: &Globals) -> Result<(), Failure> {
    let args: Args = flags(matches)?;
    args.tests(globals).map(drop)
}

/// Records name an input where the flag names a file; the content of a file that a parameter names is in no record.
fn recorded(parameter: &Parameter, record: &Record) -> Option<String> {
    match parameter.name.as_str() {
        "input" => None,
        "parameters" => {
            let own = spec::own(record).map(|(_, value)| value.to_string());
            let has_content = own.into_iter().any(|value| value.contains(' '));
            (!has_content).then(|| spec::written(record))
        }
        _ => recorded_by_name(parameter, record),
    }
}

/// A run is as long as `--seconds` says; the rest is making inputs and looking at results.
fn cost(matches: &ArgMatches) -> Cost {
    const SET_UP: Duration = Duration::from_millis(150);
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let threads = args.threads.iter().copied().max().unwrap_or(1);
    let (size, batch) = (
        args.size.iter().max(),
        args.batch.iter().flat_map(List::iter).max(),
    );
    let job_bytes = size
        .unwrap_or(&0)
        .saturating_mul(*batch.unwrap_or(&1))
        .max(16_384);
    let depth = args.depth.iter().copied().max().unwrap_or(1);
    let sweeps = [
        args.size.0.len(),
        args.batch.as_ref().map_or(1, |list| list.0.len()),
        args.threads.0.len(),
        args.depth.0.len(),
        args.rate.as_ref().map_or(1, |list| list.0.len()),
        args.parameters.len(),
        args.backend.0.len(),
    ];
    let tests = sweeps.iter().product::<usize>() as u32;
    let modes = 1 + u32::from(args.latency) + u32::from(args.host_cpu);
    Cost {
        once: tests * (SET_UP + modes * args.warm_up),
        each_run: tests * modes * args.seconds,
        memory_bytes: memory_bytes(args.working_set, job_bytes, threads.saturating_mul(depth)),
        disk_bytes: 0,
    }
}

/// Main memory of a test, about: inputs with the right output of each, and destinations as the harness allocates them, if an output is
/// as long as its input.
fn memory_bytes(working_set: u64, job_bytes: u64, in_flight: u64) -> u64 {
    /// Jobs of a segment for each that is in flight, if memory allows.
    const SEGMENT_DEPTHS: u64 = 64;
    let inputs = working_set.max(job_bytes);
    let least = job_bytes.saturating_mul(in_flight);
    let wanted = least.saturating_mul(SEGMENT_DEPTHS);
    let destinations = wanted.min(harness::DST_BYTES_MAX as u64).max(least);
    inputs.saturating_mul(2).saturating_add(destinations)
}

/// Runs every combination, prints a line for each. Whatever can be known to be wrong is said before the first.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let tests = args.tests(globals)?;
    let loads = inputs::Inputs::new(&args, &tests)?;
    warn_of_shared_cores(&tests);
    let store = match &args.out {
        Some(path) => Some(output::open_records(path, Durability::Machine)?),
        None => None,
    };
    let asked = tests.len();
    let mut records = Vec::new();
    let swept = carry_out(args, tests, loads, store, globals, &mut records);
    table::print(&records, globals.format())?;
    if globals.format() == Format::Table {
        output::print(&crate::report::pays::for_people(&records))?;
    }
    swept?;
    judge(&records, asked)
}

/// Measures one test after the other; `records` has what was measured, even if keeping it fails.
///
/// The work has a thread of its own, which is left behind if it does not stop when told to: a key schedule or an
/// automaton of many rules knows nothing of Ctrl-C.
fn carry_out(
    args: Args,
    tests: Vec<Test>,
    mut loads: inputs::Inputs,
    mut store: Option<Store>,
    globals: &Globals,
    records: &mut Vec<Record>,
) -> Result<(), Failure> {
    let stop = interrupt::flag();
    let names: Vec<String> = tests.iter().map(Test::to_string).collect();
    let progress = Progress::of_task(names.len() as u64, globals);
    let (sender, measured) = channel();
    let work = move || {
        for test in &tests {
            let record = args.measure(test, &mut loads, stop);
            if sender.send(record).is_err() || interrupt::is_set() {
                break;
            }
        }
    };
    let worker = thread::Builder::new().name("dpb-op".to_owned()).spawn(work);
    let worker =
        worker.map_err(|error| Failure::check(format!("cannot start a thread: {error}")))?;
    for (at, name) in names.iter().enumerate() {
        progress.set(at as u64, name);
        let Some(record) = next(&measured, stop, GRACE) else {
            break;
        };
        if let Some(store) = &mut store {
            store.append(&record).map_err(anyhow::Error::from)?;
        }
        if globals.format() == Format::Json {
            output::print_json(&record)?;
        }
        records.push(record);
    }
    if !interrupt::is_set()
        && let Err(panic) = worker.join()
    {
        resume_unwind(panic);
    }
    Ok(())
}

/// The next that is measured; `None` after the last, and when the work was told to stop and does not for `grace`.
fn next<T>(measured: &Receiver<T>, stop: &AtomicBool, grace: Duration) -> Option<T> {
    let mut told: Option<Instant> = None;
    loop {
        match measured.recv_timeout(LOOK) {
            Ok(next) => return Some(next),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                if told.get_or_insert_with(Instant::now).elapsed() > grace {
                    return None;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

impl Args {
    /// The cartesian product, backends innermost so that what is compared is measured close together.
    fn tests(&self, globals: &Globals) -> Result<Vec<Test>, Failure> {
        let families = globals.families;
        if self.mode == Loop::Closed && self.rate.is_some() {
            return Err(Failure::usage(
                "--rate needs --mode open: a closed loop has no rate",
            ));
        }
        if self.mode == Loop::Open && self.latency {
            return Err(Failure::usage(
                "--latency is for the closed loop; an open loop always measures it",
            ));
        }
        if self.mode == Loop::Open && self.host_cpu {
            return Err(Failure::usage("--host-cpu is for the closed loop"));
        }
        let cpus = allowed_cpus();
        let is_foreign =
            |core: &&u64| !cpus.is_empty() && !cpus.iter().any(|&cpu| u64::from(cpu) == **core);
        if let Some(core) = self.pin.iter().flat_map(List::iter).find(is_foreign) {
            return Err(Failure::usage(format!(
                "--pin {core}: this process may not use such a core; it may use {cpus:?}"
            )));
        }
        let rates: Vec<Option<f64>> = match &self.rate {
            Some(rates) => rates.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        let mut tests = Vec::new();
        for (entry, case) in self.cases(globals.operators)? {
            let names = self.backend_names(&case.spec, families);
            for &size in &self.size {
                let usual = List(vec![usual_batch(size, &case.spec)]);
                for &batch in self.batch.as_ref().unwrap_or(&usual) {
                    check_job(size, batch)?;
                    for (&threads, &depth) in product(&self.threads, &self.depth) {
                        for &rate in &rates {
                            for name in &names {
                                let backend = families.open(name);
                                tests.push(Test {
                                    entry,
                                    case: case.clone(),
                                    size,
                                    batch,
                                    threads,
                                    depth,
                                    rate,
                                    backend: backend.map_err(unknown)?,
                                });
                            }
                        }
                    }
                }
            }
        }
        Ok(tests)
    }

    /// What is measured; parameters that come to the same are one case.
    fn cases(&self, operators: Operators) -> Result<Vec<(&'static Entry, Case)>, Failure> {
        let mut cases: Vec<(&Entry, Case)> = Vec::new();
        for entry in self.entries(operators)? {
            for parameters in &self.parameters {
                let case = entry.case(parameters);
                let case = case.map_err(|error| Failure::usage(error.to_string()))?;
                if !cases.iter().any(|(_, known)| *known == case) {
                    cases.push((entry, case));
                }
            }
        }
        Ok(cases)
    }

    fn entries(&self, operators: Operators) -> Result<Vec<&'static Entry>, Failure> {
        if self.operator == "all" {
            return Ok(operators.iter().collect());
        }
        let entry = operators.find(&self.operator).ok_or_else(|| {
            let known: Vec<&str> = operators.iter().map(|entry| entry.name).collect();
            let known = known.join(", ");
            Failure::usage(format!(
                "no operator `{}`; there are: {known}, all (see `dpb list`)",
                self.operator
            ))
        })?;
        Ok(vec![entry])
    }

    fn backend_names(&self, spec: &OpSpec, families: Families) -> Vec<String> {
        let all = || families.all_for(spec);
        let chosen = self.backend.iter().flat_map(|name| match name.as_str() {
            "all" => all(),
            name => vec![name.to_owned()],
        });
        let mut names = Vec::new();
        for name in chosen {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// One test, as one record whatever comes of it.
    fn measure(&self, test: &Test, loads: &mut inputs::Inputs, stop: &AtomicBool) -> Record {
        let mut record = self.record(test);
        let load = match loads.of(test) {
            Ok(load) => load,
            // A payload that no packet holds, for one.
            Err(reason) => return record.without_numbers(Outcome::Unsupported { reason }),
        };
        record = record.with("input", load.what());
        for mode in self.modes(test) {
            let plan = self.plan(test, mode);
            let backend = &*test.backend;
            match harness::measure(backend, &load.inputs, &*load.workload, &plan, stop) {
                Ok(measured) => measured.fill(&mut record),
                Err(broken) => return record.without_numbers(outcome_of(&broken)),
            }
        }
        record
    }

    fn modes(&self, test: &Test) -> Vec<Mode> {
        if let Some(jobs_per_s) = test.rate {
            return vec![Mode::Open { jobs_per_s }];
        }
        // A model's jobs take none of the host's time.
        let is_wall = test.backend.clock().kind() == ClockKind::Wall;
        let has_host_cpu = self.host_cpu && is_wall;
        let extra = [(self.latency, Mode::Latency), (has_host_cpu, Mode::HostCpu)];
        let extra = extra.into_iter().filter(|(is_asked, _)| *is_asked);
        let extra = extra.map(|(_, mode)| mode);
        [Mode::Throughput].into_iter().chain(extra).collect()
    }

    fn plan(&self, test: &Test, mode: Mode) -> Plan {
        let pin = self.pin.iter().flat_map(List::iter);
        Plan {
            mode,
            threads: nonzero(test.threads),
            depth: nonzero(test.depth),
            seconds: self.seconds,
            warm_up: self.warm_up,
            repeat: self.repeat as u32,
            pin: pin.map(|&core| core as u32).collect(),
            seed: self.seed,
            silence: harness::SILENCE,
            memory_bytes: memory_available_bytes(),
        }
    }

    fn record(&self, test: &Test) -> Record {
        let record = Record::on("op", &*test.backend, &test.case.spec, self.seed);
        let mut record = spec::kept(record, &test.case)
            .with("size", test.size)
            .with("batch", test.batch)
            .with("threads", test.threads)
            .with("depth", test.depth)
            .with(
                "mode",
                if test.rate.is_some() {
                    "open"
                } else {
                    "closed"
                },
            )
            .with("seconds", self.seconds.as_secs_f64())
            .with("repeat", self.repeat)
            .with("working_set", self.working_set);
        if let Some(rate) = test.rate {
            record = record.with("rate", rate);
        }
        let pins = self.pin.iter().flat_map(List::iter);
        record.provenance.pinned = pins.map(|&core| core as u32).collect();
        record
    }
}

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            entry,
            size,
            batch,
            threads,
            backend,
            ..
        } = self;
        write!(
            f,
            "{} {size} B x{batch}, {threads} threads, {}",
            entry.name,
            backend.name()
        )
    }
}

/// A backend that nobody has heard of.
fn unknown(why: OpenError) -> Failure {
    Failure::usage(format!("{why} (see `dpb list backends`)"))
}

/// What this machine cannot give is a finding, whatever else ended a test is a failure.
fn outcome_of(broken: &Broken) -> Outcome {
    let reason = broken.to_string();
    match broken {
        Broken::Unsupported(_)
        | Broken::Setup(
            SetupError::TooDeep { .. }
            | SetupError::OutOfMemory { .. }
            | SetupError::TooLittleMemory { .. }
            | SetupError::NoThread { .. },
        ) => Outcome::Unsupported { reason },
        Broken::Setup(_) | Broken::Wrong(_) => Outcome::Failed { reason },
    }
}

/// What is run when nobody says how many items: as many as fit 16 KiB, or cost as much.
fn usual_batch(size: u64, spec: &OpSpec) -> u64 {
    (16_384 / item_cost(size, spec)).clamp(1, 256)
}

/// An item's bytes, and what it costs besides, as bytes.
fn item_cost(size: u64, spec: &OpSpec) -> u64 {
    (size + spec.cost_bytes() as u64).max(1)
}

fn check_job(size: u64, batch: u64) -> Result<(), Failure> {
    match size.checked_mul(batch) {
        Some(bytes) if bytes <= 1 << 30 => Ok(()),
        _ => Err(Failure::usage(format!(
            "--size {size} --batch {batch} makes jobs of more than 1 GiB; lower one of them"
        ))),
    }
}

fn warn_of_shared_cores(tests: &[Test]) {
    let cores = allowed_cpus().len().max(1) as u64;
    let most = tests.iter().map(|test| test.threads).max().unwrap_or(1);
    if most > cores {
        output::note(&format!(
            "{most} threads share {cores} cores: what they reach together is the cores' work, not the threads'"
        ));
    }
}

fn judge(records: &[Record], asked: usize) -> Result<(), Failure> {
    let failed = records.iter().find_map(|record| match &record.outcome {
        Outcome::Failed { reason } => Some((record, reason)),
        _ => None,
    });
    if let Some((record, reason)) = failed {
        let of = |name: &str| record.parameters.get(name).map(ToString::to_string);
        return Err(Failure::check(format!(
            "{} on {} is wrong or broke: {reason}; there is no number for it",
            of("operator").unwrap_or_default(),
            of("backend").unwrap_or_default(),
        )));
    }
    if interrupt::is_set() {
        return Err(Failure::interrupted(format!(
            "interrupted after {} of {asked} tests",
            records.len()
        )));
    }
    if records.iter().any(|record| record.outcome == Outcome::Done) {
        return Ok(());
    }
    let mut reasons: Vec<&str> = Vec::new();
    for record in records {
        if let Outcome::Unsupported { reason } = &record.outcome
            && !reasons.contains(&reason.as_str())
        {
            reasons.push(reason);
        }
    }
    Err(Failure::unavailable(format!(
        "nothing that was asked for is available here: {}",
        reasons.join("; ")
    )))
}

fn product<'a, A, B>(a: &'a List<A>, b: &'a List<B>) -> impl Iterator<Item = (&'a A, &'a B)> {
    a.iter().flat_map(move |a| b.iter().map(move |b| (a, b)))
}

fn nonzero(count: u64) -> NonZeroU32 {
    u32::try_from(count)
        .ok()
        .and_then(NonZeroU32::new)
        .expect("the parser gives counts from 1 to 2^32 - 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_does_not_stop_is_left_behind() {
        let (sender, measured) = channel();
        sender.send(1).expect("heard");
        let told = AtomicBool::new(true);
        // What was measured counts; then the sender lives on and says nothing.
        assert_eq!(next(&measured, &told, Duration::ZERO), Some(1));
        assert_eq!(next(&measured, &told, Duration::ZERO), None);
        drop(sender);
        let not_told = AtomicBool::new(false);
        assert_eq!(next(&measured, &not_told, Duration::MAX), None);
    }
}
