//! The tables of systems that ran.

use dpb_core::measure::statistics::summarize;
use dpb_core::measure::{Outcome, Record};
use dpb_sim::system::Leg;

use super::samples::{DATAGRAMS, FLOW, Figures, PART, REQUESTS, SPENT, Samples};
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table};
use crate::report::busiest::busiest;

/// A figure's text.
type Text = fn(f64) -> String;

/// Prints what became of connections, datagrams, parts and the way of frames in the runs of one system: medians, and intervals where the
/// runs are enough.
///
/// # Errors
/// If stdout cannot be written.
pub(super) fn print(format: Format, samples: &Samples) -> Result<(), Failure> {
    for table in tables(samples) {
        output::print(&(table.to(format) + "\n"))?;
    }
    Ok(())
}

/// The tables that say something.
fn tables(samples: &Samples) -> Vec<Table> {
    let whole: Text = |value| value.round().to_string();
    let thousandths: Text = |value| format!("{value:.3}");
    let ns: Text = output::short_ns;
    let mut tables = Vec::new();
    if !samples.flows.is_empty() {
        let texts = [whole, whole, ns, thousandths, whole];
        tables.push(table(&["connection at"], &FLOW, &samples.flows, texts));
    }
    if !samples.datagrams.is_empty() {
        let texts = [whole, whole, whole, whole, whole, whole, ns, ns, ns];
        tables.push(table(&["datagrams"], &DATAGRAMS, &samples.datagrams, texts));
    }
    if !samples.dropped.is_empty() {
        let leads = ["dropped datagrams", "reason"];
        tables.push(table(&leads, &["number"], &samples.dropped, [whole]));
    }
    if !samples.requests.is_empty() {
        let texts = [whole, whole, ns, ns, ns];
        tables.push(table(&["requests"], &REQUESTS, &samples.requests, texts));
    }
    let texts = [
        whole,
        percent,
        whole,
        ns,
        |queue| format!("{queue:.2}"),
        whole,
        whole,
    ];
    tables.push(table(&["part"], &PART, &samples.parts, texts));
    if samples.spent.is_empty() {
        tables.push(legs(&samples.legs));
    } else {
        let leads = ["where the time of a frame went (first run)", "cause"];
        tables.push(table(&leads, &SPENT, &samples.spent, [ns, percent]));
    }
    tables
}

/// The legs of frames by the hosts that received them, of which those are left out that took no time.
fn legs(figures: &Figures<{ Leg::ALL.len() }>) -> Table {
    let is_used = |leg: &Leg| {
        let mut rows = figures.rows().iter();
        rows.any(|(_, lists)| lists[*leg as usize].iter().any(|&time| time > 0.0))
    };
    let used: Vec<Leg> = Leg::ALL.into_iter().filter(is_used).collect();
    let titles = used
        .iter()
        .map(|leg| Column::right(leg.name().replace('_', " ")));
    let columns: Vec<Column> = [Column::left("frames received at")]
        .into_iter()
        .chain(titles)
        .collect();
    let mut table = Table::new(columns);
    for (names, lists) in figures.rows() {
        let cells = used
            .iter()
            .map(|&leg| cell(&lists[leg as usize], output::short_ns));
        table.row(names.iter().cloned().chain(cells));
    }
    table
}

/// A part that is busy for less of the time binds nothing.
const BOUND: f64 = 0.9;

/// A sentence about the part that binds, by the median share of the time for which each was busy.
pub(super) fn binding(samples: &Samples) -> String {
    let busy = samples.parts.rows().iter().filter_map(|(names, lists)| {
        let shares: Vec<f64> = known(&lists[1]);
        Some((names.first()?, summarize(&shares)?.median))
    });
    let busiest = busy.filter(|&(_, share)| share > 0.0);
    match busiest.max_by(|(_, one), (_, other)| one.total_cmp(other)) {
        None => "no part was busy\n".to_owned(),
        Some((name, share)) if share >= BOUND => {
            format!("{name} binds: busy for {} of the time\n", percent(share))
        }
        Some((name, share)) => format!(
            "no part binds: the busiest, {name}, works for {} of the time, and the rest is latency\n",
            percent(share)
        ),
    }
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

/// A row for each thing, a column for each of its figures, behind those of its names.
fn table<const N: usize>(
    leads: &[&str],
    titles: &[&str; N],
    figures: &Figures<N>,
    texts: [Text; N],
) -> Table {
    let leads = leads.iter().map(|lead| Column::left(*lead));
    let titles = titles.iter().map(|title| Column::right(*title));
    let mut table = Table::new(leads.chain(titles).collect::<Vec<_>>());
    for (names, lists) in figures.rows() {
        let cells = lists.iter().zip(texts).map(|(list, text)| cell(list, text));
        table.row(names.iter().cloned().chain(cells));
    }
    table
}

/// The figures that are known.
fn known(list: &[f64]) -> Vec<f64> {
    list.iter()
        .copied()
        .filter(|value| !value.is_nan())
        .collect()
}

/// The median of runs, with its interval unless all were the same.
fn cell(list: &[f64], text: Text) -> String {
    let known = known(list);
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
            (|it| output::short_ns(it * 1e9)) as Text,
        ),
        ("goodput_bps", "goodput bit/s", output::short),
        ("transactions_per_s", "transactions/s", output::short),
        ("request_latency_ns_p99", "requests, p99", output::short_ns),
        (
            "datagram_latency_ns_p99",
            "datagrams, p99",
            output::short_ns,
        ),
        ("answer_latency_ns_p99", "answers, p99", output::short_ns),
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
        let most = busiest(record);
        row.push(most.map_or(String::new(), |(kind, share)| {
            format!("{}, {}", kind.parts, percent(share))
        }));
        row.push(output::evidence(record).to_owned());
        row.push(match &record.outcome {
            Outcome::Done => "done".to_owned(),
            _ => output::verdict(record),
        });
        table.row(row);
    }
    table
}
