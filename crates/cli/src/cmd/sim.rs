//! `dpb sim`: systems of hosts, cards and a network on virtual time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use dpb_core::measure::{Check, Durability, Outcome, Record};
use dpb_core::{Evidence, Operator, SetupError};
use dpb_sim::system::{Description, Flow, Leg, System};

use crate::Globals;
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table};

/// The usual backend of digests.
const BACKEND: &str = "cpu/best";

/// Simulate a system of hosts, cards and a network
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  dpb sim run crates/sim/systems/card.toml")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a system, and say what its applications got and where the time went
    Run(RunArgs),
    /// Draw a system, as Graphviz's dot reads it
    Describe(DescribeArgs),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Operators compute for real: a frame that passes a digest's stage carries that digest, and the receiver checks it. Only time is modelled, so every figure is \
                  `simulated`. The same file and seed give the same results, however many threads.\n\
                  Times are the model's: what a file does not name has a usual value, which is no measurement.\n\
                  Examples:\n  dpb sim run crates/sim/systems/card.toml\n  dpb sim run system.toml --seeds 10 --threads 2 --out records.jsonl"
)]
struct RunArgs {
    /// The system: a TOML file; crates/sim/systems has examples
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The seed of the first run: faults of links depend on it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// The number of runs, each with the next seed
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Threads of the simulation; they change its duration alone
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,
    /// The backend that computes digests
    #[arg(long, value_name = "NAME", default_value = BACKEND)]
    backend: String,
    /// Append the record to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  dpb sim describe crates/sim/systems/card.toml | dot -Tsvg > system.svg"
)]
struct DescribeArgs {
    /// The system: a TOML file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the verb.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    match args.verb {
        Verb::Run(args) => run_system(&args, globals),
        Verb::Describe(args) => describe(&args, globals),
    }
}

fn read(file: &Path) -> Result<Description, Failure> {
    let name = file.display();
    let text = fs::read_to_string(file);
    let text = text.map_err(|why| Failure::usage(format!("cannot read {name}: {why}")))?;
    let described = text.parse::<Description>();
    described.map_err(|why| Failure::usage(format!("{name}: {why}")))
}

/// Puts the system of this file together; digests are computed by this backend.
fn assemble(
    description: &Description,
    file: &Path,
    backend: &str,
    seed: u64,
    threads: u64,
    globals: &Globals,
) -> Result<System, Failure> {
    let prepare = |name: &str| -> Result<Arc<dyn Operator>, SetupError> {
        let entry = globals.operators.find(name);
        let entry = entry.ok_or_else(|| {
            SetupError::Parameter(format!(
                "there is no operator `{name}`; `dpb list operators` has them"
            ))
        })?;
        let opened = globals.families.open(backend);
        let opened =
            opened.map_err(|why| SetupError::Parameter(format!("--backend {backend}: {why}")))?;
        opened.prepare(&entry.default_spec())
    };
    System::assemble(description, &prepare, seed, threads as usize)
        .map_err(|why| Failure::usage(format!("{}: {why}", file.display())))
}

fn run_system(args: &RunArgs, globals: &Globals) -> Result<(), Failure> {
    let description = read(&args.file)?;
    if description.host.iter().all(|host| host.connect.is_empty()) {
        let name = args.file.display();
        return Err(Failure::usage(format!(
            "{name}: no host connects to another, so nothing would happen"
        )));
    }
    let model = format!("the system {}", args.file.display());
    let mut record = Record::new("sim", Evidence::Simulated { model }, args.seed)
        .with("system", args.file.display().to_string())
        .with("seeds", args.seeds)
        .with("threads", args.threads)
        .with("backend", args.backend.as_str());
    let mut samples = Samples::default();
    let mut first = None;
    let mut unfinished = None;
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        let mut system = assemble(
            &description,
            &args.file,
            &args.backend,
            seed,
            args.threads,
            globals,
        )?;
        let finished = system.run();
        let finished = finished.map_err(|why| Failure::check(format!("seed {seed}: {why}")))?;
        samples.add(&system, &mut record)?;
        if !finished {
            unfinished.get_or_insert_with(|| {
                format!(
                    "seed {seed}: after {} virtual seconds (limit_s) not all applications have finished",
                    description.limit_s
                )
            });
        }
        first.get_or_insert(system);
    }
    record.check = Some(Check {
        against: "each payload byte, by the function of seed and offset that its sender had"
            .to_owned(),
        compared: record.counts.get("payload_frames").copied().unwrap_or(0),
        digest: None,
    });
    for (name, values) in samples.0 {
        record.sample(name, values);
    }
    // What was counted until then is kept: it says why.
    if let Some(reason) = &unfinished {
        let reason = reason.clone();
        record = record.without_numbers(Outcome::Failed { reason });
    }
    if let Some(out) = &args.out {
        let mut store = output::open_records(out, Durability::Machine)?;
        store
            .append(&record)
            .map_err(|why| output::unwritable(&why))?;
    }
    match (globals.format(), first) {
        (Format::Json, _) | (_, None) => output::print_json(&record)?,
        (format, Some(system)) => print_tables(format, &system, &record)?,
    }
    unfinished.map_or(Ok(()), |reason| Err(Failure::check(reason)))
}

/// The figures of runs, by metric.
#[derive(Default)]
struct Samples(std::collections::BTreeMap<&'static str, Vec<f64>>);

impl Samples {
    /// Adds a run.
    ///
    /// # Errors
    /// If a payload was wrong and nothing was planted that may spoil one.
    fn add(&mut self, system: &System, record: &mut Record) -> Result<(), Failure> {
        let opened: Vec<&Flow> = system.hosts().flat_map(|(_, host)| host.flows()).collect();
        let last_ps = opened.iter().filter_map(|flow| flow.finished_ps).max();
        let completion_s = seconds(last_ps.unwrap_or(0));
        let delivered: u64 = opened
            .iter()
            .map(|flow| flow.endpoint.delivered_bytes())
            .sum();
        let answers: u64 = opened.iter().map(|flow| flow.answers).sum();
        self.push("completion_s", completion_s);
        self.push("goodput_bps", delivered as f64 * 8.0 / completion_s);
        if answers > 0 {
            // Both ends count an answer.
            self.push("transactions_per_s", answers as f64 / 2.0 / completion_s);
        }
        self.add_counts(system, record);
        let flipped: u64 = system
            .switches()
            .flat_map(|(_, switch, ports)| {
                (0..ports.len()).filter_map(|port| switch.wire_usage(port))
            })
            .chain(system.cards().map(|(_, card)| card.wire_usage()))
            .map(|wire| wire.flipped)
            .sum();
        let wrong: u64 = system
            .hosts()
            .map(|(_, host)| host.usage().payload_wrong)
            .sum();
        match wrong > 0 && flipped == 0 {
            true => Err(Failure::check(format!(
                "{wrong} payloads were wrong though no link flips bits: a fault of dpb"
            ))),
            false => Ok(()),
        }
    }

    fn push(&mut self, name: &'static str, value: f64) {
        self.0.entry(name).or_default().push(value);
    }

    fn add_counts(&self, system: &System, record: &mut Record) {
        let mut count = |name: &str, more: u64| {
            *record.counts.entry(name.to_owned()).or_insert(0) += more;
        };
        count("events", system.kernel().events());
        for (_, host) in system.hosts() {
            let usage = host.usage();
            count("frames_sent", usage.sent);
            count("frames_received", usage.received);
            count("payload_frames", host.ways().frames);
            count("payloads_wrong", usage.payload_wrong);
            count("checksums_wrong", usage.sum_wrong);
            count("host_busy_ns", usage.busy_ps / 1000);
            count("host_digest_busy_ns", usage.digest_busy_ps / 1000);
            for (leg, sum_ps) in Leg::ALL.iter().zip(host.ways().legs_ps) {
                count(&format!("leg_{}_ns", leg.name()), sum_ps / 1000);
            }
            for flow in host.flows() {
                let sender = flow.endpoint.sender().statistics();
                count("retransmissions", sender.retransmissions);
            }
            count("digests_wrong", usage.refused);
        }
        for (_, card) in system.cards() {
            let usage = card.usage();
            count("digests_wrong", usage.refused);
            count("dropped: receive descriptors", usage.no_descriptor);
            count("dropped: stages", usage.stage_full);
            count("interrupts", usage.interrupts);
        }
        for (_, switch, ports) in system.switches() {
            for wire in (0..ports.len()).filter_map(|port| switch.wire_usage(port)) {
                count("dropped: switch queues", wire.dropped);
                count("lost", wire.lost);
                count("flipped", wire.flipped);
            }
            count("dropped: switch buffers", switch.usage().buffer_full);
        }
    }
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}

/// Prints tables for a person: connections, parts, and the way of frames, of the first run.
fn print_tables(format: Format, system: &System, record: &Record) -> Result<(), Failure> {
    for table in [connections(system), parts(system), legs(system)] {
        let text = match format {
            Format::Markdown => table.to_markdown(),
            Format::Csv => table.to_csv(),
            Format::Table | Format::Json => table.to_text(),
        };
        output::print(&(text + "\n"))?;
    }
    if record.outcome != Outcome::Done {
        return Ok(());
    }
    let runs = record
        .samples
        .get("completion_s")
        .map_or(0, |it| it.values.len());
    let median = |name: &str| record.summary.get(name).map_or(0.0, |it| it.median);
    output::print(&format!(
        "completion {}, goodput {}bit/s: median of {runs} run(s); the tables are of the first; evidence: {}\n",
        output::short_ns(median("completion_s") * 1e9),
        output::short(median("goodput_bps")),
        output::evidence(record),
    ))
}

fn connections(system: &System) -> Table {
    let mut table = Table::new([
        Column::left("connection at"),
        Column::right("bytes received"),
        Column::right("answers"),
        Column::right("finished"),
        Column::right("Gbit/s"),
        Column::right("sent again"),
    ]);
    for (name, host) in system.hosts() {
        for flow in host.flows() {
            let bytes = flow.endpoint.delivered_bytes();
            let took_ps = flow.finished_ps.unwrap_or(0).saturating_sub(flow.opened_ps);
            table.row([
                format!("{name}, {}:{}", flow.peer.ip, flow.peer.port),
                bytes.to_string(),
                flow.answers.to_string(),
                output::short_ns(flow.finished_ps.unwrap_or(0) as f64 / 1e3),
                format!("{:.3}", bytes as f64 * 8e3 / took_ps.max(1) as f64),
                flow.endpoint
                    .sender()
                    .statistics()
                    .retransmissions
                    .to_string(),
            ]);
        }
    }
    table
}

/// Utilisation and waiting of every part, until all applications had finished.
fn parts(system: &System) -> Table {
    let mut table = Table::new([
        Column::left("part"),
        Column::right("busy"),
        Column::right("jobs"),
        Column::right("mean wait"),
        Column::right("dropped"),
    ]);
    let run_ps = system.kernel().now_ps();
    let share = |busy_ps: u64, lanes: usize| {
        output::percent(busy_ps as f64 / (run_ps as f64 * lanes as f64))
    };
    for (name, host) in system.hosts() {
        let usage = host.usage();
        table.row([
            format!("{name}: cores"),
            share(usage.busy_ps, host.cores()),
            (usage.sent + usage.received).to_string(),
            String::new(),
            (usage.sum_wrong + usage.refused).to_string(),
        ]);
    }
    for (name, card) in system.cards() {
        for (stage, lanes, usage) in card.stages() {
            table.row([
                format!("card of {name}: {stage}"),
                share(usage.busy_ps, lanes),
                usage.jobs.to_string(),
                output::short_ns(usage.waited_ps as f64 / 1e3 / usage.jobs.max(1) as f64),
                usage.refused.to_string(),
            ]);
        }
        for (way, usage) in ["DMA out", "DMA in"].into_iter().zip(card.dma()) {
            table.row([
                format!("card of {name}: {way}"),
                share(usage.busy_ps, 1),
                usage.jobs.to_string(),
                output::short_ns(usage.waited_ps as f64 / 1e3 / usage.jobs.max(1) as f64),
                String::new(),
            ]);
        }
        let wire = card.wire_usage();
        let dropped = card.usage().no_descriptor;
        table.row([
            format!("card of {name}: wire"),
            share(wire.busy_ps, 1),
            wire.sent.to_string(),
            String::new(),
            dropped.to_string(),
        ]);
    }
    for (name, switch, ports) in system.switches() {
        for (port, to) in ports.iter().enumerate() {
            let wire = switch.wire_usage(port).unwrap_or_default();
            table.row([
                format!("{name}: wire to {to}"),
                share(wire.busy_ps, 1),
                wire.sent.to_string(),
                String::new(),
                (wire.dropped + wire.lost).to_string(),
            ]);
        }
    }
    table
}

/// The mean time of each leg of frames with payload, by the host that received them.
fn legs(system: &System) -> Table {
    let mut columns = vec![Column::left("frames received at")];
    columns.extend(Leg::ALL.map(|leg| Column::right(leg.name().replace('_', " "))));
    let mut table = Table::new(columns);
    for (name, host) in system.hosts().filter(|(_, host)| host.ways().frames > 0) {
        let ways = host.ways();
        let mean = |sum_ps: u64| output::short_ns(sum_ps as f64 / 1e3 / ways.frames as f64);
        table.row([name.to_owned()].into_iter().chain(ways.legs_ps.map(mean)));
    }
    table
}

/// Prints the system as a graph.
fn describe(args: &DescribeArgs, globals: &Globals) -> Result<(), Failure> {
    let description = read(&args.file)?;
    // A system that cannot be put together is not drawn.
    assemble(&description, &args.file, BACKEND, 1, 1, globals)?;
    let mut text = "graph system {\n  node [shape=box]\n".to_owned();
    for host in &description.host {
        let card = description.card.iter().find(|card| card.host == host.name);
        let mut lines = vec![host.name.clone()];
        let digest = host
            .digest
            .as_ref()
            .map(|it| format!("cores: {}", it.operator));
        lines.extend(digest);
        let stages = card.into_iter().flat_map(|card| &card.stage);
        lines.extend(stages.map(|stage| format!("card: {} x {}", stage.lanes, stage.name)));
        text += &format!("  {:?} [label={:?}]\n", host.name, lines.join("\n"));
    }
    for switch in &description.switch {
        text += &format!("  {:?} [shape=diamond]\n", switch.name);
    }
    for link in &description.link {
        let rate = link
            .rate_gbps
            .map_or_else(String::new, |it| format!("{it} Gbit/s"));
        text += &format!(
            "  {:?} -- {:?} [label={rate:?}]\n",
            link.ends[0], link.ends[1]
        );
    }
    output::print(&(text + "}\n"))
}
