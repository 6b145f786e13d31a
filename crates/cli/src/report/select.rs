//! From records to charts: what belongs on one chart, what sweeps, what is held fixed.

use std::collections::BTreeMap;

use dpb_core::measure::{Evidence, Record, Summary};

use super::anchor;
use super::chart::{Chart, Point, Series};
use super::origin::Origins;
use super::published::works;
use super::vary::{as_number, determines, distinct, number_of, text_of};
use crate::output::number;
use crate::shown::ShownTasks;
use crate::spec;
use crate::task::{Metric, ShownTask, Sweep};

/// Parameters that are a number of workers.
const THREADS: [&str; 3] = ["threads", "jobs", "connections"];
/// Parameters that are a size of the work.
const SIZES: [&str; 2] = ["size", "block"];

/// A view of some records.
struct Charted<'a> {
    task: ShownTask,
    sweeps: Vec<Sweep<'a>>,
    fixed: Vec<&'a str>,
    /// The settings of simulated systems: one is the axis, and each combination of the others has a curve.
    settings: Vec<&'a str>,
}

/// The published figures that belong beside `records`.
pub(super) fn published_for(records: &[Record], known: &ShownTasks) -> Vec<Record> {
    let has = |task: &str| records.iter().any(|record| record.task == task);
    let tasks = known.own.iter().filter(|task| has(task.name));
    tasks
        .filter_map(|task| task.published)
        .flat_map(|figures| figures())
        .collect()
}

/// All charts of one task.
pub(super) fn charts(
    task: ShownTask,
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
    /// The operators' own parameters beside the task's: numbers sweep, all others are held fixed. Settings of simulated systems sweep if they are numbers.
    fn new(task: ShownTask, records: &'a [Record]) -> Self {
        let mut own: BTreeMap<&str, bool> = BTreeMap::new();
        for (name, value) in records.iter().flat_map(spec::own) {
            *own.entry(name).or_insert(true) &= as_number(value).is_some();
        }
        let mut charted = Self {
            task,
            sweeps: task.view.sweeps.to_vec(),
            fixed: task.view.fixed.to_vec(),
            settings: Vec::new(),
        };
        for (name, is_number) in own {
            let is_setting = name.starts_with(spec::SETTING);
            if is_setting {
                charted.settings.push(name);
            }
            if is_number {
                charted.sweeps.push(Sweep {
                    name,
                    label: spec::bare(name),
                    text: number,
                });
            } else if !is_setting {
                charted.fixed.push(name);
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
        let mut charts = self.surfaces(metric, &varying, records, origins);
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
                .filter(|name| !self.settings.contains(name))
                .filter(|&name| name != x.name && !determines(records, x.name, name))
                .collect();
            let mut placed = records.to_vec();
            placed.retain(|record| record.parameters.contains_key(x.name));
            for facet in split(&placed, &others) {
                if distinct(&facet, x.name).len() > 1 {
                    charts.push(self.chart(metric, Some(x), &facet, figures, origins));
                }
            }
        }
        if charts.is_empty() {
            let names = varying.iter().map(|sweep| sweep.name);
            let names: Vec<&str> = names.filter(|name| !self.settings.contains(name)).collect();
            for facet in split(records, &names) {
                charts.push(self.chart(metric, None, &facet, figures, origins));
            }
        }
        charts
    }

    /// As DPUBench's figure 11: against threads, with a line for each size; one chart for each curve that the other charts have.
    fn surfaces(
        &self,
        metric: &Metric,
        varying: &[&Sweep<'_>],
        records: &[&Record],
        origins: &Origins<'_>,
    ) -> Vec<Chart> {
        let among = |names: &[&str]| {
            varying
                .iter()
                .find(|sweep| names.contains(&sweep.name))
                .copied()
        };
        let (Some(x), Some(lines)) = (among(&THREADS), among(&SIZES)) else {
            return Vec::new();
        };
        let others = varying.iter().map(|sweep| sweep.name);
        let others = others.filter(|&name| {
            name != x.name && name != lines.name && !determines(records, lines.name, name)
        });
        let held: Vec<&str> = others
            .chain(self.task.view.series.iter().copied())
            .collect();
        let mut charts = Vec::new();
        for facet in split(records, &held) {
            if distinct(&facet, x.name).len() < 2 || distinct(&facet, lines.name).len() < 2 {
                continue;
            }
            let mut chart = self.chart(metric, Some(x), &facet, &[], origins);
            let who = values(facet[0], self.task.view.series).join(", ");
            chart.title = format!("{}, {who}", chart.title);
            chart
                .notes
                .push(format!("A line for each number of {}.", lines.label));
            chart.series = self.lines(metric, (x, lines), &facet, origins);
            charts.push(chart);
        }
        charts
    }

    /// A curve for each value of `lines`.
    fn lines(
        &self,
        metric: &Metric,
        (x, lines): (&Sweep<'_>, &Sweep<'_>),
        records: &[&Record],
        origins: &Origins<'_>,
    ) -> Vec<Series> {
        let runs = origins.names(records);
        let mut series = Vec::new();
        let value = |record: &Record| number_of(record, lines.name).unwrap_or(0.0);
        let mut sorted = records.to_vec();
        sorted.sort_by(|a, b| value(a).total_cmp(&value(b)));
        for record in sorted {
            let mut name = vec![(lines.text)(value(record))];
            name.extend(runs.of(record));
            add(&mut series, name.join(", "), Some(x), metric, record, None);
        }
        series
    }

    /// True if a published figure is of what a chart shows: it has the values that all records have, and of what the curves differ in those of one of
    /// them.
    fn is_comparable(&self, figure: &Record, records: &[&Record], x: Option<&Sweep<'_>>) -> bool {
        if figure.task == "pushdown" {
            return is_comparable_pushdown(figure, records, x);
        }
        let own = |name: &str| name != "platform" && x.is_none_or(|x| x.name != name);
        let of_curves = |name: &str| self.task.view.series.contains(&name);
        let has = |record: &Record, asked: &dyn Fn(&str) -> bool| {
            let mut asked = (figure.parameters.iter()).filter(|(name, _)| own(name) && asked(name));
            asked.all(|(name, value)| record.parameters.get(name) == Some(value))
        };
        x.is_none_or(|x| figure.parameters.contains_key(x.name))
            && records
                .iter()
                .all(|record| has(record, &|name| !of_curves(name)))
            && records.iter().any(|record| has(record, &of_curves))
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
        let words = self.settings.iter().filter(|name| {
            let is_number = self.sweeps.iter().any(|sweep| sweep.name == **name);
            !is_number && distinct(records, name).len() == 1
        });
        let said = self.fixed.iter().filter(|name| **name != "operator");
        for (name, value) in (said.chain(words))
            .filter_map(|name| Some((name, records.first()?.parameters.get(*name)?)))
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
        let settings = self.settings.iter().copied();
        let settings: Vec<&str> = settings
            .filter(|&name| x.is_none_or(|x| x.name != name) && distinct(records, name).len() > 1)
            .collect();
        for record in records {
            let mut name = values(record, self.task.view.series);
            name.extend(settings.iter().filter_map(|name| {
                let value = record.parameters.get(*name)?;
                Some(format!("{} {value}", spec::bare(name)))
            }));
            name.extend(runs.of(record));
            add(&mut series, name.join(", "), x, metric, record, None);
        }
        let beside: Vec<&Record> = figures
            .iter()
            .filter(|figure| {
                figure.task == self.task.name
                    && figure.summary.contains_key(metric.name)
                    && self.is_comparable(figure, records, x)
            })
            .collect();
        for figure in &beside {
            let label = Some(platform(figure));
            add(&mut series, work_of(figure), x, metric, figure, label);
        }
        if let Some(figure) = beside.first() {
            notes.push(match figure.task.as_str() {
                "pushdown" => "Published: dpBento, scale factor 10, 1 %, 100 Gbit/s; quoted in its records below.".to_owned(),
                _ => format!("Published: {}; each number's source is in its record below.", work_of(figure)),
            });
        }
        // Of several operators on one chart none is its subject.
        let subject = records
            .first()
            .and_then(|record| record.parameters.get("operator"))
            .filter(|operator| {
                let of = |record: &&Record| record.parameters.get("operator") == Some(*operator);
                records.iter().all(of)
            });
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
            ..Chart::default()
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
        is_unstable: is_unstable(record),
        is_marked: true,
        label,
        tip: format!(
            "{who}{}: {}, {kind}{}",
            place.unwrap_or_default(),
            figure_text(number, metric.text),
            unsure(record)
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

/// A published figure's machine, and the number of cores where the figure is of some of them.
fn platform(figure: &Record) -> String {
    let mut name = text_of(figure, "platform");
    if text_of(figure, "scheme") == "fetch" {
        name = format!("fetch, {name}");
    }
    match text_of(figure, "threads").as_str() {
        "" => name,
        "1" => format!("{name}, 1 core"),
        cores => format!("{name}, {cores} cores"),
    }
}

/// Whether a record's verdict is against its numbers.
pub(super) fn is_unstable(record: &Record) -> bool {
    record
        .stability
        .as_ref()
        .is_some_and(|stability| !stability.stable)
}

/// What a tip says of an unstable record.
pub(super) fn unsure(record: &Record) -> &'static str {
    match is_unstable(record) {
        true => ", unstable",
        false => "",
    }
}

/// A number with its interval.
pub(super) fn figure_text(number: &Summary, text: fn(f64) -> String) -> String {
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

/// The short name of the work that published a figure.
fn work_of(figure: &Record) -> String {
    let Evidence::Published { source } = &figure.evidence else {
        return String::new();
    };
    let mut works = works().iter().map(|work| &work.source);
    let work = works.find(|work| source.starts_with(&work.work));
    work.map_or_else(String::new, |work| work.short.clone())
}

/// A figure of 1 % belongs beside records of 1 %, or on an axis of selectivities.
fn is_comparable_pushdown(figure: &Record, records: &[&Record], x: Option<&Sweep<'_>>) -> bool {
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
