//! Messages on their way out: several in one write, each in one or two pieces of memory that stay where they are.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

use super::wire::Wire;

/// The places of the messages that are not wholly sent, in their order.
#[derive(Debug)]
pub(super) struct Outbox {
    order: VecDeque<u32>,
    /// Bytes of the first that are sent.
    sent: usize,
}

/// The messages of places: a head, and a payload that may be empty.
pub(super) trait Sheets {
    fn pieces(&self, place: u32) -> [&[u8]; 2];
    /// The message is sent: its memory may be used again.
    fn sent(&mut self, place: u32);
}

/// Pieces that one write carries at most.
const PIECES_MAX: usize = 32;

impl Outbox {
    /// Room for `places` messages.
    pub(super) fn new(places: usize) -> Self {
        Self {
            order: VecDeque::with_capacity(places),
            sent: 0,
        }
    }

    pub(super) fn push(&mut self, place: u32) {
        self.order.push_back(place);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.sent = 0;
    }

    /// Writes as much as the wire takes; whether it took anything.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn flush(
        &mut self,
        wire: &mut dyn Wire,
        sheets: &mut impl Sheets,
    ) -> io::Result<bool> {
        let mut progress = false;
        while !self.order.is_empty() {
            let took = match self.write_some(wire, sheets) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(took) => took,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(progress),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            progress = true;
            self.advance(took, sheets);
        }
        if progress || wire.has_unsent() {
            match wire.flush() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                flushed => flushed?,
            }
        }
        Ok(progress)
    }

    fn write_some(&self, wire: &mut dyn Wire, sheets: &impl Sheets) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let (mut count, mut skip) = (0, self.sent);
        let pieces = self.order.iter().flat_map(|place| sheets.pieces(*place));
        for piece in pieces {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            if skipped == piece.len() {
                continue;
            }
            slices[count] = IoSlice::new(&piece[skipped..]);
            count += 1;
            if count == PIECES_MAX {
                break;
            }
        }
        wire.write_vectored(&slices[..count])
    }

    /// Notes that `took` more bytes are sent.
    fn advance(&mut self, took: usize, sheets: &mut impl Sheets) {
        self.sent += took;
        while let Some(&place) = self.order.front() {
            let [head, payload] = sheets.pieces(place).map(<[u8]>::len);
            let Some(rest) = self.sent.checked_sub(head + payload) else {
                break;
            };
            self.sent = rest;
            self.order.pop_front();
            sheets.sent(place);
        }
    }
}
