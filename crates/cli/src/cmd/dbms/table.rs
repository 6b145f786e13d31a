//! Tables of `dpb dbms`.

use dpb_core::measure::{Ratio, Record};

use super::{EngineName, seconds};
use crate::cmd::sweep::{self, parameter};
use crate::output::{Column, Table, evidence, percent, short, verdict};

/// The tests for a person: times, what they took, what a pushdown saved, and the gain over the others.
pub(super) fn for_people(records: &[Record]) -> Table {
    let mut table = Table::new(vec![
        Column::left("query"),
        Column::left("engine"),
        Column::left("state"),
        Column::right("sf"),
        Column::right("threads"),
        Column::right("time"),
        Column::right("95 % CI"),
        Column::right("CPU"),
        Column::right("agent's CPU"),
        Column::right("memory"),
        Column::right("read"),
        Column::right("link"),
        Column::right("rows dropped"),
        Column::right("vs duckdb"),
        Column::right("vs fetch"),
        Column::left("evidence"),
        Column::noted("verdict"),
    ]);
    for record in records {
        let figure = |name: &str| record.summary.get(name).map(|summary| summary.median);
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let time = record.summary.get("run_s");
        let interval = time.and_then(|time| {
            Some(format!(
                "{} to {}",
                seconds(time.ci95_low?),
                seconds(time.ci95_high?)
            ))
        });
        let size = |name: &str| or_none(figure(name).map(|value| format!("{}B", short(value))));
        table.row([
            format!("Q{}", parameter(record, "query")),
            parameter(record, "engine"),
            parameter(record, "state"),
            parameter(record, "sf"),
            parameter(record, "threads"),
            or_none(time.map(|time| seconds(time.median))),
            or_none(interval),
            or_none(figure("cpu_s").map(seconds)),
            or_none(figure("agent_cpu_s").map(seconds)),
            size("peak_bytes"),
            size("read_bytes"),
            size("link_bytes"),
            or_none(dropped(record).map(percent)),
            gain(record, records, EngineName::Duckdb),
            gain(record, records, EngineName::DuckdbFetch),
            evidence(record).to_owned(),
            verdict(record),
        ]);
    }
    table
}

/// The share of the rows that were scanned and not sent.
fn dropped(record: &Record) -> Option<f64> {
    let count = |name: &str| record.counts.get(name).copied();
    let (scanned, sent) = count("rows_scanned").zip(count("rows_sent"))?;
    (scanned > 0).then(|| 1.0 - sent as f64 / scanned as f64)
}

/// The gain over another engine in the same test, if both times are of one kind of evidence.
fn gain(record: &Record, records: &[Record], base: EngineName) -> String {
    let none = || "-".to_owned();
    if parameter(record, "engine") == base.name() {
        return none();
    }
    let is_same = |other: &&Record| {
        let same = |name: &str| parameter(record, name) == parameter(other, name);
        parameter(other, "engine") == base.name()
            && record.evidence.kind() == other.evidence.kind()
            && ["query", "state", "sf", "threads"].into_iter().all(same)
    };
    let times = |record: &Record| {
        record
            .samples
            .get("run_s")
            .map(|samples| samples.values.clone())
    };
    let both = records
        .iter()
        .find(is_same)
        .and_then(times)
        .zip(times(record));
    match both.and_then(|(theirs, ours)| Ratio::of(&theirs, &ours)) {
        Some(Ratio {
            median,
            ci95: Some((low, high)),
        }) => format!("{median:.2}x [{low:.2}, {high:.2}]"),
        Some(Ratio { median, ci95: None }) => format!("{median:.2}x"),
        None => none(),
    }
}

/// Everything, unrounded.
pub(super) fn for_machines(records: &[Record]) -> Table {
    let parameters = [
        "query",
        "engine",
        "state",
        "sf",
        "threads",
        "link_gbps",
        "wire",
        "server",
        "warm_up_runs",
        "repeat",
        "filters",
    ];
    let figures = [
        "run_s",
        "open_s",
        "cpu_s",
        "agent_cpu_s",
        "peak_bytes",
        "agent_peak_bytes",
        "read_bytes",
        "link_bytes",
    ];
    sweep::for_machines(records, &parameters, &figures)
}

#[cfg(test)]
mod tests {
    use dpb_core::Evidence;

    use super::*;

    #[test]
    fn a_gain_never_crosses_kinds_of_evidence() {
        let record = |engine: EngineName, evidence: Evidence, seconds: f64| {
            let mut record = Record::new("dbms", evidence, 0)
                .with("engine", engine.name())
                .with("query", 6_u64);
            record.sample("run_s", vec![seconds; 7]);
            record
        };
        let paced = || Evidence::Emulated {
            by: "a link of 1 Gbit/s by pacing".to_owned(),
        };
        let here = Evidence::Measured;
        let all = [
            record(EngineName::Duckdb, here.clone(), 4.0),
            record(EngineName::DuckdbFetch, paced(), 6.0),
            record(EngineName::DpbPushdown, paced(), 2.0),
            record(EngineName::DpbPushdown, here, 1.0),
        ];
        let gains = |of: &Record| {
            [EngineName::Duckdb, EngineName::DuckdbFetch].map(|base| gain(of, &all, base))
        };
        let [over_duckdb, over_fetch] = gains(&all[2]);
        assert_eq!(over_duckdb, "-");
        assert!(over_fetch.starts_with("3.00x"), "{over_fetch}");
        let [over_duckdb, over_fetch] = gains(&all[3]);
        assert!(over_duckdb.starts_with("4.00x"), "{over_duckdb}");
        assert_eq!(over_fetch, "-");
    }
}
