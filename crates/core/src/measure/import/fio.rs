//! fio's JSON: a record for each job and direction.
//!
//! Format: <https://fio.readthedocs.io/en/latest/fio_doc.html#json-output>. Latency is completion latency, which leaves the submission out.

use serde_json::Value as Json;

use super::{ImportError, Origin, keep, number, parameter, wrong};
use crate::measure::record::{Outcome, Record, Value};

/// Options that say where files lie and how results are written, not what is measured.
const NOT_PARAMETERS: [&str; 7] = [
    "name",
    "description",
    "directory",
    "filename",
    "output",
    "output-format",
    "group_reporting",
];
/// fio's percentiles, and the names of ours.
const PERCENTILES: [(&str, &str); 4] = [
    ("50.000000", "latency_ns_p50"),
    ("95.000000", "latency_ns_p95"),
    ("99.000000", "latency_ns_p99"),
    ("99.900000", "latency_ns_p999"),
];

pub(super) fn records(text: &str, origin: &Origin) -> Result<Vec<Record>, ImportError> {
    // Warnings come before the object.
    let start = text.find('{').ok_or_else(|| wrong("no JSON"))?;
    let mut whole = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Json>();
    let whole = whole.next().ok_or_else(|| wrong("no JSON"))?;
    let whole = whole.map_err(|error| wrong(format!("no JSON of fio: {error}")))?;
    let version = whole.get("fio version").and_then(Json::as_str);
    let version = version.ok_or_else(|| wrong("no `fio version`"))?;
    let jobs = whole
        .get("jobs")
        .or_else(|| whole.get("client_stats"))
        .and_then(Json::as_array);
    let jobs = jobs.ok_or_else(|| wrong("no `jobs`"))?;
    let started = number(&whole, "timestamp").unwrap_or(0.0);
    let mut records: Vec<Record> = Vec::new();
    for job in jobs {
        for direction in ["read", "write", "trim"] {
            let Some(figures) = job
                .get(direction)
                .filter(|figures| figures["total_ios"].as_u64() > Some(0))
            else {
                continue;
            };
            let host = job
                .get("hostname")
                .and_then(Json::as_str)
                .unwrap_or_default();
            let mut record = super::record("fio", version, origin, host, started);
            for options in [whole.get("global options"), job.get("job options")] {
                let options = options.and_then(Json::as_object).into_iter().flatten();
                for (name, value) in
                    options.filter(|(name, _)| !NOT_PARAMETERS.contains(&name.as_str()))
                {
                    let value = value.as_str().map_or(Value::Bool(true), parameter);
                    record.parameters.insert(name.clone(), value);
                }
            }
            record = record.with("direction", direction);
            if let Some(name) = job.get("jobname").and_then(Json::as_str) {
                record = record.with("job", name);
            }
            // Jobs that ran at the same time are tests of their own.
            let is_same = |other: &&Record| other.parameters == record.parameters;
            match records.iter().filter(is_same).count() {
                0 => {}
                before => record = record.with("instance", before as u64 + 1),
            }
            fill(&mut record, figures);
            let error = number(job, "error").unwrap_or(0.0);
            if error != 0.0 {
                let reason = format!("fio's error {error}");
                record = record.without_numbers(Outcome::Failed { reason });
            }
            records.push(record);
        }
    }
    Ok(records)
}

fn fill(record: &mut Record, figures: &Json) {
    keep(record, "items_per_s", number(figures, "iops"));
    keep(record, "bytes_per_s", number(figures, "bw_bytes"));
    let latency = ["clat_ns", "lat_ns"].into_iter().find_map(|name| {
        let latency = figures.get(name)?;
        (number(latency, "N")? > 0.0).then_some(latency)
    });
    if let Some(latency) = latency {
        keep(record, "latency_ns_mean", number(latency, "mean"));
        keep(record, "latency_ns_max", number(latency, "max"));
        for (theirs, ours) in PERCENTILES {
            let value = latency
                .get("percentile")
                .and_then(|all| number(all, theirs));
            keep(record, ours, value);
        }
    }
    for (theirs, ours) in [("total_ios", "items"), ("io_bytes", "bytes")] {
        if let Some(count) = figures.get(theirs).and_then(Json::as_u64) {
            record.counts.insert(ours.to_owned(), count);
        }
    }
}
