//! `dpb import`: what other programs measured, as records.

mod smartnic_wu;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use dpb_core::file;
use dpb_core::measure::import::{self, Origin, Program};
use dpb_core::measure::{Durability, Evidence, Record};

use crate::Globals;
use crate::exit::Failure;
use crate::output::{self, Column, Table, short};

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Folders below one that is named, at most: Criterion's are four deep.
const DEPTH_MAX: usize = 8;

/// Which files, and what is known about them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The same test in several files becomes one record with a value for each file; six or more give a comparison its interval.\n\
                  Examples:\n  fio job.fio --output-format=json --output=1.json && dpb import 1.json --out records.jsonl\n  \
                  dpb import host/*.json --host host --out host.jsonl && dpb compare host.jsonl dpu.jsonl\n  \
                  dpb import target/criterion --out records.jsonl\n  \
                  git clone https://github.com/ljishen/SmartNIC-WU && dpb import SmartNIC-WU --out liu.jsonl --format csv"
)]
pub struct Args {
    /// Outputs of fio (JSON), iperf3 (JSON), sysbench, stress-ng (text or YAML), perftest, doca_bench; Criterion's folder; a copy of the repository of
    /// Liu et al. (SmartNIC-WU), whose platforms are `published`
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The program that wrote the files [default: told by their content]
    #[arg(long, value_enum)]
    from: Option<From>,
    /// The name of the machine that was measured [default: the one that the file names, if it does]
    #[arg(long)]
    host: Option<String>,
    /// What stood in for hardware (QEMU, soft-RoCE …): the records are `emulated` then, not `measured`
    #[arg(long, value_name = "STAND-IN")]
    emulated_by: Option<String>,
    /// Append the records to this file, in a folder that is there
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Programs whose results can be read.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum From {
    Fio,
    Iperf3,
    Sysbench,
    StressNg,
    Perftest,
    DocaBench,
}

impl From {
    fn program(self) -> Program {
        match self {
            Self::Fio => Program::Fio,
            Self::Iperf3 => Program::Iperf3,
            Self::Sysbench => Program::Sysbench,
            Self::StressNg => Program::StressNg,
            Self::Perftest => Program::Perftest,
            Self::DocaBench => Program::DocaBench,
        }
    }
}

/// Reads, merges, keeps, prints.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let origin = Origin {
        host: args.host,
        evidence: match args.emulated_by {
            Some(by) => Evidence::Emulated { by },
            None => Evidence::Measured,
        },
    };
    let mut records = Vec::new();
    for path in &args.files {
        let before = records.len();
        if smartnic_wu::is_copy(path) {
            records.extend(smartnic_wu::records(path)?);
        } else if path.is_dir() {
            of_folder(path, &origin, DEPTH_MAX, &mut records)?;
        } else {
            records.extend(of_file(path, args.from, &origin)?);
        }
        if records.len() == before {
            return Err(Failure::usage(format!(
                "{}: no results of Criterion in this folder",
                path.display()
            )));
        }
    }
    let records = import::merge(records);
    if let Some(path) = &args.out {
        let mut store = output::open_records(path, Durability::Process)?;
        for record in &records {
            store.append(record).map_err(anyhow::Error::from)?;
        }
    }
    output::print_rows(globals.format(), &table(&records), &records)
}

fn of_file(path: &Path, from: Option<From>, origin: &Origin) -> Result<Vec<Record>, Failure> {
    let text = read(path)?;
    let program = from.map(From::program).or_else(|| Program::of(&text));
    let named =
        |what: &dyn std::fmt::Display| Failure::usage(format!("{}: {what}", path.display()));
    let program = program.ok_or_else(|| {
        let known = Program::ALL.map(Program::name).join(", ");
        named(&format!(
            "not an output of {known} (see --from; of fio and iperf3 their JSON is read)"
        ))
    })?;
    program
        .records(&text, origin)
        .map_err(|error| named(&format!("not an output of {}: {error}", program.name())))
}

/// The benchmarks of Criterion in a folder: each in one of its own, `new`.
fn of_folder(
    folder: &Path,
    origin: &Origin,
    depth: usize,
    records: &mut Vec<Record>,
) -> Result<(), Failure> {
    let folders = folders_of(folder)?;
    let is_newest = folder.file_name().is_none_or(|name| name == "new");
    let files = ["benchmark.json", "sample.json"].map(|name| folder.join(name));
    if is_newest && files.iter().all(|file| file.is_file()) {
        let [benchmark, sample] = [read(&files[0])?, read(&files[1])?];
        let record = import::of_criterion(&benchmark, &sample, origin)
            .map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
        records.push(record);
    }
    match depth {
        0 => Ok(()),
        depth => folders
            .iter()
            .try_for_each(|inner| of_folder(inner, origin, depth - 1, records)),
    }
}

/// The folders in a folder, by name; no links, as they may go round in circles.
fn folders_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::usage(format!("{}: {error}", folder.display()));
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.file_type().map_err(unreadable)?.is_dir() {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

fn read(path: &Path) -> Result<String, Failure> {
    let bytes = file::read(path, FILE_BYTES_MAX)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn table(records: &[Record]) -> Table {
    let mut table = Table::new([
        Column::left("program"),
        Column::left("test"),
        Column::left("metric"),
        Column::right("median"),
        Column::right("values"),
        Column::noted("verdict"),
    ]);
    for record in records {
        let parameters = record.parameters.iter();
        let test: Vec<String> = parameters
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let test = test.join(" ");
        if record.summary.is_empty() {
            let verdict = output::verdict(record);
            table.row([record.task.as_str(), &test, "-", "-", "0", &verdict]);
        }
        for (metric, summary) in &record.summary {
            let (median, values) = (short(summary.median), summary.samples.to_string());
            table.row([record.task.as_str(), &test, metric, &median, &values, "-"]);
        }
    }
    table
}
