//! Counts of the network of a system, as records have them.

use dpb_core::measure::Record;
use dpb_sim::system::System;

/// Adds what cards, switches and all wires have counted. A wire's count is of the end that sends: that of a card, or of a switch's port.
pub(super) fn add_network(record: &mut Record, system: &System) {
    let mut count = |name: &str, more: u64| {
        *record.counts.entry(name.to_owned()).or_insert(0) += more;
    };
    for (_, card) in system.cards() {
        let (usage, wire) = (card.usage(), card.wire_usage());
        count("digests_wrong", usage.refused);
        // Those that are no packets pass, and nobody authenticates them.
        let digests = card.protection().unwrap_or_default();
        count("frames_sent_without_digest", digests.passed);
        count("frames_received_without_digest", digests.bare);
        count("dropped: receive descriptors", usage.no_descriptor);
        count("dropped: stages", usage.stage_full);
        count("interrupts", usage.interrupts);
        count("dropped: card queues", wire.dropped);
        count("lost", wire.lost);
        count("flipped", wire.flipped);
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
