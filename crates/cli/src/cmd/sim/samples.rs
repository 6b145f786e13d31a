//! The figures of runs of a system.

use dpb_core::measure::Record;
use dpb_sim::system::{Flow, Leg, System};

use crate::exit::Failure;

/// The figures of runs, by metric.
#[derive(Default)]
pub(super) struct Samples(pub(super) std::collections::BTreeMap<&'static str, Vec<f64>>);

impl Samples {
    /// Adds a run.
    ///
    /// # Errors
    /// If a payload was wrong and nothing was planted that may spoil one.
    pub(super) fn add(&mut self, system: &System, record: &mut Record) -> Result<(), Failure> {
        let opened: Vec<&Flow> = system.hosts().flat_map(|(_, host)| host.flows()).collect();
        let last_ps = opened.iter().filter_map(|flow| flow.finished_ps).max();
        let completion_s = seconds(last_ps.unwrap_or(0));
        let delivered: u64 = opened
            .iter()
            .map(|flow| flow.endpoint.delivered_bytes())
            .sum();
        let answers: u64 = opened.iter().map(|flow| flow.answers).sum();
        self.push("completion_s", completion_s);
        self.push("goodput_bps", delivered as f64 * 8.0 / completion_s);
        if answers > 0 {
            // Both ends count an answer.
            self.push("transactions_per_s", answers as f64 / 2.0 / completion_s);
        }
        self.add_counts(system, record);
        let flipped: u64 = system
            .switches()
            .flat_map(|(_, switch, ports)| {
                (0..ports.len()).filter_map(|port| switch.wire_usage(port))
            })
            .chain(system.cards().map(|(_, card)| card.wire_usage()))
            .map(|wire| wire.flipped)
            .sum();
        let wrong: u64 = system
            .hosts()
            .map(|(_, host)| host.usage().payload_wrong)
            .sum();
        match wrong > 0 && flipped == 0 {
            true => Err(Failure::check(format!(
                "{wrong} payloads were wrong though no link flips bits: a fault of dpb"
            ))),
            false => Ok(()),
        }
    }

    fn push(&mut self, name: &'static str, value: f64) {
        self.0.entry(name).or_default().push(value);
    }

    /// Adds what a run has counted.
    pub(super) fn add_counts(&self, system: &System, record: &mut Record) {
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
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}
