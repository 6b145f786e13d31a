//! Waiting for a socket that shakes hands.

use std::io;
use std::net::TcpStream;

use dpb_core::Timer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::link::between;
use crate::stream::LOOK;

/// How long a handshake may take.
pub(crate) struct Until<'a> {
    pub(crate) clock: &'a dyn Timer,
    pub(crate) deadline_ns: u64,
    /// Asked now and then whether to give up.
    pub(crate) stop: &'a dyn Fn() -> bool,
}

impl Until<'_> {
    /// Waits for one of these events of the socket.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] at the deadline, [`io::ErrorKind::ConnectionAborted`] when told to stop.
    pub(crate) fn wait(&self, tcp: &TcpStream, events: PollFlags) -> io::Result<()> {
        loop {
            let left = between(self.clock.now_ns(), self.deadline_ns);
            if left.is_zero() {
                let text = "the peer did not shake hands in time";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            if (self.stop)() {
                let text = "told to stop";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
            }
            let timeout = Timespec::try_from(left.min(LOOK)).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(tcp, events)], Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
