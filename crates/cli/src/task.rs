//! Tasks: the verbs that measure, each declared once.
//!
//! A [`Task`] names its metrics and how they are shown. Its parameters are the flags of its verb, read from the command line's own
//! description: name, meaning, type, default and domain. Boxes, `dpb list`, `dpb schema`, tables and charts follow from the declaration.
//!
//! A test is one process, `dpb TASK --flag value …`, with one value for every parameter: what one test leaves in memory does not
//! reach the next, and a test that hangs can be ended.

mod parameter;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgMatches, Command, FromArgMatches};
use dpb_core::measure::Record;
use dpb_core::measure::comparison::Better;

use crate::Globals;
use crate::exit::Failure;
pub use parameter::{Kind, Parameter, Place, Range};

/// The tasks that a program has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tasks(pub &'static [&'static Task]);

/// A verb that measures.
pub struct Task {
    /// The task of its records, and the words of its verb: `memory`, `net headroom`.
    pub name: &'static str,
    /// What it measures, in a few words.
    pub summary: &'static str,
    /// A command line that shows it.
    pub example: &'static str,
    /// Flags that say where results go or who takes part: they are no parameters of a test.
    pub apart: &'static [&'static str],
    /// The flag with which the verb makes what its tests need, and measures nothing.
    pub prepare: Option<&'static str>,
    /// What a test leaves for the next one that works on the same file.
    pub shared_file: Option<SharedFile>,
    /// How records of the task are shown.
    pub view: View,
    /// Whether a command line can be carried out, as far as that is known before anything runs.
    pub check: fn(&ArgMatches, &Globals) -> Result<(), Failure>,
    /// What a command line will take, roughly.
    pub cost: fn(&ArgMatches) -> Cost,
    /// The value of a parameter in the test that gave a record; `None` where the record does not say it.
    pub recorded: fn(&Parameter, &Record) -> Option<String>,
    /// Figures that papers published for the same work.
    pub published: Option<fn() -> Vec<Record>>,
    /// The server's end, of a task that can have it on another machine.
    pub server_end: Option<ServerEnd>,
}

/// A file that tests of a box share: the first makes it, the last removes it.
#[derive(Clone, Copy, Debug)]
pub struct SharedFile {
    /// The flag with which a test leaves the file to the next one.
    pub flag: &'static str,
    /// The file of a test whose data is kept in this folder, and what decides whether the next test can use it as it is; `None` for a
    /// test without such a file.
    pub of: fn(&ArgMatches, &Path) -> Option<(PathBuf, String)>,
    /// Removes a file that was left, if it is there.
    pub remove: fn(&Path) -> Result<(), Failure>,
}

/// The server's end of a task whose tests can run between two machines.
///
/// It is this program with [`ServerEnd::words`]. It listens at the address behind `--listen`, takes a token from the first line of its
/// standard input, prints one line of JSON with the address that it listens at (`listening`) and, if it encrypts, its certificate's
/// (`fingerprint`), and ends when its standard input does. The client's end is a test with `--server HOST:PORT` and the file of
/// [`ServerEnd::pass`].
#[derive(Clone, Copy, Debug)]
pub struct ServerEnd {
    /// The words that start it, behind the program.
    pub words: &'static [&'static str],
    /// The file by which the client's end is let in.
    pub pass: EndPass,
    /// The flag that lets clients drop caches, if the server's end has one.
    pub clears: Option<&'static str>,
}

/// The file by which a client's end is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndPass {
    /// `--token-file`: nothing is encrypted.
    Token,
    /// `--credentials`: everything is encrypted.
    Credentials,
}

/// A task as far as its records are shown: one of the program's own, or a plug-in.
#[derive(Clone, Copy)]
pub struct ShownTask {
    /// The task of the records.
    pub name: &'static str,
    /// How they are shown.
    pub view: &'static View,
}

/// What tables and charts of a task show. Parameters and metrics have the names that they have in records.
pub struct View {
    /// Parameters that lead a row of a table, in order.
    pub lead: &'static [&'static str],
    /// Parameters whose values are curves of a chart.
    pub series: &'static [&'static str],
    /// Parameters that can sweep an axis; an earlier one is preferred.
    pub sweeps: &'static [Sweep<'static>],
    /// Parameters that are the same in all records of a chart.
    pub fixed: &'static [&'static str],
    /// What is measured, the most important first.
    pub metrics: &'static [Metric],
    /// What the ratios in tables are held against.
    pub base: Option<Base>,
}

/// A parameter that sweeps an axis.
#[derive(Clone, Copy)]
pub struct Sweep<'a> {
    /// The parameter.
    pub name: &'a str,
    /// The axis's title.
    pub label: &'a str,
    /// A value as the axis shows it.
    pub text: fn(f64) -> String,
}

/// A figure that records have.
pub struct Metric {
    /// The name in records; it ends in the unit.
    pub name: &'static str,
    /// The title, unit included.
    pub label: &'static str,
    /// A value as a chart shows it.
    pub text: fn(f64) -> String,
    /// Whether it has charts, beside its column in tables.
    pub is_charted: bool,
    /// Which of its values is the better one, where the name does not say it.
    pub better: Option<Better>,
}

/// What ratios are held against: the value `base` of the parameter `side`.
#[derive(Clone, Copy)]
pub struct Base {
    /// The parameter in which compared records differ.
    pub side: &'static str,
    /// Its value in the record that the others are held against.
    pub base: &'static str,
    /// The metric whose ratio is shown.
    pub metric: &'static str,
    /// Parameters that are each side's own choice: sides are compared although they differ in them.
    pub own: &'static [&'static str],
}

/// What a command line will take, roughly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time that does not depend on the number of runs.
    pub once: Duration,
    /// Time of one run of each test.
    pub each_run: Duration,
    /// Main memory at once.
    pub memory_bytes: u64,
    /// Disk space for data that is not there yet.
    pub disk_bytes: u64,
}

/// A verb's flags, from a command line that was taken apart.
///
/// # Errors
/// Wrong usage.
pub fn flags<A: FromArgMatches>(matches: &ArgMatches) -> Result<A, Failure> {
    A::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))
}

/// The value that a record has under the parameter's own name.
pub fn recorded_by_name(parameter: &Parameter, record: &Record) -> Option<String> {
    let value = record.parameters.get(&parameter.name);
    value.map(ToString::to_string)
}

/// A metric that has charts.
pub const fn charted(name: &'static str, label: &'static str, text: fn(f64) -> String) -> Metric {
    Metric {
        name,
        label,
        text,
        is_charted: true,
        better: None,
    }
}

/// A metric of tables alone.
pub const fn listed(name: &'static str, label: &'static str, text: fn(f64) -> String) -> Metric {
    Metric {
        name,
        label,
        text,
        is_charted: false,
        better: None,
    }
}

/// A parameter that sweeps an axis.
pub const fn axis(
    name: &'static str,
    label: &'static str,
    text: fn(f64) -> String,
) -> Sweep<'static> {
    Sweep { name, label, text }
}

impl Tasks {
    /// The task of this name.
    pub fn find(self, name: &str) -> Option<&'static Task> {
        self.iter().find(|task| task.name == name)
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = &'static Task> {
        self.0.iter().copied()
    }
}

impl Task {
    /// The words that name the verb on a command line.
    pub fn verbs(&self) -> impl Iterator<Item = &'static str> {
        self.name.split(' ')
    }

    /// The verb's command line, which begins behind the words that name it.
    pub fn command(&self) -> Command {
        let whole = crate::command();
        let verb = self
            .verbs()
            .try_fold(&whole, |command, verb| command.find_subcommand(verb));
        verb.expect("a task is a verb").clone().no_binary_name(true)
    }

    /// The parameters of its tests.
    pub fn parameters(&self) -> Vec<Parameter> {
        let command = self.command();
        let arguments = command.get_arguments();
        let parameters = arguments.filter_map(Parameter::of);
        parameters
            .filter(|parameter| !self.apart.contains(&parameter.name.as_str()))
            .collect()
    }

    /// The task as its records are shown.
    pub fn shown(&'static self) -> ShownTask {
        ShownTask {
            name: self.name,
            view: &self.view,
        }
    }

    /// Whether the verb has this flag.
    pub fn has_flag(&self, name: &str) -> bool {
        let command = self.command();
        command.get_arguments().any(|a| a.get_long() == Some(name))
    }
}

impl Metric {
    /// Which of its values is the better one.
    pub fn better(&self) -> Better {
        self.better.unwrap_or_else(|| Better::of(self.name))
    }
}

impl Cost {
    /// The time that `runs` runs of each test take.
    pub fn time(&self, runs: u64) -> Duration {
        let runs = u32::try_from(runs).unwrap_or(u32::MAX);
        self.once.saturating_add(self.each_run.saturating_mul(runs))
    }
}

impl fmt::Debug for ShownTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShownTask").field(&self.name).finish()
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Task").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_flag_of_a_task_is_described_and_has_a_type() {
        for task in crate::TASKS.iter() {
            let parameters = task.parameters();
            for flag in task.command().get_arguments() {
                let name = flag.get_id().as_str();
                let help = flag.get_help().map(ToString::to_string);
                let help = help.unwrap_or_else(|| panic!("{} {name}: no help", task.name));
                assert!(!help.starts_with("Of "), "{} {name}: {help}", task.name);
                let is_known = task.apart.contains(&name) || flag.is_hide_set();
                assert!(
                    is_known || parameters.iter().any(|parameter| parameter.id == name),
                    "{} {name}: its value name gives no type (see `Kind`)",
                    task.name
                );
            }
        }
    }

    #[test]
    fn a_view_names_each_metric_once() {
        for task in crate::TASKS.iter() {
            let names: Vec<&str> = task.view.metrics.iter().map(|m| m.name).collect();
            let mut once = names.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(names.len(), once.len(), "{}", task.name);
            if let Some(base) = task.view.base {
                assert!(names.contains(&base.metric), "{}", task.name);
                assert!(task.view.series.contains(&base.side), "{}", task.name);
            }
        }
    }
}
