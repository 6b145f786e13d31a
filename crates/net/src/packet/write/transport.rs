//! TCP and UDP.

use dpb_core::packet::{put_u16, put_u32};

use super::{Unwritable, options_bytes, said, split};
use crate::flow::Flags;
use crate::packet::{Ends, Sum, protocol};

/// A UDP header (RFC 768).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// The ports, the source's first.
    pub ports: [u16; 2],
    /// False if the field says that there is no checksum: over IPv4, or in a tunnel (RFC 6935).
    pub has_checksum: bool,
}

impl Udp {
    /// Bytes of the header.
    pub const BYTES: usize = 8;

    /// With a checksum.
    pub fn new(ports: [u16; 2]) -> Self {
        Self {
            ports,
            has_checksum: true,
        }
    }

    /// Puts it at the start of `datagram`, between `ends`; gives the payload, which the checksum is of.
    ///
    /// # Errors
    /// [`Unwritable`].
    pub fn put<'a>(&self, datagram: &'a mut [u8], ends: Ends) -> Result<&'a mut [u8], Unwritable> {
        let len = said(datagram.len(), 0xffff)?;
        let (header, _) = split(datagram, Self::BYTES)?;
        put_u16(header, 0, self.ports[0]);
        put_u16(header, 2, self.ports[1]);
        put_u16(header, 4, len);
        if self.has_checksum {
            let sum = ends.pseudo(protocol::UDP, datagram.len()) + Sum::of(datagram);
            let checksum = match sum.checksum() {
                0 => 0xffff,
                checksum => checksum,
            };
            put_u16(datagram, 6, checksum);
        }
        Ok(&mut datagram[Self::BYTES..])
    }
}

/// A TCP header (RFC 9293).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp<'a> {
    /// The ports, the source's first.
    pub ports: [u16; 2],
    /// The number of the first byte of payload.
    pub sequence: u32,
    /// The number of the next byte that is awaited.
    pub acknowledgement: u32,
    /// The flags.
    pub flags: Flags,
    /// Bytes that there is room for.
    pub window: u16,
    /// Options, a multiple of four bytes, at most 40.
    pub options: &'a [u8],
}

impl Tcp<'_> {
    /// Bytes of a header without options.
    pub const BYTES: usize = 20;

    /// Between these ports, with these flags, the largest window, and everything else zero.
    pub fn new(ports: [u16; 2], flags: Flags) -> Self {
        Self {
            ports,
            sequence: 0,
            acknowledgement: 0,
            flags,
            window: u16::MAX,
            options: &[],
        }
    }

    /// Puts it at the start of `segment`, between `ends`; gives the payload, which the checksum is of.
    ///
    /// # Errors
    /// [`Unwritable`].
    pub fn put<'a>(&self, segment: &'a mut [u8], ends: Ends) -> Result<&'a mut [u8], Unwritable> {
        let header_bytes = Self::BYTES + options_bytes(self.options)?;
        let (header, _) = split(segment, header_bytes)?;
        put_u16(header, 0, self.ports[0]);
        put_u16(header, 2, self.ports[1]);
        put_u32(header, 4, self.sequence);
        put_u32(header, 8, self.acknowledgement);
        header[12] = (header_bytes * 4) as u8;
        header[13] = self.flags.0;
        put_u16(header, 14, self.window);
        header[Self::BYTES..].copy_from_slice(self.options);
        let sum = ends.pseudo(protocol::TCP, segment.len()) + Sum::of(segment);
        put_u16(segment, 16, sum.checksum());
        Ok(&mut segment[header_bytes..])
    }
}
