//! The table of `dpb op`: one row a record.

use std::collections::BTreeSet;

use dpb_core::measure::{Ratio, Record, Summary};

use crate::exit::Failure;
use crate::output::{self, Column, Format, Table, evidence, short, short_ns, verdict};
use crate::spec;

/// The oracle, and the backend that others are compared with.
const PORTABLE: &str = "cpu/portable";

/// Prints the records; JSON lines were printed as they came.
pub(super) fn print(records: &[Record], format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => output::print(&for_people(records).to_text()),
        Format::Csv => output::print(&for_machines(records).to_csv()),
        Format::Markdown => output::print(&for_people(records).to_markdown()),
        Format::Json => Ok(()),
    }
}

fn for_people(records: &[Record]) -> Table {
    let has = |name: &str| {
        records
            .iter()
            .any(|record| record.summary.contains_key(name))
    };
    let has_latency = has("latency_ns_p50");
    let has_rate = has("offered_jobs_per_s");
    let has_host_cpu = has("host_cpu_ns_per_item");
    let depths: BTreeSet<_> = records
        .iter()
        .map(|record| parameter(record, "depth"))
        .collect();
    let has_depths = depths.len() > 1;
    let mut columns = vec![
        Column::left("operator"),
        Column::right("size"),
        Column::right("batch"),
        Column::right("threads"),
    ];
    if has_depths {
        columns.push(Column::right("depth"));
    }
    columns.push(Column::left("backend"));
    if has_rate {
        columns.push(Column::right("offered jobs/s"));
    }
    columns.extend([
        Column::right("items/s"),
        Column::right("bytes/s"),
        Column::right("95 % CI"),
        Column::right("vs portable"),
    ]);
    if has_latency {
        columns.extend(["p50", "p99", "p99.9", "max"].map(Column::right));
    }
    if has_host_cpu {
        columns.push(Column::right("host CPU/item"));
    }
    columns.extend([Column::left("evidence"), Column::noted("verdict")]);
    let mut table = Table::new(columns);
    for record in records {
        let mut row = ["operator", "size", "batch", "threads"]
            .map(|name| parameter(record, name))
            .to_vec();
        if has_depths {
            row.push(parameter(record, "depth"));
        }
        row.push(parameter(record, "backend"));
        let own = spec::written(record);
        if !own.is_empty() {
            row[0].push_str(&format!(" {own}"));
        }
        if has_rate {
            row.push(parameter(record, "rate"));
        }
        let rate = record.summary.get("items_per_s");
        row.push(rate.map_or("-".into(), |rate| short(rate.median)));
        let bytes = record.summary.get("bytes_per_s");
        row.push(bytes.map_or("-".into(), |bytes| short(bytes.median)));
        row.push(bytes.map_or("-".into(), interval));
        row.push(versus(record, records).map_or("-".into(), |ratio| ratio_text(&ratio)));
        if has_latency {
            for name in ["p50", "p99", "p999", "max"] {
                let ns = record.summary.get(&format!("latency_ns_{name}"));
                row.push(ns.map_or("-".into(), |ns| short_ns(ns.median)));
            }
        }
        if has_host_cpu {
            let ns = record.summary.get("host_cpu_ns_per_item");
            row.push(ns.map_or("-".into(), |ns| short_ns(ns.median)));
        }
        row.push(evidence(record).into());
        row.push(verdict(record));
        table.row(row);
    }
    table
}

/// Everything, unrounded, one column a parameter or summary.
fn for_machines(records: &[Record]) -> Table {
    const PARAMETERS: [&str; 8] = [
        "operator", "size", "batch", "threads", "depth", "backend", "mode", "rate",
    ];
    const SUMMARIES: [&str; 8] = [
        "items_per_s",
        "bytes_per_s",
        "latency_ns_p50",
        "latency_ns_p90",
        "latency_ns_p99",
        "latency_ns_p999",
        "latency_ns_max",
        "host_cpu_ns_per_item",
    ];
    let own: BTreeSet<&str> = records
        .iter()
        .flat_map(spec::own)
        .map(|(name, _)| name)
        .collect();
    let parameters: Vec<&str> = PARAMETERS.into_iter().chain(own).collect();
    let mut columns: Vec<Column> = parameters
        .iter()
        .map(|name| Column::left(name.to_string()))
        .collect();
    columns.extend(SUMMARIES.map(Column::right));
    columns.extend(
        [
            "bytes_per_s_ci95_low",
            "bytes_per_s_ci95_high",
            "vs_portable",
        ]
        .map(Column::right),
    );
    columns.extend(["evidence", "verdict", "id"].map(Column::left));
    let mut table = Table::new(columns);
    for record in records {
        let plain = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let mut row: Vec<String> = parameters
            .iter()
            .map(|name| {
                record
                    .parameters
                    .get(*name)
                    .map_or(String::new(), ToString::to_string)
            })
            .collect();
        row.extend(
            SUMMARIES
                .iter()
                .map(|name| plain(record.summary.get(*name).map(|s| s.median))),
        );
        let bytes = record.summary.get("bytes_per_s");
        row.push(plain(bytes.and_then(|bytes| bytes.ci95_low)));
        row.push(plain(bytes.and_then(|bytes| bytes.ci95_high)));
        row.push(plain(versus(record, records).map(|ratio| ratio.median)));
        row.push(evidence(record).into());
        row.push(verdict(record));
        row.push(record.id.clone());
        table.row(row);
    }
    table
}

/// Against the portable path at the same parameters; never across kinds of evidence.
fn versus(record: &Record, records: &[Record]) -> Option<Ratio> {
    let same = |other: &&Record| {
        let parameters = |record: &Record| {
            let mut parameters = record.parameters.clone();
            parameters.remove("backend");
            parameters
        };
        parameter(other, "backend") == PORTABLE
            && other.evidence == record.evidence
            && parameters(other) == parameters(record)
    };
    if parameter(record, "backend") == PORTABLE {
        return None;
    }
    let portable = records.iter().find(same)?;
    let rates = |record: &Record| Some(record.samples.get("items_per_s")?.values.clone());
    Ratio::of(&rates(record)?, &rates(portable)?)
}

fn ratio_text(ratio: &Ratio) -> String {
    match ratio.is_decided() {
        true => format!("{:.2}x", ratio.median),
        false => format!("{:.2}x (too close to call)", ratio.median),
    }
}

fn interval(summary: &Summary) -> String {
    match (summary.ci95_low, summary.ci95_high) {
        (Some(low), Some(high)) => format!("{}..{}", short(low), short(high)),
        _ => "-".into(),
    }
}

pub(super) fn parameter(record: &Record, name: &str) -> String {
    let value = record.parameters.get(name);
    value.map_or("-".into(), ToString::to_string)
}
