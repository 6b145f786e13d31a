//! Distributions of latencies, from the histograms that records keep: the share of jobs that took no longer.

use dpb_core::measure::Record;
use dpb_core::measure::latency::Latencies;

use super::anchor;
use super::chart::{Chart, Point, Series};
use super::origin::Origins;
use super::select::{is_unstable, unsure};
use super::vary::{determines, distinct, number_of, text_of};
use crate::output::short_ns;
use crate::task::{ShownTask, Sweep};

/// More curves than these are several charts.
const CURVES_MAX: usize = 8;
/// Steps of a curve between two nines.
const STEPS: u32 = 16;
/// The most nines that are drawn.
const NINES_MAX: u32 = 5;
/// The marks of the axis: a share *s* lies at −log₁₀(1 − *s*), so that each nine has the same room.
const TICKS: [(f64, &str); 6] = [
    (std::f64::consts::LOG10_2, "50 %"),
    (1.0, "90 %"),
    (2.0, "99 %"),
    (3.0, "99.9 %"),
    (4.0, "99.99 %"),
    (5.0, "99.999 %"),
];
/// Marked points, which lead to the record.
const MARKED: std::ops::RangeInclusive<usize> = 0..=3;

/// The charts of a task whose records have histograms.
pub(super) fn charts(task: ShownTask, records: &[&Record], origins: &Origins<'_>) -> Vec<Chart> {
    let with: Vec<&Record> = records
        .iter()
        .copied()
        .filter(|record| histogram(record).is_some())
        .collect();
    let mut groups: Vec<Vec<&Record>> = Vec::new();
    let held = |record: &Record| -> Vec<String> {
        task.view
            .fixed
            .iter()
            .map(|name| text_of(record, name))
            .collect()
    };
    for record in with {
        match groups
            .iter_mut()
            .find(|group| held(group[0]) == held(record))
        {
            Some(group) => group.push(record),
            None => groups.push(vec![record]),
        }
    }
    let facets = groups.into_iter().flat_map(|group| facets(task, group));
    facets.map(|facet| chart(task, &facet, origins)).collect()
}

/// The histogram of a record's jobs, if it kept one that can be read.
fn histogram(record: &Record) -> Option<Latencies> {
    let text = record.samples.get("latency_ns")?.hdr.as_ref()?;
    let latencies = Latencies::from_base64(text).ok()?;
    (latencies.count() > 0).then_some(latencies)
}

/// The sweeps that differ between records and do not follow from others.
fn varying(task: ShownTask, records: &[&Record]) -> Vec<Sweep<'static>> {
    let mut kept: Vec<Sweep<'static>> = Vec::new();
    for sweep in task.view.sweeps {
        let follows = kept
            .iter()
            .any(|before| determines(records, before.name, sweep.name));
        if distinct(records, sweep.name).len() > 1 && !follows {
            kept.push(*sweep);
        }
    }
    kept
}

/// Cut by the sweep with the fewest values until each chart has few curves; what then is still long is cut by number.
fn facets(task: ShownTask, records: Vec<&Record>) -> Vec<Vec<&Record>> {
    let fewest = varying(task, &records);
    let fewest = fewest
        .iter()
        .min_by_key(|sweep| distinct(&records, sweep.name).len());
    let Some(sweep) = fewest.filter(|_| records.len() > CURVES_MAX) else {
        return records.chunks(CURVES_MAX).map(<[_]>::to_vec).collect();
    };
    let values = distinct(&records, sweep.name).into_iter();
    let parts = values.map(|value| {
        let own = records.iter().copied();
        own.filter(|record| text_of(record, sweep.name) == value)
            .collect()
    });
    parts.flat_map(|part| facets(task, part)).collect()
}

fn chart(task: ShownTask, records: &[&Record], origins: &Origins<'_>) -> Chart {
    let swept = varying(task, records);
    let runs = origins.names(records);
    let named = |record: &Record| {
        let series = task.view.series.iter();
        let mut words: Vec<String> = series
            .filter(|name| distinct(records, name).len() > 1)
            .map(|name| text_of(record, name))
            .collect();
        words.extend(swept.iter().filter_map(|sweep| {
            Some(format!(
                "{} {}",
                (sweep.text)(number_of(record, sweep.name)?),
                sweep.label
            ))
        }));
        words.extend(runs.of(record));
        match words.is_empty() {
            true => task
                .view
                .series
                .iter()
                .map(|name| text_of(record, name))
                .collect::<Vec<_>>()
                .join(", "),
            false => words.join(", "),
        }
    };
    let series = records.iter().filter_map(|record| {
        let latencies = histogram(record)?;
        Some(curve(record, named(record), &latencies))
    });
    let subject = text_of(records[0], "operator");
    let subject = if subject.is_empty() {
        task.name
    } else {
        &subject
    };
    Chart {
        title: format!("{subject}: distribution of latencies"),
        notes: vec![held(task, records, &swept)],
        x_label: "latency".to_owned(),
        y_label: "share of jobs that took no longer".to_owned(),
        series: series.collect(),
        x_text: Some(short_ns),
        y_ticks: &TICKS,
        is_x_round: true,
        ..Chart::default()
    }
}

/// What all curves share.
fn held(task: ShownTask, records: &[&Record], swept: &[Sweep<'_>]) -> String {
    let others = task.view.sweeps.iter().filter(|sweep| {
        swept.iter().all(|own| own.name != sweep.name) && distinct(records, sweep.name).len() == 1
    });
    let sweeps = others.filter_map(|sweep| {
        Some(format!(
            "{} {}",
            sweep.label,
            (sweep.text)(number_of(records[0], sweep.name)?)
        ))
    });
    let series = task
        .view
        .series
        .iter()
        .filter(|name| distinct(records, name).len() == 1);
    let series = series.filter_map(|name| match text_of(records[0], name) {
        text if text.is_empty() => None,
        text if ["true", "false"].contains(&text.as_str()) => Some(format!("{name} {text}")),
        text => Some(text),
    });
    series.chain(sweeps).collect::<Vec<_>>().join(" · ")
}

/// One record's distribution, as far as it has jobs to tell. Packets that were lost took for ever: the curve ends at the share that arrived.
fn curve(record: &Record, name: String, latencies: &Latencies) -> Series {
    let kind = record.evidence.kind();
    let lost = record.counts.get("lost").copied().unwrap_or(0);
    let all = latencies.count() + lost;
    let arrived = latencies.count() as f64 / all as f64;
    let most = (all as f64).log10().min(f64::from(NINES_MAX));
    let most = most.min(-(lost as f64 / all as f64).log10());
    let mut nines: Vec<f64> = (0..=NINES_MAX * STEPS)
        .map(|step| f64::from(step) / f64::from(STEPS))
        .chain(TICKS[MARKED].iter().map(|(at, _)| *at))
        .filter(|at| *at <= most)
        .collect();
    nines.sort_by(f64::total_cmp);
    nines.dedup();
    let points = nines.into_iter().map(|at| {
        let share = (1.0 - 10f64.powf(-at)) / arrived;
        let ns = latencies.percentile_ns(share.min(1.0)) as f64;
        let tick = TICKS[MARKED].iter().find(|(tick, _)| *tick == at);
        let share = tick.map_or("", |(_, share)| share);
        Point {
            x: Some(ns),
            y: at,
            interval: None,
            is_unstable: is_unstable(record),
            is_marked: tick.is_some(),
            label: None,
            tip: format!(
                "{name}: {share} within {}, of {} jobs, {kind}{}",
                short_ns(ns),
                all,
                unsure(record)
            ),
            href: anchor(record),
        }
    });
    Series {
        points: points.collect(),
        name,
        kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_through_the_percentiles_of_its_histogram() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|ns| latencies.record(ns * 1000));
        let record = Record::new("tcp", dpb_core::measure::Evidence::Measured, 1);
        let curve = curve(&record, "all".to_owned(), &latencies);
        let marked: Vec<(f64, f64)> = curve
            .points
            .iter()
            .filter(|point| point.is_marked)
            .filter_map(|point| Some((point.y, point.x?)))
            .collect();
        // 50, 90, 99 and 99.9 % of 1 to 1000 us; three digits are kept.
        assert_eq!(marked.len(), 4);
        for ((_, ns), exact) in marked.iter().zip([500e3, 900e3, 990e3, 999e3]) {
            assert!((ns / exact - 1.0).abs() < 0.002, "{ns} {exact}");
        }
        let xs: Vec<f64> = curve.points.iter().filter_map(|point| point.x).collect();
        assert!(xs.is_sorted());
        // A thousand jobs say nothing about the fourth nine.
        assert!(curve.points.iter().all(|point| point.y <= 3.0 + 1e-9));
    }

    #[test]
    fn a_curve_ends_at_the_share_that_was_not_lost() {
        let mut latencies = Latencies::default();
        (1..=900).for_each(|ns| latencies.record(ns * 1000));
        let mut record = Record::new("net trial", dpb_core::measure::Evidence::Measured, 1);
        record.counts.insert("lost".to_owned(), 100);
        let curve = curve(&record, "all".to_owned(), &latencies);
        let half = curve.points.iter().find(|point| point.is_marked);
        let half = half.and_then(|point| point.x).expect("a median");
        // Five hundred of a thousand packets took no longer.
        assert!((half / 500e3 - 1.0).abs() < 0.002, "{half}");
        let last = curve.points.last().expect("points");
        assert!((0.9..=1.0 + 1e-9).contains(&last.y), "{}", last.y);
        let slowest = last.x.expect("the slowest that arrived");
        assert!((slowest / 900e3 - 1.0).abs() < 0.1, "{slowest}");
    }
}
