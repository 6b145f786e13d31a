//! A queue's transport beside its connection: a ring at each end, into which the other end writes the bytes of items and outputs.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::codec::Malformed;
use super::protocol::{CREDIT_BYTES, read_credit};
use super::talk::Broken;
use super::wire::{Inbox, Wire, sleep_for};
use crate::bulk::pieces::{Incoming, Outgoing};
use crate::bulk::{BodyReader, BodyWriter, INLINE_BYTES_MAX};

/// The time after which a side that waits for a piece looks whether any can still arrive.
const LOOK: Duration = Duration::from_millis(10);
/// The time after which it looks for a piece that no file tells of.
const NAP: Duration = Duration::from_micros(100);

/// Both directions of a transport, as one end has them.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) outgoing: Outgoing,
    incoming: Incoming,
    /// The bodies that were announced: the place of each one's job, and its bytes. Their pieces come in this order. What the connection brings is
    /// read meanwhile, for the peer's pieces may wait for a credit that it brings.
    due: VecDeque<(u32, usize)>,
    /// The silence at which the next look around is due.
    look_at: Duration,
}

impl Rings {
    /// For a queue of at most `depth` jobs.
    pub(super) fn new(
        writer: Box<dyn BodyWriter>,
        reader: Box<dyn BodyReader>,
        depth: usize,
    ) -> Self {
        Self {
            outgoing: Outgoing::new(writer),
            incoming: Incoming::new(reader),
            due: VecDeque::with_capacity(depth),
            look_at: LOOK,
        }
    }

    /// Looks whether the transport is still there, after nothing has moved for `silence`. What was written may have failed to arrive.
    pub(super) fn look(&mut self, silence: Duration) -> Result<(), Broken> {
        self.outgoing.in_flight()?;
        if silence < LOOK {
            self.look_at = LOOK;
        } else if silence >= self.look_at {
            self.look_at = silence + LOOK;
            self.incoming.check()?;
        }
        Ok(())
    }

    /// Expects a body of `len` bytes in pieces, for the job in `place`.
    pub(super) fn expect(
        rings: Option<&mut Self>,
        place: u32,
        len: usize,
    ) -> Result<(), Malformed> {
        let Some(rings) = rings else {
            return Err(Malformed("a placed message where there is no ring"));
        };
        if len == 0 {
            return Err(Malformed("a placed message without a body"));
        }
        rings.due.push_back((place, len));
        rings.begin();
        Ok(())
    }

    /// The place of the job whose body comes next, and the body's bytes.
    pub(super) fn due(&self) -> Option<(u32, usize)> {
        self.due.front().copied()
    }

    /// Fills the front of `to` from the body that is due; says how many bytes came.
    pub(super) fn take(&mut self, to: &mut [u8]) -> Result<usize, Broken> {
        Ok(self.incoming.take(to)?)
    }

    /// The body that was due is there: the next one is due now.
    pub(super) fn end(&mut self) {
        self.due.pop_front();
        self.begin();
    }

    fn begin(&mut self) {
        if let Some((_, len)) = self.due.front()
            && self.incoming.left() == 0
        {
            self.incoming.expect(*len);
        }
    }

    /// Pieces to be given back to the peer, once they are worth a message.
    pub(super) fn credit(&mut self) -> Option<u32> {
        self.incoming.credit()
    }

    /// Takes the credit at the front of `inbox`, if one is there whole.
    pub(super) fn take_credit(rings: Option<&mut Self>, inbox: &mut Inbox) -> Result<bool, Broken> {
        let Some(pieces) = read_credit(inbox.data())? else {
            return Ok(false);
        };
        inbox.consume(CREDIT_BYTES);
        let is_right = |rings: &mut Self| pieces > 0 && rings.outgoing.take_credit(pieces);
        match rings.is_some_and(is_right) {
            true => Ok(true),
            false => Err(Malformed("a credit for more than was sent").into()),
        }
    }

    /// True if a body is due and bytes of it are there. The length of a piece is known once its message has come, so one that came before its
    /// message is not looked at.
    pub(super) fn has_due_piece(&mut self) -> Result<bool, Broken> {
        Ok(!self.due.is_empty() && self.incoming.has_piece()?)
    }

    /// The file that is readable when a piece has arrived since [`Rings::arm`], if one tells of pieces.
    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.incoming.file()
    }

    /// Has the file tell of the next piece; of one that has arrived by now it need not tell.
    pub(super) fn arm(&mut self) -> Result<(), Broken> {
        Ok(self.incoming.arm()?)
    }

    /// Sleeps until a piece arrives, bytes come on `wire`, there is room to send on it if `is_sending`, or `timeout` has passed. Does not sleep if
    /// bytes of the body that is due are there. The caller has called [`Rings::arm`].
    pub(super) fn sleep(
        &mut self,
        wire: &dyn Wire,
        is_sending: bool,
        timeout: Duration,
    ) -> Result<(), Broken> {
        // The file need not tell of what arrived before it was armed.
        if self.has_due_piece()? || wire.has_buffered() {
            return Ok(());
        }
        let Some(file) = self.incoming.file() else {
            let timeout = match self.due.is_empty() {
                true => timeout,
                false => timeout.min(NAP),
            };
            sleep_for(wire, is_sending, timeout);
            return Ok(());
        };
        let flags = match is_sending {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        };
        let mut files = [PollFd::new(&file, PollFlags::IN), PollFd::new(&wire, flags)];
        let timeout = Timespec::try_from(timeout).ok();
        // An error shows in what is done next.
        let _ = poll(&mut files, timeout.as_ref());
        Ok(())
    }
}

/// Most bytes of items or outputs that stay on the connection of a queue with or without a transport beside it. They are there with their
/// message, in one packet or a few, while a piece takes a post and a completion of its own.
pub(super) fn inline_bytes_max(rings: Option<&Rings>) -> usize {
    match rings {
        Some(_) => INLINE_BYTES_MAX,
        None => usize::MAX,
    }
}
