//! `dpb net connections`: how many connections a system knows, how fast it makes and forgets them, and its throughput with so many (RFC 9693).

mod forget;
mod measure;
mod show;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use dpb_core::measure::Record;
use dpb_core::measure::provenance::allowed_cpus;
use dpb_net::search::Goal;
use dpb_net::traffic::Profile;
use dpb_net::trial::stateful::{Fill, Tester, Timing};

use super::ports::PORTS_HELP;
use super::program::ProgramName;
use super::traffic::{EndsFlags, LOAD, Size, TRAFFIC, sizes, word};
use super::trial::goals::{GoalName, SearchFlags};
use super::trial::system::{Choice, SystemFlags};
use crate::args::{self, List};
use crate::cmd::sweep::{OUTPUT, RUNS, Results};
use crate::exit::Failure;
use crate::output::{self, Progress};
use crate::task::{Cost, Task, flags, recorded_by_name};
use crate::{Globals, interrupt};

use forget::ForgetFlags;

const TABLE: &str = "The connections";

/// Phases in vain, one after another, that end a measurement.
const INVALID_MAX: u32 = 3;
/// The number of connections with which the search for the capacity begins.
const CAPACITY_FROM: u64 = 16;
/// Memory of the tester for a connection: the packet that came, and its copy while answers are sent.
const CONNECTION_BYTES: u64 = 192;
/// No estimate of a time is longer.
const TIME_S_MAX: f64 = 1e9;
/// The time in seconds after which a system elsewhere may forget a connection of UDP without a packet: the shortest that is usual.
const LIFE_ELSEWHERE_S: f64 = 30.0;
/// The time for which packets may be under way in a system elsewhere, which does not say when it is idle.
const SETTLE_ELSEWHERE_NS: u64 = 500_000_000;
/// How close the bounds of a capacity come, where nothing else is asked for.
const CAPACITY_WIDTH: f64 = 0.001;

/// The task: RFC 9693's figures of a system that knows connections.
pub const TASK: Task = Task {
    name: "net connections",
    summary: "connections of a NAT or firewall (RFC 9693): how many, how fast they are made and torn down, throughput with so many",
    example: "dpb net connections --program nat44 --measure capacity,establishment,tear-down",
    apart: &["out"],
    prepare: None,
    shared_file: None,
    view: show::VIEW,
    check,
    cost,
    recorded: recorded_by_name,
    published: None,
    server_end: None,
};

/// Measure connections as RFC 9693 does: their capacity, and the rates at which they are made and torn down.
///
/// An initiator at the first port begins connections, each with one packet of UDP; a responder at the other port answers on those that it has seen. A connection counts as made if its
/// answer comes back.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("program", |arg| arg.default_value("nat44")),
    mut_arg("search", |arg| arg.help(
        "What a rate has to uphold (MLRsearch, RFC 9971): of establishment and throughput [default: ndr]"
    )),
    mut_arg("rate_min", |arg| arg.help("The lowest rate that is tried: connections or packets a second")),
    mut_arg("rate_max", |arg| arg.help("The highest rate that is tried; half of it, and so on, where the initiator is late")),
    mut_arg("searches", |arg| arg.help("Measurements of each figure, one after another: how well it is found again")),
    mut_arg("goal_width", |arg| arg.help(
        "The distance of the bounds at the end, as a part of the upper one [default: the goal's; of a capacity 0.1%]"
    )),
    after_help = help()
)]
pub struct Args {
    #[command(flatten)]
    system: SystemFlags,
    #[command(flatten)]
    forget: ForgetFlags,
    /// The figures, each with records of its own
    #[arg(long, help_heading = TABLE, value_enum, value_delimiter = ',', default_value = "capacity")]
    measure: Vec<Figure>,
    /// Connections of the preliminary phase, and at most so many of a trial of establishment: fewer than the table holds
    #[arg(long, value_name = "COUNTS", help_heading = TABLE, value_parser = args::counts, default_value = "50000")]
    connections: List<u64>,
    /// Connections a second of the preliminary phase, and answers a second of each validation: a rate that the system keeps up with
    #[arg(long, value_name = "RATE", help_heading = TABLE, value_parser = args::rate, default_value = "100k")]
    fill_rate: f64,
    /// The search for the capacity tries no more connections
    #[arg(long, value_name = "COUNT", help_heading = TABLE, value_parser = args::count, default_value = "1000000")]
    connections_max: u64,
    /// Bytes of a frame on the wire, with its check sequence: 64 is Ethernet's shortest. Or a mix, see `dpb net trial --help`
    #[arg(long, value_name = "FRAMES", help_heading = TRAFFIC, value_parser = sizes, default_value = "64")]
    size: List<Size>,
    #[command(flatten)]
    ends: EndsFlags,
    /// How late a packet may be offered where a rate is measured. If more packets are later than are due in this time, the initiator was late
    #[arg(long, value_name = "TIME", help_heading = LOAD, value_parser = args::duration, default_value = "10us")]
    tolerance: Duration,
    /// How late a packet may be offered in the preliminary phase and in validations, whose rates are not measured
    #[arg(long, value_name = "TIME", help_heading = LOAD, value_parser = args::duration, default_value = "1")]
    patience: Duration,
    #[command(flatten)]
    search: SearchFlags,
    /// Pin the tester to the first of these cores, and the program's threads to the others, in order [default: the last core that this process may use, and those before it]
    #[arg(long, value_name = "NUMBERS", help_heading = RUNS, value_parser = args::numbers)]
    pin: Option<List<u64>>,
    /// Seed of whatever is drawn
    #[arg(long, value_name = "NUMBER", help_heading = RUNS, default_value = "1")]
    seed: u64,
    /// Append the records to this file, in a folder that is there
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    out: Option<PathBuf>,
}

/// RFC 9693's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Figure {
    /// The connections that the table holds (4.8)
    Capacity,
    /// The maximum rate at which connections are made, in an empty table (4.5)
    Establishment,
    /// The rate at which a filled table is emptied (4.7)
    TearDown,
    /// Packets a second over --connections that there are, from the initiator (4.6)
    Throughput,
}

fn help() -> String {
    format!(
        "Each phase is a trial that adds up, offered = refused + delivered + dropped by reason, as those of `dpb net trial` are, or there is no number. \
         After each tear-down no answer may come back: a system that lets the responder begin connections has no figures, so a firewall needs --rules.\n\
         A program of dpb is torn down by putting its clock forward by ten minutes: connections of UDP are over then, and the time is taken until it has forgotten them. \
         Somebody's own system, between two ports of this machine, is told by --tear-down, whose time is taken, or is left alone for --forget-after.\n\
         Examples:\n  dpb net connections --program nat44 --measure capacity,establishment,tear-down,throughput\n  \
         dpb net connections --program nat44 --program-flows 1000 --goal-width 0.001%\n  \
         dpb net connections --program firewall --rules rules.txt --measure establishment --search ndr,pdr\n  \
         dpb net connections --from af-packet:eth0 --to af-packet:eth1 --server-mac 52:54:00:12:34:56 --tear-down ./flush.sh --fill-rate 10k\n\
         rules.txt:\n  allow udp from 10.0.0.0/16\n  default deny\n\
         flush.sh:\n  #!/bin/sh\n  ssh root@gateway conntrack -F\n{PORTS_HELP}"
    )
}

/// One test.
#[derive(Clone, Copy, Debug)]
struct Test<'a> {
    system: Choice<'a>,
    size: &'a Size,
    connections: u64,
    figure: Figure,
}

fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    flags::<Args>(matches)?.check()
}

/// Searches by their goals; of the others roughly the time of their phases.
fn cost(matches: &ArgMatches) -> Cost {
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let phases = |connections: u64| {
        let seconds = 2.0 * connections as f64 / args.fill_rate + 0.2;
        Duration::from_secs_f64(seconds.min(TIME_S_MAX))
    };
    let each = args.tests().into_iter().map(|test| {
        let once = match test.figure {
            // Twice as many each time, and then a few times so many.
            Figure::Capacity => phases(args.connections_max.min(1 << 16)).saturating_mul(10),
            Figure::TearDown => phases(test.connections).saturating_mul(2),
            Figure::Establishment | Figure::Throughput => {
                return args.search.time_of(&args.goals().unwrap_or_default());
            }
        };
        once.saturating_mul(u32::try_from(args.search.searches).unwrap_or(u32::MAX))
    });
    Cost {
        once: each.fold(Duration::ZERO, Duration::saturating_add),
        each_run: Duration::ZERO,
        memory_bytes: (256 << 20) + CONNECTION_BYTES * args.connections_most(),
        disk_bytes: 0,
    }
}

/// Runs every combination.
pub(super) fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    args.check()?;
    let goals = args.goals()?;
    let tests = args.tests();
    args.say_sharing();
    args.say_life();
    let mut results = Results::to(args.out.as_deref(), globals)?;
    let progress = Progress::of_task(tests.len() as u64, globals);
    let swept = sweep(&args, &tests, &goals, &progress, &mut results, globals);
    drop(progress);
    results.print(show::for_people, show::for_machines)?;
    swept?;
    results.judge(tests.len())
}

fn sweep(
    args: &Args,
    tests: &[Test<'_>],
    goals: &[(GoalName, Goal)],
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
        for record in measure::records(args, test, goals, &say, globals)? {
            results.keep(record)?;
        }
    }
    Ok(())
}

impl Args {
    fn check(&self) -> Result<(), Failure> {
        self.goals()?;
        self.forget.check(&self.system, &self.measure)?;
        if !self.system.is_elsewhere() {
            self.check_program()?;
        }
        let cpus = allowed_cpus();
        let pins = self.pins();
        let foreign = pins
            .iter()
            .find(|core| !cpus.is_empty() && !cpus.contains(core));
        if let Some(core) = foreign {
            return Err(Failure::usage(format!(
                "--pin {core}: this process may not use such a core; it may use {cpus:?}"
            )));
        }
        let most = self.connections_most();
        if most > Tester::CONNECTIONS_MAX {
            return Err(Failure::usage(format!(
                "{most} connections; this tester has at most {}",
                Tester::CONNECTIONS_MAX
            )));
        }
        let (wait_s, life_s) = (self.wait_s(), forget::life().as_secs_f64());
        if !self.system.is_elsewhere() && wait_s > life_s / 2.0 {
            return Err(Failure::usage(format!(
                "--fill-rate: {most} connections take {wait_s:.0} s, and without a packet each lives for {life_s} s: a table that forgets them would be taken for a full one. Take a higher rate, or fewer --connections and --connections-max"
            )));
        }
        for size in &self.size {
            let tester = measure::connections(&self.profile(size), most);
            tester.map_err(|error| size.refused(error))?;
        }
        Ok(())
    }

    fn check_program(&self) -> Result<(), Failure> {
        let (nat, firewall) = (ProgramName::Nat44, ProgramName::Firewall);
        if !self.system.has(nat) && !self.system.has(firewall) {
            return Err(Failure::usage(
                "--program: nat44 and firewall know connections, and one of them has to be among the programs",
            ));
        }
        if self.system.has(firewall) && !self.system.has_rules() {
            return Err(Failure::usage(
                "--rules: without a file the firewall lets both sides begin connections, so that answers say nothing; take rules as `allow udp from 10.0.0.0/16` and `default deny`",
            ));
        }
        Ok(())
    }

    /// The goals of searches, with their names.
    fn goals(&self) -> Result<Vec<(GoalName, Goal)>, Failure> {
        self.search.goals_or(GoalName::Ndr)
    }

    /// The cartesian product, figures innermost.
    fn tests(&self) -> Vec<Test<'_>> {
        let mut tests = Vec::new();
        for system in self.system.each() {
            for size in &self.size {
                for (at, &connections) in self.connections.iter().enumerate() {
                    // A capacity is searched for once, whatever the others' connections are.
                    let figures = (self.measure.iter())
                        .filter(|&&figure| at == 0 || figure != Figure::Capacity);
                    tests.extend(figures.map(|&figure| Test {
                        system,
                        size,
                        connections,
                        figure,
                    }));
                }
            }
        }
        tests
    }

    /// The most connections that a test has.
    fn connections_most(&self) -> u64 {
        let asked = self.connections.iter().copied().max().unwrap_or(1);
        match self.measure.contains(&Figure::Capacity) {
            true => asked.max(self.connections_max),
            false => asked,
        }
    }

    /// The time in seconds that a connection waits for its answer, at most.
    fn wait_s(&self) -> f64 {
        self.connections_most() as f64 / self.fill_rate
    }

    fn profile(&self, size: &Size) -> Profile {
        self.ends.profile(self.seed, size)
    }

    fn fill(&self, connections: u64) -> Fill {
        Fill {
            connections,
            per_s: self.fill_rate,
            invalid_max: INVALID_MAX,
        }
    }

    fn timing(&self) -> Timing {
        let settle_ns = match self.system.is_elsewhere() {
            true => SETTLE_ELSEWHERE_NS,
            false => Timing::default().settle_ns,
        };
        Timing {
            settle_ns,
            tolerance_ns: self.tolerance.as_nanos() as u64,
            patience_ns: self.patience.as_nanos() as u64,
        }
    }

    fn pins(&self) -> Vec<u32> {
        let pins = self.pin.iter().flat_map(List::iter);
        pins.map(|&core| core as u32).collect()
    }

    /// Says that a system elsewhere may have forgotten connections before they are answered.
    fn say_life(&self) {
        let wait_s = self.wait_s();
        if self.system.is_elsewhere() && wait_s > LIFE_ELSEWHERE_S / 2.0 {
            output::note(&format!(
                "at --fill-rate a connection waits up to {wait_s:.0} s for its answer: a system that forgets it sooner looks like a full one"
            ));
        }
    }

    fn say_sharing(&self) {
        let threads = self.system.each().into_iter().map(Choice::threads);
        let threads = 1 + threads.max().unwrap_or(0);
        let cores = allowed_cpus().len().max(1) as u64;
        if threads > cores {
            output::note(&format!(
                "a tester and {} threads of the program share {cores} cores: rates are then the cores' together",
                threads - 1
            ));
        }
    }

    /// An empty record of a test.
    fn record(&self, test: &Test<'_>) -> Record {
        let record = Record::new(TASK.name, test.system.evidence(), self.seed);
        let record = self.ends.note(test.system.note(record));
        let record = record
            .with("measure", word(test.figure))
            .with("size", test.size.value())
            .with("fill_rate", self.fill_rate)
            .with("tolerance", self.tolerance.as_secs_f64())
            .with("patience", self.patience.as_secs_f64())
            .with("searches", self.search.searches);
        let record = match test.figure {
            Figure::Capacity => record
                .with("connections_max", self.connections_max)
                .with("goal_width", self.capacity_width()),
            _ => record.with("connections", test.connections),
        };
        self.forget.note(record)
    }

    fn capacity_width(&self) -> f64 {
        self.search.width().unwrap_or(CAPACITY_WIDTH)
    }
}

impl std::fmt::Display for Test<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            system,
            size,
            connections,
            figure,
        } = self;
        write!(f, "{system}, {size} B, {}", word(*figure))?;
        match figure {
            Figure::Capacity => Ok(()),
            _ => write!(f, ", {connections} connections"),
        }
    }
}
