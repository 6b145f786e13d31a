//! perftest's tables: a record for each row.
//!
//! Its `MB` are of 2^20 bytes, its `Gb` of 10^9 bits; times are microseconds.

use super::{ImportError, Origin, keep, parameter, wrong};
use crate::measure::record::{Record, Value};

/// Its latencies in the order of its columns, behind bytes and iterations.
const LATENCIES: [(&str, &str); 7] = [
    ("t_min[usec]", "latency_ns_min"),
    ("t_max[usec]", "latency_ns_max"),
    ("t_typical[usec]", "latency_ns_p50"),
    ("t_avg[usec]", "latency_ns_mean"),
    ("t_stdev[usec]", "latency_ns_deviation"),
    ("99% percentile[usec]", "latency_ns_p99"),
    ("99.9% percentile[usec]", "latency_ns_p999"),
];
/// What it says before its table, and our names.
const PARAMETERS: [(&str, &str); 7] = [
    ("Connection type", "connection"),
    ("Number of qps", "queue_pairs"),
    ("TX depth", "depth"),
    ("CQ Moderation", "completions_moderated"),
    ("Mtu", "mtu"),
    ("Max inline data", "inline_bytes_max"),
    ("Link type", "link"),
];

pub(super) fn records(text: &str, origin: &Origin) -> Result<Vec<Record>, ImportError> {
    let mut told: Vec<(&str, Value)> = Vec::new();
    let mut titles: Option<&str> = None;
    let mut records = Vec::new();
    for line in text.lines() {
        if line.contains("#bytes") {
            titles = Some(line);
            continue;
        }
        if let Some(test) = line.trim().strip_suffix(" Test")
            && (test.ends_with(" BW") || test.ends_with(" Latency"))
        {
            told.push(("test", Value::Text(test.to_owned())));
        }
        // Two pairs a line: ` Number of qps   : 1		Transport type : IB`.
        for (label, name) in PARAMETERS {
            let value = line
                .split(label)
                .nth(1)
                .and_then(|rest| rest.trim_start().strip_prefix(':'));
            if let Some(word) = value.and_then(|rest| rest.split_whitespace().next()) {
                let word = word.trim_end_matches("[B]");
                told.push((name, parameter(word)));
            }
        }
        if let Some(titles) = titles
            && let Some(figures) = row(line)
        {
            let mut record = super::record("perftest", "", origin, "", 0.0);
            for (name, value) in &told {
                record = record.with(name, value.clone());
            }
            fill(&mut record, titles, &figures)?;
            records.push(record);
        }
    }
    Ok(records)
}

/// A row is numbers alone, the first two whole.
fn row(line: &str) -> Option<Vec<f64>> {
    let figures: Option<Vec<f64>> = line
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect();
    figures.filter(|figures| {
        figures.len() >= 3 && figures[..2].iter().all(|figure| figure.fract() == 0.0)
    })
}

fn fill(record: &mut Record, titles: &str, figures: &[f64]) -> Result<(), ImportError> {
    record
        .parameters
        .insert("size".to_owned(), Value::Int(figures[0] as i64));
    record
        .parameters
        .insert("iterations".to_owned(), Value::Int(figures[1] as i64));
    if titles.contains("BW average") {
        let bytes = match () {
            () if titles.contains("BW average[Gb/sec]") => 1e9 / 8.0,
            () if titles.contains("BW average[MB/sec]")
                || titles.contains("BW average[MiB/sec]") =>
            {
                1_048_576.0
            }
            () => return Err(wrong("an unknown unit of bandwidth")),
        };
        let [_, _, peak, average, rest @ ..] = figures else {
            return Err(wrong("a row of bandwidth with too few columns"));
        };
        keep(record, "bytes_per_s_peak", Some(peak * bytes));
        keep(record, "bytes_per_s", Some(average * bytes));
        keep(
            record,
            "items_per_s",
            rest.first().map(|millions| millions * 1e6),
        );
        return Ok(());
    }
    let columns = LATENCIES.iter().filter(|(title, _)| titles.contains(title));
    for ((_, name), us) in columns.zip(&figures[2..]) {
        keep(record, name, Some(us * 1e3));
    }
    Ok(())
}
