//! The folder of a box's results.
//!
//! | file | what |
//! |---|---|
//! | `box.json` | the tests, each with its parameters |
//! | `tests/000007.jsonl` | the records of a test; it is there whole or not at all |
//! | `records.jsonl` | the records of all tests, in the order of the box |
//! | `report.html` | the report |
//!
//! A test is done when its file is there, so a run that was killed at any moment goes on where it stood.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dpb_core::measure::{Reading, Record};
use serde_json::{Value, json};

use crate::boxes::{MeasurementBox, Site, Test};
use crate::contained;
use crate::exit::Failure;
use crate::output::write_whole;

/// Most numbered folders that are tried.
const FOLDERS_MAX: u32 = 10_000;

/// A folder of results, complete or not.
#[derive(Debug)]
pub(super) struct Results {
    folder: PathBuf,
    tests: usize,
}

impl Results {
    /// Opens the folder that was asked for, or one beside the working directory. A folder with part of the same box's results
    /// is completed.
    ///
    /// # Errors
    /// Wrong usage: the folder has results of another box, or complete ones.
    pub(super) fn open(asked: Option<PathBuf>, boxed: &MeasurementBox) -> Result<Self, Failure> {
        let plan = plan(boxed);
        let tests = boxed.tests.len();
        if let Some(folder) = asked {
            let results = Self { folder, tests };
            return match results.state(&plan)? {
                State::New => results.begin(&plan),
                State::Partial => Ok(results.swept()),
                State::Complete => Err(Failure::usage(format!(
                    "{} has all results of this box; name another folder, or remove it",
                    results.folder.display()
                ))),
                State::Other => Err(Failure::usage(format!(
                    "{} has something else in it, not part of this box's results; name another folder",
                    results.folder.display()
                ))),
            };
        }
        for number in 1..FOLDERS_MAX {
            let folder = PathBuf::from(match number {
                1 => format!("{}-results", boxed.name),
                number => format!("{}-results-{number}", boxed.name),
            });
            let results = Self { folder, tests };
            match results.state(&plan)? {
                State::New => return results.begin(&plan),
                State::Partial => return Ok(results.swept()),
                State::Complete | State::Other => {}
            }
        }
        Err(Failure::usage("name a folder with --out"))
    }

    fn begin(self, plan: &Value) -> Result<Self, Failure> {
        let made = fs::create_dir_all(self.folder.join("tests"));
        made.map_err(|error| {
            Failure::usage(format!("cannot make {}: {error}", self.folder.display()))
        })?;
        let text = serde_json::to_string_pretty(plan).map_err(anyhow::Error::from)?;
        write_whole(&self.folder.join("box.json"), &(text + "\n"))?;
        Ok(self)
    }

    /// Removes the files that killed processes were writing.
    fn swept(self) -> Self {
        for folder in [self.folder.clone(), self.folder.join("tests")] {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| is_left_behind(&entry.file_name())) {
                // A leftover that cannot be removed harms nothing.
                let _ = fs::remove_file(entry.path());
            }
        }
        self
    }

    /// What the folder holds.
    fn state(&self, plan: &Value) -> Result<State, Failure> {
        let named = |error: io::Error| {
            Failure::usage(format!("cannot read {}: {error}", self.folder.display()))
        };
        match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::New),
            Err(error) => return Err(named(error)),
            Ok(entries) => {
                if entries.count() == 0 {
                    return Ok(State::New);
                }
            }
        }
        let text = match fs::read(self.folder.join("box.json")) {
            Ok(text) => text,
            // Killed between the folder and the plan: `tests` is there and empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let other = fs::read_dir(&self.folder).map_err(named)?;
                let other = other.filter_map(Result::ok).any(|entry| {
                    let name = entry.file_name();
                    name != "tests" && !name.to_string_lossy().starts_with("box.json.")
                });
                return Ok(if other { State::Other } else { State::New });
            }
            Err(error) => return Err(named(error)),
        };
        match serde_json::from_slice::<Value>(&text) {
            Ok(there) if there == *plan && self.is_complete() => Ok(State::Complete),
            Ok(there) if there == *plan => Ok(State::Partial),
            _ => Ok(State::Other),
        }
    }

    /// Whether all tests are there and the file of all records, which is written last, has them.
    fn is_complete(&self) -> bool {
        let Ok(written) = fs::read_to_string(self.records_path()) else {
            return false;
        };
        let whole = || lines(&self.records()?);
        self.missing().is_empty() && whole().is_ok_and(|whole| whole == written)
    }

    /// The tests whose results are not there.
    pub(super) fn missing(&self) -> Vec<usize> {
        (0..self.tests)
            .filter(|&at| !self.path(at).is_file())
            .collect()
    }

    /// Keeps the records of a test.
    pub(super) fn keep(&self, at: usize, records: &[Record]) -> Result<(), Failure> {
        write_whole(&self.path(at), &lines(records)?)
    }

    /// The records of all tests that are there, in the order of the box.
    pub(super) fn records(&self) -> Result<Vec<Record>, Failure> {
        let mut records = Vec::new();
        for at in (0..self.tests).filter(|&at| self.path(at).is_file()) {
            let reading = Reading::of_file(&self.path(at)).map_err(anyhow::Error::from)?;
            if let Some(damage) = reading.damaged.first() {
                return Err(Failure::check(format!(
                    "{}:{}: {}; remove the file, and the test runs again",
                    self.path(at).display(),
                    damage.number,
                    damage.reason
                )));
            }
            records.extend(reading.records.into_iter().map(|line| line.record));
        }
        Ok(records)
    }

    /// Writes the records of all tests into one file, as the last of all.
    pub(super) fn write_records(&self, records: &[Record]) -> Result<(), Failure> {
        write_whole(&self.records_path(), &lines(records)?)
    }

    /// The file of all records.
    pub(super) fn records_path(&self) -> PathBuf {
        self.folder.join("records.jsonl")
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, at: usize) -> PathBuf {
        self.folder.join("tests").join(format!("{at:06}.jsonl"))
    }
}

enum State {
    New,
    Partial,
    Complete,
    Other,
}

/// Whether a file was being written ([`write_whole`]) by a process that has ended.
fn is_left_behind(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let writer = name
        .strip_suffix(".tmp")
        .and_then(|rest| rest.rsplit_once('.'))
        .and_then(|(_, process)| process.parse::<u32>().ok());
    writer.is_some_and(|process| !contained::is_running(process))
}

fn lines(records: &[Record]) -> Result<String, Failure> {
    let lines: Result<Vec<String>, _> = records.iter().map(serde_json::to_string).collect();
    let lines = lines.map_err(|error| Failure::check(format!("a record is no JSON: {error}")))?;
    Ok(lines.iter().map(|line| format!("{line}\n")).collect())
}

/// What a folder's results are of: the tests, by their parameters.
fn plan(boxed: &MeasurementBox) -> Value {
    let test = |test: &Test| {
        let parameters = test.parameters.iter();
        let parameters = parameters
            .map(|(parameter, value)| (parameter.name.clone(), parameter.kind.value(value)));
        let mut plan = json!({
            "task": test.runner.name(),
            "parameters": parameters.collect::<serde_json::Map<_, _>>(),
            "repeats": test.repeats,
        });
        match &test.site {
            Site::Here => {}
            Site::On(machine) => plan["on"] = machine.as_str().into(),
            Site::To(machine) => plan["to"] = machine.as_str().into(),
        }
        plan
    };
    json!({
        "name": boxed.name,
        "seed": boxed.seed,
        "tests": boxed.tests.iter().map(test).collect::<Vec<_>>(),
    })
}
