//! `dpb dbms`: DuckDB under TPC-H's queries, alone, with its scans pushed to an agent, and over files that it fetches.

mod data;
mod measure;
mod process;
pub mod session;
mod side;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use dpb_core::measure::provenance::memory_available_bytes;
use dpb_dbmods::dbms::{database, queries};
use dpb_dbmods::duckdb::Library;
use dpb_dbmods::tpch;

use super::agent::LinkFlags;
use super::sweep::Results;
use crate::args::{self, List};
use crate::exit::Failure;
use crate::output::{self, Progress};
use crate::task::{
    Base, Cost, EndPass, ServerEnd, Task, View, axis, charted, flags, listed, recorded_by_name,
};
use crate::{Globals, interrupt};

pub(super) use data::failure as database_failure;
use measure::{Bench, Test};
use process::Ended;

// The groups of flags in the help.
const WORK: &str = "The queries";
const RUNS: &str = "The runs";
const LINK: &str = "The agent and the link";
const FILES: &str = "Files and output";

/// The task: a whole database system.
pub const TASK: Task = Task {
    name: "dbms",
    summary: "a whole database system: DuckDB under TPC-H, alone and with its scans pushed to an agent",
    example: "dpb dbms --sf 1 --query 1,6",
    apart: &[
        "out",
        "explain",
        "prepare",
        "data_dir",
        "server",
        "token_file",
        "credentials",
    ],
    prepare: Some("--prepare"),
    shared_file: None,
    view: VIEW,
    check,
    cost,
    recorded: recorded_by_name,
    published: None,
    server_end: Some(ServerEnd {
        words: &["serve", "--until-stdin-closes", "--one-time-credentials"],
        pass: EndPass::Credentials,
        clears: Some("--allow-cold"),
    }),
};

const VIEW: View = View {
    lead: &["engine", "query", "state", "sf", "threads", "link_gbps"],
    series: &["engine"],
    sweeps: &[
        axis("query", "query of TPC-H", query_text),
        axis("threads", "threads", output::number),
        axis("sf", "scale factor", output::number),
        axis(
            "link_gbps",
            "link, Gbit/s (0: bare loopback)",
            output::number,
        ),
    ],
    fixed: &["state"],
    metrics: &[
        charted("run_s", "time of a query", seconds),
        listed("cpu_s", "CPU time of DuckDB's process", seconds),
        listed("agent_cpu_s", "CPU time of the agent", seconds),
        listed(
            "peak_bytes",
            "most memory of DuckDB's process, bytes",
            output::short,
        ),
        listed("read_bytes", "bytes read from storage", output::short),
        listed("link_bytes", "bytes over the link", output::short),
    ],
    base: Some(Base {
        side: "engine",
        base: "duckdb",
        metric: "run_s",
        own: &["filters", "wire", "link_gbps", "cache", "server"],
    }),
};

/// A time in seconds, for people.
fn seconds(seconds: f64) -> String {
    output::short_ns(seconds * 1e9)
}

/// The name of a query.
fn query_text(number: f64) -> String {
    format!("Q{number}")
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Engines: duckdb (its own file), dpb-pushdown (each scan of a table, with its filters, at an agent by dpb's scan; DuckDB does the rest), \
                  duckdb-fetch (the files of the query's tables cross the link first, each time). Cold: the files are dropped from the page cache, and \
                  each run is in a new process, whose opening counts; an agent stays the same process, and drops what it holds. Hot: one process, after --warm-up-runs.\n\
                  Answers are checked: at scale factors 0.01, 0.1 and 1 against known ones, at others against each other.\n\
                  Examples:\n  dpb dbms --sf 1\n  dpb dbms --sf 10 --query 1,6,14 --engine duckdb --state hot --threads 1,2,4\n  \
                  dpb dbms --engine duckdb-fetch,dpb-pushdown --link-gbps 1 --state hot --explain\n  \
                  dpb dbms --engine dpb-pushdown --server dpu:7400 --credentials client.credentials"
)]
pub struct Args {
    /// TPC-H's scale factor; fractions work
    #[arg(long, value_name = "REAL", help_heading = WORK, default_value_t = 1.0, allow_negative_numbers = true)]
    sf: f64,
    /// The queries, by number [default: all, 1 to 22]
    #[arg(long, value_name = "NUMBERS", help_heading = WORK, value_parser = args::numbers)]
    query: Option<List<u64>>,
    /// The engines: duckdb, dpb-pushdown, duckdb-fetch
    #[arg(long, value_name = "NAMES", help_heading = WORK, value_parser = args::words, default_value = "duckdb,dpb-pushdown")]
    engine: List<String>,
    /// The states: cold, hot
    #[arg(long, value_name = "NAMES", help_heading = RUNS, value_parser = args::words, default_value = "cold,hot")]
    state: List<String>,
    /// The number of DuckDB's threads, and of those of a scan at the agent [default: one a CPU]
    #[arg(long, value_name = "COUNTS", help_heading = RUNS, value_parser = args::thread_counts)]
    threads: Option<List<u64>>,
    /// The number of timed runs of each query; below 6 a number has no 95 % interval
    #[arg(long, value_name = "COUNT", help_heading = RUNS, value_parser = args::count, default_value = "7")]
    repeat: u64,
    /// The number of runs before the first timed one that is hot
    #[arg(long, value_name = "COUNT", help_heading = RUNS, value_parser = args::count, default_value = "2")]
    warm_up_runs: u64,
    /// Memory that DuckDB may hold [default: DuckDB's own limit, 80 % of the machine's]
    #[arg(long, value_name = "SIZE", help_heading = RUNS, value_parser = args::size)]
    memory: Option<u64>,
    #[command(flatten, next_help_heading = LINK)]
    link: LinkFlags,
    /// The form in which rows of dpb-pushdown cross the link: plain, or compact, which takes fewer bytes and more of both sides' cores
    /// [default: compact on a link of up to 10 Gbit/s by --link-gbps, else plain]
    #[arg(long, help_heading = LINK, value_enum)]
    wire: Option<Wire>,
    /// Memory for verified chunks at our own agents
    #[arg(long, value_name = "SIZE", help_heading = LINK, default_value = "4GiB", value_parser = args::size)]
    cache: u64,
    /// The folder that data is kept in [default: $DPB_DATA_DIR, $XDG_DATA_HOME/dpb, ~/.local/share/dpb; without HOME ./dpb-data]
    #[arg(long, value_name = "FOLDER", help_heading = FILES)]
    data_dir: Option<PathBuf>,
    /// Append the records to this file, in a folder that is there
    #[arg(long, value_name = "FILE", help_heading = FILES)]
    out: Option<PathBuf>,
    /// Say which filters were pushed, and how many rows and bytes each scan gave
    #[arg(long, help_heading = FILES)]
    explain: bool,
    /// Make the data that the queries need, and measure nothing
    #[arg(long, help_heading = FILES, conflicts_with = "server")]
    prepare: bool,
}

/// The tables, and who scans them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EngineName {
    Duckdb,
    DpbPushdown,
    DuckdbFetch,
}

impl EngineName {
    const ALL: [Self; 3] = [Self::Duckdb, Self::DpbPushdown, Self::DuckdbFetch];

    fn name(self) -> &'static str {
        match self {
            Self::Duckdb => "duckdb",
            Self::DpbPushdown => "dpb-pushdown",
            Self::DuckdbFetch => "duckdb-fetch",
        }
    }

    /// True if its data comes from an agent.
    fn has_link(self) -> bool {
        self != Self::Duckdb
    }
}

/// The form in which rows cross the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Wire {
    /// As Arrow has them
    Plain,
    /// Planes of bytes, compressed by LZ4
    Compact,
}

/// The state of caches when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Cold,
    Hot,
}

impl State {
    const ALL: [Self; 2] = [Self::Cold, Self::Hot];

    fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Hot => "hot",
        }
    }
}

/// The values that these words name, each once, in the order of `all`.
fn named<T: Copy + PartialEq>(
    flag: &str,
    words: &List<String>,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<Vec<T>, Failure> {
    let names = || {
        all.iter()
            .map(|&one| name(one))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(word) = words
        .iter()
        .find(|word| all.iter().all(|&one| name(one) != *word))
    {
        return Err(Failure::usage(format!(
            "--{flag} {word}: there is no such thing; there are {}",
            names()
        )));
    }
    let is_asked = |one: &T| words.iter().any(|word| word == name(*one));
    Ok(all.iter().copied().filter(is_asked).collect())
}

impl Args {
    fn dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(tpch::default_data_dir)
    }

    fn engines(&self) -> Result<Vec<EngineName>, Failure> {
        named("engine", &self.engine, &EngineName::ALL, EngineName::name)
    }

    fn states(&self) -> Result<Vec<State>, Failure> {
        named("state", &self.state, &State::ALL, State::name)
    }

    fn queries(&self) -> Result<Vec<u8>, Failure> {
        let Some(numbers) = &self.query else {
            return Ok((1..=queries::COUNT).collect());
        };
        let known = |&number: &u64| {
            let number = u8::try_from(number).ok();
            number.filter(|&number| queries::query(number).is_some())
        };
        let all: Option<Vec<u8>> = numbers.iter().map(known).collect();
        all.ok_or_else(|| {
            Failure::usage(format!(
                "--query: TPC-H has the queries 1 to {}",
                queries::COUNT
            ))
        })
    }

    fn threads(&self) -> Vec<u32> {
        match &self.threads {
            Some(list) => list.iter().map(|&threads| threads as u32).collect(),
            None => vec![cpus()],
        }
    }

    /// True if rows cross the link in fewer bytes.
    fn is_compact(&self) -> bool {
        /// About where compressing becomes slower than the link.
        const GBPS_MAX: f64 = 10.0;
        match self.wire {
            Some(wire) => wire == Wire::Compact,
            None => self.link.gbps() > 0.0 && self.link.gbps() <= GBPS_MAX,
        }
    }

    /// Every combination, states innermost, so that engines are measured close together.
    fn tests(&self) -> Result<Vec<Test>, Failure> {
        let states = self.states()?;
        let mut tests = Vec::new();
        for threads in self.threads() {
            for query in self.queries()? {
                let query = queries::query(query).expect("it was looked up");
                tests.extend(states.iter().map(|&state| Test {
                    query,
                    state,
                    threads,
                }));
            }
        }
        Ok(tests)
    }
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
}

/// Checks that there are such engines, states, queries and such data.
fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    let args: Args = flags(matches)?;
    args.engines()?;
    args.tests()?;
    bytes_missing(&args).map(drop)
}

/// Bytes of data that are not there yet, about.
fn bytes_missing(args: &Args) -> Result<u64, Failure> {
    let dir = args.dir();
    let segments =
        tpch::bytes_to_make(&dir, args.sf, &tpch::TABLES).map_err(super::data::failure)?;
    let is_there = database::paths(&dir).iter().any(|(sf, _)| *sf == args.sf);
    let file = match is_there {
        true => 0,
        false => database::bytes_needed(args.sf),
    };
    // DuckDB's copies of each table, in both of its formats.
    let copies = match args.engines()?.contains(&EngineName::DuckdbFetch) {
        true => 2 * database::bytes_needed(args.sf),
        false => 0,
    };
    Ok(segments.saturating_add(file).saturating_add(copies))
}

/// Queries, at rates that one core of a server reaches, and the data that is not there yet.
fn cost(matches: &ArgMatches) -> Cost {
    /// The mean time of a query at scale factor 1 on one core.
    const QUERY_S: f64 = 0.4;
    /// The time that an engine's processes take to start.
    const START: Duration = Duration::from_millis(300);
    const MEMORY_BYTES_AT_SF1: f64 = 7e8;
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let (Ok(tests), Ok(engines), Ok(missing)) =
        (args.tests(), args.engines(), bytes_missing(&args))
    else {
        return Cost::default();
    };
    let mut cost = Cost {
        disk_bytes: missing,
        ..Cost::default()
    };
    if missing > 0 {
        cost.once += Duration::from_secs_f64(15.0 * args.sf);
    }
    for test in &tests {
        let threads = f64::from(test.threads.min(cpus()).max(1));
        let run = Duration::from_secs_f64(QUERY_S * args.sf / threads);
        let engines = engines.len() as u32;
        cost.each_run += engines * run;
        match test.state {
            State::Cold => cost.each_run += engines * START,
            State::Hot => cost.once += engines * (START + run * args.warm_up_runs as u32),
        }
    }
    let data = (MEMORY_BYTES_AT_SF1 * args.sf) as u64;
    let duckdb = args.memory.map_or(data, |most| most.min(data));
    let has_agent = engines.iter().any(|engine| engine.has_link());
    let agent = match has_agent {
        true => args.cache.min(data / 2),
        false => 0,
    };
    // All engines of a hot test are alive at once.
    cost.memory_bytes = duckdb
        .saturating_mul(engines.len() as u64)
        .saturating_add(agent);
    cost
}

/// Runs every test by every engine.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    let engines = args.engines()?;
    let tests = args.tests()?;
    tpch::bytes_to_make(&args.dir(), args.sf, &[]).map_err(super::data::failure)?;
    let library = Library::find().map_err(|missing| Failure::unavailable(missing.to_string()))?;
    let here: Vec<EngineName> = match args.link.agent.server {
        Some(_) => engines
            .iter()
            .copied()
            .filter(|engine| !engine.has_link())
            .collect(),
        None => engines.clone(),
    };
    let made = match here.is_empty() {
        true => None,
        false => data::make(&args, &here, library, globals)?,
    };
    if args.prepare {
        return Ok(());
    }
    say_shortages(&args, &tests);
    let mut results = Results::to(args.out.as_deref(), globals)?;
    let mut bench = Bench::new(&args, &engines, made.as_ref(), library)?;
    let runs: u64 = tests.iter().map(|test| test.runs(&args)).sum();
    let progress = Progress::of_task(runs * engines.len() as u64, globals);
    let mut swept = Ok(());
    for test in &tests {
        if interrupt::is_set() {
            break;
        }
        swept = bench
            .measure(test, &mut |done, what| progress.set(done, what))
            .and_then(|records| {
                records
                    .into_iter()
                    .try_for_each(|record| results.keep(record))
            });
        if swept.is_err() {
            break;
        }
    }
    drop(progress);
    results.print(table::for_people, table::for_machines)?;
    if args.explain {
        output::note(&bench.explained());
    }
    swept?;
    results.judge(tests.len() * engines.len())
}

/// Says before the run what is short: cores, and memory for the data.
fn say_shortages(args: &Args, tests: &[Test]) {
    let most = tests.iter().map(|test| test.threads).max().unwrap_or(1);
    if most > cpus() {
        output::note(&format!("{most} threads share {} cores", cpus()));
    }
    let data = database::bytes_needed(args.sf);
    let available = memory_available_bytes();
    let reads_files = args
        .engine
        .iter()
        .any(|engine| engine != EngineName::DuckdbFetch.name());
    if data > available && reads_files {
        output::note(&format!(
            "the data takes about {}B, {}B of memory are available: hot runs read storage, too",
            output::short(data as f64),
            output::short(available as f64)
        ));
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}
