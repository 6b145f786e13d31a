//! The byte stream under the service, and bytes that have come and are not yet read.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown, sockopt};

use crate::stream::Stream;

/// A connection: bytes in order, both ways. The service sets it to be nonblocking and drives it by `poll(2)` on its file.
pub trait Wire: Read + Write + AsFd + Send {
    /// Whether reads and writes wait.
    ///
    /// # Errors
    /// What the system says.
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;

    /// Says to the peer that nothing more will be sent.
    ///
    /// # Errors
    /// What the system says.
    fn end(&mut self) -> io::Result<()> {
        Ok(shutdown(self.as_fd(), Shutdown::Write)?)
    }

    /// Returns true if there may be bytes to read that the file does not announce: a layer in between has them.
    fn has_buffered(&self) -> bool {
        false
    }

    /// True if bytes were taken that are not yet with the system: a layer in between has them, and sends them in a later write or flush.
    fn has_unsent(&self) -> bool {
        false
    }
}

/// How far others can read what crosses a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionSecurity {
    /// It does not leave this machine.
    Loopback,
    /// It is encrypted, and the peer has shown who it is.
    Encrypted,
    /// Whoever is on the way can read it: no secret is sent.
    Clear,
}

impl SessionSecurity {
    /// Whether secrets may cross.
    pub fn keeps_secrets(self) -> bool {
        self != Self::Clear
    }
}

impl Wire for TcpStream {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Self::set_nonblocking(self, nonblocking)
    }
}

impl Wire for Stream {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Self::set_nonblocking(self, nonblocking)
    }

    fn end(&mut self) -> io::Result<()> {
        self.shutdown(std::net::Shutdown::Write)
    }

    fn has_buffered(&self) -> bool {
        self.has_plaintext()
    }

    fn has_unsent(&self) -> bool {
        Self::has_unsent(self)
    }
}

/// A service borrows the stream of its connection.
impl<W: Wire + ?Sized> Wire for &mut W {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        (**self).set_nonblocking(nonblocking)
    }

    fn end(&mut self) -> io::Result<()> {
        (**self).end()
    }

    fn has_buffered(&self) -> bool {
        (**self).has_buffered()
    }

    fn has_unsent(&self) -> bool {
        (**self).has_unsent()
    }
}

impl Wire for UnixStream {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Self::set_nonblocking(self, nonblocking)
    }
}

/// Bytes that were read and not yet used.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

/// Bytes of an [`Inbox`]: many short messages, or a good part of a long one.
const INBOX_BYTES: usize = 64 << 10;
/// From this length on bytes are read to where they are wanted, past the inbox.
const DIRECT_BYTES: usize = 8 << 10;

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; INBOX_BYTES].into(),
            start: 0,
            end: 0,
        }
    }

    /// The bytes that are there.
    pub(super) fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Forgets the first `len` bytes.
    pub(super) fn consume(&mut self, len: usize) {
        self.start += len;
        debug_assert!(self.start <= self.end);
    }

    /// Overwrites what is no longer used, which may have been a secret.
    pub(super) fn clear_used(&mut self) {
        self.bytes[..self.start].fill(0);
    }

    /// Reads once. `false` if nothing was there, or if there is no room.
    ///
    /// # Errors
    /// What the system says; [`ErrorKind::UnexpectedEof`] if the peer is gone.
    pub(super) fn fill(&mut self, wire: &mut dyn Wire) -> io::Result<bool> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            return Ok(false);
        }
        let len = read(wire, &mut self.bytes[self.end..])?;
        self.end += len;
        Ok(len > 0)
    }

    /// Fills the front of `to`, from what is there or by one read; says how many bytes came.
    ///
    /// # Errors
    /// As [`Inbox::fill`].
    pub(super) fn take(&mut self, wire: &mut dyn Wire, to: &mut [u8]) -> io::Result<usize> {
        if self.data().is_empty() && !to.is_empty() {
            if to.len() >= DIRECT_BYTES {
                return read(wire, to);
            }
            self.fill(wire)?;
        }
        let len = self.data().len().min(to.len());
        to[..len].copy_from_slice(&self.data()[..len]);
        self.consume(len);
        Ok(len)
    }
}

/// Reads once; 0 if nothing is there.
///
/// # Errors
/// What the system says; [`ErrorKind::UnexpectedEof`] if the peer is gone.
fn read(wire: &mut dyn Wire, to: &mut [u8]) -> io::Result<usize> {
    loop {
        match wire.read(to) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => return Ok(len),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sleeps until bytes have come, there is room to send if `is_sending`, or `timeout` has passed. A signal ends it early.
pub(super) fn sleep_for(wire: &dyn Wire, is_sending: bool, timeout: Duration) {
    if wire.has_buffered() {
        return;
    }
    let flags = match is_sending || wire.has_unsent() {
        true => PollFlags::IN | PollFlags::OUT,
        false => PollFlags::IN,
    };
    let timeout = Timespec::try_from(timeout).ok();
    // An error shows in the next read.
    let _ = poll(&mut [PollFd::new(&wire, flags)], timeout.as_ref());
}

/// How long whoever ends a connection waits for the other side to close its end: what was said last is read then.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// Says that nothing more will be sent, and reads until the peer has closed too, for at most about `patience` of silence.
pub(super) fn hang_up(wire: &mut dyn Wire, patience: Duration) {
    const CHUNKS_MAX: usize = 64;
    if wire.end().is_err() {
        return;
    }
    let mut rest = vec![0; 64 << 10];
    let silence = Timespec::try_from(patience).ok();
    // What a peer goes on sending is read to an end, but not for ever.
    for _ in 0..CHUNKS_MAX {
        match wire.read(&mut rest) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut files = [PollFd::new(&wire, PollFlags::IN)];
                if !matches!(poll(&mut files, silence.as_ref()), Ok(1..)) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// Tunes a socket for short messages, and for peers whose machine is gone: it asks after 20 s of silence and gives up after 40, also what it has
/// not acknowledged. Files that are no TCP sockets have none of this.
pub(super) fn tune(file: BorrowedFd<'_>) {
    let tuned = || {
        sockopt::set_tcp_nodelay(file, true)?;
        sockopt::set_socket_keepalive(file, true)?;
        sockopt::set_tcp_keepidle(file, Duration::from_secs(20))?;
        sockopt::set_tcp_keepintvl(file, Duration::from_secs(5))?;
        sockopt::set_tcp_keepcnt(file, 4)?;
        sockopt::set_tcp_user_timeout(file, 60_000)
    };
    // A Unix socket knows none of these, and needs none.
    let _: rustix::io::Result<()> = tuned();
}
