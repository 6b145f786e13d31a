//! iperf3's JSON: one record a run.
//!
//! Throughput is what the receiver got, over the whole run: the intervals of one run are not runs of their own.

use serde_json::Value as Json;

use super::{ImportError, Origin, keep, number, wrong};
use crate::measure::record::{Outcome, Record, Value};

/// What a run was told, by its names in `test_start`.
const PARAMETERS: [&str; 8] = [
    "protocol",
    "num_streams",
    "blksize",
    "omit",
    "duration",
    "reverse",
    "bidirectional",
    "target_bitrate",
];

pub(super) fn records(text: &str, origin: &Origin) -> Result<Vec<Record>, ImportError> {
    let whole: Json =
        serde_json::from_str(text).map_err(|error| wrong(format!("no JSON of iperf3: {error}")))?;
    let start = whole.get("start").ok_or_else(|| wrong("no `start`"))?;
    let version = start
        .get("version")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let version = version.trim_start_matches("iperf ");
    // The second word of `uname -a`.
    let system = start
        .get("system_info")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let host = system.split_whitespace().nth(1).unwrap_or_default();
    let started = start
        .get("timestamp")
        .and_then(|time| number(time, "timesecs"));
    let mut record = super::record("iperf3", version, origin, host, started.unwrap_or(0.0));
    let told = start.get("test_start").unwrap_or(&Json::Null);
    for name in PARAMETERS {
        let value = match told.get(name) {
            Some(Json::String(text)) => Value::Text(text.clone()),
            Some(Json::Number(number)) => match number.as_i64() {
                Some(number) => Value::Int(number),
                None => continue,
            },
            _ => continue,
        };
        record.parameters.insert(name.to_owned(), value);
    }
    if let Some(error) = whole.get("error").and_then(Json::as_str) {
        let reason = error.to_owned();
        return Ok(vec![record.without_numbers(Outcome::Failed { reason })]);
    }
    let end = whole.get("end").ok_or_else(|| wrong("no `end`"))?;
    let received = ["sum_received", "sum"]
        .into_iter()
        .find_map(|name| end.get(name));
    let received = received.ok_or_else(|| wrong("no `sum_received`"))?;
    let bits = number(received, "bits_per_second").ok_or_else(|| wrong("no `bits_per_second`"))?;
    keep(&mut record, "bytes_per_s", Some(bits / 8.0));
    if let Some(packets) = number(received, "packets") {
        let lost = number(received, "lost_packets").unwrap_or(0.0);
        let seconds = number(received, "seconds").unwrap_or(0.0);
        keep(
            &mut record,
            "packets_per_s",
            Some((packets - lost) / seconds),
        );
        record.counts.insert("packets".to_owned(), packets as u64);
        record.counts.insert("packets_lost".to_owned(), lost as u64);
    }
    keep(
        &mut record,
        "jitter_ns",
        number(received, "jitter_ms").map(|ms| ms * 1e6),
    );
    if let Some(sent) = end.get("sum_sent") {
        for (theirs, ours) in [("bytes", "bytes"), ("retransmits", "retransmits")] {
            if let Some(count) = sent.get(theirs).and_then(Json::as_u64) {
                record.counts.insert(ours.to_owned(), count);
            }
        }
    }
    if let Some(cpu) = end.get("cpu_utilization_percent") {
        // Of one core: shares of the run's time.
        keep(
            &mut record,
            "cpu_share_here",
            number(cpu, "host_total").map(|percent| percent / 100.0),
        );
        keep(
            &mut record,
            "cpu_share_there",
            number(cpu, "remote_total").map(|percent| percent / 100.0),
        );
    }
    Ok(vec![record])
}
