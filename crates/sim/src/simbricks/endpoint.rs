//! One side of a link.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{RecvFlags, recv};

use super::error::Error;
use super::message::{FRAME_BYTES_MAX, Header, PACKET, SYNC, TERMINATE};
use super::params::LinkParams;
use super::raw::{Region, Slots};
use super::ring::{Consumer, Producer};

/// Looks in vain after which the peer is looked at, which costs a call of the system.
const LOOKS_PER_CHECK: u32 = 1024;

/// The fate of a frame that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a full ring takes nothing"]
pub enum Sent {
    /// The peer will find it.
    Queued,
    /// The ring is full: to be tried again.
    Full,
    /// It does not fit into a slot. It was dropped and counted.
    TooLong,
    /// The peer has ended and reads no more. It was dropped and counted. [`Endpoint::poll`] says how the peer ended.
    Ended,
}

/// A frame that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'endpoint> {
    /// The time of its arrival: the sender's time and the latency of the sender's side.
    pub timestamp_ps: u64,
    /// The frame, without its check sequence. It is a copy, which stays until the next call.
    pub frame: &'endpoint [u8],
}

/// The messages of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames sent.
    pub frames_sent: u64,
    /// SYNCs sent.
    pub syncs_sent: u64,
    /// Frames dropped, because no slot holds them.
    pub frames_too_long: u64,
    /// Frames dropped, because the peer had ended.
    pub frames_after_end: u64,
    /// Frames received.
    pub frames_received: u64,
    /// SYNCs received.
    pub syncs_received: u64,
}

/// The state of the peer, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Alive,
    /// It has sent TERMINATE.
    Terminated,
    /// It has closed its socket; the ring may still hold messages of it.
    Gone,
}

/// One side of a link to a simulator in another process. [`Listener::accept`](super::Listener::accept) and
/// [`connect`](super::connect) make one.
#[derive(Debug)]
pub struct Endpoint {
    out: Producer,
    input: Consumer,
    socket: OwnedFd,
    region: Arc<Region>,
    params: LinkParams,
    is_synchronised: bool,
    peer: Peer,
    has_terminated: bool,
    /// The time of the last call that sent something.
    sent_at_ps: Option<u64>,
    /// The timestamp of the last message that was seen.
    input_timestamp_ps: u64,
    /// Looks in vain since something moved.
    looks: u32,
    frame: Vec<u8>,
    counts: Counts,
}

impl Endpoint {
    /// The endpoint that sends in `out` and receives in `input`, which lie in `region`.
    pub(super) fn new(
        socket: OwnedFd,
        region: Arc<Region>,
        [out, input]: [Slots; 2],
        params: LinkParams,
        is_synchronised: bool,
    ) -> Self {
        let frame_bytes = input.frame_bytes_max().min(FRAME_BYTES_MAX);
        Self {
            out: Producer::new(out),
            input: Consumer::new(input),
            socket,
            region,
            params,
            is_synchronised,
            peer: Peer::Alive,
            has_terminated: false,
            sent_at_ps: None,
            input_timestamp_ps: 0,
            looks: 0,
            frame: vec![0; frame_bytes],
            counts: Counts::default(),
        }
    }

    /// Sends a frame at the time `now_ps`. It arrives one latency of this side later.
    ///
    /// # Errors
    /// In a synchronised link `now_ps` is earlier than in a call before. The time of arrival is beyond all times. This side has
    /// terminated. While the ring is full, the peer is looked at: its socket has bytes, or the memory was cut off.
    pub fn send(&mut self, now_ps: u64, frame: &[u8]) -> Result<Sent, Error> {
        if self.has_terminated {
            return Err(Error::AfterTerminate);
        }
        let Some(frame_bytes) = self.length_of(frame) else {
            self.counts.frames_too_long += 1;
            return Ok(Sent::TooLong);
        };
        let sent = self.push(now_ps, PACKET, frame_bytes, frame)?;
        match sent {
            Sent::Queued => self.counts.frames_sent += 1,
            Sent::Ended => self.counts.frames_after_end += 1,
            Sent::Full | Sent::TooLong => {}
        }
        Ok(sent)
    }

    /// Promises the peer that nothing older than `now_ps` and a latency will come: sends a SYNC if the link is synchronised and nothing
    /// was sent since `sync_interval_ps`. False if the ring is full, and it must be tried again.
    ///
    /// # Errors
    /// As [`send`](Self::send), but after TERMINATE nothing needs to be promised.
    pub fn out_sync(&mut self, now_ps: u64) -> Result<bool, Error> {
        if now_ps < self.next_sync_ps() {
            return Ok(true);
        }
        let sent = self.push(now_ps, SYNC, 0, &[])?;
        self.counts.syncs_sent += u64::from(sent == Sent::Queued);
        Ok(sent != Sent::Full)
    }

    /// The next frame, if there is one that has arrived at the time `now_ps`. In a link that is not synchronised a frame arrives
    /// as soon as it is there, whatever the time.
    ///
    /// # Errors
    /// The peer has broken the protocol: a type, a length or a timestamp that cannot be. It has closed its socket without TERMINATE and has
    /// nothing more in its ring. A call again gives the same error.
    pub fn poll(&mut self, now_ps: u64) -> Result<Option<Received<'_>>, Error> {
        let next = self.take(now_ps)?;
        Ok(next.map(|(timestamp_ps, bytes)| Received {
            timestamp_ps,
            frame: &self.frame[..bytes],
        }))
    }

    /// The peer's promise: no message older than this will come. One of this very time may. It is 0 until something came,
    /// and `u64::MAX` after the peer's TERMINATE and where the link is not synchronised.
    pub fn input_timestamp_ps(&self) -> u64 {
        if self.waits_for_peer() {
            self.input_timestamp_ps
        } else {
            u64::MAX
        }
    }

    /// The time at which the next SYNC is due. It is `u64::MAX` where none ever is.
    pub fn next_sync_ps(&self) -> u64 {
        if self.has_terminated || !self.waits_for_peer() {
            return u64::MAX;
        }
        let interval_ps = self.params.sync_interval_ps;
        let next = |at_ps: u64| at_ps.saturating_add(interval_ps);
        self.sent_at_ps.map_or(0, next)
    }

    /// Tells the peer that this side ends. It must be tried again while the result is [`Sent::Full`]. Afterwards this side can receive,
    /// and send no more. Simulators that do not know TERMINATE end with an error: for them, drop the endpoint instead.
    ///
    /// # Errors
    /// The peer's socket has bytes, or the memory was cut off.
    pub fn terminate(&mut self) -> Result<Sent, Error> {
        if self.has_terminated {
            return Ok(Sent::Queued);
        }
        // The end of time and a latency, which wraps.
        let timestamp_ps = u64::MAX.wrapping_add(self.params.link_latency_ps);
        let sent = self.push_stamped(timestamp_ps, TERMINATE, 0, &[])?;
        self.has_terminated = sent == Sent::Queued;
        Ok(sent)
    }

    /// True if virtual time is kept between both sides.
    pub fn is_synchronised(&self) -> bool {
        self.is_synchronised
    }

    /// True if the peer has sent TERMINATE, and everything before it was received.
    pub fn peer_has_terminated(&self) -> bool {
        self.peer == Peer::Terminated
    }

    /// The latency of this side, in picoseconds.
    pub fn link_latency_ps(&self) -> u64 {
        self.params.link_latency_ps
    }

    /// The longest time in which this side sends nothing, in picoseconds.
    pub fn sync_interval_ps(&self) -> u64 {
        self.params.sync_interval_ps
    }

    /// Bytes of the longest frame that a slot takes from this side.
    pub fn frame_bytes_max(&self) -> usize {
        self.out.frame_bytes_max().min(FRAME_BYTES_MAX)
    }

    /// True if the memory cannot be cut off while this process uses it. False for files of a peer that take no seals: such a peer
    /// can end this process.
    pub fn is_sealed(&self) -> bool {
        self.region.is_sealed()
    }

    /// The messages so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// True while the peer's messages bound the time to which this side may run.
    fn waits_for_peer(&self) -> bool {
        self.is_synchronised && self.peer != Peer::Terminated
    }

    /// The frame's length, if a slot and its field of 16 bits hold it.
    fn length_of(&self, frame: &[u8]) -> Option<u16> {
        let bytes = u16::try_from(frame.len()).ok()?;
        (frame.len() <= self.frame_bytes_max()).then_some(bytes)
    }

    fn push(
        &mut self,
        now_ps: u64,
        message_type: u8,
        frame_bytes: u16,
        frame: &[u8],
    ) -> Result<Sent, Error> {
        if let Some(before_ps) = self.sent_at_ps
            && self.is_synchronised
            && now_ps < before_ps
        {
            return Err(Error::SentBack { now_ps, before_ps });
        }
        let timestamp_ps = now_ps.checked_add(self.params.link_latency_ps);
        let timestamp_ps = timestamp_ps.ok_or(Error::TimeOverflow { now_ps })?;
        let sent = self.push_stamped(timestamp_ps, message_type, frame_bytes, frame)?;
        if sent == Sent::Queued {
            self.sent_at_ps = Some(now_ps);
        }
        Ok(sent)
    }

    fn push_stamped(
        &mut self,
        timestamp_ps: u64,
        message_type: u8,
        frame_bytes: u16,
        frame: &[u8],
    ) -> Result<Sent, Error> {
        if self.peer != Peer::Alive {
            return Ok(Sent::Ended);
        }
        let header = Header {
            message_type,
            timestamp_ps,
            frame_bytes,
        };
        if self.out.push(header, frame) {
            return Ok(Sent::Queued);
        }
        self.look()?;
        Ok(Sent::Full)
    }

    /// Takes messages until one is a frame that has arrived: its time and its length, the frame itself is in `frame`. At
    /// most a ring's messages, so that a peer that sends SYNCs without end holds nobody up.
    fn take(&mut self, now_ps: u64) -> Result<Option<(u64, usize)>, Error> {
        if self.peer == Peer::Terminated {
            return Ok(None);
        }
        for _ in 0..self.input.entries() {
            let Some(header) = self.input.peek() else {
                return self.nothing().map(|()| None);
            };
            match header.message_type {
                TERMINATE => {
                    self.input.pop(TERMINATE);
                    self.peer = Peer::Terminated;
                    return Ok(None);
                }
                SYNC => {
                    self.promise(header.timestamp_ps)?;
                    self.input.pop(SYNC);
                    self.looks = 0;
                    self.counts.syncs_received += 1;
                }
                PACKET => {
                    self.promise(header.timestamp_ps)?;
                    if self.is_synchronised && header.timestamp_ps > now_ps {
                        return Ok(None);
                    }
                    return self.take_frame(header).map(Some);
                }
                message_type => {
                    let slot = self.input.position();
                    return Err(Error::MessageType { message_type, slot });
                }
            }
        }
        Ok(None)
    }

    /// Notes the time of the next message.
    fn promise(&mut self, timestamp_ps: u64) -> Result<(), Error> {
        let before_ps = self.input_timestamp_ps;
        if self.is_synchronised && timestamp_ps < before_ps {
            return Err(Error::TimestampDecreased {
                timestamp_ps,
                before_ps,
                slot: self.input.position(),
            });
        }
        self.input_timestamp_ps = timestamp_ps;
        Ok(())
    }

    /// Takes the next message, a frame, out of the ring.
    fn take_frame(&mut self, header: Header) -> Result<(u64, usize), Error> {
        let bytes = usize::from(header.frame_bytes);
        let Some(frame) = self.frame.get_mut(..bytes) else {
            return Err(Error::FrameLength {
                bytes,
                bytes_max: self.input.frame_bytes_max(),
                slot: self.input.position(),
            });
        };
        self.input.copy_frame(frame);
        self.input.pop(PACKET);
        self.looks = 0;
        self.counts.frames_received += 1;
        Ok((header.timestamp_ps, bytes))
    }

    /// The ring is empty. An error if the peer was gone before that was seen.
    fn nothing(&mut self) -> Result<(), Error> {
        if self.peer == Peer::Gone {
            return Err(Error::PeerGone);
        }
        self.look()
    }

    /// One more look in vain; now and then the peer itself is looked at.
    fn look(&mut self) -> Result<(), Error> {
        self.looks += 1;
        if self.looks < LOOKS_PER_CHECK {
            return Ok(());
        }
        self.looks = 0;
        let bytes_before = self.region.len();
        if !self.region.is_sealed() {
            let bytes = self.region.file_len();
            let bytes = bytes.map_err(|error| Error::system("the shared memory's size", error))?;
            if bytes < bytes_before {
                return Err(Error::MemoryShrunk {
                    bytes,
                    bytes_before,
                });
            }
        }
        match recv(
            &self.socket,
            &mut [0; 1],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        ) {
            Ok((_, 0)) => self.peer = Peer::Gone,
            Ok(_) => return Err(Error::BytesOnSocket),
            Err(error) => match io::Error::from(error).kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                io::ErrorKind::ConnectionReset => self.peer = Peer::Gone,
                _ => return Err(Error::system("a look at the peer's socket", error)),
            },
        }
        Ok(())
    }
}
