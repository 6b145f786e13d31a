//! The table of `dpb net trial`: a row a record.

use dpb_core::measure::Record;

use crate::cmd::net::bench::figure;
use crate::cmd::sweep::{self, parameter};
use crate::output::{Column, Table, evidence, percent, short, short_ns, verdict};

/// A column's title, the metric in it, and how its value is written.
type Figure = (&'static str, &'static str, fn(f64) -> String);

const FIGURES: [Figure; 11] = [
    ("lower/s", "lower_packets_per_s", short),
    ("upper/s", "upper_packets_per_s", short),
    ("throughput/s", "throughput_packets_per_s", short),
    ("search", "search_s", |s| short_ns(s * 1e9)),
    ("offered/s", "offered_packets_per_s", short),
    ("delivered/s", "packets_per_s", short),
    ("loss", "loss_ratio", percent),
    ("p50", "latency_ns_p50", short_ns),
    ("p99", "latency_ns_p99", short_ns),
    ("p99.9", "latency_ns_p999", short_ns),
    ("generator p99", "schedule_error_ns_p99", short_ns),
];

const PARAMETERS: [(&str, &str); 9] = [
    ("program", "program"),
    ("from", "from"),
    ("to", "to"),
    ("place", "place"),
    ("threads", "threads"),
    ("backend", "backend"),
    ("size", "size"),
    ("flows", "flows"),
    ("goal", "search"),
];

const COUNTS: [(&str, &str); 3] = [
    ("trials", "trials"),
    ("reordered", "reordered"),
    ("copies", "duplicates"),
];

/// Columns that some record has something in.
pub(super) fn for_people(records: &[Record]) -> Table {
    let parameters = PARAMETERS.iter().filter(|(_, name)| {
        records
            .iter()
            .any(|record| record.parameters.contains_key(*name))
    });
    let parameters: Vec<_> = parameters.collect();
    let figures: Vec<_> = FIGURES
        .iter()
        .filter(|(_, name, _)| records.iter().any(|record| has(record, name)))
        .collect();
    let mut columns: Vec<Column> = (parameters.iter())
        .map(|(title, _)| Column::left(*title))
        .collect();
    columns.extend(figures.iter().map(|(title, ..)| Column::right(*title)));
    columns.extend(COUNTS.map(|(title, _)| Column::right(title)));
    columns.extend([Column::left("evidence"), Column::noted("verdict")]);
    let mut table = Table::new(columns);
    for record in records {
        let mut row: Vec<String> = (parameters.iter())
            .map(|(_, name)| parameter(record, name))
            .collect();
        row.extend(
            figures
                .iter()
                .map(|(_, name, text)| figure(record, name, *text)),
        );
        let count = |name: &str| {
            record
                .counts
                .get(name)
                .map_or("-".to_owned(), ToString::to_string)
        };
        row.extend(COUNTS.map(|(_, name)| count(name)));
        row.extend([evidence(record).to_owned(), verdict(record)]);
        table.row(row);
    }
    table
}

/// True if the record has this figure, or says that it is infinite.
fn has(record: &Record, name: &str) -> bool {
    record.summary.contains_key(name) || record.counts.contains_key(&format!("{name}_infinite"))
}

pub(super) fn for_machines(records: &[Record]) -> Table {
    let mut parameters: Vec<&str> = PARAMETERS.iter().map(|(_, name)| *name).collect();
    parameters.extend(["rate", "unit", "schedule", "link", "lengths", "application"]);
    let figures = FIGURES.map(|(_, name, _)| name);
    sweep::for_machines(records, &parameters, &figures)
}
