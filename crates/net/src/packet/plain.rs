//! The short way: most packets are TCP or UDP over IP without options, behind one tag at most. What is read here the careful reader reads
//! alike; what is not is left to it.
//!
//! TCP and UDP take the same instructions, tagged frames and others too, and both directions of a flow: programs meet these mixed, and a
//! branch that nobody can foretell costs as much as all the rest.

use std::hint::select_unpredictable;

use dpb_core::packet::{IPV4_BYTES, IPV6_BYTES, TCP, UDP, u16_at};

use super::facts::{Facts, Marks, Verdict};
use super::tunnel::{GENEVE_PORT, VXLAN_PORT};
use super::{ETHERNET_BYTES, Places, TAG_BYTES, ether_type};

/// Bytes of a transport's header that are looked at: to TCP's flags, and as many as make loads short.
const L4_BYTES: usize = 16;

/// What was read of a plain packet.
pub(super) struct Plain {
    pub(super) facts: Facts,
    pub(super) places: Places,
}

/// Both ends of a packet in order, and whether that turned it around.
pub(super) struct Ordered<A> {
    pub(super) low: (A, u16),
    pub(super) high: (A, u16),
    pub(super) is_reversed: bool,
}

/// What follows an Ethernet header and at most one tag: its EtherType, and its start.
#[inline(always)]
pub(super) fn link(frame: &[u8]) -> Option<(u16, usize)> {
    let head = frame.first_chunk::<{ ETHERNET_BYTES + TAG_BYTES }>()?;
    let outer = u16_at(head, 12);
    let is_tagged = outer == ether_type::TAG;
    let kind = if is_tagged { u16_at(head, 16) } else { outer };
    Some((kind, ETHERNET_BYTES + TAG_BYTES * usize::from(is_tagged)))
}

/// A packet of IPv4 that starts at `l3`: an address as a number above its port, so that one comparison orders ends.
#[inline(always)]
pub(super) fn v4(frame: &[u8], l3: usize) -> Option<(Plain, [u64; 2])> {
    let packet = frame.get(l3..)?;
    let head = packet.first_chunk::<{ IPV4_BYTES + L4_BYTES }>()?;
    // Version 4, no options, no fragment.
    const MASK: u64 = u64::from_le_bytes([0xff, 0, 0, 0, 0, 0, 0x3f, 0xff]);
    let start = u64::from_le_bytes(*head.first_chunk()?);
    let packet_bytes = usize::from(((start >> 16) as u16).swap_bytes());
    if start & MASK != 0x45 || packet_bytes > packet.len() {
        return None;
    }
    let l4 = head.last_chunk::<L4_BYTES>()?;
    let transport = Transport::read(head[9], l4, packet_bytes.saturating_sub(IPV4_BYTES))?;
    let addresses = u64::from_be_bytes(*head[12..].first_chunk()?);
    let ports = u64::from(transport.ports);
    let source = ((addresses >> 32) << 16) | (ports >> 16);
    let destination = ((addresses & 0xffff_ffff) << 16) | (ports & 0xffff);
    let is_reversed = source > destination;
    let ends = [source.min(destination), source.max(destination)];
    let plain = transport.row(frame, Verdict::Ipv4, l3, IPV4_BYTES, is_reversed);
    Some((plain, ends))
}

/// A packet of IPv6 that starts at `l3`.
#[inline(always)]
pub(super) fn v6(frame: &[u8], l3: usize) -> Option<(Plain, Ordered<u128>)> {
    let packet = frame.get(l3..)?;
    let head = packet.first_chunk::<{ IPV6_BYTES + L4_BYTES }>()?;
    let l4_bytes = usize::from(u16_at(head, 4));
    if head[0] >> 4 != 6 || IPV6_BYTES + l4_bytes > packet.len() {
        return None;
    }
    let l4 = head.last_chunk::<L4_BYTES>()?;
    let transport = Transport::read(head[6], l4, l4_bytes)?;
    let address = |at: usize| {
        head[at..]
            .first_chunk()
            .map(|bytes| u128::from_be_bytes(*bytes))
    };
    let ordered = ordered(
        (address(8)?, (transport.ports >> 16) as u16),
        (address(24)?, transport.ports as u16),
    );
    let plain = transport.row(frame, Verdict::Ipv6, l3, IPV6_BYTES, ordered.is_reversed);
    Some((plain, ordered))
}

/// Two ends in order, by address and then by port.
#[inline(always)]
pub(super) fn ordered<A: Ord + Copy>(source: (A, u16), destination: (A, u16)) -> Ordered<A> {
    // Without `||`, which would be a branch.
    let is_reversed =
        (source.0 > destination.0) | ((source.0 == destination.0) & (source.1 > destination.1));
    let (low, high) = match is_reversed {
        true => (destination, source),
        false => (source, destination),
    };
    Ordered {
        low,
        high,
        is_reversed,
    }
}

/// TCP or UDP.
struct Transport {
    protocol: u8,
    /// The source's above the destination's.
    ports: u32,
    header_bytes: usize,
    /// Header and payload.
    said_bytes: usize,
    tcp_flags: u8,
}

impl Transport {
    #[inline(always)]
    fn read(protocol: u8, head: &[u8; L4_BYTES], l4_bytes: usize) -> Option<Self> {
        // What is nearly always so is a branch, which costs nothing; what is as it comes is a selection.
        const PLAIN: u32 = 1 << TCP | 1 << UDP;
        if protocol >= 32 || (PLAIN >> protocol) & 1 == 0 {
            return None;
        }
        let ports = u32::from_be_bytes(*head.first_chunk()?);
        // Of TCP too: few have these.
        if matches!(ports as u16, VXLAN_PORT | GENEVE_PORT) {
            return None;
        }
        let is_tcp = protocol == TCP;
        let header_bytes = select_unpredictable(is_tcp, usize::from(head[12] >> 4) * 4, 8);
        let least_bytes = select_unpredictable(is_tcp, 20, 8);
        let said_bytes = select_unpredictable(is_tcp, l4_bytes, usize::from(u16_at(head, 4)));
        let tcp_flags = select_unpredictable(is_tcp, head[13], 0);
        if said_bytes > l4_bytes || header_bytes > said_bytes || header_bytes < least_bytes {
            return None;
        }
        Some(Self {
            protocol,
            ports,
            header_bytes,
            said_bytes,
            tcp_flags,
        })
    }

    #[inline(always)]
    fn row(
        self,
        frame: &[u8],
        verdict: Verdict,
        l3: usize,
        ip_bytes: usize,
        is_reversed: bool,
    ) -> Plain {
        let l4 = l3 + ip_bytes;
        let is_tagged = l3 > ETHERNET_BYTES;
        Plain {
            facts: Facts {
                verdict,
                protocol: self.protocol,
                tcp_flags: self.tcp_flags,
                marks: Marks::TRANSPORT
                    .and_if(Marks::REVERSED, is_reversed)
                    .and_if(Marks::TAGGED, is_tagged),
                bytes: frame.len() as u32,
            },
            places: Places {
                l3: l3 as u16,
                l4: l4 as u16,
                payload: (l4 + self.header_bytes) as u16,
                payload_bytes: (self.said_bytes - self.header_bytes) as u16,
            },
        }
    }
}
