//! Flows of UDP: an open loop of datagrams to a peer that counts or answers them.
//!
//! Each datagram bears its number and the time at which it was intended to leave, so that its latency counts also the time for which its sender was late (no
//! coordinated omission). The rest of its payload is a piece of a stream that both ends know.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use dpb_core::measure::latency::Latencies;
use dpb_core::random::SplitMix64;

use super::arrivals::{Arrivals, Rate, Sizes};
use super::frame::{Frame, HEAD_BYTES_MAX, Stream, UDP, UDP_HEAD_BYTES};
use super::headers::{self, Address};
use super::journey::ANSWER;
use crate::kernel::NANOSECOND_PS;
use crate::tcp::Ranges;

/// Bytes of the payload that are its number and its time.
pub const STAMP_BYTES: u32 = 16;
/// Headers of IPv4 and UDP.
pub const PACKET_HEADERS: u32 = 28;

/// A source of datagrams.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceModel {
    /// The port of this end.
    pub port: u16,
    /// The other end.
    pub to: Address,
    /// The times at which they leave.
    pub rate: Rate,
    /// The time at which the first may leave, in picoseconds.
    pub at_ps: u64,
    /// Bytes of payload, with the stamp.
    pub sizes: Sizes,
    /// The number of datagrams.
    pub count: u64,
    /// Datagrams that may wait for a core or for room in the card's ring; one that finds as many is refused.
    pub waiting_max: usize,
    /// True if the peer answers each.
    pub is_answered: bool,
    /// The seed of gaps and sizes.
    pub seed: u64,
}

/// A service that takes datagrams at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceModel {
    /// The port.
    pub port: u16,
    /// The bytes of an answer, with the stamp; nothing is answered if there are none.
    pub answer_bytes: Option<u32>,
    /// Answers that may wait for a core or for room in the card's ring.
    pub waiting_max: usize,
}

/// The datagrams of a flow as their receiver counts them.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Datagrams that came, each counted once.
    pub delivered: u64,
    /// The bytes of their payload.
    pub bytes: u64,
    /// Datagrams that came again.
    pub duplicates: u64,
    /// Answers that were to leave, at a service that gives them.
    pub answered: u64,
    /// Datagrams that came behind one with a higher number (RFC 4737, type P reordered).
    pub reordered: u64,
    /// Time from the intended departure to the end of reception, of each that came, in nanoseconds rounded up.
    pub latencies: Latencies,
    /// The same, of all together, in picoseconds.
    pub latency_ps: u128,
    /// The time at which the last came.
    pub last_ps: u64,
    next: u64,
    seen: Ranges,
}

impl Received {
    fn take(&mut self, stamp: Stamp, bytes: u32, now_ps: u64) {
        let Stamp { number, due_ps } = stamp;
        if self.seen.insert(number, number + 1) == 0 {
            self.duplicates += 1;
            return;
        }
        self.delivered += 1;
        self.bytes += u64::from(bytes);
        self.reordered += u64::from(number < self.next);
        self.next = self.next.max(number + 1);
        self.last_ps = now_ps;
        let took_ps = now_ps.saturating_sub(due_ps);
        self.latency_ps += u128::from(took_ps);
        self.latencies.record(took_ps.div_ceil(NANOSECOND_PS));
    }

    /// Datagrams with a lower number than one that came, which have not come themselves.
    pub fn missing(&self) -> u64 {
        self.next - self.delivered
    }
}

/// The number of a datagram, and the time at which it was intended to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its number, from zero.
    pub number: u64,
    /// The time, in picoseconds.
    pub due_ps: u64,
}

/// A datagram that a core is to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    stamp: Stamp,
    /// Its payload's bytes.
    pub bytes: u32,
    own: Address,
    peer: Address,
    /// The time at which it began to wait.
    pub since_ps: u64,
    /// The flow that it is counted for.
    pub flow: u32,
}

/// A source, as it runs.
#[derive(Debug)]
pub struct Source {
    model: SourceModel,
    own: Address,
    flow: u32,
    arrivals: Arrivals,
    random: SplitMix64,
    waiting: VecDeque<Datagram>,
    /// Datagrams that were to leave so far.
    pub offered: u64,
    /// Those of them that found too many waiting.
    pub refused: u64,
    /// Answers that came, by the time from the intended departure.
    pub answers: Received,
}

impl Source {
    /// A source at this address, whose frames are counted for this flow.
    pub fn new(model: SourceModel, own: Address, flow: u32) -> Self {
        Self {
            arrivals: Arrivals::new(model.rate, model.at_ps, model.seed),
            random: SplitMix64::new(!model.seed),
            own,
            flow,
            model,
            waiting: VecDeque::new(),
            offered: 0,
            refused: 0,
            answers: Received::default(),
        }
    }

    /// Its parameters.
    pub fn model(&self) -> &SourceModel {
        &self.model
    }

    /// The number of its flow; that of the answers has [`ANSWER`] besides.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// The time at which the next datagram is to leave; `None` behind the last.
    pub fn next_ps(&self) -> Option<u64> {
        (self.offered < self.model.count).then(|| self.arrivals.next_ps())
    }

    /// The next datagram is to leave now. True if it waits for a core from now on.
    pub fn arrive(&mut self) -> bool {
        let due_ps = self.arrivals.next_ps();
        self.arrivals.advance();
        let number = self.offered;
        self.offered += 1;
        let bytes = self.model.sizes.draw(&mut self.random);
        if self.waiting.len() >= self.model.waiting_max {
            self.refused += 1;
            return false;
        }
        self.waiting.push_back(Datagram {
            stamp: Stamp { number, due_ps },
            bytes,
            own: self.own,
            peer: self.model.to,
            since_ps: due_ps,
            flow: self.flow,
        });
        true
    }

    /// The datagram that has waited longest, if one waits.
    pub fn pop(&mut self) -> Option<Datagram> {
        self.waiting.pop_front()
    }

    /// True if all datagrams have left.
    pub fn is_done(&self) -> bool {
        self.offered == self.model.count && self.waiting.is_empty()
    }
}

/// A service, as it runs.
#[derive(Debug)]
pub struct Service {
    model: ServiceModel,
    /// By the address and port of the source.
    flows: BTreeMap<(Ipv4Addr, u16), Received>,
    waiting: VecDeque<Datagram>,
}

/// The fate of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// It was taken.
    Taken,
    /// It was taken, and an answer waits.
    Answered,
    /// It was taken, and there is no room for the answer.
    NoRoom,
    /// Its payload is not what was sent, or too short.
    Wrong,
}

impl Service {
    /// A service.
    pub fn new(model: ServiceModel) -> Self {
        Self {
            model,
            flows: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Its parameters.
    pub fn model(&self) -> &ServiceModel {
        &self.model
    }

    /// The datagrams of a source.
    pub fn received(&self, ip: Ipv4Addr, port: u16) -> Option<&Received> {
        self.flows.get(&(ip, port))
    }

    /// Takes a datagram that came from `peer` to `own`.
    pub fn take(&mut self, frame: &Frame, peer: Address, own: Address, now_ps: u64) -> Reception {
        let Some(stamp) = read(frame, peer, own) else {
            return Reception::Wrong;
        };
        let bytes = frame.payload_bytes() as u32;
        let received = self.flows.entry((peer.ip, peer.port)).or_default();
        let before = received.duplicates;
        received.take(stamp, bytes, now_ps);
        let is_again = received.duplicates > before;
        let Some(bytes) = self.model.answer_bytes.filter(|_| !is_again) else {
            return Reception::Taken;
        };
        received.answered += 1;
        if self.waiting.len() >= self.model.waiting_max {
            return Reception::NoRoom;
        }
        let flow = match frame.journey.flow {
            0 => 0,
            flow => flow | ANSWER,
        };
        self.waiting.push_back(Datagram {
            stamp,
            bytes,
            own,
            peer,
            since_ps: now_ps,
            flow,
        });
        Reception::Answered
    }

    /// The answer that has waited longest, if one waits.
    pub fn pop(&mut self) -> Option<Datagram> {
        self.waiting.pop_front()
    }
}

impl Source {
    /// Takes an answer that came from the peer; false if it is not what was sent.
    pub fn take(&mut self, frame: &Frame, peer: Address, now_ps: u64) -> bool {
        let Some(stamp) = read(frame, peer, self.own) else {
            return false;
        };
        let bytes = frame.payload_bytes() as u32;
        self.answers.take(stamp, bytes, now_ps);
        true
    }
}

/// The stream of a direction, where this datagram's payload stands in it.
fn stream(from: Address, to: Address, number: u64) -> Stream {
    Stream {
        seed: headers::seed(from, to),
        offset: number << 16,
    }
}

impl Datagram {
    /// The frame, whose time counts from when the datagram began to wait; written over another that nobody needs any more, if there is one.
    pub fn frame(&self, spent: Option<Box<Frame>>) -> Box<Frame> {
        let Self {
            stamp, own, peer, ..
        } = self;
        let mut head = [0; HEAD_BYTES_MAX];
        head[..6].copy_from_slice(&peer.mac);
        head[6..12].copy_from_slice(&own.mac);
        head[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        let total = (PACKET_HEADERS + self.bytes) as u16;
        head[16..18].copy_from_slice(&total.to_be_bytes());
        // Don't fragment; 64 hops.
        head[20] = 0x40;
        head[22] = 64;
        head[23] = UDP;
        head[26..30].copy_from_slice(&own.ip.octets());
        head[30..34].copy_from_slice(&peer.ip.octets());
        head[34..36].copy_from_slice(&own.port.to_be_bytes());
        head[36..38].copy_from_slice(&peer.port.to_be_bytes());
        head[38..40].copy_from_slice(&(total - 20).to_be_bytes());
        head[UDP_HEAD_BYTES..UDP_HEAD_BYTES + 8].copy_from_slice(&stamp.number.to_be_bytes());
        head[UDP_HEAD_BYTES + 8..UDP_HEAD_BYTES + 16].copy_from_slice(&stamp.due_ps.to_be_bytes());
        let stream = stream(*own, *peer, stamp.number);
        let head = &head[..UDP_HEAD_BYTES + STAMP_BYTES as usize];
        let body_bytes = self.bytes - STAMP_BYTES;
        let mut frame = Frame::over(spent, head, stream, body_bytes, self.since_ps);
        frame.journey.flow = self.flow;
        frame
    }
}

/// Reads the stamp of a datagram; `None` if its payload is too short, or not what its sender sent.
fn read(frame: &Frame, from: Address, to: Address) -> Option<Stamp> {
    let stamp_of = |bytes: &[u8]| {
        let word = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Stamp {
            number: word(0)?,
            due_ps: word(8)?,
        })
    };
    // A frame that nobody wrote out has its stamp behind its headers.
    if frame.head().len() >= UDP_HEAD_BYTES + STAMP_BYTES as usize {
        let stamp = stamp_of(&frame.head()[UDP_HEAD_BYTES..])?;
        return frame
            .carries(stream(from, to, stamp.number))
            .then_some(stamp);
    }
    let mut bytes = Vec::with_capacity(frame.bytes());
    frame.write_packet(&mut bytes);
    let end = frame.ipv4_end()?.min(bytes.len());
    let payload = bytes.get(UDP_HEAD_BYTES..end)?;
    let stamp = stamp_of(payload)?;
    // A number that would not leave room for its stream was never sent.
    let is_sent = stamp.number < 1 << 47;
    let rest = payload.get(STAMP_BYTES as usize..)?;
    (is_sent && stream(from, to, stamp.number).holds(rest)).then_some(stamp)
}
