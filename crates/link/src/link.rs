//! A connection as a link of a given speed: paced in both directions, every byte counted.
//!
//! Pacing is a token bucket at the sender. Each direction may run ahead of its pace by a burst of 200 us and then sleeps; at the
//! end of a message [`Link::settle`] waits until the link would have carried all of it. No core spins. A sleep that lasts too
//! long is made up for, up to 2 ms at once, as a NIC goes on sending from its queue. Time without anything to send is not made
//! up for. So over any span `t` a direction carries at most what the link would carry in `t` + 2.4 ms. It falls behind the link
//! only where the machine delays it by more than these 2 ms.
//!
//! The bytes of the stream are paced and counted. Ethernet, IP and TCP headers (3 to 5 % at an MTU of 1500) and the bytes that
//! encryption adds (22 for each 16 KiB) are neither.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dpb_core::Timer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::pacer::Pacer;
use self::timed::Grant;
use crate::bulk::pieces::{Incoming, Outgoing};
use crate::error::{LinkError, refusal_bytes};
use crate::header::Header;
use crate::peer::Answers;
use crate::stream::{SILENT_MAX, Stream, set_options};
use crate::tag::{ERROR, Tags};

mod bulk;
mod pacer;
mod receiving;
mod sending;
mod timed;

/// The time for which a peer may take nothing while others wait for what stalled connections may hold.
const SILENT_PRESSED_MAX: Duration = Duration::from_secs(5);
/// The slowest pace, bits per second: a peer chooses ours, and must not choose how long we sleep.
pub const PACE_BITS_PER_S_MIN: u64 = 1_000_000;
/// The rate below which a peer makes no progress, bytes per second: the bytes that it sends earn it time at this rate. An eighth of the slowest pace.
pub const BYTES_PER_S_MIN: u64 = PACE_BITS_PER_S_MIN / 8 / 8;
/// The time for which a peer that is told why its connection ends may go on sending.
const GOODBYE: Duration = Duration::from_millis(200);

/// The reason why a send ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// The peer is gone, or the caller's `stop` said so.
    Stopped,
    /// The peer took nothing for the whole patience.
    Stalled,
}

/// A framed, paced, counted connection.
#[derive(Debug)]
pub struct Link {
    stream: Stream,
    tags: Tags,
    is_taken_over: bool,
    clock: Arc<dyn Timer>,
    pacer: Pacer,
    sent_bytes: u64,
    received_bytes: u64,
    patience: Duration,
    /// True if a peer that takes nothing may go on so while its machine answers.
    may_pause: bool,
    /// The number of scans that wait for what connections may hold.
    pressure: Arc<AtomicUsize>,
    /// On the link's clock.
    deadline_ns: Option<u64>,
    grant: Option<Grant>,
    stop: fn() -> bool,
    /// The end of the transport beside TCP that sends large bodies, if there is one, and one of two references: the holder of the other counts
    /// the transports by it.
    outgoing: Option<(Outgoing, Arc<()>)>,
    /// The end that receives large bodies beside TCP, if there is one.
    incoming: Option<Incoming>,
    /// A frame that came while credits were waited for.
    interjected: Option<Header>,
}

impl Link {
    /// Takes a connection over. `bits_per_s` is the pace of what this side sends, 0 for none; it is kept, and patience counted, by
    /// `clock`.
    ///
    /// # Errors
    /// If the socket refuses its options.
    pub fn new(stream: Stream, bits_per_s: u64, clock: Arc<dyn Timer>) -> io::Result<Self> {
        set_options(stream.tcp())?;
        Ok(Self {
            stream,
            tags: Tags::NONE,
            is_taken_over: false,
            pacer: Pacer::new(bits_per_s, clock.now_ns()),
            clock,
            sent_bytes: 0,
            received_bytes: 0,
            patience: SILENT_MAX,
            may_pause: false,
            pressure: Arc::default(),
            deadline_ns: None,
            grant: None,
            stop: || false,
            outgoing: None,
            incoming: None,
            interjected: None,
        })
    }

    /// Sets the pace of what this side sends, 0 for none.
    pub fn set_pace(&mut self, bits_per_s: u64) {
        self.pacer = Pacer::new(bits_per_s, self.clock.now_ns());
    }

    /// Returns true if what this side sends has a pace.
    pub fn is_paced(&self) -> bool {
        self.pacer.bits_per_s != 0
    }

    /// Sets how long a peer may take nothing before it is given up.
    #[cfg(test)]
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Sets who counts those that wait for what connections may hold, this one or another: while there are any, it has less
    /// patience with a peer that takes nothing.
    pub fn set_pressure(&mut self, pressure: Arc<AtomicUsize>) {
        self.pressure = pressure;
    }

    /// Sets whether the peer may take nothing for as long as it likes: a person reads what comes, page by page. It is given up if its machine does not
    /// answer, and as before while others wait for what connections may hold.
    ///
    /// # Errors
    /// If the socket refuses.
    pub fn set_may_pause(&mut self, may_pause: bool) -> io::Result<()> {
        if self.may_pause != may_pause {
            let patience = match may_pause {
                // The kernel's own would count from when the peer has no room, whatever it answers.
                true => Duration::ZERO,
                false => SILENT_MAX,
            };
            let millis = patience.as_millis() as u32;
            rustix::net::sockopt::set_tcp_user_timeout(self.stream.tcp(), millis)?;
            self.may_pause = may_pause;
        }
        Ok(())
    }

    /// True if a peer that has taken nothing for the whole patience does so rightly.
    fn pauses(&self) -> bool {
        self.may_pause
            && self.pressure.load(Ordering::Relaxed) == 0
            && Answers::of(self.stream.tcp())
                .is_some_and(|answers| !answers.have_ended(self.patience))
    }

    fn patience(&self) -> Duration {
        match self.pressure.load(Ordering::Relaxed) {
            0 => self.patience,
            _ => self.patience.min(SILENT_PRESSED_MAX),
        }
    }

    /// Sets how long from now on whatever is being received may take; `None` for no bound. It bounds the whole, so a peer that
    /// sends a byte now and then gains nothing.
    pub fn set_deadline(&mut self, within: Option<Duration>) {
        self.deadline_ns = within.map(|within| self.ns_in(within));
    }

    /// The time on the link's clock in `duration`.
    fn ns_in(&self, duration: Duration) -> u64 {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.clock.now_ns().saturating_add(ns)
    }

    /// The time since `then_ns` on the link's clock.
    pub fn since(&self, then_ns: u64) -> Duration {
        between(then_ns, self.clock.now_ns())
    }

    /// Bounds how long the peer may keep this side waiting from now on: `silence` at a time, and `in_all` plus what it earns
    /// by sending, see [`BYTES_PER_S_MIN`]. Waiting alone counts: what this side does between frames is no fault of the peer.
    pub fn grant(&mut self, silence: Duration, in_all: Duration) {
        self.grant = Some(Grant {
            silence,
            in_all,
            left: in_all,
        });
    }

    /// Counts a frame that brought nothing as time waited: `wait`.
    ///
    /// # Errors
    /// If that uses up what the peer was granted.
    pub fn charge(&mut self, wait: Duration) -> Result<(), LinkError> {
        let Some(grant) = &mut self.grant else {
            return Ok(());
        };
        grant.account(wait, 0);
        match grant.left.is_zero() {
            true => Err(LinkError::Io(grant.used_up())),
            false => Ok(()),
        }
    }

    /// Sets who is asked, before each frame and now and then while waiting for the peer's bytes, whether to stop; then
    /// receiving ends with an error.
    pub fn set_stop(&mut self, stop: fn() -> bool) {
        self.stop = stop;
    }

    /// Bytes sent and received since the connection began, headers of frames included, whatever carried them.
    pub fn bytes(&self) -> (u64, u64) {
        (self.sent_bytes, self.received_bytes)
    }

    /// The clock of its pace and its patience.
    pub fn clock(&self) -> &dyn Timer {
        &*self.clock
    }

    /// The same, to be kept.
    pub fn shared_clock(&self) -> Arc<dyn Timer> {
        Arc::clone(&self.clock)
    }

    /// The stream beneath.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Hands the stream to a service that has a loop of its own, right behind the last frame that was received. From now on
    /// what is sent and received has no pace and is not counted, and the session puts no frame of its own between.
    pub fn take_over(&mut self) -> &mut Stream {
        self.is_taken_over = true;
        &mut self.stream
    }

    /// The same for who keeps no link.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// Sets the tags that frames may have from now on, beside the session's: those of the service that was opened.
    pub fn set_tags(&mut self, tags: Tags) {
        self.tags = tags;
    }

    /// Ends the connection in both directions. A peer that has gone already needs no word.
    pub fn hang_up(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Tells the peer why its connection ends, if it is still there to hear it, and the stream is still the session's.
    pub(crate) fn say_goodbye(&mut self, error: &LinkError) {
        if let Some(refusal) = error.refusal()
            && !self.is_taken_over
        {
            let body = refusal_bytes(refusal, &error.to_string());
            let _ = self.send(ERROR, &body);
            // Closing with unread bytes would reset the connection and take the words along.
            let _ = self.stream.shutdown(Shutdown::Write);
            self.drain(GOODBYE);
        }
    }

    /// Returns true if the peer has sent something or is gone.
    pub fn peer_stirs(&self) -> bool {
        self.stream.has_plaintext() || self.polls(PollFlags::IN | PollFlags::RDHUP)
    }

    /// Returns true if the peer is gone.
    pub fn peer_gone(&self) -> bool {
        self.polls(PollFlags::RDHUP)
    }

    fn polls(&self, flags: PollFlags) -> bool {
        let mut fds = [PollFd::new(&self.stream, flags)];
        !matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
    }
}

/// The time between two readings of a clock.
pub fn between(from_ns: u64, to_ns: u64) -> Duration {
    Duration::from_nanos(to_ns.saturating_sub(from_ns))
}

/// The error of who was told to stop.
fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "told to stop")
}

/// The error of a peer that takes nothing.
pub fn stalled() -> LinkError {
    LinkError::Io(io::Error::new(
        io::ErrorKind::TimedOut,
        "the peer stopped reading",
    ))
}

#[cfg(test)]
mod tests;
