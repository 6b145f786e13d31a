//! A link whose large bodies go by another transport, see [`crate::bulk`].

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dpb_core::Timer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Interrupted, Link, between, stopped};
use crate::bulk::pieces::{Incoming, Outgoing};
use crate::bulk::{BodyReader, BodyWriter, Broken, INLINE_BYTES_MAX, PATIENCE};
use crate::error::{LinkError, parse_refusal};
use crate::header::Header;
use crate::placed::{Placed, credit_bytes, parse_credit};
use crate::tag::{CREDIT, ERROR, PLACED, STOP, Tags};

/// The interval at which a side that waits looks around.
const LOOK: Duration = Duration::from_millis(10);
/// Looks for a piece before the first one at the clock.
const SPINS: u32 = 256;
/// The time for which a waiting side offers its core to others between looks, before it sleeps.
const YIELDS: Duration = Duration::from_millis(1);
/// The time for which it sleeps then.
const NAP: Duration = Duration::from_micros(100);

impl From<Broken> for LinkError {
    fn from(broken: Broken) -> Self {
        Self::Bulk(broken.0)
    }
}

impl Link {
    /// Sends large bodies by this transport from now on; holds `held` as long.
    pub fn set_writer(&mut self, writer: Box<dyn BodyWriter>, held: Arc<()>) {
        self.outgoing = Some((Outgoing::new(writer), held));
    }

    /// Takes large bodies from this transport from now on.
    pub fn set_reader(&mut self, reader: Box<dyn BodyReader>) {
        self.incoming = Some(Incoming::new(reader));
    }

    /// Returns true if large bodies are sent by another transport.
    pub fn has_writer(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Bytes of bodies that went by another transport, sent and received.
    pub fn bulk_bytes(&self) -> (u64, u64) {
        (
            self.outgoing.as_ref().map_or(0, |(end, _)| end.bytes()),
            self.incoming.as_ref().map_or(0, Incoming::bytes),
        )
    }

    /// The header of what the peer has said, without waiting for it; credits are taken.
    ///
    /// # Errors
    /// As [`Link::receive_header`]; a peer that has closed.
    pub fn interjection(&mut self) -> Result<Option<Header>, LinkError> {
        self.take_credits()?;
        if self.interjected.is_none() && self.outgoing.is_none() && self.peer_stirs() {
            return self.receive_header()?.ok_or(LinkError::Closed).map(Some);
        }
        Ok(self.interjected.take())
    }

    /// Waits until all that was written to the other transport has arrived.
    ///
    /// # Errors
    /// It is broken, or takes longer than the patience.
    pub fn settle_pieces(
        &mut self,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, LinkError> {
        let mut waiting = Waiting::new(self.patience(), Arc::clone(&self.clock));
        while let Some((end, _)) = &mut self.outgoing
            && end.in_flight()? > 0
        {
            match waiting.look() {
                Look::Around if stop() || self.peer_gone() => {
                    return Ok(Some(Interrupted::Stopped));
                }
                Look::Over => return Ok(Some(Interrupted::Stalled)),
                _ => {}
            }
        }
        Ok(None)
    }

    pub(super) fn is_placed(&self, tag: u8, len: usize) -> bool {
        self.outgoing.is_some() && self.tags.is_bulk(tag) && len > INLINE_BYTES_MAX
    }

    /// Sends the parts as pieces.
    pub(super) fn place(
        &mut self,
        tag: u8,
        parts: &[&[u8]],
        len: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, LinkError> {
        if let Some(ended) = self.announce(tag, len, stop)? {
            return Ok(Some(ended));
        }
        let mut rest = Cut {
            parts,
            at: 0,
            piece: Vec::with_capacity(parts.len()),
        };
        let mut left = len;
        while left > 0 {
            let piece = left.min(self.piece_bytes());
            if let Some(ended) = self.write_piece(rest.next(piece), piece, stop)? {
                return Ok(Some(ended));
            }
            left -= piece;
        }
        Ok(None)
    }

    /// Sends part of a file as pieces.
    pub(super) fn place_file(
        &mut self,
        tag: u8,
        file: &File,
        offset: u64,
        len: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, LinkError> {
        if let Some(ended) = self.announce(tag, len, stop)? {
            return Ok(Some(ended));
        }
        let mut buffer = vec![0; self.piece_bytes().min(len)];
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(buffer.len());
            file.read_exact_at(&mut buffer[..piece], offset + done as u64)?;
            if let Some(ended) = self.write_piece(&[&buffer[..piece]], piece, stop)? {
                return Ok(Some(ended));
            }
            done += piece;
        }
        Ok(None)
    }

    fn piece_bytes(&self) -> usize {
        let end = self.outgoing.as_ref();
        end.map_or(usize::MAX, |(end, _)| end.piece_bytes())
    }

    /// Before its pieces: there may be more of them than the ring holds, and the client gives room back as it takes them.
    fn announce(
        &mut self,
        of: u8,
        len: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, LinkError> {
        let placed = Placed { of, len }.to_bytes();
        let header = Header::checked(PLACED, placed.len(), &self.tags)?.to_bytes();
        self.send_slices(&[&header, &placed], stop)
    }

    fn write_piece(
        &mut self,
        parts: &[&[u8]],
        len: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Interrupted>, LinkError> {
        if let Some(ended) = self.wait_for_room(stop)? {
            return Ok(Some(ended));
        }
        if let Some((end, _)) = &mut self.outgoing {
            end.write(parts, len)?;
            self.sent_bytes += len as u64;
        }
        Ok(None)
    }

    fn wait_for_room(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<Interrupted>, LinkError> {
        let since_ns = self.clock.now_ns();
        loop {
            match &mut self.outgoing {
                Some((end, _)) if !end.has_room() => drop(end.in_flight()?),
                _ => return Ok(None),
            }
            self.take_credits()?;
            if stop() || self.peer_gone() {
                return Ok(Some(Interrupted::Stopped));
            }
            if self.since(since_ns) > self.patience() && !self.pauses() {
                return Ok(Some(Interrupted::Stalled));
            }
            if self
                .outgoing
                .as_ref()
                .is_some_and(|(end, _)| !end.has_room())
            {
                let mut fds = [PollFd::new(&self.stream, PollFlags::IN | PollFlags::RDHUP)];
                let look = Timespec::try_from(LOOK).map_err(std::io::Error::other)?;
                // Whatever it says, it is looked at above.
                let _ = poll(&mut fds, Some(&look));
            }
        }
    }

    /// Takes credits that are there. A stop that comes between them is kept for who asks.
    fn take_credits(&mut self) -> Result<(), LinkError> {
        while self.outgoing.is_some() && self.peer_stirs() {
            let header = self.receive_any_header()?.ok_or(LinkError::Closed)?;
            match header.tag {
                CREDIT => self.take_credit(header)?,
                STOP if self.interjected.is_none() => self.interjected = Some(header),
                tag => return Err(LinkError::OutOfPlace(tag)),
            }
        }
        Ok(())
    }

    /// Counts the room that the client gives back: never more than was taken.
    pub(super) fn take_credit(&mut self, header: Header) -> Result<(), LinkError> {
        let mut body = [0; 4];
        let body = &mut body[..header.len];
        self.receive_from_stream(body)?;
        let pieces = parse_credit(body)?;
        let end = self.outgoing.as_mut();
        let (end, _) = end.ok_or(LinkError::OutOfPlace(CREDIT))?;
        match end.take_credit(pieces) {
            true => Ok(()),
            false => Err(LinkError::Malformed("a credit for more than was sent")),
        }
    }

    /// A body was announced; its own header.
    pub(super) fn expect_pieces(&mut self, header: Header) -> Result<Header, LinkError> {
        let mut body = [0; 8];
        let body = &mut body[..header.len];
        self.receive_from_stream(body)?;
        let placed = Placed::parse(body, &self.tags)?;
        let end = self.incoming.as_mut();
        if !end.is_some_and(|end| end.expect(placed.len)) {
            return Err(LinkError::OutOfPlace(PLACED));
        }
        Ok(Header {
            tag: placed.of,
            len: placed.len,
        })
    }

    /// Returns true if what is received next comes in pieces.
    pub(super) fn is_in_pieces(&self) -> bool {
        self.incoming.as_ref().is_some_and(|end| end.left() > 0)
    }

    /// Fills `bytes` from pieces.
    pub(super) fn receive_pieces(&mut self, bytes: &mut [u8]) -> Result<(), LinkError> {
        if self
            .incoming
            .as_ref()
            .is_none_or(|end| bytes.len() > end.left())
        {
            return Err(LinkError::Torn);
        }
        let mut filled = 0;
        while filled < bytes.len() {
            let since_ns = self.clock.now_ns();
            self.await_piece()?;
            let waited = self.since(since_ns);
            let Some(end) = &mut self.incoming else {
                return Err(LinkError::Torn);
            };
            let taken = end.take(&mut bytes[filled..])?;
            if let Some(grant) = &mut self.grant {
                grant.account(waited, taken);
            }
            filled += taken;
            if let Some(owed) = end.credit() {
                self.send(CREDIT, &credit_bytes(owed))?;
            }
        }
        self.received_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Waits for the next piece, if none is being taken.
    fn await_piece(&mut self) -> Result<(), LinkError> {
        let granted = self.grant.as_ref().map(|grant| grant.limit());
        let patience = granted.map_or(PATIENCE, |limit| limit.min(PATIENCE));
        let mut waiting = Waiting::new(patience, Arc::clone(&self.clock));
        loop {
            let is_last_look = self.peer_gone_after(&waiting);
            let Some(end) = &mut self.incoming else {
                return Ok(());
            };
            if end.has_piece()? {
                return Ok(());
            }
            if is_last_look {
                return Err(self.last_words());
            }
            match waiting.look() {
                Look::Around if (self.stop)() => return Err(LinkError::Io(stopped())),
                Look::Around => end.check()?,
                Look::Over => {
                    return Err(LinkError::Bulk(format!(
                        "nothing arrived for {patience:?} of what the agent announced"
                    )));
                }
                Look::On => {}
            }
        }
    }

    /// Returns true if the agent is gone: then what it has written is there, or will never be.
    fn peer_gone_after(&self, waiting: &Waiting) -> bool {
        waiting.is_due() && self.peer_gone()
    }

    /// The reason why an agent has gone, if it said so behind what it had announced.
    fn last_words(&mut self) -> LinkError {
        self.set_deadline(Some(Duration::from_secs(1)));
        let error_bytes_max = Tags::NONE.body_bytes_max(ERROR).unwrap_or_default();
        let mut dropped = vec![0; error_bytes_max];
        loop {
            match self.receive_any_header() {
                Ok(Some(header)) if header.len <= dropped.len() => {
                    let body = &mut dropped[..header.len];
                    match self.receive_from_stream(body) {
                        Ok(()) if header.tag == ERROR => return parse_refusal(body),
                        Ok(()) => {}
                        Err(error) => return error,
                    }
                }
                Ok(Some(header)) => return LinkError::OutOfPlace(header.tag),
                Ok(None) => return LinkError::Closed,
                Err(error) => return error,
            }
        }
    }
}

/// The parts of a body, cut anew.
struct Cut<'a> {
    parts: &'a [&'a [u8]],
    /// Bytes of the first part that were given out.
    at: usize,
    piece: Vec<&'a [u8]>,
}

impl<'a> Cut<'a> {
    /// The next `len` bytes, as far as there are any.
    fn next(&mut self, mut len: usize) -> &[&'a [u8]] {
        self.piece.clear();
        while let [first, rest @ ..] = self.parts
            && len > 0
        {
            let (now, later) = first[self.at..].split_at(len.min(first.len() - self.at));
            self.piece.push(now);
            len -= now.len();
            if later.is_empty() {
                (self.parts, self.at) = (rest, 0);
            } else {
                self.at += now.len();
            }
        }
        &self.piece
    }
}

/// Waiting for what comes without a word: at first as if it came at once, then ever more patiently.
struct Waiting {
    clock: Arc<dyn Timer>,
    spins: u32,
    since_ns: Option<u64>,
    looked_ns: Option<u64>,
    patience: Duration,
}

/// What is to be done while waiting.
#[derive(PartialEq, Eq)]
enum Look {
    /// Nothing.
    On,
    /// Look whether everyone is still there.
    Around,
    /// Wait no longer.
    Over,
}

impl Waiting {
    fn new(patience: Duration, clock: Arc<dyn Timer>) -> Self {
        Self {
            clock,
            spins: 0,
            since_ns: None,
            looked_ns: None,
            patience,
        }
    }

    /// Returns true if the last look is so long ago that the next is one around.
    fn is_due(&self) -> bool {
        let now_ns = || self.clock.now_ns();
        self.looked_ns
            .is_some_and(|looked_ns| between(looked_ns, now_ns()) >= LOOK)
    }

    fn look(&mut self) -> Look {
        if self.spins < SPINS {
            self.spins += 1;
            std::hint::spin_loop();
            return Look::On;
        }
        let now_ns = self.clock.now_ns();
        let waited = between(*self.since_ns.get_or_insert(now_ns), now_ns);
        if waited > self.patience {
            return Look::Over;
        }
        if between(*self.looked_ns.get_or_insert(now_ns), now_ns) >= LOOK {
            self.looked_ns = Some(now_ns);
            return Look::Around;
        }
        match waited < YIELDS {
            true => thread::yield_now(),
            false => self.clock.sleep(NAP),
        }
        Look::On
    }
}
