//! Tables of `dpb index`.

use dpb_core::measure::{Ratio, Record};

use crate::cmd::sweep::{self, parameter};
use crate::output::{Column, Table, evidence, percent, short, short_ns, verdict};

/// The tests for a person: rates, times, what each side used, and the gain over the host alone.
pub(super) fn for_people(records: &[Record]) -> Table {
    let mut table = Table::new(vec![
        Column::left("engine"),
        Column::left("workload"),
        Column::right("records"),
        Column::right("value"),
        Column::left("split"),
        Column::right("threads"),
        Column::right("batch"),
        Column::right("requests/s"),
        Column::right("95 % CI"),
        Column::right("p50"),
        Column::right("p99"),
        Column::right("host CPU"),
        Column::right("DPU CPU"),
        Column::right("DPU's share"),
        Column::right("vs 1:0"),
        Column::left("evidence"),
        Column::noted("verdict"),
    ]);
    for record in records {
        let figure = |name: &str| record.summary.get(name).map(|summary| summary.median);
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let rate = record.summary.get("requests_per_s");
        let interval = rate.and_then(|rate| {
            Some(format!(
                "{} to {}",
                short(rate.ci95_low?),
                short(rate.ci95_high?)
            ))
        });
        let ns = |name: &str| or_none(figure(name).map(short_ns));
        let threads = [
            parameter(record, "host_threads"),
            parameter(record, "dpu_threads"),
        ]
        .join("+");
        let moved = match parameter(record, "adaptive").as_str() {
            "true" => " adaptive",
            _ => "",
        };
        table.row([
            parameter(record, "engine"),
            format!(
                "{} {}",
                parameter(record, "workload"),
                parameter(record, "distribution")
            ),
            parameter(record, "records"),
            parameter(record, "value_bytes"),
            format!("{}{moved}", parameter(record, "split")),
            threads,
            parameter(record, "batch"),
            or_none(rate.map(|rate| short(rate.median))),
            or_none(interval),
            ns("latency_ns_p50"),
            ns("latency_ns_p99"),
            ns("host_cpu_ns_per_request"),
            ns("dpu_cpu_ns_per_request"),
            or_none(figure("dpu_share").map(percent)),
            or_none(gain(record, records)),
            evidence(record).to_owned(),
            verdict(record),
        ]);
    }
    table
}

/// The rate over that of the host alone in the same test.
fn gain(record: &Record, records: &[Record]) -> Option<String> {
    let is_alone = |other: &&Record| {
        let own = [
            "split",
            "dpu_threads",
            "adaptive",
            "failover",
            "dpu_cores",
            "window",
        ];
        parameter(other, "split") == "1:0"
            && (record.parameters.iter()).all(|(name, value)| {
                own.contains(&name.as_str()) || other.parameters.get(name) == Some(value)
            })
    };
    let rates = |record: &Record| {
        record
            .samples
            .get("requests_per_s")
            .map(|samples| samples.values.clone())
    };
    let alone = rates(records.iter().find(is_alone)?)?;
    let ratio = Ratio::of(&rates(record)?, &alone)?;
    Some(match ratio.ci95 {
        Some((low, high)) => format!("{:.2}x [{low:.2}, {high:.2}]", ratio.median),
        None => format!("{:.2}x", ratio.median),
    })
}

/// Everything, unrounded.
pub(super) fn for_machines(records: &[Record]) -> Table {
    let parameters = [
        "engine",
        "durability",
        "workload",
        "distribution",
        "keys",
        "records",
        "value_bytes",
        "split",
        "adaptive",
        "failover",
        "host_threads",
        "dpu_threads",
        "batch",
        "depth",
        "window",
        "mode",
        "rate",
    ];
    let figures = [
        "requests_per_s",
        "latency_ns_p50",
        "latency_ns_p99",
        "latency_ns_p999",
        "host_cpu_ns_per_request",
        "dpu_cpu_ns_per_request",
        "dpu_share",
    ];
    sweep::for_machines(records, &parameters, &figures)
}
