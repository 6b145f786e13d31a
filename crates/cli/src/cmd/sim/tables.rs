//! The tables of systems that ran.

use std::collections::BTreeMap;

use dpb_core::measure::statistics::summarize;
use dpb_core::measure::{Outcome, Record};
use dpb_sim::system::Leg;

use super::samples::{FLOW, PART, Samples};
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table};

/// The metrics of kinds of parts, with what they are called in a table.
const KINDS: [(&str, &str); 4] = [
    ("busy_share_hosts", "a host's cores"),
    ("busy_share_stages", "a card's stage"),
    ("busy_share_buses", "DMA"),
    ("busy_share_wires", "a wire"),
];

/// Prints what became of connections, parts and the way of frames in the runs of one system: medians, and intervals where the
/// runs are enough.
///
/// # Errors
/// If stdout cannot be written.
pub(super) fn print(format: Format, samples: &Samples) -> Result<(), Failure> {
    let whole: fn(f64) -> String = |value| value.round().to_string();
    let flows = [
        whole,
        whole,
        output::short_ns,
        |rate| format!("{rate:.3}"),
        whole,
    ];
    let parts = [percent, whole, output::short_ns, whole];
    let legs = Leg::ALL.map(|leg| leg.name().replace('_', " "));
    let legs: Vec<&str> = legs.iter().map(String::as_str).collect();
    let tables = [
        table("connection at", &FLOW, &samples.flows, flows),
        table("part", &PART, &samples.parts, parts),
        table(
            "frames received at",
            &legs,
            &samples.legs,
            [output::short_ns as fn(f64) -> String; Leg::ALL.len()],
        ),
    ];
    for table in tables {
        let text = match format {
            Format::Markdown => table.to_markdown(),
            Format::Csv => table.to_csv(),
            Format::Table | Format::Json => table.to_text(),
        };
        output::print(&(text + "\n"))?;
    }
    Ok(())
}

/// A sentence about when all applications had finished; `None` if the record has no such time.
pub(super) fn completion(record: &Record) -> Option<String> {
    let median = |name: &str| record.summary.get(name).map(|it| it.median);
    Some(format!(
        "completion {}, goodput {}bit/s; evidence: {}\n",
        output::short_ns(median("completion_s")? * 1e9),
        output::short(median("goodput_bps")?),
        output::evidence(record),
    ))
}

/// A row for each thing, a column for each of its figures.
fn table<const N: usize>(
    lead: &str,
    titles: &[&str],
    figures: &BTreeMap<String, [Vec<f64>; N]>,
    texts: [fn(f64) -> String; N],
) -> Table {
    let titles = titles.iter().map(|title| Column::right(*title));
    let columns: Vec<Column> = [Column::left(lead)].into_iter().chain(titles).collect();
    let mut table = Table::new(columns);
    for (name, lists) in figures {
        let cells = lists.iter().zip(texts).map(|(list, text)| cell(list, text));
        table.row([name.clone()].into_iter().chain(cells));
    }
    table
}

/// The median of runs, with its interval unless all were the same.
fn cell(list: &[f64], text: fn(f64) -> String) -> String {
    let known: Vec<f64> = list
        .iter()
        .copied()
        .filter(|value| !value.is_nan())
        .collect();
    let Some(summary) = summarize(&known) else {
        return String::new();
    };
    let interval = summary.ci95_low.zip(summary.ci95_high);
    match interval.map(|(low, high)| (text(low), text(high))) {
        Some((low, high)) if low != high => {
            format!("{} [{low}, {high}]", text(summary.median))
        }
        _ => text(summary.median),
    }
}

/// A share to a tenth of a percent.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A row for each system.
pub(super) fn for_people(records: &[Record]) -> Table {
    let has = |metric: &str| records.iter().any(|it| it.summary.contains_key(metric));
    let metrics = [
        (
            "completion_s",
            "completion",
            (|it| output::short_ns(it * 1e9)) as fn(f64) -> String,
        ),
        ("goodput_bps", "goodput bit/s", output::short),
        ("transactions_per_s", "transactions/s", output::short),
    ];
    let metrics = metrics.into_iter().filter(|(metric, ..)| has(metric));
    let metrics: Vec<_> = metrics.collect();
    let mut columns = ["system", "set", "application", "digest"]
        .map(Column::left)
        .to_vec();
    columns.extend(metrics.iter().map(|(_, title, _)| Column::right(*title)));
    columns.push(Column::right("runs"));
    columns.extend(["busiest", "evidence", "outcome"].map(Column::left));
    let mut table = Table::new(columns);
    for record in records {
        let parameter = |name: &str| {
            let value = record.parameters.get(name);
            value.map_or(String::new(), ToString::to_string)
        };
        let samples = |name: &str| {
            let samples = record.samples.get(name);
            samples.map(|it| it.values.as_slice()).unwrap_or_default()
        };
        let mut row = ["system", "set", "application", "digest"]
            .map(parameter)
            .to_vec();
        row.extend(
            metrics
                .iter()
                .map(|(name, _, text)| cell(samples(name), *text)),
        );
        row.push(samples("completion_s").len().to_string());
        row.push(busiest(record));
        row.push(output::evidence(record).to_owned());
        row.push(match &record.outcome {
            Outcome::Done => "done".to_owned(),
            _ => output::verdict(record),
        });
        table.row(row);
    }
    table
}

/// The kind of part that is busiest, and its share.
fn busiest(record: &Record) -> String {
    let shares = KINDS.iter().filter_map(|(metric, kind)| {
        let share = record.summary.get(*metric)?.median;
        Some((share, *kind))
    });
    let most = shares.max_by(|(one, _), (other, _)| one.total_cmp(other));
    most.map_or(String::new(), |(share, kind)| {
        format!("{kind}, {}", percent(share))
    })
}
