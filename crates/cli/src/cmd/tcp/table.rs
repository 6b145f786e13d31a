//! The table of `dpb tcp`: one row a record.

use dpb_core::measure::{Record, Summary};

use crate::exit::Failure;
use crate::output::{self, Column, Format, Table, evidence, short, short_ns, verdict};

/// Prints the records; JSON lines were printed as they came.
pub(super) fn print(records: &[Record], format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => output::print(&for_people(records).to_text()),
        Format::Csv => output::print(&for_machines(records).to_csv()),
        Format::Markdown => output::print(&for_people(records).to_markdown()),
        Format::Json => Ok(()),
    }
}

/// A column's title, the metric in it, and how its value is written.
type Figure = (&'static str, &'static str, fn(f64) -> String);

const PARAMETERS: [&str; 5] = ["direction", "size", "depth", "connections", "engine"];

fn for_people(records: &[Record]) -> Table {
    let any = |name: &str| {
        records
            .iter()
            .any(|record| record.summary.contains_key(name))
    };
    let tools = records
        .iter()
        .any(|record| parameter(record, "tool") != "dpb");
    let is_open = any("offered_messages_per_s");
    let mut figures: Vec<Figure> = vec![
        ("messages/s", "messages_per_s", short),
        ("bytes/s", "bytes_per_s", short),
    ];
    if any("latency_ns_p50") {
        figures.extend([
            ("p50", "latency_ns_p50", short_ns as fn(f64) -> String),
            ("p90", "latency_ns_p90", short_ns),
            ("p99", "latency_ns_p99", short_ns),
            ("p99.9", "latency_ns_p999", short_ns),
            ("max", "latency_ns_max", short_ns),
        ]);
    }
    figures.extend([
        (
            "CPU/msg",
            "client_cpu_ns_per_message",
            short_ns as fn(f64) -> String,
        ),
        ("server CPU/msg", "server_cpu_ns_per_message", short_ns),
    ]);
    let mut columns = Vec::new();
    if tools {
        columns.push(Column::left("tool"));
    }
    columns.extend([
        Column::left("direction"),
        Column::right("size"),
        Column::right("depth"),
        Column::right("conns"),
        Column::left("engine"),
    ]);
    if is_open {
        columns.push(Column::right("offered/s"));
    }
    columns.extend(figures.iter().map(|(title, ..)| Column::right(*title)));
    columns.extend([
        Column::right("resent"),
        Column::left("evidence"),
        Column::noted("verdict"),
    ]);
    let mut table = Table::new(columns);
    for record in records {
        let mut row = Vec::new();
        if tools {
            row.push(parameter(record, "tool"));
        }
        row.extend(PARAMETERS.map(|name| parameter(record, name)));
        if is_open {
            row.push(parameter(record, "rate"));
        }
        row.extend(figures.iter().map(|(_, name, text)| {
            let summary = record.summary.get(*name);
            summary.map_or("-".to_owned(), |summary| text(summary.median))
        }));
        let again = record.counts.get("retransmissions");
        row.push(again.map_or("-".to_owned(), ToString::to_string));
        row.extend([evidence(record).to_owned(), verdict(record)]);
        table.row(row);
    }
    table
}

/// Everything, unrounded, one column a parameter or summary.
fn for_machines(records: &[Record]) -> Table {
    const MORE: [&str; 5] = ["tool", "server", "link", "mode", "rate"];
    const SUMMARIES: [&str; 14] = [
        "messages_per_s",
        "bytes_per_s",
        "bytes_per_s_sent",
        "bytes_per_s_received",
        "latency_ns_p50",
        "latency_ns_p90",
        "latency_ns_p99",
        "latency_ns_p999",
        "latency_ns_max",
        "latency_ns_mean",
        "client_cpu_ns_per_message",
        "server_cpu_ns_per_message",
        "client_cpu_ns_per_byte",
        "server_cpu_ns_per_byte",
    ];
    let parameters = || MORE.into_iter().chain(PARAMETERS);
    let mut columns: Vec<Column> = parameters().map(Column::left).collect();
    columns.extend(SUMMARIES.map(Column::right));
    columns.extend(
        [
            "messages_per_s_ci95_low",
            "messages_per_s_ci95_high",
            "retransmissions",
        ]
        .map(Column::right),
    );
    columns.extend(["evidence", "verdict", "id"].map(Column::left));
    let mut table = Table::new(columns);
    for record in records {
        let plain = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let of = |name: &str| record.parameters.get(name);
        let mut row: Vec<String> = parameters()
            .map(|name| of(name).map_or(String::new(), ToString::to_string))
            .collect();
        let summary = |name: &str| record.summary.get(name);
        let medians = SUMMARIES
            .iter()
            .map(|name| summary(name).map(|summary| summary.median));
        row.extend(medians.map(plain));
        let end = |of: fn(&Summary) -> Option<f64>| summary("messages_per_s").and_then(of);
        row.push(plain(end(|summary| summary.ci95_low)));
        row.push(plain(end(|summary| summary.ci95_high)));
        let again = record.counts.get("retransmissions");
        row.push(again.map_or(String::new(), ToString::to_string));
        row.extend([
            evidence(record).to_owned(),
            verdict(record),
            record.id.clone(),
        ]);
        table.row(row);
    }
    table
}

fn parameter(record: &Record, name: &str) -> String {
    let value = record.parameters.get(name);
    value.map_or("-".to_owned(), ToString::to_string)
}
