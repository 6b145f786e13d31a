//! A host: cores, a network stack whose cost is known by packet and byte, and applications over TCP and UDP.
//!
//! A core does one thing at a time: first all that the connection which took the last frames may send, as the card's ring has room, once it is to answer; then the next
//! frame that the card delivered; then a segment that another connection may send. Interrupts are worked off with whatever is next, or at once
//! if nothing is. A frame lies in its buffer until a core takes it; then the card has the buffer again. Connections keep to a core. A host without a card that protects may compute digests itself; then that is work of its cores.

mod applications;
mod datagrams;
mod sending;

use std::collections::{BTreeMap, VecDeque};

use dpb_core::random::SplitMix64;

use crate::kernel::{Component, Context};
use crate::tcp::{Config, Endpoint, SequenceNumbers};

use super::asking::{Asking, Pace};
use super::datagrams::{Service, Source};
use super::frame::{Frame, Stream, TCP, UDP};
use super::headers::{self, Address, Numbers};
use super::journey::Leg;
use super::ledger::Reason;
use super::message::Message;
use super::part::{Kind, Part};
use super::protect::{Protection, ProtectionUsage, Verdict};
use super::times::Times;
use super::watch::{Account, Watch};

/// The port towards the card.
pub const CARD: usize = 0;

/// The parameters of a host. Times are picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostModel {
    /// Cores that work for the network.
    pub cores: usize,
    /// A core's time for each frame that is sent.
    pub send_ps: u64,
    /// A core's time for each frame that is received.
    pub receive_ps: u64,
    /// A core's time for each byte of payload, sent or received: copies.
    pub byte_ps: u64,
    /// A core's time for each interrupt.
    pub interrupt_ps: u64,
    /// Frames that may be in the card's ring and not yet sent.
    pub ring: u32,
    /// Frames that a core takes of one connection, one behind the other, before the connection may send what they call for: acknowledgements, and what they make room
    /// for. With 1 each frame is answered by itself, as without receive offload; with more, one acknowledgement may cover as many, as behind Linux's GRO,
    /// which merges up to 64 KiB. A frame that is out of order is always answered at once.
    pub merge: u32,
    /// True if frames whose checksums are wrong are dropped.
    pub checksums: bool,
    /// A core's time for each digest.
    pub digest_ps: u64,
    /// A core's time for each byte that is digested.
    pub digest_byte_ps: u64,
    /// Millionths by which each time of a core may be longer or shorter, evenly: caches, the scheduler, other work.
    pub jitter_ppm: u32,
}

impl Default for HostModel {
    /// One core of today, of the size that is reported for Linux with segmentation in software: 1 µs to send a frame, 1.2 µs to receive one, 50 ps a byte, 2 µs an
    /// interrupt. As the costs are those of single frames, none are merged.
    fn default() -> Self {
        Self {
            cores: 1,
            send_ps: 1_000_000,
            receive_ps: 1_200_000,
            byte_ps: 50,
            interrupt_ps: 2_000_000,
            ring: 256,
            merge: 1,
            checksums: true,
            digest_ps: 0,
            digest_byte_ps: 0,
            jitter_ppm: 0,
        }
    }
}

/// An application at one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Application {
    /// Sends so many bytes and closes, as iperf.
    Send {
        /// The bytes.
        bytes: u64,
    },
    /// Takes all that comes, and closes when the peer has.
    Receive,
    /// Sends requests and takes answers, then closes: one after another as netperf's TCP_RR, or at times that do not depend on answers.
    Ask {
        /// The number of requests.
        requests: u64,
        /// The bytes of a request.
        request_bytes: u64,
        /// The bytes of an answer.
        answer_bytes: u64,
        /// The times at which requests are made.
        pace: Pace,
    },
    /// Answers each request.
    Answer {
        /// The bytes of a request.
        request_bytes: u64,
        /// The bytes of an answer.
        answer_bytes: u64,
    },
}

/// A connection that a host opens.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The time at which it is opened, in picoseconds.
    pub at_ps: u64,
    /// The port of this end.
    pub port: u16,
    /// The other end.
    pub to: Address,
    /// The application of this end.
    pub application: Application,
    /// The parameters of TCP.
    pub config: Config,
}

/// A port that a host listens at.
#[derive(Clone, Copy, Debug)]
pub struct Listening {
    /// The port.
    pub port: u16,
    /// The application of each connection.
    pub application: Application,
    /// The parameters of TCP.
    pub config: Config,
}

/// Counters of a host. `received` = `accepted` + `foreign` + `unwanted` + `sum_wrong` + `refused`, when nothing is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostUsage {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that came from the card.
    pub received: u64,
    /// Frames of connections, and datagrams that somebody waited for.
    pub accepted: u64,
    /// Frames for other hosts, which a switch had flooded.
    pub foreign: u64,
    /// Frames that nobody waited for, or that were not well-formed.
    pub unwanted: u64,
    /// Frames whose checksum was wrong.
    pub sum_wrong: u64,
    /// Frames whose digest was wrong or missing.
    pub refused: u64,
    /// Frames whose payload was not what the peer had sent, and which nothing had found.
    pub payload_wrong: u64,
    /// The time that all cores worked, in picoseconds.
    pub busy_ps: u64,
    /// The part of it that was digests.
    pub digest_busy_ps: u64,
    /// The time that frames and datagrams waited for a core, in picoseconds.
    pub waited_ps: u64,
    /// The most frames that waited for a core.
    pub waiting_max: usize,
}

/// The way of the frames with payload that a host accepted, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// The number of frames.
    pub frames: u64,
    /// The time of each leg of all frames, in picoseconds, in the order of [`Leg::ALL`].
    pub legs_ps: [u64; Leg::ALL.len()],
    /// The longest way, in picoseconds.
    pub longest_ps: u64,
}

/// A connection of a host.
#[derive(Debug)]
pub struct Flow {
    /// The addresses of this end.
    pub own: Address,
    /// The addresses of the other end.
    pub peer: Address,
    /// When it was opened; at the end that did not open it, when the frame that did so came to be, as far as that frame remembers.
    pub opened_ps: u64,
    /// The time at which the application had all that it waits for: the last acknowledgement, the last answer, the peer's end.
    pub finished_ps: Option<u64>,
    /// Answers that came.
    pub answers: u64,
    /// The state of TCP.
    pub endpoint: Endpoint,
    application: Application,
    numbers: Numbers,
    seed: u64,
    peer_seed: u64,
    /// Bytes of requests or answers that are dealt with.
    consumed_bytes: u64,
    is_closing: bool,
    armed_ps: u64,
    /// The requests of an application that asks.
    pub asking: Option<Box<Asking>>,
    /// Where segments that are not acknowledged end in the stream, and when they were first sent; kept while frames are watched.
    first_sent: VecDeque<(u64, u64)>,
}

impl Flow {
    /// The time at which bytes from this place of the stream were first sent; now, if they are.
    fn first_sent_ps(&mut self, offset: u64, bytes: u32, now_ps: u64) -> u64 {
        let acknowledged = self.endpoint.sender().acknowledged_bytes();
        while self
            .first_sent
            .front()
            .is_some_and(|&(end, _)| end <= acknowledged.min(offset))
        {
            self.first_sent.pop_front();
        }
        let end = offset + u64::from(bytes);
        let at = self.first_sent.partition_point(|&(end, _)| end <= offset);
        let first_ps = self.first_sent.get(at).map(|&(_, first_ps)| first_ps);
        if self.first_sent.back().is_none_or(|&(last, _)| last < end) {
            self.first_sent.push_back((end, now_ps));
        }
        first_ps.unwrap_or(now_ps)
    }
}

impl Flow {
    /// The number of segments that did not come in order.
    fn disorder(&self) -> u64 {
        let received = self.endpoint.receiver().statistics();
        received.out_of_order_segments + received.duplicate_segments
    }
}

#[derive(Debug)]
enum Work {
    Receive(Box<Frame>),
    Send(Box<Frame>),
    /// Interrupts, and nothing else.
    Interrupt,
}

#[derive(Debug, Default)]
struct Core {
    current: Option<Work>,
    arrived: VecDeque<Box<Frame>>,
    /// Buffers of frames that it took, which the card does not have again yet.
    emptied: u32,
    /// Time of interrupts that was not yet worked off.
    interrupts_ps: u64,
    flows: Vec<usize>,
    /// The sources and the services whose datagrams it sends.
    sources: Vec<usize>,
    services: Vec<usize>,
    turn: usize,
    /// The connection that has taken frames and not yet answered, and the number of frames.
    unanswered: Option<(usize, u32)>,
}

/// A host.
#[derive(Debug)]
pub struct Host {
    model: HostModel,
    address: Address,
    openings: Vec<Opening>,
    listening: Vec<Listening>,
    protection: Option<Protection>,
    flows: Vec<Flow>,
    /// By the peer's addresses and the own port.
    by_address: BTreeMap<(std::net::Ipv4Addr, u16, u16), usize>,
    cores: Vec<Core>,
    in_ring: u32,
    sources: Vec<Source>,
    services: Vec<Service>,
    /// Times of digests, if they are not the model's.
    digest_times: Option<(Times, SplitMix64)>,
    usage: HostUsage,
    ways: Ways,
    account: Account,
    watch: Watch,
    keeps: bool,
    random: SplitMix64,
}

/// Buffers that a core gives back at a time, unless no more frames wait for it: drivers tell the card of several at once.
const REFILL: u32 = 16;

/// The tokens of timers: a core's number, then an opening, a flow, a source, a flow's next request.
const OPENING: u64 = 1 << 32;
const FLOW: u64 = 2 << 32;
const SOURCE: u64 = 3 << 32;
const REQUEST: u64 = 4 << 32;

impl Host {
    /// A host with these addresses; the port of `address` is not used. With `protection` its cores compute digests.
    pub fn new(
        model: HostModel,
        address: Address,
        openings: Vec<Opening>,
        listening: Vec<Listening>,
        protection: Option<Protection>,
    ) -> Self {
        Self {
            model,
            address,
            openings,
            listening,
            protection,
            flows: Vec::new(),
            by_address: BTreeMap::new(),
            cores: (0..model.cores.max(1)).map(|_| Core::default()).collect(),
            in_ring: 0,
            sources: Vec::new(),
            services: Vec::new(),
            digest_times: None,
            usage: HostUsage::default(),
            ways: Ways::default(),
            account: Account::default(),
            watch: Watch::default(),
            keeps: false,
            random: SplitMix64::new(0),
        }
    }

    /// The same, with jitter that this seed determines.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.random = SplitMix64::new(seed);
        self
    }

    /// A core's time, longer or shorter by the host's jitter.
    fn jittered_ps(&mut self, cost_ps: u64) -> u64 {
        match self.model.jitter_ppm {
            0 => cost_ps,
            ppm => {
                let factor = 1.0 + f64::from(ppm) / 1e6 * (2.0 * self.random.unit() - 1.0);
                (cost_ps as f64 * factor).round() as u64
            }
        }
    }

    /// Takes the times of digests from elsewhere than the model; those that vary are drawn by the seed.
    #[must_use]
    pub fn with_digest_times(mut self, times: Times, seed: u64) -> Self {
        self.digest_times = Some((times, SplitMix64::new(seed)));
        self
    }

    /// Lets an observer see what the host does. With `keeps`, it keeps account of the way of frames.
    pub fn watch_by(&mut self, watch: Watch, keeps: bool) {
        self.watch = watch;
        self.keeps = keeps;
    }

    /// Its observer.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The time of the frames with payload that it accepted, by part and cause; empty if no account is kept.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Its address.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Its parts, in the order of their places.
    pub fn parts(&self) -> Vec<Part> {
        vec![Part {
            kind: Kind::Cores,
            lanes: self.cores.len(),
            jobs: self.usage.sent + self.usage.received,
            busy_ps: self.usage.busy_ps,
            waited_ps: self.usage.waited_ps,
            waiting_max: self.usage.waiting_max,
            dropped: self.usage.sum_wrong + self.usage.refused,
            ..Part::passive("cores")
        }]
    }

    /// Its counters so far.
    pub fn usage(&self) -> HostUsage {
        self.usage
    }

    /// The counters of its digests.
    pub fn protection(&self) -> Option<ProtectionUsage> {
        self.protection.as_ref().map(Protection::usage)
    }

    /// The way of the frames with payload that it accepted.
    pub fn ways(&self) -> Ways {
        self.ways
    }

    /// The number of its cores.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Its connections, in the order in which they were opened.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// True if all connections that it opens are opened, as are so many that others open to it, all have finished, and its sources have sent all datagrams.
    pub fn has_finished(&self, awaited: usize) -> bool {
        let opened = self.flows.len() >= self.openings.len() + awaited;
        let is_sent = self.sources.iter().all(Source::is_done);
        opened && is_sent && self.flows.iter().all(|it| it.finished_ps.is_some())
    }

    /// Adds a connection to a core.
    fn add(
        &mut self,
        own: Address,
        peer: Address,
        application: Application,
        endpoint: Endpoint,
        now_ps: u64,
    ) -> usize {
        let number = self.flows.len();
        let seed = headers::seed(own, peer);
        let peer_seed = headers::seed(peer, own);
        self.flows.push(Flow {
            own,
            peer,
            opened_ps: now_ps,
            finished_ps: None,
            answers: 0,
            endpoint,
            application,
            numbers: Numbers {
                own: SequenceNumbers {
                    initial: seed as u32,
                },
                peer: SequenceNumbers {
                    initial: peer_seed as u32,
                },
            },
            seed,
            peer_seed,
            consumed_bytes: 0,
            is_closing: false,
            armed_ps: u64::MAX,
            asking: None,
            first_sent: VecDeque::new(),
        });
        self.by_address
            .insert((peer.ip, peer.port, own.port), number);
        let core = number % self.cores.len();
        self.cores[core].flows.push(number);
        number
    }

    fn open(&mut self, number: usize, context: &mut Context<'_, Message>) {
        let opening = self.openings[number];
        let own = Address {
            port: opening.port,
            ..self.address
        };
        let mut endpoint = Endpoint::connect(opening.config);
        match opening.application {
            Application::Send { bytes } => {
                endpoint.offer(bytes);
                endpoint.close();
            }
            Application::Ask { .. } | Application::Receive | Application::Answer { .. } => {}
        }
        let now_ps = context.now_ps();
        let flow = self.add(own, opening.to, opening.application, endpoint, now_ps);
        self.flows[flow].is_closing = matches!(opening.application, Application::Send { .. });
        if let Application::Ask { requests, pace, .. } = opening.application {
            let asking = Asking::new(pace, requests, now_ps);
            let first_ps = asking.next_ps();
            self.flows[flow].asking = Some(Box::new(asking));
            match first_ps {
                Some(first_ps) if first_ps > now_ps => {
                    context.wake_at(first_ps, REQUEST + flow as u64);
                }
                _ => self.ask(flow, context),
            }
        }
        self.work(flow % self.cores.len(), context);
    }

    /// Lets a core begin its next work, if it has none.
    fn work(&mut self, core: usize, context: &mut Context<'_, Message>) {
        if self.cores[core].current.is_some() {
            return;
        }
        let now_ps = context.now_ps();
        let interrupts_ps = std::mem::take(&mut self.cores[core].interrupts_ps);
        let answer = self.begin_answer(core, context);
        let arrived = match answer {
            Some(_) => None,
            None => self.next_arrived(core, context),
        };
        let (work, cost_ps) = match (answer, arrived) {
            (Some((frame, cost_ps)), _) => (Work::Send(frame), cost_ps),
            (None, Some(frame)) => {
                let (frame, cost_ps) = self.begin_receive(frame, now_ps);
                (Work::Receive(frame), cost_ps)
            }
            (None, None) => match self.begin_send(core, context) {
                Some((frame, cost_ps)) => (Work::Send(frame), cost_ps),
                None if interrupts_ps == 0 => return,
                None => (Work::Interrupt, 0),
            },
        };
        let cost_ps = self.jittered_ps(cost_ps + interrupts_ps);
        self.usage.busy_ps += cost_ps;
        self.cores[core].current = Some(work);
        context.wake_at(now_ps + cost_ps, core as u64);
    }

    /// The frame that has waited longest for a core. Its buffer is empty now.
    fn next_arrived(
        &mut self,
        core: usize,
        context: &mut Context<'_, Message>,
    ) -> Option<Box<Frame>> {
        let core = &mut self.cores[core];
        let frame = core.arrived.pop_front()?;
        core.emptied += 1;
        if core.emptied == REFILL || core.arrived.is_empty() {
            context.send(CARD, Message::Refill(std::mem::take(&mut core.emptied)));
        }
        Some(frame)
    }

    fn begin_receive(&mut self, mut frame: Box<Frame>, now_ps: u64) -> (Box<Frame>, u64) {
        self.usage.waited_ps += now_ps - frame.journey.counted_ps();
        self.watch.goes(0, now_ps);
        self.watch.pass(&mut frame, 0, Leg::HostQueue, now_ps);
        let mut cost_ps = self.model.receive_ps + frame.payload_bytes() as u64 * self.model.byte_ps;
        if let Some(protection) = &self.protection {
            let bytes = protection.bytes_to_verify(&mut frame);
            cost_ps += self.digest_cost_ps(bytes);
        }
        (frame, cost_ps)
    }

    fn digest_cost_ps(&mut self, bytes: usize) -> u64 {
        let cost_ps = match (bytes as u64, &mut self.digest_times) {
            (0, _) => 0,
            (bytes, Some((times, random))) => times.cost_ps(bytes, random),
            (bytes, None) => self.model.digest_ps + bytes * self.model.digest_byte_ps,
        };
        self.usage.digest_busy_ps += cost_ps;
        cost_ps
    }

    /// Sets a connection's timer, if none is set that runs out as early.
    fn arm(&mut self, number: usize, context: &mut Context<'_, Message>) {
        let flow = &mut self.flows[number];
        let deadline_ps = flow.endpoint.deadline();
        if let Some(deadline_ps) = deadline_ps.filter(|&it| it < flow.armed_ps) {
            flow.armed_ps = deadline_ps;
            context.wake_at(deadline_ps, FLOW + number as u64);
        }
    }

    fn expire(&mut self, number: usize, context: &mut Context<'_, Message>) {
        let now_ps = context.now_ps();
        let flow = &mut self.flows[number];
        if flow.armed_ps > now_ps {
            // A timer that was set before an earlier one took its place.
            return;
        }
        flow.armed_ps = u64::MAX;
        if flow
            .endpoint
            .deadline()
            .is_some_and(|deadline_ps| deadline_ps <= now_ps)
        {
            flow.endpoint.expire(now_ps);
        }
        self.arm(number, context);
        self.work(number % self.cores.len(), context);
    }

    /// A core has finished with a frame that came in.
    fn receive_frame(&mut self, frame: &mut Frame, context: &mut Context<'_, Message>) {
        let now_ps = context.now_ps();
        self.watch.pass(frame, 0, Leg::HostWork, now_ps);
        if frame.destination() != self.address.mac {
            self.usage.foreign += 1;
            self.watch.dropped(0, frame, Reason::Foreign, now_ps);
            return;
        }
        if let Some(protection) = &mut self.protection {
            match protection.verify(frame, context.local()) {
                Ok(Verdict::Right) => {}
                Ok(Verdict::Wrong | Verdict::Bare) => {
                    self.usage.refused += 1;
                    self.watch.dropped(0, frame, Reason::Digest, now_ps);
                    return;
                }
                Err(wrong) => return context.fail(wrong),
            }
        }
        if self.model.checksums && !frame.is_sum_right() {
            self.usage.sum_wrong += 1;
            self.watch.dropped(0, frame, Reason::Checksum, now_ps);
            return;
        }
        if self.take_datagram(frame, context) {
            return;
        }
        let Some(number) = self.find(frame) else {
            self.usage.unwanted += 1;
            self.watch.dropped(0, frame, Reason::Unwanted, now_ps);
            return;
        };
        let disorder = self.flows[number].disorder();
        if !self.take(number, frame, now_ps) {
            self.usage.unwanted += 1;
            self.watch.dropped(0, frame, Reason::Unwanted, now_ps);
            return;
        }
        self.usage.accepted += 1;
        self.advance(number, context);
        self.note_unanswered(number, self.flows[number].disorder() == disorder);
        self.arm(number, context);
    }

    /// Notes that a connection took a frame and has not answered; one that was out of order it answers next.
    fn note_unanswered(&mut self, number: usize, is_in_order: bool) {
        let core = number % self.cores.len();
        let unanswered = &mut self.cores[core].unanswered;
        let before = unanswered.filter(|&(flow, _)| flow == number);
        let frames = match is_in_order {
            true => before.map_or(0, |(_, frames)| frames).saturating_add(1),
            false => u32::MAX,
        };
        *unanswered = Some((number, frames));
    }

    /// The connection of a frame; a new one if it is a SYN to a port that is listened at.
    fn find(&mut self, frame: &Frame) -> Option<usize> {
        let (source, destination, protocol) = frame.ipv4()?;
        if destination != self.address.ip || protocol != TCP {
            return None;
        }
        let (from_port, to_port) = headers::ports(frame.head())?;
        if let Some(&number) = self.by_address.get(&(source, from_port, to_port)) {
            return Some(number);
        }
        if !headers::opens(frame.head()) {
            return None;
        }
        let listening = self.listening.iter().find(|it| it.port == to_port)?;
        let &Listening {
            application,
            config,
            ..
        } = listening;
        let own = Address {
            port: to_port,
            ..self.address
        };
        let peer = Address {
            mac: frame.source(),
            ip: source,
            port: from_port,
        };
        let endpoint = Endpoint::listen(config);
        Some(self.add(own, peer, application, endpoint, frame.journey.born_ps))
    }

    /// Enters the way of a frame with payload into the host's account.
    fn enter(&mut self, frame: &Frame, now_ps: u64) {
        self.ways.frames += 1;
        for (sum_ps, leg) in self.ways.legs_ps.iter_mut().zip(Leg::ALL) {
            *sum_ps += frame.journey.leg_ps(leg);
        }
        self.ways.longest_ps = self.ways.longest_ps.max(frame.journey.total_ps());
        if self.keeps {
            self.account.add(frame, now_ps);
        }
    }

    /// Hands a frame to its connection; `false` if it is not well-formed.
    fn take(&mut self, number: usize, frame: &Frame, now_ps: u64) -> bool {
        let flow = &mut self.flows[number];
        let payload_len = frame.body_bytes() as u32;
        let numbers = Numbers {
            own: flow.numbers.peer,
            peer: flow.numbers.own,
        };
        let near = (
            flow.endpoint.delivered_bytes() + 1,
            flow.endpoint.sender().acknowledged_bytes() + 1,
        );
        let Some(segment) = headers::read(frame.head(), payload_len, numbers, near) else {
            return false;
        };
        if payload_len > 0 {
            let stream = Stream {
                seed: flow.peer_seed,
                offset: segment.stream_offset(),
            };
            self.usage.payload_wrong += u64::from(!frame.carries(stream));
            self.enter(frame, now_ps);
        }
        let flow = &mut self.flows[number];
        flow.endpoint.receive(now_ps, &segment);
        true
    }

    /// The connection of a frame, if there is one.
    fn flow_of(&self, frame: &Frame) -> Option<usize> {
        let ((source, _, protocol), (from, to)) = frame.ipv4().zip(headers::ports(frame.head()))?;
        let number = self.by_address.get(&(source, from, to)).copied();
        number.filter(|_| protocol != UDP)
    }

    /// The core of a frame: that of its connection, its service or its source, so that its order is kept.
    #[inline]
    fn core_of(&self, frame: &Frame) -> usize {
        if frame.is_datagram() {
            let port = headers::ports(frame.head()).map_or(0, |(_, to)| to);
            return self.core_of_datagram(port);
        }
        // A connection that is not there yet will be the next.
        self.flow_of(frame).unwrap_or(self.flows.len()) % self.cores.len()
    }
}

impl Component<Message> for Host {
    fn start(&mut self, context: &mut Context<'_, Message>) {
        for (number, opening) in self.openings.iter().enumerate() {
            context.wake_at(opening.at_ps, OPENING + number as u64);
        }
        for (number, source) in self.sources.iter().enumerate() {
            if let Some(at_ps) = source.next_ps() {
                context.wake_at(at_ps, SOURCE + number as u64);
            }
        }
    }

    fn receive(&mut self, _: usize, message: Message, context: &mut Context<'_, Message>) {
        let Message::Interrupt(news) = message else {
            return context.fail(format!("a host takes no {message:?}"));
        };
        self.in_ring -= news.sent;
        self.usage.received += news.frames.len() as u64;
        let now_ps = context.now_ps();
        let first = news.frames.first().map_or(0, |it| self.core_of(it));
        self.cores[first].interrupts_ps += self.model.interrupt_ps;
        for mut frame in news.frames {
            self.watch.pass(&mut frame, 0, Leg::Bus, now_ps);
            let core = self.core_of(&frame);
            let arrived = &mut self.cores[core].arrived;
            arrived.push_back(frame);
            self.usage.waiting_max = self.usage.waiting_max.max(arrived.len());
            self.watch.waits(0, now_ps);
        }
        for core in 0..self.cores.len() {
            self.work(core, context);
        }
    }

    fn wake(&mut self, token: u64, context: &mut Context<'_, Message>) {
        match token {
            core if core < OPENING => {
                let core = core as usize;
                match self.cores[core].current.take() {
                    Some(Work::Receive(mut frame)) => {
                        self.receive_frame(&mut frame, context);
                        context.spend(Message::Frame(frame));
                    }
                    Some(Work::Send(mut frame)) => {
                        let now_ps = context.now_ps();
                        self.watch.pass(&mut frame, 0, Leg::HostWork, now_ps);
                        self.usage.sent += 1;
                        context.send(CARD, Message::Send(frame));
                    }
                    Some(Work::Interrupt) | None => {}
                }
                self.work(core, context);
            }
            opening if opening < FLOW => self.open((opening - OPENING) as usize, context),
            flow if flow < SOURCE => self.expire((flow - FLOW) as usize, context),
            source if source < REQUEST => self.depart((source - SOURCE) as usize, context),
            request => self.ask((request - REQUEST) as usize, context),
        }
    }
}
