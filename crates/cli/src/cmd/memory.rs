//! `dpb memory`: accesses to buffers of any size, chains of cache lines, STREAM's kernels.

mod sysbench;

use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use dpb_core::WallClock;
use dpb_core::measure::provenance::memory_available_bytes;
use dpb_core::measure::{Check, Evidence, Record, Summary};
use dpb_micro::memory::{self, Access, Kernel, Measured, Pages, Plan, Work};

use super::peer;
use super::sweep::{self, OUTPUT, Results, RunFlags, parameter};
use crate::args::{self, List};
use crate::exit::Failure;
use crate::output::{self, Column, Progress, Table, evidence, short, short_ns, verdict};
use crate::task::{Cost, Task, View, axis, charted, flags, recorded_by_name};
use crate::{Globals, interrupt};

const WORK: &str = "The accesses";

/// The task: random, sequential and chained accesses to memory, and STREAM.
pub const TASK: Task = Task {
    name: "memory",
    summary: "random, sequential and chained accesses to memory, and STREAM",
    example: "dpb memory --size 16KiB..64MiB --pattern chain",
    apart: &["out", "beside"],
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
    lead: &[
        "pattern", "access", "kernel", "size", "threads", "pages", "tool",
    ],
    series: &["pattern", "access", "kernel", "tool"],
    sweeps: &[
        axis("size", "bytes", output::bytes),
        axis("threads", "threads", output::number),
    ],
    fixed: &["pages"],
    metrics: &[
        charted("accesses_per_s", "accesses per second", output::short),
        charted("bytes_per_s", "bytes per second", output::short),
        charted("ns_per_access", "nanoseconds per access", output::number),
    ],
    base: None,
};

/// Checks that sizes and cores are in range. Memory is looked at when a test is to start.
fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    flags::<Args>(matches)?.check()
}

/// Tests of every size and number of threads; each thread has memory of its own.
fn cost(matches: &ArgMatches) -> Cost {
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let (sizes, threads) = (&args.size.0, &args.threads.0);
    let works = args.pattern.len().max(1) * args.access.len().max(1) + args.kernel.len();
    let tests = (sizes.len() * threads.len() * args.pages.len().max(1) * works) as u32;
    let runs = args.runs.runs();
    let largest = sizes.iter().max().copied().unwrap_or(0);
    Cost {
        once: tests * runs.warm_up + tests * Duration::from_secs_f64(0.1 + largest as f64 / 2e9),
        each_run: tests * runs.seconds,
        memory_bytes: largest.saturating_mul(threads.iter().max().copied().unwrap_or(1)),
        disk_bytes: 0,
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each thread has a buffer of its own of the size that is given. Random and sequential accesses are of 8 bytes, \
                  as dpBento's; a chain is of cache lines, and gives the time of one access.\n\
                  Examples:\n  dpb memory\n  \
                  dpb memory --pattern chain --size 4KiB..256MiB --pages normal,huge\n  \
                  dpb memory --kernel copy,scale,add,triad --size 256MiB --threads 1,2\n  \
                  dpb memory --size 16KiB --pattern random --access read --threads 1..8 --pin 0,1,2,3\n  \
                  dpb memory --size 16KiB,4MiB,1GiB --beside --out records.jsonl"
)]
pub struct Args {
    /// Bytes of each thread's buffer; STREAM's three arrays share it
    #[arg(long, value_name = "SIZES", help_heading = WORK, value_parser = args::sizes, default_value = "16KiB,4MiB,1GiB")]
    size: List<u64>,
    /// Where accesses go [default: random,sequential; none if there is a --kernel]
    #[arg(long, help_heading = WORK, value_enum, value_delimiter = ',')]
    pattern: Vec<Pattern>,
    /// What accesses do; a chain is always read
    #[arg(long, help_heading = WORK, value_enum, value_delimiter = ',', default_value = "read,write")]
    access: Vec<AccessName>,
    /// STREAM's kernels, over arrays of 64-bit floating-point numbers
    #[arg(long, help_heading = WORK, value_enum, value_delimiter = ',')]
    kernel: Vec<KernelName>,
    /// Threads, each with a buffer of its own
    #[arg(long, value_name = "COUNTS", help_heading = WORK, value_parser = args::thread_counts, default_value = "1")]
    threads: List<u64>,
    /// The pages that buffers lie in; the record says how many bytes really came to lie in huge ones
    #[arg(long, help_heading = WORK, value_enum, value_delimiter = ',', default_value = "normal")]
    pages: Vec<PagesName>,
    #[command(flatten)]
    runs: RunFlags,
    /// Run sysbench too, with the same parameters, where it measures the same
    #[arg(long, help_heading = OUTPUT)]
    beside: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pattern {
    /// Addresses that are drawn; none waits for another
    Random,
    /// One word after the other
    Sequential,
    /// A random cycle through all cache lines; each read waits for the one before
    Chain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AccessName {
    /// 8 bytes are read
    Read,
    /// 8 bytes are written
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KernelName {
    /// c = a
    Copy,
    /// b = s c
    Scale,
    /// c = a + b
    Add,
    /// a = b + s c
    Triad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PagesName {
    /// The machine's ordinary ones
    Normal,
    /// Huge ones, reserved or put together by the kernel
    Huge,
}

/// One test: a value for every parameter.
#[derive(Clone, Copy, Debug)]
struct Test {
    /// `None`: what was asked for is nothing, a chain that is written.
    work: Option<Work>,
    size: u64,
    threads: u64,
    pages: PagesName,
}

/// Runs every combination.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let tests = args.tests();
    args.check()?;
    args.check_memory()?;
    args.runs.say_sharing(args.threads_most());
    let mut results = Results::new(&args.runs, globals)?;
    let progress = Progress::of_task(tests.len() as u64, globals);
    let swept = sweep(&args, &tests, &progress, &mut results);
    drop(progress);
    results.print(for_people, for_machines)?;
    swept?;
    results.judge(tests.len())
}

fn sweep(
    args: &Args,
    tests: &[Test],
    progress: &Progress,
    results: &mut Results,
) -> Result<(), Failure> {
    for (at, test) in tests.iter().enumerate() {
        if interrupt::is_set() {
            break;
        }
        let blank = args.record(test);
        progress.set(at as u64, &test.to_string());
        results.keep(args.measure(test, blank.clone()))?;
        if args.beside && !interrupt::is_set() {
            progress.set(at as u64, &format!("{test}, sysbench"));
            for record in peer::records(&blank, &sysbench::peer(&args.runs, test)) {
                results.keep(record)?;
            }
        }
    }
    Ok(())
}

impl Args {
    fn works(&self) -> Vec<Option<Work>> {
        let usual = [Pattern::Random, Pattern::Sequential];
        let patterns = match (self.pattern.is_empty(), self.kernel.is_empty()) {
            (true, true) => &usual[..],
            _ => &self.pattern,
        };
        let mut works = Vec::new();
        for pattern in patterns {
            let each = self.access.iter().map(|access| Some(access.access()));
            match pattern {
                Pattern::Random => works.extend(each.map(|access| access.map(Work::Random))),
                Pattern::Sequential => {
                    works.extend(each.map(|access| access.map(Work::Sequential)))
                }
                Pattern::Chain => {
                    let is_read = self.access.contains(&AccessName::Read);
                    works.push(is_read.then_some(Work::Chain));
                }
            }
        }
        works.extend(
            self.kernel
                .iter()
                .map(|kernel| Some(Work::Stream(kernel.kernel()))),
        );
        works
    }

    /// The cartesian product, kinds of work innermost.
    fn tests(&self) -> Vec<Test> {
        let mut tests = Vec::new();
        for &size in &self.size {
            for &threads in &self.threads {
                for &pages in &self.pages {
                    tests.extend(self.works().into_iter().map(|work| Test {
                        work,
                        size,
                        threads,
                        pages,
                    }));
                }
            }
        }
        tests
    }

    fn threads_most(&self) -> u64 {
        self.threads.iter().copied().max().unwrap_or(1)
    }

    /// Refuses what no machine does.
    fn check(&self) -> Result<(), Failure> {
        let wrong = |size: &&u64| {
            **size < memory::SIZE_BYTES_MIN || !size.is_multiple_of(memory::LINE_BYTES)
        };
        if let Some(size) = self.size.iter().find(wrong) {
            return Err(Failure::usage(format!(
                "--size {size}: a buffer has {} bytes at least, in multiples of {}",
                memory::SIZE_BYTES_MIN,
                memory::LINE_BYTES
            )));
        }
        self.runs.check()
    }

    /// What needs more memory than there is is refused before the first test.
    fn check_memory(&self) -> Result<(), Failure> {
        let threads = self.threads_most();
        let size = self.size.iter().copied().max().unwrap_or(0);
        let available = memory_available_bytes();
        let needed = memory::bytes_needed(size, threads as u32).unwrap_or(u64::MAX);
        if needed > available {
            return Err(Failure::unavailable(format!(
                "--size {size} --threads {threads} needs {needed} bytes of memory, and {available} are available; lower one of \
                 them"
            )));
        }
        Ok(())
    }

    fn record(&self, test: &Test) -> Record {
        let record = Record::new("memory", Evidence::Measured, self.runs.seed)
            .with("size", test.size)
            .with("threads", test.threads)
            .with("pages", test.pages.name())
            .with("tool", "dpb");
        let record = match test.work {
            Some(Work::Random(access)) => record
                .with("pattern", "random")
                .with("access", name_of(access)),
            Some(Work::Sequential(access)) => record
                .with("pattern", "sequential")
                .with("access", name_of(access)),
            Some(Work::Chain) => record.with("pattern", "chain").with("access", "read"),
            Some(Work::Stream(kernel)) => record.with("kernel", kernel_name(kernel)),
            None => record.with("pattern", "chain").with("access", "write"),
        };
        self.runs.note(record)
    }

    /// One test, as one record whatever comes of it.
    fn measure(&self, test: &Test, record: Record) -> Record {
        let Some(work) = test.work else {
            let why = "a chain is read: each line says where the next one is; take --access read";
            return sweep::broken(record, &dpb_micro::Broken::Unsupported(why.into()));
        };
        let plan = Plan {
            work,
            size: test.size,
            threads: test.threads as u32,
            pages: test.pages.pages(),
            runs: self.runs.runs(),
            seed: self.runs.seed,
            memory_bytes: memory_available_bytes(),
        };
        match memory::measure(&plan, &WallClock::default(), interrupt::flag()) {
            Ok(measured) => self.filled(record, &plan, &measured),
            Err(broken) => sweep::broken(record, &broken),
        }
    }

    fn filled(&self, mut record: Record, plan: &Plan, measured: &Measured) -> Record {
        let each = |of: fn(&memory::Run) -> f64| measured.runs.iter().map(of).collect::<Vec<_>>();
        let is_chain = plan.work == Work::Chain;
        let rates = each(|run| run.accesses_per_s);
        record.sample("accesses_per_s", rates.clone());
        match is_chain {
            true => record.sample("ns_per_access", each(|run| run.ns_per_access)),
            false => record.sample("bytes_per_s", each(|run| run.bytes_per_s)),
        }
        let total = |of: fn(&memory::Run) -> u64| measured.runs.iter().map(of).sum::<u64>();
        let mut counts = vec![
            ("accesses", total(|run| run.handled.accesses)),
            ("buffer_bytes", measured.buffer_bytes),
        ];
        if !is_chain {
            counts.push(("bytes", total(|run| run.handled.bytes)));
        }
        counts.extend(measured.huge_bytes.map(|bytes| ("huge_page_bytes", bytes)));
        record.counts.extend(
            counts
                .into_iter()
                .map(|(name, count)| (name.to_owned(), count)),
        );
        record.check = Some(Check {
            against: plan.work.against().to_owned(),
            compared: measured.compared,
            digest: None,
        });
        let threads = u64::from(plan.threads);
        let (repeat, interference) = (self.runs.repeat(), &measured.interference);
        sweep::conclude(
            &mut record,
            &rates,
            repeat,
            threads,
            interference,
            measured.interrupted,
        );
        note_pages(&mut record, plan.pages, measured);
        record
    }
}

/// A buffer that lies in huge pages by part only is neither the one nor the other.
fn note_pages(record: &mut Record, pages: Pages, measured: &Measured) {
    let Some(huge) = measured.huge_bytes.filter(|_| pages == Pages::Huge) else {
        return;
    };
    let all = measured.buffer_bytes;
    if let Some(stability) = record.stability.as_mut().filter(|_| huge < all) {
        stability.stable = false;
        stability
            .reasons
            .push(format!("{huge} of {all} bytes lie in huge pages"));
    }
}

impl AccessName {
    fn access(self) -> Access {
        match self {
            Self::Read => Access::Read,
            Self::Write => Access::Write,
        }
    }
}

impl KernelName {
    fn kernel(self) -> Kernel {
        match self {
            Self::Copy => Kernel::Copy,
            Self::Scale => Kernel::Scale,
            Self::Add => Kernel::Add,
            Self::Triad => Kernel::Triad,
        }
    }
}

impl PagesName {
    fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Huge => "huge",
        }
    }

    fn pages(self) -> Pages {
        match self {
            Self::Normal => Pages::Normal,
            Self::Huge => Pages::Huge,
        }
    }
}

fn name_of(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
    }
}

fn kernel_name(kernel: Kernel) -> &'static str {
    match kernel {
        Kernel::Copy => "copy",
        Kernel::Scale => "scale",
        Kernel::Add => "add",
        Kernel::Triad => "triad",
    }
}

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let work = match self.work {
            Some(Work::Random(access)) => format!("random {}", name_of(access)),
            Some(Work::Sequential(access)) => format!("sequential {}", name_of(access)),
            Some(Work::Chain) | None => "chain".to_owned(),
            Some(Work::Stream(kernel)) => kernel_name(kernel).to_owned(),
        };
        write!(f, "{work}, {} B, {} threads", self.size, self.threads)
    }
}

fn for_people(records: &[Record]) -> Table {
    let has = |name: &str| {
        records
            .iter()
            .any(|record| record.summary.contains_key(name))
    };
    let has_peers = records
        .iter()
        .any(|record| parameter(record, "tool") != "dpb");
    let mut columns = vec![
        Column::left("accesses"),
        Column::right("size"),
        Column::right("threads"),
        Column::left("pages"),
    ];
    if has_peers {
        columns.push(Column::left("by"));
    }
    columns.push(Column::right("accesses/s"));
    columns.push(Column::right("95 % CI"));
    columns.push(Column::right("bytes/s"));
    if has("ns_per_access") {
        columns.push(Column::right("an access"));
    }
    if has_peers {
        columns.push(Column::right("vs sysbench"));
    }
    columns.extend([Column::left("evidence"), Column::noted("verdict")]);
    let mut table = Table::new(columns);
    for record in records {
        let kind = ["kernel", "pattern", "access"].map(|name| parameter(record, name));
        let kind: Vec<&str> = kind
            .iter()
            .map(String::as_str)
            .filter(|word| !word.is_empty())
            .collect();
        let mut row = vec![kind.join(" ")];
        row.extend(["size", "threads", "pages"].map(|name| parameter(record, name)));
        if has_peers {
            row.push(parameter(record, "tool"));
        }
        let figure = |name: &str| record.summary.get(name).map(|summary| summary.median);
        let rate = record.summary.get("accesses_per_s");
        row.push(rate.map_or("-".into(), |rate| short(rate.median)));
        row.push(rate.map_or("-".into(), interval));
        row.push(figure("bytes_per_s").map_or("-".into(), short));
        if has("ns_per_access") {
            row.push(figure("ns_per_access").map_or("-".into(), precise_ns));
        }
        if has_peers {
            row.push(sweep::versus(record, records, "sysbench", "bytes_per_s"));
        }
        row.extend([evidence(record).to_owned(), verdict(record)]);
        table.row(row);
    }
    table
}

fn interval(summary: &Summary) -> String {
    match (summary.ci95_low, summary.ci95_high) {
        (Some(low), Some(high)) => format!("{} to {}", short(low), short(high)),
        _ => "-".into(),
    }
}

/// A cache answers within two nanoseconds, so tenths matter.
fn precise_ns(ns: f64) -> String {
    match ns < 100.0 {
        true => format!("{ns:.2} ns"),
        false => short_ns(ns),
    }
}

fn for_machines(records: &[Record]) -> Table {
    let parameters = [
        "pattern", "access", "kernel", "size", "threads", "pages", "tool",
    ];
    let figures = ["accesses_per_s", "bytes_per_s", "ns_per_access"];
    sweep::for_machines(records, &parameters, &figures)
}
