//! Long headers of QUIC (RFC 8999; RFC 9000, 17.2), in clear but for the number of the packet.

use super::super::bytes::Bytes;
use super::{Kind, Version};

/// A packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its version; `None` of a version negotiation and of foreign ones.
    pub version: Option<Version>,
    /// The number that the receiver chose for the connection, or, in a client's first packets, that the client drew.
    pub destination: &'a [u8],
    /// The number that the sender chose.
    pub source: &'a [u8],
    /// The token of an Initial, or of a Retry.
    pub token: &'a [u8],
    /// All of it, from its first byte.
    pub bytes: &'a [u8],
    /// The place of its number in it.
    pub number_at: usize,
}

/// The packets of a datagram, until one has a short header or is none.
#[derive(Clone, Debug)]
pub struct Packets<'a>(&'a [u8]);

impl<'a> Packets<'a> {
    /// Of this datagram.
    pub fn new(datagram: &'a [u8]) -> Self {
        Self(datagram)
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        let packet = packet(self.0);
        self.0 = match &packet {
            Some(packet) => &self.0[packet.bytes.len()..],
            None => &[],
        };
        packet
    }
}

/// Connections' numbers of the versions that are read here have at most so many bytes.
const ID_BYTES_MAX: usize = 20;

fn packet(datagram: &[u8]) -> Option<Packet<'_>> {
    let mut bytes = Bytes(datagram);
    let first = bytes.u8().filter(|first| first & 0x80 != 0)?;
    let number = bytes.u32()?;
    let destination = bytes.vector_8()?;
    let source = bytes.vector_8()?;
    let rest = Packet {
        kind: Kind::VersionNegotiation,
        version: None,
        destination,
        source,
        token: &[],
        bytes: datagram,
        number_at: datagram.len(),
    };
    if number == 0 {
        // The versions, four bytes each.
        let is_list = bytes.len() >= 4 && bytes.len() % 4 == 0;
        return is_list.then_some(rest);
    }
    let Some(version) = Version::of(number) else {
        return Some(Packet {
            kind: Kind::Foreign(number),
            ..rest
        });
    };
    let has_fixed_bit = first & 0x40 != 0;
    if !has_fixed_bit || destination.len().max(source.len()) > ID_BYTES_MAX {
        return None;
    }
    let kind = version.kind(first >> 4 & 3);
    if kind == Kind::Retry {
        // Its last 16 bytes prove that it is whole.
        let token = bytes.take(bytes.len().checked_sub(16)?)?;
        return Some(Packet {
            kind,
            version: Some(version),
            token,
            ..rest
        });
    }
    let token = match kind {
        Kind::Initial => {
            let len = variable(&mut bytes)?;
            bytes.take(usize::try_from(len).ok()?)?
        }
        _ => &[],
    };
    let len = usize::try_from(variable(&mut bytes)?).ok()?;
    let number_at = datagram.len() - bytes.len();
    bytes.take(len)?;
    Some(Packet {
        kind,
        version: Some(version),
        token,
        bytes: &datagram[..number_at + len],
        number_at,
        ..rest
    })
}

/// A number of one to eight bytes (RFC 9000, 16).
pub(super) fn variable(bytes: &mut Bytes<'_>) -> Option<u64> {
    let first = bytes.u8()?;
    let mut number = u64::from(first & 0x3f);
    for _ in 1..1 << (first >> 6) {
        number = number << 8 | u64::from(bytes.u8()?);
    }
    Some(number)
}
