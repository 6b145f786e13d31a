//! Headers of tunnels.

use dpb_core::packet::{put_u16, put_u32};

use super::{Unwritable, split};
use crate::packet::Sum;

/// A VXLAN header (RFC 7348), behind a UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// The virtual network's identifier, 24 bits.
    pub id: u32,
}

impl Vxlan {
    /// The port that the datagram goes to.
    pub const PORT: u16 = crate::packet::tunnel::VXLAN_PORT;
    /// Bytes of the header.
    pub const BYTES: usize = 8;

    /// Puts it at the start of `payload`; gives the room for the frame inside.
    ///
    /// # Errors
    /// [`Unwritable::TooShort`].
    pub fn put<'a>(&self, payload: &'a mut [u8]) -> Result<&'a mut [u8], Unwritable> {
        let (header, rest) = split(payload, Self::BYTES)?;
        header[0] = 0x08;
        put_u32(header, 4, self.id << 8);
        Ok(rest)
    }
}

/// A GENEVE header without options (RFC 8926), behind a UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geneve {
    /// The virtual network's identifier, 24 bits.
    pub id: u32,
    /// What is inside.
    pub ether_type: u16,
}

impl Geneve {
    /// The port that the datagram goes to.
    pub const PORT: u16 = crate::packet::tunnel::GENEVE_PORT;
    /// Bytes of the header.
    pub const BYTES: usize = 8;

    /// Puts it at the start of `payload`; gives the room for what is inside.
    ///
    /// # Errors
    /// [`Unwritable::TooShort`].
    pub fn put<'a>(&self, payload: &'a mut [u8]) -> Result<&'a mut [u8], Unwritable> {
        let (header, rest) = split(payload, Self::BYTES)?;
        put_u16(header, 2, self.ether_type);
        put_u32(header, 4, self.id << 8);
        Ok(rest)
    }
}

/// A GRE header (RFC 2784, RFC 2890), behind an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gre {
    /// What is inside.
    pub ether_type: u16,
    /// True if it has a checksum, of itself and what is inside.
    pub has_checksum: bool,
    /// Which of several tunnels it is.
    pub key: Option<u32>,
    /// The packet's number.
    pub sequence: Option<u32>,
}

impl Gre {
    /// Of what is inside alone.
    pub fn new(ether_type: u16) -> Self {
        Self {
            ether_type,
            has_checksum: false,
            key: None,
            sequence: None,
        }
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        let words = [
            self.has_checksum,
            self.key.is_some(),
            self.sequence.is_some(),
        ];
        4 + words
            .map(|is_there| 4 * usize::from(is_there))
            .iter()
            .sum::<usize>()
    }

    /// Puts it at the start of `payload`; gives what is inside, which the checksum is of.
    ///
    /// # Errors
    /// [`Unwritable::TooShort`].
    pub fn put<'a>(&self, payload: &'a mut [u8]) -> Result<&'a mut [u8], Unwritable> {
        let header_bytes = self.header_bytes();
        let (header, _) = split(payload, header_bytes)?;
        let flags = u16::from(self.has_checksum) << 15
            | u16::from(self.key.is_some()) << 13
            | u16::from(self.sequence.is_some()) << 12;
        put_u16(header, 0, flags);
        put_u16(header, 2, self.ether_type);
        let mut at = if self.has_checksum { 8 } else { 4 };
        for word in [self.key, self.sequence].into_iter().flatten() {
            put_u32(header, at, word);
            at += 4;
        }
        if self.has_checksum {
            let checksum = Sum::of(payload).checksum();
            put_u16(payload, 4, checksum);
        }
        Ok(&mut payload[header_bytes..])
    }
}
