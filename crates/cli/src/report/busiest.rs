//! The kinds of parts of simulated systems that are busy, by the metrics that records have of them.

use dpb_core::measure::Record;

/// A kind of parts.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    /// The metric: the share of the time for which the busiest of them worked.
    pub metric: &'static str,
    /// The meaning of the metric.
    pub meaning: &'static str,
    /// The parts, in a table.
    pub parts: &'static str,
}

/// The cores of hosts.
pub const CORES: Busy = Busy {
    metric: "busy_share_hosts",
    meaning: "the busiest host's cores",
    parts: "hosts' cores",
};
/// The stages of cards.
pub const STAGES: Busy = Busy {
    metric: "busy_share_stages",
    meaning: "the busiest stage of a card",
    parts: "cards' stages",
};
/// DMA engines, memories and buses of cards.
pub const BUSES: Busy = Busy {
    metric: "busy_share_buses",
    meaning: "the busiest DMA or memory of a card",
    parts: "cards' DMA and memories",
};
/// Wires.
pub const WIRES: Busy = Busy {
    metric: "busy_share_wires",
    meaning: "the busiest wire",
    parts: "wires",
};

/// The kind of parts that is busiest in a record, and its share of the time.
pub fn busiest(record: &Record) -> Option<(Busy, f64)> {
    let shares = [CORES, STAGES, BUSES, WIRES]
        .into_iter()
        .filter_map(|kind| {
            let share = record.summary.get(kind.metric)?.median;
            Some((kind, share))
        });
    shares.max_by(|(_, one), (_, other)| one.total_cmp(other))
}
