//! What the reader of bursts says of a packet.

use dpb_core::packet::TCP;

use super::{Places, Refusal};
use crate::flow::{Direction, Flags};

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is none: the packet is of no tunnel. Of [`Headers::read_inner`](super::Headers::read_inner) only.
    Absent,
    /// It was refused.
    Refused(Refusal),
    /// It is no IP packet.
    Other,
    /// An IPv4 packet.
    Ipv4,
    /// An IPv6 packet.
    Ipv6,
}

/// Marks of a packet, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(pub u8);

impl Marks {
    /// The header of the transport was read: of TCP, UDP, SCTP, ICMP, GRE in whole packets.
    pub const TRANSPORT: Self = Self(1);
    /// The packet goes from the higher end to the lower one: [`Direction::Down`].
    pub const REVERSED: Self = Self(2);
    /// The frame has VLAN tags.
    pub const TAGGED: Self = Self(4);
    /// IPv4 has options, IPv6 extension headers, or either an authentication header.
    pub const OPTIONS: Self = Self(8);
    /// A part of a datagram.
    pub const FRAGMENT: Self = Self(16);
    /// A tunnel, whose inside [`Headers::read_inner`](super::Headers::read_inner) reads.
    pub const TUNNEL: Self = Self(32);
    /// An authentication header covers the addresses.
    pub const AUTHENTICATED: Self = Self(64);
    /// A routing header of IPv6 has segments left.
    pub const ROUTED: Self = Self(128);

    /// True if any of `other` is set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Both, if `is_set`, without a branch.
    #[inline(always)]
    pub(super) const fn and_if(self, other: Self, is_set: bool) -> Self {
        Self(self.0 | (other.0 * is_set as u8))
    }
}

/// What is known of a packet beside its [`Places`] and its tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Facts {
    /// What became of it. What follows is zero but for the packets of IP, and `bytes`.
    pub verdict: Verdict,
    /// The protocol's number (IANA), behind extension headers.
    pub protocol: u8,
    /// TCP's flags, as [`Flags`] has them; zero of others.
    pub tcp_flags: u8,
    /// Marks.
    pub marks: Marks,
    /// Bytes of the frame, with those that pad it; of a tunnel's inside, bytes of that.
    pub bytes: u32,
}

const _: () = assert!(size_of::<Facts>() == 8 && size_of::<Places>() == 8);

impl Facts {
    pub(super) const ABSENT: Self = Self::new(Verdict::Absent, 0);

    pub(super) const fn new(verdict: Verdict, bytes: u32) -> Self {
        Self {
            verdict,
            protocol: 0,
            tcp_flags: 0,
            marks: Marks(0),
            bytes,
        }
    }

    /// TCP's flags, of whole packets of TCP.
    #[inline(always)]
    pub fn flags(&self) -> Option<Flags> {
        // Without `&&`, and of a copy, as a burst has TCP and UDP in any order: no branch.
        let facts = *self;
        let is_tcp = (facts.protocol == TCP) & facts.marks.has(Marks::TRANSPORT);
        is_tcp.then_some(Flags(facts.tcp_flags))
    }

    /// The direction that the packet has in its flow.
    #[inline(always)]
    pub fn direction(&self) -> Direction {
        match self.marks.has(Marks::REVERSED) {
            true => Direction::Down,
            false => Direction::Up,
        }
    }
}
