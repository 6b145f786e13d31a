//! What sysbench prints of `cpu`, `memory`, `threads`, `mutex` and `fileio`: a record a run, of `fileio` one a direction.

use super::{ImportError, Origin, behind, keep, parameter, wrong};
use crate::measure::record::Record;

const MIB: f64 = 1_048_576.0;
/// sysbench's latencies are milliseconds.
const MS_NS: f64 = 1e6;
/// The line that says what ran, and the test's name.
const TESTS: [(&str, &str); 3] = [
    ("Prime numbers limit:", "cpu"),
    ("Running memory speed test", "memory"),
    ("File operations:", "fileio"),
];
/// What a run was told, by its line, and its name on sysbench's command line.
const PARAMETERS: [(&str, &str); 9] = [
    ("Number of threads:", "threads"),
    ("Prime numbers limit:", "cpu-max-prime"),
    ("block size:", "memory-block-size"),
    ("total size:", "memory-total-size"),
    ("operation:", "memory-oper"),
    ("scope:", "memory-scope"),
    ("Block size", "file-block-size"),
    ("Doing", "file-test-mode"),
    ("Number of IO requests:", "io-requests"),
];

pub(super) fn records(text: &str, origin: &Origin) -> Result<Vec<Record>, ImportError> {
    let starts = text.match_indices("sysbench ").map(|(at, _)| at);
    let is_start = |&at: &usize| at == 0 || text.as_bytes()[at - 1] == b'\n';
    let starts: Vec<usize> = starts.filter(is_start).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let mut records = Vec::new();
    for (&start, end) in starts.iter().zip(ends) {
        run(&text[start..end], origin, &mut records)?;
    }
    Ok(records)
}

/// The records of one run.
fn run(text: &str, origin: &Origin, records: &mut Vec<Record>) -> Result<(), ImportError> {
    let version = text.split_whitespace().nth(1).unwrap_or_default();
    let mut record = super::record("sysbench", version, origin, "", 0.0);
    let lines = || text.lines().map(str::trim);
    let test = TESTS
        .iter()
        .find(|(line, _)| lines().any(|other| other.starts_with(line)));
    record = record.with("test", test.map_or("other", |(_, name)| name));
    for (line, name) in PARAMETERS {
        let value = lines().find_map(|other| other.strip_prefix(line));
        if let Some(value) = value {
            record.parameters.insert(
                name.to_owned(),
                parameter(value.trim().trim_end_matches(" test")),
            );
        }
    }
    let figure = |label: &str| lines().find_map(|line| behind(line, label));
    let latency = [
        ("min:", "latency_ns_min"),
        ("avg:", "latency_ns_mean"),
        ("max:", "latency_ns_max"),
        ("95th percentile:", "latency_ns_p95"),
        ("99th percentile:", "latency_ns_p99"),
    ];
    for (label, name) in latency {
        keep(&mut record, name, figure(label).map(|ms| ms * MS_NS));
    }
    if test.is_some_and(|(_, name)| *name == "fileio") {
        let directions = [
            ("read", "reads/s:", Some("read, MiB/s:")),
            ("write", "writes/s:", Some("written, MiB/s:")),
            ("fsync", "fsyncs/s:", None),
        ];
        for (direction, count, bytes) in directions {
            let mut record = record.clone().with("direction", direction);
            keep(&mut record, "items_per_s", figure(count));
            keep(
                &mut record,
                "bytes_per_s",
                bytes.and_then(figure).map(|mib| mib * MIB),
            );
            if record.samples.contains_key("items_per_s") {
                records.push(record);
            }
        }
        return Ok(());
    }
    let events = figure("total number of events:");
    let seconds = figure("total time:");
    // In brackets: `Total operations: 131072 (1556839.25 per second)`, `1024.00 MiB transferred (12162.81 MiB/sec)`.
    let in_brackets = |unit: &str| {
        lines().find_map(|line| {
            let inside = line.split_once('(')?.1.strip_suffix(unit)?;
            inside.trim().parse::<f64>().ok()
        })
    };
    let rate = figure("events per second:")
        .or_else(|| in_brackets("per second)"))
        .or_else(|| Some(events? / seconds?));
    let rate = rate.ok_or_else(|| wrong("no rate of events: did the run end?"))?;
    keep(&mut record, "items_per_s", Some(rate));
    keep(
        &mut record,
        "bytes_per_s",
        in_brackets("MiB/sec)").map(|mib| mib * MIB),
    );
    if let Some(events) = events {
        record.counts.insert("items".to_owned(), events as u64);
    }
    records.push(record);
    Ok(())
}
