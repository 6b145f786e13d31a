//! What rules and flows ask of a packet: [`View`]. Beside what [`Frame`] says, it reads the ports of first fragments, and of transports that have theirs where
//! TCP has.

use dpb_core::packet::{DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING};

use super::rules::DCCP;
use crate::flow::{Flags, Tuple};
use crate::packet::Frame;
use crate::packet::protocol::{AUTHENTICATION, ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::pipeline::Reason;

/// UDP-Lite (RFC 3828).
const UDP_LITE: u8 = 136;

/// An IP packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    frame: Frame<'a>,
    tuples: Tuples,
}

/// The five-tuple of a packet of either family.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tuples {
    V4(Tuple<u32>),
    V6(Tuple<u128>),
}

impl<'a> View<'a> {
    /// Of an Ethernet frame; `None` if it is neither IPv4 nor IPv6.
    pub(super) fn of(frame: &'a [u8]) -> Result<Option<Self>, Reason> {
        Ok(Self::new(Frame::read(frame)?))
    }

    fn new(frame: Frame<'a>) -> Option<Self> {
        let tuples = match (frame.tuple_v4(), frame.tuple_v6()) {
            (Some(tuple), _) => Tuples::V4(tuple),
            (None, tuple) => Tuples::V6(tuple?),
        };
        Some(Self { frame, tuples })
    }

    /// True if it has the start of its datagram's payload, so the transport's header.
    pub(super) fn starts_here(&self) -> bool {
        self.frame.fragment().is_none_or(|part| part.start == 0)
    }

    /// True of a fragment that says that another header is in front of the transport's: what the datagram is, the fragment does not say.
    pub(super) fn hides_transport(&self) -> bool {
        let is_header = matches!(
            self.protocol(),
            HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION | AUTHENTICATION
        );
        self.frame.fragment().is_some() && is_header
    }

    /// Addresses; ports of TCP, UDP, UDP-Lite, DCCP and SCTP, of ICMP's questions and answers the identifier twice; zero where there are none.
    pub(super) fn tuples(&self) -> Tuples {
        match self.tuples {
            Tuples::V4(tuple) => Tuples::V4(Tuple {
                ports: self.ports(tuple.ports),
                ..tuple
            }),
            Tuples::V6(tuple) => Tuples::V6(Tuple {
                ports: self.ports(tuple.ports),
                ..tuple
            }),
        }
    }

    fn ports(&self, read: [u16; 2]) -> [u16; 2] {
        if self.frame.has_transport() || !self.starts_here() {
            return read;
        }
        // Not read, so the payload begins with the transport's header.
        let two = |high: &u8, low: &u8| u16::from_be_bytes([*high, *low]);
        match (self.protocol(), self.frame.payload()) {
            (TCP | UDP | UDP_LITE | DCCP | SCTP, [a, b, c, d, ..]) => [two(a, b), two(c, d)],
            (ICMP, [0 | 8, _, _, _, a, b, ..]) | (ICMPV6, [128 | 129, _, _, _, a, b, ..]) => {
                [two(a, b); 2]
            }
            _ => read,
        }
    }

    /// TCP's flags, of a first fragment too.
    pub(super) fn flags(&self) -> Option<Flags> {
        let is_first = self.frame.fragment().is_some_and(|part| part.start == 0);
        let in_first = || self.frame.payload().get(13).copied().map(Flags);
        let is_tcp = self.protocol() == TCP;
        (self.frame.tcp_flags()).or_else(|| (is_tcp && is_first).then(in_first)?)
    }

    /// The start of the packet that could not be delivered, if this is such an error.
    pub(super) fn quoted(&self) -> Option<Self> {
        let is_error = match (self.protocol(), self.frame.icmp()?) {
            // RFC 792: neither a redirection, which tells hosts where to send, nor a source quench (RFC 6633).
            (ICMP, [kind, _]) => matches!(kind, 3 | 11 | 12),
            // RFC 4443, 2.1.
            (_, [kind, _]) => matches!(kind, 1..=4),
        };
        let quoted = is_error.then(|| self.frame.quoted())??;
        let is_alike = quoted.version() == self.frame.version();
        Self::new(quoted).filter(|quoted| is_alike && quoted.starts_here())
    }

    fn protocol(&self) -> u8 {
        match self.tuples {
            Tuples::V4(tuple) => tuple.protocol,
            Tuples::V6(tuple) => tuple.protocol,
        }
    }
}
