//! Tunnels: packets that carry frames or packets.

use dpb_core::packet::{u16_at, u32_at};

use super::{Refusal, ether_type};

/// VXLAN's port (RFC 7348, 5).
pub(super) const VXLAN_PORT: u16 = 4789;
/// GENEVE's port (RFC 8926, 3.3).
pub(super) const GENEVE_PORT: u16 = 6081;

/// The layer with which a reader starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 header.
    Ipv4,
    /// An IPv6 header.
    Ipv6,
}

/// The kind of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelKind {
    /// Ethernet over UDP (RFC 7348), by its port.
    Vxlan,
    /// Ethernet or IP over UDP (RFC 8926), by its port.
    Geneve,
    /// Ethernet or IP over IP (RFC 2784, RFC 2890).
    Gre,
    /// IP over IP (RFC 2003, RFC 2473).
    Ip,
}

/// A tunnel: which one, and where its inside is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tunnel {
    /// Its kind.
    pub kind: TunnelKind,
    /// The virtual network's identifier of VXLAN and GENEVE, 24 bits; GRE's key, where it has one.
    pub id: Option<u32>,
    /// What its inside starts with.
    pub start: Start,
    /// The place of its inside, from the start of the frame.
    pub at: u16,
}

/// A tunnel's kind, number and inside, and bytes of its header.
pub(super) type Header = (TunnelKind, Option<u32>, Start, usize);

/// The tunnel in a datagram to this port, by what follows UDP's header; `None` if it is none that can be read: a port is no proof.
pub(super) fn over_udp(port: u16, data: &[u8]) -> Option<Header> {
    let header = data.first_chunk::<8>()?;
    let id = Some(u32_at(header, 4) >> 8);
    match port {
        // The identifier counts.
        VXLAN_PORT if header[0] & 0x08 != 0 => Some((TunnelKind::Vxlan, id, Start::Ethernet, 8)),
        // Version 0; options in units of four bytes.
        GENEVE_PORT if header[0] >> 6 == 0 => {
            let bytes = 8 + usize::from(header[0] & 0x3f) * 4;
            let start = start_of(u16_at(header, 2))?;
            (bytes <= data.len()).then_some((TunnelKind::Geneve, id, start, bytes))
        }
        _ => None,
    }
}

/// GRE's header: its bytes, and its tunnel if it is one that can be read.
///
/// # Errors
/// [`Refusal::Gre`].
pub(super) fn gre(bytes: &[u8]) -> Result<(usize, Option<Header>), Refusal> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const VERSION: u16 = 7;
    let header = bytes.first_chunk::<4>().ok_or(Refusal::Gre)?;
    let flags = u16_at(header, 0);
    if flags & (ROUTING | VERSION) != 0 {
        // PPTP's version, or a form that RFC 2784 has given up.
        return Ok((4, None));
    }
    let word = |flag: u16| usize::from(flags & flag != 0) * 4;
    let key_at = 4 + word(CHECKSUM);
    let len = key_at + word(KEY) + word(SEQUENCE);
    if len > bytes.len() {
        return Err(Refusal::Gre);
    }
    let key = (flags & KEY != 0).then(|| u32_at(bytes, key_at));
    let tunnel = start_of(u16_at(header, 2)).map(|start| (TunnelKind::Gre, key, start, len));
    Ok((len, tunnel))
}

fn start_of(kind: u16) -> Option<Start> {
    match kind {
        ether_type::ETHERNET => Some(Start::Ethernet),
        ether_type::IPV4 => Some(Start::Ipv4),
        ether_type::IPV6 => Some(Start::Ipv6),
        _ => None,
    }
}
