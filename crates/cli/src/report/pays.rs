//! From which size on a device, or another machine, is faster than software on this machine's cores, and what it saves them (dpBento,
//! figure 6): below the table of `dpb op`, and in reports.

use std::collections::{BTreeMap, BTreeSet};

use dpb_core::Executor;
use dpb_core::measure::{Crossing, Crossover, Ratio, Record, Value};

use super::html::escape;
use super::origin::{Origin, Origins};
use crate::output::{Column, Table, short, short_ns};
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

/// The titles of a row's cells.
const TITLES: [&str; 11] = [
    "operator",
    "batch",
    "threads",
    "depth",
    "device",
    "against",
    "pays from",
    "95 % CI",
    "most",
    "host CPU an item",
    "frees",
];
/// What the rows say, for a reader.
const MEANING: &str = "From the size in `pays from` on the device is faster than the best software of the same run. `frees` is the number of this machine's cores \
                       that the software would need more than the device at the device's rate, at the largest size.";

/// A text for a terminal; empty if nothing was measured that could pay.
pub fn for_people(records: &[Record]) -> String {
    let records: Vec<&Record> = records.iter().collect();
    match rows(&records) {
        rows if rows.is_empty() => String::new(),
        rows => format!("\nWhere a device pays:\n{}", table(&TITLES, rows).to_text()),
    }
}

/// The same of a report's records, run by run, for a terminal.
pub(super) fn text(records: &[&Record], origins: &Origins<'_>) -> Option<String> {
    let (titles, rows) = of_runs(records, origins);
    let text = || {
        format!(
            "Where a device pays\n{}\n{MEANING}\n",
            table(&titles, rows.clone()).to_text()
        )
    };
    (!rows.is_empty()).then(text)
}

/// The same for a page.
pub(super) fn html(records: &[&Record], origins: &Origins<'_>) -> Option<String> {
    let (titles, rows) = of_runs(records, origins);
    if rows.is_empty() {
        return None;
    }
    Some(format!(
        "<h3 class=\"beside\">Where a device pays</h3><p class=\"sub\">{}</p>{}",
        escape(MEANING),
        super::rows_html(&titles, &rows),
    ))
}

fn table(titles: &[&str], rows: Vec<Vec<String>>) -> Table {
    let column = |title: &&str| match *title {
        "batch" | "threads" | "depth" | "most" | "frees" => Column::right(*title),
        "host CPU an item" => Column::noted(*title),
        title => Column::left(title),
    };
    let mut table = Table::new(titles.iter().map(column).collect::<Vec<_>>());
    rows.into_iter().for_each(|row| table.row(row));
    table
}

/// The rows of each run: no ratio joins two. Where there are several with rows, each row says its run.
fn of_runs<'a>(
    records: &[&'a Record],
    origins: &Origins<'_>,
) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut runs: Vec<(Origin<'a>, Vec<&Record>)> = Vec::new();
    for record in records {
        let origin = Origin::of(record);
        match runs.iter_mut().find(|(known, _)| *known == origin) {
            Some((_, own)) => own.push(record),
            None => runs.push((origin, vec![record])),
        }
    }
    let with_rows = runs.iter().filter(|(origin, _)| origin.is_known());
    let with_rows = with_rows.map(|(_, own)| (own[0], rows(own)));
    let with_rows: Vec<_> = with_rows.filter(|(_, rows)| !rows.is_empty()).collect();
    let mut titles = TITLES.to_vec();
    if with_rows.len() < 2 {
        let rows = with_rows.into_iter().flat_map(|(_, rows)| rows);
        return (titles, rows.collect());
    }
    titles.insert(0, "run");
    let named = with_rows.into_iter().flat_map(|(first, rows)| {
        let name = format!("{}, run {}", origins.machine(first), origins.number(first));
        rows.into_iter()
            .map(move |row| [vec![name.clone()], row].concat())
    });
    (titles, named.collect())
}

/// A row for each device, operator and kind of software that were measured at several sizes. Of open loops there is none: their rate is
/// what was offered.
fn rows(records: &[&Record]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for sweep in sweeps(records) {
        for (is_such, name) in SOFTWARE {
            let pairs: Vec<Pair<'_>> = sweep
                .iter()
                .filter_map(|device| pair(device, is_such, records))
                .collect();
            rows.extend(row(&pairs, name));
        }
    }
    rows
}

/// A parameter as it is shown.
fn parameter(record: &Record, name: &str) -> String {
    let value = record.parameters.get(name);
    value.map_or("-".into(), ToString::to_string)
}

/// Records of devices that differ in size alone, and what follows from it: the usual batch does, a batch that was asked for
/// does not.
fn sweeps<'a>(records: &[&'a Record]) -> Vec<Vec<&'a Record>> {
    let is_closed = |record: &&Record| parameter(record, "mode") != "open";
    let devices = records.iter().filter(|record| is_device(record)).copied();
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
fn pair<'a>(device: &'a Record, is_such: IsOf, records: &[&'a Record]) -> Option<Pair<'a>> {
    let parameters = |record: &Record| {
        let mut parameters = record.parameters.clone();
        parameters.remove("backend");
        parameters
    };
    let wanted = parameters(device);
    let rate = |record: &Record| Some(record.summary.get("items_per_s")?.median);
    let software = records
        .iter()
        .copied()
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
    let (host_cpu, frees) = host_cpu(pairs).unzip();
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
        host_cpu.unwrap_or_else(|| "- (--host-cpu)".into()),
        frees.unwrap_or_else(|| "-".into()),
    ])
}

/// The host's CPU time of an item on both sides, at the largest size where both have it, and the cores that the difference is at the device's
/// rate.
fn host_cpu(pairs: &[Pair<'_>]) -> Option<(String, String)> {
    let ns = |record: &Record| Some(record.summary.get("host_cpu_ns_per_item")?.median);
    let known = pairs.iter().filter_map(|pair| {
        Some((
            size(pair.device)?,
            ns(pair.device)?,
            ns(pair.software)?,
            pair,
        ))
    });
    let (size, device_ns, software_ns, pair) = known.max_by_key(|(size, ..)| *size)?;
    let items_per_s = pair.device.summary.get("items_per_s")?.median;
    let cores = (software_ns - device_ns) * items_per_s / 1e9;
    let freed = match cores > 0.0 {
        true => format!("{} cores", short(cores)),
        false => "none".to_owned(),
    };
    Some((
        format!(
            "{} instead of {} at {}",
            short_ns(device_ns),
            short_ns(software_ns),
            bytes(size as f64)
        ),
        freed,
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
pub fn bytes(size: f64) -> String {
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
            // 0.4 million a second, 2.5 us less for each.
            "1.00 cores",
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

    #[test]
    fn a_report_joins_no_runs() {
        let of_run = |run: &str, which: &[&str]| {
            let all = [64, 1024].into_iter().flat_map(|size| {
                let measured = |name, rate| record(name, size, rate, Evidence::Measured);
                [measured("cpu/best", 2e6), measured("doca", 3e6)]
            });
            let own = all.filter(|r| which.contains(&&*parameter(r, "backend")));
            let named = own.map(|mut record| {
                run.clone_into(&mut record.provenance.run);
                record
            });
            named.collect::<Vec<Record>>()
        };
        let both = ["cpu/best", "doca"];
        let shown = |records: &[Record]| {
            let origins = Origins::of(records);
            let records: Vec<&Record> = records.iter().collect();
            (html(&records, &origins), text(&records, &origins))
        };
        let (page, said) = shown(&of_run("one", &both));
        let (page, said) = (page.expect("a table"), said.expect("a table"));
        assert!(page.contains("<td>the smallest</td>") && said.contains("the smallest"));
        assert!(!page.contains("<th>run</th>"), "{page}");
        let two = [of_run("one", &both), of_run("two", &both)].concat();
        let (page, _) = shown(&two);
        let page = page.expect("a table");
        assert_eq!(page.matches("<td>the smallest</td>").count(), 2, "{page}");
        assert!(page.contains(", run 2</td>"), "{page}");
        let apart = [of_run("one", &both[..1]), of_run("two", &both[1..])].concat();
        assert_eq!(shown(&apart), (None, None));
    }
}
