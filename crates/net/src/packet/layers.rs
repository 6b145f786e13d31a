//! The careful reader: one frame, layer by layer, whatever it carries.

use dpb_core::packet::{
    DESTINATION, FRAGMENT, FRAGMENT_BYTES, HOP_BY_HOP, IPV4_BYTES, IPV6_BYTES, Packet, PacketError,
    ROUTING, Version, extension, u16_at, u32_at,
};

use super::ends::Ends;
use super::tunnel::{self, Header};
use super::{Refusal, Start, TAGS_MAX, Tunnel, TunnelKind, ether_type, protocol};

/// Where the parts of a frame lie, in bytes from its start; of a frame inside of another, from the start of the outermost one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Places {
    /// What follows the Ethernet header and its tags.
    pub l3: u16,
    /// What follows IP's headers; of other frames the same as `l3`.
    pub l4: u16,
    /// What follows the transport's header; the same as `l4` where none was read.
    pub payload: u16,
    /// Bytes of the payload: without the bytes that pad the frame, where lengths say so.
    pub payload_bytes: u16,
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Its EtherType: [`ether_type::TAG`], [`ether_type::SERVICE_TAG`], [`ether_type::OLD_SERVICE_TAG`].
    pub ether_type: u16,
    /// Its control information: priority (3 bits), drop eligible (1), identifier (12).
    pub control: u16,
}

impl Tag {
    /// The VLAN's identifier, 12 bits.
    pub fn id(self) -> u16 {
        self.control & 0xfff
    }

    /// The priority, 3 bits.
    pub fn priority(self) -> u8 {
        (self.control >> 13) as u8
    }
}

/// What a fragment says of its place in the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// The datagram's identification: 16 bits of IPv4, 32 of IPv6.
    pub identification: u32,
    /// The start of its bytes in the datagram's payload, a multiple of eight.
    pub start: u16,
    /// True if fragments follow it.
    pub more: bool,
}

/// What was read of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layers {
    pub(super) start: Start,
    /// The first byte.
    pub(super) at: usize,
    pub(super) tags: [Tag; TAGS_MAX],
    pub(super) tag_count: usize,
    pub(super) ether_type: u16,
    pub(super) version: Option<Version>,
    pub(super) places: Places,
    /// The end of the IP packet; of other frames, of the frame.
    pub(super) end: usize,
    pub(super) protocol: u8,
    /// Options of IPv4, extension headers, an authentication header.
    pub(super) has_options: bool,
    pub(super) is_authenticated: bool,
    pub(super) is_routed_on: bool,
    pub(super) fragment: Option<Fragment>,
    /// True if the transport's header was read.
    pub(super) has_transport: bool,
    /// Of ICMP the identifier, twice; zero where there are none.
    pub(super) ports: [u16; 2],
    pub(super) tcp_flags: Option<u8>,
    pub(super) tunnel: Option<Tunnel>,
}

impl Layers {
    /// Reads the frame or packet that starts at `at`; `bytes` end where it must.
    pub(super) fn read(bytes: &[u8], at: usize, start: Start) -> Result<Self, Refusal> {
        let mut layers = Self::read_network(bytes, at, start)?;
        if let (Some(version), None) = (layers.version, layers.fragment) {
            let (l3, l4) = (layers.places.l3.into(), layers.places.l4.into());
            let segment = &bytes[l4..layers.end];
            let (header_bytes, payload_bytes) = layers.read_transport(segment, l4, version)?;
            layers.place(l3, l4, l4 + header_bytes, payload_bytes)?;
        }
        Ok(layers)
    }

    /// The same without the transport, which is payload.
    pub(super) fn read_network(bytes: &[u8], at: usize, start: Start) -> Result<Self, Refusal> {
        let mut layers = Self::new(bytes, at, start);
        let l3 = match start {
            Start::Ethernet => layers.read_link(bytes)?,
            Start::Ipv4 | Start::Ipv6 => at,
        };
        let version = match layers.ether_type {
            ether_type::IPV4 => Version::V4,
            ether_type::IPV6 => Version::V6,
            _ => {
                layers.place(l3, l3, l3, bytes.len() - l3)?;
                return Ok(layers);
            }
        };
        let l4 = layers.read_ip(bytes, l3, version, Packet::parse_padded)?;
        layers.place(l3, l4, l4, layers.end - l4)?;
        Ok(layers)
    }

    /// Reads the packet that starts at `at`, of which an error of ICMP quotes the start; `None` if that is not enough to know where its
    /// transport starts.
    pub(super) fn read_quoted(bytes: &[u8], at: usize) -> Option<Self> {
        let (start, version) = match bytes.get(at)? >> 4 {
            4 => (Start::Ipv4, Version::V4),
            6 => (Start::Ipv6, Version::V6),
            _ => return None,
        };
        let mut layers = Self::new(bytes, at, start);
        let l4 = layers.read_ip(bytes, at, version, Packet::parse_cut).ok()?;
        let rest = &bytes[l4..layers.end];
        let starts_here = layers.fragment.is_none_or(|fragment| fragment.start == 0);
        // The first eight bytes are there always (RFC 792), the others perhaps.
        if let (true, Some(header)) = (starts_here, rest.first_chunk::<8>()) {
            match (layers.protocol, version) {
                (protocol::TCP | protocol::UDP | protocol::SCTP, _) => {
                    layers.has_transport = true;
                    layers.ports = ports(header);
                }
                (protocol::ICMP, Version::V4) | (protocol::ICMPV6, Version::V6) => {
                    layers.has_transport = true;
                    if is_query(layers.protocol, header[0]) {
                        layers.ports = [u16_at(header, 4); 2];
                    }
                }
                _ => {}
            }
        }
        layers.place(at, l4, l4, rest.len()).ok()?;
        Some(layers)
    }

    /// Addresses, if it is an IP packet; `bytes` are those that were read.
    pub(super) fn ends(&self, bytes: &[u8]) -> Option<Ends> {
        let l3 = usize::from(self.places.l3);
        Some(match self.version? {
            Version::V4 => Ends::V4([12, 16].map(|at| u32_at(bytes, l3 + at))),
            Version::V6 => Ends::V6([8, 24].map(|at| u128_at(bytes, l3 + at))),
        })
    }

    fn new(bytes: &[u8], at: usize, start: Start) -> Self {
        Self {
            start,
            at,
            tags: [Tag::default(); TAGS_MAX],
            tag_count: 0,
            ether_type: match start {
                Start::Ipv6 => ether_type::IPV6,
                _ => ether_type::IPV4,
            },
            version: None,
            places: Places::default(),
            end: bytes.len(),
            protocol: 0,
            has_options: false,
            is_authenticated: false,
            is_routed_on: false,
            fragment: None,
            has_transport: false,
            ports: [0; 2],
            tcp_flags: None,
            tunnel: None,
        }
    }

    fn place(
        &mut self,
        l3: usize,
        l4: usize,
        payload: usize,
        payload_bytes: usize,
    ) -> Result<(), Refusal> {
        self.places = Places {
            l3: said(l3)?,
            l4: said(l4)?,
            payload: said(payload)?,
            payload_bytes: said(payload_bytes)?,
        };
        Ok(())
    }

    /// The Ethernet header and its tags; says where they end.
    fn read_link(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        let two = |at: usize| bytes.get(at..at + 2).map(|two| u16_at(two, 0));
        let mut at = self.at + 12;
        self.ether_type = two(at).ok_or(Refusal::Ethernet)?;
        while is_tag(self.ether_type) {
            let tag = self.tags.get_mut(self.tag_count).ok_or(Refusal::Tags)?;
            let next = two(at + 4).ok_or(Refusal::Tag)?;
            *tag = Tag {
                ether_type: self.ether_type,
                control: two(at + 2).ok_or(Refusal::Tag)?,
            };
            self.tag_count += 1;
            self.ether_type = next;
            at += 4;
        }
        Ok(at + 2)
    }

    /// IP's headers; says where they end.
    fn read_ip<'a>(
        &mut self,
        bytes: &'a [u8],
        l3: usize,
        version: Version,
        parse: impl Fn(&'a [u8]) -> Result<Packet<'a>, PacketError>,
    ) -> Result<usize, Refusal> {
        let bytes = &bytes[l3..];
        let packet = match (version, bytes.first().map(|first| first >> 4)) {
            (Version::V4, Some(4)) | (Version::V6, Some(6)) => parse(bytes),
            (_, Some(_)) => return Err(Refusal::Version),
            (_, None) => return Err(Refusal::IpHeader),
        };
        let packet = packet.map_err(|_| reason(bytes, version))?;
        self.version = Some(version);
        self.end = l3 + packet.bytes().len();
        self.protocol = packet.protocol();
        self.is_routed_on = packet.is_routed_on();
        let fixed_bytes = match version {
            Version::V4 => {
                let field = u16_at(bytes, 6);
                if packet.is_fragment() {
                    self.fragment = Some(Fragment {
                        identification: u16_at(bytes, 4).into(),
                        start: (field & 0x1fff) << 3,
                        more: field & 0x2000 != 0,
                    });
                }
                IPV4_BYTES
            }
            Version::V6 => IPV6_BYTES,
        };
        let header_bytes =
            packet.headers().len() + self.read_extensions(packet.payload(), version)?;
        self.has_options = header_bytes > fixed_bytes;
        Ok(l3 + header_bytes)
    }

    /// The headers that [`Packet`] takes for the protocol: authentication, IPv6's fragment header, and what follows them; says how many bytes they are.
    fn read_extensions(&mut self, bytes: &[u8], version: Version) -> Result<usize, Refusal> {
        let mut rest = bytes;
        while self.fragment.is_none() {
            let header = match (self.protocol, version) {
                (protocol::AUTHENTICATION, _) => {
                    self.is_authenticated = true;
                    authentication(rest)?
                }
                (FRAGMENT, Version::V6) => {
                    let header = rest.get(..FRAGMENT_BYTES).ok_or(Refusal::Extension)?;
                    let field = u16_at(header, 2);
                    let (start, more) = (field & !7, field & 1 != 0);
                    // One that is the whole datagram is processed as if it were none (RFC 6946).
                    if start != 0 || more {
                        self.fragment = Some(Fragment {
                            identification: u32_at(header, 4),
                            start,
                            more,
                        });
                    }
                    header
                }
                (ROUTING | DESTINATION, Version::V6) => {
                    let header = extension(rest).map_err(|_| Refusal::Extension)?;
                    self.is_routed_on |= self.protocol == ROUTING && header[3] != 0;
                    header
                }
                // These stand first or nowhere, and the first ones were walked.
                (HOP_BY_HOP, Version::V6) => return Err(Refusal::Extension),
                _ => break,
            };
            self.protocol = header[0];
            rest = &rest[header.len()..];
        }
        // A fragment's is not read, and covers the addresses as well.
        self.is_authenticated |= self.protocol == protocol::AUTHENTICATION;
        Ok(bytes.len() - rest.len())
    }

    /// The header of the transport that `segment` is; says how many bytes it has, and how many follow it.
    fn read_transport(
        &mut self,
        segment: &[u8],
        l4: usize,
        version: Version,
    ) -> Result<(usize, usize), Refusal> {
        let len = segment.len();
        let mut tunnel = None;
        let (header_bytes, end) = match (self.protocol, version) {
            (protocol::TCP, _) => {
                let header = segment.first_chunk::<20>().ok_or(Refusal::Tcp)?;
                let header_bytes = usize::from(header[12] >> 4) * 4;
                if !(20..=len).contains(&header_bytes) {
                    return Err(Refusal::Tcp);
                }
                self.ports = ports(header);
                self.tcp_flags = Some(header[13]);
                (header_bytes, len)
            }
            (protocol::UDP, _) => {
                let header = segment.first_chunk::<8>().ok_or(Refusal::Udp)?;
                let end = usize::from(u16_at(header, 4));
                if !(8..=len).contains(&end) {
                    return Err(Refusal::Udp);
                }
                self.ports = ports(header);
                tunnel = tunnel::over_udp(self.ports[1], &segment[8..end])
                    .map(|(kind, id, start, bytes)| (kind, id, start, 8 + bytes));
                (8, end)
            }
            (protocol::SCTP, _) => {
                let header = segment.first_chunk::<12>().ok_or(Refusal::Sctp)?;
                self.ports = ports(header);
                (12, len)
            }
            (protocol::ICMP, Version::V4) | (protocol::ICMPV6, Version::V6) => {
                let header = segment.first_chunk::<8>().ok_or(Refusal::Icmp)?;
                if is_query(self.protocol, header[0]) {
                    self.ports = [u16_at(header, 4); 2];
                }
                (8, len)
            }
            (protocol::GRE, _) => {
                let (header_bytes, inside) = tunnel::gre(segment)?;
                tunnel = inside;
                (header_bytes, len)
            }
            (protocol::IPV4 | protocol::IPV6, _) => {
                let start = match self.protocol {
                    protocol::IPV4 => Start::Ipv4,
                    _ => Start::Ipv6,
                };
                self.tunnel = Some(placed((TunnelKind::Ip, None, start, 0), l4)?);
                return Ok((0, len));
            }
            _ => return Ok((0, len)),
        };
        self.has_transport = true;
        self.tunnel = tunnel.map(|header| placed(header, l4)).transpose()?;
        Ok((header_bytes, end - header_bytes))
    }
}

/// True of messages whose fifth and sixth byte are an identifier, by which answers find who asked (RFC 792, RFC 4443): echo and timestamp.
pub(super) fn is_query(protocol: u8, kind: u8) -> bool {
    match protocol {
        protocol::ICMP => matches!(kind, 0 | 8 | 13 | 14),
        _ => matches!(kind, 128 | 129),
    }
}

/// True of protocols with ports that are read.
pub(super) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP)
}

/// True of messages that quote the packet that they are about (RFC 792; RFC 4443, 2.1).
pub(super) fn is_error(protocol: u8, kind: u8) -> bool {
    match protocol {
        protocol::ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        _ => kind < 128,
    }
}

/// Sixteen bytes in network order.
#[inline(always)]
pub(super) fn u128_at(bytes: &[u8], at: usize) -> u128 {
    let word = |at: usize| u128::from(u32_at(bytes, at));
    word(at) << 96 | word(at + 4) << 64 | word(at + 8) << 32 | word(at + 12)
}

fn is_tag(kind: u16) -> bool {
    use ether_type::{OLD_SERVICE_TAG, SERVICE_TAG, TAG};
    matches!(kind, TAG | SERVICE_TAG | OLD_SERVICE_TAG)
}

fn ports(header: &[u8]) -> [u16; 2] {
    [u16_at(header, 0), u16_at(header, 2)]
}

fn placed((kind, id, start, at): Header, l4: usize) -> Result<Tunnel, Refusal> {
    Ok(Tunnel {
        kind,
        id,
        start,
        at: said(l4 + at)?,
    })
}

fn said(place: usize) -> Result<u16, Refusal> {
    u16::try_from(place).map_err(|_| Refusal::TooLong)
}

/// The authentication header at the start of `bytes`: its length is in units of four bytes less two, and it has a check value (RFC 4302, 2.2).
fn authentication(bytes: &[u8]) -> Result<&[u8], Refusal> {
    let units = usize::from(*bytes.get(1).ok_or(Refusal::Extension)?);
    let header = bytes.get(..(units + 2) * 4).ok_or(Refusal::Extension)?;
    (units > 0).then_some(header).ok_or(Refusal::Extension)
}

/// Why [`Packet`] refuses these bytes, which start with the right version.
#[cold]
fn reason(bytes: &[u8], version: Version) -> Refusal {
    match version {
        Version::V4 => {
            let header_bytes = usize::from(bytes[0] & 15) * 4;
            match bytes.len() >= header_bytes.max(IPV4_BYTES) && header_bytes >= IPV4_BYTES {
                true => Refusal::IpLength,
                false => Refusal::IpHeader,
            }
        }
        Version::V6 if bytes.len() < IPV6_BYTES => Refusal::IpHeader,
        Version::V6 if usize::from(u16_at(bytes, 4)) > bytes.len() - IPV6_BYTES => {
            Refusal::IpLength
        }
        Version::V6 => Refusal::Extension,
    }
}
