//! `dpb rdma`: latency and bandwidth between two machines, by perftest's method, with perftest's programs on the other side if
//! that is what is there.

mod beside;
mod show;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use dpb_accel::rdma::bench::{
    self, MeasurementFailure, MeasurementPlan, Method, Role, Verb, Waiting,
};
use dpb_core::WallClock;
use dpb_core::measure::{Durability, Evidence, Outcome, Record, Watch};

use super::peer;
use crate::Globals;
use crate::args::{self, List};
use crate::bulk::fresh_seed;
use crate::exit::Failure;
use crate::interrupt;
use crate::output::{self, Progress, short, short_ns};
use crate::task::{Cost, Parameter, Task, View, axis, charted, flags, listed, recorded_by_name};
use show::{Show, SizeRuns};

/// The longest time between two runs that a server waits for its client.
const CLIENT_PATIENCE: Duration = Duration::from_secs(30);

/// The task: RDMA between two machines.
pub const TASK: Task = Task {
    name: "rdma",
    summary: "latency and bandwidth of RDMA between two machines, as perftest measures them",
    example: "dpb rdma lat --verb write HOST",
    apart: &["server", "listen", "beside", "out"],
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
        "method", "verb", "size", "depth", "qps", "device", "peer", "tool",
    ],
    series: &["verb", "device", "tool"],
    sweeps: &[
        axis("size", "bytes per message", output::bytes),
        axis("depth", "requests in flight", output::number),
        axis("qps", "queue pairs", output::number),
    ],
    fixed: &["method", "role"],
    metrics: &[
        charted("latency_ns_p50", "latency, median", short_ns),
        charted("latency_ns_p99", "latency, 99th percentile", short_ns),
        listed("latency_ns_p999", "latency, 99.9th percentile", short_ns),
        charted("bytes_per_s", "bytes per second", short),
        charted("messages_per_s", "messages per second", short),
        listed("bytes_per_s_peak", "bytes per second, peak", short),
    ],
    base: None,
};

// The groups of flags in the help.
const SIDES: &str = "The two sides";
const WORK: &str = "The work";
const RUNS: &str = "Runs";
const FILES: &str = "Output";

/// Measure latency and bandwidth of RDMA between two machines.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Both sides take the same options. Either may be one of perftest's programs (ib_read_lat … of 5.70 or \
                  later), told the same sizes: -s, or -a for 2..8388608. They measure once: --repeat is for dpb on both sides.\n\
                  Every sample is kept and no figure leaves one out; --format perftest prints perftest's columns, by its rules.\n\
                  Examples:\n  dpb rdma lat --verb write --server --listen 10.0.0.1\n  \
                  dpb rdma lat --verb write 10.0.0.1\n  \
                  dpb rdma bw --verb write --server --listen 10.0.0.1 --repeat 7 --beside\n  \
                  dpb rdma bw --verb write --repeat 7 --beside 10.0.0.1\n  \
                  dpb rdma bw --verb read --size 2..8388608 --depth 128 --qps 4 10.0.0.1 --format perftest"
)]
pub struct Args {
    /// Measure latency or bandwidth
    #[arg(value_enum)]
    method: MethodName,
    /// The server's host
    #[arg(conflicts_with = "server", value_name = "ADDRESS")]
    host: Option<String>,
    /// Run as the server and wait for one client
    #[arg(long, help_heading = SIDES)]
    server: bool,
    /// The address that the server listens on; for clients elsewhere one that they reach, or 0.0.0.0
    #[arg(long, value_name = "ADDRESS", help_heading = SIDES, default_value = "127.0.0.1", requires = "server")]
    listen: IpAddr,
    /// The operation to measure
    #[arg(long, help_heading = WORK, value_enum)]
    verb: VerbName,
    /// Bytes of a message [default: 2 for latency, 65536 for bandwidth]
    #[arg(long, value_name = "SIZES", help_heading = WORK, value_parser = args::sizes)]
    size: Option<List<u64>>,
    /// Requests in flight of a queue pair [default: 1 for latency, 128 for bandwidth]
    #[arg(long, value_name = "COUNT", help_heading = WORK, value_parser = args::count)]
    depth: Option<u64>,
    /// The number of queue pairs
    #[arg(long, value_name = "COUNT", help_heading = WORK, value_parser = args::count, default_value = "1")]
    qps: u64,
    /// Messages of a size on each queue pair [default: 1000; for bandwidth of writes 5000]
    #[arg(long, value_name = "COUNT", help_heading = WORK, value_parser = args::count)]
    iterations: Option<u64>,
    /// One completion for so many requests [default: 100, for messages above 8 KiB and for latency 1]
    #[arg(long, value_name = "COUNT", help_heading = WORK, value_parser = args::count)]
    signal_every: Option<u64>,
    /// Requests posted with one call
    #[arg(long, value_name = "COUNT", help_heading = WORK, value_parser = args::count, default_value = "1")]
    chain: u64,
    /// Messages up to this size travel inside the request [default: for latency 220 in writes, 236 in sends]
    #[arg(long, value_name = "SIZE", help_heading = WORK, value_parser = args::size)]
    inline: Option<u64>,
    /// The device (see `dpb doctor`) [default: the first with a port that is up]
    #[arg(long, value_name = "NAME", help_heading = SIDES)]
    device: Option<String>,
    /// The index of the port's address to use [default: RoCE v2 over IPv4, if there is one]
    #[arg(long, value_name = "NUMBER", help_heading = SIDES)]
    gid_index: Option<u8>,
    /// TCP port over which sides meet
    #[arg(long, value_name = "NUMBER", help_heading = SIDES, default_value_t = bench::PORT)]
    port: u16,
    /// Connect by rdma_cm, on the TCP port's neighbour; both sides must be dpb
    #[arg(long, help_heading = SIDES)]
    cm: bool,
    /// Runs of each size, each with a connection of its own; below 6 a number has no 95 % interval. The server waits for so many clients,
    /// for each after the first up to 30 s
    #[arg(long, value_name = "COUNT", help_heading = RUNS, value_parser = args::count, default_value = "1")]
    repeat: u64,
    /// Then run perftest's program of the same kind, told the same, and keep its figures as records of their own; both sides
    /// need it
    #[arg(long, help_heading = RUNS)]
    beside: bool,
    /// Append the records to this file, in a folder that is there
    #[arg(long, value_name = "FILE", help_heading = FILES)]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MethodName {
    Lat,
    Bw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VerbName {
    Read,
    Write,
    Send,
}

/// Checks that a command line fits together.
fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    let args: Args = flags(matches)?;
    args.whole_plan("").map(drop)
}

/// The host's name in records is the peer's.
fn recorded(parameter: &Parameter, record: &Record) -> Option<String> {
    match parameter.name.as_str() {
        "host" => record.parameters.get("peer").map(ToString::to_string),
        _ => recorded_by_name(parameter, record),
    }
}

/// Messages of small sizes take microseconds; connecting takes longer.
fn cost(matches: &ArgMatches) -> Cost {
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let sizes = args.size.map_or(1, |sizes| sizes.0.len()) as u32;
    Cost {
        once: Duration::from_millis(300),
        each_run: Duration::from_millis(200) + sizes * Duration::from_millis(100),
        ..Cost::default()
    }
}

/// Measures, and shows each size as soon as it is done; what broke on the way is a record too.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    // From here on Ctrl-C asks, so that finished runs are kept.
    interrupt::flag();
    let role = match &args.host {
        Some(host) => Role::Client(host.clone()),
        None if args.server => Role::Server(args.listen),
        None => {
            return Err(Failure::usage(
                "name the server's host, or be the server with --server",
            ));
        }
    };
    let device = match &args.device {
        Some(device) => device.clone(),
        None => bench::first_device().map_err(failure)?,
    };
    let plan = args.whole_plan(&device)?;
    let evidence = Evidence::of_device(bench::software(&device).map_err(failure)?);
    let store = match &args.out {
        Some(path) => Some(output::open_records(path, Durability::Machine)?),
        None => None,
    };
    let mut show = Show {
        as_perftest: globals.as_perftest(),
        format: globals.format(),
        store,
        plan: &plan,
        role: &role,
        evidence,
        repeat: args.repeat as usize,
        runs: vec![SizeRuns::default(); plan.sizes.len()],
        records: Vec::new(),
    };
    show.begin()?;
    let progress = Progress::of_task(args.repeat * plan.sizes.len() as u64, globals);
    let mut ended = measure(&mut show, &progress);
    if args.beside && ended.is_ok() {
        ended = beside(&mut show);
    }
    drop(progress);
    show.end()?;
    ended
}

/// All runs of all sizes. A size's record is there as soon as its last run is.
fn measure(show: &mut Show<'_>, progress: &Progress) -> Result<(), Failure> {
    let (plan, role, repeat) = (show.plan, show.role, show.repeat);
    let timer = WallClock::default();
    for run in 1..=repeat {
        let waiting = Waiting {
            timer: &timer,
            stop: &interrupt::is_set,
            client_within: (run > 1).then_some(CLIENT_PATIENCE),
        };
        let mut shown = Ok(());
        let mut done = (run - 1) * plan.sizes.len();
        progress.set(done as u64, &format!("run {run} of {repeat}"));
        let mut watch = Watch::start();
        let ended = bench::run(plan, role, waiting, fresh_seed(), &mut |measured| {
            if shown.is_err() {
                return;
            }
            done += 1;
            let size = measured.size_bytes;
            progress.set(done as u64, &format!("{size} B, run {run} of {repeat}"));
            let interference = std::mem::replace(&mut watch, Watch::start()).stop();
            shown = show.measured(measured, &interference);
        });
        shown?;
        if let Err(why) = ended {
            return ended_early(show, run, why);
        }
    }
    Ok(())
}

/// Keeps what was measured before `run` ended early. Where a server goes away between two runs, as perftest's programs do, the runs
/// before count and nothing is wrong.
fn ended_early(show: &mut Show<'_>, run: usize, why: MeasurementFailure) -> Result<(), Failure> {
    let repeat = show.repeat;
    let said = match repeat {
        1 => why.to_string(),
        _ => format!("run {run} of {repeat}: {why}"),
    };
    let is_first = run == 1;
    let is_client = matches!(show.role, Role::Client(_));
    match why {
        MeasurementFailure::Interrupted => {
            show.broken(Outcome::Interrupted)?;
            Err(Failure::interrupted(said))
        }
        MeasurementFailure::NoPeer(_) if !is_first && is_client => {
            output::note(&format!("dpb: {said}; the runs before it count"));
            show.broken(Outcome::Failed { reason: said })
        }
        MeasurementFailure::Broken(_) => {
            let reason = said.clone();
            show.broken(Outcome::Failed { reason })?;
            Err(Failure::check(said))
        }
        why if is_first => Err(failure(why)),
        MeasurementFailure::Plan(_) => Err(failure(why)),
        MeasurementFailure::Unavailable(_) | MeasurementFailure::NoPeer(_) => {
            let reason = said.clone();
            show.broken(Outcome::Failed { reason })?;
            Err(Failure::unavailable(said))
        }
    }
}

/// perftest's program, on whichever side this is. After a size that failed the other side is no longer in step, so the sizes behind
/// it are not run.
fn beside(show: &mut Show<'_>) -> Result<(), Failure> {
    if let Role::Server(_) = show.role {
        return beside::serve(show.plan, show.role, show.repeat);
    }
    let mut has_failed = false;
    for &size in &show.plan.sizes {
        let mut peer = beside::client(show.plan, show.role, size, show.repeat);
        if has_failed {
            peer.command = Err("not run: the size before failed".to_owned());
        }
        for record in peer::records(&show.blank(size), &peer) {
            has_failed |= record.outcome != Outcome::Done;
            show.keep(record)?;
        }
        if interrupt::is_set() {
            return Err(Failure::interrupted("interrupted"));
        }
    }
    Ok(())
}

fn failure(failure: bench::MeasurementFailure) -> Failure {
    let message = failure.to_string();
    match failure {
        bench::MeasurementFailure::Plan(_) => Failure::usage(message),
        bench::MeasurementFailure::Unavailable(_) | bench::MeasurementFailure::NoPeer(_) => {
            Failure::unavailable(message)
        }
        bench::MeasurementFailure::Broken(_) => Failure::check(message),
        bench::MeasurementFailure::Interrupted => Failure::interrupted(message),
    }
}

impl Args {
    /// The plan, if it can be carried out and its samples fit into memory: those of all runs and sizes are kept to the end.
    fn whole_plan(&self, device: &str) -> Result<MeasurementPlan, Failure> {
        let plan = self.plan(device)?;
        plan.check().map_err(Failure::usage)?;
        let counts = [
            u64::from(plan.iterations),
            u64::from(plan.queue_pairs),
            plan.sizes.len() as u64,
        ];
        let all = counts
            .iter()
            .fold(self.repeat, |all, &count| all.saturating_mul(count));
        match all <= bench::STAMPS_MAX {
            true => Ok(plan),
            false => Err(Failure::usage(format!(
                "{all} messages of all runs, sizes and queue pairs: the time of each is kept, of {} at most",
                bench::STAMPS_MAX
            ))),
        }
    }

    fn plan(&self, device: &str) -> Result<MeasurementPlan, Failure> {
        let (method, usual_size) = match self.method {
            MethodName::Lat => (Method::Latency, 2),
            MethodName::Bw => (Method::Bandwidth, 65536),
        };
        let verb = match self.verb {
            VerbName::Read => Verb::Read,
            VerbName::Write => Verb::Write,
            VerbName::Send => Verb::Send,
        };
        let usual = List(vec![usual_size]);
        let small = |value: u64, name: &str| {
            u32::try_from(value)
                .map_err(|_| Failure::usage(format!("--{name} {value} is too much")))
        };
        let sizes = self.size.as_ref().unwrap_or(&usual).iter();
        let sizes: Result<Vec<u32>, _> = sizes.map(|&size| small(size, "size")).collect();
        let mut plan = MeasurementPlan::new(device, method, verb, sizes?);
        let or =
            |given: Option<u64>, name, usual| given.map_or(Ok(usual), |value| small(value, name));
        plan.depth = or(self.depth, "depth", plan.depth)?;
        plan.iterations = or(self.iterations, "iterations", plan.iterations)?;
        plan.signal_every = or(self.signal_every, "signal-every", plan.signal_every)?;
        plan.inline_bytes = or(self.inline, "inline", plan.inline_bytes)?;
        plan.queue_pairs = small(self.qps, "qps")?;
        plan.chain = small(self.chain, "chain")?;
        plan.gid_index = self.gid_index;
        plan.port = self.port;
        plan.by_rdma_cm = self.cm;
        Ok(plan)
    }
}
