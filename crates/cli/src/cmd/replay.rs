//! `dpb replay`: the test of a record once more, and what has changed.

mod of_plugin;

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;
use dpb_core::measure::{Reading, Record};
use dpb_dbmods::tpch;

use crate::Globals;
use crate::contained::{self, Bounds, How};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::plugin::Plugins;
use crate::shown::ShownTasks;
use crate::task::{Kind, Parameter, Place, Task, Tasks};

/// Most that a test may print.
const STDOUT_BYTES_MAX: usize = 256 << 20;
/// Most time that a test may take.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Run the test of a record once more, and compare both.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The record's command line is carried out again, with the record's own values where the command swept.\n\
                  A plug-in runs again where it was when it ran on this machine, or where --plugins says.\n\
                  A record has no secrets, only the names of the files that hold them. Where such a file has moved, or the test is to \
                  have another server or device, its flags follow behind --.\n\
                  Examples:\n  dpb replay records.jsonl\n  dpb replay records.jsonl --id 1764000000.123456-0123456789abcdef --out again.jsonl\n  \
                  dpb replay records.jsonl --show\n  dpb replay records.jsonl --plugins ./plugins\n  \
                  dpb replay records.jsonl -- --server=dpu:7500 --token-file=dpb.token"
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
    /// A plug-in's folder, or a folder with plug-ins, for the record of one; those that the data folder (`DPB_DATA_DIR`)
    /// knows, because they have run with it, are found without the flag
    #[arg(long, value_name = "FOLDER")]
    plugins: Vec<PathBuf>,
    /// Flags of the test, instead of those that its command line had
    #[arg(last = true, value_name = "FLAGS")]
    instead: Vec<String>,
}

/// Flags that are no parameters of a test and yet say where it works: the test has them again. `beside`, `out` and the like are not
/// the test's.
const SURROUNDINGS: [&str; 5] = ["data_dir", "keep", "server", "credentials", "token_file"];
/// Those among them that name a file with a secret.
const SECRETS: [&str; 2] = ["credentials", "token_file"];

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
    let data_dir = tpch::default_data_dir();
    let plugins = Plugins::known(&args.plugins, &data_dir, globals.tasks)?;
    let new = match plugins.find(&record.task)? {
        Some(plugin) => {
            let test = of_plugin::test(&record, &plugin, &args.instead)?;
            if args.show {
                return output::print(&of_plugin::shown(&test, &record, &plugin));
            }
            of_plugin::again(&test, &record, &plugin, data_dir)?
        }
        None => {
            let words = words(&record, globals.tasks, &args.instead)?;
            if args.show {
                return output::print(&format!("dpb {}\n", words.join(" ")));
            }
            again(&words).map_err(|failure| with_hint(failure, &record))?
        }
    };
    if let Some(out) = &args.out {
        let mut store = output::open_records(out, dpb_core::measure::Durability::Machine)?;
        for record in &new {
            store.append(record).map_err(anyhow::Error::from)?;
        }
    }
    let shown = ShownTasks::of(globals.tasks, &plugins)?;
    let old = std::slice::from_ref(&record);
    super::compare::show_change(old, &new, &shown, globals.format())
}

/// Runs the words as `dpb`.
pub(super) fn again(words: &[String]) -> Result<Vec<Record>, Failure> {
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

/// What a test that could not run needs, where its server was elsewhere.
fn with_hint(failure: Failure, record: &Record) -> Failure {
    let server = record.parameters.get("server").map(ToString::to_string);
    let elsewhere = server.filter(|server| server != "loopback" && failure.exit == Exit::Check);
    let Some(server) = elsewhere else {
        return failure;
    };
    Failure::check(format!(
        "{}; the test's server was {server}; the address of another one follows behind --, as -- --server=HOST:PORT",
        failure.message
    ))
}

/// The command line of a record's test: that of its process, with the record's value for each parameter that it has. Flags in
/// `instead` stand for the test's own.
pub(super) fn words(
    record: &Record,
    tasks: Tasks,
    instead: &[String],
) -> Result<Vec<String>, Failure> {
    let task = tasks.find(&record.task).ok_or_else(|| {
        Failure::usage(format!(
            "the record is of the task `{}`, which is no task of dpb; of a plug-in's record the folder is given with --plugins FOLDER",
            record.task
        ))
    })?;
    let matches = parsed(record, task)?;
    let is_replaced = |parameter: &Parameter| {
        let flag = format!("--{}", parameter.name.replace('_', "-"));
        let same = |word: &String| word.split('=').next() == Some(&flag);
        parameter.place == Place::Flag && instead.iter().any(same)
    };
    let command = task.command();
    let all = command.get_arguments().filter_map(Parameter::of);
    let is_test = |parameter: &Parameter| {
        let name = parameter.name.as_str();
        !task.apart.contains(&name) || is_surrounding(task, name)
    };
    let kept: Vec<Parameter> = all.filter(is_test).collect();
    let mut words: Vec<String> = task.verbs().map(str::to_owned).collect();
    for place in [Place::Position, Place::Flag] {
        let here = kept.iter().filter(|parameter| parameter.place == place);
        for parameter in here.filter(|parameter| !is_replaced(parameter)) {
            for value in values(task, parameter, record, &matches) {
                if SECRETS.contains(&parameter.name.as_str()) {
                    is_there(parameter, &value)?;
                }
                words.extend(parameter.words(&value));
            }
        }
    }
    words.extend(instead.iter().cloned());
    Ok(words)
}

/// Returns true if the flag says where a test of `task` works. The `--server` of a task whose server's end is another verb's is no address.
fn is_surrounding(task: &Task, name: &str) -> bool {
    SURROUNDINGS.contains(&name) && (name != "server" || task.server_end.is_some())
}

/// Sees that the file of a secret, which no record has, is where it was.
fn is_there(parameter: &Parameter, file: &str) -> Result<(), Failure> {
    if std::path::Path::new(file).is_file() {
        return Ok(());
    }
    let flag = parameter.name.replace('_', "-");
    Err(Failure::usage(format!(
        "the test had --{flag} {file}, which is not there, and a record has no secrets: give the file behind --, as \
         -- --{flag}=FILE, and --server=HOST:PORT if the server has moved too"
    )))
}

/// The record's command line, taken apart.
fn parsed(record: &Record, task: &Task) -> Result<ArgMatches, Failure> {
    let command = &record.provenance.command;
    // Behind the program's path; flags that all verbs share may stand before the verb.
    let verbs: Vec<&str> = task.verbs().collect();
    let are_verbs = |words: &[String]| words.iter().eq(&verbs);
    let verb = command.windows(verbs.len()).position(are_verbs);
    let verb = verb.ok_or_else(|| {
        Failure::usage(format!(
            "the record's command line has no `{}`: {}",
            task.name,
            command.join(" ")
        ))
    })?;
    let words = std::iter::once("dpb").chain(command[verb..].iter().map(String::as_str));
    let matches = crate::command().try_get_matches_from(words);
    let mut matches = matches.map_err(|error| {
        Failure::usage(format!(
            "the record's command line is none of this dpb: {}",
            error.to_string().lines().next().unwrap_or_default()
        ))
    })?;
    for _ in &verbs {
        (_, matches) = matches.remove_subcommand().expect("its verb was found");
    }
    Ok(matches)
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

#[cfg(test)]
mod tests;
