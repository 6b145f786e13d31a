//! One side of advice: a backend's points, out of records. Records that cannot carry advice are refused, each with its id and the reason.

use std::collections::{BTreeMap, BTreeSet};

use dpb_core::measure::statistics::median;
use dpb_core::measure::{Outcome, Record, Value};
use dpb_core::{Evidence, Executor};

use super::load::{Load, Point};

/// Rates of items and of bytes that tell different sizes by more than this are of different units.
const UNITS_OFF_MAX: f64 = 0.25;
/// A job alone takes as long as its recorded latency, within this factor.
const LATENCY_OFF_MAX: f64 = 20.0;
/// CPU time may exceed that of the machine's cores by this factor: it is measured in another run than the rate, which may be slower by that. Units are off by a
/// thousand.
const CPU_OFF_MAX: f64 = 8.0;
/// CPU time is what a core did not do of other work meanwhile, so a core that changes its pace makes it negative: by this share of a job's time at most.
const CPU_BELOW_ZERO_MAX: f64 = 0.1;

/// A backend on a machine, as records have it.
#[derive(Clone, Debug)]
pub struct Side {
    /// The backend.
    pub backend: String,
    /// The machine: its label and its CPU.
    pub machine: String,
    /// The state that the machine was in, and the program that measured: names and values.
    pub state: Vec<(&'static str, String)>,
    /// Logical CPUs of the machine.
    pub cpus: u32,
    /// Who carries out its jobs.
    pub executor: Executor,
    /// The kind of evidence: measured, or simulated.
    pub evidence: Evidence,
    /// The operator and its own parameters, by name.
    pub work: Vec<(String, String)>,
    /// The points that were measured.
    pub points: Vec<Point>,
    /// Remarks on the records for a reader.
    pub notes: Vec<String>,
}

/// The reason why records make no advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

fn refused<T>(record: &Record, why: impl std::fmt::Display) -> Result<T, Refusal> {
    Err(Refusal(format!("record {}: {why}", record.id)))
}

impl Side {
    /// The side of these records, all of one backend. Predictions among them, as a file that advice was written to has them, are left out with a note.
    ///
    /// # Errors
    /// [`Refusal`]: a test that failed; figures that are emulated or published; several machines, states of one, operators or inputs;
    /// times that are no times; units that do not fit each other.
    pub fn of(records: &[&Record]) -> Result<Self, Refusal> {
        let is_predicted = |record: &&Record| record.evidence.kind() == "predicted";
        let (predicted, records): (Vec<&Record>, Vec<&Record>) =
            records.iter().copied().partition(is_predicted);
        let Some(first) = records.first() else {
            return Err(Refusal(match predicted.len() {
                0 => "there are no records of this side".to_owned(),
                count => format!("its {count} records are predictions themselves"),
            }));
        };
        let mut notes = Vec::new();
        if !predicted.is_empty() {
            notes.push(format!(
                "{} predictions among the records of {} are left out",
                predicted.len(),
                text(first, "backend").unwrap_or_default()
            ));
        }
        let mut points: Vec<Point> = Vec::new();
        let (mut used, mut disturbed) = (0, 0);
        // By reason: what limits a backend limits it at many loads.
        let mut without_numbers: BTreeMap<&str, u64> = BTreeMap::new();
        let executor = executor(first)?;
        let work = work(first);
        for record in &records {
            evidence(record)?;
            alike(first, record)?;
            if self::executor(record)? != executor {
                return refused(record, "others carry out its jobs");
            }
            match &record.outcome {
                Outcome::Done => {}
                Outcome::Failed { reason } => {
                    return refused(record, format!("its test failed: {reason}"));
                }
                Outcome::Unsupported { reason } => {
                    let same: &mut u64 = without_numbers.entry(reason.as_str()).or_default();
                    *same += 1;
                    continue;
                }
                Outcome::Interrupted => {
                    *without_numbers.entry("interrupted").or_default() += 1;
                    continue;
                }
            }
            if text(record, "mode").as_deref() == Some("open") {
                continue;
            }
            if record.check.is_none() {
                return refused(record, "nothing checked its results");
            }
            disturbed += u64::from(record.stability.as_ref().is_some_and(|it| it.disturbed));
            used += 1;
            let point = point(record, executor)?;
            match points.iter_mut().find(|known| known.load == point.load) {
                Some(known) => known.add(point),
                None => points.push(point),
            }
        }
        if points.is_empty() {
            return Err(Refusal(format!(
                "{}: no record has a number",
                text(first, "backend").unwrap_or_default()
            )));
        }
        let backend = text(first, "backend").unwrap_or_default();
        notes.extend(without_numbers.iter().map(|(reason, count)| {
            format!("{count} records of {backend} without numbers are left out: {reason}")
        }));
        if disturbed > 0 {
            notes.push(format!(
                "{disturbed} of {used} records of {backend} were disturbed by other work"
            ));
        }
        if let Some(note) = single_runs(&points) {
            notes.push(note);
        }
        Ok(Self {
            backend,
            machine: machine(first),
            state: state(first).into(),
            cpus: first.provenance.cpus.max(1),
            executor,
            evidence: first.evidence.clone(),
            work,
            points,
            notes,
        })
    }

    /// The ids of its records.
    pub fn ids(&self) -> Vec<String> {
        let ids = self.points.iter().flat_map(|point| &point.ids);
        ids.cloned().collect()
    }

    /// Bytes of the results of a job: an item's lie on the line between those of the next smaller and the next larger items that were measured.
    pub fn bytes_out(&self, load: &Load) -> Option<f64> {
        let mut known: Vec<(u64, f64)> = self
            .points
            .iter()
            .filter_map(|point| Some((point.load.size, point.bytes_out?)))
            .collect();
        known.sort_unstable_by_key(|(size, _)| *size);
        let &(below, few) = known.iter().rfind(|(size, _)| *size <= load.size)?;
        let &(above, many) = known.iter().find(|(size, _)| *size >= load.size)?;
        let share = (load.size - below) as f64 / (above - below).max(1) as f64;
        Some(load.batch as f64 * (few + share * (many - few)))
    }

    /// The most jobs in flight, and the threads with which they were, that were measured.
    pub fn deepest(&self) -> (u64, u64) {
        let loads = self.points.iter().map(|point| point.load);
        let deepest = loads.max_by_key(|load| (load.in_flight(), load.depth));
        deepest.map_or((1, 1), |load| (load.depth, load.threads))
    }
}

/// A remark on loads of which there is one run: nobody knows by how much another would differ.
fn single_runs(points: &[Point]) -> Option<String> {
    let single = points
        .iter()
        .filter(|point| !point.is_exact && point.runs_ns.len() < 2);
    match single.count() {
        0 => None,
        loads => Some(format!(
            "{loads} loads were run once: by how much runs of one differ is not in their intervals"
        )),
    }
}

/// The machine of a record: its label and its CPU.
pub fn machine(record: &Record) -> String {
    let provenance = &record.provenance;
    format!("{}, {}", provenance.host, provenance.cpu_model)
}

fn text(record: &Record, name: &str) -> Option<String> {
    record.parameters.get(name).map(ToString::to_string)
}

fn executor(record: &Record) -> Result<Executor, Refusal> {
    match &record.provenance.made_of {
        Some(made_of) => Ok(made_of.executor),
        None => refused(record, "it does not say who carries out its jobs"),
    }
}

fn evidence(record: &Record) -> Result<(), Refusal> {
    match &record.evidence {
        Evidence::Measured | Evidence::Simulated { .. } => Ok(()),
        Evidence::Emulated { by } => refused(
            record,
            format!("it is emulated ({by}), and a stand-in's times say nothing of the device's"),
        ),
        Evidence::Published { .. } => refused(record, "a paper's figure has no runs"),
        Evidence::Predicted { .. } => refused(record, "it is a prediction itself"),
    }
}

/// Parameters that points of one side differ in.
const SWEPT: [&str; 8] = [
    "size", "batch", "depth", "threads", "mode", "rate", "seconds", "repeat",
];

/// Refuses a record that is not of the same backend, machine, state and work as the first.
fn alike(first: &Record, record: &Record) -> Result<(), Refusal> {
    let of = |record: &Record| {
        let own = [
            ("machine", machine(record)),
            ("evidence", record.evidence.kind().to_owned()),
            ("backend", text(record, "backend").unwrap_or_default()),
        ];
        own.into_iter().chain(state(record))
    };
    for ((what, one), (_, other)) in of(first).zip(of(record)) {
        if one != other {
            return refused(
                record,
                format!(
                    "its {what} is `{other}`, that of record {} is `{one}`; advice rests on one of each",
                    first.id
                ),
            );
        }
    }
    match work(first) == work(record) {
        true => Ok(()),
        false => refused(
            record,
            format!("it is of other work than record {}", first.id),
        ),
    }
}

/// The state of a record's machine, and the program.
fn state(record: &Record) -> [(&'static str, String); 5] {
    let it = &record.provenance;
    [
        ("kernel", it.kernel.clone()),
        ("CPU level", it.cpu_level.clone()),
        ("CPUs", it.cpus.to_string()),
        ("governor", it.governor.clone().unwrap_or_default()),
        ("version of dpb", it.dpb_version.clone()),
    ]
}

/// The work of a record: every parameter but the load and the backend, so operator, its parameters, input.
pub fn work(record: &Record) -> Vec<(String, String)> {
    let parameters = record.parameters.iter();
    let fixed = parameters
        .filter(|(name, _)| !SWEPT.contains(&name.as_str()) && name.as_str() != "backend");
    fixed
        .map(|(name, value)| (name.clone(), value.to_string()))
        .collect()
}

fn count(record: &Record, name: &str) -> Result<u64, Refusal> {
    match record.parameters.get(name) {
        Some(Value::Int(count)) if *count > 0 => Ok(*count as u64),
        other => refused(
            record,
            format!(
                "`{name}` is {}, not a count above zero",
                other.map_or_else(|| "missing".to_owned(), ToString::to_string)
            ),
        ),
    }
}

/// The runs of a metric, all of them times or rates.
fn runs(record: &Record, metric: &str) -> Result<Option<Vec<f64>>, Refusal> {
    let Some(samples) = record.samples.get(metric) else {
        return Ok(None);
    };
    let is_wrong = |value: &&f64| !value.is_finite() || **value <= 0.0;
    match samples.values.iter().find(is_wrong) {
        Some(value) => refused(record, format!("a run has {value} {metric}")),
        None => Ok(Some(samples.values.clone()).filter(|values| !values.is_empty())),
    }
}

fn point(record: &Record, executor: Executor) -> Result<Point, Refusal> {
    let load = Load {
        batch: count(record, "batch")?,
        size: count(record, "size")?,
        // Software on the submitting thread has one job at a time, whatever the depth.
        depth: match executor {
            Executor::Caller => 1,
            _ => count(record, "depth")?,
        },
        threads: count(record, "threads")?,
    };
    let Some(rates) = runs(record, "items_per_s")? else {
        return refused(record, "it has no runs of items_per_s");
    };
    let runs_ns: Vec<f64> = rates
        .iter()
        .map(|rate| load.batch as f64 * 1e9 / rate)
        .collect();
    let job_ns = median(&runs_ns).expect("there are runs");
    check_bytes(record, &rates)?;
    check_latency(record, &load, job_ns)?;
    let host_runs_ns = host_runs(record, &load, job_ns)?;
    let latencies = record.samples.get("latency_ns");
    let counted = |name: &str| record.counts.get(name).map(|&count| count as f64);
    let items = counted("items").filter(|&items| items > 0.0);
    Ok(Point {
        load,
        job_ns,
        is_exact: record.evidence.kind() == "simulated"
            && runs_ns.iter().all(|run| *run == runs_ns[0]),
        runs_ns,
        segment_jobs: record
            .counts
            .get("segment_jobs")
            .copied()
            .unwrap_or(u64::MAX),
        host_ns: median(&host_runs_ns),
        host_runs_ns,
        bytes_out: counted("bytes_out")
            .zip(items)
            .map(|(bytes, items)| bytes / items),
        latencies: latencies
            .and_then(|samples| samples.hdr.clone())
            .into_iter()
            .collect(),
        ids: vec![record.id.clone()],
    })
}

/// Rates of items and of bytes are of the same runs, and counts of both are there: they must tell one size of an item.
fn check_bytes(record: &Record, rates: &[f64]) -> Result<(), Refusal> {
    let of = |name: &str| record.counts.get(name).copied().unwrap_or(0) as f64;
    let (items, bytes) = (of("items"), of("bytes_in"));
    let Some(byte_rates) = runs(record, "bytes_per_s")? else {
        return Ok(());
    };
    if items == 0.0 || bytes == 0.0 {
        return refused(record, "it counted no items or no bytes");
    }
    let told = median(&byte_rates)
        .zip(median(rates))
        .map(|(bytes, items)| bytes / items);
    match told {
        Some(told) if (told / (bytes / items) - 1.0).abs() > UNITS_OFF_MAX => refused(
            record,
            format!(
                "its rates tell items of {told:.0} bytes, its counts of {:.0}: their units do not fit",
                bytes / items
            ),
        ),
        _ => Ok(()),
    }
}

/// A job that is alone takes as long as its latencies say. Its time by the rate is a mean, which on a busy machine a few long waits make: it may be as
/// long as the longest latencies that are known.
fn check_latency(record: &Record, load: &Load, job_ns: f64) -> Result<(), Refusal> {
    let of = |name: &str| record.summary.get(name).map(|summary| summary.median);
    let Some(p50) = of("latency_ns_p50") else {
        return Ok(());
    };
    let tails = ["latency_ns_p99", "latency_ns_p999"].map(of);
    let longest = tails.into_iter().flatten().fold(p50, f64::max);
    let fits = p50 / LATENCY_OFF_MAX <= job_ns && job_ns <= longest * LATENCY_OFF_MAX;
    match load.in_flight() == 1 && !fits {
        true => refused(
            record,
            format!(
                "a job alone takes {job_ns:.0} ns by its rate and {p50:.0} ns by its latency: their units do not fit"
            ),
        ),
        false => Ok(()),
    }
}

/// The host's CPU time by job of each run; no machine gives more of it than its cores have.
fn host_runs(record: &Record, load: &Load, job_ns: f64) -> Result<Vec<f64>, Refusal> {
    let Some(samples) = record.samples.get("host_cpu_ns_per_item") else {
        return Ok(Vec::new());
    };
    let by_job = samples.values.iter().map(|ns| ns * load.batch as f64);
    let by_job: Vec<f64> = by_job.collect();
    if by_job.iter().any(|ns| !ns.is_finite()) {
        return refused(record, "a run's CPU time is no number");
    }
    let cores = median(&by_job).unwrap_or(0.0) / job_ns;
    let highest = by_job.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !by_job.is_empty() && highest < -CPU_BELOW_ZERO_MAX * job_ns {
        return refused(
            record,
            format!(
                "its CPU time is negative in each run, {highest:.0} ns by job at most: it is no time"
            ),
        );
    }
    match cores > f64::from(record.provenance.cpus.max(1)) * CPU_OFF_MAX {
        true => refused(
            record,
            format!(
                "its jobs took {cores:.1} cores of {}: units of CPU time and rate do not fit",
                record.provenance.cpus
            ),
        ),
        false => Ok(by_job),
    }
}

/// The backends of records, in the order in which they come.
pub fn backends(records: &[Record]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = records.iter().filter_map(|record| text(record, "backend"));
    names.filter(|name| seen.insert(name.clone())).collect()
}
