//! What a run of a system showed: where time went, the use of every part, flows of datagrams and requests, traces.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::measure::Record;
use dpb_core::measure::latency::Latencies;
use dpb_sim::system::trace::Sink;
use dpb_sim::system::{Description, System, Trace, report};

use crate::exit::Failure;
use crate::output::{self, Column, Table};

/// Files that trace the first run.
#[derive(Debug, Default, clap::Args)]
pub(super) struct TraceFlags {
    /// Write the frames of the first run's ports to this file, as pcapng with simulated time in nanoseconds
    #[arg(long, value_name = "FILE", help_heading = "Traces")]
    pcapng: Option<PathBuf>,
    /// Capture these ports alone: a host's name, or SWITCH: PART
    #[arg(
        long,
        value_name = "NAMES",
        help_heading = "Traces",
        requires = "pcapng",
        value_delimiter = ','
    )]
    ports: Vec<String>,
    /// Write what each part of the first run did, and when, to this file, as JSON that Perfetto opens
    #[arg(long, value_name = "FILE", help_heading = "Traces")]
    timeline: Option<PathBuf>,
}

/// The traces of a run that goes on.
#[derive(Default)]
pub(super) struct Traces {
    trace: Option<Arc<Mutex<Trace>>>,
    files: Vec<PathBuf>,
}

impl TraceFlags {
    /// Refuses what has no order to be written in.
    pub(super) fn check(&self, threads: u64) -> Result<(), Failure> {
        let is_traced = self.pcapng.is_some() || self.timeline.is_some();
        match is_traced && threads > 1 {
            true => Err(Failure::usage(
                "traces are written in the order of virtual time, on one thread: leave --threads out",
            )),
            false => Ok(()),
        }
    }

    /// Begins to observe a system that has not run.
    pub(super) fn begin(&self, system: &mut System) -> Result<Traces, Failure> {
        let files = self.pcapng.iter().chain(&self.timeline).cloned().collect();
        let mut traces = Traces { trace: None, files };
        if traces.files.is_empty() {
            system.observe(true, None);
            return Ok(traces);
        }
        let tracks = system.tracks();
        let mut trace = Trace::default();
        if let Some(path) = &self.pcapng {
            let mut captured = tracks.clone();
            for port in &self.ports {
                if !tracks.iter().any(|it| it.interface.as_ref() == Some(port)) {
                    let known: Vec<&str> = tracks
                        .iter()
                        .filter_map(|it| it.interface.as_deref())
                        .collect();
                    return Err(Failure::usage(format!(
                        "--ports: there is no port `{port}`; there are {}",
                        known.join(", ")
                    )));
                }
            }
            let is_wanted = |name: &String| self.ports.is_empty() || self.ports.contains(name);
            for track in &mut captured {
                track.interface = track.interface.take().filter(is_wanted);
            }
            let begun = trace.capture_to(create(path)?, &captured);
            begun.map_err(|why| unwritable(path, &why))?;
        }
        if let Some(path) = &self.timeline {
            let begun = trace.timeline_to(create(path)?, &tracks);
            begun.map_err(|why| unwritable(path, &why))?;
        }
        let trace = Arc::new(Mutex::new(trace));
        system.observe(true, Some(&trace));
        traces.trace = Some(trace);
        Ok(traces)
    }
}

fn create(path: &Path) -> Result<Sink, Failure> {
    let file = File::create(path).map_err(|why| unwritable(path, &why))?;
    Ok(Box::new(BufWriter::new(file)))
}

fn unwritable(path: &Path, why: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot write {}: {why}", path.display()))
}

impl Traces {
    /// Writes what is left.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        let Some(trace) = &self.trace else {
            return Ok(());
        };
        let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
        trace.finish().map_err(|why| {
            let files: Vec<String> = self
                .files
                .iter()
                .map(|it| it.display().to_string())
                .collect();
            Failure::check(format!("cannot write {}: {why}", files.join(" and ")))
        })
    }
}

/// The model of a record: the system, and what its times were taken from.
pub(super) fn model(system: &str, description: &Description) -> String {
    let inputs: Vec<String> = description.inputs.iter().map(ToString::to_string).collect();
    match inputs.is_empty() {
        true => format!("the system {system}"),
        false => format!(
            "the system {system}; times of {}",
            inputs.join("; times of ")
        ),
    }
}

/// Counts where the time of a run went, by part and cause.
pub(super) fn count(system: &System, record: &mut Record) {
    for spent in report::spent(system) {
        let name = format!("spent_ns: {}, {}", spent.part, spent.leg.name());
        record.counts.insert(name, spent.sum_ps / 1000);
    }
}

/// Counts the fates of datagrams.
pub(super) fn count_datagrams(system: &System, record: &mut Record) {
    let mut count = |name: String, more: u64| {
        *record.counts.entry(name).or_insert(0) += more;
    };
    for flow in report::datagram_flows(system) {
        let of = if flow.is_answer {
            "answers"
        } else {
            "datagrams"
        };
        let received = flow.received;
        count(format!("{of}_offered"), flow.offered);
        count(format!("{of}_refused"), flow.refused);
        count(format!("{of}_delivered"), flow.delivered());
        count(
            format!("{of}_duplicates"),
            received.map_or(0, |it| it.duplicates),
        );
        count(
            format!("{of}_reordered"),
            received.map_or(0, |it| it.reordered),
        );
        count(format!("{of}_copied"), flow.copied);
        for (reason, dropped) in &flow.dropped {
            count(format!("{of}_dropped: {}", reason.name()), *dropped);
        }
    }
}

/// Latencies of a run, from the intended times: of datagrams one way, of answers to them, of requests over connections.
pub(super) fn latencies(system: &System) -> Vec<(&'static str, f64)> {
    let mut ways = [
        Latencies::default(),
        Latencies::default(),
        Latencies::default(),
    ];
    for flow in report::datagram_flows(system) {
        if let Some(received) = flow.received {
            ways[usize::from(flow.is_answer)].add(&received.latencies);
        }
    }
    let flows = system.hosts().flat_map(|(_, host)| host.flows());
    for asking in flows.filter_map(|flow| flow.asking.as_ref()) {
        ways[2].add(&asking.latencies);
    }
    const NAMES: [[&str; 2]; 3] = [
        ["datagram_latency_ns_p50", "datagram_latency_ns_p99"],
        ["answer_latency_ns_p50", "answer_latency_ns_p99"],
        ["request_latency_ns_p50", "request_latency_ns_p99"],
    ];
    let mut figures = Vec::new();
    for ([p50, p99], way) in NAMES.into_iter().zip(&ways) {
        if way.count() > 0 {
            figures.push((p50, way.percentile_ns(0.5) as f64));
            figures.push((p99, way.percentile_ns(0.99) as f64));
        }
    }
    figures
}

/// The tables of a run that was observed: flows of datagrams and of requests if there are any, parts, and where time went.
pub(super) fn tables(system: &System) -> Vec<Table> {
    let tables = [
        datagrams(system),
        requests(system),
        Some(parts(system)),
        spent(system),
    ];
    tables.into_iter().flatten().collect()
}

fn datagrams(system: &System) -> Option<Table> {
    let flows = report::datagram_flows(system);
    if flows.is_empty() {
        return None;
    }
    let mut table = Table::new([
        Column::left("datagrams"),
        Column::right("offered"),
        Column::right("refused"),
        Column::right("delivered"),
        Column::right("again"),
        Column::right("reordered"),
        Column::left("dropped"),
        Column::right("p50"),
        Column::right("p99"),
        Column::right("max"),
    ]);
    for flow in &flows {
        let dropped: Vec<String> = flow
            .dropped
            .iter()
            .map(|(reason, count)| format!("{count} {}", reason.name()))
            .collect();
        let time = |of: fn(&Latencies) -> u64| {
            let received = flow.received.filter(|it| it.delivered > 0);
            received.map_or_else(String::new, |it| output::short_ns(of(&it.latencies) as f64))
        };
        let received =
            |of: fn(&dpb_sim::system::Received) -> u64| flow.received.map_or(0, of).to_string();
        let answers = if flow.is_answer { " (answers)" } else { "" };
        table.row([
            format!("{} to {}, port {}{answers}", flow.from, flow.to, flow.port),
            flow.offered.to_string(),
            flow.refused.to_string(),
            flow.delivered().to_string(),
            received(|it| it.duplicates),
            received(|it| it.reordered),
            if dropped.is_empty() {
                "0".to_owned()
            } else {
                dropped.join(", ")
            },
            time(|it| it.percentile_ns(0.5)),
            time(|it| it.percentile_ns(0.99)),
            time(Latencies::max_ns),
        ]);
    }
    Some(table)
}

fn requests(system: &System) -> Option<Table> {
    let mut table = Table::new([
        Column::left("requests"),
        Column::right("made"),
        Column::right("answered"),
        Column::right("p50"),
        Column::right("p99"),
        Column::right("max"),
    ]);
    let mut is_empty = true;
    for (name, host) in system.hosts() {
        for flow in host.flows() {
            let Some(asking) = &flow.asking else {
                continue;
            };
            is_empty = false;
            let latencies = &asking.latencies;
            table.row([
                format!("{name} to {}:{}", flow.peer.ip, flow.peer.port),
                asking.asked().to_string(),
                latencies.count().to_string(),
                output::short_ns(latencies.percentile_ns(0.5) as f64),
                output::short_ns(latencies.percentile_ns(0.99) as f64),
                output::short_ns(latencies.max_ns() as f64),
            ]);
        }
    }
    (!is_empty).then_some(table)
}

/// The use of every part, until the last application had finished.
fn parts(system: &System) -> Table {
    let mut table = Table::new([
        Column::left("part"),
        Column::right("lanes"),
        Column::right("busy"),
        Column::right("jobs"),
        Column::right("mean wait"),
        Column::right("mean queue"),
        Column::right("max queue"),
        Column::right("dropped"),
    ]);
    let run_ps = report::end_ps(system);
    for part in report::parts(system) {
        let is_server = part.lanes > 0;
        let of_server = |text: String| if is_server { text } else { String::new() };
        let jobs = part.jobs.max(1) as f64;
        table.row([
            part.name.clone(),
            of_server(part.lanes.to_string()),
            of_server(share(part.utilisation(run_ps))),
            part.jobs.to_string(),
            of_server(output::short_ns(part.waited_ps as f64 / 1e3 / jobs)),
            of_server(format!("{:.2}", part.waiting_mean(run_ps))),
            of_server(part.waiting_max.to_string()),
            part.dropped.to_string(),
        ]);
    }
    table
}

/// A share, to a tenth of a percent.
fn share(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

/// The mean time of frames with payload by part and cause, which adds up to the time from end to end.
fn spent(system: &System) -> Option<Table> {
    let account = report::account(system);
    if account.frames == 0 {
        return None;
    }
    let mut table = Table::new([
        Column::left("where the time of a frame goes"),
        Column::left("cause"),
        Column::right("mean"),
        Column::right("share"),
    ]);
    let frames = account.frames as f64;
    let whole_ps = account.end_to_end_ps;
    let mean = |sum_ps: u64| output::short_ns(sum_ps as f64 / 1e3 / frames);
    for it in report::spent(system) {
        table.row([
            it.part,
            it.leg.name().replace('_', " "),
            mean(it.sum_ps),
            share(it.sum_ps as f64 / whole_ps as f64),
        ]);
    }
    let frames = format!("{} frames with payload", account.frames);
    table.row([frames, "end to end".to_owned(), mean(whole_ps), share(1.0)]);
    Some(table)
}

/// A part that is busy for less of the time binds nothing.
const BOUND: f64 = 0.9;

/// The part that binds, in words.
pub(super) fn binding(system: &System) -> String {
    let parts = report::parts(system);
    let run_ps = report::end_ps(system);
    let Some(busiest) = report::busiest(&parts, run_ps) else {
        return "no part was busy".to_owned();
    };
    let busy = busiest.utilisation(run_ps);
    let (name, busy_share) = (&busiest.name, share(busy));
    match busy >= BOUND {
        true => format!("{name} binds: busy for {busy_share} of the time"),
        false => format!(
            "no part binds: the busiest, {name}, works for {busy_share} of the time, and the rest is latency"
        ),
    }
}
