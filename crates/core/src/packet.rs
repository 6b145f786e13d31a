//! IP packets, read in place: what they claim of their own length, and where their headers end.
//!
//! Packets lie back to back: each says its own length (IPv4's total length, IPv6's payload length), so a burst needs no
//! framing of its own. What cannot be read is refused; nothing here reads past the bytes it was given.

use std::fmt;

use crate::JobError;

/// The protocol number of TCP.
pub const TCP: u8 = 6;
/// The protocol number of UDP.
pub const UDP: u8 = 17;
/// The number of IPv6's hop-by-hop options (RFC 8200, 4.3).
pub const HOP_BY_HOP: u8 = 0;
/// The number of IPv6's routing header (RFC 8200, 4.4).
pub const ROUTING: u8 = 43;
/// The number of IPv6's fragment header (RFC 8200, 4.5).
pub const FRAGMENT: u8 = 44;
/// The number of IPv6's destination options (RFC 8200, 4.6).
pub const DESTINATION: u8 = 60;

/// Bytes of an IPv4 header without options.
pub const IPV4_BYTES: usize = 20;
/// Bytes of an IPv6 header.
pub const IPV6_BYTES: usize = 40;
/// Bytes of IPv6's fragment header.
pub const FRAGMENT_BYTES: usize = 8;
/// The longest chain of headers that is repeated in each piece of a packet that is cut: IPv6's extension headers have no
/// bound of their own, and pieces that are mostly headers are an attack.
pub const HEADERS_BYTES_MAX: usize = 256;
/// The longest packet whose length its header can say: an IPv6 header and 65,535 bytes.
pub const PACKET_BYTES_MAX: usize = IPV6_BYTES + 0xffff;

/// Why a packet was refused.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// Neither IPv4 nor IPv6, cut short, or its lengths do not agree.
    Malformed,
    /// Its IPv4 header does not sum to what it says.
    Checksum,
    /// It carries another protocol than the operator works on.
    Protocol,
    /// It is a fragment where a whole packet is needed.
    Fragment,
    /// It must be cut, and says that it may not be.
    DontFragment,
    /// It must be cut, and has a flag that only one segment can carry: SYN, RST, URG.
    Flags,
    /// The headers that each piece repeats are longer than [`HEADERS_BYTES_MAX`] or leaves no room for payload.
    Headers,
    /// A routing header says that its destination is not the last one, which the pseudo header needs.
    Routed,
    /// The output does not fit.
    DstTooShort,
}

/// The two versions of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

/// One IP packet, its lengths checked.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    version: Version,
    protocol: u8,
    payload_at: usize,
    /// IPv6: where the part ends that each fragment repeats.
    per_fragment_bytes: usize,
    /// IPv6: where that part's last header says what follows.
    next_header_at: usize,
    is_routed_on: bool,
}

/// The packets of a burst, one after another; after an error there are no more.
#[derive(Clone, Debug)]
pub struct Burst<'a>(&'a [u8]);

/// What a packet's length field must say of its length.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Said,
    /// Zero stands for a length that the field cannot say.
    SaidOrTooLong,
    /// More bytes may follow, which are not the packet's.
    Padded,
    /// The same, and some of the packet's may be missing.
    Cut,
}

/// The IP packet in an Ethernet frame (IEEE 802.3) and the bytes that pad it, behind any tags of IEEE 802.1Q; `None` if the frame carries
/// something else.
#[inline]
pub fn in_frame(frame: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    while matches!(frame.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xa8]) {
        at += 4;
    }
    let is_ip = matches!(frame.get(at..at + 2)?, [0x08, 0x00] | [0x86, 0xdd]);
    is_ip.then(|| &frame[at + 2..])
}

impl<'a> Packet<'a> {
    /// The packet that is all of `bytes`.
    ///
    /// IPv6's extension headers are walked as far as they are hop-by-hop options, routing and destination options; what comes
    /// then is the protocol, a fragment header too.
    ///
    /// # Errors
    /// [`PacketError::Malformed`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        Self::parse_with(bytes, Length::Said)
    }

    /// The same, of a packet that may be longer than its length field can say: the field is then zero, as in one large send
    /// that a stack hands to segmentation.
    ///
    /// # Errors
    /// [`PacketError::Malformed`].
    #[inline]
    pub fn parse_send(bytes: &'a [u8]) -> Result<Self, PacketError> {
        Self::parse_with(bytes, Length::SaidOrTooLong)
    }

    /// The same, of a packet behind which bytes may follow that are not its own: Ethernet pads short frames to 60 bytes (IEEE 802.3, 4.2.3.3).
    ///
    /// # Errors
    /// [`PacketError::Malformed`].
    #[inline]
    pub fn parse_padded(bytes: &'a [u8]) -> Result<Self, PacketError> {
        Self::parse_with(bytes, Length::Padded)
    }

    /// The same, of a packet of which the end may be missing, as an error of ICMP quotes it (RFC 792; RFC 4443, 3). Its headers, as far as they are
    /// walked, are whole.
    ///
    /// # Errors
    /// [`PacketError::Malformed`].
    #[inline]
    pub fn parse_cut(bytes: &'a [u8]) -> Result<Self, PacketError> {
        Self::parse_with(bytes, Length::Cut)
    }

    /// The same of IPv4, for who asks for the version first: where the versions meet again, a packet goes through memory, and is
    /// read back in wider pieces than it was written in, which waits for the stores. `bytes` have the room for the fixed header ([`version`]).
    ///
    /// # Errors
    /// [`PacketError::Malformed`].
    ///
    /// # Panics
    /// If they have not.
    #[inline(always)]
    pub fn parse_ipv4(bytes: &'a [u8]) -> Result<Self, PacketError> {
        Self::parse_v4(bytes, Length::Said)
    }

    #[inline]
    fn parse_with(bytes: &'a [u8], length: Length) -> Result<Self, PacketError> {
        match version(bytes)? {
            Version::V4 => Self::parse_v4(bytes, length),
            Version::V6 => Self::parse_v6(bytes, length),
        }
    }

    #[inline(always)]
    fn parse_v4(bytes: &'a [u8], length: Length) -> Result<Self, PacketError> {
        let header_bytes = usize::from(bytes[0] & 15) * 4;
        let len = said_bytes(u16_at(bytes, 2), bytes.len(), length)?;
        if !(IPV4_BYTES..=len).contains(&header_bytes) {
            return Err(PacketError::Malformed);
        }
        let bytes = &bytes[..len];
        Ok(Self {
            bytes,
            version: Version::V4,
            protocol: bytes[9],
            payload_at: header_bytes,
            per_fragment_bytes: header_bytes,
            next_header_at: 9,
            is_routed_on: false,
        })
    }

    #[inline]
    fn parse_v6(bytes: &'a [u8], length: Length) -> Result<Self, PacketError> {
        let behind = said_bytes(u16_at(bytes, 4), bytes.len() - IPV6_BYTES, length)?;
        let bytes = &bytes[..IPV6_BYTES + behind];
        let mut packet = Self {
            bytes,
            version: Version::V6,
            protocol: bytes[6],
            payload_at: IPV6_BYTES,
            per_fragment_bytes: IPV6_BYTES,
            next_header_at: 6,
            is_routed_on: false,
        };
        let mut said_at = 6;
        while matches!(packet.protocol, HOP_BY_HOP | ROUTING | DESTINATION) {
            let at = packet.payload_at;
            let header = extension(&bytes[at..])?;
            // Hop-by-hop options stand first or nowhere.
            if packet.protocol == HOP_BY_HOP && at != IPV6_BYTES {
                return Err(PacketError::Malformed);
            }
            packet.is_routed_on |= packet.protocol == ROUTING && header[3] != 0;
            packet.payload_at += header.len();
            if packet.protocol != DESTINATION {
                packet.per_fragment_bytes = packet.payload_at;
                packet.next_header_at = at;
            }
            said_at = at;
            packet.protocol = header[0];
        }
        // A fragment header follows the part that is repeated, whatever stands in it.
        if packet.protocol == FRAGMENT {
            packet.per_fragment_bytes = packet.payload_at;
            packet.next_header_at = said_at;
        }
        Ok(packet)
    }

    /// All of it.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The version of IP.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The protocol of the payload: [`TCP`], [`UDP`], another number of IANA's list.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The IP header with its options or extension headers.
    #[inline]
    pub fn headers(&self) -> &'a [u8] {
        &self.bytes[..self.payload_at]
    }

    /// The bytes behind the headers.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.payload_at..]
    }

    /// Source and destination, one after the other.
    #[inline]
    pub fn addresses(&self) -> &'a [u8] {
        match self.version {
            Version::V4 => &self.bytes[12..20],
            Version::V6 => &self.bytes[8..40],
        }
    }

    /// Source and destination, and the ports where they follow at once: in whole packets of TCP and UDP without options or extension
    /// headers. Receive-side scaling hashes these bytes.
    #[inline]
    pub fn tuple(&self) -> &'a [u8] {
        let (start, end) = match self.version {
            Version::V4 => (12, IPV4_BYTES),
            Version::V6 => (8, IPV6_BYTES),
        };
        let has_ports = self.payload_at == end && self.user_data().is_some();
        &self.bytes[start..if has_ports { end + 4 } else { end }]
    }

    /// The payload of a segment of TCP or a datagram of UDP; `None` of other packets, and of fragments, which carry a part of one.
    #[inline]
    pub fn user_data(&self) -> Option<&'a [u8]> {
        let is_whole = matches!(self.protocol, TCP | UDP) && !self.is_fragment();
        is_whole.then(|| self.payload().get(self.transport_header_bytes()..))?
    }

    /// True if the packet is a part of a datagram: in IPv6, any packet with a fragment header.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        match self.version {
            // More fragments, or an offset; neither `don't fragment` nor the reserved bit.
            Version::V4 => u16_at(self.bytes, 6) & 0x3fff != 0,
            Version::V6 => self.protocol == FRAGMENT,
        }
    }

    /// True if a routing header has segments left, so that the destination is not the last one.
    #[inline]
    pub fn is_routed_on(&self) -> bool {
        self.is_routed_on
    }

    /// IPv6's per-fragment headers (RFC 8200, 4.5): all up to the routing header, else the hop-by-hop options, else the IPv6
    /// header alone; of a fragment, all before the fragment header. IPv4's header.
    #[inline]
    pub fn per_fragment_bytes(&self) -> usize {
        self.per_fragment_bytes
    }

    /// The place at which [`Packet::per_fragment_bytes`] says what follows.
    #[inline]
    pub fn next_header_at(&self) -> usize {
        self.next_header_at
    }

    /// Bytes of the header of TCP, UDP or ICMPv6 as it starts the payload; zero of any other protocol.
    #[inline]
    pub fn transport_header_bytes(&self) -> usize {
        transport_header_bytes(self.protocol, self.payload())
    }

    /// The whole packet of one of these transports that it is.
    ///
    /// # Errors
    /// [`PacketError::Fragment`], [`PacketError::Protocol`], [`PacketError::Routed`].
    #[inline]
    pub fn whole(self, protocol: u8) -> Result<Self, PacketError> {
        if self.is_fragment() {
            Err(PacketError::Fragment)
        } else if self.protocol != protocol {
            Err(PacketError::Protocol)
        } else if self.is_routed_on {
            Err(PacketError::Routed)
        } else {
            Ok(self)
        }
    }
}

impl<'a> Burst<'a> {
    /// The packets in `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Burst<'a> {
    type Item = Result<&'a [u8], PacketError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let first = packet_bytes(self.0);
        let (packet, rest) = match first.map(|len| self.0.split_at(len)) {
            Ok((packet, rest)) => (Ok(packet), rest),
            Err(error) => (Err(error), &[][..]),
        };
        self.0 = rest;
        Some(packet)
    }
}

/// The length that the packet at the start of `bytes` has by its own word, if it lies inside.
#[inline]
fn packet_bytes(bytes: &[u8]) -> Result<usize, PacketError> {
    let len = match version(bytes)? {
        Version::V4 => usize::from(u16_at(bytes, 2)),
        Version::V6 => IPV6_BYTES + usize::from(u16_at(bytes, 4)),
    };
    let is_inside = (IPV4_BYTES..=bytes.len()).contains(&len);
    is_inside.then_some(len).ok_or(PacketError::Malformed)
}

/// The version, if `bytes` have the room for its fixed header.
///
/// # Errors
/// [`PacketError::Malformed`].
#[inline]
pub fn version(bytes: &[u8]) -> Result<Version, PacketError> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) if bytes.len() >= IPV4_BYTES => Ok(Version::V4),
        Some(6) if bytes.len() >= IPV6_BYTES => Ok(Version::V6),
        _ => Err(PacketError::Malformed),
    }
}

/// The number of bytes, of `len`, that a length field stands for.
#[inline]
fn said_bytes(field: u16, len: usize, length: Length) -> Result<usize, PacketError> {
    let said = usize::from(field);
    match length {
        _ if said == len => Ok(len),
        Length::SaidOrTooLong if said == 0 && len > 0xffff => Ok(len),
        Length::Padded if said < len => Ok(said),
        Length::Cut => Ok(said.min(len)),
        _ => Err(PacketError::Malformed),
    }
}

/// Bytes of the transport's header at the start of `payload`, as far as it can be known.
#[inline]
pub fn transport_header_bytes(protocol: u8, payload: &[u8]) -> usize {
    const ICMP_V6: u8 = 58;
    match protocol {
        TCP => payload
            .get(12)
            .map_or(20, |byte| usize::from(byte >> 4) * 4)
            .max(20),
        UDP | ICMP_V6 => 8,
        _ => 0,
    }
}

/// The extension header at the start of `bytes`: next header, its own length in units of 8 bytes less one.
///
/// # Errors
/// [`PacketError::Malformed`].
#[inline]
pub fn extension(bytes: &[u8]) -> Result<&[u8], PacketError> {
    let units = bytes.get(1).ok_or(PacketError::Malformed)?;
    let len = (usize::from(*units) + 1) * 8;
    bytes.get(..len).ok_or(PacketError::Malformed)
}

/// Two bytes in network order.
///
/// # Panics
/// If they are not there.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Four bytes in network order.
///
/// # Panics
/// If they are not there.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Writes two bytes in network order.
///
/// # Panics
/// If there is no room for them.
#[inline]
pub fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes four bytes in network order.
///
/// # Panics
/// If there is no room for them.
#[inline]
pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

impl PacketError {
    /// The error at the seam.
    #[inline]
    pub fn refusal(self) -> JobError {
        match self {
            Self::DstTooShort => JobError::DstTooShort,
            _ => JobError::Malformed,
        }
    }
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not an IP packet whose lengths agree",
            Self::Checksum => "wrong IPv4 header checksum",
            Self::Protocol => "another protocol than this operator works on",
            Self::Fragment => "a fragment where a whole packet is needed",
            Self::DontFragment => "longer than the MTU, and must not be fragmented",
            Self::Flags => "SYN, RST or URG in a send of more than one segment",
            Self::Headers => "headers too long to repeat in each piece",
            Self::Routed => "a routing header with segments left",
            Self::DstTooShort => "output does not fit",
        })
    }
}

impl std::error::Error for PacketError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram of UDP over IPv4 (RFC 791, 3.1; RFC 768), without checksums.
    const DATAGRAM: [u8; 32] = [
        0x45, 0, 0, 32, 0x12, 0x34, 0x40, 0, 64, UDP, 0, 0, 192, 0, 2, 1, 198, 51, 100,
        2, // IPv4
        0x12, 0x34, 0, 53, 0, 12, 0, 0, b'd', b'a', b't', b'a',
    ];

    #[test]
    fn whole_padded_and_cut_packets_are_told_apart() {
        let padded = [&DATAGRAM[..], &[0; 14]].concat();
        assert!(Packet::parse(&DATAGRAM).is_ok());
        assert!(Packet::parse(&padded).is_err());
        let packet = Packet::parse_padded(&padded).expect("padded");
        assert_eq!(packet.bytes(), DATAGRAM);
        assert_eq!(packet.user_data(), Some(&b"data"[..]));
        for len in 0..DATAGRAM.len() {
            let part = &DATAGRAM[..len];
            assert!(Packet::parse(part).is_err() && Packet::parse_padded(part).is_err());
            // Its header must be there.
            let cut = Packet::parse_cut(part);
            assert_eq!(cut.is_ok(), len >= IPV4_BYTES, "{len}");
            assert!(cut.is_ok_and(|cut| cut.bytes() == part) || len < IPV4_BYTES);
        }
        assert_eq!(Packet::parse_cut(&padded).expect("whole").bytes(), DATAGRAM);
    }

    #[test]
    fn a_cut_packet_of_ipv6_has_its_extension_headers() {
        let mut packet = [0; IPV6_BYTES + 8 + 8];
        packet[0] = 0x60;
        put_u16(&mut packet, 4, 600);
        packet[6] = HOP_BY_HOP;
        packet[IPV6_BYTES] = UDP;
        for len in 0..packet.len() {
            let cut = Packet::parse_cut(&packet[..len]);
            assert_eq!(cut.is_ok(), len >= IPV6_BYTES + 8, "{len}");
        }
        let cut = Packet::parse_cut(&packet).expect("headers");
        assert_eq!((cut.protocol(), cut.payload().len()), (UDP, 8));
        assert!(Packet::parse_padded(&packet).is_err());
    }
}
