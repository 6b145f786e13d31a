//! Waiting for a peer's bytes: for as long as it is granted, until told to stop.

use std::io::{self, Read};
use std::time::Duration;

use dpb_core::Timer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{BYTES_PER_S_MIN, between, stopped};
use crate::stream::{LOOK, Stream};

/// The time for which a peer may keep this side waiting.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) silence: Duration,
    pub(super) in_all: Duration,
    pub(super) left: Duration,
}

impl Grant {
    /// The time that the peer has from now on, at a time.
    pub(super) fn limit(&self) -> Duration {
        self.silence.min(self.left)
    }

    pub(super) fn account(&mut self, waited: Duration, bytes: usize) {
        let earned = Duration::from_secs_f64(bytes as f64 / BYTES_PER_S_MIN as f64);
        self.left = (self.left + earned).min(self.in_all);
        self.left = self.left.saturating_sub(waited);
    }

    /// The error of a peer that has used it up.
    pub(super) fn used_up(&self) -> io::Error {
        let text = match self.left < self.silence {
            true => "the peer sends too little for the time that it takes".to_owned(),
            false => format!("the peer sent nothing for {:?}", self.silence),
        };
        io::Error::new(io::ErrorKind::TimedOut, text)
    }
}

/// Reading with a deadline for the whole, as long as the peer is granted, until told to stop.
pub(super) struct Timed<'a> {
    pub(super) stream: &'a mut Stream,
    pub(super) clock: &'a dyn Timer,
    pub(super) deadline_ns: Option<u64>,
    pub(super) grant: Option<&'a mut Grant>,
    pub(super) stop: fn() -> bool,
}

impl Timed<'_> {
    /// Waits until there is something to read. Who waits again, because what came was no plaintext yet, gets no more time for it
    /// than is left.
    fn wait(&self, since_ns: u64, is_again: bool) -> io::Result<()> {
        if self.stream.has_plaintext() {
            return Ok(());
        }
        loop {
            let now_ns = self.clock.now_ns();
            let deadline = self.deadline_ns.map(|at_ns| between(now_ns, at_ns));
            let granted = self.grant.as_ref().map(|grant| grant.limit());
            let granted = granted.map(|limit| limit.saturating_sub(between(since_ns, now_ns)));
            let left = deadline.into_iter().chain(granted).min();
            let mut fds = [PollFd::new(&*self.stream, PollFlags::IN)];
            let timeout = left.map_or(LOOK, |left| left.min(LOOK));
            let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
            let is_over = is_again && left.is_some_and(|left| left.is_zero());
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => {}
                Ok(_) if !is_over => return Ok(()),
                Ok(_) => {}
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
        let mut is_again = false;
        loop {
            self.wait(since_ns, is_again)?;
            match self.stream.read(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => is_again = true,
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
