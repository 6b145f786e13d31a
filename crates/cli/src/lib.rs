//! `dpb`: measures any Linux machine, host or DPU, with one method.
//!
//! [`Dpb`] is the whole program. A prototype calls it with operators and backends of its own, and `dpb op`, `dpb list`,
//! records and reports show them beside dpb's:
//!
//! ```text
//! use std::process::ExitCode;
//!
//! use prototype::{ADLER32, Cards};
//!
//! fn main() -> ExitCode {
//!     dpb_cli::Dpb::new()
//!         .with_operators(&[ADLER32])
//!         .with_families(&[&Cards])
//!         .main()
//! }
//! ```
//!
//! This is the whole `main` of `examples/prototype`.
#![forbid(unsafe_code)]
#![allow(
    unreachable_pub,
    reason = "beside `Dpb`, `pub` says: for the other modules"
)]

// Each verb is one file of `cmd/`, with its `Args` and `run(args, &Globals) -> Result<(), Failure>`.

mod args;
mod backends;
mod boxes;
mod bulk;
mod child;
mod cmd;
mod contained;
mod executor;
mod exit;
mod interrupt;
mod operators;
mod operators_service;
mod output;
mod plugin;
mod remote;
mod report;
mod room;
mod shown;
mod spec;
mod ssh;
mod task;
mod tasks_service;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use dpb_core::cpu_level;
use dpb_core::measure::Build;
use dpb_core::measure::provenance::describe_build;
use dpb_core::{Families, Family};
use dpb_operators::registry::{self, Entry, Operators};
use exit::Failure;
pub use operators::DATABASE;
use output::{Asked, Format};
use task::{Task, Tasks};

/// The version and, if it was built in a checkout, its revision.
const VERSION: &str = env!("DPB_VERSION");

/// Measures any Linux machine, host or DPU, with one binary and one method.
///
/// Every timed result was checked, and every number says where it came from.
#[derive(Debug, Parser)]
#[command(name = "dpb", version = VERSION, propagate_version = true, max_term_width = 110)]
#[command(
    after_help = "Exit: 0 done; 1 a check failed or a regression was found; 2 wrong usage; \
                        3 not available here; 130 interrupted.\nExample: dpb doctor"
)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs that measure.
const TASKS: Tasks = Tasks(&[
    &cmd::op::TASK,
    &cmd::characterize::TASK,
    &cmd::memory::TASK,
    &cmd::storage::TASK,
    &cmd::tcp::TASK,
    &cmd::pushdown::TASK,
    &cmd::index::TASK,
    &cmd::dbms::TASK,
    &cmd::rdma::TASK,
    &cmd::net::headroom::TASK,
    &cmd::net::flow_table::TASK,
    &cmd::net::app_recognition::TASK,
    &cmd::net::trial::TASK,
    &cmd::net::connections::TASK,
    &cmd::sim::run::TASK,
    &cmd::advise::TASK,
]);

/// Flags that every verb takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Globals {
    /// How results are written to stdout [default: table on a terminal, json to a pipe]
    #[arg(long, value_enum, global = true)]
    pub format: Option<Asked>,
    /// No progress on stderr
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Run as if this CPU had no instructions above a level, as the variable DPB_CPU_LEVEL does: x86-64-v3, armv8.2-a, …
    #[arg(long, value_name = "LEVEL", global = true)]
    pub cpu_level: Option<String>,
    /// The backends that there are
    #[arg(skip)]
    pub families: Families,
    /// The operators that there are
    #[arg(skip)]
    pub operators: Operators,
    /// The tasks that there are
    #[arg(skip)]
    pub tasks: Tasks,
    /// The time that the task takes which the command line asks for, roughly
    #[arg(skip)]
    pub estimate: Duration,
}

impl Globals {
    /// The format asked for, or the one that fits stdout.
    pub fn format(&self) -> Format {
        Format::choose(self.format)
    }

    /// Whether perftest's columns were asked for.
    pub fn as_perftest(&self) -> bool {
        self.format == Some(Asked::Perftest)
    }

    /// Whether a format that is no text was asked for.
    pub fn is_binary(&self) -> bool {
        matches!(self.format, Some(Asked::Arrow | Asked::Parquet))
    }
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
enum Verb {
    /// What this machine has: CPU, memory, libraries, devices; what is missing and what to do
    Doctor(cmd::doctor::Args),
    /// Operators, backends and tasks
    List(cmd::list::Args),
    /// Run the tests of a box: tasks, and lists of their parameters
    Run(cmd::run::Args),
    /// Remove what was prepared for tests
    Clean(cmd::clean::Args),
    /// Run the test of a record once more, and compare both
    Replay(cmd::replay::Args),
    /// Measure an operator over sizes, batches, threads and backends
    Op(cmd::op::Args),
    /// Count what operators and programs do: instructions by kind, misses of caches and TLBs, branches
    Characterize(cmd::characterize::Args),
    /// Measure memory: random and sequential accesses, chains of cache lines, STREAM's kernels
    Memory(cmd::memory::Args),
    /// Measure storage: requests to a file or a block device, each one's time kept
    Storage(cmd::storage::Args),
    /// Make, list, check or remove TPC-H data
    Data(cmd::data::Args),
    /// Scan a table across a link: ours, DuckDB at the storage, DuckDB here
    Pushdown(cmd::pushdown::Args),
    /// Ask a table in SQL, at an agent or here, and print its rows
    Query(cmd::query::Args),
    /// Measure an ordered index, range-partitioned between host and DPU, under YCSB's requests
    Index(cmd::index::Args),
    /// Measure DuckDB under TPC-H's queries: alone, with its scans pushed to an agent, over files that it fetches
    Dbms(cmd::dbms::Args),
    /// Serve this machine's tables, operators and tests to other machines
    Serve(cmd::serve::Args),
    /// Latency and bandwidth of RDMA between two machines, as perftest measures them
    Rdma(cmd::rdma::Args),
    /// Measure TCP: round trips, throughput and CPU time, over loopback or to another machine
    Tcp(cmd::tcp::Args),
    /// Packets: programs on ports, traffic, trials, headroom
    Net(cmd::net::Args),
    /// Simulate a system of hosts, cards and a network
    Sim(cmd::sim::Args),
    /// Read results of fio, iperf3, sysbench, stress-ng, perftest, doca_bench and Criterion into records
    Import(cmd::import::Args),
    /// Compare two files of records, test by test
    Compare(cmd::compare::Args),
    /// Rank platforms by what they are good at
    Rank(cmd::rank::Args),
    /// Say what to move to a device, from which size on, and what it brings
    Advise(cmd::advise::Args),
    /// Compare two commands, in turns, until the difference is known
    Ab(cmd::ab::Args),
    /// One HTML file from records
    Report(cmd::report::Args),
    /// The JSON Schema of what dpb writes
    Schema(cmd::schema::Args),
    /// Completions for a shell
    Completions(cmd::completions::Args),
    /// Become another program that dies with the process that started this one
    #[command(hide = true)]
    Tied(cmd::tied::Args),
    /// Answer queries for `dpb dbms`
    #[command(hide = true)]
    DbmsSession(cmd::dbms::session::Args),
}

/// The program `dpb`: its operators, its backends, its command line.
#[allow(missing_debug_implementations)]
#[derive(Clone, Copy, Default)]
pub struct Dpb {
    operators: &'static [Entry],
    families: &'static [&'static dyn Family],
}

impl Dpb {
    /// `dpb` as it is.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with these operators too. `cpu`, `pool` and the models compute them by their CPU kernels. An operator that has
    /// the name of one of dpb's stands in its place.
    pub fn with_operators(mut self, operators: &'static [Entry]) -> Self {
        self.operators = operators;
        self
    }

    /// The same with these families of backends too. A family that has the name of one of dpb's stands in its place.
    pub fn with_families(mut self, families: &'static [&'static dyn Family]) -> Self {
        self.families = families;
        self
    }

    /// The families of all backends that the program has, for who opens some by name. What they need is kept as long as the process.
    pub fn families(self) -> Families {
        self.backends_and_operators().0
    }

    /// Does what the process's command line says. To be called once: what the program has is kept as long as the process.
    pub fn main(self) -> ExitCode {
        let (families, operators) = self.backends_and_operators();
        run(families, operators)
    }

    fn backends_and_operators(self) -> (Families, Operators) {
        let lists = [self.operators, registry::OPERATORS, operators::DATABASE];
        let operators = Operators::new(Box::leak(Box::new(lists)));
        let families = backends::families(self.families, operators);
        (families, operators)
    }
}

/// Starts this process anew with the variable that masks the CPU, unless it is set: what this process starts is to have it, too.
///
/// # Errors
/// There is no such level, or the program cannot be started anew.
fn at_level(level: &str) -> Result<(), String> {
    cpu_level::Level::named(level)?;
    if std::env::var(cpu_level::VARIABLE).is_ok_and(|set| set == level) {
        return Ok(());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut anew = std::process::Command::new(own);
    anew.args(std::env::args_os().skip(1))
        .env(cpu_level::VARIABLE, level);
    Err(std::os::unix::process::CommandExt::exec(&mut anew).to_string())
}

fn run(families: Families, operators: Operators) -> ExitCode {
    describe_build(Build {
        version: VERSION.to_owned(),
        toolchain: env!("DPB_TOOLCHAIN").to_owned(),
    });
    if let Some(ended) = cmd::characterize::run_if_asked(families, operators) {
        return ended;
    }
    let matches = command().get_matches();
    let cli = Cli::from_arg_matches(&matches);
    let mut cli = cli.unwrap_or_else(|error| error.exit());
    (cli.globals.families, cli.globals.operators) = (families, operators);
    cli.globals.tasks = TASKS;
    cli.globals.estimate = estimate(&matches).unwrap_or_default();
    let checked = match &cli.globals.cpu_level {
        Some(level) => at_level(level),
        None => cpu_level::check(),
    };
    if let Err(why) = checked {
        output::note(&format!("dpb: {why}"));
        return ExitCode::from(exit::Exit::Usage as u8);
    }
    let globals = &cli.globals;
    let ended = match cli.verb {
        Verb::Rdma(args) => cmd::rdma::run(args, globals),
        _ if globals.as_perftest() => Err(Failure::usage(
            "--format perftest is for `dpb rdma`; others have table, json, csv and markdown",
        )),
        Verb::Query(args) => cmd::query::run(args, globals),
        _ if globals.is_binary() => Err(Failure::usage(
            "--format arrow and parquet are for `dpb query`; others have table, json, csv and markdown",
        )),
        Verb::Doctor(args) => cmd::doctor::run(args, globals),
        Verb::List(args) => cmd::list::run(args, globals),
        Verb::Run(args) => cmd::run::run(args, globals),
        Verb::Clean(args) => cmd::clean::run(args, globals),
        Verb::Replay(args) => cmd::replay::run(args, globals),
        Verb::Tied(args) => cmd::tied::run(args, globals),
        Verb::Op(args) => cmd::op::run(args, globals),
        Verb::Characterize(args) => cmd::characterize::run(args, globals),
        Verb::Memory(args) => cmd::memory::run(args, globals),
        Verb::Storage(args) => cmd::storage::run(args, globals),
        Verb::Data(args) => cmd::data::run(args, globals),
        Verb::Pushdown(args) => cmd::pushdown::run(args, globals),
        Verb::Index(args) => cmd::index::run(args, globals),
        Verb::Dbms(args) => cmd::dbms::run(args, globals),
        Verb::DbmsSession(args) => cmd::dbms::session::run(args, globals),
        Verb::Serve(args) => cmd::serve::run(args, globals),
        Verb::Net(args) => cmd::net::run(args, globals),
        Verb::Tcp(args) => cmd::tcp::run(args, globals),
        Verb::Sim(args) => cmd::sim::run(args, globals),
        Verb::Import(args) => cmd::import::run(args, globals),
        Verb::Compare(args) => cmd::compare::run(args, globals),
        Verb::Rank(args) => cmd::rank::run(args, globals),
        // It looks at which flags were given, and these are known here.
        Verb::Advise(args) => {
            let checked = asked(&matches).map(|(task, flags)| (task.check)(flags, globals));
            checked
                .unwrap_or(Ok(()))
                .and_then(|()| cmd::advise::run(args, globals))
        }
        Verb::Ab(args) => cmd::ab::run(args, globals),
        Verb::Report(args) => cmd::report::run(args, globals),
        Verb::Schema(args) => cmd::schema::run(args, globals),
        Verb::Completions(args) => cmd::completions::run(args, globals),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { exit, message }) => {
            if !message.is_empty() {
                output::note(&format!("dpb: {message}"));
            }
            ExitCode::from(exit as u8)
        }
    }
}

/// The time that a task takes which is called by its verb, by its own estimate.
fn estimate(matches: &ArgMatches) -> Option<Duration> {
    let (task, flags) = asked(matches)?;
    let runs = flags.try_get_one::<u64>("repeat").ok().flatten();
    Some((task.cost)(flags).time(runs.copied().unwrap_or(1)))
}

/// The task that a command line asks for, and what stands behind its verb.
fn asked(matches: &ArgMatches) -> Option<(&'static Task, &ArgMatches)> {
    let (mut name, mut flags) = matches
        .subcommand()
        .map(|(verb, flags)| (verb.to_owned(), flags))?;
    while let Some((verb, inner)) = flags.subcommand() {
        name = format!("{name} {verb}");
        flags = inner;
    }
    Some((TASKS.find(&name)?, flags))
}

/// The whole command line, for completions.
fn command() -> clap::Command {
    Cli::command()
}
