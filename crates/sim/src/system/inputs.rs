//! Times that a system takes from files: records that dpb measured, and models of devices.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use dpb_core::Evidence;
use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Outcome, Reading, Record, Value};

use super::refusal::{DescriptionError, refuse};
use super::times::{Measured, Point, Times};
use crate::Model;
use crate::kernel::{NANOSECOND_PS, SECOND_PS};

/// Where times come from: a file of records, or of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputText {
    /// A file of records: the times of an operator, by size. Its path is as seen from the system's file.
    pub record: Option<String>,
    /// The operator whose times they are, of those that a file of records has.
    pub operator: Option<String>,
    /// The backend whose times they are; needed if the file has several.
    pub backend: Option<String>,
    /// True if each job's time is drawn from the measured latencies, and not the mean of many.
    pub draw: bool,
    /// A model of a device, as TOML: `lanes`, `job_ns`, `item_ns`, `byte_ps`, `doorbell_ns`, `depth_max`.
    pub model: Option<String>,
}

/// An input that a system takes its times from.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The file.
    pub file: String,
    /// The subject of its times.
    pub of: String,
    /// The records that were taken.
    pub records: Vec<String>,
    /// The evidence of these records; none for a model.
    pub evidence: Option<Evidence>,
    /// The machine that they were measured on.
    pub machine: String,
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, of, .. } = self;
        match &self.evidence {
            None => write!(f, "{of} by the model {file}"),
            Some(evidence) => {
                let kind = evidence.kind();
                let ids = self.records.join(", ");
                write!(f, "{of}, {kind} on {} ({file}: {ids})", self.machine)
            }
        }
    }
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// Times alone.
    Times(Times),
    /// A device.
    Device(Model),
}

impl InputText {
    /// Reads the file, of which the path begins in this folder; `None` if none is named. `usual` is the operator where none is named.
    ///
    /// # Errors
    /// The error in the file, or in what is asked of it.
    pub fn read(
        &self,
        folder: &Path,
        usual: Option<&str>,
    ) -> Result<Option<(Given, Input)>, DescriptionError> {
        match (&self.record, &self.model) {
            (None, None) => match self {
                Self { draw: true, .. }
                | Self {
                    backend: Some(_), ..
                }
                | Self {
                    operator: Some(_), ..
                } => refuse("operator, backend and draw choose among records: name a record"),
                _ => Ok(None),
            },
            (Some(_), Some(_)) => refuse("times come from a record or from a model, not from both"),
            (Some(file), None) => {
                let operator = self.operator.as_deref().or(usual);
                let Some(operator) = operator else {
                    return refuse(format!(
                        "{file}: name the operator whose times are to be taken"
                    ));
                };
                let path = folder.join(file);
                let reading = Reading::of_file(&path);
                let reading = reading.map_err(|wrong| DescriptionError(wrong.to_string()))?;
                let records: Vec<Record> = reading
                    .records
                    .into_iter()
                    .map(|line| line.record)
                    .collect();
                let (times, input) = self
                    .choose(&records, operator)
                    .and_then(|chosen| self.times(file, operator, &chosen))
                    .map_err(|wrong| DescriptionError(format!("{file}: {wrong}")))?;
                Ok(Some((Given::Times(times), input)))
            }
            (None, Some(file)) => {
                if self.draw || self.backend.is_some() || self.operator.is_some() {
                    return refuse(format!("{file}: a model has no records to choose from"));
                }
                let model = model(&folder.join(file))?;
                let input = Input {
                    file: file.clone(),
                    of: usual.unwrap_or("times").to_owned(),
                    records: Vec::new(),
                    evidence: None,
                    machine: String::new(),
                };
                Ok(Some((Given::Device(model), input)))
            }
        }
    }

    /// The records that say the times: of one operator, backend and machine, one a size.
    fn choose<'a>(
        &self,
        records: &'a [Record],
        operator: &str,
    ) -> Result<Vec<&'a Record>, DescriptionError> {
        let named = |record: &&Record, name: &str, wanted: &str| matches!(record.parameters.get(name), Some(Value::Text(text)) if text == wanted);
        let of_operator: Vec<&Record> = records
            .iter()
            .filter(|record| record.task == "op" && named(record, "operator", operator))
            .collect();
        if of_operator.is_empty() {
            let known: BTreeSet<String> = records
                .iter()
                .filter_map(|record| Some(record.parameters.get("operator")?.to_string()))
                .collect();
            return refuse(match known.len() {
                0 => "it has no record of an operator; `dpb op OPERATOR --out FILE` makes some"
                    .to_owned(),
                _ => format!(
                    "it has no record of `{operator}`; it has {}",
                    Vec::from_iter(known).join(", ")
                ),
            });
        }
        let done = of_operator
            .into_iter()
            .filter(|it| it.outcome == Outcome::Done);
        let chosen: Vec<&Record> = match &self.backend {
            Some(backend) => done.filter(|it| named(it, "backend", backend)).collect(),
            None => done.collect(),
        };
        if chosen.is_empty() {
            let backend = self.backend.as_deref().unwrap_or("any backend");
            return refuse(format!(
                "no record of `{operator}` on {backend} has numbers"
            ));
        }
        for (what, of) in [
            ("backends", backend as fn(&Record) -> String),
            ("machines", machine),
            ("kinds of evidence", |record| {
                record.evidence.kind().to_owned()
            }),
            ("numbers of threads", |record| parameter(record, "threads")),
            ("batches", |record| parameter(record, "batch")),
            ("operator's parameters", operator_parameters),
        ] {
            let found: BTreeSet<String> = chosen.iter().map(|&record| of(record)).collect();
            if found.len() > 1 {
                let found = Vec::from_iter(found).join("; ");
                return refuse(format!(
                    "the records of `{operator}` are of several {what}, which make no one server: {found}"
                ));
            }
        }
        Ok(chosen)
    }

    fn times(
        &self,
        file: &str,
        operator: &str,
        chosen: &[&Record],
    ) -> Result<(Times, Input), DescriptionError> {
        let points: Result<Vec<Point>, DescriptionError> =
            chosen.iter().map(|record| self.point(record)).collect();
        let measured = Measured::new(points?).map_err(|wrong| DescriptionError(wrong.0))?;
        let first = chosen[0];
        let input = Input {
            file: file.to_owned(),
            of: format!("{operator} on {}", backend(first)),
            records: chosen.iter().map(|record| record.id.clone()).collect(),
            evidence: Some(first.evidence.clone()),
            machine: machine(first),
        };
        Ok((Times::Measured(measured), input))
    }

    fn point(&self, record: &Record) -> Result<Point, DescriptionError> {
        let bytes = match record.parameters.get("size") {
            Some(&Value::Int(bytes)) if bytes > 0 => bytes as u64,
            _ => return refuse(format!("record {} has no size", record.id)),
        };
        let times_ps = match self.draw {
            false => vec![mean_ps(record)?],
            true => drawn_ps(record)?,
        };
        Ok(Point { bytes, times_ps })
    }
}

fn parameter(record: &Record, name: &str) -> String {
    let value = record.parameters.get(name);
    value.map_or_else(|| "none".to_owned(), Value::to_string)
}

fn backend(record: &Record) -> String {
    parameter(record, "backend")
}

/// The machine that a record was made on.
fn machine(record: &Record) -> String {
    let made = &record.provenance;
    format!("{}, {}, host {}", made.cpu_model, made.cpu_level, made.host)
}

fn operator_parameters(record: &Record) -> String {
    let own = record.parameters.iter();
    let own = own.filter(|(name, _)| name.starts_with("op."));
    let own: Vec<String> = own.map(|(name, value)| format!("{name}={value}")).collect();
    own.join(",")
}

/// The time of an item on one lane: threads by items a second.
fn mean_ps(record: &Record) -> Result<f64, DescriptionError> {
    let rate = record.summary.get("items_per_s").map(|it| it.median);
    let Some(rate) = rate.filter(|&it| it > 0.0) else {
        return refuse(format!(
            "record {} has no times: it has no items_per_s",
            record.id
        ));
    };
    let threads = match record.parameters.get("threads") {
        Some(&Value::Int(threads)) if threads > 0 => threads as f64,
        _ => 1.0,
    };
    if parameter(record, "mode") == "open" {
        return refuse(format!(
            "record {} is of an open loop, whose rate was given and not found",
            record.id
        ));
    }
    Ok(threads * SECOND_PS as f64 / rate)
}

/// Quantiles of latencies that are kept.
const QUANTILES: u32 = 4096;

/// The times of jobs of one item that wait for no other.
fn drawn_ps(record: &Record) -> Result<Vec<f64>, DescriptionError> {
    let id = &record.id;
    for name in ["batch", "depth", "threads"] {
        let value = parameter(record, name);
        if value != "1" {
            return refuse(format!(
                "record {id} has {name} {value}: times of single items are drawn from records with --batch 1 --depth 1 --threads 1 --latency"
            ));
        }
    }
    let histogram = record
        .samples
        .get("latency_ns")
        .and_then(|it| it.hdr.as_ref());
    let Some(histogram) = histogram else {
        return refuse(format!(
            "record {id} has no latencies; `dpb op --latency` keeps them"
        ));
    };
    let latencies = Latencies::from_base64(histogram)
        .map_err(|wrong| DescriptionError(format!("record {id}, latency_ns: {wrong}")))?;
    if latencies.count() == 0 {
        return refuse(format!("record {id} has no latencies"));
    }
    let shares = (0..QUANTILES).map(|it| (f64::from(it) + 0.5) / f64::from(QUANTILES));
    let times = shares.map(|share| latencies.percentile_ns(share) as f64 * NANOSECOND_PS as f64);
    Ok(times.collect())
}

/// Reads a model of a device.
fn model(path: &Path) -> Result<Model, DescriptionError> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|wrong| DescriptionError(format!("cannot read {name}: {wrong}")))?;
    let table: toml::Table =
        toml::from_str(&text).map_err(|wrong| DescriptionError(format!("{name}: {wrong}")))?;
    let pairs: Vec<String> = table
        .iter()
        .map(|(name, value)| match value {
            toml::Value::Integer(number) => format!("{name}={number}"),
            other => format!("{name}={other:?}"),
        })
        .collect();
    let model = pairs.join(",").parse::<Model>();
    model.map_err(|wrong| DescriptionError(format!("{name}: {wrong}")))
}

#[cfg(test)]
mod tests;
