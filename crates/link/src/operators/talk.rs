//! Questions and answers: whole messages, one after another, over a connection that carries no jobs yet.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::Clock;
use dpb_core::patience::Silence;
use rustix::io::Errno;

use super::codec::Malformed;
use super::protocol::{HEADER_BYTES, Header, Refusal, Tag, message, put_refusal};
use super::spec::SecretBytes;
use super::wire::{Inbox, Wire, sleep_for, tune};
use crate::bulk;

/// The time after which a wait looks around.
const LOOK: Duration = Duration::from_millis(100);
/// Memory that a body gets before its bytes have come.
const AHEAD_BYTES: usize = 64 << 10;

/// The reason why a connection is over.
#[derive(Debug)]
pub(super) enum Broken {
    /// The system's error; [`ErrorKind::UnexpectedEof`] where the peer has closed it.
    Io(io::Error),
    /// The peer sent what is no message.
    Malformed(Malformed),
    /// The peer has said nothing for so long.
    Silent(Duration),
    /// The peer has ended it, and why.
    Refused(String),
    /// This side was told to stop.
    Stopped,
    /// The transport of large bodies is broken, and how.
    Transport(String),
}

impl Broken {
    /// The system's number for it.
    pub(super) fn errno(&self) -> Errno {
        match self {
            Self::Io(error) if error.kind() == ErrorKind::UnexpectedEof => Errno::CONNRESET,
            Self::Io(error) => Errno::from_io_error(error).unwrap_or(Errno::IO),
            Self::Malformed(_) => Errno::PROTO,
            Self::Silent(_) => Errno::TIMEDOUT,
            Self::Refused(_) | Self::Stopped => Errno::CONNABORTED,
            Self::Transport(_) => Errno::NOLINK,
        }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Malformed> for Broken {
    fn from(why: Malformed) -> Self {
        Self::Malformed(why)
    }
}

impl From<bulk::Broken> for Broken {
    fn from(why: bulk::Broken) -> Self {
        Self::Transport(why.0)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
                f.write_str("the other side closed the connection")
            }
            Self::Io(error) => error.fmt(f),
            Self::Malformed(why) => why.fmt(f),
            Self::Silent(time) => write!(f, "the other side said nothing for {time:?}"),
            Self::Refused(why) | Self::Transport(why) => f.write_str(why),
            Self::Stopped => f.write_str("told to stop"),
        }
    }
}

/// A connection, and the bytes that have come.
pub(super) struct Talk<'a> {
    pub(super) wire: Box<dyn Wire + 'a>,
    pub(super) inbox: Inbox,
    clock: Arc<dyn Clock>,
    patience: Duration,
}

/// How a wait for a message ends before one comes.
#[derive(Clone, Copy)]
pub(super) enum Until<'a> {
    /// The peer was asked and owes an answer.
    Patience,
    /// The peer may be silent for as long as it likes, but not in the middle of a message.
    Stopped(&'a dyn Fn() -> bool),
}

impl<'a> Talk<'a> {
    /// The time by its clock, in nanoseconds.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// The time for which the peer may be silent where it must not be.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// A conversation over `wire`, in which a peer may be silent for `patience` by `clock` where it must not be.
    pub(super) fn new(
        wire: Box<dyn Wire + 'a>,
        clock: Arc<dyn Clock>,
        patience: Duration,
    ) -> io::Result<Self> {
        wire.set_nonblocking(true)?;
        tune(wire.as_fd());
        Ok(Self {
            wire,
            inbox: Inbox::new(),
            clock,
            patience,
        })
    }

    /// Sends a message whole.
    pub(super) fn send(&mut self, tag: Tag, body: &[u8]) -> Result<(), Broken> {
        let len = body.len();
        let header = Header { tag, len }.bytes();
        // A short message goes out as one; a long one is not copied, for it may hold secrets.
        if body.len() <= AHEAD_BYTES {
            let whole = SecretBytes(message(tag, body));
            return self.send_bytes(&whole.0);
        }
        self.send_bytes(&header)?;
        self.send_bytes(body)
    }

    fn send_bytes(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        let mut silence = Silence::default();
        loop {
            let wrote = match bytes.is_empty() {
                true => self.wire.flush().map(|()| 0),
                false => self.wire.write(bytes),
            };
            match wrote {
                Ok(_) if bytes.is_empty() => return Ok(()),
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(len) => {
                    bytes = &bytes[len..];
                    silence.end();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if silence.lasts(&*self.clock) > self.patience {
                        return Err(Broken::Silent(self.patience));
                    }
                    // What has come meanwhile is read later, and would wake this wait at once.
                    sleep_to_send(&*self.wire);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Says no.
    pub(super) fn refuse(&mut self, refusal: &Refusal) -> Result<(), Broken> {
        let mut body = Vec::new();
        put_refusal(&mut body, refusal);
        self.send(Tag::Refused, &body)
    }

    /// Receives a message whole, whose body has at most as many bytes as `bytes_max` says for its kind.
    pub(super) fn receive(
        &mut self,
        bytes_max: impl Fn(Tag) -> usize,
        until: Until<'_>,
    ) -> Result<(Tag, SecretBytes), Broken> {
        let mut silence = Silence::default();
        while self.inbox.data().len() < HEADER_BYTES {
            if self.inbox.fill(&mut *self.wire)? {
                silence.end();
                continue;
            }
            match until {
                Until::Stopped(is_stopped) if self.inbox.data().is_empty() => {
                    if is_stopped() {
                        return Err(Broken::Stopped);
                    }
                    sleep_for(&*self.wire, false, LOOK);
                }
                _ => self.wait(&mut silence)?,
            }
        }
        let header = self.inbox.data()[..HEADER_BYTES].try_into();
        let Header { tag, len } = Header::read(header.expect("so many"))?;
        if len > bytes_max(tag) {
            return Err(Malformed("longer than its kind may be").into());
        }
        self.inbox.consume(HEADER_BYTES);
        let body = self.body(len)?;
        self.inbox.clear_used();
        Ok((tag, body))
    }

    /// The next `len` bytes. Memory is taken as they come.
    fn body(&mut self, len: usize) -> Result<SecretBytes, Broken> {
        let mut body = SecretBytes::default();
        let (mut silence, mut filled) = (Silence::default(), 0);
        while filled < len {
            if filled == body.0.len() {
                let room = len.min(AHEAD_BYTES.max(2 * filled));
                let mut more = SecretBytes(vec![0; room]);
                more.0[..filled].copy_from_slice(&body.0);
                body = more;
            }
            match self.inbox.take(&mut *self.wire, &mut body.0[filled..])? {
                0 => self.wait(&mut silence)?,
                took => {
                    filled += took;
                    silence.end();
                }
            }
        }
        Ok(body)
    }

    /// Sleeps until something comes, for a moment at most.
    fn wait(&self, silence: &mut Silence) -> Result<(), Broken> {
        if silence.lasts(&*self.clock) > self.patience {
            return Err(Broken::Silent(self.patience));
        }
        sleep_for(&*self.wire, false, LOOK.min(self.patience));
        Ok(())
    }
}

/// Sleeps until there is room to send, for a moment at most.
fn sleep_to_send(wire: &dyn Wire) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let file = wire.as_fd();
    let look = Timespec::try_from(LOOK).ok();
    // An error shows in the next write.
    let _ = poll(&mut [PollFd::new(&file, PollFlags::OUT)], look.as_ref());
}
