//! A connection as a link of a given speed: paced in both directions, every byte counted.
//!
//! Pacing is a token bucket at the sender. Each direction may run ahead of its pace by [`BURST`] and then sleeps; at the
//! end of a message [`Link::settle`] waits until the link would have carried all of it. No core spins. Time that a sleep
//! takes too long is made up for, up to [`LATE_MAX`] at once, as a NIC goes on sending from its queue; time without
//! anything to send is not. So over any span `t` a direction carries at most what the link would in `t` + 2 [`BURST`] +
//! [`LATE_MAX`], and it falls behind only by what the machine itself keeps it waiting beyond that. What is paced and
//! counted are the bytes of the TCP stream: Ethernet, IP and TCP headers (3 to 5 % at an MTU of 1500) are not.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_buffer::{Buffer, MutableBuffer};
use dpb_core::Timer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::bulk::{Incoming, Outgoing};
pub use self::pacer::{BURST, LATE_MAX};
use self::pacer::{PACED_BYTES, Pacer};
use crate::service::protocol::{self, Header, Tag, WireError};

mod bulk;
mod pacer;

/// Bytes handed to one `sendfile` on a link without a pace.
const SENDFILE_BYTES: usize = 4 << 20;
/// How long a peer's machine may say nothing where it must: as long as a peer may take nothing.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// The same while others wait for what stalled connections may hold.
const SILENT_PRESSED_MAX: Duration = Duration::from_secs(5);
/// How often who waits for the socket looks around.
const LOOK: Duration = Duration::from_millis(200);
/// The slowest pace, bits per second: a peer chooses ours, and must not choose how long we sleep.
pub const PACE_BITS_PER_S_MIN: u64 = 1_000_000;
/// What a peer sends earns it time at so many bytes a second: less is no progress. An eighth of the slowest pace.
pub const BYTES_PER_S_MIN: u64 = PACE_BITS_PER_S_MIN / 8 / 8;
/// How often a sender that waits for its pace looks around.
const PACE_LOOK: Duration = Duration::from_millis(100);

/// What ended a send early.
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
    stream: TcpStream,
    clock: Arc<dyn Timer>,
    pacer: Pacer,
    sent_bytes: u64,
    received_bytes: u64,
    patience: Duration,
    /// Those who wait for what connections may hold.
    pressure: Arc<AtomicUsize>,
    /// On the link's clock.
    deadline_ns: Option<u64>,
    grant: Option<Grant>,
    stop: fn() -> bool,
    spare: MutableBuffer,
    /// Where large bodies go, and where they come from, if not over TCP.
    outgoing: Option<Outgoing>,
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
    pub fn new(stream: TcpStream, bits_per_s: u64, clock: Arc<dyn Timer>) -> io::Result<Self> {
        use rustix::net::sockopt;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(LOOK))?;
        stream.set_read_timeout(Some(LOOK))?;
        // A peer whose machine is gone says nothing: ask after 20 s, give up after a minute, also what it has not acknowledged.
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, Duration::from_secs(20))?;
        sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(5))?;
        sockopt::set_tcp_keepcnt(&stream, 4)?;
        sockopt::set_tcp_user_timeout(&stream, SILENT_MAX.as_millis() as u32)?;
        Ok(Self {
            stream,
            pacer: Pacer::new(bits_per_s, clock.now_ns()),
            clock,
            sent_bytes: 0,
            received_bytes: 0,
            patience: SILENT_MAX,
            pressure: Arc::default(),
            deadline_ns: None,
            grant: None,
            stop: || false,
            spare: MutableBuffer::new(0),
            outgoing: None,
            incoming: None,
            interjected: None,
        })
    }

    /// Sets the pace of what this side sends, 0 for none.
    pub fn set_pace(&mut self, bits_per_s: u64) {
        self.pacer = Pacer::new(bits_per_s, self.clock.now_ns());
    }

    /// Whether what this side sends has a pace.
    pub fn is_paced(&self) -> bool {
        self.pacer.bits_per_s != 0
    }

    /// Sets how long a peer may take nothing before it is given up.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Sets who counts those that wait for what connections may hold, this one or another: while there are any, it has less
    /// patience with a peer that takes nothing.
    pub fn set_pressure(&mut self, pressure: Arc<AtomicUsize>) {
        self.pressure = pressure;
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

    /// How long ago `then_ns` was on the link's clock.
    pub(super) fn since(&self, then_ns: u64) -> Duration {
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

    /// Counts a frame that brought nothing as so much waiting.
    ///
    /// # Errors
    /// If that uses up what the peer was granted.
    pub fn charge(&mut self, wait: Duration) -> Result<(), WireError> {
        let Some(grant) = &mut self.grant else {
            return Ok(());
        };
        grant.account(wait, 0);
        match grant.left.is_zero() {
            true => Err(WireError::Io(grant.used_up())),
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

    /// What its pace is kept and its patience counted by.
    pub fn clock(&self) -> &dyn Timer {
        &*self.clock
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Waits until the link would have carried everything sent so far; asks `stop` and looks at the peer now and then.
    pub fn settle(&mut self, stop: &dyn Fn() -> bool) -> Option<Interrupted> {
        let ended = self.wait_for_pace(Duration::ZERO, stop);
        // The next message does not begin with this one's lateness.
        self.pacer.forget_lateness();
        ended
    }

    /// Waits until the link is ahead of its pace by no more than `slack`.
    fn wait_for_pace(&mut self, slack: Duration, stop: &dyn Fn() -> bool) -> Option<Interrupted> {
        let mut ahead = self.pacer.ahead(self.clock.now_ns());
        if ahead <= slack {
            return None;
        }
        while ahead > PACE_LOOK {
            if stop() || self.peer_gone() {
                return Some(Interrupted::Stopped);
            }
            self.clock.sleep(PACE_LOOK);
            ahead = self.pacer.ahead(self.clock.now_ns());
        }
        self.clock.sleep(ahead);
        self.pacer.woke(self.clock.now_ns());
        None
    }

    /// Whether the peer has sent something or is gone.
    fn peer_stirs(&self) -> bool {
        self.polls(PollFlags::IN | PollFlags::RDHUP)
    }

    /// Whether the peer is gone.
    pub fn peer_gone(&self) -> bool {
        self.polls(PollFlags::RDHUP)
    }

    fn polls(&self, flags: PollFlags) -> bool {
        let mut fds = [PollFd::new(&self.stream, flags)];
        !matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
    }

    /// Sends a small frame whole and settles.
    ///
    /// # Errors
    /// Those of the socket; a peer that takes nothing; a body beyond the tag's bound, of which nothing is sent.
    pub fn send(&mut self, tag: Tag, body: &[u8]) -> Result<(), WireError> {
        let header = Header::checked(tag, body.len())?.to_bytes();
        let going = || false;
        match self.send_slices(&[&header, body], &going)? {
            None if self.settle(&going).is_none() => Ok(()),
            _ => Err(stalled()),
        }
    }

    /// Sends a frame of many slices without copying them. While the peer takes nothing, `stop` is asked now and then.
    ///
    /// # Errors
    /// Those of the socket; a length beyond the tag's bound, and then nothing is sent.
    pub fn send_frame(
        &mut self,
        tag: Tag,
        parts: &[&[u8]],
        len: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, WireError> {
        let header = Header::checked(tag, len)?.to_bytes();
        if self.is_placed(tag, len) {
            return self.place(tag, parts, len, stop);
        }
        let mut slices = Vec::with_capacity(1 + parts.len());
        slices.push(&header[..]);
        slices.extend_from_slice(parts);
        self.send_slices(&slices, stop)
    }

    /// Sends `len` bytes of `file` from `offset` as one frame, from the page cache to the socket inside the kernel, or to where
    /// large bodies go.
    ///
    /// # Errors
    /// Those of the socket and the file; a file that has become shorter.
    pub fn send_file_frame(
        &mut self,
        file: &File,
        offset: u64,
        len: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, WireError> {
        if self.is_placed(Tag::File, len) {
            return self.place_file(file, offset, len, stop);
        }
        let header = Header {
            tag: Tag::File,
            len,
        }
        .to_bytes();
        if let Some(ended) = self.send_slices(&[&header], stop)? {
            return Ok(Some(ended));
        }
        let mut at = offset;
        let end = offset + len as u64;
        let mut idle_since_ns = self.clock.now_ns();
        while at < end {
            let piece = self.pacer.piece(((end - at) as usize).min(SENDFILE_BYTES));
            match rustix::fs::sendfile(&self.stream, file, Some(&mut at), piece) {
                Ok(0) => {
                    return Err(WireError::Io(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the file became shorter while it was sent",
                    )));
                }
                Ok(n) => {
                    if let Some(ended) = self.sent(n, stop) {
                        return Ok(Some(ended));
                    }
                    idle_since_ns = self.clock.now_ns();
                }
                Err(e) => {
                    if let Some(ended) = self.blocked(e.into(), idle_since_ns, stop)? {
                        return Ok(Some(ended));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The next frame's header; `None` if the peer closed cleanly. Of a body that another transport carries it is that body's; what
    /// only serves that transport is dealt with here.
    ///
    /// # Errors
    /// Those of [`Header::read`].
    pub fn receive_header(&mut self) -> Result<Option<Header>, WireError> {
        if let Some(header) = self.interjected.take() {
            return Ok(Some(header));
        }
        loop {
            let Some(header) = self.receive_any_header()? else {
                return Ok(None);
            };
            match header.tag {
                Tag::Credit => self.take_credit(header)?,
                Tag::Placed => return self.expect_pieces(header).map(Some),
                _ => return Ok(Some(header)),
            }
        }
    }

    fn receive_any_header(&mut self) -> Result<Option<Header>, WireError> {
        if (self.stop)() {
            return Err(WireError::Io(stopped()));
        }
        let header = Header::read(&mut self.timed())?;
        if header.is_some() {
            self.received_bytes += protocol::HEADER_BYTES as u64;
        }
        Ok(header)
    }

    /// The body of a frame whose header was read.
    ///
    /// # Errors
    /// [`WireError::Torn`] if the stream ends inside; [`WireError::Io`].
    pub fn receive_body(&mut self, header: Header) -> Result<Vec<u8>, WireError> {
        let mut body = vec![0; header.len];
        self.receive_exact(&mut body)?;
        Ok(body)
    }

    /// The same for large bodies: they lie in memory that [`Link::give_back`] has returned, if it is long enough. The
    /// buffer may be longer than the body; slice it.
    ///
    /// # Errors
    /// As [`Link::receive_body`].
    pub fn receive_large_body(&mut self, header: Header) -> Result<Buffer, WireError> {
        const STEP: usize = 256 << 10;
        let mut body = std::mem::take(&mut self.spare);
        // Never cut to the body's length, so that it is cleared once and not for every frame.
        if body.len() < header.len {
            body = MutableBuffer::from_len_zeroed(header.len.next_multiple_of(STEP));
        }
        self.receive_exact(&mut body[..header.len])?;
        Ok(body.into())
    }

    /// Fills `bytes`.
    ///
    /// # Errors
    /// As [`Link::receive_body`].
    pub fn receive_exact(&mut self, bytes: &mut [u8]) -> Result<(), WireError> {
        match self.is_in_pieces() {
            true => self.receive_pieces(bytes),
            false => self.receive_from_stream(bytes),
        }
    }

    fn receive_from_stream(&mut self, bytes: &mut [u8]) -> Result<(), WireError> {
        self.timed().read_exact(bytes).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => WireError::Torn,
            _ => WireError::Io(e),
        })?;
        self.received_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Reads and drops what the peer still sends, until it closes or `patience` ends.
    pub fn drain(&mut self, patience: Duration) {
        let deadline_ns = self.ns_in(patience);
        let mut timed = self.timed();
        timed.deadline_ns = Some(deadline_ns);
        let mut dropped = [0; 4096];
        while matches!(timed.read(&mut dropped), Ok(1..)) {}
    }

    /// Takes a buffer of [`Link::receive_large_body`] back, to be used again, if nobody else holds a part of it.
    pub fn give_back(&mut self, buffer: Buffer) {
        if let Ok(bytes) = buffer.into_mutable() {
            self.spare = bytes;
        }
    }

    fn timed(&mut self) -> Timed<'_> {
        Timed {
            stream: &self.stream,
            clock: &*self.clock,
            deadline_ns: self.deadline_ns,
            grant: self.grant.as_mut(),
            stop: self.stop,
        }
    }

    fn send_slices(
        &mut self,
        slices: &[&[u8]],
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, WireError> {
        let mut storage: Vec<IoSlice<'_>> = slices
            .iter()
            .flat_map(|slice| slice.chunks(PACED_BYTES))
            .map(IoSlice::new)
            .collect();
        let mut rest = &mut storage[..];
        let mut idle_since_ns = self.clock.now_ns();
        while !rest.is_empty() {
            let count = self.slices_at_once(rest);
            match (&self.stream).write_vectored(&rest[..count]) {
                Ok(0) => return Err(WireError::Closed),
                Ok(n) => {
                    if let Some(ended) = self.sent(n, stop) {
                        return Ok(Some(ended));
                    }
                    idle_since_ns = self.clock.now_ns();
                    IoSlice::advance_slices(&mut rest, n);
                }
                Err(e) => {
                    if let Some(ended) = self.blocked(e, idle_since_ns, stop)? {
                        return Ok(Some(ended));
                    }
                }
            }
        }
        Ok(None)
    }

    /// How many slices one write may take: the kernel's bound, and the pacer's.
    fn slices_at_once(&self, slices: &[IoSlice<'_>]) -> usize {
        const SLICES_MAX: usize = 1024;
        if self.pacer.bits_per_s == 0 {
            return slices.len().min(SLICES_MAX);
        }
        let mut bytes = 0;
        let fitting = slices
            .iter()
            .take(SLICES_MAX)
            .take_while(|slice| {
                bytes += slice.len();
                bytes <= PACED_BYTES
            })
            .count();
        fitting.max(1)
    }

    /// Counts what was sent and keeps the pace.
    fn sent(&mut self, bytes: usize, stop: &dyn Fn() -> bool) -> Option<Interrupted> {
        self.sent_bytes += bytes as u64;
        self.pacer.sent(bytes, self.clock.now_ns());
        self.wait_for_pace(BURST, stop)
    }

    /// A write that did not go through: waits on, or says why it is over.
    fn blocked(
        &self,
        error: io::Error,
        idle_since_ns: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, WireError> {
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(None),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                if stop() || self.peer_gone() {
                    Ok(Some(Interrupted::Stopped))
                } else if self.since(idle_since_ns) > self.patience() {
                    Ok(Some(Interrupted::Stalled))
                } else {
                    Ok(None)
                }
            }
            _ => Err(WireError::Io(error)),
        }
    }
}

/// How long a peer may keep this side waiting.
#[derive(Debug)]
struct Grant {
    silence: Duration,
    in_all: Duration,
    left: Duration,
}

impl Grant {
    /// How long it may from now on, at a time.
    fn limit(&self) -> Duration {
        self.silence.min(self.left)
    }

    fn account(&mut self, waited: Duration, bytes: usize) {
        let earned = Duration::from_secs_f64(bytes as f64 / BYTES_PER_S_MIN as f64);
        self.left = (self.left + earned).min(self.in_all);
        self.left = self.left.saturating_sub(waited);
    }

    /// The error of a peer that has used it up.
    fn used_up(&self) -> io::Error {
        let text = match self.left < self.silence {
            true => "the peer sends too little for the time that it takes".to_owned(),
            false => format!("the peer sent nothing for {:?}", self.silence),
        };
        io::Error::new(io::ErrorKind::TimedOut, text)
    }
}

/// Reading with a deadline for the whole, as long as the peer is granted, until told to stop.
struct Timed<'a> {
    stream: &'a TcpStream,
    clock: &'a dyn Timer,
    deadline_ns: Option<u64>,
    grant: Option<&'a mut Grant>,
    stop: fn() -> bool,
}

impl Timed<'_> {
    /// Waits until there is something to read.
    fn wait(&self, since_ns: u64) -> io::Result<()> {
        loop {
            let now_ns = self.clock.now_ns();
            let deadline = self.deadline_ns.map(|at_ns| between(now_ns, at_ns));
            let granted = self.grant.as_ref().map(|grant| grant.limit());
            let granted = granted.map(|limit| limit.saturating_sub(between(since_ns, now_ns)));
            let left = deadline.into_iter().chain(granted).min();
            let mut fds = [PollFd::new(self.stream, PollFlags::IN)];
            let timeout = left.map_or(LOOK, |left| left.min(LOOK));
            let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => {}
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if (self.stop)() {
                return Err(stopped());
            }
            if left.is_some_and(|left| left <= LOOK) {
                return Err(match &self.grant {
                    Some(grant) if granted == left => grant.used_up(),
                    _ => io::Error::new(io::ErrorKind::TimedOut, "the peer did not answer in time"),
                });
            }
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let since_ns = self.clock.now_ns();
        loop {
            self.wait(since_ns)?;
            match self.stream.read(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    if let (Some(grant), Ok(count)) = (&mut self.grant, &read) {
                        grant.account(between(since_ns, self.clock.now_ns()), *count);
                    }
                    return read;
                }
            }
        }
    }
}

/// From one time of a clock to a later one.
pub(super) fn between(from_ns: u64, to_ns: u64) -> Duration {
    Duration::from_nanos(to_ns.saturating_sub(from_ns))
}

/// The error of who was told to stop.
fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "told to stop")
}

/// The error of a peer that takes nothing.
pub fn stalled() -> WireError {
    WireError::Io(io::Error::new(
        io::ErrorKind::TimedOut,
        "the peer stopped reading",
    ))
}

#[cfg(test)]
mod tests;
