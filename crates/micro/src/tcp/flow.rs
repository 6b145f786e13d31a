//! What the thread of a data connection does in a phase, at either end.
//!
//! Messages lie in a ring of slots that the pattern has filled; to send one is to give its slot a number. What is received lies in a room behind the ring, from its
//! start on, and is compared as soon as a message is whole: behind the reading of the clock, so no check is part of a round trip, but each is part of what
//! throughput and CPU time are about.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::num::NonZeroU64;
use std::ops::Range;
use std::time::Duration;

use dpb_core::measure::latency::Latencies;
use dpb_core::random::SplitMix64;
use dpb_core::{Clock, WallClock};
use rustix::time::{ClockId, clock_gettime};

use super::Plan;
use super::message::{MARK, Pattern, number, seed_of, set_number};
use super::wire::{self, Moved, Wait, Wire};

/// What went wrong on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The peer sends no more.
    Closed,
    /// A message was not what was sent.
    Wrong(String),
    /// The kernel's words.
    Io(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                Self::Closed
            }
            _ => Self::Io(error.to_string()),
        }
    }
}

/// A phase of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Messages that came back, arrived, or were sent; the mark is not among them.
    pub(super) messages: u64,
    /// The first start or arrival.
    pub(super) first_ns: u64,
    /// The last arrival, or the last moment of a sender.
    pub(super) last_ns: u64,
    pub(super) cpu_ns: u64,
    /// See [`super::Run`], as the rest.
    pub(super) latencies: Latencies,
    pub(super) latency_sum_ns: u64,
    pub(super) delays: Latencies,
    pub(super) unserved: u64,
}

impl Tally {
    /// A round trip of so long.
    fn count(&mut self, ns: u64) {
        self.latencies.record(ns);
        self.latency_sum_ns += ns;
    }
}

/// The end of a connection, which stays as it is from phase to phase.
pub(super) struct Lane<'a> {
    wire: Box<dyn Wire>,
    pattern: Pattern,
    clock: &'a WallClock,
    size: usize,
    depth: u64,
    ring: Range<usize>,
    room: Range<usize>,
    /// Messages that have a number, since the connection was opened.
    staged: u64,
    /// Bytes of them that were sent.
    sent_bytes: u64,
    /// Messages that were received whole.
    arrived: u64,
    /// Bytes in the room of a message that is not whole.
    held: usize,
    /// The times at which the messages of the slots were to start.
    started_ns: Vec<u64>,
}

impl<'a> Lane<'a> {
    /// Over `stream`, for the thread that calls.
    pub(super) fn new(
        stream: TcpStream,
        plan: &Plan,
        connection: u32,
        clock: &'a WallClock,
    ) -> io::Result<Self> {
        let (size, slots) = (plan.size(), plan.slots());
        let ring = 0..size * slots;
        let room = ring.end..ring.end + plan.receive_bytes();
        let mut wire = wire::over(stream, plan.engine, room.end)?;
        let pattern = Pattern::new(size, slots, seed_of(plan.seed, connection));
        wire.memory(ring.clone()).copy_from_slice(pattern.ring());
        Ok(Self {
            wire,
            pattern,
            clock,
            size,
            depth: plan.depth,
            ring,
            room,
            staged: 0,
            sent_bytes: 0,
            arrived: 0,
            held: 0,
            started_ns: vec![0; slots],
        })
    }

    /// Round trips, each message as soon as another has come back, until `is_over`; then the mark.
    pub(super) fn echo_closed(
        &mut self,
        mut is_over: impl FnMut(u64) -> bool,
    ) -> Result<Tally, Fault> {
        let mut tally = self.begin();
        let mut over = false;
        loop {
            if !over && self.has_room() {
                let now_ns = self.clock.now_ns();
                over = is_over(now_ns);
                while !over && self.has_room() {
                    self.stage(self.staged, now_ns);
                }
            }
            if self.staged == self.arrived {
                break;
            }
            // With more than one in flight an answer may come while a message is being sent.
            let wait = if self.depth == 1 {
                Wait::Both
            } else {
                Wait::Any
            };
            if self.turn(true, wait)?.received > 0 {
                self.answered(&mut tally)?;
            }
        }
        self.finish(&mut tally);
        self.mark()?;
        Ok(tally)
    }

    /// Round trips by a schedule of exponential gaps, for so long; then the mark. A message that finds the connection full waits, and its time runs. Arrivals that were
    /// due and never started count with the time they had waited by the end, a lower bound.
    pub(super) fn echo_open(
        &mut self,
        gap_ns: f64,
        random: &mut SplitMix64,
        mut is_over: impl FnMut(u64) -> bool,
    ) -> Result<Tally, Fault> {
        // A thread that sleeps until the next arrival is not to sleep 50 us longer.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut tally = self.begin();
        let start_ns = tally.first_ns as f64;
        let mut due_ns = start_ns + random.exponential(gap_ns);
        loop {
            let now_ns = self.clock.now_ns();
            let over = is_over(now_ns);
            while !over && due_ns <= now_ns as f64 && self.has_room() {
                self.stage(self.staged, due_ns as u64);
                tally.delays.record(now_ns - due_ns as u64);
                due_ns += random.exponential(gap_ns);
            }
            if over && self.staged == self.arrived {
                break;
            }
            let wait = match over || !self.has_room() {
                true => Wait::Any,
                false => Wait::For(Duration::from_nanos(
                    (due_ns - now_ns as f64).max(1.0) as u64
                )),
            };
            if self.turn(true, wait)?.received > 0 {
                self.answered(&mut tally)?;
            }
        }
        self.finish(&mut tally);
        let end_ns = tally.last_ns as f64;
        while due_ns < end_ns {
            tally.unserved += 1;
            tally.count((end_ns - due_ns) as u64);
            due_ns += random.exponential(gap_ns);
        }
        self.mark()?;
        Ok(tally)
    }

    /// Messages one way until `is_over`; then the mark. A call hands the kernel as many messages as the depth says.
    pub(super) fn source(&mut self, mut is_over: impl FnMut(u64) -> bool) -> Result<Tally, Fault> {
        let mut tally = self.begin();
        let first = self.staged;
        while !is_over(self.clock.now_ns()) {
            (0..self.depth).for_each(|_| self.stage(self.staged, 0));
            self.send_staged()?;
        }
        tally.messages = self.staged - first;
        self.finish(&mut tally);
        self.stage(MARK, 0);
        self.send_staged()?;
        Ok(tally)
    }

    /// Receives messages and compares them, until the mark.
    pub(super) fn sink(&mut self) -> Result<Tally, Fault> {
        let mut tally = self.begin();
        let mut is_first = true;
        loop {
            self.turn(true, Wait::Any)?;
            let now_ns = self.clock.now_ns();
            if std::mem::take(&mut is_first) {
                tally.first_ns = now_ns;
            }
            let (whole, is_end) = self.take()?;
            tally.messages += whole - u64::from(is_end);
            if is_end {
                // The mark may come long after what was counted.
                let last_ns = if whole > 1 { now_ns } else { tally.last_ns };
                self.finish(&mut tally);
                tally.last_ns = last_ns.max(tally.first_ns);
                return Ok(tally);
            }
            tally.last_ns = now_ns;
        }
    }

    fn begin(&self) -> Tally {
        // Its histograms take memory, which is not part of what is measured.
        let empty = Tally::default();
        Tally {
            cpu_ns: thread_cpu_ns(),
            first_ns: self.clock.now_ns(),
            ..empty
        }
    }

    fn finish(&self, tally: &mut Tally) {
        tally.last_ns = self.clock.now_ns();
        tally.cpu_ns = thread_cpu_ns() - tally.cpu_ns;
    }

    /// Whether one more message may be under way, and its slot is nobody's.
    fn has_room(&self) -> bool {
        let unsent = self.staged * self.size as u64 - self.sent_bytes;
        self.staged - self.arrived < self.depth
            && unsent + self.size as u64 <= self.ring.len() as u64
    }

    /// The next message gets a number, and is to be sent.
    fn stage(&mut self, number: u64, start_ns: u64) {
        let slot = (self.staged % self.started_ns.len() as u64) as usize;
        self.started_ns[slot] = start_ns;
        let at = self.ring.start + slot * self.size;
        set_number(self.wire.memory(at..at + 8), number);
        self.staged += 1;
    }

    /// Sends what is staged and not sent, up to the end of the ring, and maybe receives.
    fn turn(&mut self, receives: bool, wait: Wait) -> Result<Moved, Fault> {
        let at = (self.sent_bytes % self.ring.len() as u64) as usize;
        let unsent = self.staged * self.size as u64 - self.sent_bytes;
        let send = at..(at + unsent as usize).min(self.ring.end);
        let receive = match receives {
            true => self.room.start + self.held..self.room.end,
            false => 0..0,
        };
        let moved = self.wire.turn(send, receive, wait)?;
        self.sent_bytes += moved.sent as u64;
        self.held += moved.received;
        Ok(moved)
    }

    fn send_staged(&mut self) -> Result<(), Fault> {
        while self.sent_bytes < self.staged * self.size as u64 {
            self.turn(false, Wait::Any)?;
        }
        Ok(())
    }

    /// Compares what is whole in the room. The number of messages, and whether the last was the mark.
    fn take(&mut self) -> Result<(u64, bool), Fault> {
        let held = self.room.start..self.room.start + self.held;
        let room = self.wire.memory(held);
        let whole = room.len() / self.size;
        let mut is_end = false;
        for message in room.chunks_exact(self.size) {
            if is_end {
                return Err(Fault::Wrong("a message behind the last".to_owned()));
            }
            is_end = self.pattern.check(message).map_err(Fault::Wrong)?;
        }
        if whole > 0 {
            room.copy_within(whole * self.size.., 0);
            self.held -= whole * self.size;
        }
        self.arrived += whole as u64;
        Ok((whole as u64, is_end))
    }

    /// Takes what has come back and counts its times, up to now.
    fn answered(&mut self, tally: &mut Tally) -> Result<(), Fault> {
        let now_ns = self.clock.now_ns();
        let first = self.arrived;
        let (whole, _) = self.take()?;
        if self.arrived > self.staged {
            return Err(Fault::Wrong("an answer that nobody asked for".to_owned()));
        }
        for message in first..self.arrived {
            let slot = (message % self.started_ns.len() as u64) as usize;
            tally.count(now_ns - self.started_ns[slot]);
        }
        tally.messages += whole;
        Ok(())
    }

    /// Sends the mark and waits for it.
    fn mark(&mut self) -> Result<(), Fault> {
        self.stage(MARK, 0);
        loop {
            self.turn(true, Wait::Any)?;
            match self.take()? {
                (_, true) => return Ok(()),
                (0, false) => {}
                (_, false) => return Err(Fault::Wrong("a message in place of the mark".into())),
            }
        }
    }
}

/// A server's end of a connection whose messages go back.
pub(super) struct Echo {
    wire: Box<dyn Wire>,
    size: usize,
    room_bytes: usize,
    /// The room that is received into, one of two: the other is being sent.
    room: usize,
    held: usize,
}

impl Echo {
    /// Over `stream`, for the thread that calls.
    pub(super) fn new(stream: TcpStream, plan: &Plan) -> io::Result<Self> {
        let room_bytes = plan.receive_bytes();
        Ok(Self {
            wire: wire::over(stream, plan.engine, 2 * room_bytes)?,
            size: plan.size(),
            room_bytes,
            room: 0,
            held: 0,
        })
    }

    /// Sends each message back when it is whole, up to the mark. The client compares them.
    pub(super) fn phase(&mut self, clock: &WallClock) -> Result<Tally, Fault> {
        let mut tally = Tally::default();
        let cpu_ns = thread_cpu_ns();
        let mut sending = 0..0;
        let mut is_end = false;
        while !(is_end && sending.is_empty()) {
            let start = self.room * self.room_bytes;
            // Whole messages wait until those before them are sent, and nothing is received behind them meanwhile.
            let receive = match is_end || self.held >= self.size {
                false => start + self.held..start + self.room_bytes,
                true => 0..0,
            };
            let moved = self.wire.turn(sending.clone(), receive, Wait::Both)?;
            sending.start += moved.sent;
            self.held += moved.received;
            if !sending.is_empty() || is_end {
                continue;
            }
            let room = self.wire.memory(start..start + self.held);
            let whole = room.len() / self.size * self.size;
            if whole == 0 {
                continue;
            }
            is_end = number(&room[whole - self.size..]) == MARK;
            tally.messages += (whole / self.size) as u64 - u64::from(is_end);
            sending = start..start + whole;
            self.change_rooms(whole);
        }
        tally.cpu_ns = thread_cpu_ns() - cpu_ns;
        tally.last_ns = clock.now_ns();
        Ok(tally)
    }

    /// What is not whole goes on in the other room.
    fn change_rooms(&mut self, whole: usize) {
        let rest = self.held - whole;
        if rest > 0 {
            let memory = self.wire.memory(0..2 * self.room_bytes);
            let from = self.room * self.room_bytes + whole;
            let to = (1 - self.room) * self.room_bytes;
            memory.copy_within(from..from + rest, to);
        }
        (self.room, self.held) = (1 - self.room, rest);
    }
}

/// CPU time of the thread that calls.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How long the thread that calls has been ready and waited for a core; `None` where the kernel does not say.
pub(super) fn core_wait_ns() -> Option<u64> {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// Keeps the thread that calls on one core of the list, its own by its number.
pub(super) fn pin(cores: &[u32], thread: u32) -> io::Result<()> {
    let Some(&core) = cores.get(thread as usize % cores.len().max(1)) else {
        return Ok(());
    };
    let mut one = rustix::thread::CpuSet::new();
    one.set(core as usize);
    Ok(rustix::thread::sched_setaffinity(None, &one)?)
}
