//! Tables and charts of connections.

use dpb_core::measure::Record;
use dpb_core::measure::comparison::Better;

use crate::cmd::net::bench::figure;
use crate::cmd::sweep::{self, parameter};
use crate::output::{self, Column, Table, evidence, short, short_ns, verdict};
use crate::task::{Metric, View, axis, charted, listed};

pub(super) const VIEW: View = View {
    lead: &[
        "program",
        "from",
        "to",
        "place",
        "threads",
        "program_flows",
        "size",
        "measure",
        "connections",
        "search",
    ],
    series: &["program", "from", "to", "place", "measure", "search"],
    sweeps: &[
        axis("connections", "connections", short),
        axis("program_flows", "flows that a thread has room for", short),
        axis("size", "bytes of a frame", output::number),
        axis("threads", "threads", output::number),
    ],
    fixed: &["link", "family", "fill_rate", "faults", "queue"],
    metrics: &[
        Metric {
            better: Some(Better::More),
            ..charted(
                "capacity_connections",
                "connection tracking table capacity, connections",
                short,
            )
        },
        Metric {
            better: Some(Better::More),
            ..listed(
                "capacity_upper_connections",
                "lowest number of connections that is not held",
                short,
            )
        },
        charted(
            "established_per_s",
            "maximum connection establishment rate, connections per second",
            short,
        ),
        listed(
            "lower_established_per_s",
            "highest rate of connections that upholds the goal, per second",
            short,
        ),
        listed(
            "upper_established_per_s",
            "lowest rate of connections that fails the goal, per second",
            short,
        ),
        charted(
            "torn_down_per_s",
            "connection tear-down rate, connections per second",
            short,
        ),
        listed("tear_down_s", "time of a tear-down", |s| short_ns(s * 1e9)),
        charted(
            "throughput_packets_per_s",
            "throughput of the goal over the connections, packets per second",
            short,
        ),
        listed(
            "lower_packets_per_s",
            "highest rate that upholds the goal, packets per second",
            short,
        ),
        listed(
            "upper_packets_per_s",
            "lowest rate that fails the goal, packets per second",
            short,
        ),
        listed("search_s", "time of a search's trials", |s| {
            short_ns(s * 1e9)
        }),
    ],
    base: None,
};

/// A column's title, the metric in it, and how its value is written.
type Shown = (&'static str, &'static str, fn(f64) -> String);

const FIGURES: [Shown; 11] = [
    ("capacity", "capacity_connections", output::number),
    ("not held", "capacity_upper_connections", output::number),
    ("established/s", "established_per_s", short),
    ("lower", "lower_established_per_s", short),
    ("upper", "upper_established_per_s", short),
    ("torn down/s", "torn_down_per_s", short),
    ("tear-down", "tear_down_s", |s| short_ns(s * 1e9)),
    ("throughput/s", "throughput_packets_per_s", short),
    ("lower/s", "lower_packets_per_s", short),
    ("upper/s", "upper_packets_per_s", short),
    ("search", "search_s", |s| short_ns(s * 1e9)),
];

const COUNTS: [(&str, &str); 2] = [("tried", "connections_tried"), ("made", "connections_made")];

/// Columns that some record has something in.
pub(super) fn for_people(records: &[Record]) -> Table {
    let parameters = VIEW.lead.iter().copied().filter(|name| {
        let mut records = records.iter();
        records.any(|record| record.parameters.contains_key(*name))
    });
    let parameters: Vec<&str> = parameters.collect();
    let figures = FIGURES.iter().filter(|(_, name, _)| {
        let mut records = records.iter();
        records.any(|record| record.summary.contains_key(*name))
    });
    let figures: Vec<&Shown> = figures.collect();
    let title = |name: &str| match name {
        "search" => "goal".to_owned(),
        name => name.replace('_', " "),
    };
    let mut columns: Vec<Column> = (parameters.iter())
        .map(|name| Column::left(title(name)))
        .collect();
    columns.extend(figures.iter().map(|(title, ..)| Column::right(*title)));
    columns.extend(COUNTS.map(|(title, _)| Column::right(title)));
    columns.extend([Column::left("evidence"), Column::noted("verdict")]);
    let mut table = Table::new(columns);
    for record in records {
        let mut row: Vec<String> = (parameters.iter())
            .map(|name| parameter(record, name))
            .collect();
        let shown = figures.iter();
        row.extend(shown.map(|(_, name, text)| figure(record, name, *text)));
        let count = |name: &str| {
            let count = record.counts.get(name);
            count.map_or("-".to_owned(), ToString::to_string)
        };
        row.extend(COUNTS.map(|(_, name)| count(name)));
        row.extend([evidence(record).to_owned(), verdict(record)]);
        table.row(row);
    }
    table
}

pub(super) fn for_machines(records: &[Record]) -> Table {
    let mut parameters = VIEW.lead.to_vec();
    parameters.extend(["link", "family", "fill_rate"]);
    let figures = FIGURES.map(|(_, name, _)| name);
    sweep::for_machines(records, &parameters, &figures)
}
