//! The measurements that advice needs: both sides, and the checks, each by `dpb op` in a process of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dpb_core::measure::Record;
use dpb_insight::advice::{Advice, Advisor, Goal, Load, Metric};

use super::{Args, Wanted};
use crate::cmd::replay;
use crate::exit::Failure;

/// The number of rounds in which both sides are measured, one behind the other: only so is what a machine does from one minute to the next among the errors that
/// intervals are made of. Each time takes its part of the runs.
pub(super) const PASSES: u64 = 2;

/// Both sides, over sizes and batches; the device over depths too.
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
    for (backend, depths) in (0..PASSES).flat_map(|_| both) {
        let mut words = of_operator(args);
        words.extend(flags([
            ("backend", backend.to_owned()),
            ("size", numbers(&args.size.0)),
            ("batch", numbers(&args.batches())),
            ("depth", numbers(depths)),
            ("threads", joined(threads.iter().copied())),
        ]));
        words.extend(runs(args, args.repeat.div_ceil(PASSES)));
        words.push("--host-cpu".to_owned());
        // Only a replay needs the times of single jobs.
        if args.goal.replays() {
            words.push("--latency".to_owned());
        }
        records.extend(replay::again(&words)?);
    }
    Ok(records)
}

/// The command lines that measure what the checks predict: loads that differ in size alone share one, and both sides run in turns.
pub(super) fn commands(args: &Args, advisor: &Advisor, advice: &Advice) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<(u64, u64, u64, u64), BTreeSet<u64>> = BTreeMap::new();
    let both = advice.checks.iter();
    for check in both {
        for (at, load) in [(0, &check.host_load), (1, &check.device_load)] {
            let group = groups.entry((at, load.batch, load.depth, load.threads));
            group.or_default().insert(load.size);
        }
    }
    let rate = match &advice.goal {
        Goal::Slo { jobs_per_s, .. } => Some(*jobs_per_s),
        _ => None,
    };
    let groups = groups.into_iter();
    groups
        .map(|((side, batch, depth, threads), sizes)| {
            let backend = [&advisor.host.backend, &advisor.device.backend][side as usize];
            let mut words = of_operator(args);
            if args.operator.is_none() {
                words[1] = operator(advisor);
            }
            words.extend(flags([
                ("backend", backend.clone()),
                ("size", joined(sizes.into_iter())),
                ("batch", batch.to_string()),
                ("depth", depth.to_string()),
                ("threads", threads.to_string()),
            ]));
            words.extend(runs(args, args.repeat));
            match (rate, args.goal) {
                (Some(rate), _) => words.extend(flags([
                    ("mode", "open".to_owned()),
                    ("rate", rate.to_string()),
                ])),
                (None, Wanted::Cores) => words.push("--host-cpu".to_owned()),
                _ => {}
            }
            words
        })
        .collect()
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

fn runs(args: &Args, repeat: u64) -> Vec<String> {
    // An open loop needs time for its tail.
    let seconds = match args.goal {
        Wanted::Slo => args.seconds.max(Duration::from_millis(200)),
        _ => args.seconds,
    };
    flags([
        ("seconds", seconds.as_secs_f64().to_string()),
        ("warm-up", args.warm_up.as_secs_f64().to_string()),
        ("repeat", repeat.to_string()),
        ("seed", args.seed.to_string()),
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

/// The record of a load, among those that were measured.
pub(super) fn found<'a>(records: &'a [Record], backend: &str, load: &Load) -> Option<&'a Record> {
    let is = |record: &Record, name: &str, value: String| {
        record
            .parameters
            .get(name)
            .is_some_and(|own| own.to_string() == value)
    };
    records.iter().find(|record| {
        is(record, "backend", backend.to_owned())
            && is(record, "size", load.size.to_string())
            && is(record, "batch", load.batch.to_string())
            && is(record, "depth", load.depth.to_string())
            && is(record, "threads", load.threads.to_string())
    })
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
