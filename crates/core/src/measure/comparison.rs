//! Two sets of records, test by test: what became better, what worse, and what cannot be said.
//!
//! Tests are paired by their parameters. A ratio's interval comes of the rank-sum test on the logarithms of the runs ([`Shift::between`]), each
//! at `5 % / n` where `n` ratios are looked at (Bonferroni): all intervals together miss one of them once in twenty times at most.
//! Seven runs a side allow 85 ratios, six 23.
//!
//! What the interval covers is the spread of the runs of each record. Two processes differ by more than that: where their memory lies, what the
//! machine did an hour ago. A small difference between two programs on one machine is [`Turns`](super::turns::Turns)' business.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranks::Shift;
use super::record::{Outcome, Record, Value};
use super::statistics;
use crate::Evidence;

/// The probability that one of all intervals of a comparison misses.
pub const MISS_MAX: f64 = 0.05;

/// The rules by which tests are paired and judged.
#[derive(Clone, Debug)]
pub struct Options {
    /// The metrics that are compared; empty for the one that each record is about.
    pub metrics: Vec<String>,
    /// Parameters that paired tests may differ in.
    pub ignored: BTreeSet<String>,
    /// A ratio this near to 1 is no difference: 0.01 for 1 %.
    pub margin: f64,
    /// True if records of different evidence are compared.
    pub across_evidence: bool,
    /// True if records are compared although other work disturbed one of them.
    pub despite_interference: bool,
    /// True if records of one machine are compared although its state differs: see [`state`].
    pub across_state: bool,
    /// By task, the metrics that it declares, the most important first: a record is about the first that it has. A record of another
    /// task is about its only metric.
    pub declared: BTreeMap<String, Vec<Declared>>,
}

/// A metric that a task declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name in records.
    pub name: String,
    /// Which of its values is the better one.
    pub better: Better,
}

/// Parameters that say how long and how often a test was measured, not what it is; paired tests may differ in them.
pub const OF_PRECISION: [&str; 4] = ["repeat", "seconds", "time_budget", "warm_up_runs"];
/// What an open loop is about, whatever its task: its throughput is what was offered.
const OPEN_LOOP: &str = "latency_ns_p99";

/// The better one of two values of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The larger one.
    More,
    /// The smaller one.
    Less,
}

impl Better {
    /// Of a metric by its `name` alone. Names end in their unit: of what is counted by the second more is better, of time and memory less.
    pub fn of(name: &str) -> Self {
        match name.contains("_per_s") {
            true => Self::More,
            false => Self::Less,
        }
    }
}

/// The comparison of one metric of one test.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The task: `op`, `pushdown`, …
    pub task: String,
    /// The parameters of both tests; of ignored ones those of A.
    pub parameters: BTreeMap<String, Value>,
    /// The metric; empty for a test without numbers.
    pub metric: String,
    /// Which value of the metric is the better one.
    pub better: Better,
    /// The first record.
    pub a: Option<SideOfComparison>,
    /// The second one.
    pub b: Option<SideOfComparison>,
    /// B's runs over A's: the middle of all single ratios (Hodges and Lehmann).
    pub ratio: Option<f64>,
    /// Lower end of the ratio's interval.
    pub ratio_low: Option<f64>,
    /// Upper end.
    pub ratio_high: Option<f64>,
    /// The judgement that follows from the ratio.
    pub verdict: Judgement,
    /// The reasons why it is not comparable, and remarks for the reader: records that are unstable, settings of the machine that differ.
    pub notes: Vec<String>,
}

/// One record's part in a [`Comparison`].
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SideOfComparison {
    /// The record's id.
    pub id: String,
    /// The median over its runs, if it has numbers.
    pub median: Option<f64>,
    /// The number of runs.
    pub runs: u64,
    /// The evidence that its numbers rest on.
    pub evidence: Evidence,
}

/// The judgement that follows from a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// They differ by no more than the margin.
    Same,
    /// The interval holds 1.
    TooClose,
    /// There is no ratio.
    NotComparable,
    /// Only the first set has the test.
    OnlyA,
    /// Only the second one has it.
    OnlyB,
}

impl Judgement {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::TooClose => "too close to call",
            Self::NotComparable => "not comparable",
            Self::OnlyA => "only in A",
            Self::OnlyB => "only in B",
        }
    }
}

impl Comparison {
    /// The gain of B over A: above 1 it is better, below it is worse.
    pub fn gain(&self) -> Option<f64> {
        let ratio = self.ratio?;
        Some(match self.better {
            Better::More => ratio,
            Better::Less => 1.0 / ratio,
        })
    }
}

/// What a test is known by.
type Key = (String, Vec<(String, String)>);

/// Compares `b` with `a`, in the order of `a`; what only `b` has comes last. Of several records of one test the last one counts.
pub fn compare(a: &[Record], b: &[Record], options: &Options) -> Vec<Comparison> {
    let (of_a, of_b) = (by_test(a, options), by_test(b, options));
    let mut all = Vec::new();
    let mut values = Vec::new();
    for (key, record) in &of_a {
        match of_b.iter().find(|(other, _)| other == key) {
            None => all.push(alone(record, Judgement::OnlyA, options)),
            Some((_, other)) => {
                for (compared, runs) in pair(record, other, options) {
                    values.push((all.len(), runs));
                    all.push(compared);
                }
            }
        }
    }
    let is_new = |(key, _): &&(Key, &Record)| !of_a.iter().any(|(other, _)| other == key);
    all.extend(
        of_b.iter()
            .filter(is_new)
            .map(|(_, record)| alone(record, Judgement::OnlyB, options)),
    );
    let ratios = values.iter().filter(|(_, runs)| runs.is_some()).count();
    for (at, runs) in values {
        if let Some(runs) = runs {
            all[at].judge(&runs, ratios, options.margin);
        }
    }
    all
}

/// The logarithms of two records' runs.
struct Runs {
    a: Vec<f64>,
    b: Vec<f64>,
}

impl Comparison {
    fn judge(&mut self, runs: &Runs, ratios: usize, margin: f64) {
        let miss = MISS_MAX / ratios as f64;
        let Some(shift) = Shift::between(&runs.a, &runs.b, miss) else {
            return;
        };
        self.ratio = Some(shift.estimate.exp());
        let Some((low, high)) = shift.interval.map(|(low, high)| (low.exp(), high.exp())) else {
            self.verdict = Judgement::TooClose;
            self.notes.push(format!(
                "{} and {} runs are too few for an interval beside {} other ratios",
                runs.a.len(),
                runs.b.len(),
                ratios - 1
            ));
            return;
        };
        (self.ratio_low, self.ratio_high) = (Some(low), Some(high));
        let is_within = low * (1.0 + margin) >= 1.0 && high <= 1.0 + margin;
        self.verdict = match self.better {
            _ if is_within => Judgement::Same,
            Better::More if low > 1.0 => Judgement::Better,
            Better::More if high < 1.0 => Judgement::Worse,
            Better::Less if high < 1.0 => Judgement::Better,
            Better::Less if low > 1.0 => Judgement::Worse,
            _ => Judgement::TooClose,
        };
    }
}

/// The runs of a record, by one of its metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The metric.
    pub metric: String,
    /// The better one of two of its values.
    pub better: Better,
    /// The value of each run; of a paper's figure the one that it is.
    pub runs: Vec<f64>,
}

impl Subject {
    /// The runs by the metric that the record is about, by what its task declares. `None` if it is about none.
    pub fn of(record: &Record, declared: &BTreeMap<String, Vec<Declared>>) -> Option<Self> {
        Self::by(record, main_metric(record, declared)?, declared)
    }

    /// The runs by this metric. `None` if the record does not have it.
    pub fn by(
        record: &Record,
        metric: &str,
        declared: &BTreeMap<String, Vec<Declared>>,
    ) -> Option<Self> {
        let runs = runs(record, metric);
        (!runs.is_empty()).then(|| Self {
            metric: metric.to_owned(),
            better: better(record, metric, declared),
            runs,
        })
    }
}

/// The last record of each test, in the order of the first ones.
fn by_test<'a>(records: &'a [Record], options: &Options) -> Vec<(Key, &'a Record)> {
    let mut tests: Vec<(Key, &Record)> = Vec::new();
    let mut places: BTreeMap<Key, usize> = BTreeMap::new();
    for record in records {
        let is_key = |name: &str| !OF_PRECISION.contains(&name) && !options.ignored.contains(name);
        let parameters = record.parameters.iter().filter(|(name, _)| is_key(name));
        let parameters = parameters.map(|(name, value)| (name.clone(), value.to_string()));
        let key = (record.task.clone(), parameters.collect::<Vec<_>>());
        match places.get(&key) {
            Some(&place) => tests[place].1 = record,
            None => {
                places.insert(key.clone(), tests.len());
                tests.push((key, record));
            }
        }
    }
    tests
}

/// A test that one set lacks.
fn alone(record: &Record, verdict: Judgement, options: &Options) -> Comparison {
    let metric = main_metric(record, &options.declared).unwrap_or_default();
    let side = Some(side(record, metric));
    let (a, b) = match verdict {
        Judgement::OnlyB => (None, side),
        _ => (side, None),
    };
    Comparison {
        task: record.task.clone(),
        parameters: record.parameters.clone(),
        metric: metric.to_owned(),
        better: better(record, metric, &options.declared),
        a,
        b,
        ratio: None,
        ratio_low: None,
        ratio_high: None,
        verdict,
        notes: Vec::new(),
    }
}

/// A comparison for each metric, not judged yet, and the runs that it will be judged by.
fn pair(a: &Record, b: &Record, options: &Options) -> Vec<(Comparison, Option<Runs>)> {
    let metrics: Vec<&str> = match &options.metrics[..] {
        [] => vec![metric_of_both(a, b, options)],
        metrics => metrics.iter().map(String::as_str).collect(),
    };
    let pairs = metrics.into_iter().map(|metric| {
        let reason = not_comparable(a, b, metric, options);
        let mut compared = Comparison {
            a: Some(side(a, metric)),
            b: Some(side(b, metric)),
            notes: reason
                .iter()
                .cloned()
                .chain(remarks(a, b, options))
                .collect(),
            ..alone(a, Judgement::NotComparable, options)
        };
        compared.metric = metric.to_owned();
        compared.better = better(a, metric, &options.declared);
        let logarithms = |record: &Record| -> Vec<f64> {
            let values = runs(record, metric);
            values.iter().map(|value| value.ln()).collect()
        };
        let logarithms = reason.is_none().then(|| Runs {
            a: logarithms(a),
            b: logarithms(b),
        });
        (compared, logarithms)
    });
    pairs.collect()
}

fn side(record: &Record, metric: &str) -> SideOfComparison {
    let values = runs(record, metric);
    SideOfComparison {
        id: record.id.clone(),
        median: statistics::median(&values),
        runs: values.len() as u64,
        evidence: record.evidence.clone(),
    }
}

/// The value of each run; where only one was kept, as of a paper's figure, that. Samples without a summary are of jobs or messages,
/// of which one run has many: they depend on each other, and make no interval.
fn runs(record: &Record, metric: &str) -> Vec<f64> {
    if !record.summary.contains_key(metric) {
        return Vec::new();
    }
    let samples = record.samples.get(metric).map(|samples| &samples.values);
    match samples.filter(|values| !values.is_empty()) {
        Some(values) => values.clone(),
        None => record
            .summary
            .get(metric)
            .map(|summary| summary.median)
            .into_iter()
            .collect(),
    }
}

/// What the record is about.
fn main_metric<'a>(
    record: &'a Record,
    declared: &'a BTreeMap<String, Vec<Declared>>,
) -> Option<&'a str> {
    let is_open =
        matches!(record.parameters.get("mode"), Some(Value::Text(mode)) if mode == "open");
    let has = |metric: &&str| record.summary.contains_key(*metric);
    if is_open && has(&OPEN_LOOP) {
        return Some(OPEN_LOOP);
    }
    match declared.get(&record.task) {
        Some(metrics) => metrics.iter().map(|metric| metric.name.as_str()).find(has),
        None if record.summary.len() == 1 => record.summary.keys().next().map(String::as_str),
        None => None,
    }
}

/// What a pair is about: what A is about if B has it too, else the first declared metric that both have. Of a paper's number, which is one
/// metric of a test, that is the one.
fn metric_of_both<'a>(a: &'a Record, b: &'a Record, options: &'a Options) -> &'a str {
    let mains = [
        main_metric(a, &options.declared),
        main_metric(b, &options.declared),
    ];
    let has = |record: &Record, metric: &str| record.summary.contains_key(metric);
    let is_shared = |metric: &&str| has(a, metric) && has(b, metric);
    let declared = options.declared.get(&a.task).into_iter().flatten();
    let declared = declared.map(|metric| metric.name.as_str());
    let mut shared = mains.into_iter().flatten().chain(declared);
    let first = mains.into_iter().flatten().next();
    shared.find(is_shared).or(first).unwrap_or_default()
}

/// Which value of a record's metric is the better one: as its task declares, else by the metric's name.
fn better(record: &Record, metric: &str, declared: &BTreeMap<String, Vec<Declared>>) -> Better {
    let declared = declared.get(&record.task);
    let mut declared = declared.into_iter().flatten();
    declared
        .find(|declared| declared.name == metric)
        .map_or_else(|| Better::of(metric), |declared| declared.better)
}

/// Why there is no ratio.
fn not_comparable(a: &Record, b: &Record, metric: &str, options: &Options) -> Option<String> {
    for (name, record) in [("A", a), ("B", b)] {
        let said = match &record.outcome {
            Outcome::Done => continue,
            Outcome::Failed { reason } => format!("failed: {reason}"),
            Outcome::Unsupported { reason } => format!("is unsupported: {reason}"),
            Outcome::Interrupted => "was interrupted".to_owned(),
        };
        return Some(format!("{name} {said}"));
    }
    if a.evidence.kind() != b.evidence.kind() && !options.across_evidence {
        return Some(format!(
            "A is {}, B {}",
            a.evidence.kind(),
            b.evidence.kind()
        ));
    }
    if a.evidence.kind() != b.evidence.kind()
        && [a, b].iter().any(|side| is_predicted(side))
        && !is_same_test(a, b)
    {
        return Some(
            "a prediction shares a ratio with what was measured in the same test alone".to_owned(),
        );
    }
    let differing = differing_state(a, b);
    if !differing.is_empty() && !options.across_state {
        return Some(format!(
            "the machine's state differs: {}",
            differing.join("; ")
        ));
    }
    for (name, record) in [("A", a), ("B", b)] {
        if metric.is_empty() {
            return Some("no main metric is known; name one".to_owned());
        }
        if let Some(stability) = &record.stability
            && stability.disturbed
            && !options.despite_interference
        {
            return Some(format!("{name} was disturbed"));
        }
        let values = runs(record, metric);
        if values.is_empty() {
            return Some(format!("{name} has no `{metric}`"));
        }
        if values.iter().any(|&value| value <= 0.0) {
            return Some(format!("{name} has a run of zero"));
        }
    }
    None
}

fn is_predicted(record: &Record) -> bool {
    matches!(record.evidence, Evidence::Predicted { .. })
}

/// True if two records differ in how precisely they were measured at most.
fn is_same_test(a: &Record, b: &Record) -> bool {
    let names = a.parameters.keys().chain(b.parameters.keys());
    let mut names = names.filter(|name| !OF_PRECISION.contains(&name.as_str()));
    names.all(|name| a.parameters.get(name) == b.parameters.get(name))
}

/// What a reader of the ratio should know.
fn remarks(a: &Record, b: &Record, options: &Options) -> Vec<String> {
    let mut remarks = Vec::new();
    if a.evidence.kind() != b.evidence.kind() {
        remarks.push(format!(
            "across evidence: A is {}, B {}",
            a.evidence.kind(),
            b.evidence.kind()
        ));
        if is_predicted(a) || is_predicted(b) {
            remarks.push("the ratio is the prediction's error".to_owned());
        }
    }
    for (name, record) in [("A", a), ("B", b)] {
        if let Some(stability) = &record.stability
            && !stability.stable
        {
            remarks.push(format!(
                "{name} is unstable: {}",
                stability.reasons.join("; ")
            ));
        }
    }
    if options.across_state {
        remarks.extend(differing_state(a, b));
    }
    let pinned = [a, b].map(|record| &record.provenance.pinned);
    if is_one_machine(a, b) && pinned[0] != pinned[1] {
        remarks.push(format!("pinned cores: {:?} and {:?}", pinned[0], pinned[1]));
    }
    remarks
}

fn is_one_machine(a: &Record, b: &Record) -> bool {
    a.provenance.host == b.provenance.host && a.provenance.cpu_model == b.provenance.cpu_model
}

/// A machine's state as a record has it, by name: what changes its speed from one day to another, whatever program runs.
pub fn state(record: &Record) -> [(&'static str, String); 4] {
    let provenance = &record.provenance;
    [
        ("governor", provenance.governor.clone().unwrap_or_default()),
        ("CPU level", provenance.cpu_level.clone()),
        ("kernel", provenance.kernel.clone()),
        ("CPUs", provenance.cpus.to_string()),
    ]
}

/// What differs in the state of one machine, in words; of two machines nothing, for there the difference is the point.
fn differing_state(a: &Record, b: &Record) -> Vec<String> {
    if !is_one_machine(a, b) {
        return Vec::new();
    }
    let both = state(a).into_iter().zip(state(b));
    let differing = both.filter(|(a, b)| a != b);
    let word = |value: String| match value.is_empty() {
        true => "unknown".to_owned(),
        false => value,
    };
    differing
        .map(|((name, a), (_, b))| format!("{name}: {} and {}", word(a), word(b)))
        .collect()
}

#[cfg(test)]
mod tests;
