//! Below the table of `dpb op`: from which size on a device is faster than software on this machine's cores, and what it
//! saves them (dpBento, figure 6).

use std::collections::{BTreeMap, BTreeSet};

use dpb_core::Executor;
use dpb_core::measure::{Crossing, Crossover, Ratio, Record, Value};

use super::table::parameter;
use crate::output::{Column, Table, short_ns};
use crate::spec;

/// What a device is held against, and what it is called.
const SOFTWARE: [(IsOf, &str); 2] = [
    (|executor| executor == Executor::Caller, "one core a thread"),
    (
        |executor| matches!(executor, Executor::Workers { .. }),
        "all cores",
    ),
];

/// Whether a record of this executor is one of a kind.
type IsOf = fn(Executor) -> bool;

/// A device at one size, and the best software beside it.
struct Pair<'a> {
    device: &'a Record,
    software: &'a Record,
    ratio: Ratio,
}

/// A line for each device, operator and kind of software that were measured at several sizes; empty if there is none. Of open
/// loops there is none: their rate is what was offered.
pub(super) fn for_people(records: &[Record]) -> String {
    let mut table = Table::new([
        Column::left("operator"),
        Column::right("batch"),
        Column::right("threads"),
        Column::right("depth"),
        Column::left("device"),
        Column::left("against"),
        Column::left("pays from"),
        Column::left("95 % CI"),
        Column::right("most"),
        Column::noted("host CPU an item"),
    ]);
    let mut has_rows = false;
    for sweep in sweeps(records) {
        for (is_such, name) in SOFTWARE {
            let pairs: Vec<Pair<'_>> = sweep
                .iter()
                .filter_map(|device| pair(device, is_such, records))
                .collect();
            if let Some(row) = row(&pairs, name) {
                table.row(row);
                has_rows = true;
            }
        }
    }
    match has_rows {
        true => format!("\nWhere a device pays:\n{}", table.to_text()),
        false => String::new(),
    }
}

/// Records of devices that differ in size alone, and what follows from it: the usual batch does, a batch that was asked for
/// does not.
fn sweeps(records: &[Record]) -> Vec<Vec<&Record>> {
    let is_closed = |record: &&Record| parameter(record, "mode") != "open";
    let devices = records.iter().filter(|record| is_device(record));
    let devices: Vec<&Record> = devices.filter(is_closed).collect();
    let sweeps = grouped(&devices, &["size", "batch", "input"]).into_iter();
    let sweeps = sweeps.flat_map(|sweep| {
        let sizes: BTreeSet<_> = sweep.iter().map(|record| size(record)).collect();
        match sizes.len() < sweep.len() {
            true => grouped(&sweep, &["size", "input"]),
            false => vec![sweep],
        }
    });
    sweeps.collect()
}

/// Records that are alike in all parameters but these, in the order of their first.
fn grouped<'a>(records: &[&'a Record], but: &[&str]) -> Vec<Vec<&'a Record>> {
    let mut places: BTreeMap<Vec<(&String, String)>, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<&Record>> = Vec::new();
    for record in records {
        let parameters = record.parameters.iter();
        let same = parameters.filter(|(name, _)| !but.contains(&name.as_str()));
        let key = same
            .map(|(name, value)| (name, value.to_string()))
            .collect();
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(record);
    }
    groups
}

fn is_device(record: &Record) -> bool {
    executor(record) == Some(Executor::Device)
}

fn executor(record: &Record) -> Option<Executor> {
    let made_of = record.provenance.made_of.as_ref();
    made_of.map(|made_of| made_of.executor)
}

/// The device beside the fastest software of a kind, at the same parameters and of the same evidence.
fn pair<'a>(device: &'a Record, is_such: IsOf, records: &'a [Record]) -> Option<Pair<'a>> {
    let parameters = |record: &Record| {
        let mut parameters = record.parameters.clone();
        parameters.remove("backend");
        parameters
    };
    let wanted = parameters(device);
    let rate = |record: &Record| Some(record.summary.get("items_per_s")?.median);
    let software = records
        .iter()
        .filter(|record| executor(record).is_some_and(is_such))
        .filter(|record| record.evidence == device.evidence && parameters(record) == wanted)
        .filter(|record| rate(record).is_some())
        .max_by(|a, b| rate(a).partial_cmp(&rate(b)).expect("rates are numbers"))?;
    let rates = |record: &Record| Some(record.samples.get("items_per_s")?.values.clone());
    Some(Pair {
        device,
        software,
        ratio: Ratio::of(&rates(device)?, &rates(software)?)?,
    })
}

fn row(pairs: &[Pair<'_>], against: &str) -> Option<Vec<String>> {
    let ratios: Vec<(u64, Ratio)> = pairs
        .iter()
        .filter_map(|pair| Some((size(pair.device)?, pair.ratio)))
        .collect();
    if ratios.len() < 2 {
        return None;
    }
    let crossover = Crossover::of(&ratios)?;
    let first = pairs.first()?.device;
    let most = pairs
        .iter()
        .max_by(|a, b| a.ratio.median.total_cmp(&b.ratio.median))?;
    let operator = parameter(first, "operator");
    Some(vec![
        format!("{operator} {}", spec::written(first))
            .trim()
            .to_owned(),
        batch(pairs),
        parameter(first, "threads"),
        parameter(first, "depth"),
        parameter(first, "backend"),
        against.to_owned(),
        crossing(crossover.at),
        crossover.ci95.map_or("-".into(), |(earliest, latest)| {
            format!("{} .. {}", crossing(earliest), crossing(latest))
        }),
        format!(
            "{:.2}x at {}",
            most.ratio.median,
            bytes(size(most.device)? as f64)
        ),
        host_cpu(pairs).unwrap_or_else(|| "- (--host-cpu)".into()),
    ])
}

/// At the largest size where both sides have it.
fn host_cpu(pairs: &[Pair<'_>]) -> Option<String> {
    let ns = |record: &Record| Some(record.summary.get("host_cpu_ns_per_item")?.median);
    let known = pairs
        .iter()
        .filter_map(|pair| Some((size(pair.device)?, ns(pair.device)?, ns(pair.software)?)));
    let (size, device_ns, software_ns) = known.max_by_key(|(size, ..)| *size)?;
    Some(format!(
        "{} instead of {} at {}",
        short_ns(device_ns),
        short_ns(software_ns),
        bytes(size as f64)
    ))
}

/// Items of a job, where that is the same at every size.
fn batch(pairs: &[Pair<'_>]) -> String {
    let batches: BTreeSet<String> = pairs
        .iter()
        .map(|pair| parameter(pair.device, "batch"))
        .collect();
    match batches.first() {
        Some(batch) if batches.len() == 1 => batch.clone(),
        _ => "by size".to_owned(),
    }
}

fn size(record: &Record) -> Option<u64> {
    match record.parameters.get("size")? {
        Value::Int(size) => u64::try_from(*size).ok(),
        _ => None,
    }
}

fn crossing(crossing: Crossing) -> String {
    match crossing {
        Crossing::Always => "the smallest".into(),
        Crossing::From(size) => bytes(size),
        Crossing::Never => "never".into(),
    }
}

/// In binary units, as sizes are asked for.
fn bytes(size: f64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let steps = (size.max(1.0).log2() / 10.0) as usize;
    let unit = steps.min(UNITS.len() - 1);
    let value = size / 1024f64.powi(unit as i32);
    match value.fract() < 0.005 || value >= 100.0 {
        true => format!("{value:.0} {}", UNITS[unit]),
        false => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::Properties;
    use dpb_core::measure::Evidence;

    use super::*;

    const CPU: [&str; 2] = ["cpu/portable", "cpu/best"];

    /// Six runs that hardly vary, of software or, by any other name, of a device.
    fn record(backend: &str, size: u64, items_per_s: f64, evidence: Evidence) -> Record {
        let properties = match CPU.contains(&backend) {
            true => Properties::of_this_cpu(),
            false => Properties::of_device(None),
        };
        let mut record = Record::new("op", evidence, 1)
            .with("operator", "deflate")
            .with("op.level", 1u64)
            .with("backend", backend)
            .with("size", size)
            .with("batch", 16384 / size)
            .with("threads", 1u64)
            .with("depth", 8u64);
        record.provenance.made_of = Some(properties.made_of);
        let run = |at: u32| items_per_s * (1.0 + f64::from(at) / 1e4);
        record.sample("items_per_s", (0..6).map(run).collect());
        record.sample("host_cpu_ns_per_item", vec![1e9 / items_per_s; 6]);
        record
    }

    #[test]
    fn a_device_pays_where_it_beats_the_best_software() {
        let measured = || Evidence::Measured;
        let records = [
            record("cpu/portable", 64, 1e6, measured()),
            record("cpu/best", 64, 4e6, measured()),
            record("dpdk/x", 64, 2e6, measured()),
            record("cpu/portable", 1024, 1e5, measured()),
            record("cpu/best", 1024, 2e5, measured()),
            record("dpdk/x", 1024, 4e5, measured()),
        ];
        let text = for_people(&records);
        let row = text.lines().last().expect("a row");
        // From half to twice: in the middle of 64 and 1024.
        for part in [
            "deflate",
            "dpdk/x",
            "one core",
            "256 B",
            "2.00x at 1 KiB",
            "2.5 us instead of 5.0 us",
        ] {
            assert!(row.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("all cores"), "no pool was measured: {text}");
        assert_eq!(text.lines().count(), 4, "{text}");
        let open = records.map(|record| record.with("mode", "open"));
        assert_eq!(for_people(&open), "", "the rate is what was offered");
        assert_eq!(for_people(&open[..3]), "", "one size");
    }

    #[test]
    fn batches_that_were_asked_for_are_rows_of_their_own() {
        let records: Vec<Record> = [(1u64, 1e6), (64, 3e6)]
            .into_iter()
            .flat_map(|(batch, rate)| {
                let sizes = [64, 1024].into_iter();
                sizes.flat_map(move |size| {
                    let measured = |name, rate| record(name, size, rate, Evidence::Measured);
                    let both = [measured("cpu/best", 2e6), measured("doca", rate)];
                    both.map(|record| record.with("batch", batch))
                })
            })
            .collect();
        let text = for_people(&records);
        let rows: Vec<&str> = text
            .lines()
            .filter(|line| line.contains(" doca "))
            .collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(
            rows[0].contains("never") && rows[1].contains("the smallest"),
            "{text}"
        );
    }

    #[test]
    fn figures_of_a_stand_in_are_held_against_nothing() {
        let emulated = || Evidence::Emulated {
            by: "a stand-in".to_owned(),
        };
        let records = [
            record("cpu/best", 64, 4e6, Evidence::Measured),
            record("doca", 64, 9e6, emulated()),
            record("cpu/best", 1024, 4e6, Evidence::Measured),
            record("doca", 1024, 9e6, emulated()),
        ];
        assert_eq!(for_people(&records), "");
        // They are what would be shown, were they measured.
        let measured = records.map(|record| Record {
            evidence: Evidence::Measured,
            ..record
        });
        assert!(for_people(&measured).contains("the smallest"));
    }
}
