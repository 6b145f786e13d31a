//! A network of two endpoints and two links, with a loop of events of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dpb_sim::tcp::{Endpoint, Segment};

/// The end that connects.
pub(crate) const CLIENT: usize = 0;
/// The end that listens.
pub(crate) const SERVER: usize = 1;

/// What becomes of a segment that enters a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Delivered,
    Lost,
    /// It arrives twice, the second time so many picoseconds later.
    Repeated(u64),
    /// It arrives so many picoseconds later than others, and may be overtaken.
    Late(u64),
}

/// Decides on a segment by the time at which it enters a link.
type Decision = Box<dyn FnMut(u64, &Segment) -> Fate>;

/// A link in one direction: bytes leave one after another, and arrive after a delay.
pub(crate) struct Link {
    pub(crate) byte_ps: u64,
    pub(crate) delay_ps: u64,
    /// The longest that a segment waits before it leaves; one that would wait longer is lost.
    pub(crate) wait_ps_max: u64,
    /// Decides on each segment that enters.
    pub(crate) fate: Decision,
    free_at: u64,
    pub(crate) lost: u64,
}

impl Link {
    /// A link that loses nothing.
    pub(crate) fn new(byte_ps: u64, delay_ps: u64) -> Self {
        Self::with_fate(byte_ps, delay_ps, |_, _| Fate::Delivered)
    }

    pub(crate) fn with_fate(
        byte_ps: u64,
        delay_ps: u64,
        fate: impl FnMut(u64, &Segment) -> Fate + 'static,
    ) -> Self {
        Self {
            byte_ps,
            delay_ps,
            wait_ps_max: u64::MAX,
            fate: Box::new(fate),
            free_at: 0,
            lost: 0,
        }
    }

    /// When the segment arrives, and perhaps arrives again.
    fn carry(&mut self, now: u64, segment: &Segment) -> [Option<u64>; 2] {
        let fate = (self.fate)(now, segment);
        let start = now.max(self.free_at);
        if fate == Fate::Lost || start - now > self.wait_ps_max {
            self.lost += 1;
            return [None, None];
        }
        self.free_at = start + u64::from(segment.ipv4_bytes() + 38) * self.byte_ps;
        let arrival = self.free_at + self.delay_ps;
        match fate {
            Fate::Repeated(later) => [Some(arrival), Some(arrival + later)],
            Fate::Late(later) => [Some(arrival + later), None],
            _ => [Some(arrival), None],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: u64,
    order: u64,
    end: usize,
    /// The index of the segment that arrives; none for a timer.
    segment: Option<usize>,
}

/// Two endpoints and the links between them.
pub(crate) struct Network {
    pub(crate) now: u64,
    pub(crate) ends: [Endpoint; 2],
    /// The link that each end sends on.
    pub(crate) links: [Link; 2],
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    in_flight: Vec<Segment>,
    free: Vec<usize>,
    timers: [Option<u64>; 2],
    /// A hash of every arrival: its time, its place, its segment.
    pub(crate) trace: u64,
    pub(crate) arrivals: u64,
}

impl Network {
    pub(crate) fn new(ends: [Endpoint; 2], links: [Link; 2]) -> Self {
        let mut network = Self {
            now: 0,
            ends,
            links,
            events: BinaryHeap::new(),
            order: 0,
            in_flight: Vec::new(),
            free: Vec::new(),
            timers: [None; 2],
            trace: 0xcbf2_9ce4_8422_2325,
            arrivals: 0,
        };
        network.poll(CLIENT);
        network.poll(SERVER);
        network
    }

    /// Takes all segments out of an end, and sees to its timer.
    pub(crate) fn poll(&mut self, end: usize) {
        while let Some(segment) = self.ends[end].next_segment(self.now) {
            for at in self.links[end]
                .carry(self.now, &segment)
                .into_iter()
                .flatten()
            {
                let slot = self.free.pop().unwrap_or(self.in_flight.len());
                if slot == self.in_flight.len() {
                    self.in_flight.push(segment);
                } else {
                    self.in_flight[slot] = segment;
                }
                self.push(at, 1 - end, Some(slot));
            }
        }
        if let Some(deadline) = self.ends[end].deadline() {
            let at = deadline.max(self.now);
            if self.timers[end].is_none_or(|set| set > at || set < self.now) {
                self.timers[end] = Some(at);
                self.push(at, end, None);
            }
        }
    }

    fn push(&mut self, at: u64, end: usize, segment: Option<usize>) {
        self.order += 1;
        self.events.push(Reverse(Event {
            at,
            order: self.order,
            end,
            segment,
        }));
    }

    /// Carries out the next event: the end it was at, and the segment that arrived there. None if nothing will happen any more.
    pub(crate) fn step(&mut self) -> Option<(usize, Option<Segment>)> {
        let Reverse(event) = self.events.pop()?;
        self.now = event.at;
        let end = event.end;
        let segment = match event.segment {
            Some(slot) => {
                let segment = self.in_flight[slot];
                self.free.push(slot);
                self.note(end, &segment);
                self.ends[end].receive(self.now, &segment);
                Some(segment)
            }
            None => {
                if self.timers[end] == Some(self.now) {
                    self.timers[end] = None;
                }
                self.ends[end].expire(self.now);
                None
            }
        };
        self.poll(end);
        Some((end, segment))
    }

    /// Runs up to a time, or until nothing will happen any more.
    pub(crate) fn run_until(&mut self, time: u64) {
        while self
            .events
            .peek()
            .is_some_and(|Reverse(event)| event.at <= time)
        {
            self.step();
        }
        self.now = self.now.max(time);
    }

    fn note(&mut self, end: usize, segment: &Segment) {
        self.arrivals += 1;
        let echo = segment.timestamps().unwrap_or_default();
        let words = [
            self.now,
            end as u64,
            segment.sequence,
            segment.acknowledgement,
            u64::from(segment.payload_len),
            u64::from(segment.window),
            u64::from(echo.value),
            u64::from(echo.echo),
        ];
        let blocks = segment.sack_blocks().flat_map(|(start, end)| [start, end]);
        for word in words.into_iter().chain(blocks) {
            // FNV-1a, by words.
            self.trace = (self.trace ^ word).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
