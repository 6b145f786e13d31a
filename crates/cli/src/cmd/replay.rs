//! `dpb replay`: the test of a record once more, and what has changed.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;
use dpb_core::measure::{Reading, Record};

use crate::Globals;
use crate::contained::{self, Bounds, How};
use crate::exit::Failure;
use crate::output;
use crate::task::{Kind, Parameter, Place, Task, Tasks};

/// Most that a test may print.
const STDOUT_BYTES_MAX: usize = 256 << 20;
/// Most time that a test may take.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Run the test of a record once more, and compare both.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The record's command line is carried out again, with the record's own values where the command swept.\n\
                  Examples:\n  dpb replay records.jsonl\n  dpb replay records.jsonl --id 1764000000.123456-0123456789abcdef --out again.jsonl\n  \
                  dpb replay records.jsonl --show"
)]
pub struct Args {
    /// The file with the record
    #[arg(value_name = "FILE")]
    records: PathBuf,
    /// The record's id, or how it begins [default: the first record]
    #[arg(long, value_name = "TEXT")]
    id: Option<String>,
    /// Print the command line, and run nothing
    #[arg(long)]
    show: bool,
    /// Append the new records to this file, in a folder that is there
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Finds the record, runs its test, prints the new record beside the old one.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let reading = Reading::of_file(&args.records);
    let reading = reading.map_err(|error| Failure::usage(format!("cannot read the {error}")))?;
    let mut records = reading.records.into_iter().map(|line| line.record);
    let found = match &args.id {
        None => records.next(),
        Some(id) => records.find(|record| record.id.starts_with(id.as_str())),
    };
    let record = found.ok_or_else(|| match &args.id {
        Some(id) => Failure::usage(format!("{} has no record {id}", args.records.display())),
        None => Failure::usage(format!("{} has no record", args.records.display())),
    })?;
    let words = words(&record, globals.tasks)?;
    if args.show {
        return output::print(&format!("dpb {}\n", words.join(" ")));
    }
    let new = again(&words)?;
    if let Some(out) = &args.out {
        let mut store = output::open_records(out, dpb_core::measure::Durability::Machine)?;
        for record in &new {
            store.append(record).map_err(anyhow::Error::from)?;
        }
    }
    super::compare::show_change(std::slice::from_ref(&record), &new, globals)
}

/// Runs the words as `dpb`.
fn again(words: &[String]) -> Result<Vec<Record>, Failure> {
    let broke = |error: std::io::Error| Failure::check(format!("cannot start the test: {error}"));
    let program = std::env::current_exe().map_err(broke)?;
    let mut command = contained::tied(program.as_os_str()).map_err(broke)?;
    command.args(words).args(["--format", "json", "--quiet"]);
    let bounds = Bounds {
        time: TIME_MAX,
        stdout_bytes: STDOUT_BYTES_MAX,
    };
    let ended = contained::run(command, b"", bounds).map_err(broke)?;
    if ended.how == How::Interrupted {
        return Err(Failure::interrupted("interrupted"));
    }
    let records = Reading::of_bytes(&ended.stdout).records;
    if records.is_empty() {
        return Err(Failure::check(format!(
            "the test gave no record: {}",
            ended.stderr.trim()
        )));
    }
    Ok(records.into_iter().map(|line| line.record).collect())
}

/// The command line of a record's test: that of its process, with the record's value for each parameter that it has.
fn words(record: &Record, tasks: Tasks) -> Result<Vec<String>, Failure> {
    let task = tasks.find(&record.task).ok_or_else(|| {
        Failure::usage(format!(
            "the record is of the task `{}`, which is no task of dpb",
            record.task
        ))
    })?;
    let command = &record.provenance.command;
    // Behind the program's path; flags that all verbs share may stand before the verb.
    let verb = command.iter().position(|word| word == task.name);
    let verb = verb.ok_or_else(|| {
        Failure::usage(format!(
            "the record's command line has no `{}`: {}",
            task.name,
            command.join(" ")
        ))
    })?;
    let matches = crate::command()
        .try_get_matches_from(
            std::iter::once("dpb").chain(command[verb..].iter().map(String::as_str)),
        )
        .map_err(|error| {
            Failure::usage(format!(
                "the record's command line is none of this dpb: {}",
                error.to_string().lines().next().unwrap_or_default()
            ))
        })?;
    let (_, matches) = matches.subcommand().expect("its verb was found");
    let parameters = task.parameters();
    let mut words = vec![task.name.to_owned()];
    for place in [Place::Position, Place::Flag] {
        for parameter in parameters
            .iter()
            .filter(|parameter| parameter.place == place)
        {
            for value in values(task, parameter, record, matches) {
                words.extend(parameter.words(&value));
            }
        }
    }
    Ok(words)
}

/// The values that a parameter has in the test: the record's, else those that the command line gave.
fn values(
    task: &Task,
    parameter: &Parameter,
    record: &Record,
    matches: &ArgMatches,
) -> Vec<String> {
    let own = (task.recorded)(parameter, record);
    if let Some(value) = own {
        return vec![value];
    }
    if matches.value_source(&parameter.id) != Some(ValueSource::CommandLine) {
        return Vec::new();
    }
    if parameter.kind == Kind::Switch {
        return vec![matches.get_flag(&parameter.id).to_string()];
    }
    let raw = matches.get_raw(&parameter.id).into_iter().flatten();
    raw.map(|value| value.to_string_lossy().into_owned())
        .collect()
}
