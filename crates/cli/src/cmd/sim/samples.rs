//! The figures of runs of a system: of the whole, and of each connection, flow of datagrams, part and way of frames.

mod datagrams;
mod figures;

use std::collections::BTreeMap;

use dpb_core::measure::Record;
use dpb_sim::system::{Flow, Kind, Leg, Part, System, report};

use super::counts;
use crate::report::busiest::{BUSES, CORES, STAGES, WIRES};
pub(super) use datagrams::{DATAGRAMS, REQUESTS};
pub(super) use figures::Figures;

/// The figures of runs. A list has a number for each run.
#[derive(Default)]
pub(super) struct Samples {
    /// Figures of the whole, by metric.
    whole: BTreeMap<&'static str, Vec<f64>>,
    /// Figures of each connection: see [`FLOW`].
    pub(super) flows: Figures<5>,
    /// Figures of each flow of datagrams: see [`DATAGRAMS`].
    pub(super) datagrams: Figures<9>,
    /// The datagrams of each flow that ended early, by reason.
    pub(super) dropped: Figures<1>,
    /// Figures of the requests of each connection: see [`REQUESTS`].
    pub(super) requests: Figures<5>,
    /// Figures of each part: see [`PART`].
    pub(super) parts: Figures<7>,
    /// Figures of the frames that each host received: the mean time of each leg, in nanoseconds.
    pub(super) legs: Figures<{ Leg::ALL.len() }>,
    /// Times of the frames with payload of a run that was observed, by part and cause: see [`SPENT`].
    pub(super) spent: Figures<2>,
}

/// The figures of a connection: bytes, answers, when it had finished in nanoseconds, bits a second, segments that were sent again.
pub(super) const FLOW: [&str; 5] = [
    "bytes received",
    "answers",
    "finished",
    "Gbit/s",
    "sent again",
];
/// The figures of a part: the jobs that it serves at a time, its share of the time until all had finished, jobs, the mean wait in nanoseconds, the mean and the greatest
/// number of jobs that waited, what it dropped.
pub(super) const PART: [&str; 7] = [
    "lanes",
    "busy",
    "jobs",
    "mean wait",
    "mean queue",
    "max queue",
    "dropped",
];
/// The figures of a stretch of the way of frames: its mean time in nanoseconds, and its share of the time from end to end.
pub(super) const SPENT: [&str; 2] = ["mean", "share"];

/// The metric of the busiest part of a kind; `None` of parts that serve nothing.
const fn metric(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Cores => Some(CORES.metric),
        Kind::Stage => Some(STAGES.metric),
        Kind::Bus => Some(BUSES.metric),
        Kind::Wire => Some(WIRES.metric),
        Kind::Passive => None,
    }
}

impl Samples {
    /// Adds a run, and its counts to the record.
    ///
    /// # Errors
    /// If a payload was wrong and nothing was planted that may spoil one.
    pub(super) fn add(&mut self, system: &System, record: &mut Record) -> Result<(), String> {
        // Of a run that nobody finished in, the whole.
        let end_ps = report::end_ps(system).max(1);
        // A process without hosts has parts of a system, but no application that completes.
        if system.hosts().next().is_some() {
            self.add_whole(system, seconds(end_ps));
        }
        self.add_flows(system);
        self.add_loads(system, record);
        self.add_parts(system, end_ps);
        self.add_legs(system);
        add_counts(system, record);
        is_sound(system)
    }

    /// Adds where the time of frames went in a run that was observed, also to the record's counts.
    pub(super) fn add_spent(&mut self, system: &System, record: &mut Record) {
        let account = report::account(system);
        if account.frames == 0 {
            return;
        }
        let frames = account.frames as f64;
        let whole_ps = account.end_to_end_ps;
        let figures = |sum_ps: u64| {
            let share = sum_ps as f64 / whole_ps.max(1) as f64;
            [sum_ps as f64 / 1e3 / frames, share]
        };
        for it in report::spent(system) {
            let name = format!("spent_ns: {}, {}", it.part, it.leg.name());
            record.counts.insert(name, it.sum_ps / 1000);
            let cause = it.leg.name().replace('_', " ");
            self.spent.add([it.part, cause], figures(it.sum_ps));
        }
        let frames = format!("{} frames with payload", account.frames);
        let whole = [frames, "end to end".to_owned()];
        self.spent.add(whole, figures(whole_ps));
    }

    /// Puts the figures of the whole into the record.
    pub(super) fn keep(&self, record: &mut Record) {
        for (name, values) in &self.whole {
            record.sample(name, values.clone());
        }
    }

    fn add_whole(&mut self, system: &System, completion_s: f64) {
        let opened: Vec<&Flow> = system.hosts().flat_map(|(_, host)| host.flows()).collect();
        let delivered = opened.iter().map(|flow| flow.endpoint.delivered_bytes());
        let datagrams = report::datagram_flows(system);
        let received = datagrams.iter().filter_map(|flow| flow.received);
        let delivered: u64 = delivered.chain(received.map(|it| it.bytes)).sum();
        // The end that asks counts an answer when it has come; the other end's time is another.
        let asking = opened.iter().filter(|flow| flow.asking.is_some());
        let rates = asking.filter_map(|flow| {
            let took_ps = flow.finished_ps?.saturating_sub(flow.opened_ps);
            Some(flow.answers as f64 / seconds(took_ps.max(1)))
        });
        let rate = rates.sum::<f64>();
        self.push("completion_s", completion_s);
        self.push("goodput_bps", delivered as f64 * 8.0 / completion_s);
        if rate > 0.0 {
            self.push("transactions_per_s", rate);
        }
    }

    fn push(&mut self, name: &'static str, value: f64) {
        self.whole.entry(name).or_default().push(value);
    }

    fn add_flows(&mut self, system: &System) {
        for (name, host) in system.hosts() {
            for flow in host.flows() {
                let bytes = flow.endpoint.delivered_bytes() as f64;
                let finished_ps = flow.finished_ps.unwrap_or(0);
                let took_ps = finished_ps.saturating_sub(flow.opened_ps).max(1);
                let again = flow.endpoint.sender().statistics().retransmissions;
                let name = format!("{name}, {}:{}", flow.peer.ip, flow.peer.port);
                self.flows.add(
                    [name],
                    [
                        bytes,
                        flow.answers as f64,
                        finished_ps as f64 / 1e3,
                        bytes * 8e3 / took_ps as f64,
                        again as f64,
                    ],
                );
            }
        }
    }

    fn add_parts(&mut self, system: &System, end_ps: u64) {
        let mut busiest: BTreeMap<&'static str, f64> = BTreeMap::new();
        for part in report::parts(system) {
            // The last acknowledgements may still be worked off when all have finished.
            let busy = part.utilisation(end_ps).min(1.0);
            if let Some(metric) = metric(part.kind) {
                let most = busiest.entry(metric).or_insert(0.0);
                *most = most.max(busy);
            }
            self.parts
                .add([part.name.clone()], figures(&part, busy, end_ps));
        }
        for (metric, share) in busiest {
            self.push(metric, share);
        }
    }

    fn add_legs(&mut self, system: &System) {
        for (name, host) in system.hosts().filter(|(_, host)| host.ways().frames > 0) {
            let ways = host.ways();
            let mean = |sum_ps: u64| sum_ps as f64 / 1e3 / ways.frames as f64;
            self.legs.add([name.to_owned()], ways.legs_ps.map(mean));
        }
    }
}

/// The figures of a part, as [`PART`] has them; what a part that serves nothing does not have is no number.
fn figures(part: &Part, busy: f64, end_ps: u64) -> [f64; 7] {
    let of_server = |figure: f64| match part.lanes {
        0 => f64::NAN,
        _ => figure,
    };
    [
        of_server(part.lanes as f64),
        of_server(busy),
        part.jobs as f64,
        of_server(part.waited_ps as f64 / 1e3 / part.jobs.max(1) as f64),
        of_server(part.waiting_mean(end_ps)),
        of_server(part.waiting_max as f64),
        part.dropped as f64,
    ]
}

/// Sees that no payload is wrong unless a link flips bits.
fn is_sound(system: &System) -> Result<(), String> {
    let switches = system
        .switches()
        .flat_map(|(_, switch, ports)| (0..ports.len()).filter_map(|port| switch.wire_usage(port)));
    let cards = system.cards().map(|(_, card)| card.wire_usage());
    let flipped: u64 = switches.chain(cards).map(|wire| wire.flipped).sum();
    let wrong: u64 = system
        .hosts()
        .map(|(_, host)| host.usage().payload_wrong)
        .sum();
    match wrong > 0 && flipped == 0 {
        true => Err(format!(
            "{wrong} payloads were wrong though no link flips bits: a fault of dpb"
        )),
        false => Ok(()),
    }
}

fn add_counts(system: &System, record: &mut Record) {
    let mut count = |name: &str, more: u64| {
        *record.counts.entry(name.to_owned()).or_insert(0) += more;
    };
    count("events", system.kernel().events());
    for (_, host) in system.hosts() {
        let usage = host.usage();
        count("frames_sent", usage.sent);
        count("frames_received", usage.received);
        count("payload_frames", host.ways().frames);
        count("payloads_wrong", usage.payload_wrong);
        count("checksums_wrong", usage.sum_wrong);
        count("host_busy_ns", usage.busy_ps / 1000);
        count("host_digest_busy_ns", usage.digest_busy_ps / 1000);
        for (leg, sum_ps) in Leg::ALL.iter().zip(host.ways().legs_ps) {
            count(&format!("leg_{}_ns", leg.name()), sum_ps / 1000);
        }
        for flow in host.flows() {
            let sender = flow.endpoint.sender().statistics();
            count("retransmissions", sender.retransmissions);
        }
        count("digests_wrong", usage.refused);
    }
    counts::add_network(record, system);
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}
