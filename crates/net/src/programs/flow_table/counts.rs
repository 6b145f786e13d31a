//! What a shard's table counted, for threads that are not the shard's: [`Counts`].

use std::sync::atomic::{AtomicU64, Ordering};

use crate::flow::{Direction, Flow};

/// Counters of one shard, written behind each burst by the shard alone.
#[derive(Debug, Default)]
pub struct Counts([AtomicU64; FIELDS]);

const FIELDS: usize = 9;

/// What a shard counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that came.
    pub packets: u64,
    /// Packets that are no IP, which have no flow.
    pub others: u64,
    /// Packets that were refused, as their headers contradict themselves or are cut short.
    pub refused: u64,
    /// Packets of flows that were known.
    pub known: u64,
    /// Flows that began, each with a packet.
    pub began: u64,
    /// Packets that would have begun a flow, and found the table full.
    pub full: u64,
    /// Flows that ended.
    pub ended: u64,
    /// Packets of the flows that ended.
    pub packets_of_ended: u64,
    /// Packets of the flows that there were when the shard ended; zero before that.
    pub packets_of_left: u64,
}

/// Counters that do not add up: the table lost a packet or made one up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the flow table's packets do not add up: {0:?}")]
pub struct Miscount(pub Totals);

impl Counts {
    /// The counters as of the last burst.
    pub fn read(&self) -> Totals {
        let [
            packets,
            others,
            refused,
            known,
            began,
            full,
            ended,
            packets_of_ended,
            packets_of_left,
        ] = std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed));
        Totals {
            packets,
            others,
            refused,
            known,
            began,
            full,
            ended,
            packets_of_ended,
            packets_of_left,
        }
    }

    pub(super) fn write(&self, totals: &Totals) {
        let fields = [
            totals.packets,
            totals.others,
            totals.refused,
            totals.known,
            totals.began,
            totals.full,
            totals.ended,
            totals.packets_of_ended,
            totals.packets_of_left,
        ];
        for (field, value) in self.0.iter().zip(fields) {
            field.store(value, Ordering::Relaxed);
        }
    }
}

impl Totals {
    /// Flows that there are.
    pub fn live(&self) -> u64 {
        self.began - self.ended
    }

    /// Adds another shard's.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.others += other.others;
        self.refused += other.refused;
        self.known += other.known;
        self.began += other.began;
        self.full += other.full;
        self.ended += other.ended;
        self.packets_of_ended += other.packets_of_ended;
        self.packets_of_left += other.packets_of_left;
    }

    /// What came since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            others: self.others - before.others,
            refused: self.refused - before.refused,
            known: self.known - before.known,
            began: self.began - before.began,
            full: self.full - before.full,
            ended: self.ended - before.ended,
            packets_of_ended: self.packets_of_ended - before.packets_of_ended,
            packets_of_left: self.packets_of_left - before.packets_of_left,
        }
    }

    /// Checks the counters of a shard that has ended: each packet is of no IP, refused, of a known flow, the first of one, or without room; and the flows'
    /// own counters have all packets that were counted at flows.
    ///
    /// # Errors
    /// [`Miscount`].
    pub fn check(&self) -> Result<(), Miscount> {
        let at_flows = self.known + self.began;
        let is_right = self.packets == self.others + self.refused + at_flows + self.full
            && self.packets_of_ended + self.packets_of_left == at_flows;
        is_right.then_some(()).ok_or(Miscount(*self))
    }
}

/// Packets of a flow, both directions together.
pub(super) fn packets<const N: usize>(flow: &Flow<N>) -> u64 {
    flow.packets(Direction::Up) + flow.packets(Direction::Down)
}
