//! Tests that were measured in several ways: on several machines, or by several backends or schemes of one run. Which was fastest, and whether that
//! is beyond doubt.

use std::collections::{BTreeMap, BTreeSet};

use dpb_core::measure::comparison::{Better, OF_PRECISION};
use dpb_core::measure::{Outcome, Ratio, Record};

use super::origin::{Machines, Origin};
use super::vary::{determines, distinct, number_of, text_of as text};
use crate::shown::ShownTasks;
use crate::spec;
use crate::task::{Metric, ShownTask, Sweep};

/// What the sides of a contest differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// The machine.
    Platforms,
    /// The backend or the scheme, in one run.
    Sides,
}

/// One test, measured in several ways.
pub(super) struct Contest<'a> {
    pub(super) task: ShownTask,
    pub(super) metric: &'static Metric,
    /// What is done, in words: the operator, the pattern, the direction.
    pub(super) work: String,
    /// The values of what sweeps.
    pub(super) setting: Vec<(Sweep<'static>, f64)>,
    /// Who took part, the fastest first; of one that took part in several ways the fastest.
    pub(super) sides: Vec<Side<'a>>,
}

/// Who took part in a contest, and with what record.
#[derive(Debug)]
pub(super) struct Side<'a> {
    pub(super) name: String,
    pub(super) record: &'a Record,
}

/// How far one record is ahead of another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gain {
    /// Above 1 the first one is better, whatever the metric.
    pub(super) times: f64,
    pub(super) standing: Standing,
}

/// What a ratio can be trusted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The 95 % interval leaves out 1.
    Decided,
    /// Other work took time from a side while it was measured.
    Disturbed,
    /// The interval holds 1, or there are too few runs for one.
    TooClose,
}

impl Standing {
    /// What to add where a ratio is said; nothing if it is decided.
    pub(super) fn doubt(self) -> &'static str {
        match self {
            Self::Decided => "",
            Self::Disturbed => ", disturbed by other work",
            Self::TooClose => ", too close to call",
        }
    }
}

/// Parameters in which tests of one kind may differ: notes for a reader, and places on one machine.
const APART: [&str; 4] = ["where", "output", "file", "server"];

impl<'a> Contest<'a> {
    /// All contests among `records`: tests with two sides at least, in the records' order.
    pub(super) fn all(records: &'a [Record], known: &ShownTasks, among: Among) -> Vec<Self> {
        let machines = Machines::of(records);
        let mut contests = Vec::new();
        for task in known.iter() {
            // What a model or a stand-in says is not of the machine that it ran on.
            let counts = |record: &&Record| match among {
                Among::Platforms => record.evidence.kind() == "measured",
                // Nobody is fastest by a prediction.
                Among::Sides => record.evidence.kind() != "predicted",
            };
            let own: Vec<&Record> = records
                .iter()
                .filter(|record| record.task == task.name && record.outcome == Outcome::Done)
                .filter(counts)
                .collect();
            let side = task.view.base.map(|base| base.side);
            if among == Among::Sides && side.is_none() {
                continue;
            }
            let (varying, sweeps) = (varying(&own), sweeps(task, &own));
            for (metric, group) in groups(task, &own, among) {
                let sides = sides(&group, metric, |record| match among {
                    Among::Platforms => machines.name(record),
                    Among::Sides => text(record, side.unwrap_or_default()),
                });
                if sides.len() > 1 {
                    let first = sides[0].record;
                    let swept = sweeps[&text(first, "operator")].iter();
                    let values =
                        swept.filter_map(|sweep| Some((*sweep, number_of(first, sweep.name)?)));
                    contests.push(Self {
                        task,
                        metric,
                        work: work(task, first, &varying, among),
                        setting: values.collect(),
                        sides,
                    });
                }
            }
        }
        contests
    }

    /// How far the fastest is ahead of the next.
    pub(super) fn lead(&self) -> Option<Gain> {
        Gain::of(self.metric, self.sides[0].record, self.sides[1].record)
    }

    /// The record of a side.
    pub(super) fn of(&self, name: &str) -> Option<&'a Record> {
        self.sides
            .iter()
            .find(|side| side.name == name)
            .map(|side| side.record)
    }

    /// The values of what sweeps, in words.
    pub(super) fn setting_text(&self) -> String {
        let values = self.setting.iter();
        let words: Vec<String> = values
            .map(|(sweep, value)| format!("{} {}", sweep.label, (sweep.text)(*value)))
            .collect();
        words.join(", ")
    }
}

impl Gain {
    /// Of `record` over `other`. `None` where a side has no runs.
    pub(super) fn of(metric: &Metric, record: &Record, other: &Record) -> Option<Self> {
        let runs = |record: &'_ Record| Some(record.samples.get(metric.name)?.values.clone());
        let (own, others) = (runs(record)?, runs(other)?);
        let ratio = match metric.better() {
            Better::More => Ratio::of(&own, &others),
            Better::Less => Ratio::of(&others, &own),
        }?;
        let disturbed = |record: &Record| record.stability.as_ref().is_some_and(|s| s.disturbed);
        let standing = match ratio.is_decided() {
            _ if disturbed(record) || disturbed(other) => Standing::Disturbed,
            true => Standing::Decided,
            false => Standing::TooClose,
        };
        Some(Self {
            times: ratio.median,
            standing,
        })
    }

    /// Whether it can be told who is better.
    pub(super) fn is_decided(self) -> bool {
        self.standing == Standing::Decided
    }
}

/// What a test is judged by: of an open loop the time of its jobs, as its rate was given.
fn main_metric(task: ShownTask, record: &Record) -> Option<&'static Metric> {
    let is_open = text(record, "mode") == "open";
    let mut metrics = task
        .view
        .metrics
        .iter()
        .filter(|metric| record.summary.contains_key(metric.name));
    metrics.find(|metric| !is_open || metric.name == "latency_ns_p99")
}

/// The records of each test, with what it is judged by.
fn groups<'a>(
    task: ShownTask,
    records: &[&'a Record],
    among: Among,
) -> Vec<(&'static Metric, Vec<&'a Record>)> {
    let mut groups: Vec<(&'static Metric, Vec<&Record>)> = Vec::new();
    let mut places = BTreeMap::new();
    let side = task.view.base.map_or("", |base| base.side);
    for record in records {
        let Some(metric) = main_metric(task, record) else {
            continue;
        };
        let is_key = |name: &str| {
            !OF_PRECISION.contains(&name)
                && !APART.contains(&name)
                && (among == Among::Platforms || (name != side && is_of_test(task, name)))
        };
        let parameters = record.parameters.iter().filter(|(name, _)| is_key(name));
        let parameters: Vec<String> = parameters
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let run = (among == Among::Sides).then(|| Origin::of(record));
        let key = (
            metric.name,
            format!("{:?}", record.evidence),
            run,
            parameters,
        );
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push((metric, Vec::new()));
        }
        groups[place].1.push(record);
    }
    groups
}

/// Whether sides that differ in this parameter do different work.
fn is_of_test(task: ShownTask, name: &str) -> bool {
    task.view.base.is_none_or(|base| !base.own.contains(&name))
}

/// One record for each name, the fastest first.
fn sides<'a>(
    group: &[&'a Record],
    metric: &Metric,
    name: impl Fn(&Record) -> String,
) -> Vec<Side<'a>> {
    let median = |record: &Record| {
        record
            .summary
            .get(metric.name)
            .map_or(f64::NAN, |number| number.median)
    };
    let mut sides: Vec<Side<'a>> = Vec::new();
    for &record in group {
        let name = name(record);
        match sides.iter_mut().find(|side| side.name == name) {
            Some(side) => {
                let is_faster = match metric.better() {
                    Better::More => median(record) > median(side.record),
                    Better::Less => median(record) < median(side.record),
                };
                if is_faster {
                    side.record = record;
                }
            }
            None => sides.push(Side { name, record }),
        }
    }
    sides.sort_by(|a, b| {
        let order = median(a.record).total_cmp(&median(b.record));
        match metric.better() {
            Better::More => order.reverse(),
            Better::Less => order,
        }
    });
    sides
}

/// The parameters in which records of a task differ; of an operator's own, in which those of the same operator do.
fn varying(records: &[&Record]) -> BTreeSet<(String, String)> {
    let mut seen: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for record in records {
        let operator = text(record, "operator");
        for (name, value) in &record.parameters {
            let of = if spec::is_own(name) {
                operator.clone()
            } else {
                String::new()
            };
            seen.entry((of, name.clone()))
                .or_default()
                .insert(value.to_string());
        }
    }
    let several = seen.into_iter().filter(|(_, values)| values.len() > 1);
    several.map(|(name, _)| name).collect()
}

fn varies(varying: &BTreeSet<(String, String)>, record: &Record, name: &str) -> bool {
    let of = if spec::is_own(name) {
        text(record, "operator")
    } else {
        String::new()
    };
    varying.contains(&(of, name.to_owned()))
}

/// What is done, in words.
fn work(
    task: ShownTask,
    record: &Record,
    differing: &BTreeSet<(String, String)>,
    among: Among,
) -> String {
    let is_swept = |name: &str| task.view.sweeps.iter().any(|sweep| sweep.name == name);
    let side = task
        .view
        .base
        .filter(|_| among == Among::Sides)
        .map(|base| base.side);
    let lead = task.view.lead.iter().copied();
    let lead = lead.filter(|name| !is_swept(name) && Some(*name) != side && is_of_test(task, name));
    let lead = lead.filter(|name| *name == "operator" || varies(differing, record, name));
    let mut words: Vec<String> = lead
        .map(|name| text(record, name))
        .filter(|word| !word.is_empty())
        .collect();
    for (name, value) in spec::own(record) {
        if varies(differing, record, name) && !value.to_string().contains(' ') {
            words.push(format!("{}={value}", spec::bare(name)));
        }
    }
    match words.is_empty() {
        true => task.name.to_owned(),
        false => words.join(" "),
    }
}

/// The sweeps of a task's records, by operator; what follows from another sweep, as the batch from the size, is none.
fn sweeps(task: ShownTask, records: &[&Record]) -> BTreeMap<String, Vec<Sweep<'static>>> {
    let mut by_operator: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for record in records {
        by_operator
            .entry(text(record, "operator"))
            .or_default()
            .push(record);
    }
    let found = by_operator.into_iter().map(|(operator, own)| {
        let mut kept: Vec<Sweep<'static>> = Vec::new();
        for sweep in task.view.sweeps {
            let follows = kept
                .iter()
                .any(|before| determines(&own, before.name, sweep.name));
            if distinct(&own, sweep.name).len() > 1 && !follows {
                kept.push(*sweep);
            }
        }
        (operator, kept)
    });
    found.collect()
}
