//! A gate: a part's port that leads to a simulator in another process, over SimBricks' protocol.
//!
//! **Synchronised** ([`Gate::synchronised`]), a gate is a channel. Frames arrive one latency of the sending side after they left, and the order of events is the
//! kernel's own, so that a system which gates cut into several processes does what it does in one kernel, to the picosecond. Only what a frame remembers
//! ([`Journey`](super::Journey)) begins anew at a gate, as bytes alone cross it.
//!
//! **Not synchronised**, a peer says nothing about time, and a kernel that did not wait would be at its end before the first frame came. So such a gate
//! ([`Gate::paced`]) takes a clock, and virtual time follows it: a frame arrives at the clock's time at which it is found, and nothing happens before the clock
//! has passed it. Latencies of the link do not count then, two runs differ, and a kernel that is slower than the clock is late. As that is easily
//! mistaken for a measurement, neither kind of gate takes a link of the other.
//!
//! A frame crosses as it is. The protocol gives each its length and pads none, and a frame that were padded here would cost more time behind the gate than in
//! one kernel. A frame that no slot holds is dropped and counted, and so is one that comes with fewer bytes than Ethernet's header.
//!
//! **The end.** A peer's TERMINATE is the end of its time: nothing more comes, frames to it are dropped and counted, and this side goes on alone. A peer that
//! closes without one may have been about to send; the run fails, but only when it needs a promise that the peer had not given. So it fails at
//! the same virtual time however soon that is noticed, and does not fail if it ends before. A peer that breaks the protocol ends the run at once.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use dpb_core::Clock;

use crate::kernel::{NANOSECOND_PS, Outside, OutsideError};
use crate::simbricks::{Endpoint, Error, Sent, Waiting};

use super::frame::{Frame, NoFrame};
use super::message::Message;

/// Attempts to send TERMINATE while the ring is full: a peer that reads at all makes room within a few.
const FAREWELLS: u32 = 10_000;

/// The reason why a link cannot be a gate of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The link has no virtual time.
    #[error(
        "the two sides of the link have not agreed on synchronisation, so the peer's frames bear no time that could be kept: require it on both \
         sides, or pace the gate by a clock"
    )]
    NotSynchronised,
    /// The link has virtual time, which a clock must not move.
    #[error("the link is synchronised: its peer gives the time, not a clock")]
    Synchronised,
}

/// Counters of a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateUsage {
    /// Frames that went out.
    pub sent: u64,
    /// Frames that were to go out and are longer than a slot.
    pub too_long: u64,
    /// Frames that were to go out when the peer had ended.
    pub after_end: u64,
    /// Frames that came in.
    pub received: u64,
    /// Frames that came in with fewer bytes than Ethernet's header has. They are not among `received`.
    pub too_short: u64,
}

/// The state that a gate shares with whoever watches it.
#[derive(Debug, Default)]
struct Shared {
    usage: Mutex<GateUsage>,
    is_farewell: AtomicBool,
    peer_has_ended: AtomicBool,
}

/// A view of a gate that is in a kernel.
#[derive(Clone, Debug)]
pub struct GateWatch(Arc<Shared>);

impl GateWatch {
    /// The counters as of the last time that virtual time moved, and the last ones when the gate is gone.
    pub fn usage(&self) -> GateUsage {
        *self.0.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the peer had said TERMINATE when virtual time moved last.
    pub fn peer_has_ended(&self) -> bool {
        self.0.peer_has_ended.load(Ordering::Relaxed)
    }

    /// Lets the gate say TERMINATE when it is dropped with its kernel: the run has ended as it should. A peer that still runs then goes on alone;
    /// without this it fails. Some simulators end with an error when they receive it. If the ring stays full, the link is closed without it.
    pub fn farewell(&self) {
        self.0.is_farewell.store(true, Ordering::Relaxed);
    }
}

/// A clock that virtual time follows.
struct Pace {
    clock: Arc<dyn Clock>,
    /// The clock's time when virtual time began.
    start_ns: Option<u64>,
    waiting: Waiting,
}

impl Pace {
    /// The time since virtual time began.
    fn elapsed_ps(&self) -> u64 {
        let start_ns = self.start_ns.unwrap_or(u64::MAX);
        self.clock.now_ns().saturating_sub(start_ns) * NANOSECOND_PS
    }
}

/// The time for which a peer may be silent, and the wish of anybody that the run end.
struct Patience {
    clock: Arc<dyn Clock>,
    limit: Duration,
    is_over: fn() -> bool,
    /// Looks since the clock was read.
    looks: u32,
    looked_ns: u64,
    silent_ns: u64,
}

/// Looks between two looks at the clock.
const LOOKS_PER_CLOCK: u32 = 64;
/// The most that counts as silence between two looks at the clock: while this process is stopped, no peer is silent.
const SILENCE_NS_MAX: u64 = 1_000_000_000;

impl Patience {
    /// One more look, in vain or not.
    fn look(&mut self, is_in_vain: bool) -> Result<(), OutsideError> {
        if !is_in_vain {
            (self.looked_ns, self.silent_ns) = (0, 0);
        }
        self.looks += 1;
        if self.looks < LOOKS_PER_CLOCK {
            return Ok(());
        }
        self.looks = 0;
        if (self.is_over)() {
            return Err(OutsideError("interrupted".to_owned()));
        }
        let now_ns = self.clock.now_ns();
        if self.looked_ns > 0 {
            let since_ns = now_ns.saturating_sub(self.looked_ns);
            self.silent_ns += since_ns.min(SILENCE_NS_MAX);
        }
        self.looked_ns = now_ns.max(1);
        match u128::from(self.silent_ns) > self.limit.as_nanos() {
            true => Err(OutsideError(format!(
                "SimBricks: the peer is there, and has said nothing for {} s",
                self.limit.as_secs_f64()
            ))),
            false => Ok(()),
        }
    }
}

/// A way out of a kernel of [`Message`]s over a link of SimBricks' protocol.
pub struct Gate {
    endpoint: Endpoint,
    /// The clock, if the link is not synchronised.
    pace: Option<Pace>,
    patience: Option<Patience>,
    /// Messages that had come when the peer was last known to speak.
    heard: u64,
    reached_ps: u64,
    too_short: u64,
    /// The frame that is sent.
    bytes: Vec<u8>,
    shared: Arc<Shared>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gate = &mut f.debug_struct("Gate");
        gate.field("endpoint", &self.endpoint)
            .field("is_paced", &self.pace.is_some())
            .field("reached_ps", &self.reached_ps)
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate over a synchronised link. Its latency is that of each side's parameters.
    ///
    /// # Errors
    /// [`GateError::NotSynchronised`].
    pub fn synchronised(endpoint: Endpoint) -> Result<Self, GateError> {
        match endpoint.is_synchronised() {
            true => Ok(Self::new(endpoint, None)),
            false => Err(GateError::NotSynchronised),
        }
    }

    /// A gate over a link that is not synchronised: virtual time follows the clock, from the moment at which the kernel first runs. The clock goes
    /// on between two runs of a kernel; the later run then catches up.
    ///
    /// # Errors
    /// [`GateError::Synchronised`].
    pub fn paced(endpoint: Endpoint, clock: Arc<dyn Clock>) -> Result<Self, GateError> {
        let pace = Pace {
            clock,
            start_ns: None,
            waiting: Waiting::new(true),
        };
        match endpoint.is_synchronised() {
            true => Err(GateError::Synchronised),
            false => Ok(Self::new(endpoint, Some(pace))),
        }
    }

    fn new(endpoint: Endpoint, pace: Option<Pace>) -> Self {
        Self {
            endpoint,
            pace,
            patience: None,
            heard: 0,
            reached_ps: 0,
            too_short: 0,
            bytes: Vec::new(),
            shared: Arc::default(),
        }
    }

    /// The same, that gives a peer up which says nothing for so long by this clock, while virtual time waits for it; and that ends the run with the error `interrupted`
    /// once `is_over` says so. Without this a run waits for ever.
    #[must_use]
    pub fn with_patience(
        mut self,
        clock: Arc<dyn Clock>,
        limit: Duration,
        is_over: fn() -> bool,
    ) -> Self {
        self.patience = Some(Patience {
            clock,
            limit,
            is_over,
            looks: 0,
            looked_ns: 0,
            silent_ns: 0,
        });
        self
    }

    /// Notes if the peer has said something since.
    fn listen(&mut self) -> Result<(), OutsideError> {
        let counts = self.endpoint.counts();
        let heard = counts.frames_received + counts.syncs_received;
        let has_spoken = heard != self.heard;
        self.heard = heard;
        // A peer without virtual time may be silent, and one that has ended is.
        let waits = self.pace.is_none() && !self.endpoint.peer_has_terminated();
        match &mut self.patience {
            Some(patience) => patience.look(waits && !has_spoken),
            None => Ok(()),
        }
    }

    /// A view that stays when the gate is in its kernel.
    pub fn watch(&self) -> GateWatch {
        GateWatch(Arc::clone(&self.shared))
    }

    /// The next frame that has come, and the time at which it arrives. The kernel keeps what is not due yet, so everything is taken that is there.
    fn take(&mut self) -> Result<Option<(u64, Box<Frame>)>, Error> {
        while let Some(received) = self.endpoint.poll(u64::MAX)? {
            let due_ps = match &mut self.pace {
                None => received.timestamp_ps,
                Some(pace) => {
                    pace.waiting.end();
                    pace.elapsed_ps()
                }
            };
            match Frame::from_bytes(received.frame, due_ps) {
                Ok(frame) => return Ok(Some((due_ps, frame))),
                Err(NoFrame { .. }) => self.too_short += 1,
            }
        }
        Ok(None)
    }

    /// True if the run does not need more of a peer than it has promised.
    fn is_promised(&self) -> bool {
        self.pace.is_none() && self.reached_ps < self.endpoint.input_timestamp_ps()
    }

    fn failure(&self, error: &Error) -> OutsideError {
        let promise_ps = self.endpoint.input_timestamp_ps();
        OutsideError(match self.pace {
            None => format!("SimBricks, of which the peer's time was {promise_ps} ps: {error}"),
            Some(_) => format!("SimBricks: {error}"),
        })
    }

    fn publish(&self) {
        let counts = self.endpoint.counts();
        let usage = GateUsage {
            sent: counts.frames_sent,
            too_long: counts.frames_too_long,
            after_end: counts.frames_after_end,
            received: counts.frames_received - self.too_short,
            too_short: self.too_short,
        };
        let has_ended = self.endpoint.peer_has_terminated();
        let known = &self.shared.peer_has_ended;
        known.store(has_ended, Ordering::Relaxed);
        let shown = self.shared.usage.lock();
        *shown.unwrap_or_else(PoisonError::into_inner) = usage;
    }
}

impl Outside<Message> for Gate {
    fn send(&mut self, now_ps: u64, message: Message) -> Result<Option<Message>, OutsideError> {
        let Message::Frame(frame) = message else {
            return Err(OutsideError("a gate takes frames alone".to_owned()));
        };
        self.bytes.clear();
        frame.write(&mut self.bytes);
        match self.endpoint.send(now_ps, &self.bytes) {
            Ok(Sent::Full) => Ok(Some(Message::Frame(frame))),
            Ok(Sent::Queued | Sent::TooLong | Sent::Ended) => Ok(None),
            Err(wrong) => Err(self.failure(&wrong)),
        }
    }

    fn receive(&mut self) -> Result<Option<(u64, Message)>, OutsideError> {
        if let Some(pace) = &mut self.pace
            && pace.start_ns.is_none()
        {
            pace.start_ns = Some(pace.clock.now_ns());
        }
        let taken = self.take();
        self.listen()?;
        match taken {
            Ok(next) => Ok(next.map(|(due_ps, frame)| (due_ps, Message::Frame(frame)))),
            Err(Error::PeerGone) if self.is_promised() => Ok(None),
            Err(wrong) => Err(self.failure(&wrong)),
        }
    }

    fn promise_ps(&self) -> u64 {
        match &self.pace {
            None => self.endpoint.input_timestamp_ps(),
            Some(pace) => pace.elapsed_ps(),
        }
    }

    fn reach(&mut self, now_ps: u64) -> Result<bool, OutsideError> {
        self.reached_ps = now_ps;
        self.publish();
        let reached = self.endpoint.out_sync(now_ps);
        reached.map_err(|wrong| self.failure(&wrong))
    }

    fn wait(&mut self, _next_ps: u64) -> Result<(), OutsideError> {
        match &mut self.pace {
            None => thread::yield_now(),
            Some(pace) => pace.waiting.pause(),
        }
        Ok(())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if self.shared.is_farewell.load(Ordering::Relaxed) {
            for _ in 0..FAREWELLS {
                match self.endpoint.terminate() {
                    Ok(Sent::Full) => thread::yield_now(),
                    _ => break,
                }
            }
        }
        self.publish();
    }
}
