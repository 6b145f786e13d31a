//! The record of a run with real hosts, and its tables.

use dpb_core::measure::{Outcome, Record, Stability};
use dpb_sim::system::{Lateness, Leg, Live, Real, RealUsage, System};

use super::super::counts;
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table};

/// Lateness of all releases together.
fn lateness(system: &System, live: &Live) -> Lateness {
    let mut all = Lateness::default();
    for number in 0..system.real().count() {
        if let Some((usage, _)) = live.usage(number) {
            all.merge(&usage.late);
        }
    }
    all
}

/// The percentiles that are shown, and their names.
const SHARES: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

/// Fills in what was counted and measured.
pub(super) fn fill(record: &mut Record, system: &System, live: &Live) {
    let elapsed_s = live.elapsed_ps() as f64 / 1e12;
    record.sample("elapsed_s", vec![elapsed_s]);
    for (name, lateness) in [
        ("release_late", lateness(system, live)),
        ("unseen", live.gaps()),
    ] {
        for (quantile, share) in SHARES {
            if let Some(ns) = lateness.quantile_ns(share) {
                record.sample(&format!("{name}_ns_{quantile}"), vec![ns as f64]);
            }
        }
        record.sample(&format!("{name}_ns_max"), vec![lateness.max_ns() as f64]);
    }
    add_counts(record, system);
    let mut count = |name: &str, more: u64| {
        *record.counts.entry(name.to_owned()).or_insert(0) += more;
    };
    for number in 0..system.real().count() {
        if let Some((port, kernel)) = live.usage(number) {
            count("dropped: no room at the real host", port.no_room);
            count("dropped: too long for the real host", port.too_long);
            count("dropped: no frame", port.too_short);
            count(
                "dropped: before the port was read",
                kernel.receive_lost.total(),
            );
        }
    }
    record.stability = Some(stability(system, live));
}

/// Adds what the parts of the system have counted.
pub(super) fn add_counts(record: &mut Record, system: &System) {
    let mut count = |name: &str, more: u64| {
        *record.counts.entry(name.to_owned()).or_insert(0) += more;
    };
    count("events", system.kernel().events());
    for (name, real) in system.real() {
        let usage = real.usage();
        count(&format!("{name}: frames sent"), usage.sent);
        count(&format!("{name}: frames received"), usage.received);
        count(&format!("{name}: bytes sent"), usage.sent_bytes);
        count(&format!("{name}: bytes received"), usage.received_bytes);
        count("dropped: no descriptor to send", usage.dropped);
    }
    for protection in system.cards().filter_map(|(_, card)| card.protection()) {
        count("digests_computed", protection.protected);
        count("digests_right", protection.right);
    }
    counts::add_network(record, system);
}

/// The time below which nothing can be seen: a hundredth of the releases are later.
fn resolution_ns(system: &System, live: &Live) -> Option<u64> {
    lateness(system, live).quantile_ns(0.99)
}

fn stability(system: &System, live: &Live) -> Stability {
    let reason = match resolution_ns(system, live) {
        Some(ns) => format!(
            "on the wall clock: modelled delays below {} are not visible, the lateness that 1 of 100 releases exceeds",
            output::short_ns(ns as f64)
        ),
        None => "on the wall clock: no frame was released".to_owned(),
    };
    Stability {
        stable: false,
        reasons: vec![reason],
        disturbed: false,
        cv: None,
        core_wait_s: None,
        context_switches_involuntary: None,
        steal_s: None,
    }
}

/// Prints the record, or tables of it for a person.
pub(super) fn print(
    format: Format,
    record: &Record,
    system: &System,
    live: &Live,
) -> Result<(), Failure> {
    if format == Format::Json {
        return output::print_json(record);
    }
    for table in [traffic(system, live), delays(system)] {
        output::print(&(table.to(format) + "\n"))?;
    }
    if record.outcome != Outcome::Done {
        return Ok(());
    }
    let late = lateness(system, live);
    let shown = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| output::short_ns(ns as f64));
    let reasons = record.stability.iter().flat_map(|it| &it.reasons);
    let reasons: Vec<&str> = reasons.map(String::as_str).collect();
    output::print(&format!(
        "releases late by {} (p50), {} (p99), {} (max); frames unseen for up to {}; {}; evidence: {}\n",
        shown(late.quantile_ns(0.5)),
        shown(late.quantile_ns(0.99)),
        shown((late.count() > 0).then(|| late.max_ns())),
        shown(Some(live.gaps().max_ns())),
        reasons.join("; "),
        output::evidence(record),
    ))
}

/// The frames of each real host.
fn traffic(system: &System, live: &Live) -> Table {
    let mut table = Table::new([
        Column::left("real host"),
        Column::right("frames sent"),
        Column::right("Mbit/s sent"),
        Column::right("frames received"),
        Column::right("Mbit/s received"),
        Column::right("dropped"),
        Column::right("digests right"),
        Column::right("wrong"),
    ]);
    let elapsed_us = (live.elapsed_ps() as f64 / 1e6).max(1.0);
    let rate = |bytes: u64| format!("{:.1}", bytes as f64 * 8.0 / elapsed_us);
    for (number, (name, real)) in system.real().enumerate() {
        let usage: RealUsage = Real::usage(real);
        let port = live.usage(number).map(|(port, _)| port).unwrap_or_default();
        let dropped = usage.dropped + port.no_room + port.too_long + port.too_short;
        let card = system.cards().find(|(host, _)| *host == name);
        let card = card.map(|(_, card)| card);
        let right = card.and_then(|it| it.protection()).map(|it| it.right);
        let wrong = card.map(|it| it.usage().refused);
        let cell = |count: Option<u64>| count.map_or(String::new(), |it| it.to_string());
        table.row([
            name.to_owned(),
            usage.sent.to_string(),
            rate(usage.sent_bytes),
            usage.received.to_string(),
            rate(usage.received_bytes),
            dropped.to_string(),
            cell(right),
            cell(wrong),
        ]);
    }
    table
}

/// The mean modelled time of each leg that took some, by the host that received the frames.
pub(super) fn delays(system: &System) -> Table {
    let is_used = |leg: &Leg| {
        let mut real = system.real();
        real.any(|(_, real)| real.usage().legs_ps[*leg as usize] > 0)
    };
    let used: Vec<Leg> = Leg::ALL.into_iter().filter(is_used).collect();
    let mut columns = vec![Column::left("modelled, of frames to")];
    let titles = used.iter();
    columns.extend(titles.map(|leg| Column::right(leg.name().replace('_', " "))));
    let mut table = Table::new(columns);
    for (name, real) in system.real() {
        let usage = real.usage();
        let mean =
            |sum_ps: u64| output::short_ns(sum_ps as f64 / 1e3 / usage.received.max(1) as f64);
        let means = used.iter().map(|&leg| mean(usage.legs_ps[leg as usize]));
        table.row([name.to_owned()].into_iter().chain(means));
    }
    table
}
