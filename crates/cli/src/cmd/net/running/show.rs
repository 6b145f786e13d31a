//! The record of a run, its tables, and its progress.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

use dpb_core::measure::{Check, Outcome, Record};
use dpb_core::port::{Losses, PortStats};
use dpb_net::pipeline::{Account, Drops, Workers};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::watched::Watcher;
use super::{Ended, Run};
use crate::Globals;
use crate::cmd::net::program::{Found, Program};
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table, short};

/// Packets of all loops so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub received: u64,
    pub sent: u64,
}

impl Counts {
    pub fn of(workers: &Workers) -> Self {
        let add = |sum: Self, (_, live): (&str, &dpb_net::pipeline::Live)| Self {
            received: sum.received + live.received(),
            sent: sum.sent + live.sent(),
        };
        workers.live().fold(Self::default(), add)
    }
}

/// A line on stderr, if that is a terminal.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    pub fn new(is_quiet: bool) -> Self {
        let is_shown = !is_quiet && stderr().is_terminal();
        Self(is_shown.then(|| {
            let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            line.set_style(ProgressStyle::with_template("{msg}").expect("a literal template"));
            line
        }))
    }

    /// Shows what has come and gone in this time.
    pub fn show(&self, elapsed: Duration, counts: &Counts) {
        let Some(line) = &self.0 else { return };
        let Counts { received, sent } = *counts;
        let rate = received as f64 / elapsed.as_secs_f64().max(1e-3);
        line.set_message(format!(
            "{}: {received} packets received, {sent} sent, {} a second",
            output::short_time(elapsed),
            short(rate)
        ));
        line.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.finish_and_clear();
        }
    }
}

/// The packets of a run, over all loops. What went from shard to shard is neither received nor sent.
struct Sums {
    received: (u64, u64),
    sent: (u64, u64),
    dropped: Drops,
    in_flight: u64,
    /// Packets that went from shard to shard.
    crossed: u64,
}

impl Sums {
    fn of(ended: &Ended) -> Self {
        let mut dropped = Drops::default();
        let (mut received, mut sent, mut in_flight) = ((0, 0), (0, 0), 0);
        for account in &ended.accounts {
            received.0 += account.received.packets;
            received.1 += account.received.bytes;
            sent.0 += account.sent.packets;
            sent.1 += account.sent.bytes;
            in_flight += account.in_flight();
            dropped.merge(&account.dropped());
        }
        let mut crossed = 0;
        if let Some(crossing) = &ended.crossing {
            crossed = crossing.sum(|stats| stats.taken.packets);
            let came = crossing.sum(|stats| stats.delivered.packets);
            received.0 -= came;
            received.1 -= crossing.sum(|stats| stats.delivered.bytes);
            sent.0 -= crossed;
            sent.1 -= crossing.sum(|stats| stats.taken.bytes);
            in_flight += crossed - came;
        }
        Self {
            received,
            sent,
            dropped,
            in_flight,
            crossed,
        }
    }

    /// Checks that each loop and all of them together have an account of every packet, and that the ports agree.
    fn check(&self, ended: &Ended) -> Result<(), String> {
        ended
            .accounts
            .iter()
            .try_for_each(Account::check)
            .map_err(|error| format!("packets do not add up: {error}"))?;
        let (received, sent) = (self.received.0, self.sent.0);
        let (dropped, in_flight) = (self.dropped.total().packets, self.in_flight);
        if received != sent + dropped + in_flight {
            return Err(format!(
                "packets do not add up: received {received}, but sent {sent}, dropped {dropped}, in flight {in_flight}"
            ));
        }
        let of_ports = |of: fn(&PortStats) -> u64| {
            let each = ended.ports.iter().map(|port| port.sum(of));
            each.sum::<u64>()
        };
        let delivered = of_ports(|stats| stats.delivered.packets);
        let taken = of_ports(|stats| stats.taken.packets);
        match (delivered, taken) == (received, sent) {
            true => Ok(()),
            false => Err(format!(
                "ports count otherwise than loops: {delivered} packets received of {received}, {taken} sent of {sent}"
            )),
        }
    }
}

/// The record of a run that has ended.
pub(super) fn record(
    record: Record,
    run: &Run,
    program: &Program,
    ended: &Ended,
    globals: &Globals,
) -> Record {
    let ports: Vec<&str> = ended.ports.iter().map(Watcher::name).collect();
    let kinds: Vec<&str> = run.ports.iter().map(|port| port.kind()).collect();
    let mut record = program
        .note(record)
        .with("port", ports.join(" "))
        .with("link", kinds.join(" "))
        .with("threads", run.threads as u64)
        .with("spread", ended.spread.name());
    record.provenance.pinned = run.pins.clone();
    if run.has_seed {
        record.provenance.seed = run.seed;
    }
    if let Some(seconds) = run.seconds {
        record = record.with("seconds", seconds.as_secs_f64());
    }
    let sums = Sums::of(ended);
    let counts = counts(&sums, program, ended);
    record.counts = counts.into_iter().collect();
    if ended.is_interrupted {
        record.outcome = Outcome::Interrupted;
    }
    let checked = sums.check(ended);
    match checked.and_then(|()| program.check(sums.in_flight, globals)) {
        Ok(outputs) => {
            let sums_of = "received = sent + dropped + in flight, in each loop and at the ports";
            record.check = Some(Check {
                against: match outputs {
                    Some(outputs) => format!("{sums_of}; {outputs}"),
                    None => sums_of.to_owned(),
                },
                compared: sums.received.0,
                digest: None,
            });
        }
        Err(reason) => record.outcome = Outcome::Failed { reason },
    }
    record
}

/// All counts, by name.
fn counts(sums: &Sums, program: &Program, ended: &Ended) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut put = |name: String, count: u64| counts.insert(name, count);
    put("elapsed_ns".to_owned(), ended.elapsed_ns);
    put("received_packets".to_owned(), sums.received.0);
    put("received_bytes".to_owned(), sums.received.1);
    put("sent_packets".to_owned(), sums.sent.0);
    put("sent_bytes".to_owned(), sums.sent.1);
    put("dropped_packets".to_owned(), sums.dropped.total().packets);
    put("in_flight_packets".to_owned(), sums.in_flight);
    if ended.crossing.is_some() {
        put("crossed_packets".to_owned(), sums.crossed);
    }
    for (reason, tally) in sums.dropped.iter() {
        put(format!("dropped.{reason}"), tally.packets);
    }
    for (number, port) in ended.ports.iter().enumerate() {
        put(
            format!("port.{number}.received"),
            port.sum(|stats| stats.delivered.packets),
        );
        put(
            format!("port.{number}.sent"),
            port.sum(|stats| stats.taken.packets),
        );
        for (side, losses) in lost(port) {
            for (reason, count) in by_reason(&losses) {
                if count > 0 {
                    put(format!("port.{number}.{side}.{reason}"), count);
                }
            }
        }
    }
    for Stage {
        name,
        packets,
        dropped,
        busy_ns,
        ..
    } in stages(&ended.accounts)
    {
        put(format!("stage.{name}.packets"), packets);
        put(format!("stage.{name}.dropped"), dropped);
        put(format!("stage.{name}.busy_ns"), busy_ns);
    }
    for (name, count) in program.counts() {
        put(name.to_owned(), count);
    }
    for Found {
        kind,
        server,
        flows,
    } in program.found()
    {
        *counts.entry(format!("flows.{kind}")).or_default() += flows;
        if !server.is_empty() {
            *counts.entry(format!("server.{server}")).or_default() += flows;
        }
    }
    counts
}

/// What the ends of a port lost before they gave it out, and after they took it.
fn lost(port: &Watcher) -> Vec<(&'static str, Losses)> {
    let ends = port.ends();
    let of = ends.iter();
    of.flat_map(|stats| {
        [
            ("lost_before", stats.receive_lost),
            ("lost_behind", stats.send_lost),
        ]
    })
    .fold(
        Vec::new(),
        |mut sums: Vec<(&str, Losses)>, (side, losses)| {
            match sums.iter_mut().find(|(of, _)| *of == side) {
                Some((_, sum)) => {
                    sum.queue_full += losses.queue_full;
                    sum.no_memory += losses.no_memory;
                    sum.too_long += losses.too_long;
                    sum.malformed += losses.malformed;
                    sum.kernel += losses.kernel;
                }
                None => sums.push((side, losses)),
            }
            sums
        },
    )
}

fn by_reason(losses: &Losses) -> [(&'static str, u64); 5] {
    [
        ("queue full", losses.queue_full),
        ("no memory", losses.no_memory),
        ("too long", losses.too_long),
        ("malformed", losses.malformed),
        ("kernel", losses.kernel),
    ]
}

/// A stage of all shards together.
struct Stage {
    name: String,
    level: u8,
    packets: u64,
    dropped: u64,
    busy_ns: u64,
}

/// The stages of all loops, those of one name together, in order.
fn stages(accounts: &[Account]) -> Vec<Stage> {
    let mut stages: Vec<Stage> = Vec::new();
    // In a line two stages may have one name, as the check of a router has in front and behind.
    for account in accounts {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for report in &account.stages {
            let number = seen.entry(&report.name).or_default();
            *number += 1;
            let name = match *number {
                1 => report.name.clone(),
                number => format!("{} {number}", report.name),
            };
            let counters = &report.counters;
            let (packets, dropped) = (
                counters.offered.packets,
                counters.dropped.total().packets + counters.dropped_inside,
            );
            match stages.iter_mut().find(|stage| stage.name == name) {
                Some(stage) => {
                    stage.packets += packets;
                    stage.dropped += dropped;
                    stage.busy_ns += counters.busy_ns;
                }
                None => stages.push(Stage {
                    name,
                    level: report.level,
                    packets,
                    dropped,
                    busy_ns: counters.busy_ns,
                }),
            }
        }
    }
    stages
}

/// Prints the run as its format asks.
pub(super) fn print(
    record: &Record,
    program: &Program,
    ended: &Ended,
    format: Format,
) -> Result<(), Failure> {
    match format {
        Format::Json => output::print_json(record),
        Format::Csv => {
            let mut table = Table::new([Column::left("name"), Column::right("count")]);
            for (name, count) in &record.counts {
                table.row([name.clone(), count.to_string()]);
            }
            output::print(&table.to_csv())
        }
        Format::Table | Format::Markdown => {
            let text = |table: Table| match format {
                Format::Markdown => table.to_markdown(),
                _ => table.to_text(),
            };
            let mut tables = vec![text(of_ports(ended)), text(of_stages(ended))];
            let found = program.found();
            if !found.is_empty() {
                tables.push(text(of_found(&found)));
            }
            if record.counts.contains_key("packets_hashed") {
                tables.push(text(of_actions(record)));
            }
            let sums = Sums::of(ended);
            if sums.dropped.total().packets > 0 {
                tables.push(text(of_drops(&sums.dropped)));
            }
            tables.push(format!(
                "{} packets received, {} sent, {} dropped, {} in flight\n",
                sums.received.0,
                sums.sent.0,
                sums.dropped.total().packets,
                sums.in_flight
            ));
            output::print(&tables.join("\n"))
        }
    }
}

fn of_ports(ended: &Ended) -> Table {
    let mut table = Table::new([
        Column::left("port"),
        Column::right("received"),
        Column::right("lost before"),
        Column::right("sent"),
        Column::right("lost behind"),
    ]);
    for port in &ended.ports {
        table.row([
            port.name().to_owned(),
            port.sum(|stats| stats.delivered.packets).to_string(),
            port.sum(|stats| stats.receive_lost.total()).to_string(),
            port.sum(|stats| stats.taken.packets).to_string(),
            port.sum(|stats| stats.send_lost.total()).to_string(),
        ]);
    }
    table
}

fn of_stages(ended: &Ended) -> Table {
    let mut table = Table::new([
        Column::left("stage"),
        Column::right("packets"),
        Column::right("dropped"),
        Column::right("ns a packet"),
    ]);
    for stage in stages(&ended.accounts) {
        let each_ns = stage.busy_ns as f64 / stage.packets.max(1) as f64;
        let indent = "  ".repeat(stage.level.into());
        table.row([
            format!("{indent}{}", stage.name),
            stage.packets.to_string(),
            stage.dropped.to_string(),
            // A stage that nobody times is of a thread that only passes packets on.
            match stage.busy_ns {
                0 => "-".to_owned(),
                _ => format!("{each_ns:.0}"),
            },
        ]);
    }
    table
}

fn of_found(found: &[Found]) -> Table {
    let mut table = Table::new([
        Column::left("application"),
        Column::left("server"),
        Column::right("flows"),
    ]);
    for kind in found {
        table.row([
            kind.kind.clone(),
            kind.server.clone(),
            kind.flows.to_string(),
        ]);
    }
    table
}

/// The work done on packets, as the record has it.
fn of_actions(record: &Record) -> Table {
    let mut table = Table::new([
        Column::left("action"),
        Column::right("packets"),
        Column::right("bytes"),
        Column::right("bytes made"),
    ]);
    for (action, names) in [
        ("hashed", ["packets_hashed", "hashed_bytes", ""]),
        (
            "compressed",
            [
                "packets_compressed",
                "compressed_bytes_in",
                "compressed_bytes_out",
            ],
        ),
        ("sent back", ["packets_sent_back", "", ""]),
        ("passed", ["packets_passed", "", ""]),
    ] {
        let count = |name: &str| {
            let count = record.counts.get(name);
            count.map_or("-".to_owned(), u64::to_string)
        };
        let [packets, bytes, made] = names.map(count);
        table.row([action.to_owned(), packets, bytes, made]);
    }
    table
}

fn of_drops(drops: &Drops) -> Table {
    let columns = ["packets", "bytes"].map(Column::right);
    let mut table = Table::new([&[Column::left("dropped for")][..], &columns].concat());
    for (reason, tally) in drops.iter() {
        table.row([
            reason.to_string(),
            tally.packets.to_string(),
            tally.bytes.to_string(),
        ]);
    }
    table
}
