//! IPv4 and IPv6.

use dpb_core::packet::{IPV4_BYTES, IPV6_BYTES, put_u16, put_u32};

use super::{Unwritable, options_bytes, said, split};
use crate::packet::{Ends, Sum};

/// An IPv4 header (RFC 791) of a whole packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4<'a> {
    /// The addresses, the source's first.
    pub addresses: [u32; 2],
    /// The protocol of the payload.
    pub protocol: u8,
    /// The hops that it may go.
    pub hops: u8,
    /// Differentiated services (6 bits) and congestion notification (2).
    pub traffic_class: u8,
    /// Its number, for fragments.
    pub identification: u16,
    /// True if it must not be fragmented.
    pub dont_fragment: bool,
    /// Options, a multiple of four bytes, at most 40.
    pub options: &'a [u8],
}

impl<'o> Ipv4<'o> {
    /// With 64 hops, and everything else zero.
    pub fn new(addresses: [u32; 2], protocol: u8) -> Self {
        Self {
            addresses,
            protocol,
            hops: 64,
            traffic_class: 0,
            identification: 0,
            dont_fragment: false,
            options: &[],
        }
    }

    /// The addresses, for the checksum of the transport.
    pub fn ends(&self) -> Ends {
        Ends::V4(self.addresses)
    }

    /// Puts it at the start of `packet`; gives what follows it.
    ///
    /// # Errors
    /// [`Unwritable`].
    pub fn put<'a>(&self, packet: &'a mut [u8]) -> Result<&'a mut [u8], Unwritable> {
        let len = said(packet.len(), 0xffff)?;
        let header_bytes = IPV4_BYTES + options_bytes(self.options)?;
        let (header, rest) = split(packet, header_bytes)?;
        header[0] = 0x40 | (header_bytes / 4) as u8;
        header[1] = self.traffic_class;
        put_u16(header, 2, len);
        put_u16(header, 4, self.identification);
        put_u16(header, 6, u16::from(self.dont_fragment) << 14);
        header[8] = self.hops;
        header[9] = self.protocol;
        put_u32(header, 12, self.addresses[0]);
        put_u32(header, 16, self.addresses[1]);
        header[IPV4_BYTES..].copy_from_slice(self.options);
        let checksum = Sum::of(header).checksum();
        put_u16(header, 10, checksum);
        Ok(rest)
    }
}

/// An IPv6 header (RFC 8200).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// The addresses, the source's first.
    pub addresses: [u128; 2],
    /// The protocol of what follows.
    pub protocol: u8,
    /// The hops that it may go.
    pub hops: u8,
    /// Differentiated services (6 bits) and congestion notification (2).
    pub traffic_class: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
}

impl Ipv6 {
    /// With 64 hops, and everything else zero.
    pub fn new(addresses: [u128; 2], protocol: u8) -> Self {
        Self {
            addresses,
            protocol,
            hops: 64,
            traffic_class: 0,
            flow_label: 0,
        }
    }

    /// The addresses, for the checksum of the transport.
    pub fn ends(&self) -> Ends {
        Ends::V6(self.addresses)
    }

    /// Puts it at the start of `packet`; gives what follows it.
    ///
    /// # Errors
    /// [`Unwritable`].
    pub fn put<'a>(&self, packet: &'a mut [u8]) -> Result<&'a mut [u8], Unwritable> {
        let (header, rest) = split(packet, IPV6_BYTES)?;
        let len = said(rest.len(), 0xffff)?;
        let class = u32::from(self.traffic_class) << 20;
        put_u32(header, 0, 6 << 28 | class | self.flow_label & 0xf_ffff);
        put_u16(header, 4, len);
        header[6] = self.protocol;
        header[7] = self.hops;
        let addresses = self.addresses.map(u128::to_be_bytes);
        header[8..].copy_from_slice(addresses.as_flattened());
        Ok(rest)
    }
}
