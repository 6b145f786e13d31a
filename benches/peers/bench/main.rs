//! Operators beside the implementations that an expert would use instead: the same data, one core, in turn.
//!
//! `cargo xtask bench --peers` finds the C libraries and runs this. Each row is one operator on one shape of input. dpb's best
//! path and every peer take turns, a few milliseconds each, the order going round; a turn's time is the thread's CPU time. The
//! ratio is dpb's speed over the fastest peer's in the same round, among those whose output is at most 5 % larger: its median over the rounds and the exact 95 % interval of
//! that median. Every output is judged by the operator's workload before the first turn and after the last, so who is wrong has
//! no speed. A peer that is missing is a line.

mod instructions;
mod rows;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use dpb_core::measure::provenance::describe_build;
use dpb_core::measure::{Build, Check, Durability, Evidence, Outcome, Record, Store, statistics};
use dpb_core::{Batch, BatchOut, Buf, Input, JobError, OutputShape, Workload};
use dpb_operators::cpu::{self, Cpu};
use dpb_operators::direct::Direct;
use dpb_operators::registry::{self, Entry};
use dpb_peers::native::{self, Bound, LIBRARIES};
use dpb_peers::rust_peers;

use rows::{Row, Unit, rows};
use table::Table;

const SEED: u64 = 1;
/// Length of a turn, in seconds.
const TURN_S: f64 = 0.008;
/// Turns of each side.
const ROUNDS: usize = 25;
const ROUNDS_QUICK: usize = 7;
/// What slots hold before a run that is checked.
const SPOILT: u8 = 0xa5;
/// How much larger than dpb's a peer's output may be for a ratio to mean something.
const LARGER_MAX: f64 = 1.05;
/// Routes where only the checks count.
const ROUTES_TEST: usize = 2_000;
/// Compares dpb's operators with peers.
#[derive(Parser)]
struct Args {
    /// Only rows whose operator and parameters contain one of these
    only: Vec<String>,
    /// Fewer turns
    #[arg(long)]
    quick: bool,
    /// Write records and a table there, in place of those before; seen from benches/peers
    #[arg(long)]
    record: Option<PathBuf>,
    /// Runs are emulated by this: everything is checked, nothing is timed
    #[arg(long)]
    emulated: Option<String>,
    /// With --emulated: the file to which the emulator's plugin adds a count of instructions when it is asked to
    #[arg(long, requires = "emulated")]
    instructions: Option<PathBuf>,
    /// Given by `cargo bench`; without it everything is checked and nothing is timed
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    describe_build(Build {
        version: format!("{}{}", env!("CARGO_PKG_VERSION"), revision()),
        toolchain: env!("DPB_TOOLCHAIN").to_owned(),
    });
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let rounds = match args {
        Args { bench: false, .. }
        | Args {
            emulated: Some(_), ..
        } => 0,
        Args { quick: true, .. } => ROUNDS_QUICK,
        _ => ROUNDS,
    };
    let evidence = match &args.emulated {
        Some(by) => Evidence::Emulated { by: by.clone() },
        None => Evidence::Measured,
    };
    let machine = machine(&evidence);
    println!("{machine}");
    let mut bench = Bench {
        rounds,
        evidence,
        instructions: args.instructions.clone(),
        pinned: if rounds > 0 { pin() } else { Vec::new() },
    };
    for library in LIBRARIES {
        match library.version() {
            Some(version) => println!("found    {} {version}", library.name),
            None => println!(
                "missing  {}: no rows for {}; `apt-get install {}`",
                library.name,
                library.peers.join(", "),
                library.package
            ),
        }
    }
    let mut table = Table::default();
    let mut records = Vec::new();
    let mut failed = 0;
    for row in rows() {
        let name = format!("{} {}", row.operator, row.parameters);
        if !args.only.is_empty() && !args.only.iter().any(|only| name.contains(only.as_str())) {
            continue;
        }
        let record = bench.row(&row)?;
        if matches!(record.outcome, Outcome::Failed { .. }) {
            failed += 1;
        }
        println!("{}", table.add(&row, &record));
        records.push(record);
    }
    ensure!(
        !records.is_empty(),
        "no row's operator and parameters contain {}",
        args.only.join(" or ")
    );
    if let Some(folder) = &args.record {
        keep(folder, &records, &table.markdown(&machine, &bench.evidence))?;
    }
    ensure!(failed == 0, "{failed} rows with wrong outputs");
    Ok(())
}

/// ` (1a2b3c4)` in a checkout, else nothing.
fn revision() -> String {
    let git = std::process::Command::new("git")
        .args([
            "-C",
            env!("CARGO_MANIFEST_DIR"),
            "describe",
            "--always",
            "--dirty",
            "--tags",
        ])
        .output();
    match git {
        Ok(output) if output.status.success() => {
            format!(" ({})", String::from_utf8_lossy(&output.stdout).trim())
        }
        _ => String::new(),
    }
}

/// CPU, kernel, toolchain, as the record has them.
fn machine(evidence: &Evidence) -> String {
    let here = Record::new("peers", evidence.clone(), SEED).provenance;
    format!(
        "{}, {} CPUs, Linux {}, {}, dpb {}",
        here.cpu_model, here.cpus, here.kernel, here.toolchain, here.dpb_version
    )
}

/// Stays on the last CPU that this process may use.
fn pin() -> Vec<u32> {
    let Some(&cpu) = dpb_core::measure::provenance::allowed_cpus().last() else {
        return Vec::new();
    };
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu as usize);
    match rustix::thread::sched_setaffinity(None, &set) {
        Ok(()) => vec![cpu],
        Err(_) => Vec::new(),
    }
}

fn keep(folder: &Path, records: &[Record], table: &str) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let name = format!("peers-{}", std::env::consts::ARCH);
    let path = folder.join(format!("{name}.jsonl"));
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    let mut store = Store::open(&path, Durability::Process)?;
    for record in records {
        store.append(record)?;
    }
    let path = folder.join(format!("{name}.md"));
    std::fs::write(&path, table).with_context(|| path.display().to_string())
}

struct Bench {
    rounds: usize,
    evidence: Evidence,
    instructions: Option<PathBuf>,
    pinned: Vec<u32>,
}

/// One side of a row.
struct Contender<'a> {
    name: String,
    version: String,
    code: Runs<'a>,
    /// CPU time of one run, by round.
    seconds: Vec<f64>,
    /// Runs of a turn.
    runs: usize,
    bytes_out: u64,
}

enum Runs<'a> {
    Direct {
        kernel: Box<dyn Direct>,
        batch: Batch<'a>,
        dst: Buf,
        outcomes: Vec<Result<u32, JobError>>,
    },
    Bound(Box<dyn Bound + 'a>),
}

impl Bench {
    fn row(&mut self, row: &Row) -> Result<Record> {
        let entry = registry::find(row.operator).context(row.operator)?;
        let mut parameters = row.parameters.to_owned();
        if let Some(count) = row.routes {
            let count = if self.rounds == 0 { ROUTES_TEST } else { count };
            parameters += &format!(",routes=generated:{count}");
        }
        let spec = entry.spec(&parameters)?;
        let workload = entry.workload(&spec)?;
        let len = match self.rounds {
            0 => row.len.min(60_000),
            _ => row.len,
        };
        let input = Input::of(&*workload, SEED, len, row.count).map_err(anyhow::Error::msg)?;
        // In such memory as backends give, aligned.
        let mut src = Buf::zeroed(input.bytes.len()).context("no memory")?;
        src.copy_from_slice(&input.bytes);
        let batch = Batch::new(&src, &input.items)?;
        let mut record = Record::new("peers", self.evidence.clone(), SEED)
            .with("operator", row.operator)
            .with("size", len as u64)
            .with("count", row.count as u64)
            .with("target", row.target);
        for (name, value) in spec.parameters() {
            record = record.with(&format!("op.{name}"), value);
        }
        record.provenance.pinned.clone_from(&self.pinned);
        // What a person types, not where cargo put the program.
        let given = std::env::args().skip(1).filter(|word| word != "--bench");
        record.provenance.command = ["cargo", "xtask", "bench", "--peers", "--"]
            .into_iter()
            .map(str::to_owned)
            .chain(given)
            .collect();

        let path = Cpu::best().path(entry)?;
        let portable = entry.direct(&spec, cpu::Path::Portable)?;
        let shape = portable.shape();
        let slot = match shape {
            OutputShape::Fixed(bytes) => bytes,
            OutputShape::Variable => input
                .slot_bytes
                .unwrap_or_else(|| portable.dst_len(batch.longest())),
        };
        let ours = Contender::direct("dpb", entry.direct(&spec, path)?, batch, slot)?;
        let library = entry.code(path);
        let mut sides = vec![ours.version(format!("cpu/{path}, {library}"))];
        sides.extend(peers(entry, &spec, batch, slot)?);

        let check = |sides: &mut [Contender<'_>]| {
            sides
                .iter_mut()
                .try_for_each(|side| side.check(&*workload, batch, shape, slot))
        };
        let mut verdict = check(&mut sides);
        let mut checks = 1;
        if verdict.is_ok() && self.rounds > 0 {
            take_turns(&mut sides, self.rounds);
            verdict = check(&mut sides);
            checks += 1;
        }
        if let Err(reason) = verdict {
            return Ok(record.without_numbers(Outcome::Failed { reason }));
        }
        if let Some(file) = &self.instructions {
            for side in &mut sides {
                let count = instructions::of(file, || side.code.run())?;
                let name = format!("{} instructions", side.name);
                record.counts.insert(name, count);
            }
        }
        for side in &sides {
            let (name, version) = (side.name.clone(), side.version.clone());
            record.provenance.libraries.insert(name, version);
            record
                .counts
                .insert(format!("{} bytes_out", side.name), side.bytes_out);
        }
        record
            .counts
            .insert("bytes_in".to_owned(), (len * row.count) as u64);
        record.check = Some(Check {
            against: workload.name().to_owned(),
            compared: (checks * batch.len() * sides.len()) as u64,
            digest: None,
        });
        for side in &sides {
            if !side.seconds.is_empty() {
                let ns = side.seconds.iter().map(|s| s * 1e9).collect();
                record.sample(&format!("{} run_ns", side.name), ns);
            }
        }
        // A coder that writes more does less.
        let most = sides[0].bytes_out as f64 * LARGER_MAX;
        let comparable = sides[1..]
            .iter()
            .filter(|side| side.bytes_out as f64 <= most);
        if let Some(best) = fastest(comparable) {
            let ours = sides[0].seconds.iter();
            let ratios = ours.zip(&best.seconds).map(|(ours, peer)| peer / ours);
            record.sample("ratio", ratios.collect());
            record = record.with("best_peer", best.name.as_str());
        }
        Ok(record)
    }
}

/// Every peer of `entry` that does this here.
fn peers<'a>(
    entry: &Entry,
    spec: &dpb_core::OpSpec,
    batch: Batch<'a>,
    slot: usize,
) -> Result<Vec<Contender<'a>>> {
    let mut peers = Vec::new();
    let best = Cpu::best().path(entry)?;
    for name in entry.peers {
        // A library that dpb can compute by itself.
        if let Some(&path) = entry.paths.iter().find(|path| path.name() == *name) {
            match entry.direct(spec, path) {
                Ok(_) if path == best => {}
                Ok(kernel) => {
                    let version = entry.code(path).to_string();
                    peers.push(Contender::direct(name, kernel, batch, slot)?.version(version));
                }
                Err(why) => println!("missing  {name}: {why}"),
            }
        } else if let Some(library) = native::library(name) {
            // Of a library that is not here, a line said so once.
            let Some(version) = library.version() else {
                continue;
            };
            match library.peer(name, spec, batch, slot) {
                Some(peer) => {
                    let version = format!("{} {version}", library.name);
                    peers.push(Contender::new(name, Runs::Bound(peer)).version(version));
                }
                None => println!("missing  {name}: does not do this, or could not be set up"),
            }
        } else if let Some(kernel) = rust_peers::find(name, spec) {
            let version = "crate, as Cargo.lock has it".to_owned();
            peers.push(Contender::direct(name, kernel, batch, slot)?.version(version));
        } else {
            bail!("{name}, a peer of {}, has no call", entry.name);
        }
    }
    Ok(peers)
}

fn fastest<'a, 'b>(sides: impl Iterator<Item = &'b Contender<'a>>) -> Option<&'b Contender<'a>>
where
    'a: 'b,
{
    let timed = sides.filter_map(|side| Some((side, statistics::median(&side.seconds)?)));
    timed
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(side, _)| side)
}

/// Times every side once in each round, each round beginning with another.
fn take_turns(sides: &mut [Contender<'_>], rounds: usize) {
    for side in sides.iter_mut() {
        side.turn(2);
        let once = side.turn(1).max(1e-9);
        side.runs = (TURN_S / once).ceil() as usize;
    }
    let count = sides.len();
    for round in 0..rounds {
        for i in 0..count {
            let side = &mut sides[(round + i) % count];
            let runs = side.runs;
            let seconds = side.turn(runs) / runs as f64;
            side.seconds.push(seconds);
        }
    }
}

impl<'a> Contender<'a> {
    fn new(name: &str, code: Runs<'a>) -> Self {
        Self {
            name: name.to_owned(),
            version: String::new(),
            code,
            seconds: Vec::new(),
            runs: 1,
            bytes_out: 0,
        }
    }

    fn direct(name: &str, kernel: Box<dyn Direct>, batch: Batch<'a>, slot: usize) -> Result<Self> {
        let code = Runs::Direct {
            kernel,
            batch,
            dst: Buf::zeroed(slot * batch.len()).context("no memory")?,
            outcomes: Vec::with_capacity(batch.len()),
        };
        Ok(Self::new(name, code))
    }

    fn version(mut self, version: String) -> Self {
        self.version = version;
        self
    }

    /// CPU time of so many runs, in seconds.
    fn turn(&mut self, runs: usize) -> f64 {
        let start = cpu_s();
        for _ in 0..runs {
            self.code.run();
        }
        cpu_s() - start
    }

    fn check(
        &mut self,
        workload: &dyn Workload,
        batch: Batch<'_>,
        shape: OutputShape,
        slot: usize,
    ) -> Result<(), String> {
        // Or what an earlier run left would pass for what this one did not do.
        self.code.spoil_outputs();
        self.code.run();
        let outputs = self.code.outputs(shape);
        self.bytes_out = 0;
        for (i, output) in outputs.into_iter().enumerate() {
            self.bytes_out += output.map_or(0, <[u8]>::len) as u64;
            workload
                .check(batch.item(i), output, slot)
                .map_err(|wrong| format!("{}, item {i}: {wrong}", self.name))?;
        }
        Ok(())
    }
}

impl Runs<'_> {
    fn run(&mut self) {
        match self {
            Self::Direct {
                kernel,
                batch,
                dst,
                outcomes,
            } => {
                outcomes.clear();
                let slot = dst.len() / batch.len().max(1);
                let out = BatchOut {
                    dst,
                    slot,
                    outcomes,
                };
                kernel.run(*batch, out).expect("runs");
                std::hint::black_box(dst);
            }
            Self::Bound(bound) => bound.run(),
        }
    }

    fn spoil_outputs(&mut self) {
        match self {
            Self::Direct { dst, .. } => dst.fill(SPOILT),
            Self::Bound(bound) => bound.spoil_outputs(SPOILT),
        }
    }

    fn outputs(&mut self, shape: OutputShape) -> Vec<Result<&[u8], JobError>> {
        match self {
            Self::Bound(bound) => bound.outputs(shape),
            Self::Direct {
                batch,
                dst,
                outcomes,
                ..
            } => {
                let slot = dst.len() / batch.len().max(1);
                let len = |i: usize| match shape {
                    OutputShape::Fixed(bytes) => Ok(bytes),
                    OutputShape::Variable => outcomes[i].map(|len| len as usize),
                };
                (0..batch.len())
                    .map(|i| Ok(&dst[i * slot..][..len(i)?]))
                    .collect()
            }
        }
    }
}

fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// How much of what is counted one run does.
fn units(row: &Row, record: &Record) -> f64 {
    let bytes = record.counts["bytes_in"] as f64;
    match row.unit {
        Unit::Bytes => bytes,
        Unit::Items => row.count as f64,
        Unit::Parts(part) => bytes / part as f64,
    }
}
