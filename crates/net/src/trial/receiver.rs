//! What arrives, held against what was sent.

use super::numbers::Numbers;
use super::sender::Watcher;
use super::{Account, Drops, FlowOrder, Latency, Order};
use crate::traffic::{Read, STAMP_BYTES, Stamp, StampKey, Traffic};

/// The reason of packets that arrived after the trial.
pub(super) const LATE: &str = "late";

/// What became of a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is whole, and the first of its number.
    Delivered,
    /// It is whole, and had come before.
    Duplicate,
    /// Stamp or payload had changed.
    Corrupted,
    /// It belongs to somebody else, or to another trial.
    Foreign,
    /// Its number was not sent.
    Impossible,
}

/// Receives the packets of one trial.
#[derive(Debug)]
pub struct Receiver<'a, T: ?Sized> {
    traffic: &'a T,
    key: StampKey,
    start_ns: u64,
    arrived: Numbers,
    refused: Numbers,
    account: Account,
    latency: Latency,
    order: Order,
    flow_order: Option<FlowOrder>,
    late: u64,
}

impl<'a, T: Traffic + ?Sized> Receiver<'a, T> {
    /// For a trial whose stamps have this key, and that began at `start_ns` of its clock. With `flow_order`, the order within flows is watched as well,
    /// if the traffic knows its flows.
    pub fn new(traffic: &'a T, key: StampKey, start_ns: u64, flow_order: bool) -> Self {
        let population = traffic.population().filter(|_| flow_order);
        Self {
            traffic,
            key,
            start_ns,
            arrived: Numbers::default(),
            refused: Numbers::default(),
            account: Account::default(),
            latency: Latency::default(),
            order: Order::default(),
            flow_order: population.map(FlowOrder::new),
            late: 0,
        }
    }

    /// Says that the next packet was due: packets are offered in the order of their numbers, from 0.
    #[inline]
    pub fn offered(&mut self) {
        self.account.offered += 1;
    }

    /// Says that the sending port did not take this packet.
    pub fn refused(&mut self, number: u64) {
        self.account.refused += u64::from(self.refused.insert(number));
    }

    /// Counts a frame that arrived at `now_ns` of the trial's clock.
    #[inline]
    pub fn arrive(&mut self, frame: &[u8], now_ns: u64) -> Arrival {
        self.account.received += 1;
        let stamp = match self.key.read(frame) {
            Read::Stamp(stamp) => stamp,
            Read::Corrupted => {
                self.account.corrupted += 1;
                return Arrival::Corrupted;
            }
            Read::Foreign => {
                self.account.foreign += 1;
                return Arrival::Foreign;
            }
        };
        let number = stamp.number;
        let before = frame.len() - STAMP_BYTES;
        let filler = before
            .checked_sub(stamp.filler_bytes)
            .map(|at| &frame[at..before]);
        if !filler.is_some_and(|filler| self.traffic.has_filler(number, filler)) {
            self.account.corrupted += 1;
            return Arrival::Corrupted;
        }
        if number >= self.account.offered || self.refused.contains(number) {
            self.account.impossible += 1;
            return Arrival::Impossible;
        }
        if !self.arrived.insert(number) {
            self.account.duplicates += 1;
            return Arrival::Duplicate;
        }
        self.account.delivered += 1;
        self.account.delivered_bytes += frame.len() as u64;
        let due_ns = self.start_ns + stamp.departure_ns;
        self.latency.record(now_ns.saturating_sub(due_ns));
        self.order.arrive(number);
        if let Some(flows) = &mut self.flow_order
            && let Some((population, member)) =
                self.traffic.population().zip(self.traffic.member(number))
        {
            flows.arrive(population, &self.arrived, number, member);
        }
        Arrival::Delivered
    }

    /// Counts a frame that arrived when the trial was over. A packet of the trial that had not come before is lost, and the reason is known.
    pub fn late(&mut self, frame: &[u8]) {
        match self.key.read(frame) {
            Read::Stamp(Stamp { number, .. }) => {
                let is_sent = number < self.account.offered && !self.refused.contains(number);
                self.late += u64::from(is_sent && self.arrived.insert(number));
            }
            // It may be a packet that is missing.
            Read::Corrupted => {
                self.account.received += 1;
                self.account.corrupted += 1;
            }
            Read::Foreign => {}
        }
    }

    /// What has been counted so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The end: with what others say that they dropped.
    pub fn finish(mut self, drops: Drops) -> (Account, Latency, Order, Option<FlowOrder>) {
        self.account.drops = drops;
        if self.late > 0 {
            let late = (LATE.to_owned(), self.late);
            self.account.drops.reasons.push(late);
        }
        let lost = self.account.offered.saturating_sub(self.account.delivered);
        self.latency.set_lost(lost);
        (self.account, self.latency, self.order, self.flow_order)
    }
}

impl<T: Traffic + ?Sized> Watcher for Receiver<'_, T> {
    #[inline]
    fn offered(&mut self) {
        Receiver::offered(self);
    }

    fn refused(&mut self, number: u64) {
        Receiver::refused(self, number);
    }
}
