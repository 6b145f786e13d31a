//! Operators beside the implementations that an expert would use instead: the same data, one core, in turn.
//!
//! `cargo xtask bench --peers` finds the C libraries and runs this. What is compared stands in `definitions/`. Each row is one
//! operator on one shape of input. A round sets every side up anew, in memory at another place, and gives each a turn of a few
//! milliseconds of CPU time, the order going round. The ratio is the peer's median time over dpb's, with the interval that the record's
//! own statistics give. Every output is judged by the operator's workload in the first round and in the last, so who is
//! wrong has no speed. A peer that is missing is a line. Rows of a thing beside itself are controls: where one's interval leaves
//! 1 out, the run fails and records nothing.

mod counts;
mod definition;
mod instructions;
mod side;
mod table;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use dpb_core::cpu_level;
use dpb_core::measure::provenance::describe_build;
use dpb_core::measure::statistics::Ratio;
use dpb_core::measure::{Build, Check, Durability, Evidence, Outcome, Record, Store, Summary};
use dpb_core::random::SplitMix64;
use dpb_core::{Batch, Exact, Input, Items, OpSpec, OutputShape, Workload};
use dpb_operators::cpu;
use dpb_operators::registry::{Case, Entry};
use dpb_peers::cpuid;
use dpb_peers::native::LIBRARIES;
use dpb_peers::work::{Placed, Work};

use definition::{Row, Unit, rows};
use instructions::Counter;
use side::{ITSELF, NULL, Placement, Side};
use table::Table;

const SEED: u64 = 1;
/// Rounds: set-ups, places, and turns of each side.
const ROUNDS: usize = 15;
const ROUNDS_QUICK: usize = 7;
/// The probability that any control of a run misses 1 by chance alone.
const CONTROLS_MISS: f64 = 0.01;

/// Compares dpb's operators with peers.
#[derive(Parser)]
struct Args {
    /// Only rows whose group, operator and parameters contain one of these; controls run always
    only: Vec<String>,
    /// Fewer rounds
    #[arg(long)]
    quick: bool,
    /// Write records and a table there, in place of those of this CPU and system from before; seen from benches/peers. Those of
    /// fewer rounds or rows have names of their own
    #[arg(long)]
    record: Option<PathBuf>,
    /// Runs are emulated by this: everything is checked, nothing is timed
    #[arg(long)]
    emulated: Option<String>,
    /// With --emulated: the file to which the emulator's plugin adds a count of instructions when it is asked to
    #[arg(long, requires = "emulated")]
    instructions: Option<PathBuf>,
    /// With --instructions: the socket on which `cargo xtask bench` estimates cycles
    #[arg(long, requires = "instructions")]
    cycles: Option<PathBuf>,
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
    keep_to_level()?;
    let evidence = match &args.emulated {
        Some(by) => Evidence::Emulated { by: by.clone() },
        None => Evidence::Measured,
    };
    let machine = words::machine(&new_record(&evidence));
    println!("{machine}");
    let rounds = args.rounds();
    let mut bench = Bench {
        rounds,
        evidence,
        counter: args.counter(),
        pinned: if rounds > 0 { pin() } else { Vec::new() },
        places: SplitMix64::new(SEED),
    };
    say_libraries();
    let mut all = rows()?;
    if rounds == 0 {
        let is_counted = args.instructions.is_some();
        all = all.iter().map(|row| row.shortened(is_counted)).collect();
    }
    agree_with_the_registry(&all)?;
    let mut results = Results {
        table: Table::new(args.cycles.is_some()),
        ..Results::default()
    };
    bench.compare(&args.choose(&all)?, &mut results)?;
    results.judge()?;
    if rounds < ROUNDS {
        println!("controls are judged in {ROUNDS} rounds, not in {rounds}");
    }
    if let Some(folder) = &args.record {
        let is_whole = args.only.is_empty() && !args.quick;
        let table = results.table.markdown(&machine, &bench.evidence);
        keep(folder, is_whole, &results.records, &table)?;
    }
    Ok(())
}

/// Keeps this process to the level that the variable names, with all libraries that can be kept to it.
fn keep_to_level() -> Result<()> {
    cpu_level::check().map_err(anyhow::Error::msg)?;
    let Ok(level) = std::env::var(cpu_level::VARIABLE) else {
        return Ok(());
    };
    let are_told =
        ["GLIBC_TUNABLES", "OPENSSL_ia32cap"].map(|name| std::env::var_os(name).is_some());
    ensure!(
        cfg!(not(target_arch = "x86_64")) || are_told == [true; 2],
        "{} alone leaves glibc and OpenSSL what the CPU has: cargo xtask bench --peers --cpu-level LEVEL",
        cpu_level::VARIABLE
    );
    // Before anything asks what the CPU has: the standard library asks once.
    if let Err(why) = cpuid::hide_above(&level) {
        println!("missing  libraries that ask the CPU themselves: {why}");
    }
    Ok(())
}

/// A record of this bench. It names the CPU that an emulator shows, and says that the CPU has more than the level where that is hidden
/// from all.
fn new_record(evidence: &Evidence) -> Record {
    let mut record = Record::new("peers", evidence.clone(), SEED);
    if let Evidence::Emulated { by } = evidence {
        record.provenance.cpu_model.clone_from(by);
    }
    if cpuid::hides() {
        record.provenance.cpu_level += " (masked)";
    }
    record
}

impl Args {
    /// Rounds that are timed; none where only the checks count.
    fn rounds(&self) -> usize {
        match self {
            Self { bench: false, .. }
            | Self {
                emulated: Some(_), ..
            } => 0,
            Self { quick: true, .. } => ROUNDS_QUICK,
            _ => ROUNDS,
        }
    }

    fn counter(&self) -> Option<Counter> {
        let instructions = self.instructions.clone()?;
        let cycles = self.cycles.clone();
        Some(Counter {
            instructions,
            cycles,
        })
    }

    /// The rows that were asked for, and all controls.
    fn choose<'a>(&self, all: &'a [Row]) -> Result<Vec<&'a Row>> {
        let is_chosen = |row: &&Row| {
            let name = format!("{} {} {}", row.group, row.operator, row.parameters);
            row.control.is_some()
                || self.only.is_empty()
                || self.only.iter().any(|only| name.contains(only))
        };
        let chosen: Vec<&Row> = all.iter().filter(is_chosen).collect();
        ensure!(
            self.only.is_empty() || chosen.iter().any(|row| row.control.is_none()),
            "no row's group, operator and parameters contain {}",
            self.only.join(" or ")
        );
        Ok(chosen)
    }
}

/// The results of the rows.
#[derive(Default)]
struct Results {
    table: Table,
    records: Vec<Record>,
    /// Rows with wrong outputs.
    failed: usize,
    /// The controls that differ from 1.
    out_of_true: Vec<String>,
}

impl Results {
    /// Prints a row and keeps its record.
    fn add(&mut self, row: &Row, record: Record, are_controls_judged: bool) {
        self.failed += usize::from(matches!(record.outcome, Outcome::Failed { .. }));
        println!("{}", self.table.add(row, &record));
        let is_out_of_true = |within| are_controls_judged && !holds_one(&record, within);
        if row.control.is_some_and(is_out_of_true) {
            self.out_of_true.push(table::name(row));
        }
        self.records.push(record);
    }

    /// Whether anything of the run counts.
    fn judge(&self) -> Result<()> {
        ensure!(self.failed == 0, "{} rows with wrong outputs", self.failed);
        ensure!(
            self.out_of_true.is_empty(),
            "the bench is wrong here, and nothing of this run counts or is recorded: a thing beside itself is not 1 for {}",
            self.out_of_true.join(", ")
        );
        Ok(())
    }
}

fn say_libraries() {
    for library in LIBRARIES {
        match library.build() {
            Some(build) => println!("found    {} {build}", library.name),
            None if cfg!(target_arch = "aarch64") && library.peers == ["ipsec-mb"] => {}
            None => println!(
                "missing  {}: no rows for {}; `apt-get install {}`",
                library.name,
                library.peers.join(", "),
                library.package
            ),
        }
    }
}

/// Checks that definitions and registry name the same peers of each operator: people read the registry's.
fn agree_with_the_registry(rows: &[Row]) -> Result<()> {
    let mut defined: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in rows
        .iter()
        .filter(|row| row.control.is_none() && row.operator != NULL)
    {
        let peers = row.peers.iter().map(|peer| definition::parts(peer).0);
        defined.entry(&row.operator).or_default().extend(peers);
    }
    for entry in dpb_operators::registry::OPERATORS {
        let of_definitions = defined.remove(entry.name).unwrap_or_default();
        let of_registry: BTreeSet<&str> = entry.peers.iter().copied().collect();
        ensure!(
            of_definitions == of_registry,
            "peers of {}: {of_definitions:?} in definitions/, {of_registry:?} in the registry",
            entry.name
        );
    }
    match defined.keys().next() {
        None => Ok(()),
        Some(operator) => bail!("definitions/ compare {operator}, which is no operator"),
    }
}

/// The spec of a row's parameters, those of `own` in place of the row's of the same name.
fn with(entry: &Entry, parameters: &str, own: &str) -> Result<OpSpec> {
    let name = |pair: &str| pair.split('=').next().map(str::to_owned);
    let is_replaced = |pair: &&str| own.split(',').any(|new| name(new) == name(pair));
    let kept = parameters.split(',').filter(|pair| !is_replaced(pair));
    let all: Vec<&str> = kept.chain([own]).filter(|pair| !pair.is_empty()).collect();
    Ok(entry.case(&all.join(","))?.spec)
}

/// Whether the interval of a control, whose both sides are the same code, has 1 in it, or comes as near as `within` says. A control
/// that was not compared holds nothing.
fn holds_one(record: &Record, within: f64) -> bool {
    let mut ratios = table::ratios(record).map(|(_, ratio)| {
        let interval = ratio.ci95_low.zip(ratio.ci95_high);
        interval.is_some_and(|(low, high)| low <= 1.0 + within && 1.0 - within <= high)
    });
    ratios.next() == Some(true)
}

/// ` (1a2b3c4)` in a checkout, else nothing. `DPB_REVISION` names it for one of several runs, of which the first may change a record that
/// is part of the checkout.
fn revision() -> String {
    if let Ok(revision) = std::env::var("DPB_REVISION") {
        return format!(" ({revision})");
    }
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

/// Records and table of this CPU, and all CPUs' side by side.
fn keep(folder: &Path, is_whole: bool, records: &[Record], table: &str) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut name = table::file_name(&records[0]);
    if !is_whole {
        name += ".part";
    }
    let path = folder.join(format!("{name}.jsonl"));
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    let mut store = Store::open(&path, Durability::Process)?;
    for record in records {
        store.append(record)?;
    }
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    };
    write(&format!("{name}.md"), table)?;
    if counts::core(&records[0].evidence).is_some() {
        let name = match is_whole {
            true => counts::TABLE,
            false => "emulated.part.md",
        };
        write(name, &counts::all_cores(folder, is_whole)?)?;
    }
    write("README.md", &table::side_by_side(folder)?)
}

struct Bench {
    rounds: usize,
    evidence: Evidence,
    counter: Option<Counter>,
    pinned: Vec<u32>,
    /// The random numbers that place memory.
    places: SplitMix64,
}

/// The parts of a row that all its rounds share.
struct Subject {
    case: Case,
    workload: Box<dyn Workload>,
    input: Input,
    /// The items of one call.
    call: Items,
    calls: usize,
    shape: OutputShape,
    slot: usize,
    warm_up_s: f64,
}

impl Subject {
    fn new(row: &Row) -> Result<Self> {
        let mut parameters = row.parameters.clone();
        if let Some(count) = row.routes {
            parameters += &format!(",routes=generated:{count}");
        }
        let (bytes, calls) = (row.shape.bytes, row.shape.calls);
        let items = row.shape.items * calls;
        let Some(entry) = side::entry(&row.operator)? else {
            let spec = OpSpec::custom(NULL, []);
            let right = |item: &[u8], _: usize| Ok((item.len() as u32).to_le_bytes().to_vec());
            return Ok(Self {
                workload: Box::new(Exact::new(&spec, "by hand", right)),
                case: spec.into(),
                input: Input::random(SEED, bytes, items),
                call: Items::fixed(bytes as u32, row.shape.items as u32),
                calls,
                shape: OutputShape::Fixed(4),
                slot: 4,
                warm_up_s: row.warm_up_s,
            });
        };
        let case = entry.case(&parameters)?;
        let workload = entry.workload(&case)?;
        let input = Input::of(&*workload, SEED, bytes, items).map_err(anyhow::Error::msg)?;
        let call = match (calls, &input.items) {
            (1, items) => items.clone(),
            (_, Items::Strided(stride)) => Items::fixed(stride.len, row.shape.items as u32),
            _ => bail!("{}: items of several lengths go in one call", row.operator),
        };
        let portable = entry.direct(&case.spec, cpu::Implementation::Portable)?;
        let shape = portable.shape();
        let slot = match shape {
            OutputShape::Fixed(bytes) => bytes,
            OutputShape::Variable => {
                let longest = Batch::new(&input.bytes, &input.items)?.longest();
                input
                    .slot_bytes
                    .unwrap_or_else(|| portable.dst_len(longest))
            }
        };
        Ok(Self {
            case,
            workload,
            input,
            call,
            calls,
            shape,
            slot,
            warm_up_s: row.warm_up_s,
        })
    }

    /// The subject's side and those that it is compared with; `None` if the subject is a peer that is not here.
    fn sides(&self, row: &Row) -> Result<Option<Vec<Side>>> {
        let entry = side::entry(&row.operator)?;
        let subject = |name: &str| match (row.subject.as_str(), entry) {
            ("dpb", Some(entry)) => Side::best(name, entry, &self.case.spec),
            ("dpb", None) => Ok(Some(Side::null(name))),
            (peer, _) => {
                let spec = &self.case.spec;
                Side::peer(peer, entry, spec, spec).map(Result::ok)
            }
        };
        let Some(first) = subject(&row.subject)? else {
            return Ok(None);
        };
        let mut sides = vec![first];
        for peer in &row.peers {
            let (name, own) = definition::parts(peer);
            let side = match (name, own) {
                (ITSELF, _) => Ok(subject(ITSELF)?.expect("as before")),
                (name, None) => Side::peer(name, entry, &self.case.spec, &self.case.spec)?,
                (name, Some(own)) => {
                    let entry = entry.context("the harness's operator has no parameters")?;
                    let spec = with(entry, &row.parameters, own)?;
                    let side = Side::peer(name, Some(entry), &self.case.spec, &spec)?;
                    side.map(|side| side.named(peer))
                }
            };
            match side {
                Ok(side) => sides.push(side),
                Err(why) => println!("missing  {peer} for {}: {why}", row.operator),
            }
        }
        // A control of a library that is not here holds nothing; others are.
        let is_alone = row.control.is_some() && sides.len() == 1;
        Ok((!is_alone).then_some(sides))
    }

    /// A copy of all items at `place`.
    fn placed(&self, place: usize) -> Placed {
        let mut src = Placed::zeroed(self.input.bytes.len(), place);
        src.copy_from_slice(&self.input.bytes);
        src
    }

    /// The items in `src`, by call.
    fn calls<'a>(&'a self, src: &'a [u8]) -> Result<Vec<Batch<'a>>> {
        let bytes = src.len() / self.calls;
        let call = |i| Batch::new(&src[i * bytes..][..bytes], &self.call);
        (0..self.calls).map(|i| Ok(call(i)?)).collect()
    }
}

impl Bench {
    /// Runs the chosen rows.
    fn compare(&mut self, chosen: &[&Row], results: &mut Results) -> Result<()> {
        let controls = chosen.iter().filter(|row| row.control.is_some()).count();
        for row in chosen {
            match self.row(row, controls)? {
                Some(record) => results.add(row, record, self.rounds == ROUNDS),
                None => println!(
                    "{}: {} has nothing to be compared with here, or is not here",
                    row.operator, row.subject
                ),
            }
        }
        Ok(())
    }

    /// Runs a row of a run with `controls` controls. `None` if its subject is not here.
    fn row(&mut self, row: &Row, controls: usize) -> Result<Option<Record>> {
        let subject = Subject::new(row)?;
        let Some(mut sides) = subject.sides(row)? else {
            return Ok(None);
        };
        let mut record = self.record(row, &subject);
        if let Err(reason) = self.rounds(&subject, &mut sides, &mut record)? {
            return Ok(Some(record.without_numbers(Outcome::Failed { reason })));
        }
        for side in &sides {
            let (name, build) = (side.name.clone(), side.build.clone());
            record.provenance.libraries.insert(name, build);
            let name = format!("{} bytes_out", side.name);
            record.counts.insert(name, side.bytes_out);
            if !side.seconds.is_empty() {
                // A record of all rows stays below a mebibyte.
                let ns = side.seconds.iter().map(|s| rounded(s * 1e9)).collect();
                record.sample(&format!("{} run_ns", side.name), ns);
            }
        }
        let miss = match row.control.is_some() {
            true => CONTROLS_MISS / controls as f64,
            false => 0.05,
        };
        let (first, others) = sides.split_first().context("the subject's own")?;
        for side in others {
            let Some(ratio) = Ratio::of(&side.seconds, &first.seconds) else {
                continue;
            };
            let interval = Ratio::interval(&side.seconds, &first.seconds, miss);
            let summary = Summary {
                median: ratio.median,
                ci95_low: interval.map(|(low, _)| low),
                ci95_high: interval.map(|(_, high)| high),
                samples: side.seconds.len() as u64,
            };
            let name = format!("{}{}", table::RATIO, side.name);
            record.summary.insert(name, summary);
        }
        Ok(Some(record))
    }

    fn record(&self, row: &Row, subject: &Subject) -> Record {
        let mut record = new_record(&self.evidence)
            .with("group", row.group)
            .with("operator", row.operator.as_str())
            .with("size", row.shape.bytes as u64)
            .with("count", row.shape.items as u64)
            .with("calls", subject.calls as u64)
            .with("subject", row.subject.as_str())
            .with("control", row.control.is_some())
            .with("goal", row.shape.goal);
        for (name, value) in subject.case.parameters() {
            record = record.with(&format!("op.{name}"), value);
        }
        let items = row.shape.items * subject.calls;
        let bytes_in = row.shape.bytes * items;
        record.counts.insert("bytes_in".to_owned(), bytes_in as u64);
        record.counts.insert("items".to_owned(), items as u64);
        if let Unit::Parts { part_bytes } = row.unit {
            let parts = bytes_in / part_bytes;
            record.counts.insert(counts::PARTS.to_owned(), parts as u64);
        }
        record.provenance.pinned.clone_from(&self.pinned);
        if let Evidence::Emulated { .. } = &self.evidence {
            let command = ["cargo", "xtask", "bench", "--target", "aarch64", "--peers"];
            record.provenance.command = command.map(str::to_owned).to_vec();
            return record;
        }
        // What a person types, not where cargo put the program.
        let given = std::env::args().skip(1).filter(|word| word != "--bench");
        let level = std::env::var(cpu_level::VARIABLE).ok();
        let level = level.map(|level| format!("--cpu-level={level}"));
        record.provenance.command = ["cargo", "xtask", "bench", "--peers"]
            .into_iter()
            .map(str::to_owned)
            .chain(level)
            .chain(["--".to_owned()])
            .chain(given)
            .collect();
        record
    }

    /// All rounds; the inner error is a wrong output.
    fn rounds(
        &mut self,
        subject: &Subject,
        sides: &mut Vec<Side>,
        record: &mut Record,
    ) -> Result<Result<(), String>> {
        let mut checked = 0;
        let last = self.rounds.saturating_sub(1);
        for round in 0..=last {
            let src = subject.placed(self.place());
            let calls = subject.calls(&src)?;
            let mut work = Work {
                batch: Batch::new(&src, &subject.input.items)?,
                calls: &calls,
                shape: subject.shape,
                slot: subject.slot,
                place: 0,
            };
            let mut placements = self.place_sides(sides, &mut work)?;
            let mut check = |sides: &mut [Side], placements: &mut [Placement<'_>]| {
                for (side, placement) in sides.iter_mut().zip(placements) {
                    side.check(placement, &*subject.workload, &work)?;
                    checked += work.batch.len() as u64;
                }
                Ok(())
            };
            if round == 0
                && let Err(wrong) = check(sides, &mut placements)
            {
                return Ok(Err(wrong));
            }
            if self.rounds > 0 {
                let count = sides.len();
                for i in 0..count {
                    let at = (round + i) % count;
                    sides[at].turn(&mut placements[at], subject.warm_up_s);
                }
            }
            if round == last
                && last > 0
                && let Err(wrong) = check(sides, &mut placements)
            {
                return Ok(Err(wrong));
            }
            self.count_instructions(sides, &mut placements, record)?;
        }
        record.check = Some(Check {
            against: subject.workload.name().to_owned(),
            compared: checked,
            digest: None,
        });
        Ok(Ok(()))
    }

    /// Sets every side up, each at a place of its own. A side that does not do this work leaves `sides`.
    fn place_sides<'a>(
        &mut self,
        sides: &mut Vec<Side>,
        work: &mut Work<'a>,
    ) -> Result<Vec<Placement<'a>>> {
        let mut placements = Vec::with_capacity(sides.len());
        let mut missing = Vec::new();
        for (i, side) in sides.iter().enumerate() {
            work.place = self.place();
            match side.place(work)? {
                Some(placement) => placements.push(placement),
                None => missing.push(i),
            }
        }
        for i in missing.into_iter().rev() {
            let side = sides.remove(i);
            println!(
                "missing  {}: does not do this, or could not be set up",
                side.name
            );
        }
        Ok(placements)
    }

    /// The instructions of one run of each side, which the checks ran before, if an emulator counts them, and the cycles that follow.
    fn count_instructions(
        &self,
        sides: &[Side],
        placements: &mut [Placement<'_>],
        record: &mut Record,
    ) -> Result<()> {
        let Some(counter) = &self.counter else {
            return Ok(());
        };
        let (row, core) = (
            counts::in_words(record),
            counts::core(&self.evidence).unwrap_or_default(),
        );
        let control = record.parameters.get("control");
        let is_control = control.is_some_and(|it| it.to_string() == "true");
        for (side, placement) in sides.iter().zip(placements) {
            let count = counter.of_settled(|| placement.run())?;
            record.counts.insert(counts::name(&side.name), count);
            let subject = instructions::Subject {
                core,
                row: &row,
                side: &side.name,
                was_asked_for: !is_control,
            };
            for (model, cycles) in counter.cycles(&subject, count)? {
                let name = counts::name_of_cycles(&side.name, &model);
                record.counts.insert(name, cycles);
            }
        }
        Ok(())
    }

    fn place(&mut self) -> usize {
        self.places.below(Placed::PLACES)
    }
}

/// `value` with five significant digits: a CPU clock does not tell more of a turn.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}
