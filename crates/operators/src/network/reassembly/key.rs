//! A fragment, taken apart.

use crate::network::packet::{
    DESTINATION, FRAGMENT_BYTES, HEADERS_BYTES_MAX, HOP_BY_HOP, Packet, PacketError, ROUTING,
    Version, extension, transport_header_bytes, u16_at, u32_at,
};

/// The fields that the fragments of one datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Source, then destination; of IPv4 in the first eight bytes.
    pub(super) addresses: [u64; 4],
    pub(super) identification: u32,
    /// IPv4: 0x400 and the protocol. IPv6: 0x600, since its fragments need not agree about what follows.
    pub(super) kind: u32,
}

/// A fragment: what of it goes where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) key: Key,
    pub(super) version: Version,
    /// IPv4's header; of IPv6 the headers before the fragment header.
    pub(super) headers: &'a [u8],
    /// IPv6: where `headers` say what follows, and what does.
    pub(super) next_header: (usize, u8),
    /// The start of `payload` in the datagram's, in bytes.
    pub(super) start: usize,
    pub(super) payload: &'a [u8],
    /// Whether fragments follow it.
    pub(super) more: bool,
    /// The two bits of congestion notification.
    pub(super) ecn: u8,
}

impl Key {
    /// Of no datagram.
    pub(super) const NONE: Self = Self {
        addresses: [0; 4],
        identification: 0,
        kind: 0,
    };
}

impl<'a> Piece<'a> {
    /// The fragment that `packet` is.
    #[inline(always)] // see `Packet::parse_ipv4`
    pub(super) fn parse(packet: Packet<'a>) -> Result<Self, PacketError> {
        let piece = match packet.version() {
            Version::V4 => Self::v4(packet),
            Version::V6 => Self::v6(packet)?,
        };
        let is_right = piece.is_whole()
            || !piece.payload.is_empty() && (!piece.more || piece.payload.len().is_multiple_of(8));
        is_right.then_some(piece).ok_or(PacketError::Malformed)
    }

    #[inline(always)]
    fn v4(packet: Packet<'a>) -> Self {
        let (bytes, addresses) = (packet.bytes(), packet.addresses());
        let field = u16_at(bytes, 6);
        Self {
            key: Key {
                addresses: [word(addresses, 0), 0, 0, 0],
                identification: u16_at(bytes, 4).into(),
                kind: 0x400 | u32::from(packet.protocol()),
            },
            version: Version::V4,
            headers: packet.headers(),
            next_header: (9, packet.protocol()),
            start: usize::from(field & 0x1fff) * 8,
            payload: packet.payload(),
            more: field & 0x2000 != 0,
            ecn: bytes[1] & 3,
        }
    }

    fn v6(packet: Packet<'a>) -> Result<Self, PacketError> {
        let addresses = packet.addresses();
        let header = packet.payload().get(..FRAGMENT_BYTES);
        let header = header.ok_or(PacketError::Malformed)?;
        if packet.headers().len() > HEADERS_BYTES_MAX {
            return Err(PacketError::Headers);
        }
        let field = u16_at(header, 2);
        let piece = Self {
            key: Key {
                addresses: [0, 8, 16, 24].map(|at| word(addresses, at)),
                identification: u32_at(header, 4),
                kind: 0x600,
            },
            version: Version::V6,
            headers: packet.headers(),
            next_header: (packet.next_header_at(), header[0]),
            start: usize::from(field & !7),
            payload: &packet.payload()[FRAGMENT_BYTES..],
            more: field & 1 != 0,
            // The traffic class lies across the first two bytes.
            ecn: packet.bytes()[1] >> 4 & 3,
        };
        piece.check_chain()?;
        Ok(piece)
    }

    /// IPv6's first fragment must hold all headers, the transport's too (RFC 8200, 4.5).
    fn check_chain(&self) -> Result<(), PacketError> {
        if self.start != 0 {
            return Ok(());
        }
        let (mut protocol, mut rest) = (self.next_header.1, self.payload);
        while matches!(protocol, HOP_BY_HOP | ROUTING | DESTINATION) {
            let header = extension(rest)?;
            protocol = header[0];
            rest = &rest[header.len()..];
        }
        let is_there = rest.len() >= transport_header_bytes(protocol, rest);
        is_there.then_some(()).ok_or(PacketError::Malformed)
    }

    /// The end of `payload` in the datagram's.
    pub(super) fn end(&self) -> usize {
        self.start + self.payload.len()
    }

    /// Whether it is the whole datagram: an atomic fragment.
    pub(super) fn is_whole(&self) -> bool {
        self.start == 0 && !self.more
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[at..at + 8].try_into().expect("eight bytes");
    u64::from_le_bytes(word)
}
