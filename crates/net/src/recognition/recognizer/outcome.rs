//! A packet as a recognizer sees it, and what comes of it.

use super::super::{Label, Verdict};
use crate::flow::{Direction, Flags};

/// The part of a TCP header that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The sequence number.
    pub sequence: u32,
    /// The flags.
    pub flags: Flags,
}

/// A packet of TCP or UDP.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The caller's number of the flow, which comes back with [candidates](super::Candidate); nothing else is done with it.
    pub flow: u64,
    /// The packet's direction in the flow.
    pub direction: Direction,
    /// Of TCP; `None` for UDP.
    pub segment: Option<Segment>,
    /// From where to where; IPv4 as `::ffff:a.b.c.d`.
    pub addresses: [u128; 2],
    /// The ports, likewise.
    pub ports: [u16; 2],
    /// What is behind the header, as far as it was captured.
    pub payload: &'a [u8],
}

/// Why a flow is looked at no more, though its bytes have not said what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GiveUp {
    /// No reader knows what was seen.
    Foreign,
    /// As many packets or bytes were seen as may be.
    Limit,
    /// The flow has ended.
    Ended,
    /// There was no memory for it.
    NoRoom,
    /// Its memory was given to a newer flow, since it was idle.
    Reclaimed,
}

/// What came of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The next packet is wanted too.
    Inspect,
    /// This packet decided the flow.
    Verdict(&'a Verdict),
    /// The flow is given up with this packet; the verdict rests on names of addresses and on ports, if on anything.
    GaveUp(GiveUp, &'a Verdict),
    /// The flow was decided before.
    Known(Label),
}

impl<'a> Outcome<'a> {
    /// The verdict that this packet brought.
    pub fn verdict(self) -> Option<&'a Verdict> {
        match self {
            Self::Verdict(verdict) | Self::GaveUp(_, verdict) => Some(verdict),
            _ => None,
        }
    }
}

/// What a recognizer counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets of flows that were decided before.
    pub known: u64,
    /// Packets that were looked at.
    pub inspected: u64,
    /// Looks of readers at what is held of connections.
    pub readings: u64,
    /// Flows decided by their bytes.
    pub verdicts: u64,
    /// Of these, flows of which nothing was ever held.
    pub at_once: u64,
    /// Flows given up.
    pub given_up: u64,
    /// Of these, flows for which there was no room, and flows that made room for others.
    pub refused: u64,
    /// See `refused`.
    pub reclaimed: u64,
    /// Pieces of streams and hellos that were dropped: behind 8 KiB, or no block was left.
    pub dropped: u64,
    /// Addresses that got a name.
    pub names: u64,
}
