//! Frames received.

use std::io::{self, Read};
use std::time::Duration;

use super::timed::Timed;
use super::{Link, stopped};
use crate::error::{LinkError, parse_refusal};
use crate::header::{HEADER_BYTES, Header};
use crate::tag::{CREDIT, ERROR, PLACED};

impl Link {
    /// The next frame's header; `None` if the peer closed cleanly. Of a body that another transport carries it is that body's; what
    /// only serves that transport is dealt with here.
    ///
    /// # Errors
    /// Those of [`Header::read`].
    pub fn receive_header(&mut self) -> Result<Option<Header>, LinkError> {
        if let Some(header) = self.interjected.take() {
            return Ok(Some(header));
        }
        loop {
            let Some(header) = self.receive_any_header()? else {
                return Ok(None);
            };
            match header.tag {
                CREDIT => self.take_credit(header)?,
                PLACED => return self.expect_pieces(header).map(Some),
                _ => return Ok(Some(header)),
            }
        }
    }

    /// The next frame's header where the peer owes one; an error frame becomes its error.
    ///
    /// # Errors
    /// As [`Link::receive_header`]; a peer that has closed; [`LinkError::Refused`].
    pub fn receive_answer(&mut self) -> Result<Header, LinkError> {
        let header = self.receive_header()?.ok_or(LinkError::Closed)?;
        if header.tag == ERROR {
            let body = self.receive_body(header)?;
            return Err(parse_refusal(&body));
        }
        Ok(header)
    }

    /// The same where only one tag is right.
    ///
    /// # Errors
    /// As [`Link::receive_answer`]; [`LinkError::OutOfPlace`] of another tag.
    pub fn receive_answer_of(&mut self, tag: impl Into<u8>) -> Result<Header, LinkError> {
        let header = self.receive_answer()?;
        match header.tag == tag.into() {
            true => Ok(header),
            false => Err(LinkError::OutOfPlace(header.tag)),
        }
    }

    pub(super) fn receive_any_header(&mut self) -> Result<Option<Header>, LinkError> {
        if (self.stop)() {
            return Err(LinkError::Io(stopped()));
        }
        let header = {
            let tags = self.tags;
            Header::read(&mut self.timed(), &tags)?
        };
        if header.is_some() {
            self.received_bytes += HEADER_BYTES as u64;
        }
        Ok(header)
    }

    /// The body of a frame whose header was read.
    ///
    /// # Errors
    /// [`LinkError::Torn`] if the stream ends inside; [`LinkError::Io`].
    pub fn receive_body(&mut self, header: Header) -> Result<Vec<u8>, LinkError> {
        let mut body = vec![0; header.len];
        self.receive_exact(&mut body)?;
        Ok(body)
    }

    /// Fills `bytes`.
    ///
    /// # Errors
    /// As [`Link::receive_body`].
    pub fn receive_exact(&mut self, bytes: &mut [u8]) -> Result<(), LinkError> {
        match self.is_in_pieces() {
            true => self.receive_pieces(bytes),
            false => self.receive_from_stream(bytes),
        }
    }

    pub(super) fn receive_from_stream(&mut self, bytes: &mut [u8]) -> Result<(), LinkError> {
        self.timed().read_exact(bytes).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => LinkError::Torn,
            _ => LinkError::Io(e),
        })?;
        self.received_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Reads and drops what the peer still sends, until it closes or `patience` ends.
    pub(super) fn drain(&mut self, patience: Duration) {
        let deadline_ns = self.ns_in(patience);
        let mut timed = self.timed();
        timed.deadline_ns = Some(deadline_ns);
        let mut dropped = [0; 4096];
        while matches!(timed.read(&mut dropped), Ok(1..)) {}
    }

    pub(super) fn timed(&mut self) -> Timed<'_> {
        Timed {
            stream: &mut self.stream,
            clock: &*self.clock,
            deadline_ns: self.deadline_ns,
            grant: self.grant.as_mut(),
            stop: self.stop,
        }
    }
}
