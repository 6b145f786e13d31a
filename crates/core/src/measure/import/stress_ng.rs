//! stress-ng's metrics: a record for each stressor, of the lines that it prints (`--metrics`) or of the file that it writes (`--yaml`).
//!
//! Its operations are "bogo": they are alike between runs of one version, and mean nothing beside another program's.

use super::{ImportError, Origin, keep};
use crate::measure::record::{Record, Value};
use crate::measure::statistics::median;

/// Columns behind the stressor's name: operations, real time, user time, system time, operations by real time and by CPU time.
const COLUMNS: usize = 6;
/// The key that only stress-ng's YAML has.
pub(super) const YAML_KEY: &str = "bogo-ops-per-second-real-time:";

pub(super) fn records(text: &str, origin: &Origin) -> Result<Vec<Record>, ImportError> {
    match text.contains(YAML_KEY) {
        true => Ok(of_yaml(text, origin)),
        false => Ok(of_lines(text, origin)),
    }
}

fn of_lines(text: &str, origin: &Origin) -> Vec<Record> {
    let mut records = Vec::new();
    let lines = || text.lines().filter_map(message);
    let instances = lines().find_map(|line| line.strip_prefix("dispatching hogs: "));
    let instances: Vec<(&str, &str)> = instances
        .into_iter()
        .flat_map(|hogs| hogs.split(','))
        .filter_map(|hog| hog.trim().split_once(' '))
        .collect();
    let seconds = lines().find_map(|line| {
        let told = line.strip_prefix("setting to a ")?;
        told.split_once(" second run per stressor")?.0.parse().ok()
    });
    for line in lines() {
        let mut words = line.split_whitespace();
        let Some(stressor) = words.next() else {
            continue;
        };
        let figures: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
        if figures.len() < COLUMNS {
            continue;
        }
        let mut record = super::record("stress-ng", "", origin, "", 0.0).with("stressor", stressor);
        if let Some((count, _)) = instances.iter().find(|(_, name)| *name == stressor) {
            record
                .parameters
                .insert("instances".to_owned(), super::parameter(count));
        }
        keep_timeout(&mut record, seconds);
        keep(&mut record, "bogo_ops_per_s", Some(figures[4]));
        keep(&mut record, "bogo_ops_per_cpu_s", Some(figures[5]));
        record
            .counts
            .insert("bogo_ops".to_owned(), figures[0] as u64);
        records.push(record);
    }
    records
}

/// The time that a stressor was given, in whole seconds, as stress-ng's own flag `--timeout` takes it.
fn keep_timeout(record: &mut Record, seconds: Option<u64>) {
    if let Some(seconds) = seconds {
        let timeout = Value::Text(format!("{seconds}s"));
        record.parameters.insert("timeout".to_owned(), timeout);
    }
}

/// What a line says of metrics: behind `stress-ng: metrc: [12747] `, in older versions `info:`.
fn message(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix("stress-ng: ")?;
    let rest = ["metrc:", "info:"]
        .iter()
        .find_map(|kind| rest.strip_prefix(kind))?;
    Some(rest.split_once(']')?.1.trim())
}

/// The machine, as far as a file describes it.
#[derive(Default)]
struct System<'a> {
    version: &'a str,
    host: &'a str,
    kernel: &'a str,
    cpus: u32,
    memory_bytes: u64,
    started_unix_s: f64,
}

impl<'a> System<'a> {
    fn take(&mut self, key: &str, value: &'a str) {
        match key {
            "stress-ng-version:" => self.version = value,
            "hostname:" => self.host = value,
            "release:" => self.kernel = value,
            "cpus-online:" => self.cpus = value.parse().unwrap_or_default(),
            "totalram:" => self.memory_bytes = value.parse().unwrap_or_default(),
            "epoch-secs:" => self.started_unix_s = value.parse().unwrap_or_default(),
            _ => {}
        }
    }
}

/// The lines of a file's `metrics`. It is no YAML that a parser would always read: stress-ng writes what it finds, unquoted.
fn of_yaml(text: &str, origin: &Origin) -> Vec<Record> {
    let mut system = System::default();
    let mut found: Vec<Stressor<'_>> = Vec::new();
    let mut section = "";
    for line in text.lines() {
        let Some((key, value)) = line.trim().split_once(' ') else {
            if !line.starts_with(' ') && line.ends_with(':') {
                section = line.trim();
            }
            continue;
        };
        match (section, key, value.trim()) {
            ("system-info:", key, value) => system.take(key, value),
            ("metrics:", "-", named) => {
                let name = named.strip_prefix("stressor:").unwrap_or_default().trim();
                found.push(Stressor {
                    name,
                    ..Stressor::default()
                });
            }
            ("metrics:", key, value) => {
                if let Some(stressor) = found.last_mut() {
                    stressor.take(key, value);
                }
            }
            _ => {}
        }
    }
    let measured = found
        .iter()
        .filter(|one| !one.name.is_empty() && one.by_real_time.is_some());
    // A stressor may end late; most end when they are told to.
    let times: Vec<f64> = measured
        .clone()
        .filter_map(|one| one.wall_clock_s)
        .collect();
    let seconds = median(&times).map(|time| time.round() as u64);
    let record = |one: &Stressor<'_>| {
        let mut record = one.record(&system, origin);
        keep_timeout(&mut record, seconds);
        record
    };
    measured.map(record).collect()
}

/// What a file says of one stressor. A figure of zero, or `nan`, is none.
#[derive(Default)]
struct Stressor<'a> {
    name: &'a str,
    bogo_ops: u64,
    by_real_time: Option<f64>,
    by_cpu_time: Option<f64>,
    wall_clock_s: Option<f64>,
}

impl Stressor<'_> {
    fn take(&mut self, key: &str, value: &str) {
        let number: Option<f64> = value.parse().ok().filter(|value: &f64| value.is_finite());
        match key {
            "bogo-ops:" => self.bogo_ops = value.parse().unwrap_or_default(),
            YAML_KEY => self.by_real_time = number.filter(|value| *value > 0.0),
            "bogo-ops-per-second-usr-sys-time:" => self.by_cpu_time = number,
            "wall-clock-time:" => self.wall_clock_s = number,
            _ => {}
        }
    }

    fn record(&self, system: &System<'_>, origin: &Origin) -> Record {
        let started = system.started_unix_s;
        let mut record = super::record("stress-ng", system.version, origin, system.host, started)
            .with("stressor", self.name);
        record.provenance.kernel = system.kernel.to_owned();
        record.provenance.cpus = system.cpus;
        record.provenance.memory_bytes = system.memory_bytes;
        keep(&mut record, "bogo_ops_per_s", self.by_real_time);
        keep(&mut record, "bogo_ops_per_cpu_s", self.by_cpu_time);
        record.counts.insert("bogo_ops".to_owned(), self.bogo_ops);
        record
    }
}
