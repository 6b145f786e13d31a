//! One frame, read in place.

use std::fmt;
use std::net::IpAddr;

use dpb_core::packet::{IPV4_BYTES, Version, u16_at};

use super::ends::Ends;
use super::layers::{Layers, has_ports, is_error};
use super::{Fragment, Places, Refusal, Start, Sum, Tag, Tunnel, protocol};
use crate::flow::{Flags, Tuple};

/// One frame, or one packet, whose lengths agree. See [the module](super) for what is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    layers: Layers,
}

impl<'a> Frame<'a> {
    /// Reads an Ethernet frame without its check sequence. Bytes that pad it may follow the packet in it.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, Refusal> {
        Self::read_from(bytes, Start::Ethernet)
    }

    /// The same of bytes that start with another header, as a TUN device gives them.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub fn read_from(bytes: &'a [u8], start: Start) -> Result<Self, Refusal> {
        let layers = Layers::read(bytes, 0, start)?;
        Ok(Self { bytes, layers })
    }

    /// The same without the transport's header, which is payload then and may be anything: for routers, tunnels and whoever else looks no further than
    /// IP.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub fn read_network(bytes: &'a [u8], start: Start) -> Result<Self, Refusal> {
        let layers = Layers::read_network(bytes, 0, start)?;
        Ok(Self { bytes, layers })
    }

    /// All bytes: of a frame inside of another, those of the outermost one up to the end of this one.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where the parts lie in [`Frame::bytes`].
    pub fn places(&self) -> Places {
        self.layers.places
    }

    /// The Ethernet addresses, destination first; `None` if the bytes start with IP.
    pub fn link_addresses(&self) -> Option<[[u8; 6]; 2]> {
        let header = self.bytes.get(self.layers.at..)?;
        let addresses = header.as_chunks().0.first_chunk().copied();
        addresses.filter(|_| self.layers.start == Start::Ethernet)
    }

    /// The VLAN tags, the outer one first.
    pub fn tags(&self) -> &[Tag] {
        &self.layers.tags[..self.layers.tag_count]
    }

    /// The EtherType of what follows the tags; a number below 1536 is a length (IEEE 802.3).
    pub fn ether_type(&self) -> u16 {
        self.layers.ether_type
    }

    /// The version of IP, if it is an IP packet.
    pub fn version(&self) -> Option<Version> {
        self.layers.version
    }

    /// The IP packet without the bytes that pad it.
    pub fn ip(&self) -> Option<&'a [u8]> {
        let range = usize::from(self.places().l3)..self.layers.end;
        self.version().map(|_| &self.bytes[range])
    }

    /// Where the packet comes from, and where it goes.
    pub fn addresses(&self) -> Option<[IpAddr; 2]> {
        Some(match self.ends()? {
            Ends::V4(addresses) => addresses.map(|address| IpAddr::V4(address.into())),
            Ends::V6(addresses) => addresses.map(|address| IpAddr::V6(address.into())),
        })
    }

    /// The same as numbers.
    pub fn ends(&self) -> Option<Ends> {
        self.layers.ends(self.bytes)
    }

    /// The protocol's number (IANA), behind extension headers. Of a fragment it is what the fragment says follows.
    pub fn protocol(&self) -> Option<u8> {
        self.version().map(|_| self.layers.protocol)
    }

    /// What it says of its place in a datagram, if it is a part of one.
    pub fn fragment(&self) -> Option<Fragment> {
        self.layers.fragment
    }

    /// True if IPv4 has options, IPv6 extension headers, or either an authentication header.
    pub fn has_options(&self) -> bool {
        self.layers.has_options
    }

    /// True if an authentication header covers the addresses (RFC 4302): nobody may change them.
    pub fn is_authenticated(&self) -> bool {
        self.layers.is_authenticated
    }

    /// True if a routing header of IPv6 has segments left, so that the destination is not the last one.
    pub fn is_routed_on(&self) -> bool {
        self.layers.is_routed_on
    }

    /// True if the header of the transport was read: of TCP, UDP, SCTP, ICMP, GRE in whole packets.
    pub fn has_transport(&self) -> bool {
        self.layers.has_transport
    }

    /// The ports of TCP, UDP and SCTP, the source's first.
    pub fn ports(&self) -> Option<[u16; 2]> {
        let has_ports = has_ports(self.layers.protocol) && self.layers.has_transport;
        has_ports.then_some(self.layers.ports)
    }

    /// TCP's flags.
    pub fn tcp_flags(&self) -> Option<Flags> {
        self.layers.tcp_flags.map(Flags)
    }

    /// Type and code of ICMP or ICMPv6.
    pub fn icmp(&self) -> Option<[u8; 2]> {
        let is_icmp = matches!(self.layers.protocol, protocol::ICMP | protocol::ICMPV6);
        let header = &self.bytes[usize::from(self.places().l4)..];
        (is_icmp && self.layers.has_transport).then(|| [header[0], header[1]])
    }

    /// The payload: what follows the last header that was read.
    pub fn payload(&self) -> &'a [u8] {
        let places = self.places();
        &self.bytes[usize::from(places.payload)..][..usize::from(places.payload_bytes)]
    }

    /// The five-tuple of an IPv4 packet, from which a flow's key is made. Fragments have no ports in it.
    pub fn tuple_v4(&self) -> Option<Tuple<u32>> {
        let Some(Ends::V4(addresses)) = self.ends() else {
            return None;
        };
        Some(Tuple {
            addresses,
            ports: self.layers.ports,
            protocol: self.layers.protocol,
        })
    }

    /// The same of an IPv6 packet.
    pub fn tuple_v6(&self) -> Option<Tuple<u128>> {
        let Some(Ends::V6(addresses)) = self.ends() else {
            return None;
        };
        Some(Tuple {
            addresses,
            ports: self.layers.ports,
            protocol: self.layers.protocol,
        })
    }

    /// The tunnel that the packet is of.
    pub fn tunnel(&self) -> Option<Tunnel> {
        self.layers.tunnel
    }

    /// The frame or packet inside of the tunnel; it may be of a tunnel itself.
    ///
    /// # Errors
    /// In the option: the [`Refusal`] of what is inside.
    pub fn inner(&self) -> Option<Result<Self, Refusal>> {
        let tunnel = self.tunnel()?;
        let bytes = &self.bytes[..self.payload_end()];
        let layers = Layers::read(bytes, tunnel.at.into(), tunnel.start);
        Some(layers.map(|layers| Self { bytes, layers }))
    }

    /// The packet that an error of ICMP or ICMPv6 quotes, as far as it does: its headers, and eight bytes at least of what follows them, from which its
    /// ports are. Its payload begins with the transport's header.
    pub fn quoted(&self) -> Option<Self> {
        let [kind, _] = self.icmp()?;
        if !is_error(self.layers.protocol, kind) {
            return None;
        }
        let bytes = &self.bytes[..self.layers.end];
        let layers = Layers::read_quoted(bytes, self.places().payload.into())?;
        Some(Self { bytes, layers })
    }

    /// True if no checksum is wrong: IPv4's, and in whole packets that are not routed on that of TCP, UDP, ICMP and ICMPv6. UDP may do
    /// without one over IPv4, and in a tunnel over IPv6 (RFC 6936).
    pub fn has_right_checksums(&self) -> bool {
        let Places { l3, l4, .. } = self.places();
        let (l3, l4) = (usize::from(l3), usize::from(l4));
        let Some(ends) = self.ends() else {
            return true;
        };
        let is_v4 = self.version() == Some(Version::V4);
        if is_v4 {
            let header_bytes = usize::from(self.bytes[l3] & 15) * 4;
            if Sum::of(&self.bytes[l3..][..header_bytes.max(IPV4_BYTES)]).checksum() != 0 {
                return false;
            }
        }
        if !self.has_transport() || self.is_routed_on() {
            return true;
        }
        let segment = &self.bytes[l4..self.payload_end()];
        let pseudo = ends.pseudo(self.layers.protocol, segment.len());
        match self.layers.protocol {
            protocol::TCP | protocol::ICMPV6 => (pseudo + Sum::of(segment)).checksum() == 0,
            protocol::UDP if u16_at(segment, 6) == 0 => is_v4 || self.tunnel().is_some(),
            protocol::UDP => (pseudo + Sum::of(segment)).checksum() == 0,
            protocol::ICMP => Sum::of(segment).checksum() == 0,
            _ => true,
        }
    }

    fn payload_end(&self) -> usize {
        let places = self.places();
        usize::from(places.payload) + usize::from(places.payload_bytes)
    }
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut frame = to.debug_struct("Frame");
        frame.field("bytes", &self.bytes.len());
        frame.field("layers", &self.layers).finish()
    }
}
