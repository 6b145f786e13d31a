//! `dpb rdma`: latency and bandwidth between two machines, by perftest's method, with perftest's programs on the other side if
//! that is what is there.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use dpb_accel::rdma::bench::{
    self, Bandwidth, Figures, Latency, Measured, MeasurementPlan, Method, Report, Role, Verb,
    perftest,
};
use dpb_core::WallClock;
use dpb_core::measure::{Durability, Evidence, Outcome, Record, Store, Summary};

use crate::Globals;
use crate::args::{self, List};
use crate::bulk::fresh_seed;
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table, evidence, short, short_ns, verdict};
use crate::task::{Cost, Parameter, Task, View, axis, charted, flags, listed, recorded_by_name};

/// The task: RDMA between two machines.
pub const TASK: Task = Task {
    name: "rdma",
    summary: "latency and bandwidth of RDMA between two machines, as perftest measures them",
    example: "dpb rdma lat --verb write HOST",
    apart: &["server", "listen", "out"],
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
    lead: &["method", "verb", "size", "depth", "qps", "device", "peer"],
    series: &["verb", "device"],
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
const FILES: &str = "Output";

/// Measure latency and bandwidth of RDMA between two machines.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Both sides take the same options. Either may be one of perftest's programs (ib_read_lat … of 5.70 or \
                  later), told the same sizes: -s, or -a for 2..8388608.\n\
                  Every sample is kept and no figure leaves one out; --format perftest prints perftest's columns, by its rules.\n\
                  Examples:\n  dpb rdma lat --verb write --server --listen 10.0.0.1\n  \
                  dpb rdma lat --verb write 10.0.0.1\n  \
                  dpb rdma bw --verb read --size 2..8388608 --depth 128 --qps 4 10.0.0.1 --format perftest"
)]
pub struct Args {
    /// Whether to measure latency or bandwidth
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

/// Whether a command line fits together.
fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    let args: Args = flags(matches)?;
    args.plan("")
        .and_then(|plan| plan.check().map_err(Failure::usage))
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
        once: Duration::from_millis(500) + sizes * Duration::from_millis(100),
        ..Cost::default()
    }
}

/// Measures, and shows each size as soon as it is done; what broke on the way is a record too.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
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
    let plan = args.plan(&device)?;
    plan.check().map_err(Failure::usage)?;
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
        records: Vec::new(),
    };
    show.begin()?;
    let mut shown = Ok(());
    let timer = WallClock::default();
    let ended = bench::run(&plan, &role, &timer, fresh_seed(), &mut |measured| {
        if shown.is_ok() {
            shown = show.measured(&measured);
        }
    });
    if let Err(bench::MeasurementFailure::Broken(reason)) = &ended {
        show.broken(reason)?;
    }
    show.end()?;
    shown?;
    ended.map_err(failure)
}

fn failure(failure: bench::MeasurementFailure) -> Failure {
    let message = failure.to_string();
    match failure {
        bench::MeasurementFailure::Plan(_) => Failure::usage(message),
        bench::MeasurementFailure::Unavailable(_) => Failure::unavailable(message),
        bench::MeasurementFailure::Broken(_) => Failure::check(message),
    }
}

impl Args {
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

/// Where results go.
struct Show<'a> {
    as_perftest: bool,
    format: Format,
    store: Option<Store>,
    plan: &'a MeasurementPlan,
    role: &'a Role,
    evidence: Evidence,
    records: Vec<Record>,
}

impl Show<'_> {
    fn begin(&self) -> Result<(), Failure> {
        if !self.as_perftest {
            return Ok(());
        }
        let titles = match self.plan.method {
            Method::Latency => perftest::LATENCY_TITLES,
            Method::Bandwidth => perftest::BANDWIDTH_TITLES,
        };
        output::print(&format!("{}\n{titles}\n", perftest::RULE))
    }

    fn measured(&mut self, measured: &Measured) -> Result<(), Failure> {
        if self.as_perftest {
            let row = match &measured.figures {
                Figures::Latency(latency) => perftest::latency_row(measured.size_bytes, latency),
                Figures::Bandwidth(bandwidth) => {
                    Some(perftest::bandwidth_row(&Report::of(bandwidth)))
                }
                Figures::Reported(report) => Some(perftest::bandwidth_row(report)),
            };
            output::print(&(row.unwrap_or_default() + "\n"))?;
        }
        let mut record = self.record(measured.size_bytes);
        match &measured.figures {
            Figures::Latency(latency) => add_latency(&mut record, latency),
            Figures::Bandwidth(bandwidth) => add_bandwidth(&mut record, bandwidth),
            Figures::Reported(report) => add_report(&mut record, report),
        }
        self.keep(record)
    }

    /// A record of the size that was not finished.
    fn broken(&mut self, reason: &str) -> Result<(), Failure> {
        let sizes = &self.plan.sizes;
        let at = self.records.len().min(sizes.len() - 1);
        let reason = reason.to_owned();
        let record = self.record(sizes[at]);
        self.keep(record.without_numbers(Outcome::Failed { reason }))
    }

    fn end(&self) -> Result<(), Failure> {
        if self.as_perftest {
            return output::print(&format!("{}\n", perftest::RULE));
        }
        match self.format {
            Format::Table => output::print(&table(&self.records).to_text()),
            Format::Csv => output::print(&table(&self.records).to_csv()),
            Format::Markdown => output::print(&table(&self.records).to_markdown()),
            Format::Json => Ok(()),
        }
    }

    fn keep(&mut self, record: Record) -> Result<(), Failure> {
        if let Some(store) = &mut self.store {
            store.append(&record).map_err(anyhow::Error::from)?;
        }
        if self.format == Format::Json && !self.as_perftest {
            output::print_json(&record)?;
        }
        self.records.push(record);
        Ok(())
    }

    fn record(&self, size_bytes: u32) -> Record {
        let plan = self.plan;
        let method = match plan.method {
            Method::Latency => "lat",
            Method::Bandwidth => "bw",
        };
        let record = Record::new("rdma", self.evidence.clone(), 0)
            .with("method", method)
            .with("verb", verb_name(plan.verb))
            .with("size", u64::from(size_bytes))
            .with("depth", u64::from(plan.depth))
            .with("qps", u64::from(plan.queue_pairs))
            .with("iterations", u64::from(plan.iterations))
            .with("signal_every", u64::from(plan.signal_every))
            .with("chain", u64::from(plan.chain))
            .with("inline", u64::from(plan.inline_bytes))
            .with("cm", plan.by_rdma_cm)
            .with("device", plan.device.as_str());
        match self.role {
            Role::Client(host) => record.with("role", "client").with("peer", host.as_str()),
            Role::Server(_) => record.with("role", "server"),
        }
    }
}

fn verb_name(verb: Verb) -> &'static str {
    match verb {
        Verb::Read => "read",
        Verb::Write => "write",
        Verb::Send => "send",
    }
}

fn single(value: f64, samples: usize) -> Summary {
    Summary {
        median: value,
        ci95_low: None,
        ci95_high: None,
        samples: samples as u64,
    }
}

fn add_latency(record: &mut Record, latency: &Latency) {
    let samples = latency.samples_ns.len();
    record.sample("latency_ns", latency.samples_ns.clone());
    if let Some(summary) = latency.summary() {
        for (name, value) in [
            ("min", summary.min_ns),
            ("mean", summary.mean_ns),
            ("deviation", summary.deviation_ns),
            ("p50", summary.p50_ns),
            ("p99", summary.p99_ns),
            ("p999", summary.p999_ns),
            ("max", summary.max_ns),
        ] {
            let name = format!("latency_ns_{name}");
            record.summary.insert(name, single(value, samples));
        }
    }
}

fn add_bandwidth(record: &mut Record, bandwidth: &Bandwidth) {
    let messages = bandwidth.messages();
    record.counts.insert("messages".into(), messages);
    let bytes = messages * u64::from(bandwidth.size_bytes);
    record.counts.insert("bytes".into(), bytes);
    let peak = bandwidth.peak_messages_per_s();
    for (name, value) in [
        ("messages_per_s", bandwidth.messages_per_s()),
        ("bytes_per_s", bandwidth.bytes_per_s()),
        (
            "bytes_per_s_peak",
            peak.map(|rate| rate * f64::from(bandwidth.size_bytes)),
        ),
    ] {
        if let Some(value) = value {
            record.summary.insert(name.into(), single(value, 1));
        }
    }
    let start = bandwidth.posted_ns.first().copied().unwrap_or(0);
    let since = bandwidth.completed_ns.iter();
    let values = since.map(|&(_, at)| (at - start) as f64).collect();
    let samples = dpb_core::measure::Samples { values, hdr: None };
    record.samples.insert("completed_ns".into(), samples);
}

/// What the client said; nothing of it was seen here.
fn add_report(record: &mut Record, report: &Report) {
    record.counts.insert("messages".into(), report.messages);
    let bytes_per_s = report.average * f64::from(1 << 20);
    record
        .summary
        .insert("bytes_per_s".into(), single(bytes_per_s, 1));
    let messages_per_s = report.million_messages_per_s * 1e6;
    record
        .summary
        .insert("messages_per_s".into(), single(messages_per_s, 1));
}

fn table(records: &[Record]) -> Table {
    let is_latency = records
        .iter()
        .any(|record| record.summary.contains_key("latency_ns_p50"));
    let figures: &[(&str, &str)] = match is_latency {
        true => &[
            ("min", "latency_ns_min"),
            ("p50", "latency_ns_p50"),
            ("mean", "latency_ns_mean"),
            ("p99", "latency_ns_p99"),
            ("p99.9", "latency_ns_p999"),
            ("max", "latency_ns_max"),
        ],
        false => &[
            ("messages/s", "messages_per_s"),
            ("bytes/s", "bytes_per_s"),
            ("peak bytes/s", "bytes_per_s_peak"),
        ],
    };
    let mut columns = vec![Column::left("verb"), Column::right("size")];
    columns.extend(figures.iter().map(|(title, _)| Column::right(*title)));
    columns.extend([Column::left("evidence"), Column::noted("verdict")]);
    let mut table = Table::new(columns);
    for record in records {
        let text = |name: &str| record.parameters[name].to_string();
        let mut row = vec![text("verb"), text("size")];
        row.extend(
            figures
                .iter()
                .map(|(_, name)| match record.summary.get(*name) {
                    Some(summary) if is_latency => short_ns(summary.median),
                    Some(summary) => short(summary.median),
                    None => "-".into(),
                }),
        );
        row.extend([evidence(record).to_owned(), verdict(record)]);
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(method: Method, figures: Figures) -> (Record, String) {
        let plan = MeasurementPlan::new("rxe0", method, Verb::Write, vec![64]);
        let mut show = Show {
            as_perftest: false,
            format: Format::Csv,
            store: None,
            plan: &plan,
            role: &Role::Client("host".into()),
            evidence: Evidence::Emulated {
                by: "soft-RoCE".into(),
            },
            records: Vec::new(),
        };
        let size_bytes = 64;
        let measured = Measured {
            size_bytes,
            figures,
        };
        show.measured(&measured).expect("shown");
        show.broken("the link went down").expect("shown");
        let text = table(&show.records).to_text();
        (show.records.swap_remove(0), text)
    }

    #[test]
    fn a_latency_is_a_record_with_all_samples_and_a_row() {
        let samples_ns: Vec<f64> = (1..=100).map(|us| f64::from(us) * 1e3).collect();
        let latency = Latency {
            samples_ns: samples_ns.clone(),
        };
        let (record, text) = shown(Method::Latency, Figures::Latency(latency));
        assert_eq!(record.samples["latency_ns"].values, samples_ns);
        assert_eq!(record.summary["latency_ns_p99"].median, 99e3);
        assert_eq!(record.summary["latency_ns_max"].median, 100e3);
        let rows: Vec<&str> = text.lines().collect();
        assert!(
            rows[1].contains("50.0 us") && rows[1].contains("emulated"),
            "{text}"
        );
        assert!(
            rows[2].contains("failed") && text.contains("the link went down"),
            "{text}"
        );
    }

    #[test]
    fn a_bandwidth_is_a_record_with_its_counts_and_a_row() {
        let bandwidth = Bandwidth {
            size_bytes: 64,
            posted_ns: vec![1000, 1000, 2000, 2000],
            completed_ns: vec![(2, 1500), (4, 3000)],
        };
        let (record, text) = shown(Method::Bandwidth, Figures::Bandwidth(bandwidth));
        assert_eq!(
            (record.counts["messages"], record.counts["bytes"]),
            (4, 256)
        );
        assert_eq!(record.summary["messages_per_s"].median, 2e6);
        assert_eq!(record.summary["bytes_per_s_peak"].median, 4e6 * 64.0);
        assert_eq!(record.samples["completed_ns"].values, [500.0, 2000.0]);
        assert!(text.contains("2.00 M") && text.contains("128 M"), "{text}");
    }

    #[test]
    fn what_a_client_reports_is_a_record_too() {
        let report = Report {
            size_bytes: 64,
            messages: 4,
            peak: 2.0,
            average: 1.0,
            million_messages_per_s: 0.5,
        };
        let (record, _) = shown(Method::Bandwidth, Figures::Reported(report));
        assert_eq!(record.summary["bytes_per_s"].median, f64::from(1 << 20));
        assert_eq!(record.summary["messages_per_s"].median, 5e5);
    }
}
