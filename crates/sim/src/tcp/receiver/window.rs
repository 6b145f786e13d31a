//! The receive buffer: what the application has read, and the window that follows.

use crate::tcp::config::{Config, Reading, SECOND_PS};

/// The receive buffer of one direction.
#[derive(Clone, Debug)]
pub(super) struct Window {
    buffer: u64,
    /// The least by which the window's end moves (RFC 9293, section 3.8.6.2.2).
    step: u64,
    reading: Reading,
    /// Bytes that the application has read.
    read: u64,
    /// When the application's reading was last counted.
    settled: u64,
    /// What is left of a byte at that time, in bytes a second times picoseconds.
    remainder: u64,
    /// The position behind the window that the peer was told of.
    end: u64,
}

impl Window {
    pub(super) fn new(config: &Config) -> Self {
        let buffer = u64::from(config.receive_buffer_bytes);
        Self {
            buffer,
            step: u64::from(config.mss).min(buffer / 2).max(1),
            reading: config.reading,
            read: 0,
            settled: 0,
            remainder: 0,
            end: 0,
        }
    }

    /// The peer's stream begins at `next`.
    pub(super) fn open(&mut self, now: u64, next: u64) {
        self.end = next + self.buffer;
        self.settled = now;
    }

    /// The position behind the window that the peer was told of.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes not read of `delivered`.
    pub(super) fn unread(&self, delivered: u64) -> u64 {
        delivered - self.read
    }

    /// Lets the application read up to `now`, of `delivered` bytes in all.
    pub(super) fn settle(&mut self, now: u64, delivered: u64) {
        match self.reading {
            Reading::AtOnce => self.read = delivered,
            Reading::OnCall => {}
            Reading::Rate { bytes_per_second } => {
                let elapsed = u128::from(now - self.settled);
                let credit = elapsed * u128::from(bytes_per_second) + u128::from(self.remainder);
                let bytes = credit / u128::from(SECOND_PS);
                if bytes >= u128::from(self.unread(delivered)) {
                    // An application that waits for data saves nothing up.
                    self.read = delivered;
                    self.remainder = 0;
                } else {
                    self.read += bytes as u64;
                    self.remainder = (credit % u128::from(SECOND_PS)) as u64;
                }
            }
        }
        self.settled = now;
    }

    /// Reads up to `bytes`; the number that were read.
    pub(super) fn read(&mut self, now: u64, bytes: u64, delivered: u64) -> u64 {
        self.settle(now, delivered);
        let read = bytes.min(self.unread(delivered));
        self.read += read;
        read
    }

    fn room(&self, delivered: u64) -> u64 {
        self.buffer - self.unread(delivered).min(self.buffer)
    }

    /// The window to tell the peer now.
    pub(super) fn advertise(&mut self, next: u64, delivered: u64) -> u32 {
        let end = next + self.room(delivered);
        if end >= self.end + self.step {
            self.end = end;
        }
        // The FIN's position may lie behind the window's end.
        self.end.saturating_sub(next) as u32
    }

    /// The room at which the peer is told, as Linux does: twice what it knows of, and a segment more.
    fn worth_telling(&self, next: u64) -> u64 {
        let known = self.end.saturating_sub(next);
        (2 * known).max(known + self.step)
    }

    /// True if the window has opened so far that the peer should know.
    pub(super) fn is_worth_telling(&self, next: u64, delivered: u64) -> bool {
        self.room(delivered) >= self.worth_telling(next)
    }

    /// The time at which the application's reading has opened the window so far, if it reads at a rate.
    pub(super) fn opening(&self, next: u64, delivered: u64) -> Option<u64> {
        let Reading::Rate { bytes_per_second } = self.reading else {
            return None;
        };
        let unread_then = self.buffer.checked_sub(self.worth_telling(next))?;
        let bytes = self.unread(delivered).checked_sub(unread_then)?;
        let credit =
            (u128::from(bytes) * u128::from(SECOND_PS)).saturating_sub(u128::from(self.remainder));
        let wait = credit.div_ceil(u128::from(bytes_per_second.max(1)));
        Some(self.settled + u64::try_from(wait).ok()?)
    }
}
