//! `dpb advise`: what to move to a device, from which size on, and what it brings; and whether that came true.

mod answer;
mod measure;
mod power;
mod pushdown;
mod records;
mod show;
mod unused;
mod verify;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use dpb_core::Executor;
use dpb_core::measure::comparison::Better;
use dpb_core::measure::{Durability, Reading, Record, Store};
use dpb_insight::advice::{Advisor, Goal, Prices, Profile, Question, Refusal, Score, Side, side};

use self::answer::Answer;
use crate::Globals;
use crate::args::{self, List};
use crate::exit::Failure;
use crate::output::{self, Format};
use crate::task::{Cost, Metric, Task, View, flags, listed, recorded_by_name};

/// The task: advice.
pub const TASK: Task = Task {
    name: "advise",
    summary: "what to move to a device, from which size on, and what it brings",
    example: "dpb advise --operator deflate --device pool/1",
    apart: &["files", "out"],
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
    lead: &["operator", "host", "device", "goal", "batch", "link_gbps"],
    series: &["device"],
    sweeps: &[],
    fixed: &["operator", "host", "goal"],
    metrics: &[
        more("gain", "gain at the largest size"),
        listed("threshold_bytes", "threshold, bytes", output::bytes),
        more("coverage", "share of intervals that held"),
        listed("median_error", "median error", output::percent),
        more("right", "share of decisions that were right"),
        listed("abstention", "share too close to call", output::percent),
        more("rule_always", "right by the rule: always"),
        more("rule_never", "right by the rule: never"),
        more("rule_from_1024", "right by the rule: from 1024 B"),
        listed("worst_off_ns", "largest difference, ns", output::short),
    ],
    base: None,
};

/// A metric of which more is better.
const fn more(name: &'static str, label: &'static str) -> Metric {
    Metric {
        better: Some(Better::More),
        ..listed(name, label, output::number)
    }
}

// The groups of flags in the help.
const QUESTION: &str = "The question";
const SIDES: &str = "The sides";
const RUNS: &str = "What is measured, where there are no records";
const FIGURES: &str = "Output";

/// Say what to move to a device, from which size on, and what it brings.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With files of records (`dpb op … --out`), nothing is measured: one file has both sides, two files the host's and the device's. Without files both \
                  sides are measured first. --verify measures points that were held out, and scores the predictions, which are written and hashed before.\n\
                  Emulated, published and failed tests carry no advice. Predictions in a file, as --out writes them, are left out.\n\
                  Examples:\n  dpb advise --operator deflate --device pool/1\n  \
                  dpb advise --operator crc32c --device pool/2 --goal throughput --verify\n  \
                  dpb advise host.jsonl dpu.jsonl --operator sha256 --link 25G --round-trip 3us\n  \
                  dpb advise records.jsonl --device dpdk/compress_isal --goal slo --rate 5e4 --limit 200us\n  \
                  dpb advise records.jsonl --goal application --profile service.toml --rate 1e4 --price prices.toml\n  \
                  dpb advise --goal pushdown --link 2.5G --verify"
)]
pub struct Args {
    /// Files of records: one with both sides, or the host's and the device's
    #[arg(value_name = "FILE", num_args = 0..=2)]
    files: Vec<PathBuf>,
    /// The operator; of records that have one operator it need not be said
    #[arg(long, value_name = "NAME", help_heading = SIDES)]
    operator: Option<String>,
    /// The operator's own parameters, as key=value with commas between
    #[arg(long, value_name = "TEXT", help_heading = SIDES, default_value = "")]
    parameters: String,
    /// The backend that stays
    #[arg(long, value_name = "NAME", help_heading = SIDES, default_value = "cpu/best")]
    host: String,
    /// The backend that the work may move to; of records that have one beside the host's it need not be said
    #[arg(long, value_name = "NAME", help_heading = SIDES)]
    device: Option<String>,
    /// The purpose that the device is wanted for
    #[arg(long, help_heading = QUESTION, value_enum, default_value = "latency")]
    goal: Wanted,
    /// Items of a job; of several that are measured, the first is advised on [default: 1, 16; of records what was measured at most sizes; goal split: the most]
    #[arg(long, value_name = "COUNTS", help_heading = QUESTION, value_parser = args::counts)]
    batch: Option<List<u64>>,
    /// Jobs that arrive a second: for the goal slo, and for the cores that are freed
    #[arg(long, value_name = "RATE", help_heading = QUESTION, value_parser = args::rate)]
    rate: Option<f64>,
    /// Goal slo: the longest 99th percentile
    #[arg(long, value_name = "TIME", help_heading = QUESTION, value_parser = args::duration)]
    limit: Option<Duration>,
    /// Goal application: a TOML file with share, offloads_per_s, cores, design (sync, sync-os, async), batch, sizes, perhaps switch_ns
    #[arg(long, value_name = "FILE", help_heading = QUESTION)]
    profile: Option<PathBuf>,
    /// A TOML file with currency, core_hour, device_hour, perhaps core_watts, device_watts: prices what --rate frees
    #[arg(long, value_name = "FILE", help_heading = QUESTION, requires = "rate")]
    price: Option<PathBuf>,
    /// Bits a second, each way, of a link between host and device that the records do not have; goal pushdown: of the link
    #[arg(long, value_name = "RATE", help_heading = QUESTION, value_parser = args::rate)]
    link: Option<f64>,
    /// The round trip of that link
    #[arg(long, value_name = "TIME", help_heading = QUESTION, value_parser = args::duration, requires = "link")]
    round_trip: Option<Duration>,
    /// Measure held-out points, and score the predictions
    #[arg(long, help_heading = QUESTION)]
    verify: bool,
    /// Bytes of an item
    #[arg(long, value_name = "SIZES", help_heading = RUNS, value_parser = args::sizes, default_value = "64,256,1KiB,4KiB,16KiB,64KiB")]
    size: List<u64>,
    /// Jobs in flight on the device's queue
    #[arg(long, value_name = "COUNTS", help_heading = RUNS, value_parser = args::counts, default_value = "1,4,16")]
    depth: List<u64>,
    /// Threads that submit to the device, and threads of the host
    #[arg(long, value_name = "COUNT", help_heading = RUNS, value_parser = args::count, default_value = "1")]
    threads: u64,
    /// Length of one run
    #[arg(long, value_name = "TIME", help_heading = RUNS, value_parser = args::duration, default_value = "30ms")]
    seconds: Duration,
    /// Time that each thread works before the first run
    #[arg(long, value_name = "TIME", help_heading = RUNS, value_parser = args::duration, default_value = "5ms")]
    warm_up: Duration,
    /// Runs of each test, a third of them in each of three rounds over all sizes; below 6 a number has no 95 % interval
    #[arg(long, value_name = "COUNT", help_heading = RUNS, value_parser = args::count, default_value = "7")]
    repeat: u64,
    /// Goal pushdown: TPC-H's scale factor
    #[arg(long, value_name = "REAL", help_heading = RUNS, default_value_t = 0.1)]
    sf: f64,
    /// Seed of inputs and schedules; goal pushdown's data is always the same
    #[arg(long, value_name = "NUMBER", help_heading = RUNS, default_value = "1")]
    seed: u64,
    /// Append records to this file, in a folder that is there: what was measured, what is predicted, the advice
    #[arg(long, value_name = "FILE", help_heading = FIGURES)]
    out: Option<PathBuf>,
}

/// A goal's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wanted {
    /// A job is done sooner
    Latency,
    /// More jobs a second
    Throughput,
    /// Less CPU time of the host
    Cores,
    /// The 99th percentile at --rate stays below --limit
    Slo,
    /// The application of --profile is faster
    Application,
    /// Both sides work on one job, of which each gets some of the items
    Split,
    /// Predicates at the storage, below which selectivity
    Pushdown,
}

impl Wanted {
    /// True if the times of single jobs are replayed.
    fn replays(self) -> bool {
        matches!(self, Self::Slo | Self::Application)
    }
}

/// Refuses flags that the goal of a command line has no use for, and files that do not fit it.
fn check(matches: &ArgMatches, globals: &Globals) -> Result<(), Failure> {
    let args: Args = flags(matches)?;
    unused::refuse(&args, matches)?;
    args.check(globals)
}

/// Both sides over sizes, batches and depths, and the checks.
fn cost(matches: &ArgMatches) -> Cost {
    const SET_UP: Duration = Duration::from_millis(60);
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    if !args.files.is_empty() && !args.verify {
        return Cost::default();
    }
    if args.goal == Wanted::Pushdown {
        return Cost {
            once: Duration::from_secs(15),
            each_run: Duration::from_secs(4),
            memory_bytes: 1 << 30,
            disk_bytes: 0,
        };
    }
    // In a closed loop and again for the host's time, and for a replay once more for single jobs; checks in one mode, with both sides at each size.
    let modes = if args.goal.replays() { 3 } else { 2 };
    let shapes = args.size.0.len() * args.batches().len();
    let tests = shapes * (1 + args.depth.0.len()) * modes;
    let held = if args.verify {
        args.size.0.len() * 3
    } else {
        0
    };
    let [tests, held] = [tests, held].map(|it| u32::try_from(it).unwrap_or(u32::MAX));
    let passes = u32::try_from(measure::PASSES).unwrap_or(1);
    Cost {
        once: passes * (tests + held) * (SET_UP + args.warm_up),
        each_run: (tests + held) * args.seconds,
        memory_bytes: 512 << 20,
        disk_bytes: 0,
    }
}

/// Advises, and with --verify measures whether it came true.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let mut kept = Kept::new(&args, globals)?;
    if args.goal == Wanted::Pushdown {
        return pushdown::run(&args, &mut kept, globals);
    }
    let (sides, of) = args.sides(&mut kept)?;
    let [host, device] = sides;
    let advisor = Advisor::new(host, device).map_err(refused)?;
    let question = args.question()?;
    let advice = advisor.advise(&question).map_err(refused)?;
    let answer = Answer::new(&args, advisor, advice, of, globals)?;
    for record in records::predicted(&answer) {
        kept.keep(record)?;
    }
    if args.verify {
        output::note(&format!(
            "predictions, before they are measured: sha256 {}",
            answer.hash
        ));
    }
    let score = match args.verify {
        true => Some(verify::score(&answer, &mut kept)?),
        false => None,
    };
    let record = records::advice(&answer, score.as_ref(), prices(&args)?.as_ref());
    if globals.format() != Format::Json {
        let text = show::text(&answer, score.as_ref(), &record);
        output::print(&text)?;
    }
    kept.keep(record)
}

/// Records as they come: kept in the file, printed as JSON lines.
struct Kept {
    store: Option<Store>,
    is_json: bool,
}

impl Kept {
    fn new(args: &Args, globals: &Globals) -> Result<Self, Failure> {
        Ok(Self {
            store: match &args.out {
                Some(path) => Some(output::open_records(path, Durability::Machine)?),
                None => None,
            },
            is_json: globals.format() == Format::Json,
        })
    }

    fn keep(&mut self, record: Record) -> Result<(), Failure> {
        if let Some(store) = &mut self.store {
            store.append(&record).map_err(anyhow::Error::from)?;
        }
        match self.is_json {
            true => output::print_json(&record),
            false => Ok(()),
        }
    }
}

fn refused(why: Refusal) -> Failure {
    Failure::check(format!("no advice: {why}"))
}

/// The text of a user's file.
fn text_of(path: &Path) -> Result<String, Failure> {
    let read = fs::read_to_string(path);
    read.map_err(|why| Failure::usage(format!("cannot read {}: {why}", path.display())))
}

fn prices(args: &Args) -> Result<Option<Prices>, Failure> {
    let Some(path) = &args.price else {
        return Ok(None);
    };
    let prices = Prices::read(&text_of(path)?);
    let named = |why| Failure::usage(format!("{}: {why}", path.display()));
    prices.map(Some).map_err(named)
}

impl Args {
    fn check(&self, globals: &Globals) -> Result<(), Failure> {
        let usage = |text: &str| Err(Failure::usage(text));
        if self.goal == Wanted::Slo && (self.rate.is_none() || self.limit.is_none()) {
            return usage("--goal slo needs --rate and --limit");
        }
        if (self.goal == Wanted::Application) != self.profile.is_some() {
            return usage("--goal application and --profile belong together");
        }
        if self.goal == Wanted::Pushdown {
            return match self.files.is_empty() {
                true if self.link.is_some() => Ok(()),
                true => usage("--goal pushdown needs --link"),
                false => usage("--goal pushdown measures itself, and reads no files"),
            };
        }
        if self.verify && self.goal == Wanted::Split {
            return usage(
                "--verify cannot measure both sides at once, which is what --goal split predicts; the printed commands check each part alone",
            );
        }
        if self.verify && self.link.is_some() {
            return usage("--verify cannot measure a link that is only said (--link)");
        }
        if self.files.is_empty() {
            let Some(operator) = &self.operator else {
                return usage("name files of records, or the --operator that is to be measured");
            };
            let Some(device) = &self.device else {
                return usage("name the --device that the work may move to");
            };
            let entry = globals.operators.find(operator).ok_or_else(|| {
                Failure::usage(format!("no operator `{operator}` (see `dpb list`)"))
            })?;
            entry
                .case(&self.parameters)
                .map_err(|why| Failure::usage(why.to_string()))?;
            for backend in [&self.host, device] {
                globals
                    .families
                    .open(backend)
                    .map_err(|why| Failure::usage(format!("{why} (see `dpb list backends`)")))?;
            }
        }
        self.question().map(drop)
    }

    fn batches(&self) -> Vec<u64> {
        match &self.batch {
            Some(batches) => batches.0.clone(),
            None => vec![1, 16],
        }
    }

    fn question(&self) -> Result<Question, Failure> {
        let goal = match self.goal {
            Wanted::Latency | Wanted::Pushdown => Goal::Latency,
            Wanted::Throughput => Goal::Throughput,
            Wanted::Cores => Goal::Cores,
            Wanted::Split => Goal::Split,
            Wanted::Slo => Goal::Slo {
                jobs_per_s: self.rate.unwrap_or(0.0),
                limit_ns: self.limit.map_or(0.0, |limit| limit.as_secs_f64() * 1e9),
            },
            Wanted::Application => {
                let path = self.profile.as_deref().unwrap_or(Path::new(""));
                let profile = Profile::read(&text_of(path)?);
                let named = |why| Failure::usage(format!("{}: {why}", path.display()));
                Goal::Application(profile.map_err(named)?)
            }
        };
        let round_trip = self.round_trip.map_or(0.0, |time| time.as_secs_f64() * 1e9);
        let first = |list: &List<u64>| list.0.first().copied();
        Ok(Question {
            goal,
            batch: match (&self.batch, self.files.is_empty()) {
                (Some(batches), _) => first(batches),
                // A split needs items to share out.
                (None, true) if self.goal != Wanted::Split => Some(1),
                (None, _) => None,
            },
            jobs_per_s: self.rate,
            transfer: self.link.map(|bits_per_s| (bits_per_s / 8.0, round_trip)),
        })
    }

    /// Both sides, read or measured, and a record of each.
    fn sides(&self, kept: &mut Kept) -> Result<([Side; 2], [Record; 2]), Failure> {
        let (of_host, of_device) = match &self.files[..] {
            [] => {
                let device = self.device.clone().unwrap_or_default();
                let all = measure::sides(self, &device)?;
                for record in &all {
                    kept.keep(record.clone())?;
                }
                (all.clone(), all)
            }
            [one] => {
                let all = read(one)?;
                (all.clone(), all)
            }
            [host, device, ..] => (read(host)?, read(device)?),
        };
        let operator = self.operator_of(&of_host, &of_device)?;
        let host = self.of(&of_host, &operator, &self.host);
        let name = match &self.device {
            Some(name) => name.clone(),
            None => self.only_device(&of_device, &operator)?,
        };
        let device = self.of(&of_device, &operator, &name);
        let side = |records: &[&Record], name: &str| -> Result<(Side, Record), Failure> {
            let side = Side::of(records);
            let side =
                side.map_err(|why| Failure::check(format!("no advice about {name}: {why}")))?;
            let mut first = records.iter().filter(|it| it.id == side.points[0].ids[0]);
            let first = first.next().copied();
            let first = first.expect("a side's points are of its records").clone();
            Ok((side, first))
        };
        let (host, of_host) = side(&host, &self.host)?;
        let (device, of_device) = side(&device, &name)?;
        Ok(([host, device], [of_host, of_device]))
    }

    /// The records of a backend.
    fn of<'a>(&self, records: &'a [Record], operator: &str, backend: &str) -> Vec<&'a Record> {
        let has = |record: &Record, name: &str, value: &str| {
            let own = record.parameters.get(name);
            own.is_some_and(|own| own.to_string() == value)
        };
        let wanted: Vec<(&str, &str)> = self
            .parameters
            .split(',')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        records
            .iter()
            .filter(|record| {
                record.task == "op"
                    && has(record, "operator", operator)
                    && has(record, "backend", backend)
            })
            .filter(|record| {
                wanted
                    .iter()
                    .all(|(name, value)| has(record, &format!("op.{name}"), value))
            })
            .collect()
    }

    /// The operator that was named, or the only one.
    fn operator_of(&self, host: &[Record], device: &[Record]) -> Result<String, Failure> {
        if let Some(operator) = &self.operator {
            return Ok(operator.clone());
        }
        let both = host
            .iter()
            .chain(device)
            .filter(|record| record.task == "op");
        let names = both.filter_map(|record| Some(record.parameters.get("operator")?.to_string()));
        let names: std::collections::BTreeSet<String> = names.collect();
        match names.iter().next() {
            Some(name) if names.len() == 1 => Ok(name.clone()),
            Some(_) => Err(Failure::usage(format!(
                "the records have several operators; name one with --operator: {}",
                names.into_iter().collect::<Vec<_>>().join(", ")
            ))),
            None => Err(Failure::usage("there is no record of `dpb op`")),
        }
    }

    /// The only backend beside the host's, or the only device.
    fn only_device(&self, records: &[Record], operator: &str) -> Result<String, Failure> {
        let names = side::backends(records);
        let own = names
            .into_iter()
            .filter(|name| !self.of(records, operator, name).is_empty());
        let others: Vec<String> = own
            .filter(|name| *name != self.host || self.files.len() == 2)
            .collect();
        let is_device = |name: &&String| {
            let own = self.of(records, operator, name);
            let mut own = own.iter().filter_map(|it| it.provenance.made_of.as_ref());
            let made_of = own.next();
            made_of.is_some_and(|it| matches!(it.executor, Executor::Device | Executor::Model))
        };
        let devices: Vec<&String> = others.iter().filter(is_device).collect();
        match (&others[..], &devices[..]) {
            ([only], _) => Ok(only.clone()),
            (_, [only]) => Ok((*only).clone()),
            _ => Err(Failure::usage(format!(
                "name the --device; the records have {}",
                others.join(", ")
            ))),
        }
    }
}

/// The records of a file.
fn read(path: &Path) -> Result<Vec<Record>, Failure> {
    let reading = Reading::of_file(path)
        .map_err(|error| Failure::usage(format!("cannot read the {error}")))?;
    if let Some(damage) = reading.damaged.first() {
        return Err(Failure::check(format!(
            "{}:{} is damaged, and what it said is not known: {}",
            path.display(),
            damage.number,
            damage.reason
        )));
    }
    Ok(reading
        .records
        .into_iter()
        .map(|line| line.record)
        .collect())
}

/// A score and its advice, for a person.
fn score_line(score: &Score) -> String {
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), output::percent);
    let rules = score.rule_accuracy();
    format!(
        "{} of {} intervals held ({}), median error {}, largest difference {}; {} of {} decisions right ({}), {} too close to call ({}), \
         {} ties not counted; beside always {}, never {}, from 1024 B {}",
        score.covered,
        score.held,
        percent(score.coverage()),
        percent(score.median_error),
        output::short_ns(score.worst_off),
        score.right,
        score.spoken,
        percent(score.accuracy()),
        score.decisions - score.spoken,
        percent(score.abstention()),
        score.ties,
        percent(rules[0]),
        percent(rules[1]),
        percent(rules[2]),
    )
}
