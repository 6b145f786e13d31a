//! The table in software: [`FlowTable`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use dpb_core::Clock;

use super::counts::packets;
use super::{Counts, Totals};
use crate::flow::{Flow, Found, HashKey, Seen, Table, TableError, Timeouts};
use crate::packet::{Headers, Verdict};
use crate::pipeline::{Burst, Mark, Packet, Reason, Stage};

/// Settings of a table of flows.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Flows that a shard has room for, of each version of IP.
    pub flows: usize,
    /// After so long without a packet a flow ends.
    pub timeouts: Timeouts,
    /// A number that nobody outside knows: flows' places depend on it.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flows: 1 << 16,
            timeouts: Timeouts::default(),
            seed: 0,
        }
    }
}

/// A stage that counts each packet at its flow, and says where it goes on ([`FlowTable::forwarding`]). It leaves packets as they are, but for those whose headers are
/// wrong: these are dropped.
pub struct FlowTable {
    headers: Headers,
    v4: Family<2>,
    v6: Family<5>,
    clock: Arc<dyn Clock>,
    now_ms: u32,
    /// For packets that came by each port; nothing if others say.
    ways: Vec<u16>,
    totals: Totals,
    counts: Arc<Counts>,
    done: Vec<Burst>,
}

/// The flows of one version of IP, and what of a burst belongs to it.
struct Family<const N: usize> {
    table: Table<N>,
    seen: Vec<Seen<N>>,
    found: Vec<Found>,
    packets_of_ended: u64,
}

impl<const N: usize> Family<N> {
    fn new(settings: &Settings, seed: u64) -> Result<Self, TableError> {
        Ok(Self {
            table: Table::new(settings.flows, HashKey::new(seed), settings.timeouts)?,
            seen: Vec::new(),
            found: Vec::new(),
            packets_of_ended: 0,
        })
    }

    /// Counts the packets seen.
    #[inline(always)]
    fn count(&mut self, now_ms: u32) {
        let Self {
            table,
            seen,
            found,
            packets_of_ended,
        } = self;
        let mut ended = |flow: &Flow<N>| *packets_of_ended += packets(flow);
        table.expire(now_ms, &mut ended);
        found.clear();
        table.burst(seen, now_ms, found, &mut ended);
    }

    /// Ends all flows; says how many packets those had that were not over.
    fn end(&mut self, now_ms: u32) -> u64 {
        let over = &mut self.packets_of_ended;
        (self.table).expire_all(now_ms, |flow| *over += packets(flow));
        self.table.iter(now_ms).map(packets).sum()
    }
}

impl FlowTable {
    /// The table of one shard, whose flows end by `clock`.
    ///
    /// # Errors
    /// As [`Table::new`].
    pub fn new(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, TableError> {
        Ok(Self {
            headers: Headers::new(),
            v4: Family::new(settings, settings.seed)?,
            v6: Family::new(settings, !settings.seed)?,
            now_ms: now_ms(&*clock),
            clock,
            ways: Vec::new(),
            totals: Totals::default(),
            counts: Arc::default(),
            done: Vec::new(),
        })
    }

    /// Sends each packet that came by port `i` to port `ways[i]`, as a [`bridge`](crate::programs::forward::bridge) does. One that came by another port has no way out.
    #[must_use]
    pub fn forwarding(mut self, ways: Vec<u16>) -> Self {
        self.ways = ways;
        self
    }

    /// Its counters.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Its flows over IPv4.
    pub fn ipv4(&self) -> &Table<2> {
        &self.v4.table
    }

    /// Its flows over IPv6.
    pub fn ipv6(&self) -> &Table<5> {
        &self.v6.table
    }

    #[inline(always)]
    fn work(&mut self, burst: &mut Burst) {
        self.now_ms = now_ms(&*self.clock);
        self.headers.read(burst.frames());
        let Self {
            headers,
            v4,
            v6,
            now_ms,
            ways,
            totals,
            ..
        } = self;
        if !headers.ipv4().is_empty() {
            v4.seen.clear();
            headers.seen_v4(&mut v4.seen);
            v4.count(*now_ms);
        }
        if !headers.ipv6().is_empty() {
            v6.seen.clear();
            headers.seen_v6(&mut v6.seen);
            v6.count(*now_ms);
        }
        if !ways.is_empty() {
            for Packet { mark, .. } in burst.iter_mut() {
                let way = ways.get(usize::from(mark.ingress)).copied();
                mark.egress = way.unwrap_or(Mark::NOWHERE);
            }
        }
        totals.packets += burst.len() as u64;
        if headers.ipv4().len() + headers.ipv6().len() < burst.len() {
            for (i, facts) in headers.facts().iter().enumerate() {
                match facts.verdict {
                    Verdict::Refused(refusal) => {
                        totals.refused += 1;
                        burst.packet(i).drop_for(Reason::from(refusal));
                    }
                    Verdict::Other => totals.others += 1,
                    _ => {}
                }
            }
        }
        self.publish();
    }

    fn publish(&mut self) {
        let (v4, v6) = (self.v4.table.stats(), self.v6.table.stats());
        let totals = &mut self.totals;
        totals.began = v4.began + v6.began;
        totals.ended = v4.ended + v6.ended;
        totals.full = v4.refused + v6.refused;
        totals.known = v4.offered + v6.offered - totals.began - totals.full;
        totals.packets_of_ended = self.v4.packets_of_ended + self.v6.packets_of_ended;
        self.counts.write(totals);
    }
}

fn now_ms(clock: &dyn Clock) -> u32 {
    (clock.now_ns() / 1_000_000) as u32
}

impl Stage for FlowTable {
    fn name(&self) -> &str {
        "flow table"
    }

    fn offer(&mut self, ready: &mut VecDeque<Burst>) -> usize {
        let taken = ready.len();
        for mut burst in ready.drain(..) {
            self.work(&mut burst);
            self.done.push(burst);
        }
        taken
    }

    fn poll(&mut self, done: &mut Vec<Burst>) -> usize {
        let finished = self.done.len();
        done.append(&mut self.done);
        finished
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

/// The counters of flows that there still are belong to the totals.
impl Drop for FlowTable {
    fn drop(&mut self) {
        let left = self.v4.end(self.now_ms) + self.v6.end(self.now_ms);
        self.totals.packets_of_left = left;
        self.publish();
    }
}

impl fmt::Debug for FlowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flows = self.v4.table.len() + self.v6.table.len();
        write!(f, "FlowTable({flows} flows)")
    }
}
