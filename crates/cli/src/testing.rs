//! The readers of files that strangers write, for fuzzers and tests: boxes, plug-ins, published numbers; and the messages of the service
//! `tasks`.
//!
//! Nothing here opens a device, connects to another machine or starts a process.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use dpb_core::measure::{Evidence, Record};
use dpb_core::{Families, Family, Timer, WallClock};
use dpb_operators::cpu::CpuPaths;
use dpb_operators::registry::Operators;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::Globals;
use crate::boxes::{Changes, MeasurementBox, SHIPPED, repeats_of};
use crate::plugin::{Plugin, Plugins};
use crate::report::published::Work;
use crate::task::{Cost, Place};
use crate::tasks_service::protocol::{
    Checked, Description, Ended, Ready, TestOrder, decode, encode,
};
use crate::tasks_service::{Quotas, TasksOptions, TasksService};

/// The CPU's paths alone: other families start threads, look for devices or connect.
static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let paths: &'static dyn Family = Box::leak(Box::new(CpuPaths::new(Operators::DPB)));
    Families::new(Box::leak(Box::new([paths])))
});

/// The whole of dpb, with these backends.
pub(crate) fn globals(families: Families) -> Globals {
    Globals {
        format: None,
        quiet: true,
        cpu_level: None,
        families,
        operators: Operators::DPB,
        tasks: crate::TASKS,
        estimate: std::time::Duration::ZERO,
    }
}

/// The texts of the boxes that dpb ships.
pub fn shipped_boxes() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|shipped| shipped.text)
}

/// A box, read and checked.
#[derive(Debug)]
pub struct ReadBox(MeasurementBox);

impl ReadBox {
    /// Reads a box of dpb's or of dpBento's form, without plug-ins.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let globals = globals(*FAMILIES);
        let (plugins, changes) = (Plugins::default(), Changes::default());
        MeasurementBox::read("fuzz.json", text, &plugins, &changes, &globals)
            .map(Self)
            .map_err(|failure| failure.message)
    }

    /// The number of tests.
    pub fn tests(&self) -> usize {
        self.0.tests.len()
    }

    /// The command line of the test at `at`, without the program's name.
    pub fn words(&self, at: usize) -> Vec<String> {
        let test = &self.0.tests[at];
        test.words(repeats_of(test), self.0.seed)
    }

    /// Whether the whole program's parser takes that command line, and takes each value for what the box says that it is.
    ///
    /// # Errors
    /// The parser's complaint, or the value that the parser takes for another flag's.
    pub fn accepts(&self, at: usize) -> Result<(), String> {
        static COMMAND: LazyLock<Mutex<clap::Command>> =
            LazyLock::new(|| Mutex::new(crate::command()));
        let words = [vec!["dpb".to_owned()], self.words(at)].concat();
        let mut command = COMMAND.lock().unwrap_or_else(PoisonError::into_inner);
        let matches = command.try_get_matches_from_mut(words);
        let matches = matches.map_err(|error| error.to_string())?;
        let mut matches = &matches;
        while let Some((_, inner)) = matches.subcommand() {
            matches = inner;
        }
        for (parameter, value) in &self.0.tests[at].parameters {
            if parameter.place == Place::Position {
                let raw = matches.get_raw(&parameter.id).into_iter().flatten();
                if !raw.into_iter().any(|raw| raw == value.as_str()) {
                    return Err(format!("`{value}` is taken for a flag"));
                }
            }
        }
        Ok(())
    }

    /// A box of dpb's form that names the tests from `from` to `to` one by one.
    pub fn written_out(&self, from: usize, to: usize) -> String {
        let tasks = self.0.tests[from..to].iter().map(|test| {
            let parameters = test.parameters.iter().map(|(parameter, value)| {
                let value = match value.as_str() {
                    "true" | "false" if parameter.kind == crate::task::Kind::Switch => {
                        Value::Bool(value == "true")
                    }
                    text => Value::from(text),
                };
                (parameter.name.clone(), value)
            });
            let mut task = json!({
                "task": test.runner.name(),
                "parameters": parameters.collect::<Map<_, _>>(),
                "metrics": test.metrics,
            });
            if let Some(repeats) = test.repeats {
                task["repeats"] = repeats.into();
            }
            task
        });
        json!({ "seed": self.0.seed, "tasks": tasks.collect::<Vec<_>>() }).to_string()
    }
}

/// An agent that judges tests of clients, and runs none.
#[allow(missing_debug_implementations)]
pub struct Judge(TasksService);

impl Judge {
    /// An agent without plug-ins that gives a test 1 GiB of disk space and a minute.
    pub fn new() -> Self {
        let options = TasksOptions {
            data_dir: PathBuf::from("/nowhere"),
            plugins: Plugins::default(),
            quotas: Quotas {
                memory_bytes: Some(1 << 30),
                disk_bytes: 1 << 30,
                seconds: 60,
            },
            may_clear: false,
            idle_patience: None,
            globals: globals(*FAMILIES),
        };
        let clock: Arc<dyn Timer> = Arc::new(WallClock::default());
        Self(TasksService::new(options, &clock))
    }

    /// For the body of a question: whether the agent takes each of the tests.
    ///
    /// # Errors
    /// What is wrong with the body.
    pub fn check(&self, body: &[u8]) -> Result<Vec<bool>, String> {
        let checked = self.0.check(body).map_err(|error| error.to_string())?;
        let takes = checked
            .iter()
            .map(|checked| matches!(checked, Checked::Takes(_)));
        Ok(takes.collect())
    }

    /// For the body of an order: the command line that it makes, without the program's name, if the agent takes it.
    ///
    /// # Errors
    /// What is wrong with the body, or why the test is refused.
    pub fn order(&self, body: &[u8]) -> Result<Vec<String>, String> {
        let order: TestOrder = decode(body).map_err(|error| error.to_string())?;
        let ordered = self.0.ordered(&order);
        let (test, _) = ordered.map_err(|error| error.to_string())?;
        Ok(test.words(order.repeats, order.seed))
    }
}

impl Default for Judge {
    fn default() -> Self {
        Self::new()
    }
}

/// The bodies of an agent's messages of the service `tasks`, read as a client does, and written again; those that are some message's.
///
/// # Panics
/// If what was written is read as something else.
pub fn read_agents_messages(body: &[u8]) -> Vec<Vec<u8>> {
    fn again<T>(body: &[u8]) -> Option<Vec<u8>>
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        let read: T = decode(body).ok()?;
        let written = encode(&read).expect("it was read");
        let reread: T = decode(&written).expect("it was written");
        assert_eq!(reread, read);
        Some(written)
    }
    if let Ok(checked) = decode::<Vec<Checked>>(body) {
        for checked in checked {
            if let Checked::Takes(taken) = checked {
                // Times that cannot be are none, so that they can be added up.
                let cost = Cost::from(taken);
                assert!(cost.once.checked_add(cost.each_run).is_some());
            }
        }
    }
    let messages = [
        again::<Vec<Checked>>(body),
        again::<Description>(body),
        again::<Ended>(body),
        again::<Ready>(body),
    ];
    messages.into_iter().flatten().collect()
}

/// A plug-in's manifest, read and checked.
#[derive(Debug)]
pub struct ReadPlugin(Plugin);

impl ReadPlugin {
    /// Reads a manifest.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(manifest: &[u8]) -> Result<Self, String> {
        Plugin::read(manifest, PathBuf::from("/nowhere")).map(Self)
    }

    /// The names of its metrics.
    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        self.0.metrics.iter().map(|metric| metric.name.as_str())
    }

    /// The defaults of its parameters, each as a box gives it and as a test is given it. Both are the same value.
    pub fn defaults(&self) -> impl Iterator<Item = (Value, Result<Value, String>)> {
        self.0.parameters.iter().filter_map(|parameter| {
            let value = parameter.kind.value(parameter.default.as_deref()?);
            let again = parameter.text(&value);
            let again = again.map(|text| parameter.kind.value(&text));
            Some((value, again))
        })
    }

    /// The records of what its `run` printed.
    ///
    /// # Errors
    /// What is wrong with the output.
    pub fn results(&self, stdout: &[u8], repeats: u64) -> Result<Vec<Record>, String> {
        let record = || Record::new(&self.0.name, Evidence::Measured, 1);
        self.0.results(stdout, &record, repeats)
    }
}

/// The records of a data file of published numbers.
///
/// # Errors
/// What is wrong with the file.
pub fn published(text: &str) -> Result<Vec<Record>, String> {
    Work::read(text).map(|work| work.records().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_boxes_are_the_same_when_they_are_written_out() {
        for text in shipped_boxes() {
            // One with other backends than the CPU's paths is refused here, with its place.
            let Ok(read) = ReadBox::read(text) else {
                continue;
            };
            let to = read.tests().min(50);
            let again = ReadBox::read(&read.written_out(0, to)).expect("the same box");
            assert_eq!(again.tests(), to);
            for at in 0..to {
                assert_eq!(again.words(at), read.words(at));
                assert_eq!(read.accepts(at), Ok(()));
            }
        }
    }

    #[test]
    fn no_value_of_a_box_becomes_a_flag() {
        for value in ["--suite", "--out=/dev/full", "--latency", "-q"] {
            let text = json!({ "tasks": [ { "task": "op", "parameters": { "operator": value, "size": 64 } } ] });
            assert!(ReadBox::read(&text.to_string()).is_err(), "{value}");
        }
    }
}
