//! `dpb characterize`: what kind of work an operator or a program is: its instructions by kind, its misses of caches and TLBs, its
//! branches.

mod child;
mod operator;
mod program;
mod table;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use dpb_core::measure::{Check, Evidence, Outcome, Record};
use dpb_insight::source::{Source, WatchError, Watched};
use dpb_insight::trace::{Geometry, Isa, Options, Tally};

use super::sweep::Results;
use crate::args::{self, List};
use crate::exit::Failure;
use crate::output::{self, Progress};
use crate::task::{Cost, Parameter, Task, View, axis, charted, flags, listed, recorded_by_name};
use crate::{Globals, backends, interrupt, spec};

pub use child::run_if_asked;

/// The task: instruction mix, misses and branches of operators and programs.
pub const TASK: Task = Task {
    name: "characterize",
    summary: "instructions by kind, misses of caches and TLBs, branches, of operators and programs",
    example: "dpb characterize crc32c sha256",
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
        "operator", "program", "size", "backend", "source", "geometry",
    ],
    series: &["operator", "program", "backend"],
    sweeps: &[axis("size", "bytes per item", output::bytes)],
    // Programs have it, and their items are bytes.
    fixed: &["source", "geometry", "work"],
    metrics: &[
        charted(
            "instructions_per_item",
            "instructions per item",
            output::short,
        ),
        listed(
            "instructions_per_cycle",
            "instructions per cycle",
            output::number,
        ),
        listed("integer_share", "integer instructions", output::percent),
        listed("branch_share", "branches", output::percent),
        listed("load_store_share", "loads and stores", output::percent),
        listed(
            "l1d_misses_per_1000",
            "L1D misses per 1000 instructions",
            output::number,
        ),
        listed(
            "itlb_misses_per_1000",
            "iTLB misses per 1000 instructions",
            output::number,
        ),
        listed(
            "dtlb_misses_per_1000",
            "dTLB misses per 1000 instructions",
            output::number,
        ),
    ],
    base: None,
};

// The groups of flags in the help.
const WORK: &str = "The work";
const COUNTS: &str = "The counts";
const FIGURES: &str = "Figures and output";

/// Count what an operator or a program does: instructions by kind, misses, branches.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Counts come from the CPU's counters (measured), from qemu-user or Valgrind, or from single steps. Two lengths are run \
                  and subtracted, so start-up is not in them. Misses of emulated runs are those of models of caches and TLBs.\n\
                  Examples:\n  dpb characterize crc32c sha256\n  \
                  dpb characterize deflate --parameters level=9 --size 64,1500 --backend cpu/portable --source lackey\n  \
                  dpb characterize sha256 --backend cpu/sha-ni --source step\n  \
                  dpb characterize toeplitz --mica --geometry cortex-a72\n  \
                  dpb characterize --program 'gzip -c {input}' --program 'sha256sum {input}'\n  \
                  dpb characterize --program 'dpb net forward --port capture:{capture} --port capture:,/dev/null'"
)]
pub struct Args {
    /// The operators to watch (see `dpb list`), or `all`
    #[arg(value_name = "NAMES", required_unless_present = "program")]
    operator: Vec<String>,
    /// A program to watch, with its arguments: `{input}` is a file of the shorter or the longer length, `{capture}` a capture of about that
    /// length, `{work}` the length as a number; without any the program is watched once, as a whole
    #[arg(long, value_name = "TEXT", help_heading = WORK)]
    program: Vec<String>,
    /// The operators' own parameters, as key=value with commas between
    #[arg(long, value_name = "TEXT", help_heading = WORK, default_value = "")]
    parameters: String,
    /// Backends of the family `cpu` by name; `cpu/best` is watched as the path that it stands for here, `all` is every path
    #[arg(long, value_name = "NAMES", help_heading = WORK, value_parser = backends::names, default_value = "cpu/best")]
    backend: List<String>,
    /// Bytes of an item; for a decoder the bytes that it decodes to
    #[arg(long, value_name = "SIZES", help_heading = WORK, value_parser = args::sizes, default_value = "64")]
    size: List<u64>,
    /// Items of a job [default: as many as fit 16 KiB, 256 at most; of costly ones, such as signatures, one]
    #[arg(long, value_name = "COUNT", help_heading = WORK, value_parser = args::count)]
    batch: Option<u64>,
    /// The bytes that the longer run handles more; single steps take one job
    #[arg(long, value_name = "SIZE", help_heading = WORK, value_parser = args::size, default_value = "256KiB")]
    work: u64,
    /// A file of the shorter length for programs, instead of generated text
    #[arg(long, value_name = "FILE", help_heading = WORK, requires = "longer")]
    input: Option<PathBuf>,
    /// A file of the longer length
    #[arg(long, value_name = "FILE", help_heading = WORK, requires = "input")]
    longer: Option<PathBuf>,
    /// Seed of the inputs
    #[arg(long, value_name = "NUMBER", help_heading = WORK, default_value = "1")]
    seed: u64,
    /// The source that counts
    #[arg(long, help_heading = COUNTS, value_enum, default_value = "auto")]
    source: SourceName,
    /// The caches and TLBs of models
    #[arg(long, help_heading = COUNTS, value_enum, default_value = "haswell")]
    geometry: GeometryName,
    /// Another cache of the first level for instructions: bytes, ways, bytes of a line
    #[arg(long, value_name = "TEXT", help_heading = COUNTS)]
    l1i: Option<String>,
    /// Another cache of the first level for data
    #[arg(long, value_name = "TEXT", help_heading = COUNTS)]
    l1d: Option<String>,
    /// Another cache of the second level
    #[arg(long, value_name = "TEXT", help_heading = COUNTS)]
    l2: Option<String>,
    /// Compute MICA's sets too, which depend on no machine: strides, reuse distances, parallelism, predictability. The CPU's counters have none of them
    #[arg(long, help_heading = COUNTS)]
    mica: bool,
    /// Append the records to this file, in a folder that is there
    #[arg(long, value_name = "FILE", help_heading = FIGURES)]
    out: Option<PathBuf>,
}

/// A source as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SourceName {
    /// The first of the others that sees the path here, and has the figures that are asked for
    Auto,
    /// The CPU's counters
    Pmu,
    /// qemu-user with a plugin
    Qemu,
    /// Valgrind's lackey
    Lackey,
    /// One instruction after another, natively: for what emulators hide
    Step,
}

/// A geometry as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GeometryName {
    /// DPUBench's machine, Intel's Xeon E5-2620 v3
    Haswell,
    /// Arm's, in BlueField-2
    CortexA72,
    /// Arm's, in BlueField-3
    CortexA78,
    /// AMD's, of the second generation
    Zen,
}

/// The counts of two lengths of the same work.
struct Counted {
    /// Those of the longer one alone.
    tally: Tally,
    source: Source,
    by: String,
    /// Items that the counts are of.
    items: Option<u64>,
    check: Option<Check>,
}

/// The reason why there are no counts.
enum Uncounted {
    /// This source sees no such thing here; another one may.
    Unseen(String),
    /// Something went wrong.
    Failed(String),
    Interrupted,
}

/// Checks that a command line names operators, parameters, backends and caches that there are.
fn check(matches: &ArgMatches, globals: &Globals) -> Result<(), Failure> {
    let args: Args = flags(matches)?;
    args.options()?;
    args.tests(globals).map(drop)
}

/// An operator's start-up is most of what is emulated.
fn cost(matches: &ArgMatches) -> Cost {
    const EACH: Duration = Duration::from_secs(4);
    const MEMORY_BYTES: u64 = 1 << 30;
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let operators = args.operator.len() * args.size.0.len() * args.backend.0.len();
    let tests = operators + args.program.len();
    let longer = if args.mica { 2 } else { 1 };
    Cost {
        once: EACH * tests as u32 * longer,
        each_run: Duration::ZERO,
        memory_bytes: MEMORY_BYTES,
        disk_bytes: 0,
    }
}

/// Records have an operator's parameters one by one.
fn recorded(parameter: &Parameter, record: &Record) -> Option<String> {
    match parameter.name.as_str() {
        "parameters" => {
            let own = spec::own(record).map(|(_, value)| value.to_string());
            let has_content = own.into_iter().any(|value| value.contains(' '));
            (!has_content).then(|| spec::written(record))
        }
        _ => recorded_by_name(parameter, record),
    }
}

/// A run that was watched, and what it checked.
type Seen = (Watched, Option<Check>);

/// Watches the shorter run (0) and the longer one (1); the counts are the difference. Emulated runs are watched at once, a core for each.
///
/// MICA's sets take ten times as long, so emulated runs are first counted without them: `mica_from` says, from the instructions of both, where the sets begin.
fn count_both(
    source: Source,
    options: Options,
    items: Option<u64>,
    mica_from: impl Fn([u64; 2]) -> u64,
    watch: impl Fn(usize, Options) -> Result<Seen, Uncounted> + Sync,
) -> Result<Counted, Uncounted> {
    let instructions = |(watched, _): &Seen| watched.tally.count("instructions").unwrap_or(0);
    let at_once = |options: Options| {
        let [shorter, longer] = thread::scope(|scope| {
            let shorter = scope.spawn(|| watch(0, options));
            let longer = watch(1, options);
            let shorter = shorter.join();
            [
                shorter.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                longer,
            ]
        });
        Ok::<_, Uncounted>([shorter?, longer?])
    };
    let [shorter, longer] = match (source, options.mica_from) {
        // Two runs at once would share the CPU's caches, and single steps take long enough to be made once.
        (Source::Pmu | Source::Step, _) => {
            let shorter = watch(0, options)?;
            let longer = Options {
                working_set_from: instructions(&shorter),
                ..options
            };
            [shorter, watch(1, longer)?]
        }
        (Source::Qemu | Source::Lackey, None) => at_once(options)?,
        (Source::Qemu | Source::Lackey, Some(_)) => {
            let plain = Options {
                mica_from: None,
                has_models: false,
                ..options
            };
            let counts = at_once(plain)?.each_ref().map(instructions);
            at_once(Options {
                mica_from: Some(mica_from(counts)),
                working_set_from: counts[0],
                ..options
            })?
        }
    };
    let tally = longer.0.tally.since(&shorter.0.tally);
    Ok(Counted {
        tally: tally.map_err(|error| Uncounted::Failed(error.to_string()))?,
        source,
        by: longer.0.by,
        items,
        check: longer.1,
    })
}

/// Watches everything that is asked for, prints a line for each.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let options = args.options()?;
    let tests = args.tests(globals)?;
    let asked = tests.len() + args.program.len();
    let mut results = Results::to(args.out.as_deref(), globals)?;
    let progress = Progress::of_task(asked as u64, globals);
    let watched = watch_all(&args, &tests, options, &progress, &mut results);
    drop(progress);
    results.print(table::for_people, table::for_machines)?;
    watched?;
    results.judge(asked)
}

fn watch_all(
    args: &Args,
    tests: &[operator::Test],
    options: Options,
    progress: &Progress,
    results: &mut Results,
) -> Result<(), Failure> {
    let mut done = 0;
    let mut next = |what: &str| {
        progress.set(done, what);
        done += 1;
        !interrupt::is_set()
    };
    for test in tests {
        if next(&test.to_string()) {
            results.keep(args.filled(test.record(args), test.count(args, options)))?;
        }
    }
    for command in &args.program {
        if next(command) {
            let (record, counted) = program::count(args, command, options)?;
            results.keep(args.filled(record, counted))?;
        }
    }
    Ok(())
}

impl Args {
    /// Every operator at every size on every path.
    fn tests(&self, globals: &Globals) -> Result<Vec<operator::Test>, Failure> {
        operator::tests(self, globals)
    }

    fn options(&self) -> Result<Options, Failure> {
        let mut geometry = self.geometry.geometry();
        let caches = [
            (&self.l1i, &mut geometry.l1i),
            (&self.l1d, &mut geometry.l1d),
            (&self.l2, &mut geometry.l2),
        ];
        for (text, shape) in caches {
            if let Some(text) = text {
                *shape = dpb_insight::trace::Shape::parse(text)
                    .map_err(|error| Failure::usage(error.to_string()))?;
            }
        }
        Ok(Options {
            geometry,
            mica_from: self.mica.then_some(0),
            working_set_from: 0,
            has_models: true,
        })
    }

    /// The sources to try, the best first.
    fn sources(&self) -> Vec<Source> {
        match self.source {
            // The CPU's counters have none of MICA's sets.
            SourceName::Auto if self.mica => Source::ALL[1..].to_vec(),
            SourceName::Auto => Source::ALL.to_vec(),
            SourceName::Pmu => vec![Source::Pmu],
            SourceName::Qemu => vec![Source::Qemu],
            SourceName::Lackey => vec![Source::Lackey],
            SourceName::Step => vec![Source::Step],
        }
    }

    /// Asks one source after another until one has counts.
    fn first_that_sees(
        &self,
        isa: Isa,
        mut count: impl FnMut(Source) -> Result<Counted, Uncounted>,
    ) -> Result<Counted, Uncounted> {
        let mut reasons: Vec<String> = Vec::new();
        for source in self.sources() {
            let counted = source.check(isa).map_err(Uncounted::from);
            match counted.and_then(|()| count(source)) {
                Err(Uncounted::Unseen(why)) => reasons.push(format!("{source}: {why}")),
                counted => return counted,
            }
        }
        Err(Uncounted::Unseen(reasons.join("; ")))
    }

    /// The record with what all tests' records have.
    fn noted(&self, record: Record) -> Record {
        let caches = [("l1i", &self.l1i), ("l1d", &self.l1d), ("l2", &self.l2)];
        let record = record
            .with("work", self.work)
            .with("geometry", self.geometry.geometry().name)
            .with("mica", self.mica);
        caches
            .into_iter()
            .fold(record, |record, (name, text)| match text {
                Some(text) => record.with(name, text.as_str()),
                None => record,
            })
    }

    /// The record with the counts, or with the reason why there are none.
    fn filled(&self, mut record: Record, counted: Result<Counted, Uncounted>) -> Record {
        let counted = match counted {
            Ok(counted) => counted,
            Err(Uncounted::Unseen(reason)) => {
                return record.without_numbers(Outcome::Unsupported { reason });
            }
            Err(Uncounted::Failed(reason)) => {
                return record.without_numbers(Outcome::Failed { reason });
            }
            Err(Uncounted::Interrupted) => return record.without_numbers(Outcome::Interrupted),
        };
        record.evidence = match counted.source {
            Source::Pmu => Evidence::of_this_cpu(),
            _ => Evidence::Emulated {
                by: counted.by.clone(),
            },
        };
        let libraries = &mut record.provenance.libraries;
        libraries.insert(counted.source.name().to_owned(), counted.by);
        record = record.with("source", counted.source.name());
        if counted.source == Source::Pmu {
            // The caches are this CPU's, whatever models were asked for.
            for of_models in ["geometry", "l1i", "l1d", "l2", "mica"] {
                record.parameters.remove(of_models);
            }
        }
        for (name, value) in counted.tally.metrics(counted.items) {
            record.sample(&name, vec![value]);
        }
        let counts = counted
            .tally
            .iter()
            .chain(counted.items.map(|items| ("items", items)));
        for (name, count) in counts {
            record.counts.insert(name.to_owned(), count);
        }
        record.check = counted.check;
        record
    }
}

impl GeometryName {
    fn geometry(self) -> Geometry {
        let name = match self {
            Self::Haswell => "haswell",
            Self::CortexA72 => "cortex-a72",
            Self::CortexA78 => "cortex-a78",
            Self::Zen => "zen",
        };
        Geometry::named(name).expect("it has this name")
    }
}

impl From<WatchError> for Uncounted {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Missing(why) => Self::Unseen(why),
            WatchError::Stopped => Self::Interrupted,
            WatchError::Ended(_) if interrupt::is_set() => Self::Interrupted,
            error => Self::Failed(error.to_string()),
        }
    }
}

/// The flag by which people interrupt.
fn stop() -> &'static AtomicBool {
    interrupt::flag()
}
