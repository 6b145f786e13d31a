//! The figures of runs of a system: of the whole, and of each connection, part and way of frames.

use std::collections::BTreeMap;

use dpb_core::measure::Record;
use dpb_sim::system::{Flow, Leg, System};

/// A figure of something with a name, run by run.
type Figures<const N: usize> = BTreeMap<String, [Vec<f64>; N]>;

/// The figures of runs. A list has a number for each run.
#[derive(Default)]
pub(super) struct Samples {
    /// Of the whole, by metric.
    whole: BTreeMap<&'static str, Vec<f64>>,
    /// Of each connection: see [`FLOW`].
    pub(super) flows: Figures<5>,
    /// Of each part: see [`PART`].
    pub(super) parts: Figures<4>,
    /// Of the frames that each host received: the mean time of each leg, in nanoseconds.
    pub(super) legs: Figures<{ Leg::ALL.len() }>,
}

/// The figures of a connection: bytes, answers, when it had finished in nanoseconds, bits a second, segments that were sent again.
pub(super) const FLOW: [&str; 5] = [
    "bytes received",
    "answers",
    "finished",
    "Gbit/s",
    "sent again",
];
/// The figures of a part: its share of the time until all had finished, jobs, the mean wait in nanoseconds, what it dropped.
pub(super) const PART: [&str; 4] = ["busy", "jobs", "mean wait", "dropped"];

/// A part: its kind, its name, and its figures.
struct Part {
    kind: Kind,
    name: String,
    figures: [f64; 4],
}

/// The kinds of parts that work may wait for.
#[derive(Clone, Copy)]
enum Kind {
    Hosts,
    Stages,
    Buses,
    Wires,
}

impl Kind {
    /// The metric of the busiest one.
    const fn metric(self) -> &'static str {
        match self {
            Self::Hosts => "busy_share_hosts",
            Self::Stages => "busy_share_stages",
            Self::Buses => "busy_share_buses",
            Self::Wires => "busy_share_wires",
        }
    }
}

impl Samples {
    /// Adds a run, and its counts to the record.
    ///
    /// # Errors
    /// If a payload was wrong and nothing was planted that may spoil one.
    pub(super) fn add(&mut self, system: &System, record: &mut Record) -> Result<(), String> {
        let opened: Vec<&Flow> = system.hosts().flat_map(|(_, host)| host.flows()).collect();
        let finished_ps = opened.iter().filter_map(|flow| flow.finished_ps).max();
        // Of a run that nobody finished in, the whole.
        let end_ps = finished_ps.unwrap_or(system.kernel().now_ps()).max(1);
        // A process without hosts has parts of a system, but no application that completes.
        if system.hosts().next().is_some() {
            self.add_whole(&opened, seconds(end_ps));
        }
        self.add_flows(system);
        self.add_parts(system, end_ps);
        self.add_legs(system);
        add_counts(system, record);
        is_sound(system)
    }

    /// Puts the figures of the whole into the record.
    pub(super) fn keep(&self, record: &mut Record) {
        for (name, values) in &self.whole {
            record.sample(name, values.clone());
        }
    }

    fn add_whole(&mut self, opened: &[&Flow], completion_s: f64) {
        let delivered = opened.iter().map(|flow| flow.endpoint.delivered_bytes());
        let delivered: u64 = delivered.sum();
        // Both ends count an answer.
        let asked = opened.iter().filter(|flow| flow.answers > 0);
        let rates = asked.filter_map(|flow| {
            let took_ps = flow.finished_ps?.saturating_sub(flow.opened_ps);
            Some(flow.answers as f64 / seconds(took_ps.max(1)))
        });
        let rate = rates.sum::<f64>() / 2.0;
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
                append(
                    &mut self.flows,
                    name,
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
        for Part {
            kind,
            name,
            figures,
        } in parts(system, end_ps)
        {
            let most = busiest.entry(kind.metric()).or_insert(0.0);
            *most = most.max(figures[0]);
            append(&mut self.parts, name, figures);
        }
        for (metric, share) in busiest {
            self.push(metric, share);
        }
    }

    fn add_legs(&mut self, system: &System) {
        for (name, host) in system.hosts().filter(|(_, host)| host.ways().frames > 0) {
            let ways = host.ways();
            let mean = |sum_ps: u64| sum_ps as f64 / 1e3 / ways.frames as f64;
            append(&mut self.legs, name.to_owned(), ways.legs_ps.map(mean));
        }
    }
}

fn append<const N: usize>(to: &mut Figures<N>, name: String, figures: [f64; N]) {
    let lists = to.entry(name).or_insert_with(|| [const { Vec::new() }; N]);
    for (list, figure) in lists.iter_mut().zip(figures) {
        list.push(figure);
    }
}

/// Every part that work may wait for, with its share of the time until `end_ps`.
fn parts(system: &System, end_ps: u64) -> Vec<Part> {
    let share = |busy_ps: u64, lanes: usize| {
        // The last acknowledgements may still be worked off when all have finished.
        (busy_ps as f64 / (end_ps as f64 * lanes as f64)).min(1.0)
    };
    let wait = |waited_ps: u64, jobs: u64| waited_ps as f64 / 1e3 / jobs.max(1) as f64;
    let mut parts = Vec::new();
    let mut add = |kind, name: String, figures| {
        parts.push(Part {
            kind,
            name,
            figures,
        });
    };
    for (name, host) in system.hosts() {
        let usage = host.usage();
        let frames = (usage.sent + usage.received) as f64;
        let refused = (usage.sum_wrong + usage.refused) as f64;
        let busy = share(usage.busy_ps, host.cores());
        add(
            Kind::Hosts,
            format!("{name}: cores"),
            [busy, frames, f64::NAN, refused],
        );
    }
    for (name, card) in system.cards() {
        for (stage, lanes, usage) in card.stages() {
            let busy = share(usage.busy_ps, lanes);
            let waited = wait(usage.waited_ps, usage.jobs);
            add(
                Kind::Stages,
                format!("card of {name}: {stage}"),
                [busy, usage.jobs as f64, waited, usage.refused as f64],
            );
        }
        for (way, usage) in ["DMA out", "DMA in"].into_iter().zip(card.dma()) {
            let waited = wait(usage.waited_ps, usage.jobs);
            add(
                Kind::Buses,
                format!("card of {name}: {way}"),
                [share(usage.busy_ps, 1), usage.jobs as f64, waited, f64::NAN],
            );
        }
        let wire = card.wire_usage();
        let dropped = card.usage().no_descriptor as f64;
        add(
            Kind::Wires,
            format!("card of {name}: wire"),
            [share(wire.busy_ps, 1), wire.sent as f64, f64::NAN, dropped],
        );
    }
    for (name, switch, ports) in system.switches() {
        for (port, to) in ports.iter().enumerate() {
            let wire = switch.wire_usage(port).unwrap_or_default();
            let dropped = (wire.dropped + wire.lost) as f64;
            add(
                Kind::Wires,
                format!("{name}: wire to {to}"),
                [share(wire.busy_ps, 1), wire.sent as f64, f64::NAN, dropped],
            );
        }
    }
    parts
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
    for (_, card) in system.cards() {
        let usage = card.usage();
        count("digests_wrong", usage.refused);
        count("dropped: receive descriptors", usage.no_descriptor);
        count("dropped: stages", usage.stage_full);
        count("interrupts", usage.interrupts);
    }
    for (_, switch, ports) in system.switches() {
        for wire in (0..ports.len()).filter_map(|port| switch.wire_usage(port)) {
            count("dropped: switch queues", wire.dropped);
            count("lost", wire.lost);
            count("flipped", wire.flipped);
        }
        count("dropped: switch buffers", switch.usage().buffer_full);
    }
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}
