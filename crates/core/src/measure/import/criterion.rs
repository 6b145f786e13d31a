//! Criterion's folder of a benchmark: `benchmark.json` and `sample.json`.

use serde_json::Value as Json;

use super::{ImportError, Origin, number, wrong};
use crate::measure::record::Record;

/// The record of the benchmark that `benchmark` describes, measured as `sample` says.
///
/// # Errors
/// What is missing, or cannot be read.
pub fn records(benchmark: &str, sample: &str, origin: &Origin) -> Result<Record, ImportError> {
    let json = |name: &str, text: &str| -> Result<Json, ImportError> {
        serde_json::from_str(text).map_err(|error| wrong(format!("{name}: {error}")))
    };
    let benchmark = json("benchmark.json", benchmark)?;
    let sample = json("sample.json", sample)?;
    let mut record = super::record(super::CRITERION, "", origin, "", 0.0);
    for (theirs, ours) in [
        ("group_id", "group"),
        ("function_id", "function"),
        ("value_str", "value"),
    ] {
        if let Some(word) = benchmark.get(theirs).and_then(Json::as_str) {
            record = record.with(ours, word);
        }
    }
    let series = |name: &str| -> Result<Vec<f64>, ImportError> {
        let values = sample.get(name).and_then(Json::as_array);
        let values: Option<Vec<f64>> =
            values.and_then(|values| values.iter().map(Json::as_f64).collect());
        values.ok_or_else(|| wrong(format!("sample.json: no `{name}`")))
    };
    let (iterations, times_ns) = (series("iters")?, series("times")?);
    if iterations.len() != times_ns.len() {
        return Err(wrong("sample.json: not as many times as iterations"));
    }
    let runs_ns: Vec<f64> = times_ns
        .iter()
        .zip(&iterations)
        .map(|(time, count)| time / count)
        .collect();
    if runs_ns.is_empty() || runs_ns.iter().any(|ns| !ns.is_finite() || *ns <= 0.0) {
        return Err(wrong("sample.json: no times"));
    }
    let throughput = benchmark.get("throughput").unwrap_or(&Json::Null);
    for (theirs, ours) in [
        ("Elements", "items_per_s"),
        ("Bytes", "bytes_per_s"),
        ("BytesDecimal", "bytes_per_s"),
    ] {
        if let Some(each) = number(throughput, theirs).filter(|each| *each > 0.0) {
            record.sample(ours, runs_ns.iter().map(|ns| each * 1e9 / ns).collect());
        }
    }
    record.sample("run_ns", runs_ns);
    let total: f64 = iterations.iter().sum();
    record.counts.insert("runs".to_owned(), total as u64);
    Ok(record)
}
