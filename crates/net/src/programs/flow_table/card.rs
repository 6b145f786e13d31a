//! The table in hardware: [`Card`], a model of a card between two ports.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;

use dpb_core::{Buf, Clock, Evidence, PacketPort, VirtualClock};

use super::Settings;
use super::counts::packets;
use crate::flow::hardware::{Hardware, HardwareModel, HardwareStats, Passage};
use crate::flow::{Found, HashKey, Seen, Stats, TableError};
use crate::packet::{Headers, Verdict};
use crate::pipeline::Reason;
use crate::traffic::Departures;
use crate::trial::{Drops, SystemUnderTest};

/// A card with a [table of flows in hardware](crate::flow::hardware), in virtual time: what comes by one of its ports leaves by the other, when the model says so.
///
/// It is a system under test, and moves its trial's clock: from one event to the next, an event being a packet that is due ([`Card::expect`]) or one that leaves. So a trial
/// takes as long as its packets cost to compute, and its times are exact. The model has one table, of flows over IPv4; other packets are dropped.
pub struct Card {
    clock: Arc<VirtualClock>,
    ports: [Box<dyn PacketPort>; 2],
    hardware: Hardware<2>,
    headers: Headers,
    seen: Vec<Seen<2>>,
    came: Vec<Buf>,
    /// Packets in the card, by the time at which they leave and by the order in which they came, each with its place in `held`.
    leaving: BinaryHeap<Reverse<(u64, u64, usize)>>,
    held: Vec<Option<(Buf, usize)>>,
    free: Vec<usize>,
    /// Packets that have left and wait for their port.
    out: [VecDeque<Buf>; 2],
    number: u64,
    /// When packets are due, from `start_ns` on; those at `end_ns` and later are not sent.
    departures: Option<Departures>,
    due_ns: Option<u64>,
    start_ns: u64,
    end_ns: u64,
    drops: [u64; REASONS.len()],
    told: [u64; REASONS.len()],
    /// Packets that software had no room for in its table.
    full: u64,
    /// Flows whose record is complete, and the packets that these records have.
    ended: (u64, u64),
}

/// Why a card drops packets.
const REASONS: [Reason; 4] = [
    Card::TABLE_BUSY,
    Card::SOFTWARE_BUSY,
    Reason::NOT_IP,
    Reason::MALFORMED,
];
/// Packets that are received at once.
const BURST: usize = 64;
/// Without an event the clock goes on by so much.
const IDLE_NS: u64 = 100_000;

impl Card {
    /// Too many packets waited for the table.
    pub const TABLE_BUSY: Reason = Reason("table busy");
    /// Too many packets without an entry waited for software.
    pub const SOFTWARE_BUSY: Reason = Reason("software busy");

    /// A card between two ports, whose software has the table that `settings` say.
    ///
    /// # Errors
    /// As [`Hardware::new`].
    pub fn new(
        model: HardwareModel,
        settings: &Settings,
        clock: Arc<VirtualClock>,
        ports: [Box<dyn PacketPort>; 2],
    ) -> Result<Self, TableError> {
        let key = HashKey::new(settings.seed);
        Ok(Self {
            clock,
            ports,
            hardware: Hardware::new(model, settings.flows, key, settings.timeouts)?,
            headers: Headers::new(),
            seen: Vec::with_capacity(BURST),
            came: Vec::with_capacity(BURST),
            leaving: BinaryHeap::new(),
            held: Vec::new(),
            free: Vec::new(),
            out: [const { VecDeque::new() }; 2],
            number: 0,
            departures: None,
            due_ns: None,
            start_ns: 0,
            end_ns: 0,
            drops: [0; REASONS.len()],
            told: [0; REASONS.len()],
            full: 0,
            ended: (0, 0),
        })
    }

    /// The next trial begins at `start_ns` of the clock, and for `duration_ns` packets are due at `departures`, counted from there.
    pub fn expect(&mut self, mut departures: Departures, start_ns: u64, duration_ns: u64) {
        self.due_ns = departures.next();
        self.departures = Some(departures);
        self.start_ns = start_ns;
        self.end_ns = duration_ns;
    }

    /// The evidence of its figures: the model with all parameters.
    pub fn evidence(&self) -> Evidence {
        Evidence::Simulated {
            model: format!("flow table in hardware: {}", self.hardware.model()),
        }
    }

    /// What the card counted.
    pub fn stats(&self) -> HardwareStats {
        self.hardware.stats()
    }

    /// What its software's table counted.
    pub fn software_stats(&self) -> Stats {
        self.hardware.software_stats()
    }

    /// Packets that software's table had no room for; they were sent on.
    pub fn full(&self) -> u64 {
        self.full
    }

    /// Checks that each packet which was sent on is counted at a flow, or found software's table full.
    ///
    /// # Errors
    /// A sentence with the counters.
    pub fn check(&self) -> Result<(), String> {
        let stats = self.hardware.stats();
        let passed = stats.by_hardware + stats.by_software;
        let dropped = stats.table_busy + stats.software_busy;
        let (held, _) = self.hardware.held();
        let counted = held + self.ended.1 + self.full;
        match passed + dropped == stats.offered && counted == passed {
            true => Ok(()),
            false => Err(format!(
                "a card sent {passed} packets on and dropped {dropped} of {}, and its flows have {counted}",
                stats.offered
            )),
        }
    }

    /// Receives what has come by port `from`; says if there was something.
    fn receive(&mut self, from: usize, now_ns: u64) -> io::Result<bool> {
        self.ports[from].receive(&mut self.came, BURST)?;
        let mut came = std::mem::take(&mut self.came);
        let is_something = !came.is_empty();
        self.headers.read(&came);
        self.seen.clear();
        self.headers.seen_v4(&mut self.seen);
        let mut next = 0;
        for (row, frame) in came.drain(..).enumerate() {
            match self.headers.facts()[row].verdict {
                Verdict::Ipv4 => {
                    let seen = self.seen[next];
                    next += 1;
                    self.pass(&seen, frame, 1 - from, now_ns);
                }
                Verdict::Refused(_) => self.drops[3] += 1,
                _ => self.drops[2] += 1,
            }
        }
        self.came = came;
        Ok(is_something)
    }

    fn pass(&mut self, seen: &Seen<2>, frame: Buf, to: usize, now_ns: u64) {
        let ended = &mut self.ended;
        let passage = self.hardware.packet(seen, now_ns, |flow| {
            *ended = (ended.0 + 1, ended.1 + packets(flow));
        });
        let done_ns = match passage {
            Passage::Hardware { done_ns } => done_ns,
            Passage::Software { done_ns, found } => {
                self.full += u64::from(found == Found::Full);
                done_ns
            }
            Passage::TableBusy => return self.drops[0] += 1,
            Passage::SoftwareBusy => return self.drops[1] += 1,
        };
        let place = self.free.pop().unwrap_or(self.held.len());
        if place == self.held.len() {
            self.held.push(None);
        }
        self.held[place] = Some((frame, to));
        self.leaving.push(Reverse((done_ns, self.number, place)));
        self.number += 1;
    }

    /// Sends what leaves by now; says if there was something.
    fn leave(&mut self, now_ns: u64) -> io::Result<bool> {
        let mut is_something = false;
        while let Some(Reverse((_, _, place))) =
            (self.leaving.peek().copied()).filter(|Reverse((done_ns, ..))| *done_ns <= now_ns)
        {
            self.leaving.pop();
            if let Some((frame, to)) = self.held[place].take() {
                self.out[to].push_back(frame);
            }
            self.free.push(place);
        }
        for (port, out) in self.ports.iter_mut().zip(&mut self.out) {
            if !out.is_empty() {
                is_something |= port.send(out)? > 0;
            }
        }
        Ok(is_something)
    }

    /// The next event behind `now_ns`.
    fn next_ns(&mut self, now_ns: u64) -> u64 {
        let departures = &mut self.departures;
        while let Some(due_ns) = self.due_ns
            && self.start_ns + due_ns <= now_ns
        {
            self.due_ns = departures.as_mut().and_then(Iterator::next);
        }
        let due_ns = self.due_ns.filter(|due_ns| *due_ns < self.end_ns);
        let due_ns = due_ns.map(|due_ns| self.start_ns + due_ns);
        let done_ns = self.leaving.peek().map(|Reverse((done_ns, ..))| *done_ns);
        let next_ns = due_ns.into_iter().chain(done_ns).min();
        next_ns.unwrap_or(now_ns + IDLE_NS)
    }

    fn is_empty(&self) -> bool {
        self.leaving.is_empty() && self.out.iter().all(VecDeque::is_empty)
    }
}

impl SystemUnderTest for Card {
    fn turn(&mut self) -> io::Result<()> {
        let now_ns = self.clock.now_ns();
        let ended = &mut self.ended;
        self.hardware.expire(now_ns, |flow| {
            *ended = (ended.0 + 1, ended.1 + packets(flow));
        });
        let mut moved = self.receive(0, now_ns)?;
        moved |= self.receive(1, now_ns)?;
        moved |= self.leave(now_ns)?;
        if !moved {
            let next_ns = self.next_ns(now_ns);
            self.clock.advance_to(next_ns);
        }
        Ok(())
    }

    fn is_idle(&mut self) -> io::Result<bool> {
        Ok(self.is_empty())
    }

    fn drops(&mut self) -> io::Result<Drops> {
        let each = REASONS.iter().zip(self.drops).zip(self.told);
        let since = each.filter_map(|((reason, now), told)| {
            (now > told).then(|| (reason.to_string(), now - told))
        });
        let reasons = since.collect();
        self.told = self.drops;
        Ok(Drops {
            reasons,
            are_complete: self.is_empty(),
        })
    }
}

impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Card({:?}, {} held)", self.hardware, self.leaving.len())
    }
}
