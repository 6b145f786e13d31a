//! Sensitivity of a simulated system's completion time: sweeps of one of its parameters, with the elasticity of the time and the
//! part that is busiest at both ends.
//!
//! The elasticity is the slope of the time's logarithm over the parameter's, by least squares: 1 if twice the parameter takes twice the
//! time, 0 if it changes nothing. Runs of one seed are one line; the median of their slopes has the interval of order statistics.

use std::collections::{BTreeMap, BTreeSet};

use dpb_core::measure::statistics::summarize;
use dpb_core::measure::{Outcome, Record, Summary};

use super::anchor;
use super::bars::{Bar, Bars, Group};
use super::busiest::busiest;
use super::chart::{Chart, Point, Series};
use super::html::escape;
use super::select::figure_text;
use super::vary::{number_of, text_of};
use crate::output::{Column, Table, number, percent, short_ns};
use crate::spec;

/// The task whose records are looked at.
pub(super) const TASK: &str = "sim run";
/// The metric that hangs on the parameters.
const METRIC: &str = "completion_s";
/// Fewer values of a parameter make no sweep.
const VALUES_MIN: usize = 3;
const TITLE: &str = "What the completion time hangs on";
const TITLES: [&str; 8] = [
    "system",
    "parameter",
    "from",
    "to",
    "time",
    "elasticity",
    "steepest step",
    "busiest",
];
/// The meaning of the rows, for a reader.
const MEANING: &str = "One parameter of a simulated system changes, all others stay. Elasticity: the slope of the time's logarithm over the parameter's, over the whole range; \
                       1 means that twice the parameter takes twice the time. In the steepest step it is that of two neighbouring values. The busiest part is the one that binds, if it is busy all the time; \
                       if none is, the way of frames does, through TCP's window. Where frames are lost, a connection may wait for its retransmission timer, and the time jumps.";

/// A parameter that was swept, while all others of a system stayed.
pub(super) struct Swept<'a> {
    /// The system, and the settings that are held in this sweep and have other values in others.
    system: String,
    /// The place of the parameter.
    place: &'a str,
    /// Its values with their records, in order.
    points: Vec<(f64, &'a Record)>,
    /// The elasticity of the time over all of them.
    elasticity: Summary,
}

/// All sweeps among the records.
pub(super) fn sweeps(records: &[Record]) -> Vec<Swept<'_>> {
    let own = records.iter().filter(|record| {
        record.task == TASK
            && record.outcome == Outcome::Done
            && record.samples.contains_key(METRIC)
    });
    let own: Vec<&Record> = own.collect();
    let settings = own.iter().flat_map(|record| spec::own(record));
    let places: BTreeSet<&str> = settings.map(|(name, _)| name).collect();
    let mut found = Vec::new();
    for place in places {
        let mut groups: BTreeMap<String, Vec<(f64, &Record)>> = BTreeMap::new();
        for record in &own {
            if let Some(value) = number_of(record, place).filter(|&value| value > 0.0) {
                let points = groups.entry(others(record, place)).or_default();
                if points.iter().all(|(known, _)| *known != value) {
                    points.push((value, record));
                }
            }
        }
        for mut points in groups.into_values().filter(|it| it.len() >= VALUES_MIN) {
            points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            if let Some(elasticity) = elasticity(&points) {
                found.push(Swept {
                    system: held(points[0].1, place, &own),
                    place: spec::bare(place),
                    points,
                    elasticity,
                });
            }
        }
    }
    found.sort_by(|one, other| {
        let weight = |it: &Swept<'_>| it.elasticity.median.abs();
        weight(other).total_cmp(&weight(one))
    });
    found
}

/// The system of a record, and its settings but `place` that have other values in other records.
fn held(record: &Record, place: &str, all: &[&Record]) -> String {
    let mut words = vec![text_of(record, "system")];
    for (name, value) in spec::own(record).filter(|(name, _)| *name != place) {
        let others = all.iter().filter_map(|other| other.parameters.get(name));
        if others.into_iter().any(|other| other != value) {
            words.push(format!("{} {value}", spec::bare(name)));
        }
    }
    words.join(", ")
}

/// The records of sweeps, which their charts show.
pub(super) fn shown(sweeps: &[Swept<'_>]) -> BTreeSet<String> {
    let points = sweeps.iter().flat_map(|swept| &swept.points);
    points.map(|(_, record)| record.id.clone()).collect()
}

/// Whatever a record says but this parameter, and its first seed: runs are held together by their places, which are seeds.
fn others(record: &Record, place: &str) -> String {
    let parameters = record.parameters.iter();
    let others = parameters.filter(|(name, _)| ![place, "set", "threads"].contains(&name.as_str()));
    let others: Vec<_> = others.collect();
    format!("{} {others:?}", record.provenance.seed)
}

/// The slope of logarithms, seed by seed.
fn elasticity(points: &[(f64, &Record)]) -> Option<Summary> {
    let runs = |record: &Record| record.samples[METRIC].values.len();
    let seeds = points.iter().map(|(_, record)| runs(record)).min()?;
    let slopes = (0..seeds).filter_map(|seed| {
        let line = points.iter().map(|(value, record)| {
            let time = record.samples[METRIC].values[seed];
            (value.ln(), time.ln())
        });
        slope(&line.collect::<Vec<_>>())
    });
    summarize(&slopes.collect::<Vec<_>>())
}

/// The slope of a line through these points, by least squares.
fn slope(line: &[(f64, f64)]) -> Option<f64> {
    let count = line.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| line.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|it| it.0), mean(|it| it.1));
    let spread: f64 = line.iter().map(|it| (it.0 - x).powi(2)).sum();
    let both: f64 = line.iter().map(|it| (it.0 - x) * (it.1 - y)).sum();
    (spread > 0.0 && both.is_finite()).then(|| both / spread)
}

impl Swept<'_> {
    fn time(&self, at: usize) -> f64 {
        self.points[at].1.summary[METRIC].median
    }

    /// The two neighbours between which the time changes most, and the elasticity there.
    fn steepest(&self) -> (f64, f64, f64) {
        let pairs = (1..self.points.len()).filter_map(|at| {
            let ends = [at - 1, at].map(|at| (self.points[at].0.ln(), self.time(at).ln()));
            Some((self.points[at - 1].0, self.points[at].0, slope(&ends)?))
        });
        pairs
            .max_by(|one, other| one.2.abs().total_cmp(&other.2.abs()))
            .unwrap_or((0.0, 0.0, 0.0))
    }

    fn row(&self) -> Vec<String> {
        let last = self.points.len() - 1;
        let (from, to, steep) = self.steepest();
        let busy = [0, last].map(|at| {
            let busiest = busiest(self.points[at].1);
            busiest.map_or(String::new(), |(kind, share)| {
                let share = percent((share * 1000.0).round() / 1000.0);
                format!("{} {share}", kind.parts)
            })
        });
        vec![
            self.system.clone(),
            self.place.to_owned(),
            number(self.points[0].0),
            number(self.points[last].0),
            format!(
                "{} … {}",
                short_ns(self.time(0) * 1e9),
                short_ns(self.time(last) * 1e9)
            ),
            figure_text(&self.elasticity, |value| format!("{value:+.3}")),
            format!("{steep:+.2} from {} to {}", number(from), number(to)),
            match busy[0] == busy[1] {
                true => busy[0].clone(),
                false => busy.join(" … "),
            },
        ]
    }

    fn chart(&self) -> Chart {
        let points = self.points.iter().map(|(value, record)| {
            let time = &record.summary[METRIC];
            let text = |seconds: f64| short_ns(seconds * 1e9);
            Point {
                x: Some(*value),
                y: time.median,
                interval: time.ci95_low.zip(time.ci95_high),
                is_unstable: false,
                is_marked: true,
                label: None,
                tip: format!(
                    "{} {}: {}, simulated",
                    self.place,
                    number(*value),
                    figure_text(time, text)
                ),
                href: anchor(record),
            }
        });
        Chart {
            title: format!("{}: completion time against {}", self.system, self.place),
            x_label: self.place.to_owned(),
            y_label: "time until all applications have finished".to_owned(),
            series: vec![Series {
                name: self.system.clone(),
                kind: "simulated",
                points: points.collect(),
            }],
            x_text: Some(number),
            y_text: Some(|seconds| short_ns(seconds * 1e9)),
            ..Chart::default()
        }
    }
}

/// The elasticities as bars, by system.
fn bars(sweeps: &[Swept<'_>]) -> Bars {
    let mut groups: Vec<Group> = Vec::new();
    for swept in sweeps {
        let interval = swept.elasticity.ci95_low.zip(swept.elasticity.ci95_high);
        let ends = interval.map(|(low, high)| (low.abs(), high.abs()));
        let bar = Bar {
            name: format!("{} ({})", swept.place, sign(swept.elasticity.median)),
            kind: "simulated",
            colour: 0,
            value: swept.elasticity.median.abs(),
            interval: ends.map(|(one, other)| (one.min(other), one.max(other))),
            is_unstable: false,
            tip: format!(
                "{}: elasticity {}",
                swept.place,
                figure_text(&swept.elasticity, |value| format!("{value:+.3}"))
            ),
            href: anchor(swept.points[0].1),
        };
        match groups.iter_mut().find(|group| group.name == swept.system) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group {
                name: swept.system.clone(),
                bars: vec![bar],
            }),
        }
    }
    Bars {
        title: TITLE.to_owned(),
        notes: Vec::new(),
        label: "elasticity of the completion time, without its sign".to_owned(),
        text: |value| format!("{value:.3}"),
        may_be_log: false,
        groups,
    }
}

/// The effect of more of a parameter on the time.
fn sign(elasticity: f64) -> &'static str {
    match elasticity < 0.0 {
        true => "more is faster",
        false => "more is slower",
    }
}

/// The section for a page: a chart of all, a table, and a chart of each.
pub(super) fn html(sweeps: &[Swept<'_>]) -> Option<String> {
    if sweeps.is_empty() {
        return None;
    }
    let rows: Vec<Vec<String>> = sweeps.iter().map(Swept::row).collect();
    let charts = sweeps.iter().map(|swept| swept.chart().html());
    let charts: Vec<String> = std::iter::once(bars(sweeps).html()).chain(charts).collect();
    Some(format!(
        "<h3 class=\"beside\">{TITLE}</h3><p class=\"sub\">{}</p>{}{}",
        escape(MEANING),
        super::grid(&charts, CHARTS_OPEN),
        super::rows_html(&TITLES, &rows),
    ))
}

/// Charts that are open at first.
const CHARTS_OPEN: usize = 7;

/// The same for a terminal: the table alone.
pub(super) fn text(sweeps: &[Swept<'_>]) -> Option<String> {
    if sweeps.is_empty() {
        return None;
    }
    let mut table = Table::new(TITLES.map(Column::left));
    sweeps.iter().for_each(|swept| table.row(swept.row()));
    Some(format!("{TITLE}\n{}\n{MEANING}\n", table.to_text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpb_core::measure::Evidence;

    fn record(place: &str, value: f64, times: &[f64]) -> Record {
        let model = "the system card".to_owned();
        let mut record = Record::new(TASK, Evidence::Simulated { model }, 1)
            .with("system", "card")
            .with("set", format!("{place}={value}"))
            .with(&format!("{}{place}", spec::SETTING), value);
        record.sample(METRIC, times.to_vec());
        record.sample("busy_share_hosts", vec![0.5; times.len()]);
        record.sample("busy_share_stages", vec![value / 8.0; times.len()]);
        record
    }

    /// T = s * p^e has the elasticity e, whatever s is: a seed each.
    fn power(place: &str, exponent: f64) -> Vec<Record> {
        let scales = [1.0, 1.1, 0.9, 1.2, 1.05, 0.95];
        let values = [1.0, 2.0, 4.0, 8.0];
        let of = |value: f64| scales.map(|scale| scale * value.powf(exponent));
        values
            .map(|value| record(place, value, &of(value)))
            .to_vec()
    }

    #[test]
    fn a_power_of_a_parameter_has_its_exponent_as_elasticity() {
        let records = [power("card.pcie_ns", 0.25), power("host.cores", -0.75)].concat();
        let sweeps = sweeps(&records);
        let found: Vec<(&str, f64)> = sweeps
            .iter()
            .map(|swept| (swept.place, swept.elasticity.median))
            .collect();
        assert_eq!(found.len(), 2);
        for ((place, elasticity), (expected, exponent)) in found
            .iter()
            .zip([("host.cores", -0.75), ("card.pcie_ns", 0.25)])
        {
            assert_eq!(*place, expected);
            assert!((elasticity - exponent).abs() < 1e-12, "{elasticity}");
        }
        let row = sweeps[0].row();
        assert!(row[5].contains("-0.750"), "{row:?}");
        assert_eq!(row[7], "hosts' cores 50 % … cards' stages 100 %");
        assert_eq!(shown(&sweeps).len(), 8);
        let text = text(&sweeps).expect("a table");
        assert!(text.contains("card.pcie_ns"), "{text}");
    }

    #[test]
    fn sweeps_of_one_parameter_are_told_apart_by_the_others() {
        let mut records = Vec::new();
        for latency in [500u64, 2000] {
            let mut sweep = power("card.pcie_ns", 1.0);
            for record in &mut sweep {
                let settings = [("link.latency_ns", latency), ("host.cores", 2)];
                for (name, value) in settings {
                    let name = format!("{}{name}", spec::SETTING);
                    record.parameters.insert(name, value.into());
                }
            }
            records.extend(sweep);
        }
        let sweeps = sweeps(&records);
        let mut titles: Vec<String> = sweeps.iter().map(|swept| swept.chart().title).collect();
        titles.sort();
        assert_eq!(titles.len(), 2);
        assert!(titles[0].contains("link.latency_ns 2000"), "{titles:?}");
        assert!(titles[1].contains("link.latency_ns 500"), "{titles:?}");
        assert!(!titles[0].contains("host.cores"), "{titles:?}");
    }

    #[test]
    fn records_that_differ_in_more_make_no_sweep() {
        let mut records = power("card.pcie_ns", 1.0);
        for (record, digest) in records.iter_mut().zip(["a", "b", "c", "d"]) {
            record.parameters.insert("digest".to_owned(), digest.into());
        }
        assert!(sweeps(&records).is_empty());
        assert!(html(&sweeps(&records)).is_none());
        // Nor do runs of other seeds.
        let mut records = power("card.pcie_ns", 1.0);
        for (record, seed) in records.iter_mut().zip(1..) {
            record.provenance.seed = seed;
        }
        assert!(sweeps(&records).is_empty());
        // Two values are a difference, no sweep.
        assert!(sweeps(&power("card.pcie_ns", 1.0)[..2]).is_empty());
    }
}
