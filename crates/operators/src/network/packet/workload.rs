//! What packet operators are run on: generated packets that carry the user's bytes.

use std::fmt;

use dpb_core::workload;
use dpb_core::{OpSpec, Right, Workload};

use super::sample::{OPTIONS_V4, OPTIONS_V6};
use super::{PacketError, Sample, Transport, Version, put_u16};
use crate::entry::PORTABLE;
use crate::network::checksum::portable;
use crate::network::fragmentation;

/// The most bytes that a datagram carries where several share a payload.
const DATAGRAM_BYTES_MAX: usize = 60_000;
/// More than the headers of one of these packets.
const HEADERS_BYTES_MAX: usize = 256;

/// Packets, and what is right for each by a function that refuses what is none.
///
/// A payload of an even length goes into an IPv4 packet, one of an odd length into an IPv6 packet, and a length that leaves
/// two or three modulo four brings options: sweeps over powers of two see the packets that are most of any traffic, sweeps
/// over every length see all kinds.
pub(crate) struct Packets<F> {
    spec: OpSpec,
    carrier: Carrier,
    right: F,
}

/// The packets that carry a payload.
#[derive(Clone, Copy)]
enum Carrier {
    /// Nothing: it is the item.
    Bytes,
    /// One packet, which can say its length.
    Packet(Transport),
    /// One IPv4 packet with UDP.
    Ipv4,
    /// One packet.
    Send(Transport),
    /// Fragments of UDP datagrams.
    Fragments,
    /// The same, behind the time at which they came.
    TimedFragments,
    /// One packet with TCP or UDP, padded as in an Ethernet frame.
    Framed(Checksums),
}

/// The content of the checksum fields of packets.
#[derive(Clone, Copy)]
enum Checksums {
    /// The right ones, but in some packets.
    Received,
    /// Anything.
    Unfilled,
}

/// Bytes that an Ethernet frame carries at least (IEEE 802.3, 4A.4.2).
const FRAMED_BYTES_MIN: usize = 46;

impl<F> Packets<F>
where
    F: Fn(&[u8]) -> Result<Vec<u8>, PacketError> + Send + Sync,
{
    /// Items that are the payload itself.
    pub(crate) fn bytes(spec: &OpSpec, right: F) -> Self {
        Self::new(spec, Carrier::Bytes, right)
    }

    /// Items of one packet with this transport.
    pub(crate) fn one(spec: &OpSpec, transport: Transport, right: F) -> Self {
        Self::new(spec, Carrier::Packet(transport), right)
    }

    /// Items of one IPv4 packet with UDP, whatever the length.
    pub(crate) fn ipv4(spec: &OpSpec, right: F) -> Self {
        Self::new(spec, Carrier::Ipv4, right)
    }

    /// Items of one send with this transport, which may be longer than a packet.
    pub(crate) fn send(spec: &OpSpec, transport: Transport, right: F) -> Self {
        Self::new(spec, Carrier::Send(transport), right)
    }

    /// Items of a burst of fragments: at least two of each datagram that has the payload for it.
    pub(crate) fn fragments(spec: &OpSpec, right: F) -> Self {
        Self::new(spec, Carrier::Fragments, right)
    }

    /// The same behind eight bytes that say when the burst came: all at once.
    pub(crate) fn timed_fragments(spec: &OpSpec, right: F) -> Self {
        Self::new(spec, Carrier::TimedFragments, right)
    }

    /// Items of one packet as a card receives it: with TCP or UDP, padded if it is short. In one of four a bit has flipped.
    pub(crate) fn received(spec: &OpSpec, right: F) -> Self {
        Self::new(spec, Carrier::Framed(Checksums::Received), right)
    }

    /// Items of one packet as a card is to send it, anything in the fields of its checksums.
    pub(crate) fn unfilled(spec: &OpSpec, right: F) -> Self {
        Self::new(spec, Carrier::Framed(Checksums::Unfilled), right)
    }

    fn new(spec: &OpSpec, carrier: Carrier, right: F) -> Self {
        Self {
            spec: spec.clone(),
            carrier,
            right,
        }
    }
}

impl<F> Workload for Packets<F>
where
    F: Fn(&[u8]) -> Result<Vec<u8>, PacketError> + Send + Sync,
{
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    fn slot_bytes(&self, plain_len: usize) -> Option<usize> {
        match self.carrier {
            // Each item has all fragments of its datagrams, which the operator cannot know.
            Carrier::TimedFragments => {
                let datagrams = plain_len / DATAGRAM_BYTES_MAX + 1;
                Some(plain_len + datagrams * HEADERS_BYTES_MAX)
            }
            _ => None,
        }
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        match self.carrier {
            Carrier::Bytes => Ok(plain.to_vec()),
            Carrier::Send(transport) => Ok(sample(transport, plain.len()).packet(plain)),
            Carrier::Packet(transport) => one(&sample(transport, plain.len()), plain),
            Carrier::Ipv4 => one(&sample(Transport::Udp, plain.len() & !1), plain),
            Carrier::Fragments => Ok(fragments(plain)),
            Carrier::TimedFragments => Ok([&[0; 8], &fragments(plain)[..]].concat()),
            Carrier::Framed(checksums) => framed(checksums, plain),
        }
    }

    fn describe(&self, plain: &str) -> String {
        match self.carrier {
            Carrier::Bytes => plain.to_owned(),
            Carrier::Packet(_) | Carrier::Ipv4 => format!("IP packets that carry {plain}"),
            Carrier::Send(_) => format!("TCP sends of {plain}"),
            Carrier::Fragments | Carrier::TimedFragments => {
                format!("fragments of UDP datagrams that carry {plain}")
            }
            Carrier::Framed(Checksums::Received) => {
                format!("IP packets that carry {plain}, a bit of some flipped")
            }
            Carrier::Framed(Checksums::Unfilled) => {
                format!("IP packets that carry {plain}, their checksums to be filled in")
            }
        }
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        (self.right)(item).map_err(PacketError::refusal).into()
    }

    /// Half of them are packets whose IPv4 header is wrong and still sums up, so that what comes behind the check is seen.
    fn spoil(&self, item: &mut Vec<u8>, seed: u64) {
        let is_v4 = item.len() >= 20 && item[0] == 0x45;
        if seed.is_multiple_of(2) || !is_v4 || matches!(self.carrier, Carrier::Bytes) {
            return workload::spoil(item, seed / 2);
        }
        let at = 1 + (seed / 2 % 19) as usize;
        item[at] ^= 1 << (seed / 64 % 8);
        put_u16(item, 10, 0);
        let sum = portable::checksum(&item[..20]);
        put_u16(item, 10, sum);
    }
}

/// The packet of this kind with this payload.
fn one(sample: &Sample<'_>, payload: &[u8]) -> Result<Vec<u8>, String> {
    let room = 0xffff - sample.headers_bytes();
    match payload.len() <= room {
        true => Ok(sample.packet(payload)),
        false => Err(format!("such a packet carries at most {room} bytes")),
    }
}

/// The packet that carries `payload`, with what pads it.
fn framed(checksums: Checksums, payload: &[u8]) -> Result<Vec<u8>, String> {
    // Bits of the payload, so that items of one length differ.
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let drawn = payload.iter().fold(payload.len() as u32, mix) >> 8;
    let transport = match drawn & 1 {
        0 => Transport::ACK,
        _ => Transport::Udp,
    };
    let version_bit = (drawn >> 4 & 1) as usize;
    let sample = sample(transport, payload.len() & 2 | version_bit);
    let mut packet = one(&sample, payload)?;
    let transport_at = sample.headers_bytes() - transport.header_bytes();
    match checksums {
        Checksums::Received if drawn & 6 == 0 => {
            // In the identification or the source port: the lengths are as they were.
            let is_id = drawn & 8 == 0 && sample.version == Version::V4;
            packet[if is_id { 4 } else { transport_at }] ^= 1;
        }
        // No checksum (RFC 768), which IPv6 forbids.
        Checksums::Received if drawn & 0x60 == 0 && transport == Transport::Udp => {
            put_u16(&mut packet, transport_at + transport.checksum_at(), 0);
        }
        Checksums::Received => {}
        Checksums::Unfilled => {
            put_u16(&mut packet, transport_at + transport.checksum_at(), 0xdead);
            if sample.version == Version::V4 {
                put_u16(&mut packet, 10, 0xbeef);
            }
        }
    }
    let padded = packet.len().max(FRAMED_BYTES_MIN);
    packet.resize(padded, 0x5a);
    Ok(packet)
}

/// The sample of a packet with `payload_bytes` bytes of payload.
fn sample(transport: Transport, payload_bytes: usize) -> Sample<'static> {
    let version = match payload_bytes % 2 {
        0 => Version::V4,
        _ => Version::V6,
    };
    let options = match (payload_bytes % 4, version) {
        (2 | 3, Version::V4) => OPTIONS_V4,
        (2 | 3, Version::V6) => OPTIONS_V6,
        _ => &[],
    };
    Sample {
        options,
        ..Sample::new(version, transport)
    }
}

/// The fragments of as many datagrams as it takes to carry `payload`, one at least.
fn fragments(payload: &[u8]) -> Vec<u8> {
    /// Of Ethernet.
    const MTU: usize = 1500;
    let mut parts: Vec<_> = payload.chunks(DATAGRAM_BYTES_MAX).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let mut burst = Vec::new();
    for (id, part) in parts.into_iter().enumerate() {
        let sample = Sample {
            id: id as u16,
            ..sample(Transport::Udp, part.len())
        };
        let packet = sample.packet(part);
        // The headers are on each fragment, and the first has room for all of them.
        let mtu = (sample.headers_bytes() + 16 + part.len() / 2).clamp(80, MTU);
        let cut = fragmentation::oracle::fragment(&packet, mtu, id as u32);
        burst.extend(cut.expect("a packet that may be cut"));
    }
    burst
}

impl<F> fmt::Debug for Packets<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packets")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}
