//! The record: the result of one test, one JSON object, one line of a file.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::statistics::{self, Stability, Summary};
use crate::{Backend, Evidence, MadeOf, OpSpec, ParameterValue};

/// Version of the record's shape. Raised when a field changes meaning or goes, and when a kind of evidence is added: who does not know the
/// kind must not take its figures for another's. Version 2 added [`Evidence::Predicted`] and [`Record::findings`].
pub const SCHEMA_VERSION: u32 = 2;

/// The oldest version that is read. Version 1 is version 2 without what that added.
pub const SCHEMA_VERSION_MIN: u32 = 1;

/// The result of one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Unique: start time and a random part.
    pub id: String,
    /// The task: `op`, `pushdown`, …
    pub task: String,
    /// The test's parameters, by the names they have on the command line (`size`, `threads`, `backend`, `scheme` …);
    /// an operator's own behind `op.`, all of them, those with their usual value too (`op.level`).
    pub parameters: BTreeMap<String, Value>,
    /// The evidence that the numbers rest on.
    pub evidence: Evidence,
    /// The outcome: numbers, or the reason why there are none.
    pub outcome: Outcome,
    /// The check that the numbers passed before they counted.
    pub check: Option<Check>,
    /// Raw samples, by metric name; the unit ends the name (`run_ns`, `latency_ns`).
    pub samples: BTreeMap<String, Samples>,
    /// Counted where it was handled, over all timed runs: `items`, `bytes_in`, `bytes_out`, `polls_empty` …
    pub counts: BTreeMap<String, u64>,
    /// Derived from samples and counts: `tuples_per_s`, `bytes_per_s`, `latency_ns_p99` …
    pub summary: BTreeMap<String, Summary>,
    /// The verdict on whether the numbers can be trusted.
    pub stability: Option<Stability>,
    /// What follows from the numbers, in words, by name: of advice `verdict`, `bound`, `assumes` … Nothing of it is a parameter of the test.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub findings: BTreeMap<String, String>,
    /// The facts with which to get the numbers again.
    pub provenance: Provenance,
}

impl Record {
    /// An empty record of a test that starts now: outcome [`Outcome::Done`], everything else to be filled.
    pub fn new(task: &str, evidence: Evidence, seed: u64) -> Self {
        let provenance = Provenance::here(seed);
        Self {
            schema_version: SCHEMA_VERSION,
            id: unique_id(provenance.started_unix_s),
            task: task.to_owned(),
            parameters: BTreeMap::new(),
            evidence,
            outcome: Outcome::Done,
            check: None,
            samples: BTreeMap::new(),
            counts: BTreeMap::new(),
            summary: BTreeMap::new(),
            stability: None,
            findings: BTreeMap::new(),
            provenance,
        }
    }

    /// An empty record of `spec` on `backend`: its evidence, what it is made of and whose code computes are the backend's own
    /// words, and its name is the parameter `backend`.
    pub fn on(task: &str, backend: &dyn Backend, spec: &OpSpec, seed: u64) -> Self {
        let properties = backend.properties();
        let mut record = Self::new(task, properties.evidence, seed).with("backend", backend.name());
        record.provenance.made_of = Some(properties.made_of);
        if let Some(code) = backend.code(spec) {
            let libraries = &mut record.provenance.libraries;
            libraries.insert(backend.name().to_owned(), code);
        }
        record
    }

    /// With this parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }

    /// With this outcome in place of the numbers: samples and summaries go.
    #[must_use]
    pub fn without_numbers(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self.samples.clear();
        self.summary.clear();
        self
    }

    /// Keeps raw samples and their summary under the same name.
    pub fn sample(&mut self, name: &str, values: Vec<f64>) {
        if let Some(summary) = statistics::summarize(&values) {
            self.summary.insert(name.to_owned(), summary);
        }
        let samples = Samples { values, hdr: None };
        self.samples.insert(name.to_owned(), samples);
    }
}

/// The time and a random part.
pub(super) fn unique_id(unix_s: f64) -> String {
    // The standard library's own source of randomness: one key a process, one step a call.
    let random = RandomState::new().hash_one(std::process::id());
    format!("{unix_s:.6}-{random:016x}")
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// A switch.
    Bool(bool),
    /// A count, a size in bytes.
    Int(i64),
    /// A ratio.
    Float(f64),
    /// Anything else.
    Text(String),
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// Beyond `i64` it becomes the nearest ratio.
impl From<u64> for Value {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Float(value as f64), Self::Int)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

/// Of an operator, as [`OpSpec::parameters`](crate::OpSpec::parameters) gives it.
impl From<ParameterValue> for Value {
    fn from(value: ParameterValue) -> Self {
        match value {
            ParameterValue::Number(number) => Self::Int(number),
            ParameterValue::Text(text) => Self::Text(text),
            ParameterValue::Material(material) => Self::Text(material.to_string()),
        }
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(value) => f.write_str(value),
        }
    }
}

/// The outcome of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// Ran, and every check passed.
    Done,
    /// A check failed, or the run broke. There are no numbers.
    Failed {
        /// The failure, and the input that it came on.
        reason: String,
    },
    /// Not available here; what a person can do about it.
    Unsupported {
        /// The reason why there is no number here.
        reason: String,
    },
    /// Ended before all the runs that were asked for; the numbers are of those that finished.
    Interrupted,
}

/// A check: the oracle, and the number of things that it judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The oracle: `cpu/portable`, `duckdb 2.0.0`, `RFC 3720 B.4` …
    pub against: String,
    /// The number of things that were compared: items, rows, vectors.
    pub compared: u64,
    /// A digest of the results that all compared sides share, if there is one.
    pub digest: Option<String>,
}

/// Raw samples, in the order they were taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// One value a run, or one a job. For long latency series only the histogram is kept.
    pub values: Vec<f64>,
    /// HDR histogram (V2 compressed serialisation, base64) of a long series.
    pub hdr: Option<String>,
}

/// The facts with which to get the same numbers again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The process that made the record, or the run of a box that it was part of. Records of one run share it; numbers of two runs make no ratio and no curve.
    /// Empty in records from before it was kept.
    #[serde(default)]
    pub run: String,
    /// The command line, as it was given.
    pub command: Vec<String>,
    /// Seconds since 1970 at the start, UTC.
    pub started_unix_s: f64,
    /// dpb's version and, if it was built in a checkout, `git describe`.
    pub dpb_version: String,
    /// rustc's version and the target triple.
    pub toolchain: String,
    /// CPU model, as the kernel says it.
    pub cpu_model: String,
    /// Logical CPUs that this process may use.
    pub cpus: u32,
    /// The level of instruction sets that dpb's code could use, by [`cpu_level`](crate::cpu_level)'s names: `x86-64-v4`, or
    /// `x86-64-v3 (masked)` where the CPU has more. Empty in records of before.
    #[serde(default)]
    pub cpu_level: String,
    /// Instruction-set extensions that were found, are not masked, and matter to dpb.
    pub cpu_features: Vec<String>,
    /// Cores that the measuring threads were pinned to; empty if they were not. Workers of a pool are not pinned.
    pub pinned: Vec<u32>,
    /// Frequency governor, if the kernel says.
    pub governor: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// Main memory, bytes.
    pub memory_bytes: u64,
    /// Host name's hash-free label given by the user, or the kernel's node name.
    pub host: String,
    /// Backends and libraries that took part, with versions.
    pub libraries: BTreeMap<String, String>,
    /// The parts of the backend, where there is one; `None` in older records.
    #[serde(default)]
    pub made_of: Option<MadeOf>,
    /// Seed of everything random.
    pub seed: u64,
}
