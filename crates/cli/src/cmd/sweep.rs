//! What verbs share that measure test after test in a loop of their own: flags of runs, records as they come, tables, how it ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dpb_core::measure::provenance::allowed_cpus;
use dpb_core::measure::statistics::judge as stability;
use dpb_core::measure::{Durability, Interference, Outcome, Ratio, Record, Store};
use dpb_micro::{Broken, Runs};

use crate::args::{self, List};
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table, evidence, verdict};
use crate::{Globals, interrupt};

/// The heading of these flags in the help.
pub(super) const RUNS: &str = "The runs";
/// The heading of what is compared and kept.
pub(super) const OUTPUT: &str = "Peers and output";

/// How often, for how long, where.
#[derive(Debug, clap::Args)]
pub(super) struct RunFlags {
    /// How long one run takes
    #[arg(long, value_name = "TIME", help_heading = RUNS, value_parser = args::duration, default_value = "0.5")]
    seconds: Duration,
    /// How long each thread works before the first run
    #[arg(long, value_name = "TIME", help_heading = RUNS, value_parser = args::duration, default_value = "50ms")]
    warm_up: Duration,
    /// Runs of each test; below 6 a number has no 95 % interval
    #[arg(long, value_name = "COUNT", help_heading = RUNS, value_parser = args::count, default_value = "7")]
    repeat: u64,
    /// Pin the threads to these cores, in order
    #[arg(long, value_name = "NUMBERS", help_heading = RUNS, value_parser = args::numbers)]
    pin: Option<List<u64>>,
    /// Seed of whatever is drawn
    #[arg(long, value_name = "NUMBER", help_heading = RUNS, default_value = "1")]
    pub(super) seed: u64,
    /// Append the records to this file, in a folder that is there
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    out: Option<PathBuf>,
}

impl RunFlags {
    /// As the crate takes them.
    pub(super) fn runs(&self) -> Runs {
        Runs {
            seconds: self.seconds,
            warm_up: self.warm_up,
            repeat: self.repeat as u32,
            pin: self.pins(),
        }
    }

    pub(super) fn repeat(&self) -> usize {
        self.repeat as usize
    }

    pub(super) fn seconds(&self) -> Duration {
        self.seconds
    }

    pub(super) fn warm_up(&self) -> Duration {
        self.warm_up
    }

    pub(super) fn pins(&self) -> Vec<u32> {
        let pins = self.pin.iter().flat_map(List::iter);
        pins.map(|&core| core as u32).collect()
    }

    /// Refuses cores that this process may not use.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let cpus = allowed_cpus();
        let is_foreign = |core: &u32| !cpus.is_empty() && !cpus.contains(core);
        match self.pins().iter().find(|core| is_foreign(core)) {
            Some(core) => Err(Failure::usage(format!(
                "--pin {core}: this process may not use such a core; it may use {cpus:?}"
            ))),
            None => Ok(()),
        }
    }

    /// Says so if `threads_most` threads share cores.
    pub(super) fn say_sharing(&self, threads_most: u64) {
        let cores = allowed_cpus().len().max(1) as u64;
        if threads_most > cores {
            output::note(&format!(
                "{threads_most} threads share {cores} cores: what they reach together is the cores' work, not the threads'"
            ));
        }
    }

    /// What all tests' records have of these flags.
    pub(super) fn note(&self, mut record: Record) -> Record {
        record.provenance.pinned = self.pins();
        record
            .with("seconds", self.seconds.as_secs_f64())
            .with("repeat", self.repeat)
    }
}

/// Records as they come: kept in the file, printed as JSON lines.
pub(super) struct Results {
    format: Format,
    store: Option<Store>,
    pub(super) records: Vec<Record>,
}

impl Results {
    pub(super) fn new(flags: &RunFlags, globals: &Globals) -> Result<Self, Failure> {
        Self::to(flags.out.as_deref(), globals)
    }

    /// The same for a verb with flags of its own: into this file, if there is one.
    pub(super) fn to(out: Option<&Path>, globals: &Globals) -> Result<Self, Failure> {
        let store = match out {
            Some(path) => Some(output::open_records(path, Durability::Machine)?),
            None => None,
        };
        Ok(Self {
            format: globals.format(),
            store,
            records: Vec::new(),
        })
    }

    pub(super) fn keep(&mut self, record: Record) -> Result<(), Failure> {
        if let Some(store) = &mut self.store {
            store.append(&record).map_err(anyhow::Error::from)?;
        }
        if self.format == Format::Json {
            output::print_json(&record)?;
        }
        self.records.push(record);
        Ok(())
    }

    /// Prints the tables; JSON lines were printed as they came.
    pub(super) fn print(
        &self,
        for_people: impl Fn(&[Record]) -> Table,
        for_machines: impl Fn(&[Record]) -> Table,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Table => output::print(&for_people(&self.records).to_text()),
            Format::Markdown => output::print(&for_people(&self.records).to_markdown()),
            Format::Csv => output::print(&for_machines(&self.records).to_csv()),
            Format::Json => Ok(()),
        }
    }

    /// The end of a verb that was asked for `asked` tests.
    pub(super) fn judge(&self, asked: usize) -> Result<(), Failure> {
        let failed = self
            .records
            .iter()
            .find_map(|record| match &record.outcome {
                Outcome::Failed { reason } => Some((record, reason)),
                _ => None,
            });
        if let Some((record, reason)) = failed {
            let task = &record.task;
            return Err(Failure::check(format!(
                "{task}: {reason}; there is no number for this test"
            )));
        }
        if interrupt::is_set() {
            return Err(Failure::interrupted(format!(
                "interrupted; {} of {asked} tests have records",
                self.records.len()
            )));
        }
        if self
            .records
            .iter()
            .any(|record| record.outcome == Outcome::Done)
        {
            return Ok(());
        }
        let mut reasons: Vec<&str> = Vec::new();
        for record in &self.records {
            if let Outcome::Unsupported { reason } = &record.outcome
                && !reasons.contains(&reason.as_str())
            {
                reasons.push(reason);
            }
        }
        Err(Failure::unavailable(format!(
            "nothing that was asked for is available here: {}",
            reasons.join("; ")
        )))
    }
}

/// A record without numbers, for what broke.
pub(super) fn broken(record: Record, broken: &Broken) -> Record {
    let reason = broken.to_string();
    record.without_numbers(match broken {
        Broken::Unsupported(_) => Outcome::Unsupported { reason },
        Broken::Wrong(_) => Outcome::Failed { reason },
    })
}

/// Adds the verdict on a series, and that it was cut short if it was.
pub(super) fn conclude(
    record: &mut Record,
    series: &[f64],
    asked: usize,
    workers: u64,
    interference: &Interference,
    interrupted: bool,
) {
    record.stability = Some(stability(series, asked, workers as u32, interference));
    if interrupted {
        record.outcome = Outcome::Interrupted;
    }
}

/// A parameter as it is shown.
pub(super) fn parameter(record: &Record, name: &str) -> String {
    let value = record.parameters.get(name);
    value.map_or(String::new(), ToString::to_string)
}

/// The ratio of dpb's figure to that of a peer in the same test, if there is one.
pub(super) fn versus(record: &Record, records: &[Record], peer: &str, figure: &str) -> String {
    let none = || "-".to_owned();
    if parameter(record, "tool") != "dpb" {
        return none();
    }
    let is_same = |other: &&Record| {
        let same = |(name, value): (&String, _)| {
            // A peer may take longer for a run.
            ["tool", "seconds"].contains(&name.as_str())
                || other.parameters.get(name) == Some(value)
        };
        parameter(other, "tool") == peer && record.parameters.iter().all(same)
    };
    let values = |record: &Record| {
        record
            .samples
            .get(figure)
            .map(|samples| samples.values.clone())
    };
    let other = records.iter().find(is_same);
    let ratio = values(record).zip(other.and_then(values));
    match ratio.and_then(|(ours, theirs)| Ratio::of(&ours, &theirs)) {
        Some(Ratio {
            median,
            ci95: Some((low, high)),
        }) => format!("{median:.2}x [{low:.2}, {high:.2}]"),
        Some(Ratio { median, ci95: None }) => format!("{median:.2}x"),
        None => none(),
    }
}

/// Everything, unrounded, a column for each parameter and each figure with its interval.
pub(super) fn for_machines(records: &[Record], parameters: &[&str], figures: &[&str]) -> Table {
    let mut columns: Vec<Column> = parameters.iter().map(|name| Column::left(*name)).collect();
    for figure in figures {
        columns.extend(
            ["", "_ci95_low", "_ci95_high"].map(|end| Column::right(format!("{figure}{end}"))),
        );
    }
    columns.extend(["evidence", "verdict", "id"].map(Column::left));
    let mut table = Table::new(columns);
    for record in records {
        let plain = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let mut row: Vec<String> = parameters
            .iter()
            .map(|name| parameter(record, name))
            .collect();
        for figure in figures {
            let summary = record.summary.get(*figure);
            row.push(plain(summary.map(|summary| summary.median)));
            row.push(plain(summary.and_then(|summary| summary.ci95_low)));
            row.push(plain(summary.and_then(|summary| summary.ci95_high)));
        }
        row.extend([
            evidence(record).to_owned(),
            verdict(record),
            record.id.clone(),
        ]);
        table.row(row);
    }
    table
}
