//! How long a flow lives without a packet.

use super::State;
use super::record::Limits;

/// Milliseconds without a packet after which a flow is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Of flows without connections (RFC 4787, REQ-5: two minutes at least, five recommended).
    pub datagrams_ms: u32,
    /// Of ICMP's (RFC 5508, REQ-1).
    pub icmp_ms: u32,
    /// Of connections in which both sides send (RFC 5382, REQ-5).
    pub established_ms: u32,
    /// Of connections that open or close (there).
    pub transitory_ms: u32,
    /// Of closed ones: twice the longest life of a segment (RFC 9293, 3.4.2).
    pub closed_ms: u32,
    /// Within so long a table looks at each flow once, if it is asked to often enough: a flow's room is free at most so long after its end. A look
    /// reads the flow's line, one behind another: of ten million flows 640 MB a turn.
    pub turn_ms: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        const MINUTE: u32 = 60_000;
        Self {
            datagrams_ms: 5 * MINUTE,
            icmp_ms: MINUTE,
            established_ms: 124 * MINUTE,
            transitory_ms: 4 * MINUTE,
            closed_ms: 4 * MINUTE,
            turn_ms: 1000,
        }
    }
}

impl Timeouts {
    /// Of each state by its number.
    pub(super) fn by_number(&self) -> Limits {
        std::array::from_fn(|number| self.of(State::of(number as u8)))
    }

    /// That of a flow in `state`.
    #[inline(always)]
    pub(super) fn of(&self, state: State) -> u32 {
        match state {
            State::Datagrams => self.datagrams_ms,
            State::Icmp => self.icmp_ms,
            State::Established => self.established_ms,
            State::Closed => self.closed_ms,
            State::Opening
            | State::Answered
            | State::Midstream
            | State::ClosingByInitiator
            | State::ClosingByResponder => self.transitory_ms,
        }
    }
}
