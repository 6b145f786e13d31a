//! `dpb sim run`: systems run, each with one seed after the other.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use dpb_core::Evidence;
use dpb_core::measure::{Check, Outcome, Record};
use dpb_sim::system::description::ConnectText;
use dpb_sim::system::sources::OfferText;
use dpb_sim::system::{Description, System};

use super::samples::Samples;
use super::settings::{Settings, Sweeps, combinations, recorded, written};
use super::source::{BACKEND, assemble, model, read};
use super::tables;
use super::traces::{TraceFlags, Traces};
use crate::args::{self, List};
use crate::cmd::sweep::{self, Results};
use crate::exit::Failure;
use crate::output::{self, Format, Progress};
use crate::report::busiest::{BUSES, CORES, STAGES, WIRES};
use crate::spec;
use crate::task::{Cost, Task, View, axis, charted, flags, listed, recorded_by_name};
use crate::{Globals, interrupt};

// The groups of flags in the help.
const SYSTEM: &str = "The system";
const RUNS: &str = "The runs";

/// The task: a simulated system.
pub const TASK: Task = Task {
    name: "sim run",
    summary: "a simulated system of hosts, cards and a network: how long its applications take, and which part is busy",
    example: "dpb sim run card --set card.stage.byte_ps=125..2000",
    apart: &["out", "pcapng", "ports", "timeline"],
    prepare: None,
    shared_file: None,
    view: VIEW,
    check,
    cost,
    recorded: recorded_by_name,
    published: Some(crate::report::published::simulated),
    server_end: None,
};

const VIEW: View = View {
    lead: &["system", "application", "digest", "framing"],
    series: &["system", "digest"],
    sweeps: &[axis("threads", "threads", output::number)],
    fixed: &["application", "framing"],
    metrics: &[
        charted(
            "completion_s",
            "time until all applications have finished",
            seconds,
        ),
        charted(
            "transactions_per_s",
            "transactions a second of all clients",
            output::short,
        ),
        listed(
            "goodput_bps",
            "payload bits a second, at both ends",
            output::short,
        ),
        listed(CORES.metric, CORES.meaning, output::percent),
        listed(STAGES.metric, STAGES.meaning, output::percent),
        listed(BUSES.metric, BUSES.meaning, output::percent),
        listed(WIRES.metric, WIRES.meaning, output::percent),
        listed(
            "request_latency_ns_p50",
            "requests over connections, from their intended begin",
            output::short_ns,
        ),
        listed("request_latency_ns_p99", "the same", output::short_ns),
        listed(
            "datagram_latency_ns_p50",
            "datagrams, from their intended departure",
            output::short_ns,
        ),
        listed("datagram_latency_ns_p99", "the same", output::short_ns),
        listed(
            "answer_latency_ns_p50",
            "answers to datagrams, from the intended departure of these",
            output::short_ns,
        ),
        listed("answer_latency_ns_p99", "the same", output::short_ns),
    ],
    base: None,
};

/// A time in seconds, for people.
fn seconds(seconds: f64) -> String {
    output::short_ns(seconds * 1e9)
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Operators compute for real: a frame that passes a digest's stage carries that digest, and the receiver checks it. Only time is modelled, so every figure is \
                  `simulated`. The same file and seed give the same results, however many threads.\n\
                  Times are the model's: what a file does not name has a usual value, which is no measurement.\n\
                  --set changes a parameter in each part that has it, host[server].cores in one part alone. Values sweep: 1,2,4 or 125..2000 (doubling); several settings, in \
                  one --set with semicolons between or in several, are combined. The value none takes a parameter away. A parameter that would change nothing is an error.\n\
                  Systems that come with dpb: plain, software, card, on-path, off-path; woo-chung/dumb, /software, /card, /card-hmac, /tls-card, /off-path.\n\
                  Examples:\n  dpb sim run card\n  dpb sim run card --set card.stage.byte_ps=125..2000 --set link.latency_ns=500,2000 --repeat 10\n  \
                  dpb sim run system.toml --repeat 10 --threads 2 --out records.jsonl\n  dpb sim run off-path --pcapng frames.pcapng --timeline timeline.json"
)]
pub struct Args {
    /// The systems: files, or names of those that come with dpb
    #[arg(value_name = "NAMES", value_parser = args::words)]
    system: List<String>,
    /// Change parameters: PLACE=VALUES, as card.stage.byte_ps=125..2000
    #[arg(long, value_name = "TEXT", help_heading = SYSTEM)]
    set: Vec<Sweeps>,
    /// The seed of the first run: it decides faults of links, jitter of cores, the spread of beginnings
    #[arg(long, value_name = "NUMBER", help_heading = RUNS, default_value_t = 1)]
    seed: u64,
    /// The number of runs, each with the next seed; below 6 a number has no 95 % interval
    #[arg(long, value_name = "COUNT", help_heading = RUNS, visible_alias = "seeds", default_value = "1", value_parser = args::count)]
    repeat: u64,
    /// Threads of the simulation; they change its duration alone
    #[arg(long, value_name = "COUNT", help_heading = RUNS, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,
    /// The backend that computes digests
    #[arg(long, value_name = "NAME", help_heading = RUNS, default_value = BACKEND)]
    backend: String,
    /// Append the records to this file, in a folder that is there
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    traces: TraceFlags,
}

/// A system to run, as it was asked for.
struct Test {
    system: String,
    settings: Settings,
    description: Description,
}

impl Args {
    /// All systems with all combinations of settings.
    fn tests(&self) -> Result<Vec<Test>, Failure> {
        let combined = combinations(&self.set);
        let combined = combined.map_err(|why| Failure::usage(format!("--set: {why}")))?;
        let mut tests = Vec::new();
        for system in &self.system {
            for settings in &combined {
                let test = Test {
                    system: system.clone(),
                    settings: settings.clone(),
                    description: read(system, settings)?,
                };
                if test.clients() == 0 {
                    return Err(Failure::usage(format!(
                        "{system}: no host connects to another or offers it datagrams, so nothing would happen"
                    )));
                }
                tests.push(test);
            }
        }
        self.traces.check(tests.len(), self.threads)?;
        Ok(tests)
    }

    fn assemble(&self, test: &Test, seed: u64, globals: &Globals) -> Result<System, Failure> {
        let Test {
            system,
            description,
            ..
        } = test;
        assemble(
            description,
            system,
            &self.backend,
            seed,
            self.threads,
            globals,
        )
    }

    fn record(&self, test: &Test) -> Record {
        let model = model(&format!("the system {}", test.system), &test.description);
        let record = Record::new(TASK.name, Evidence::Simulated { model }, self.seed)
            .with("system", test.system.as_str())
            .with("application", test.applications())
            .with("digest", test.of_digests(|[operator, _]| operator))
            .with("framing", test.of_digests(|[_, framing]| framing))
            .with("clients", test.clients())
            .with("repeat", self.repeat)
            .with("threads", self.threads)
            .with("backend", self.backend.as_str());
        if test.settings.is_empty() {
            return record;
        }
        let settings = test.settings.iter();
        settings.fold(
            record.with("set", written(&test.settings)),
            |record, setting| {
                let name = format!("{}{}", spec::SETTING, setting.place());
                record.with(&name, recorded(setting))
            },
        )
    }

    /// Runs a system with every seed. What its runs were, beside the record.
    fn simulate(
        &self,
        test: &Test,
        globals: &Globals,
        progress: &mut dyn FnMut(),
    ) -> Result<(Record, Samples), Failure> {
        let mut record = self.record(test);
        let mut samples = Samples::default();
        let mut broken = None;
        for seed in self.seed..self.seed.saturating_add(self.repeat) {
            if interrupt::is_set() {
                return Ok((record.without_numbers(Outcome::Interrupted), samples));
            }
            let mut system = self.assemble(test, seed, globals)?;
            // Of one run it is said where time went.
            let is_first = seed == self.seed;
            let traces = match is_first {
                true => self.traces.begin(&mut system)?,
                false => Traces::default(),
            };
            let ran = system.run_unless(&interrupt::is_set);
            traces.finish()?;
            if matches!(ran, Ok(false)) && interrupt::is_set() {
                return Ok((record.without_numbers(Outcome::Interrupted), samples));
            }
            let ended = match ran {
                Ok(true) => Ok(()),
                Ok(false) => Err(format!(
                    "after {} virtual seconds (limit_s) not all applications have finished",
                    test.description.limit_s
                )),
                Err(why) => Err(why.to_string()),
            };
            let counted = samples.add(&system, &mut record);
            if is_first {
                samples.add_spent(&system, &mut record);
            }
            if let Err(why) = ended.and(counted) {
                broken.get_or_insert_with(|| format!("seed {seed}: {why}"));
            }
            progress();
        }
        record.check = Some(Check {
            against: "each payload byte, by the function of seed and offset that its sender had"
                .to_owned(),
            compared: record.counts.get("payload_frames").copied().unwrap_or(0),
            digest: None,
        });
        samples.keep(&mut record);
        // What was counted until then is kept: it says why.
        if let Some(reason) = broken {
            record = record.without_numbers(Outcome::Failed { reason });
        }
        Ok((record, samples))
    }
}

impl Test {
    fn connections(&self) -> impl Iterator<Item = &ConnectText> {
        self.description.host.iter().flat_map(|host| &host.connect)
    }

    fn offers(&self) -> impl Iterator<Item = &OfferText> {
        self.description.host.iter().flat_map(|host| &host.offer)
    }

    /// Hosts that connect to others, or offer them datagrams.
    fn clients(&self) -> u64 {
        let hosts = self.description.host.iter();
        let clients = hosts.filter(|host| !host.connect.is_empty() || !host.offer.is_empty());
        clients.count() as u64
    }

    /// The applications of these: `send`, `ask`, `offer`.
    fn applications(&self) -> String {
        let connections = self.connections().map(|it| it.application.as_str());
        joined(connections.chain(self.offers().map(|_| "offer")))
    }

    /// The words of all digests, of their operators and framings; `none` where there are none.
    fn of_digests(&self, of: fn([&str; 2]) -> &str) -> String {
        let hosts = self.description.host.iter();
        let hosts = hosts.filter_map(|host| host.digest.as_ref());
        let hosts = hosts.map(|it| [it.operator.as_str(), it.framing.as_str()]);
        let cards = self.description.card.iter();
        let cards = cards.filter_map(|card| card.digest.as_ref());
        let cards = cards.map(|it| [it.operator.as_str(), it.framing.as_str()]);
        joined(hosts.chain(cards).map(of))
    }

    /// Frames with payload of all connections and sources of datagrams, about.
    fn frames(&self) -> u64 {
        let each = self.connections().map(|it| {
            let requests = it.requests.unwrap_or(0).saturating_mul(4);
            it.bytes.unwrap_or(0) / 1448 + requests
        });
        let datagrams = self
            .offers()
            .map(|it| it.count.saturating_mul(1 + u64::from(it.answered)));
        each.chain(datagrams).fold(0, u64::saturating_add)
    }
}

/// Each word once, or `none`.
fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: std::collections::BTreeSet<&str> = words.collect();
    match words.is_empty() {
        true => "none".to_owned(),
        false => words.into_iter().collect::<Vec<_>>().join("+"),
    }
}

/// Checks that the systems can be put together.
fn check(matches: &ArgMatches, globals: &Globals) -> Result<(), Failure> {
    let args: Args = flags(matches)?;
    let tests = args.tests()?;
    tests
        .iter()
        .try_for_each(|test| args.assemble(test, args.seed, globals).map(drop))
}

/// Runs, by the frames of their connections.
fn cost(matches: &ArgMatches) -> Cost {
    /// A frame with its acknowledgement on its way, with digests, on one core.
    const FRAME: Duration = Duration::from_micros(20);
    /// A window of frames in each of a handful of queues.
    const MEMORY_BYTES: u64 = 64 << 20;
    let tests = flags::<Args>(matches).and_then(|args| args.tests());
    let frames = tests.map_or(0, |tests| tests.iter().map(Test::frames).sum::<u64>());
    Cost {
        each_run: FRAME.saturating_mul(frames.min(u64::from(u32::MAX)) as u32),
        memory_bytes: MEMORY_BYTES,
        ..Cost::default()
    }
}

/// Runs every system.
pub fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    let tests = args.tests()?;
    // What cannot be put together is said before anything runs.
    for test in &tests {
        args.assemble(test, args.seed, globals)?;
    }
    let mut results = Results::to(args.out.as_deref(), globals)?;
    let progress = Progress::of_task(tests.len() as u64 * args.repeat, globals);
    let mut seen = Vec::new();
    let mut done = 0;
    for test in &tests {
        let (record, samples) = args.simulate(test, globals, &mut || {
            done += 1;
            progress.set(done, &test.system);
        })?;
        results.keep(record)?;
        seen.push(samples);
        // Looked for after a test: the first has a record of the interrupt, however early that came.
        if interrupt::is_set() {
            break;
        }
    }
    drop(progress);
    if let (Format::Table | Format::Markdown, [only]) = (globals.format(), seen.as_slice()) {
        tables::print(globals.format(), only)?;
        output::print(&tables::binding(only))?;
    }
    results.print(tables::for_people, |records| {
        let parameters = [
            "system",
            "set",
            "application",
            "digest",
            "framing",
            "repeat",
        ];
        let metrics: Vec<&str> = VIEW.metrics.iter().map(|metric| metric.name).collect();
        sweep::for_machines(records, &parameters, &metrics)
    })?;
    results.judge(tests.len())
}
