//! `dpb net trial`: a load is offered to a system, and every packet is accounted for; or the highest load is searched that it bears.

pub(super) mod goals;
mod measure;
pub(super) mod system;
mod table;

use std::time::Duration;

use clap::ArgMatches;
use dpb_core::measure::Record;
use dpb_net::search::Goal;

use super::ports::PORTS_HELP;
use super::traffic::{Chosen, LOAD, ScheduleFlags, TrafficFlags, frame_bytes_mean};
use crate::args::{self, List};
use crate::cmd::sweep::{Results, RunFlags};
use crate::exit::Failure;
use crate::output::{self, Progress, percent, short, short_ns};
use crate::task::{Cost, Task, View, axis, charted, flags, listed, recorded_by_name};
use crate::{Globals, interrupt};

use goals::SearchFlags;
use system::{Choice, SystemFlags};

/// The load where none is asked for.
const RATE: f64 = 100e3;

/// The task: trials of packets, and searches of the rate that a system bears.
pub const TASK: Task = Task {
    name: "net trial",
    summary: "packets through a system under test: loss and latency at a load, or the highest load without loss",
    example: "dpb net trial --search ndr,pdr",
    apart: &["out"],
    prepare: None,
    shared_file: None,
    view: VIEW,
    check,
    cost,
    recorded: recorded_by_name,
    published: None,
    server_end: None,
};

const VIEW: View = View {
    lead: &[
        "program", "from", "to", "place", "threads", "backend", "size", "flows", "search", "rate",
    ],
    series: &["program", "from", "to", "place", "backend", "search"],
    sweeps: &[
        axis("rate", "offered per second, in the unit of the rate", short),
        axis("size", "bytes of a frame", output::number),
        axis("flows", "flows", short),
        axis("threads", "threads", output::number),
    ],
    fixed: &[
        "link",
        "unit",
        "schedule",
        "lengths",
        "application",
        "family",
        "transport",
        "faults",
        "queue",
    ],
    metrics: &[
        charted(
            "throughput_packets_per_s",
            "throughput of the goal, packets per second",
            short,
        ),
        charted("loss_ratio", "part of the packets that was lost", percent),
        charted(
            "latency_ns_p50",
            "latency, median, lost packets infinite",
            short_ns,
        ),
        charted(
            "latency_ns_p99",
            "latency, 99th percentile, lost packets infinite",
            short_ns,
        ),
        listed(
            "latency_ns_p999",
            "latency, 99.9th percentile, lost packets infinite",
            short_ns,
        ),
        charted("packets_per_s", "packets delivered per second", short),
        listed("offered_packets_per_s", "packets offered per second", short),
        listed(
            "lower_packets_per_s",
            "highest rate that upholds the goal, packets per second",
            short,
        ),
        listed(
            "upper_packets_per_s",
            "lowest rate that fails the goal, packets per second",
            short,
        ),
        listed(
            "schedule_error_ns_p99",
            "lateness of the generator, 99th percentile",
            short_ns,
        ),
        listed("search_s", "time of a search's trials", |s| {
            short_ns(s * 1e9)
        }),
    ],
    base: None,
};

/// Checks that there is such traffic, that its schedules are some, and that goals and cores are in range.
fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    flags::<Args>(matches)?.check()
}

/// Trials of every load, and searches.
fn cost(matches: &ArgMatches) -> Cost {
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let tests = (args.traffic.each().len() * args.system.each().len()) as u32;
    let rates = args.rates().len() as u32;
    // A trial waits for what is under way.
    let around = Duration::from_millis(60);
    Cost {
        once: tests * (rates * (args.runs.warm_up() + around) + args.search.time()),
        each_run: tests * rates * (args.runs.seconds() + around),
        memory_bytes: 256 << 20,
        disk_bytes: 0,
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = help()
)]
pub struct Args {
    #[command(flatten)]
    system: SystemFlags,
    #[command(flatten)]
    traffic: TrafficFlags,
    /// Offered a second; see --unit [default: 100k, none if there is a --search]
    #[arg(long, value_name = "RATES", help_heading = LOAD, value_parser = args::rates)]
    rate: Option<List<f64>>,
    #[command(flatten)]
    schedule: ScheduleFlags,
    /// How late a packet may be offered. If more packets are later than are due in this time, the generator was late
    #[arg(long, value_name = "TIME", help_heading = LOAD, value_parser = args::duration, default_value = "10us")]
    tolerance: Duration,
    /// Watch the order of packets within flows, too
    #[arg(long, help_heading = LOAD)]
    flow_order: bool,
    #[command(flatten)]
    search: SearchFlags,
    #[command(flatten)]
    runs: RunFlags,
}

fn help() -> String {
    format!(
        "Every trial adds up, offered = refused + delivered + dropped by reason, or it has no number; what another system (--from, --to) lost is unexplained. Latency counts from when a packet was due, \
         and a lost packet took for ever. A trial whose generator was late says nothing of the system: it is done again, three times at most.\n\
         Examples:\n  dpb net trial --rate 100k,200k,400k --size 64,imix-csit\n  \
         dpb net trial --search ndr,pdr --size 64..1024 --out records.jsonl\n  \
         dpb net trial --place threads,inline --rate 500k --pin 0,1\n  \
         dpb net trial --from af-packet:eth0 --to af-packet:eth1 --server-mac 52:54:00:12:34:56 --search rfc2544 --rate-max 1M\n  \
         dpb net trial --program nat44 --search ndr --pin 0,1\n  \
         dpb net trial --program encrypt,decrypt --backend cpu/best --size 128,1518 --rate 50k\n  \
         dpb net trial --search ndr --searches 2          the same rate, found twice\n  \
         dpb net trial --faults loss=1%,duplicates=0.1% --rate 10k\n{PORTS_HELP}"
    )
}

/// What is done with one system and one kind of traffic.
#[derive(Clone, Copy, Debug)]
enum Work<'a> {
    /// Trials at this rate, in the unit of rates.
    Rate(f64),
    /// A search for all goals.
    Search(&'a [Goal]),
}

/// One test.
#[derive(Clone, Copy, Debug)]
struct Test<'a> {
    system: Choice<'a>,
    chosen: Chosen<'a>,
    work: Work<'a>,
}

/// Runs every combination.
pub(super) fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    args.check()?;
    let goals = args.search.goals()?;
    let tests = args.tests(&goals);
    let threads = args.system.each().into_iter().map(Choice::threads);
    args.runs.say_sharing(1 + threads.max().unwrap_or(0));
    let mut results = Results::new(&args.runs, globals)?;
    let progress = Progress::of_task(tests.len() as u64, globals);
    let swept = sweep(&args, &tests, &progress, &mut results, globals);
    drop(progress);
    results.print(table::for_people, table::for_machines)?;
    swept?;
    results.judge(tests.len())
}

fn sweep(
    args: &Args,
    tests: &[Test<'_>],
    progress: &Progress,
    results: &mut Results,
    globals: &Globals,
) -> Result<(), Failure> {
    for (at, test) in tests.iter().enumerate() {
        if interrupt::is_set() {
            break;
        }
        let say = |what: &str| progress.set(at as u64, &format!("{test}{what}"));
        say("");
        for record in measure::records(args, test, &say, globals)? {
            results.keep(record)?;
        }
    }
    Ok(())
}

impl Args {
    fn check(&self) -> Result<(), Failure> {
        self.runs.check()?;
        self.search.goals()?;
        for chosen in self.traffic.each() {
            let generator = self.traffic.generator(self.runs.seed, chosen)?;
            let bytes = frame_bytes_mean(&generator);
            let mut rates = self.rates();
            if !self.search.search.is_empty() {
                rates.extend([self.search.rate_min, self.search.rate_max]);
            }
            for rate in rates {
                let departures = self.schedule.schedule(rate, bytes, 0).departures();
                departures.map_err(|why| Failure::usage(format!("rate {rate}: {why}")))?;
            }
        }
        Ok(())
    }

    fn rates(&self) -> Vec<f64> {
        match &self.rate {
            Some(rates) => rates.0.clone(),
            None if self.search.search.is_empty() => vec![RATE],
            None => Vec::new(),
        }
    }

    /// The cartesian product, loads innermost.
    fn tests<'a>(&'a self, goals: &'a [Goal]) -> Vec<Test<'a>> {
        let mut works: Vec<Work<'_>> = self.rates().into_iter().map(Work::Rate).collect();
        if !goals.is_empty() {
            works.push(Work::Search(goals));
        }
        let mut tests = Vec::new();
        for system in self.system.each() {
            for chosen in self.traffic.each() {
                tests.extend(works.iter().map(|&work| Test {
                    system,
                    chosen,
                    work,
                }));
            }
        }
        tests
    }

    /// An empty record of a test.
    fn record(&self, test: &Test<'_>) -> Record {
        let record = Record::new(TASK.name, test.system.evidence(), self.runs.seed);
        let record = self.traffic.note(test.system.note(record), test.chosen);
        let record = self.schedule.note(record);
        self.runs
            .note(record)
            .with("tolerance", self.tolerance.as_secs_f64())
            .with("flow_order", self.flow_order)
            .with("warm_up", self.runs.warm_up().as_secs_f64())
    }
}

impl std::fmt::Display for Test<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Chosen { size, flows } = self.chosen;
        write!(f, "{}, {size} B, {flows} flows", self.system)?;
        match self.work {
            Work::Rate(rate) => write!(f, ", {}/s", short(rate)),
            Work::Search(_) => f.write_str(", search"),
        }
    }
}
