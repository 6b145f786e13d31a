//! Messages on their way out: several in one write, each in one or two pieces of memory that stay where they are. The ends of messages that are
//! placed go by another transport, as far as the peer's ring has room; what follows them on the connection does not wait for that.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

use super::protocol::{CREDIT_BYTES, credit};
use super::talk::Broken;
use super::wire::Wire;
use crate::bulk::pieces::Outgoing;

/// The places of the messages that are not wholly sent, in their order.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Those of which the connection has still to take something, and the bytes of the first that it has.
    on_wire: VecDeque<u32>,
    sent: usize,
    /// Those whose ends are placed. Of the first of them so many are on the connection, so many are placed, and so many bytes of the next one.
    with_bodies: VecDeque<u32>,
    wired: usize,
    placed: usize,
    placed_bytes: usize,
    /// Pieces of this side's ring that the peer is still to be told of.
    owed: u32,
    /// The message that tells of some, and the bytes of it that are not sent.
    credit: [u8; CREDIT_BYTES],
    credit_left: usize,
}

/// The messages of places: a head, and a payload that may be empty.
pub(super) trait Sheets {
    fn pieces(&self, place: u32) -> [&[u8]; 2];
    /// Bytes at the message's end that go by another transport.
    fn placed_bytes(&self, place: u32) -> usize;
    /// The message is sent: its memory may be used again.
    fn sent(&mut self, place: u32);
}

/// Pieces that one write carries at most.
const PIECES_MAX: usize = 32;

impl Outbox {
    /// Room for `places` messages.
    pub(super) fn new(places: usize) -> Self {
        Self {
            on_wire: VecDeque::with_capacity(places),
            sent: 0,
            with_bodies: VecDeque::with_capacity(places),
            wired: 0,
            placed: 0,
            placed_bytes: 0,
            owed: 0,
            credit: [0; CREDIT_BYTES],
            credit_left: 0,
        }
    }

    /// The message of `place` is to be sent.
    pub(super) fn push(&mut self, place: u32, sheets: &impl Sheets) {
        self.on_wire.push_back(place);
        if sheets.placed_bytes(place) > 0 {
            self.with_bodies.push_back(place);
        }
    }

    /// Tells the peer, with what is sent next, that `pieces` of this side's ring are free again.
    pub(super) fn give_back(&mut self, pieces: u32) {
        self.owed += pieces;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.with_bodies.is_empty() && !self.wants_wire()
    }

    /// True if the connection has still to take something.
    pub(super) fn wants_wire(&self) -> bool {
        !self.on_wire.is_empty() || self.owed > 0 || self.credit_left > 0
    }

    /// True if the connection has taken a part of a message, and not all of it: nothing else can be said on it then.
    pub(super) fn is_mid_message(&self) -> bool {
        self.sent > 0 || (1..CREDIT_BYTES).contains(&self.credit_left)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.on_wire.clear();
        self.with_bodies.clear();
        (self.sent, self.wired) = (0, 0);
        (self.placed, self.placed_bytes) = (0, 0);
        (self.owed, self.credit_left) = (0, 0);
    }

    /// Writes as much as the wire takes, and the peer's ring through `outgoing`; whether these took anything.
    ///
    /// # Errors
    /// What the system says; that the other transport is broken.
    pub(super) fn flush(
        &mut self,
        wire: &mut dyn Wire,
        outgoing: Option<&mut Outgoing>,
        sheets: &mut impl Sheets,
    ) -> Result<bool, Broken> {
        let mut progress = self.place(outgoing, sheets)?;
        progress |= self.write(wire, sheets)?;
        while self.wired.min(self.placed) > 0 {
            (self.wired, self.placed) = (self.wired - 1, self.placed - 1);
            let place = self.with_bodies.pop_front();
            sheets.sent(place.expect("as many as are written"));
        }
        Ok(progress)
    }

    /// Places the bodies of messages in their order, as far as there is room.
    fn place(
        &mut self,
        mut outgoing: Option<&mut Outgoing>,
        sheets: &impl Sheets,
    ) -> Result<bool, Broken> {
        let mut progress = false;
        while let Some(&place) = self.with_bodies.get(self.placed) {
            let body = sheets.placed_bytes(place);
            while self.placed_bytes < body {
                // What is to be placed was written for a queue that has a ring.
                let Some(end) = outgoing.as_deref_mut() else {
                    return Ok(progress);
                };
                if !end.has_place()? {
                    return Ok(progress);
                }
                let len = (body - self.placed_bytes).min(end.piece_bytes());
                let parts = cut(sheets.pieces(place), body - self.placed_bytes, len);
                end.write(&parts, len)?;
                self.placed_bytes += len;
                progress = true;
            }
            (self.placed, self.placed_bytes) = (self.placed + 1, 0);
        }
        Ok(progress)
    }

    fn write(&mut self, wire: &mut dyn Wire, sheets: &mut impl Sheets) -> io::Result<bool> {
        let mut progress = false;
        while self.wants_wire() {
            self.begin_credit();
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

    /// A credit goes between two messages.
    fn begin_credit(&mut self) {
        if self.owed > 0 && self.credit_left == 0 && self.sent == 0 {
            self.credit = credit(std::mem::take(&mut self.owed));
            self.credit_left = CREDIT_BYTES;
        }
    }

    fn write_some(&self, wire: &mut dyn Wire, sheets: &impl Sheets) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let (mut count, mut skip) = (0, self.sent);
        let credit = &self.credit[CREDIT_BYTES - self.credit_left..];
        let messages = self.on_wire.iter();
        let pieces = messages.flat_map(|place| on_wire(sheets, *place));
        for (at, piece) in [credit].into_iter().chain(pieces).enumerate() {
            // The bytes that are sent are of the messages.
            let skipped = if at == 0 { 0 } else { skip.min(piece.len()) };
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
        let of_credit = took.min(self.credit_left);
        self.credit_left -= of_credit;
        self.sent += took - of_credit;
        while let Some(&place) = self.on_wire.front() {
            let [head, payload] = on_wire(sheets, place).map(<[u8]>::len);
            let Some(rest) = self.sent.checked_sub(head + payload) else {
                break;
            };
            self.sent = rest;
            self.on_wire.pop_front();
            match sheets.placed_bytes(place) {
                // The peer has it whole, whatever becomes of the bodies before it.
                0 => sheets.sent(place),
                _ => self.wired += 1,
            }
        }
    }
}

/// The pieces of a message that go over the connection.
fn on_wire(sheets: &impl Sheets, place: u32) -> [&[u8]; 2] {
    let [head, payload] = sheets.pieces(place);
    let len = head.len() + payload.len() - sheets.placed_bytes(place);
    let of_head = len.min(head.len());
    [&head[..of_head], &payload[..len - of_head]]
}

/// The first `len` of the last `left` bytes of a message.
fn cut([head, payload]: [&[u8]; 2], left: usize, len: usize) -> [&[u8]; 2] {
    let start = head.len() + payload.len() - left;
    let payload = &payload[start.saturating_sub(head.len())..];
    let head = &head[start.min(head.len())..];
    let of_head = len.min(head.len());
    [&head[..of_head], &payload[..len - of_head]]
}

#[cfg(test)]
mod tests;
