//! The measurements that advice needs: both sides, and the checks, each by `dpb op` in a process of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dpb_core::measure::Record;
use dpb_insight::advice::advisor::Prediction;
use dpb_insight::advice::{Advice, Advisor, Goal, Load, Metric};

use super::power::{self, Meter};
use super::{Args, Wanted};
use crate::Globals;
use crate::cmd::replay;
use crate::exit::Failure;

/// The number of rounds over all sizes in which both sides are measured: only so is what a machine does from one minute to the next among the errors that
/// intervals are made of. Each round takes its part of the runs.
pub(super) const PASSES: u64 = 3;

/// The finding of a record about the machine's power while its side was measured.
pub(super) const POWER: &str = "power";

/// Both sides, over sizes and batches; the device over depths too. A size is measured on both sides before the next one is, so that a machine that changes its
/// pace changes it for both, and their ratio stays.
pub(super) fn sides(args: &Args, device: &str) -> Result<Vec<Record>, Failure> {
    let numbers = |list: &[u64]| joined(list.iter().copied());
    let mut of_device = args.depth.0.clone();
    // What a job costs alone is always wanted.
    if !of_device.contains(&1) {
        of_device.insert(0, 1);
    }
    let mut threads = BTreeSet::from([1]);
    threads.insert(args.threads);
    let both = [(args.host.as_str(), &[1u64][..]), (device, &of_device)];
    let mut records = Vec::new();
    let sizes = (0..PASSES).flat_map(|_| &args.size.0);
    for (size, (backend, depths)) in sizes.flat_map(|size| both.map(|side| (size, side))) {
        let mut words = of_operator(args);
        words.extend(flags([
            ("backend", backend.to_owned()),
            ("size", size.to_string()),
            ("batch", numbers(&args.batches())),
            ("depth", numbers(depths)),
            ("threads", joined(threads.iter().copied())),
            ("seed", args.seed.to_string()),
        ]));
        words.extend(runs(args, in_each_pass(args)));
        words.push("--host-cpu".to_owned());
        // Only a replay needs the times of single jobs.
        if args.goal.replays() {
            words.push("--latency".to_owned());
        }
        let meter = Meter::start();
        let mut measured = replay::again(&words)?;
        let powers = meter.map(Meter::finish).unwrap_or_default();
        if let Some(text) = power::text(&powers) {
            for record in &mut measured {
                record.findings.insert(POWER.to_owned(), text.clone());
            }
        }
        records.extend(measured);
    }
    Ok(records)
}

/// Runs that each round takes.
fn in_each_pass(args: &Args) -> u64 {
    args.repeat.div_ceil(PASSES)
}

/// A command that measures what is predicted.
#[derive(Clone, Debug)]
pub(super) struct Command {
    /// True if it measures the device.
    pub(super) of_device: bool,
    batch: u64,
    depth: u64,
    threads: u64,
    sizes: BTreeSet<u64>,
    /// Its words behind `dpb`.
    pub(super) words: Vec<String>,
}

impl Command {
    /// True if it measures this prediction.
    pub(super) fn measures(&self, one: &Prediction) -> bool {
        let load = &one.load;
        (self.of_device, self.batch, self.depth, self.threads)
            == (one.of_device, load.batch, load.depth, load.threads)
    }

    /// The words that measure one of its sizes, with the runs of one round.
    fn at(&self, size: u64, args: &Args) -> Vec<String> {
        let instead = flags([
            ("size", size.to_string()),
            ("repeat", in_each_pass(args).to_string()),
        ]);
        let instead = instead.iter();
        let of_command = self.words.iter().map(|word| {
            let name = |word: &str| word.split_once('=').map(|(name, _)| name.to_owned());
            let mut same = instead.clone().filter(|new| name(new) == name(word));
            same.next().unwrap_or(word).clone()
        });
        of_command.collect()
    }
}

/// Measures the checks of both sides: as the sides themselves were, size by size and in rounds.
pub(super) fn checks(args: &Args, commands: &[Command]) -> Result<[Vec<Record>; 2], Failure> {
    let sizes: BTreeSet<u64> = commands.iter().flat_map(|it| &it.sizes).copied().collect();
    let mut records: [Vec<Record>; 2] = [Vec::new(), Vec::new()];
    for size in (0..PASSES).flat_map(|_| &sizes) {
        for command in commands.iter().filter(|it| it.sizes.contains(size)) {
            let measured = replay::again(&command.at(*size, args))?;
            records[usize::from(command.of_device)].extend(measured);
        }
    }
    Ok(records)
}

/// The commands that measure the predictions: the test of a side's own record, with other loads. Loads that differ in size alone share one.
///
/// # Errors
/// If a side's record does not say how its test is run again.
pub(super) fn commands(
    args: &Args,
    advice: &Advice,
    predictions: &[Prediction],
    of: &[Record; 2],
    globals: &Globals,
) -> Result<Vec<Command>, Failure> {
    let mut groups: BTreeMap<(bool, u64, u64, u64), BTreeSet<u64>> = BTreeMap::new();
    for Prediction {
        of_device, load, ..
    } in predictions
    {
        let group = groups.entry((*of_device, load.batch, load.depth, load.threads));
        group.or_default().insert(load.size);
    }
    let mut commands = Vec::new();
    for ((of_device, batch, depth, threads), sizes) in groups {
        let mut instead = flags([
            ("size", joined(sizes.iter().copied())),
            ("batch", batch.to_string()),
            ("depth", depth.to_string()),
            ("threads", threads.to_string()),
        ]);
        instead.extend(runs(args, args.repeat));
        match &advice.goal {
            Goal::Slo { jobs_per_s, .. } => instead.extend(flags([
                ("mode", "open".to_owned()),
                ("rate", jobs_per_s.to_string()),
            ])),
            Goal::Cores => instead.push("--host-cpu".to_owned()),
            _ => {}
        }
        let record = &of[usize::from(of_device)];
        let words = replay::words(record, globals.tasks, &instead).map_err(|why| {
            let why = why.message;
            Failure::check(format!(
                "record {} names no test to check: {why}",
                record.id
            ))
        })?;
        // What the record measured beside its rate, the checks may not need.
        let is_wanted = |word: &String| {
            instead.contains(word)
                || !["--latency", "--host-cpu", "--parameters="].contains(&word.as_str())
        };
        commands.push(Command {
            of_device,
            batch,
            depth,
            threads,
            sizes,
            words: words.into_iter().filter(is_wanted).collect(),
        });
    }
    Ok(commands)
}

/// The operator that the records are of.
pub(super) fn operator(advisor: &Advisor) -> String {
    let work = advisor.host.work.iter();
    let mut named = work.filter(|(name, _)| name == "operator");
    named
        .next()
        .map(|(_, value)| value.clone())
        .unwrap_or_default()
}

fn of_operator(args: &Args) -> Vec<String> {
    let mut words = vec!["op".to_owned(), args.operator.clone().unwrap_or_default()];
    if !args.parameters.is_empty() {
        words.extend(flags([("parameters", args.parameters.clone())]));
    }
    words
}

/// Seconds of a run. An open loop needs time for its tail.
pub(super) fn seconds(args: &Args) -> f64 {
    let length = match args.goal {
        Wanted::Slo => args.seconds.max(Duration::from_millis(200)),
        _ => args.seconds,
    };
    length.as_secs_f64()
}

fn runs(args: &Args, repeat: u64) -> Vec<String> {
    flags([
        ("seconds", seconds(args).to_string()),
        ("warm-up", args.warm_up.as_secs_f64().to_string()),
        ("repeat", repeat.to_string()),
    ])
}

fn flags<const N: usize>(flags: [(&str, String); N]) -> Vec<String> {
    flags
        .map(|(name, value)| format!("--{name}={value}"))
        .into()
}

fn joined(numbers: impl Iterator<Item = u64>) -> String {
    numbers
        .map(|number| number.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

/// The records of a load, among those of one side that were measured: one of each round.
pub(super) fn found<'a>(records: &'a [Record], load: &Load) -> Vec<&'a Record> {
    let wanted = [
        ("size", load.size),
        ("batch", load.batch),
        ("depth", load.depth),
        ("threads", load.threads),
    ];
    let is = |record: &Record, name: &str, value: u64| {
        let own = record.parameters.get(name);
        own.is_some_and(|own| own.to_string() == value.to_string())
    };
    let found = records
        .iter()
        .filter(|record| wanted.iter().all(|(name, value)| is(record, name, *value)));
    found.collect()
}

/// The runs of a figure by job, in nanoseconds.
pub(super) fn figures(record: &Record, metric: Metric, batch: u64) -> Vec<f64> {
    let name = match metric {
        Metric::Time => "items_per_s",
        Metric::HostTime => "host_cpu_ns_per_item",
        Metric::P99 => "latency_ns_p99",
    };
    let values = record.samples.get(name).map(|samples| &samples.values);
    let values = values.into_iter().flatten().copied();
    let by_job = values.map(|value| match metric {
        Metric::Time => batch as f64 * 1e9 / value,
        Metric::HostTime => value * batch as f64,
        Metric::P99 => value,
    });
    by_job.collect()
}
