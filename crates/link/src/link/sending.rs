//! Frames sent, at the link's pace.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::ops::Range;
#[cfg(feature = "tls")]
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::pacer::{BURST, PACED_BYTES};
use super::{Interrupted, Link, stalled};
use crate::error::LinkError;
use crate::header::{HEADER_BYTES, Header};
use crate::stream::Stream;

/// Bytes handed to one `sendfile` on a link without a pace.
const SENDFILE_BYTES: usize = 4 << 20;
/// Bytes of a file that are read at once where they are copied.
#[cfg(feature = "tls")]
const COPY_BYTES: usize = 256 << 10;
/// The interval at which a sender that waits for its pace looks around.
const PACE_LOOK: Duration = Duration::from_millis(100);

impl Link {
    /// Waits until the link would have carried everything sent so far; asks `stop` and looks at the peer now and then.
    pub fn settle(&mut self, stop: &dyn Fn() -> bool) -> Option<Interrupted> {
        let ended = self.wait_for_pace(Duration::ZERO, stop);
        // The next message does not begin with this one's lateness.
        self.pacer.forget_lateness();
        ended
    }

    /// Waits until the link is ahead of its pace by no more than `slack`.
    pub(super) fn wait_for_pace(
        &mut self,
        slack: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Option<Interrupted> {
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

    /// Sends a small frame whole and settles.
    ///
    /// # Errors
    /// Those of the socket; a peer that takes nothing; a body beyond the tag's bound, of which nothing is sent.
    pub fn send(&mut self, tag: impl Into<u8>, body: &[u8]) -> Result<(), LinkError> {
        let header = Header::checked(tag.into(), body.len(), &self.tags)?.to_bytes();
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
        tag: impl Into<u8>,
        parts: &[&[u8]],
        len: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, LinkError> {
        let tag = tag.into();
        let Some(header) = self.header_here(tag, len)? else {
            return self.place(tag, parts, len, stop);
        };
        let mut slices = Vec::with_capacity(1 + parts.len());
        slices.push(&header[..]);
        slices.extend_from_slice(parts);
        self.send_slices(&slices, stop)
    }

    /// Sends `len` bytes of `file` from `offset` as one frame with this tag, from the page cache to the socket inside the kernel unless
    /// the stream is encrypted, or to where large bodies go.
    ///
    /// # Errors
    /// Those of the socket and the file; a file that has become shorter.
    pub fn send_file_frame(
        &mut self,
        tag: impl Into<u8>,
        file: &File,
        offset: u64,
        len: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, LinkError> {
        let tag = tag.into();
        let Some(header) = self.header_here(tag, len)? else {
            return self.place_file(tag, file, offset, len, stop);
        };
        if let Some(ended) = self.send_slices(&[&header], stop)? {
            return Ok(Some(ended));
        }
        let end = offset + len as u64;
        match self.stream {
            Stream::Plain(_) => self.send_file(file, offset..end, stop),
            #[cfg(feature = "tls")]
            Stream::Tls(_) => self.send_file_copied(file, offset..end, stop),
        }
    }

    /// The header of a frame whose body goes over this stream; `None` for a body that another transport carries.
    fn header_here(&self, tag: u8, len: usize) -> Result<Option<[u8; HEADER_BYTES]>, LinkError> {
        let header = Header::checked(tag, len, &self.tags)?;
        Ok((!self.is_placed(tag, len)).then(|| header.to_bytes()))
    }

    /// Bytes of a file, inside the kernel.
    fn send_file(
        &mut self,
        file: &File,
        range: Range<u64>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, LinkError> {
        let Range { start: mut at, end } = range;
        let mut idle_since_ns = self.clock.now_ns();
        while at < end {
            let piece = self.pacer.piece(((end - at) as usize).min(SENDFILE_BYTES));
            match rustix::fs::sendfile(self.stream.tcp(), file, Some(&mut at), piece) {
                Ok(0) => {
                    return Err(LinkError::Io(io::Error::new(
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

    /// Bytes of a file through memory of this process: what is encrypted cannot go from the page cache to the socket.
    #[cfg(feature = "tls")]
    fn send_file_copied(
        &mut self,
        file: &File,
        range: Range<u64>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, LinkError> {
        let mut buffer = vec![0; COPY_BYTES.min((range.end - range.start) as usize)];
        let mut at = range.start;
        while at < range.end {
            let piece = buffer.len().min((range.end - at) as usize);
            file.read_exact_at(&mut buffer[..piece], at)?;
            if let Some(ended) = self.send_slices(&[&buffer[..piece]], stop)? {
                return Ok(Some(ended));
            }
            at += piece as u64;
        }
        Ok(None)
    }

    pub(super) fn send_slices(
        &mut self,
        slices: &[&[u8]],
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, LinkError> {
        let mut storage: Vec<IoSlice<'_>> = slices
            .iter()
            .flat_map(|slice| slice.chunks(PACED_BYTES))
            .map(IoSlice::new)
            .collect();
        let mut rest = &mut storage[..];
        let mut idle_since_ns = self.clock.now_ns();
        while !rest.is_empty() {
            let count = self.slices_at_once(rest);
            match self.stream.write_vectored(&rest[..count]) {
                Ok(0) => return Err(LinkError::Closed),
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
        self.flush(stop)
    }

    /// Waits until the socket has taken what the stream has taken.
    fn flush(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<Interrupted>, LinkError> {
        let since_ns = self.clock.now_ns();
        while self.stream.has_unsent() {
            if let Err(e) = self.stream.flush()
                && let Some(ended) = self.blocked(e, since_ns, stop)?
            {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    /// The number of slices that one write may take: the kernel's bound, and the pacer's.
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
    pub(super) fn sent(&mut self, bytes: usize, stop: &dyn Fn() -> bool) -> Option<Interrupted> {
        self.sent_bytes += bytes as u64;
        self.pacer.sent(bytes, self.clock.now_ns());
        self.wait_for_pace(BURST, stop)
    }

    /// A write that did not go through: waits on, or says why it is over.
    pub(super) fn blocked(
        &self,
        error: io::Error,
        idle_since_ns: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, LinkError> {
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(None),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                if stop() || self.peer_gone() {
                    Ok(Some(Interrupted::Stopped))
                } else if self.since(idle_since_ns) > self.patience() && !self.pauses() {
                    Ok(Some(Interrupted::Stalled))
                } else {
                    Ok(None)
                }
            }
            _ => Err(LinkError::Io(error)),
        }
    }
}
