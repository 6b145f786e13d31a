//! stress-ng's lines of metrics: a record for each stressor.
//!
//! Its operations are "bogo": they are alike between runs of one version, and mean nothing beside another program's.

use super::{ImportError, Origin, keep};
use crate::measure::record::Record;

/// Columns behind the stressor's name: operations, real time, user time, system time, operations by real time and by CPU time.
const COLUMNS: usize = 6;

pub(super) fn records(text: &str, origin: &Origin) -> Result<Vec<Record>, ImportError> {
    let mut records = Vec::new();
    let lines = || text.lines().filter_map(message);
    let instances = lines().find_map(|line| line.strip_prefix("dispatching hogs: "));
    let instances: Vec<(&str, &str)> = instances
        .into_iter()
        .flat_map(|hogs| hogs.split(','))
        .filter_map(|hog| hog.trim().split_once(' '))
        .collect();
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
        keep(&mut record, "bogo_ops_per_s", Some(figures[4]));
        keep(&mut record, "bogo_ops_per_cpu_s", Some(figures[5]));
        record
            .counts
            .insert("bogo_ops".to_owned(), figures[0] as u64);
        records.push(record);
    }
    Ok(records)
}

/// What a line says of metrics: behind `stress-ng: metrc: [12747] `, in older versions `info:`.
fn message(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix("stress-ng: ")?;
    let rest = ["metrc:", "info:"]
        .iter()
        .find_map(|kind| rest.strip_prefix(kind))?;
    Some(rest.split_once(']')?.1.trim())
}
