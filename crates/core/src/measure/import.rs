//! Results of other programs, read into records: fio, iperf3, sysbench, stress-ng, perftest, DOCA Bench, Criterion.
//!
//! A record says which program measured, what it was told, and the figures that it printed, in dpb's units. What dpb did not see stays empty: nothing was
//! checked, no machine is described but by the name that the file or the caller gives. Most programs print one figure a run; the same test in
//! several files becomes one record with a value for each ([`merge`]), which is what gives a comparison its interval.

mod criterion;
mod doca_bench;
mod fio;
mod iperf3;
mod perftest;
mod stress_ng;
mod sysbench;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value as Json;

use super::comparison::{Better, Declared};
use super::record::{Outcome, Provenance, Record, SCHEMA_VERSION, Value, unique_id};
use crate::Evidence;

pub use criterion::records as of_criterion;

/// The task of Criterion's records.
pub const CRITERION: &str = "criterion";

/// The metrics of Criterion's records, the most important first.
pub fn metrics_of_criterion() -> Vec<Declared> {
    declared(&[
        ("items_per_s", Better::More),
        ("bytes_per_s", Better::More),
        ("run_ns", Better::Less),
    ])
}

fn declared(metrics: &[(&str, Better)]) -> Vec<Declared> {
    let metrics = metrics.iter().map(|(name, better)| Declared {
        name: (*name).to_owned(),
        better: *better,
    });
    metrics.collect()
}

/// A program whose results can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `fio --output-format=json` or `json+`.
    Fio,
    /// `iperf3 --json`.
    Iperf3,
    /// The text that `sysbench … run` prints.
    Sysbench,
    /// The text that `stress-ng --metrics` or `--metrics-brief` prints, or the file of its `--yaml`.
    StressNg,
    /// The text that perftest's programs (`ib_write_bw` …) print.
    Perftest,
    /// The text that `doca_bench` prints.
    DocaBench,
}

/// The origin of results, as far as the caller knows it.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The machine's name; `None` for the one that the file names.
    pub host: Option<String>,
    /// The evidence that the figures rest on.
    pub evidence: Evidence,
}

/// The reason why a file is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError(String);

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ImportError {}

fn wrong(what: impl Into<String>) -> ImportError {
    ImportError(what.into())
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Fio,
        Self::Iperf3,
        Self::Sysbench,
        Self::StressNg,
        Self::Perftest,
        Self::DocaBench,
    ];

    /// Its name, which is the task in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fio => "fio",
            Self::Iperf3 => "iperf3",
            Self::Sysbench => "sysbench",
            Self::StressNg => "stress-ng",
            Self::Perftest => "perftest",
            Self::DocaBench => "doca_bench",
        }
    }

    /// The metrics of its records, the most important first.
    pub fn metrics(self) -> Vec<Declared> {
        use Better::{Less, More};
        let metrics: &[(&str, Better)] = match self {
            Self::Fio => &[
                ("items_per_s", More),
                ("bytes_per_s", More),
                ("latency_ns_p50", Less),
                ("latency_ns_p99", Less),
            ],
            Self::Iperf3 => &[
                ("bytes_per_s", More),
                ("packets_per_s", More),
                ("jitter_ns", Less),
            ],
            Self::Sysbench => &[
                ("items_per_s", More),
                ("bytes_per_s", More),
                ("latency_ns_mean", Less),
                ("latency_ns_p95", Less),
            ],
            Self::StressNg => &[("bogo_ops_per_s", More), ("bogo_ops_per_cpu_s", More)],
            Self::Perftest => &[
                ("items_per_s", More),
                ("bytes_per_s", More),
                ("bytes_per_s_peak", More),
                ("latency_ns_p50", Less),
                ("latency_ns_mean", Less),
                ("latency_ns_p99", Less),
            ],
            Self::DocaBench => &[
                ("items_per_s", More),
                ("bytes_per_s", More),
                ("output_bytes_per_s", More),
                ("latency_ns_p50", Less),
                ("latency_ns_mean", Less),
                ("latency_ns_p99", Less),
            ],
        };
        declared(metrics)
    }

    /// The program that wrote `text`, by what no other writes.
    pub fn of(text: &str) -> Option<Self> {
        let is_json = text.trim_start().starts_with('{');
        match () {
            () if text.contains("\"fio version\"") => Some(Self::Fio),
            () if is_json && text.contains("\"intervals\"") => Some(Self::Iperf3),
            () if is_json => None,
            () if text.contains("stress-ng: ") => Some(Self::StressNg),
            () if text.contains(stress_ng::YAML_KEY) => Some(Self::StressNg),
            () if text.lines().any(|line| line.starts_with("sysbench ")) => Some(Self::Sysbench),
            () if text.contains("#bytes") && text.contains("#iterations") => Some(Self::Perftest),
            () if text.contains("Aggregate stats") && text.contains("bench configuration") => {
                Some(Self::DocaBench)
            }
            () => None,
        }
    }

    /// The records in what the program wrote, one at least.
    ///
    /// # Errors
    /// What is missing, or cannot be read.
    pub fn records(self, text: &str, origin: &Origin) -> Result<Vec<Record>, ImportError> {
        let records = match self {
            Self::Fio => fio::records(text, origin),
            Self::Iperf3 => iperf3::records(text, origin),
            Self::Sysbench => sysbench::records(text, origin),
            Self::StressNg => stress_ng::records(text, origin),
            Self::Perftest => perftest::records(text, origin),
            Self::DocaBench => doca_bench::records(text, origin),
        }?;
        match records.is_empty() {
            true => Err(wrong("it has no result")),
            false => Ok(records),
        }
    }
}

/// Records of one test become one, with the values of all.
pub fn merge(records: Vec<Record>) -> Vec<Record> {
    type Key = (String, Vec<(String, String)>, String, String);
    let mut places: BTreeMap<Key, usize> = BTreeMap::new();
    let mut merged: Vec<Record> = Vec::new();
    for record in records {
        let parameters = record.parameters.iter();
        let parameters = parameters.map(|(name, value)| (name.clone(), value.to_string()));
        let provenance = &record.provenance;
        let version: Vec<&str> = provenance.libraries.values().map(String::as_str).collect();
        let key = (
            record.task.clone(),
            parameters.collect(),
            provenance.host.clone(),
            version.join(" "),
        );
        match places.get(&key) {
            Some(&place) if is_done(&merged[place]) && is_done(&record) => {
                add(&mut merged[place], record);
            }
            _ => {
                places.insert(key, merged.len());
                merged.push(record);
            }
        }
    }
    merged
}

fn is_done(record: &Record) -> bool {
    record.outcome == Outcome::Done
}

fn add(record: &mut Record, more: Record) {
    for (name, samples) in more.samples {
        let known = record.samples.get(&name);
        let mut values = known.map_or_else(Vec::new, |samples| samples.values.clone());
        values.extend(samples.values);
        record.sample(&name, values);
    }
    for (name, count) in more.counts {
        let sum = record.counts.entry(name).or_default();
        *sum = sum.saturating_add(count);
    }
}

/// An empty record of a program's result: nothing of this machine is in it.
fn record(
    program: &str,
    version: &str,
    origin: &Origin,
    host: &str,
    started_unix_s: f64,
) -> Record {
    let id = unique_id(started_unix_s);
    Record {
        schema_version: SCHEMA_VERSION,
        id: id.clone(),
        task: program.to_owned(),
        parameters: BTreeMap::new(),
        evidence: origin.evidence.clone(),
        outcome: Outcome::Done,
        check: None,
        samples: BTreeMap::new(),
        counts: BTreeMap::new(),
        summary: BTreeMap::new(),
        stability: None,
        findings: BTreeMap::new(),
        provenance: Provenance {
            run: id,
            command: Vec::new(),
            started_unix_s,
            dpb_version: String::new(),
            toolchain: String::new(),
            cpu_model: String::new(),
            cpus: 0,
            cpu_level: String::new(),
            cpu_features: Vec::new(),
            pinned: Vec::new(),
            governor: None,
            kernel: String::new(),
            memory_bytes: 0,
            host: origin.host.clone().unwrap_or_else(|| host.to_owned()),
            libraries: BTreeMap::from([(program.to_owned(), version.to_owned())]),
            made_of: None,
            seed: 0,
        },
    }
}

/// Keeps a figure, if it is one: programs print zero for what they did not measure.
fn keep(record: &mut Record, name: &str, value: Option<f64>) {
    if let Some(value) = value.filter(|value| value.is_finite() && *value > 0.0) {
        record.sample(name, vec![value]);
    }
}

/// A word as a parameter: a whole number, or text.
fn parameter(word: &str) -> Value {
    match word.parse::<i64>() {
        Ok(number) if number.to_string() == word => Value::Int(number),
        _ => Value::Text(word.to_owned()),
    }
}

/// A member of a JSON object as a number.
fn number(object: &Json, name: &str) -> Option<f64> {
    object.get(name)?.as_f64()
}

/// The number that a line ends with behind `label`, without its unit.
fn behind(line: &str, label: &str) -> Option<f64> {
    let rest = line.trim().strip_prefix(label)?.trim_start();
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    rest[..end]
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests;
