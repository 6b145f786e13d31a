//! Tables of headroom: for people with what a paper found beside it, for machines everything.

use dpb_core::measure::{Evidence, Record};

use crate::cmd::sweep::{self, parameter};
use crate::output::{Column, Table, evidence, short, short_ns, verdict};
use crate::report::published;

/// Parameters that lead a row.
const LEAD: [&str; 5] = ["kind", "link", "topology", "size", "threads"];

/// A row for each test, then what Liu et al. published.
pub(super) fn for_people(records: &[Record]) -> Table {
    let mut columns: Vec<Column> = ["injected work", "link", "topology"]
        .map(Column::left)
        .into();
    columns.extend(
        [
            "size",
            "threads",
            "packets/s",
            "highest",
            "work a packet",
            "cores free",
            "at most",
            "of all",
            "1 - R/Rmax",
        ]
        .map(Column::right),
    );
    columns.extend([Column::left("evidence"), Column::noted("verdict")]);
    let mut table = Table::new(columns);
    // Throughputs of theirs, which have no column here, are in the report.
    let is_shown = |row: &Record| {
        let has = |name: &str| row.summary.contains_key(name);
        has("headroom_by_rate") || has("cores_free_part")
    };
    let published = published::of_task("net headroom").into_iter();
    let published: Vec<Record> = published.filter(is_shown).collect();
    for record in records.iter().chain(&published) {
        let figure = |name: &str| record.summary.get(name).map(|summary| summary.median);
        let mut row: Vec<String> = LEAD.iter().map(|name| shown(record, name)).collect();
        let text = |value: Option<f64>, text: fn(f64) -> String| value.map_or("-".to_owned(), text);
        row.push(text(figure("packets_per_s"), short));
        let is_least = record.counts.get("highest_rate_is_generators") == Some(&1);
        let least = |said: String| match is_least {
            true => format!("≥ {said}"),
            false => said,
        };
        row.push(figure("packets_per_s_max").map_or("-".to_owned(), |max| least(short(max))));
        row.push(text(figure("work_ns_per_packet"), short_ns));
        row.push(text(figure("cores_free"), cores));
        row.push(text(figure("cores_free_at_most"), cores));
        row.push(text(figure("cores_free_part"), cores));
        row.push(figure("headroom_by_rate").map_or("-".to_owned(), |part| least(cores(part))));
        row.push(evidence(record).to_owned());
        row.push(match &record.evidence {
            Evidence::Published { source } => {
                format!("{}: {source}", parameter(record, "platform"))
            }
            _ => verdict(record),
        });
        table.row(row);
    }
    table
}

/// Everything, unrounded.
pub(super) fn for_machines(records: &[Record]) -> Table {
    let parameters = [
        "kind", "link", "topology", "size", "threads", "rate", "part", "goal", "seconds", "queue",
    ];
    let figures = [
        "cores_free",
        "cores_free_at_most",
        "headroom_by_rate",
        "packets_per_s",
        "packets_per_s_max",
        "bytes_per_s_max",
        "work_ns_per_packet",
        "ns_per_unit",
        "units_per_packet",
    ];
    sweep::for_machines(records, &parameters, &figures)
}

/// A part of a core, or some cores, to three digits.
pub(super) fn cores(value: f64) -> String {
    format!("{value:.3}")
}

fn shown(record: &Record, name: &str) -> String {
    match parameter(record, name) {
        empty if empty.is_empty() => "-".to_owned(),
        said => said,
    }
}
