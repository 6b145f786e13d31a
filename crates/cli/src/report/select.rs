//! From records to charts: what belongs on one chart, what sweeps, what is held fixed.

use std::collections::{BTreeMap, BTreeSet};

use dpb_core::measure::{Record, Summary, Value};

use super::anchor;
use super::chart::{Chart, Point, Series};
use super::origin::Origins;
use crate::output::number;
use crate::spec;
use crate::task::{Metric, Sweep, Task, Tasks};

/// A view of some records.
struct Charted<'a> {
    task: &'static Task,
    sweeps: Vec<Sweep<'a>>,
    fixed: Vec<&'a str>,
}

/// The published figures that belong beside `records`.
pub(super) fn published_for(records: &[Record], known: Tasks) -> Vec<Record> {
    let has = |task: &str| records.iter().any(|record| record.task == task);
    let tasks = known.iter().filter(|task| has(task.name));
    tasks
        .filter_map(|task| task.published)
        .flat_map(|figures| figures())
        .collect()
}

/// All charts of one task.
pub(super) fn charts(
    task: &'static Task,
    records: &[Record],
    figures: &[Record],
    origins: &Origins<'_>,
) -> Vec<Chart> {
    let charted = Charted::new(task, records);
    let mut groups: BTreeMap<Vec<String>, Vec<&Record>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.task == task.name) {
        groups
            .entry(values(record, &charted.fixed))
            .or_default()
            .push(record);
    }
    let mut charts = Vec::new();
    for group in groups.values() {
        for metric in task.view.metrics.iter().filter(|m| m.is_charted) {
            let with: Vec<&Record> = group
                .iter()
                .copied()
                .filter(|record| record.summary.contains_key(metric.name))
                .collect();
            charts.extend(charted.charts_of(metric, &with, figures, origins));
        }
    }
    charts
}

impl<'a> Charted<'a> {
    /// The operators' own parameters beside the task's: numbers sweep, all others are held fixed.
    fn new(task: &'static Task, records: &'a [Record]) -> Self {
        let mut own: BTreeMap<&str, bool> = BTreeMap::new();
        for (name, value) in records.iter().flat_map(spec::own) {
            *own.entry(name).or_insert(true) &= as_number(value).is_some();
        }
        let mut charted = Self {
            task,
            sweeps: task.view.sweeps.to_vec(),
            fixed: task.view.fixed.to_vec(),
        };
        for (name, is_number) in own {
            match is_number {
                true => charted.sweeps.push(Sweep {
                    name,
                    label: spec::bare(name),
                    text: number,
                }),
                false => charted.fixed.push(name),
            }
        }
        charted
    }

    /// One chart a sweep and a combination of what else varies; one chart of bars if nothing sweeps.
    fn charts_of(
        &self,
        metric: &Metric,
        records: &[&Record],
        figures: &[Record],
        origins: &Origins<'_>,
    ) -> Vec<Chart> {
        let varying: Vec<&Sweep<'_>> = self
            .sweeps
            .iter()
            .filter(|sweep| distinct(records, sweep.name).len() > 1)
            .collect();
        let mut charts = Vec::new();
        for (at, x) in varying.iter().enumerate() {
            // The batch that follows from the size is no sweep of its own.
            if varying[..at]
                .iter()
                .any(|before| determines(records, before.name, x.name))
            {
                continue;
            }
            let others: Vec<&str> = varying
                .iter()
                .map(|sweep| sweep.name)
                .filter(|&name| name != x.name && !determines(records, x.name, name))
                .collect();
            for facet in split(records, &others) {
                if distinct(&facet, x.name).len() > 1 {
                    charts.push(self.chart(metric, Some(x), &facet, figures, origins));
                }
            }
        }
        if charts.is_empty() {
            let names: Vec<&str> = varying.iter().map(|sweep| sweep.name).collect();
            for facet in split(records, &names) {
                charts.push(self.chart(metric, None, &facet, figures, origins));
            }
        }
        charts
    }

    /// What is the same for every point of a chart.
    fn held(&self, x: Option<&Sweep<'_>>, records: &[&Record]) -> String {
        let mut parts = Vec::new();
        for sweep in self
            .sweeps
            .iter()
            .filter(|sweep| x.is_none_or(|x| x.name != sweep.name))
        {
            let value = records
                .first()
                .and_then(|record| record.parameters.get(sweep.name))
                .and_then(as_number);
            if let (Some(value), 1) = (value, distinct(records, sweep.name).len()) {
                parts.push(format!("{} {}", sweep.label, (sweep.text)(value)));
            }
        }
        let said = self.fixed.iter().filter(|name| **name != "operator");
        for (name, value) in
            said.filter_map(|name| Some((name, records.first()?.parameters.get(*name)?)))
        {
            parts.push(format!("{} {value}", spec::bare(name).replace('_', " ")));
        }
        parts.join(" · ")
    }

    fn chart(
        &self,
        metric: &Metric,
        x: Option<&Sweep<'_>>,
        records: &[&Record],
        figures: &[Record],
        origins: &Origins<'_>,
    ) -> Chart {
        let mut notes = vec![self.held(x, records)];
        let mut series: Vec<Series> = Vec::new();
        let runs = origins.names(records);
        for record in records {
            let mut name = values(record, self.task.view.series);
            name.extend(runs.of(record));
            add(&mut series, name.join(", "), x, metric, record, None);
        }
        let beside: Vec<&Record> = figures
            .iter()
            .filter(|figure| figure.task == self.task.name && is_comparable(figure, records, x))
            .collect();
        for figure in &beside {
            let label = figure.parameters.get("platform").map(ToString::to_string);
            add(&mut series, "dpBento".into(), x, metric, figure, label);
        }
        if !beside.is_empty() {
            notes.push(
                "Published: dpBento, scale factor 10, 1 %, 100 Gbit/s; quoted in its records below."
                    .into(),
            );
        }
        let subject = records
            .first()
            .and_then(|record| record.parameters.get("operator"));
        let subject = subject.map_or_else(|| self.task.name.to_owned(), ToString::to_string);
        Chart {
            title: match x {
                Some(x) => format!("{subject}: {} against {}", metric.label, x.label),
                None => format!("{subject}: {}", metric.label),
            },
            notes,
            x_label: x.map_or(String::new(), |x| x.label.to_owned()),
            y_label: metric.label.to_owned(),
            series,
            x_text: x.map(|x| x.text),
            y_text: Some(metric.text),
        }
    }
}

/// Adds a record's number to its curve, one curve a name and kind of evidence.
fn add(
    series: &mut Vec<Series>,
    name: String,
    x: Option<&Sweep<'_>>,
    metric: &Metric,
    record: &Record,
    label: Option<String>,
) {
    let Some(number) = record.summary.get(metric.name) else {
        return;
    };
    let kind = record.evidence.kind();
    let at = x.and_then(|x| record.parameters.get(x.name).and_then(as_number));
    let who = label.clone().unwrap_or_else(|| name.clone());
    let place = x
        .zip(at)
        .map(|(x, at)| format!(", {} {}", x.label, (x.text)(at)));
    let point = Point {
        x: at,
        y: number.median,
        interval: number.ci95_low.zip(number.ci95_high),
        label,
        tip: format!(
            "{who}{}: {}, {kind}",
            place.unwrap_or_default(),
            figure_text(number, metric.text)
        ),
        href: anchor(record),
    };
    match series
        .iter_mut()
        .find(|series| series.name == name && series.kind == kind)
    {
        Some(series) => series.points.push(point),
        None => series.push(Series {
            name,
            kind,
            points: vec![point],
        }),
    }
}

fn figure_text(number: &Summary, text: fn(f64) -> String) -> String {
    match (number.ci95_low, number.ci95_high) {
        (Some(low), Some(high)) => {
            format!(
                "{} (95 % CI {} to {})",
                text(number.median),
                text(low),
                text(high)
            )
        }
        _ => text(number.median),
    }
}

/// A figure of 1 % belongs beside records of 1 %, or on an axis of selectivities.
fn is_comparable(figure: &Record, records: &[&Record], x: Option<&Sweep<'_>>) -> bool {
    let is_axis = |name: &str| x.is_some_and(|x| x.name == name);
    if is_axis("link_gbps") {
        return false;
    }
    if is_axis("selectivity") {
        return true;
    }
    let share = |record: &Record| record.parameters.get("selectivity").and_then(as_number);
    let is_same = |record: &&&Record| match (share(record), share(figure)) {
        (Some(here), Some(there)) => (here / there - 1.0).abs() < 0.2,
        _ => false,
    };
    records.iter().all(|record| is_same(&record))
}

fn values(record: &Record, names: &[&str]) -> Vec<String> {
    let given = names.iter().filter_map(|name| record.parameters.get(*name));
    given.map(ToString::to_string).collect()
}

fn text_of(record: &Record, name: &str) -> String {
    record
        .parameters
        .get(name)
        .map_or(String::new(), ToString::to_string)
}

fn distinct(records: &[&Record], name: &str) -> BTreeSet<String> {
    records.iter().map(|record| text_of(record, name)).collect()
}

/// Whether `name` has one value for each value of `by`.
fn determines(records: &[&Record], by: &str, name: &str) -> bool {
    let mut seen = BTreeMap::new();
    records.iter().all(|record| {
        let value = text_of(record, name);
        *seen
            .entry(text_of(record, by))
            .or_insert_with(|| value.clone())
            == value
    })
}

/// By the values of `names`, in the order in which they came.
fn split<'a>(records: &[&'a Record], names: &[&str]) -> Vec<Vec<&'a Record>> {
    let mut facets: Vec<Vec<&Record>> = Vec::new();
    let mut places = BTreeMap::new();
    for record in records {
        let held: Vec<String> = names.iter().map(|name| text_of(record, name)).collect();
        let place = *places.entry(held).or_insert(facets.len());
        if place == facets.len() {
            facets.push(Vec::new());
        }
        facets[place].push(record);
    }
    facets
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Bool(_) | Value::Text(_) => None,
    }
}
