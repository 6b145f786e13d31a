//! Frames received.

use std::io::{self, Read};
use std::time::Duration;

use arrow_buffer::{Buffer, MutableBuffer};

use super::timed::Timed;
use super::{Link, stopped};
use crate::service::protocol::{self, Header, Tag, WireError};

impl Link {
    /// The next frame's header; `None` if the peer closed cleanly. Of a body that another transport carries it is that body's; what
    /// only serves that transport is dealt with here.
    ///
    /// # Errors
    /// Those of [`Header::read`].
    pub(in crate::service) fn receive_header(&mut self) -> Result<Option<Header>, WireError> {
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

    pub(super) fn receive_any_header(&mut self) -> Result<Option<Header>, WireError> {
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
    pub(in crate::service) fn receive_body(
        &mut self,
        header: Header,
    ) -> Result<Vec<u8>, WireError> {
        let mut body = vec![0; header.len];
        self.receive_exact(&mut body)?;
        Ok(body)
    }

    /// The same for large bodies: they lie in memory that [`Link::give_back`] has returned, if it is long enough. The
    /// buffer may be longer than the body; slice it.
    ///
    /// # Errors
    /// As [`Link::receive_body`].
    pub(in crate::service) fn receive_large_body(
        &mut self,
        header: Header,
    ) -> Result<Buffer, WireError> {
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
    pub(in crate::service) fn receive_exact(&mut self, bytes: &mut [u8]) -> Result<(), WireError> {
        match self.is_in_pieces() {
            true => self.receive_pieces(bytes),
            false => self.receive_from_stream(bytes),
        }
    }

    pub(super) fn receive_from_stream(&mut self, bytes: &mut [u8]) -> Result<(), WireError> {
        self.timed().read_exact(bytes).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => WireError::Torn,
            _ => WireError::Io(e),
        })?;
        self.received_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Reads and drops what the peer still sends, until it closes or `patience` ends.
    pub(in crate::service) fn drain(&mut self, patience: Duration) {
        let deadline_ns = self.ns_in(patience);
        let mut timed = self.timed();
        timed.deadline_ns = Some(deadline_ns);
        let mut dropped = [0; 4096];
        while matches!(timed.read(&mut dropped), Ok(1..)) {}
    }

    /// Takes a buffer of [`Link::receive_large_body`] back, to be used again, if nobody else holds a part of it.
    pub(in crate::service) fn give_back(&mut self, buffer: Buffer) {
        if let Ok(bytes) = buffer.into_mutable() {
            self.spare = bytes;
        }
    }

    pub(super) fn timed(&mut self) -> Timed<'_> {
        Timed {
            stream: &self.stream,
            clock: &*self.clock,
            deadline_ns: self.deadline_ns,
            grant: self.grant.as_mut(),
            stop: self.stop,
        }
    }
}
