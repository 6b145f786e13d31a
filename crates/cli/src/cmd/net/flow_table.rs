//! `dpb net flow-table`: packets through a table of flows, in software or in a model of hardware. DPUBench's first end-to-end program.

mod closed;
mod open;

use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use dpb_accel::dpdk::libraries::Libraries;
use dpb_core::measure::{Evidence, Outcome, Record};
use dpb_core::{OpSpec, spec};
use dpb_net::flow::Timeouts;
use dpb_net::flow::hardware::HardwareModel;
use dpb_net::programs::flow_table::Settings;
use dpb_net::traffic::{Generator, Lengths, Profile, Schedule};

use super::bench::{Place, cores, figure};
use super::end_to_end::{Load, LoadFlags};
use super::traffic::{Chosen, LOAD, TrafficFlags, word};
use crate::args::{self, List};
use crate::cmd::sweep::{self, Results, RunFlags, parameter};
use crate::exit::Failure;
use crate::output::{self, Column, Progress, Table, evidence, percent, short, short_ns, verdict};
use crate::task::{Cost, Parameter, Task, View, axis, charted, flags, listed, recorded_by_name};
use crate::{Globals, interrupt};

const TABLE: &str = "The table";

/// The task: a flow table in software or hardware.
pub const TASK: Task = Task {
    name: "net flow-table",
    summary: "packets through a table of flows, in software or in a model of hardware",
    example: "dpb net flow-table --size 64 --interval 10us,2us --table software,hardware",
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
        "table", "mode", "size", "interval", "rate", "lengths", "flows", "capacity", "threads",
        "place",
    ],
    series: &["table", "size", "place"],
    sweeps: &[
        axis("interval", "time between packets", seconds),
        axis("rate", "packets offered per second", output::short),
        axis("flows", "flows at a time", output::short),
        axis(
            "capacity",
            "flows that the table has room for",
            output::short,
        ),
        axis("threads", "threads", output::number),
    ],
    fixed: &["mode", "lengths", "application", "link"],
    metrics: &[
        charted(
            "packets_per_s",
            "packets delivered per second",
            output::short,
        ),
        charted("loss_ratio", "part of the packets lost", output::percent),
        charted("latency_ns_p50", "latency, median", output::short_ns),
        charted(
            "latency_ns_p99",
            "latency, 99th percentile",
            output::short_ns,
        ),
        listed(
            "latency_ns_p90",
            "latency, 90th percentile",
            output::short_ns,
        ),
        listed(
            "bytes_per_s",
            "bytes of frames delivered per second",
            output::short,
        ),
        listed(
            "missed_ratio",
            "part of the packets without a flow or an entry",
            output::percent,
        ),
        listed("flows_per_s", "flows begun per second", output::short),
        listed(
            "program_cpu_share",
            "part of a core that the program works",
            output::percent,
        ),
        listed(
            "program_ns_per_packet",
            "the program's time per packet",
            output::short_ns,
        ),
        listed(
            "parse_ns_per_packet",
            "headers alone, per packet",
            output::short_ns,
        ),
        listed(
            "table_ns_per_packet",
            "the table alone, per packet",
            output::short_ns,
        ),
        listed(
            "port_ns_per_packet",
            "ports alone, per packet",
            output::short_ns,
        ),
        listed(
            "stages_ratio",
            "time of the stages alone over the program's",
            output::number,
        ),
    ],
    base: None,
};

/// Seconds as an axis shows them.
pub(super) fn seconds(value: f64) -> String {
    short_ns(value * 1e9)
}

fn two_digits(value: f64) -> String {
    format!("{value:.2}")
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Figure 14 of DPUBench: throughput and loss over the size of packets and the time between them. All links are memory: what is measured is the \
                  program, not a wire. With --table hardware times are those of a model, and virtual.\n\
                  --mode closed has the program take the same packets again and again as fast as its core goes, and the stages alone beside it.\n\
                  Examples:\n  dpb net flow-table\n  \
                  dpb net flow-table --size 64,512,1518 --interval 10us,5us,2us,1us --table software,hardware\n  \
                  dpb net flow-table --lengths agh-campus --flows 10000 --timeout 100ms --capacity 4096,65536\n  \
                  dpb net flow-table --mode closed --flows 1000,100000,1000000 --capacity 1048576 --size 64"
)]
pub struct Args {
    #[command(flatten)]
    traffic: TrafficFlags,
    #[command(flatten)]
    load: LoadFlags,
    /// Open: packets are due at the given times, whatever becomes of them. Closed: the program gets the next ones as soon as it is done, the same again and again
    #[arg(long, help_heading = LOAD, value_enum, default_value = "open")]
    mode: Mode,
    /// Where the table is: software; a model of hardware; a device by DOCA Flow or DPDK's rte_flow
    #[arg(long, help_heading = TABLE, value_enum, value_delimiter = ',', default_value = "software,hardware")]
    table: Vec<TableName>,
    /// Flows that the table has room for: in software those of a thread, in hardware entries, with software behind them for a million
    #[arg(long, value_name = "COUNTS", help_heading = TABLE, value_parser = args::counts, default_value = "65536")]
    capacity: List<u64>,
    /// A flow without a packet for so long ends
    #[arg(long, value_name = "TIME", help_heading = TABLE, value_parser = args::duration, default_value = "30")]
    timeout: Duration,
    /// Entries that hardware makes or removes in a second
    #[arg(long, value_name = "RATE", help_heading = TABLE, value_parser = args::rate, default_value = "333333")]
    changes: f64,
    /// Time that hardware takes for a packet that has an entry
    #[arg(long, value_name = "TIME", help_heading = TABLE, value_parser = args::duration, default_value = "0.007us")]
    hit: Duration,
    /// Time that software takes for a packet without an entry
    #[arg(long, value_name = "TIME", help_heading = TABLE, value_parser = args::duration, default_value = "0.1us")]
    miss: Duration,
    /// Threads of the program, to which packets are spread by a hash of their flows
    #[arg(long, value_name = "COUNTS", help_heading = TABLE, value_parser = args::thread_counts, default_value = "1")]
    threads: List<u64>,
    /// Where the program runs
    #[arg(long, help_heading = TABLE, value_enum, value_delimiter = ',', default_value = "threads")]
    place: Vec<Place>,
    #[command(flatten)]
    runs: RunFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Open,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TableName {
    Software,
    Hardware,
    DocaFlow,
    RteFlow,
}

/// One test: a value for every parameter.
#[derive(Clone, Copy, Debug)]
struct Test<'a> {
    chosen: Chosen<'a>,
    /// `None`: the closed loop.
    load: Option<Load>,
    table: TableName,
    capacity: u64,
    threads: u64,
    place: Place,
}

impl Test<'_> {
    /// Threads of this process that work, the generator's with them.
    fn threads(&self) -> u64 {
        match (self.table, self.place) {
            (TableName::Software, Place::Threads) => self.threads + 1,
            _ => 1,
        }
    }
}

/// Checks that there is such traffic.
fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    flags::<Args>(matches)?.check()
}

fn recorded(parameter: &Parameter, record: &Record) -> Option<String> {
    recorded_by_name(parameter, record)
}

/// Trials of every combination; those in virtual time take about as long.
fn cost(matches: &ArgMatches) -> Cost {
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let tests = args.tests().len() as u32;
    let flows = args
        .traffic
        .each()
        .iter()
        .map(|chosen| chosen.flows)
        .max()
        .unwrap_or(0);
    Cost {
        once: tests * (args.runs.warm_up() + Duration::from_millis(100)),
        each_run: tests * (args.runs.seconds() + Duration::from_millis(60)),
        memory_bytes: flows.saturating_mul(512) + (256 << 20),
        disk_bytes: 0,
    }
}

/// Runs every combination.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    args.check()?;
    let tests = args.tests();
    args.say_sharing(&tests);
    let mut results = Results::new(&args.runs, globals)?;
    let progress = Progress::of_task(tests.len() as u64, globals);
    for (at, test) in tests.iter().enumerate() {
        if interrupt::is_set() {
            break;
        }
        progress.set(at as u64, &test.to_string());
        results.keep(args.measure(test, globals))?;
    }
    drop(progress);
    results.print(for_people, for_machines)?;
    results.judge(tests.len())
}

impl Args {
    /// The cartesian product, tables innermost.
    fn tests(&self) -> Vec<Test<'_>> {
        let (loads, places): (Vec<Option<Load>>, _) = match self.mode {
            // The program runs alone, on the thread that times it.
            Mode::Closed => (vec![None], &[Place::Inline][..]),
            Mode::Open => (
                self.load.loads(1).into_iter().map(Some).collect(),
                &self.place[..],
            ),
        };
        let mut tests = Vec::new();
        for chosen in self.traffic.each() {
            for &load in &loads {
                for &capacity in &self.capacity {
                    for &threads in &self.threads {
                        for &place in places {
                            tests.extend(self.table.iter().map(|&table| Test {
                                chosen,
                                load,
                                table,
                                capacity,
                                threads,
                                place,
                            }));
                        }
                    }
                }
            }
        }
        tests
    }

    fn check(&self) -> Result<(), Failure> {
        for chosen in self.traffic.each() {
            self.traffic.generator(self.runs.seed, chosen)?;
        }
        for load in self.load.loads(1) {
            let schedule = Schedule::constant(load.packets_per_s());
            (schedule.departures()).map_err(|error| Failure::usage(error.to_string()))?;
        }
        self.runs.check()
    }

    /// The traffic of a trial. Where flows end each trial has others, so that none comes twice.
    fn generator(&self, chosen: Chosen<'_>, trial: u64) -> Result<Generator, String> {
        let is_endless = self.profile(chosen).flows.lengths == Lengths::Endless;
        let seed = if is_endless { 0 } else { trial };
        let generator = self
            .traffic
            .generator(self.runs.seed.wrapping_add(seed), chosen);
        generator.map_err(|failure| failure.message)
    }

    fn profile(&self, chosen: Chosen<'_>) -> Profile {
        self.traffic.profile(self.runs.seed, chosen)
    }

    fn say_sharing(&self, tests: &[Test<'_>]) {
        self.runs
            .say_sharing(tests.iter().map(Test::threads).max().unwrap_or(1));
    }

    /// The cores of the generator and of the program's threads; none where time is virtual.
    fn cores(&self, test: &Test<'_>) -> Vec<u32> {
        match test.table {
            TableName::Software => cores(self.runs.pins(), test.threads()),
            _ => self.runs.pins(),
        }
    }

    fn tolerance(&self, test: &Test<'_>) -> Duration {
        self.load.tolerance(test.place == Place::Inline)
    }

    fn settings(&self, flows: u64) -> Settings {
        let ms = u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX);
        Settings {
            flows: flows as usize,
            timeouts: Timeouts {
                datagrams_ms: ms.max(1),
                turn_ms: (ms / 10).clamp(1, 1000),
                ..Timeouts::default()
            },
            seed: self.runs.seed,
        }
    }

    fn model(&self, capacity: u64) -> HardwareModel {
        let ns = |time: Duration| (time.as_nanos() as u64).max(1);
        HardwareModel {
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            hit_ns: ns(self.hit),
            miss_ns: ns(self.miss),
            change_ns: ((1e9 / self.changes) as u64).max(1),
            ..HardwareModel::default()
        }
    }

    fn record(&self, test: &Test<'_>) -> Record {
        let record = Record::new(TASK.name, Evidence::of_this_cpu(), self.runs.seed)
            .with("mode", word(self.mode))
            .with("table", word(test.table))
            .with("capacity", test.capacity)
            .with("timeout", self.timeout.as_secs_f64())
            .with("threads", test.threads)
            .with("place", word(test.place))
            .with("link", "memory");
        let record = self.traffic.note(record, test.chosen);
        let record = match test.load {
            Some(load) => (load.note(record))
                .with("tolerance", self.tolerance(test).as_secs_f64())
                .with("queue", self.load.queue() as u64),
            None => record,
        };
        let record = match test.table {
            TableName::Hardware => record
                .with("changes", self.changes)
                .with("hit", self.hit.as_secs_f64())
                .with("miss", self.miss.as_secs_f64()),
            _ => record,
        };
        let mut record = self.runs.note(record);
        record.provenance.pinned = self.cores(test);
        record
    }

    /// One test, as one record whatever comes of it.
    fn measure(&self, test: &Test<'_>, globals: &Globals) -> Record {
        let record = self.record(test);
        let unsupported = |reason: String| {
            let record = record.clone();
            record.without_numbers(Outcome::Unsupported { reason })
        };
        if let Some(reason) = self.absent(test, globals) {
            return unsupported(reason);
        }
        let measured = match (test.table, test.load) {
            (TableName::Hardware, Some(load)) => open::hardware(self, test, load, record.clone()),
            (_, Some(load)) => open::software(self, test, load, record.clone()),
            (_, None) => closed::software(self, test, record.clone()),
        };
        measured.unwrap_or_else(|reason| record.without_numbers(Outcome::Failed { reason }))
    }

    /// Why a test is none, if it is none.
    fn absent(&self, test: &Test<'_>, globals: &Globals) -> Option<String> {
        let is_closed = test.load.is_none();
        let profile = self.profile(test.chosen);
        let is_plain =
            profile.applications.is_none() && profile.ipv6_share == 0.0 && profile.tcp_share == 0.0;
        match test.table {
            TableName::DocaFlow => Some(no_doca_flow(globals)),
            TableName::RteFlow => Some(no_rte_flow()),
            TableName::Hardware if is_closed => Some(
                "a model has virtual times: as fast as a core goes (--mode closed) says nothing of it".to_owned(),
            ),
            TableName::Hardware if test.threads != 1 || test.place != Place::Threads => {
                Some("the model is of one card, which has no threads: take --threads 1 --place threads".to_owned())
            }
            TableName::Hardware if profile.ipv6_share > 0.0 => {
                Some("the model's table is of flows over IPv4: take --family ipv4".to_owned())
            }
            TableName::Software if is_closed && !(is_plain && profile.flows.lengths == Lengths::Endless) => Some(
                "--mode closed has the same packets again and again, in which no flow ends: take --lengths endless --family ipv4 --transport udp --application none".to_owned(),
            ),
            TableName::Software if is_closed && test.threads != 1 => {
                Some("--mode closed is of one thread".to_owned())
            }
            TableName::Software if is_closed && test.chosen.flows > test.capacity => Some(format!(
                "--mode closed measures lookups: {} flows do not fit into a table of {} (--capacity)",
                test.chosen.flows, test.capacity
            )),
            TableName::Software if test.place == Place::Inline && test.threads != 1 => {
                Some("--place inline is of one thread, the generator's".to_owned())
            }
            _ => None,
        }
    }
}

/// Why there is no table by DOCA Flow: what is missing on this machine, or in dpb.
fn no_doca_flow(globals: &Globals) -> String {
    let spec = OpSpec::from(spec::Sha256);
    let absent = match globals.families.open("doca") {
        Ok(backend) => backend.limits(&spec).err().map(|why| why.reason),
        Err(why) => Some(why.to_string()),
    };
    let why = absent.unwrap_or_else(|| {
        "dpb does not drive it yet, as its structures differ between releases of DOCA".to_owned()
    });
    format!("DOCA Flow: {why}; --table hardware is a model")
}

/// The same of DPDK's rte_flow.
fn no_rte_flow() -> String {
    let why = match Libraries::load() {
        Err(why) => why.reason,
        Ok(_) => "DPDK is here, but dpb does not drive its ports' tables of flows yet".to_owned(),
    };
    format!("rte_flow: {why}; --table hardware is a model")
}

impl std::fmt::Display for Test<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (table, size, flows) = (word(self.table), self.chosen.size, self.chosen.flows);
        write!(f, "{table}, {size} B, {flows} flows")?;
        match self.load {
            Some(load) => write!(f, ", {load}"),
            None => f.write_str(", closed loop"),
        }
    }
}

fn for_people(records: &[Record]) -> Table {
    let is_closed = records
        .iter()
        .any(|record| parameter(record, "mode") == "closed");
    let mut columns = vec![
        Column::left("table"),
        Column::right("size"),
        Column::right("load"),
        Column::right("flows"),
        Column::right("packets/s"),
    ];
    match is_closed {
        true => columns
            .extend(["a packet", "headers", "table alone", "ports", "stages"].map(Column::right)),
        false => columns.extend(["lost", "p50", "p99", "missed", "program"].map(Column::right)),
    }
    columns.extend([Column::left("evidence"), Column::noted("verdict")]);
    let mut table = Table::new(columns);
    for record in records {
        let figure = |name: &str, text: fn(f64) -> String| figure(record, name, text);
        let mut row = vec![
            parameter(record, "table"),
            parameter(record, "size"),
            shown_load(record),
            parameter(record, "flows"),
            figure("packets_per_s", short),
        ];
        match is_closed {
            true => row.extend([
                figure("program_ns_per_packet", short_ns),
                figure("parse_ns_per_packet", short_ns),
                figure("table_ns_per_packet", short_ns),
                figure("port_ns_per_packet", short_ns),
                figure("stages_ratio", two_digits),
            ]),
            false => row.extend([
                figure("loss_ratio", percent),
                figure("latency_ns_p50", short_ns),
                figure("latency_ns_p99", short_ns),
                figure("missed_ratio", percent),
                figure("program_cpu_share", percent),
            ]),
        }
        row.extend([evidence(record).to_owned(), verdict(record)]);
        table.row(row);
    }
    table
}

/// The load of a record, for a table.
pub(super) fn shown_load(record: &Record) -> String {
    let number = |name: &str| match record.parameters.get(name) {
        Some(dpb_core::measure::Value::Float(value)) => Some(*value),
        Some(dpb_core::measure::Value::Int(value)) => Some(*value as f64),
        _ => None,
    };
    match (number("interval"), number("rate")) {
        (Some(interval), _) => seconds(interval),
        (None, Some(rate)) => format!("{}/s", short(rate)),
        (None, None) => "closed".to_owned(),
    }
}

fn for_machines(records: &[Record]) -> Table {
    let figures: Vec<&str> = VIEW.metrics.iter().map(|metric| metric.name).collect();
    sweep::for_machines(records, VIEW.lead, &figures)
}
