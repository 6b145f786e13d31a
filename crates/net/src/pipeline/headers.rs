//! The places of a frame's headers: Ethernet with tags, IPv4, IPv6 with its extensions, and what the transport begins with.
//!
//! Read once, and refused where a header does not end within the frame or contradicts itself; nothing here panics, whatever the bytes.

use crate::flow::{Flags, Tuple};

use super::Reason;

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The part of a datagram that a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// All of it.
    Whole,
    /// Its first part: the transport's header is here.
    First,
    /// Another part, without that header.
    Later,
}

/// The places of a frame's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The version of IP.
    pub version: Version,
    /// The first byte of the IP header: what stands before is Ethernet's.
    pub network: usize,
    /// The first byte behind the IP header and its extensions.
    pub transport: usize,
    /// The byte behind the packet's last one, as its length says. Ethernet's padding is behind it.
    pub end: usize,
    /// The protocol of what stands at `transport`.
    pub protocol: u8,
    /// The place in the frame of the byte that says the protocol.
    pub protocol_at: usize,
    /// The part of a datagram that it is.
    pub fragment: Fragment,
}

/// Ethernet's type of IPv4.
pub const ETHERTYPE_V4: u16 = 0x0800;
/// Ethernet's type of IPv6.
pub const ETHERTYPE_V6: u16 = 0x86dd;
/// TCP's number.
pub const TCP: u8 = 6;
/// UDP's number.
pub const UDP: u8 = 17;
/// The number of ICMP for IPv4.
pub const ICMP: u8 = 1;
/// The number of ICMP for IPv6.
pub const ICMPV6: u8 = 58;
/// Bytes of an Ethernet header without tags.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of an IPv4 header without options.
pub const V4_BYTES: usize = 20;
/// Bytes of an IPv6 header.
pub const V6_BYTES: usize = 40;

/// 802.1Q, 802.1ad, and the type that came before it.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TAGS_MAX: usize = 2;
const EXTENSIONS_MAX: usize = 8;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

impl Headers {
    /// Those of `frame`.
    ///
    /// # Errors
    /// [`Reason::TRUNCATED`], [`Reason::MALFORMED`], [`Reason::NOT_IP`]. Checksums are not looked at.
    pub fn of(frame: &[u8]) -> Result<Self, Reason> {
        let mut at = ETHERNET_BYTES - 2;
        let mut tags = 0;
        loop {
            let ethertype = u16_at(frame, at).ok_or(Reason::TRUNCATED)?;
            at += 2;
            match ethertype {
                ETHERTYPE_V4 => return Self::of_v4(frame, at),
                ETHERTYPE_V6 => return Self::of_v6(frame, at),
                _ if tags < TAGS_MAX && TAGS.contains(&ethertype) => {
                    tags += 1;
                    at += 2;
                }
                _ => return Err(Reason::NOT_IP),
            }
        }
    }

    /// Those of a packet without Ethernet, as ICMP's errors and tunnels carry it, which begins at byte `at` and need not be whole.
    ///
    /// # Errors
    /// As [`Headers::of`].
    pub fn of_ip(frame: &[u8], at: usize) -> Result<Self, Reason> {
        match frame.get(at).ok_or(Reason::TRUNCATED)? >> 4 {
            4 => Self::of_v4(frame, at),
            6 => Self::of_v6(frame, at),
            _ => Err(Reason::NOT_IP),
        }
    }

    fn of_v4(frame: &[u8], at: usize) -> Result<Self, Reason> {
        let header = frame.get(at..at + V4_BYTES).ok_or(Reason::TRUNCATED)?;
        let header_bytes = usize::from(header[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] >> 4 != 4 || header_bytes < V4_BYTES || total < header_bytes {
            return Err(Reason::MALFORMED);
        }
        if frame.len() - at < total {
            return Err(Reason::TRUNCATED);
        }
        let piece = u16::from_be_bytes([header[6], header[7]]);
        let fragment = match (piece & 0x1fff, piece & 0x2000) {
            (0, 0) => Fragment::Whole,
            (0, _) => Fragment::First,
            _ => Fragment::Later,
        };
        Ok(Self {
            version: Version::V4,
            network: at,
            transport: at + header_bytes,
            end: at + total,
            protocol: header[9],
            protocol_at: at + 9,
            fragment,
        })
    }

    fn of_v6(frame: &[u8], at: usize) -> Result<Self, Reason> {
        let header = frame.get(at..at + V6_BYTES).ok_or(Reason::TRUNCATED)?;
        if header[0] >> 4 != 6 {
            return Err(Reason::MALFORMED);
        }
        let end = at + V6_BYTES + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let packet = frame.get(..end).ok_or(Reason::TRUNCATED)?;
        let (mut protocol, mut protocol_at) = (header[6], at + 6);
        let (mut transport, mut fragment) = (at + V6_BYTES, Fragment::Whole);
        for _ in 0..EXTENSIONS_MAX {
            if !is_extension(protocol) {
                break;
            }
            let extension = packet
                .get(transport..transport + 4)
                .ok_or(Reason::MALFORMED)?;
            let bytes = match protocol {
                FRAGMENT => 8,
                // RFC 4302, 2.2: in units of four bytes, less two.
                AUTHENTICATION => (usize::from(extension[1]) + 2) * 4,
                _ => (usize::from(extension[1]) + 1) * 8,
            };
            if protocol == FRAGMENT {
                let piece = u16::from_be_bytes([extension[2], extension[3]]);
                fragment = match (piece & 0xfff8, piece & 1) {
                    (0, 0) => fragment,
                    (0, _) => Fragment::First,
                    _ => Fragment::Later,
                };
            }
            protocol_at = transport;
            protocol = extension[0];
            transport += bytes;
            if transport > end {
                return Err(Reason::MALFORMED);
            }
            if fragment == Fragment::Later {
                break;
            }
        }
        // A chain that is longer than any honest one: what it hides is nobody's guess.
        if fragment != Fragment::Later && is_extension(protocol) {
            return Err(Reason::MALFORMED);
        }
        Ok(Self {
            version: Version::V6,
            network: at,
            transport,
            end,
            protocol,
            protocol_at,
            fragment,
        })
    }

    /// Source and destination of an IPv4 packet.
    pub fn v4(&self, frame: &[u8]) -> [u32; 2] {
        [12, 16].map(|at| u32_at(frame, self.network + at).unwrap_or(0))
    }

    /// Source and destination of an IPv6 packet.
    pub fn v6(&self, frame: &[u8]) -> [u128; 2] {
        [8, 24].map(|at| u128_at(frame, self.network + at).unwrap_or(0))
    }

    /// Source and destination port of TCP and UDP (and of their likes: DCCP, SCTP, UDP-Lite), of ICMP's echo the identifier twice; zero
    /// where there are none.
    pub fn ports(&self, frame: &[u8]) -> [u16; 2] {
        const DCCP: u8 = 33;
        const SCTP: u8 = 132;
        const UDP_LITE: u8 = 136;
        if self.fragment == Fragment::Later {
            return [0; 2];
        }
        let field = |at: usize| match at + 2 <= self.end - self.transport {
            true => u16_at(frame, self.transport + at).unwrap_or(0),
            false => 0,
        };
        match self.protocol {
            TCP | UDP | DCCP | SCTP | UDP_LITE => [field(0), field(2)],
            ICMP | ICMPV6 if self.is_echo(frame) => [field(4); 2],
            _ => [0; 2],
        }
    }

    fn is_echo(&self, frame: &[u8]) -> bool {
        let kind = frame[..self.end].get(self.transport).copied();
        match self.protocol {
            ICMP => matches!(kind, Some(0 | 8)),
            _ => matches!(kind, Some(128 | 129)),
        }
    }

    /// The five-tuple of an IPv4 packet.
    pub fn tuple_v4(&self, frame: &[u8]) -> Tuple<u32> {
        Tuple {
            addresses: self.v4(frame),
            ports: self.ports(frame),
            protocol: self.protocol,
        }
    }

    /// The five-tuple of an IPv6 packet.
    pub fn tuple_v6(&self, frame: &[u8]) -> Tuple<u128> {
        Tuple {
            addresses: self.v6(frame),
            ports: self.ports(frame),
            protocol: self.protocol,
        }
    }

    /// Of TCP, its flags.
    pub fn flags(&self, frame: &[u8]) -> Option<Flags> {
        let is_here = self.protocol == TCP && self.fragment != Fragment::Later;
        let transport = frame[..self.end].get(self.transport..)?;
        is_here.then(|| transport.get(13).copied().map(Flags))?
    }

    /// The headers of the packet that an ICMP error is about, if this is one.
    pub fn of_error(&self, frame: &[u8]) -> Option<Self> {
        let transport = frame[..self.end].get(self.transport..)?;
        let is_error = match self.protocol {
            // RFC 792; RFC 4443, 2.1.
            ICMP => matches!(transport.first()?, 3 | 11 | 12),
            ICMPV6 => matches!(transport.first()?, 1..=4),
            _ => false,
        };
        if !is_error || self.fragment != Fragment::Whole {
            return None;
        }
        self.cut_short(frame, self.transport + 8)
    }

    /// Headers of a packet at byte `at` of which only the start is there.
    fn cut_short(&self, frame: &[u8], at: usize) -> Option<Self> {
        let (end, header_bytes) = match self.version {
            Version::V4 => (at + 60 + 8, V4_BYTES),
            Version::V6 => (at + V6_BYTES + 8, V6_BYTES),
        };
        let there = frame.get(at..self.end.min(end))?;
        if there.len() < header_bytes + 4 {
            return None;
        }
        match self.version {
            Version::V4 => {
                let bytes = usize::from(there[0] & 15) * 4;
                let is_right = there[0] >> 4 == 4 && bytes >= V4_BYTES && bytes + 4 <= there.len();
                let piece = u16::from_be_bytes([there[6], there[7]]);
                (is_right && piece & 0x1fff == 0).then_some(Self {
                    version: Version::V4,
                    network: at,
                    transport: at + bytes,
                    end: at + there.len(),
                    protocol: there[9],
                    protocol_at: at + 9,
                    fragment: Fragment::Whole,
                })
            }
            Version::V6 => {
                // With extensions in front of the ports: not looked for.
                let is_plain = !is_extension(there[6]);
                (there[0] >> 4 == 6 && is_plain).then_some(Self {
                    version: Version::V6,
                    network: at,
                    transport: at + V6_BYTES,
                    end: at + there.len(),
                    protocol: there[6],
                    protocol_at: at + 6,
                    fragment: Fragment::Whole,
                })
            }
        }
    }
}

/// True of the protocols that are headers in front of another one.
fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
    )
}

/// The Internet checksum (RFC 1071) of `bytes`: of a header whose checksum is right it is zero.
pub fn checksum(bytes: &[u8]) -> u16 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut sum: u64 = pairs
        .iter()
        .map(|pair| u64::from(u16::from_be_bytes(*pair)))
        .sum();
    sum += rest.first().map_or(0, |byte| u64::from(*byte) << 8);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum after one of the words that it covers has changed (RFC 1624, equation 3).
pub fn checksum_after(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// The big-endian number at byte `at`.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

/// The big-endian number at byte `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

/// The big-endian number at byte `at`.
pub fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u128::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use etherparse::{IpFragOffset, NetHeaders, PacketBuilder, PacketHeaders, VlanId};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rfc_1624s_example_holds() {
        // Section 4: HC = 0xDD2F, m = 0x5555, m' = 0x3285; the right answer is 0x0000, where RFC 1141's equation gives 0xFFFF.
        assert_eq!(checksum_after(0xdd2f, 0x5555, 0x3285), 0x0000);
        // RFC 1071, section 3: the sum of these is 0xddf2.
        assert_eq!(checksum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    proptest! {
        /// Of any bytes: no panic, and what is given lies in the frame.
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..120), v6: bool, tags in 0_usize..4) {
            for i in 0..tags {
                if let Some(pair) = bytes.get_mut(12 + 4 * i..14 + 4 * i) {
                    pair.copy_from_slice(&[0x81, 0]);
                }
            }
            let at = 12 + 4 * tags;
            if let Some(pair) = bytes.get_mut(at..at + 2) {
                pair.copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[8, 0] });
            }
            for at in 0..bytes.len() {
                if let Ok(headers) = Headers::of_ip(&bytes, at) {
                    prop_assert!(headers.transport <= headers.end && headers.end <= bytes.len());
                }
            }
            if let Ok(headers) = Headers::of(&bytes) {
                prop_assert!(headers.network < headers.transport);
                prop_assert!(headers.transport <= headers.end && headers.end <= bytes.len());
                headers.tuple_v4(&bytes);
                headers.tuple_v6(&bytes);
                headers.flags(&bytes);
                if let Some(inner) = headers.of_error(&bytes) {
                    prop_assert!(inner.transport <= inner.end && inner.end <= bytes.len());
                    inner.tuple_v4(&bytes);
                    inner.tuple_v6(&bytes);
                }
            }
        }

        /// Of what etherparse writes, the same as what etherparse reads.
        #[test]
        fn frames_are_read_as_etherparse_reads_them(
            v6: bool, tagged: bool, tcp: bool, source: u128, destination: u128, ports: [u16; 2], len in 0_usize..80, padding in 0_usize..20,
        ) {
            let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
            let low = |address: u128| (address as u32).to_be_bytes();
            macro_rules! ip {
                ($builder:expr) => {
                    match v6 {
                        true => $builder.ipv6(source.to_be_bytes(), destination.to_be_bytes(), 9),
                        false => $builder.ipv4(low(source), low(destination), 9),
                    }
                };
            }
            let ip = match tagged {
                true => ip!(ethernet.single_vlan(VlanId::try_new(7).expect("small"))),
                false => ip!(ethernet),
            };
            let payload = vec![3; len];
            let mut frame = Vec::new();
            match tcp {
                true => ip.tcp(ports[0], ports[1], 1, 2).syn().write(&mut frame, &payload),
                false => ip.udp(ports[0], ports[1]).write(&mut frame, &payload),
            }.expect("a Vec takes all");
            let end = frame.len();
            frame.resize(end + padding, 0);
            let ours = Headers::of(&frame).expect("sound");
            let theirs = PacketHeaders::from_ethernet_slice(&frame).expect("sound");
            prop_assert_eq!(ours.end, end);
            let transport = end - len - if tcp { 20 } else { 8 };
            prop_assert_eq!(ours.transport, transport);
            match theirs.net.expect("IP") {
                NetHeaders::Ipv4(header, _) => {
                    prop_assert_eq!(ours.v4(&frame), [header.source, header.destination].map(u32::from_be_bytes));
                    prop_assert_eq!(checksum(&frame[ours.network..ours.transport]), 0);
                }
                NetHeaders::Ipv6(header, _) => {
                    prop_assert_eq!(ours.v6(&frame), [header.source, header.destination].map(u128::from_be_bytes));
                }
                NetHeaders::Arp(_) => prop_assert!(false),
            }
            prop_assert_eq!(ours.ports(&frame), ports);
            prop_assert_eq!(ours.flags(&frame), tcp.then_some(Flags::SYN));
        }
    }

    #[test]
    fn fragments_and_extensions_are_seen() {
        use etherparse::{IpNumber, Ipv4Header, Ipv6FragmentHeader, Ipv6Header};

        let mut frame = vec![0; 12];
        frame.extend(ETHERTYPE_V4.to_be_bytes());
        let mut header = Ipv4Header::new(8, 64, IpNumber::UDP, [1; 4], [2; 4]).expect("short");
        header.fragment_offset = IpFragOffset::try_new(3).expect("small");
        header.write(&mut frame).expect("a Vec takes all");
        frame.extend([0; 8]);
        let headers = Headers::of(&frame).expect("sound");
        assert_eq!(headers.fragment, Fragment::Later);
        assert_eq!(headers.ports(&frame), [0; 2]);

        let mut frame = vec![0; 12];
        frame.extend(ETHERTYPE_V6.to_be_bytes());
        let header = Ipv6Header {
            payload_length: 8 + 8 + 8,
            next_header: IpNumber::IPV6_DESTINATION_OPTIONS,
            ..Ipv6Header::default()
        };
        header.write(&mut frame).expect("a Vec takes all");
        // Destination options of eight bytes: a padding option of four.
        frame.extend([FRAGMENT, 0, 1, 4, 0, 0, 0, 0]);
        let start = IpFragOffset::try_new(0).expect("small");
        let fragment = Ipv6FragmentHeader::new(IpNumber::UDP, start, true, 9);
        fragment.write(&mut frame).expect("a Vec takes all");
        frame.extend([0, 53, 0, 54, 0, 8, 0, 0]);
        let headers = Headers::of(&frame).expect("sound");
        assert_eq!(headers.fragment, Fragment::First);
        assert_eq!((headers.protocol, headers.ports(&frame)), (UDP, [53, 54]));

        // Nine destination options, one behind the other.
        let mut frame = vec![0; 12];
        frame.extend(ETHERTYPE_V6.to_be_bytes());
        let header = Ipv6Header {
            payload_length: 9 * 8,
            next_header: IpNumber::IPV6_DESTINATION_OPTIONS,
            ..Ipv6Header::default()
        };
        header.write(&mut frame).expect("a Vec takes all");
        for _ in 0..9 {
            frame.extend([DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0]);
        }
        assert_eq!(Headers::of(&frame), Err(Reason::MALFORMED));
    }
}
