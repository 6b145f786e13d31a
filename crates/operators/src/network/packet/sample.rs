//! Packets to measure with: addresses of the documentation ranges, all lengths and checksums right.

use super::{HOP_BY_HOP, IPV4_BYTES, IPV6_BYTES, TCP, UDP, Version, put_u16, put_u32};
use crate::network::checksum::portable;

/// Options for IPv4: record route (not copied to later fragments), router alert (copied), no operation.
pub(crate) const OPTIONS_V4: &[u8] = &[7, 7, 4, 0, 0, 0, 0, 0x94, 4, 0, 0, 1];
/// A header of hop-by-hop options for IPv6: padding.
pub(crate) const OPTIONS_V6: &[u8] = &[0, 0, 1, 4, 0, 0, 0, 0];

/// The description of a generated packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The version of IP.
    pub version: Version,
    /// The transport and its header.
    pub transport: Transport,
    /// IPv4's options, at most 40 bytes and a multiple of four; or an IPv6 header of hop-by-hop options, a multiple of eight,
    /// whose first byte is set to what it precedes.
    pub options: &'a [u8],
    /// The id of IPv4's header; the low bits of IPv6's flow label.
    pub id: u16,
}

/// The transport of a generated packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP with these flags (FIN is 1, PSH 8, ACK 16, CWR 128) and the timestamp option: 32 bytes of header.
    Tcp {
        /// The header's fourteenth byte.
        flags: u8,
    },
    /// UDP.
    Udp,
}

impl Sample<'_> {
    /// Without options.
    pub fn new(version: Version, transport: Transport) -> Self {
        Self {
            version,
            transport,
            options: &[],
            id: 0x4321,
        }
    }

    /// Bytes of all headers.
    pub fn headers_bytes(&self) -> usize {
        let ip = match self.version {
            Version::V4 => IPV4_BYTES,
            Version::V6 => IPV6_BYTES,
        };
        ip + self.options.len() + self.transport.header_bytes()
    }

    /// The packet that carries `payload`. A length that its fields cannot say is zero: that is a send for segmentation.
    pub fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::with_capacity(self.headers_bytes() + payload.len());
        let transport_bytes = self.transport.header_bytes() + payload.len();
        self.put_ip_header(&mut packet, transport_bytes);
        packet.extend_from_slice(self.options);
        let at = packet.len();
        if self.version == Version::V6 && !self.options.is_empty() {
            packet[IPV6_BYTES] = self.transport.protocol();
        }
        self.transport.put_header(&mut packet, transport_bytes);
        packet.extend_from_slice(payload);
        if self.version == Version::V4 {
            let sum = portable::checksum(&packet[..at]);
            put_u16(&mut packet, 10, sum);
        }
        let addresses = match self.version {
            Version::V4 => 12..20,
            Version::V6 => 8..40,
        };
        let protocol = self.transport.protocol();
        let sum = portable::transport(&packet[addresses], protocol, &packet[at..]);
        put_u16(&mut packet, at + self.transport.checksum_at(), sum);
        packet
    }

    fn put_ip_header(&self, packet: &mut Vec<u8>, transport_bytes: usize) {
        let behind = self.options.len() + transport_bytes;
        match self.version {
            Version::V4 => {
                let words = (IPV4_BYTES + self.options.len()) / 4;
                packet.extend([0x40 | words as u8, 0]);
                packet.extend(said(IPV4_BYTES + behind).to_be_bytes());
                packet.extend(self.id.to_be_bytes());
                packet.extend([0, 0, 64, self.transport.protocol(), 0, 0]);
                packet.extend([192, 0, 2, 1, 198, 51, 100, 2]);
            }
            Version::V6 => {
                packet.extend([0x60, 0]);
                packet.extend(self.id.to_be_bytes());
                packet.extend(said(behind).to_be_bytes());
                let next = match self.options {
                    [] => self.transport.protocol(),
                    _ => HOP_BY_HOP,
                };
                packet.extend([next, 64]);
                for last in [1u16, 2] {
                    packet.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                    packet.extend(last.to_be_bytes());
                }
            }
        }
    }
}

impl Transport {
    /// TCP in the middle of a stream: ACK.
    pub const ACK: Self = Self::Tcp { flags: 0x10 };
    /// TCP at the end of one that was slowed down: FIN, PSH, ACK, CWR. What segmentation treats apart.
    pub const LAST: Self = Self::Tcp { flags: 0x99 };

    fn protocol(self) -> u8 {
        match self {
            Self::Tcp { .. } => TCP,
            Self::Udp => UDP,
        }
    }

    pub(super) fn header_bytes(self) -> usize {
        match self {
            Self::Tcp { .. } => 32,
            Self::Udp => 8,
        }
    }

    pub(super) fn checksum_at(self) -> usize {
        match self {
            Self::Tcp { .. } => 16,
            Self::Udp => 6,
        }
    }

    /// Writes the header, with a checksum of zero.
    fn put_header(self, packet: &mut Vec<u8>, transport_bytes: usize) {
        let at = packet.len();
        packet.resize(at + self.header_bytes(), 0);
        let header = &mut packet[at..];
        put_u16(header, 0, 49_152);
        put_u16(header, 2, 443);
        match self {
            Self::Tcp { flags } => {
                put_u32(header, 4, 0xffff_f000);
                put_u32(header, 8, 0x0102_0304);
                header[12] = 8 << 4;
                header[13] = flags;
                put_u16(header, 14, 502);
                // No-operation twice, then the timestamps (RFC 7323, appendix A).
                header[20..24].copy_from_slice(&[1, 1, 8, 10]);
                put_u32(header, 24, 0x1122_3344);
                put_u32(header, 28, 0x5566_7788);
            }
            Self::Udp => put_u16(header, 4, said(transport_bytes)),
        }
    }
}

/// The length field for `len` bytes: zero if it cannot say them.
fn said(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(0)
}
