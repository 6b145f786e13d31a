//! DOCA Bench's final figures: a record for each block `Aggregate stats`.
//!
//! The labels are those of the sample invocations in NVIDIA's documentation (DOCA 2.7 to 2.9). The program is closed, and NVIDIA says that what it
//! prints may change with each release; nobody here had one. A block without a label that is known is therefore an error, not an empty record.
//!
//! Its `Gib` are of 2^30 bits, its operations jobs that came back.

use super::{ImportError, Origin, behind, keep, parameter, wrong};
use crate::measure::record::{Record, Value};

/// The line that a block of figures follows.
const BLOCK: &str = "Aggregate stats";
/// Its latencies, in nanoseconds, and our names.
const LATENCIES: [(&str, &str); 9] = [
    ("min:", "latency_ns_min"),
    ("max:", "latency_ns_max"),
    ("median:", "latency_ns_p50"),
    ("mean:", "latency_ns_mean"),
    ("90th %ile:", "latency_ns_p90"),
    ("95th %ile:", "latency_ns_p95"),
    ("99th %ile:", "latency_ns_p99"),
    ("99.9th %ile:", "latency_ns_p999"),
    ("99.99th %ile:", "latency_ns_p9999"),
];
/// What it echoes of its configuration, and our names.
const PARAMETERS: [(&str, &str); 8] = [
    ("Benchmark mode:", "mode"),
    ("Uniform job size:", "size"),
    ("Core count:", "cores"),
    ("Per core thread count:", "threads_per_core"),
    ("Data provider job count:", "depth"),
    ("Use remote input buffers:", "remote_input"),
    ("Use remote output buffers:", "remote_output"),
    ("Warm up job count:", "warm_up_jobs"),
];
/// Bytes of a Gib.
const GIB_BYTES: f64 = (1 << 30) as f64 / 8.0;

pub(super) fn records(text: &str, origin: &Origin) -> Result<Vec<Record>, ImportError> {
    let version = text.lines().find_map(|line| {
        let version = line.split("doca_bench").nth(1)?.trim_start();
        version.strip_prefix(':').map(str::trim)
    });
    let mut told: Vec<(&str, Value)> = Vec::new();
    let mut steps: Vec<&str> = Vec::new();
    let mut records = Vec::new();
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        if line.ends_with("bench configuration") {
            (told, steps) = (Vec::new(), Vec::new());
        }
        for (label, name) in PARAMETERS {
            if let Some(value) = line.strip_prefix(label) {
                told.retain(|(known, _)| *known != name);
                told.push((name, parameter(value.trim())));
            }
        }
        let step = line.strip_prefix("name: \"");
        if let Some((name, _)) = step.and_then(|rest| rest.split_once('"')) {
            steps.push(name);
        }
        if line != BLOCK {
            continue;
        }
        let mut record = super::record("doca_bench", version.unwrap_or(""), origin, "", 0.0);
        for (name, value) in &told {
            record = record.with(name, value.clone());
        }
        if !steps.is_empty() {
            record = record.with("steps", steps.join(","));
        }
        while let Some(line) = lines.next_if(|line| line.contains(':') && !line.ends_with('[')) {
            figure(line, &mut record);
        }
        if record.samples.is_empty() {
            return Err(wrong(format!(
                "no figure of DOCA Bench's follows `{BLOCK}`: this release prints others"
            )));
        }
        records.push(record);
    }
    Ok(records)
}

/// Adds what a line of a block says.
fn figure(line: &str, record: &mut Record) {
    if let Some(operations) = behind(line, "Throughput:") {
        let unit = line.split_whitespace().last().unwrap_or_default();
        let scale = match unit.strip_suffix("Operations/s") {
            Some("") => 1.0,
            Some("K") => 1e3,
            Some("M") => 1e6,
            Some("G") => 1e9,
            _ => return,
        };
        keep(record, "items_per_s", Some(operations * scale));
    }
    for (label, name) in [
        ("Ingress rate:", "bytes_per_s"),
        ("Egress rate:", "output_bytes_per_s"),
    ] {
        let rate = behind(line, label).filter(|_| line.ends_with("Gib/s"));
        keep(record, name, rate.map(|rate| rate * GIB_BYTES));
    }
    for (label, name) in LATENCIES {
        let time = behind(line, label).filter(|_| line.ends_with(" ns"));
        keep(record, name, time);
    }
    for (label, name) in [
        ("Enqueued jobs:", "jobs_submitted"),
        ("Dequeued jobs:", "items"),
    ] {
        if let Some(jobs) = behind(line, label) {
            record.counts.insert(name.to_owned(), jobs as u64);
        }
    }
}
