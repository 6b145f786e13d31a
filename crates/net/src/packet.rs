//! Frames from Ethernet to transport: read in place, rewritten in place, written.
//!
//! Two readers, which agree on every input:
//!
//! * [`Frame`] reads one frame and knows all of it: addresses, VLAN tags, fragments, tunnels, the packet that an error of ICMP quotes.
//! * [`Headers`] reads a burst of frames in one pass into columns that are used again for the next burst. It has what programs need of most packets:
//!   a [`Verdict`], the [`Places`] of headers and payload, addresses and ports in the order that a key of a flow has, TCP's flags.
//!
//! Both read Ethernet, up to [`TAGS_MAX`] tags (IEEE 802.1Q, 802.1ad), IPv4 with options and fragments, IPv6 with extension headers,
//! the authentication header, TCP, UDP, SCTP, ICMP, ICMPv6 and GRE. What is no IP packet, ARP for example, is [`Verdict::Other`]. Other transports, ESP among
//! them, are payload. Inside of VXLAN, GENEVE, GRE and IP in IP the same is read once more ([`Frame::inner`], [`Headers::read_inner`]).
//!
//! A frame is checked once: each length agrees with the others and with what is there. What does not agree is refused, with a [`Refusal`]. Checksums are
//! not part of this: the operator `checksum-verify` checks those of a burst, and [`Frame::has_right_checksums`] those of one frame.
//!
//! [`mod@write`] has headers to be put into memory, with their checksums. [`Rewriter`] changes addresses and ports where they lie, and each checksum by what has changed
//! (RFC 1624).
//!
//! ```
//! use dpb_net::flow::{HashKey, Table, Timeouts};
//! use dpb_net::packet::{Headers, Verdict};
//!
//! # fn burst() -> Vec<Vec<u8>> {
//! #     let mut frame = vec![0; 60];
//! #     frame[12..].copy_from_slice(&[
//! #         8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 1, 0, 0, 53, 0, 8, 0, 0,
//! #         0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
//! #     ]);
//! #     vec![frame, vec![0; 9]]
//! # }
//! // Of any memory: `Buf`s of a port, or slices.
//! let frames = burst();
//! let mut headers = Headers::new();
//! headers.read(&frames);
//! assert_eq!(headers.facts()[0].verdict, Verdict::Ipv4);
//! assert!(matches!(headers.facts()[1].verdict, Verdict::Refused(_)));
//!
//! // All IPv4 packets of the burst find their flows.
//! let mut flows = Table::new(1 << 10, HashKey::new(1), Timeouts::default())?;
//! let (mut seen, mut found) = (Vec::new(), Vec::new());
//! headers.seen_v4(&mut seen);
//! flows.burst(&seen, 0, &mut found, |_ended| {});
//! for (packet, found) in headers.ipv4().iter().zip(&found) {
//!     println!("packet {packet}: {found:?}");
//! }
//! # Ok::<(), dpb_net::flow::TableError>(())
//! ```

mod checksum;
mod ends;
mod facts;
mod frame;
mod headers;
mod layers;
mod plain;
mod refusal;
mod rewrite;
#[cfg(test)]
mod tests;
mod tunnel;
pub mod write;

pub use checksum::{Change, Sum};
pub use ends::Ends;
pub use facts::{Facts, Marks, Verdict};
pub use frame::Frame;
pub use headers::Headers;
pub use layers::{Fragment, Places, Tag};
pub use refusal::Refusal;
pub use rewrite::{Rewriter, Side, Unchangeable};
pub use tunnel::{Start, Tunnel, TunnelKind};

/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of a VLAN tag.
pub const TAG_BYTES: usize = 4;
/// The VLAN tags that a frame may have.
pub const TAGS_MAX: usize = 3;

/// What an Ethernet frame carries (IEEE's registry of EtherTypes).
pub mod ether_type {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// A tag of IEEE 802.1Q.
    pub const TAG: u16 = 0x8100;
    /// A service tag of IEEE 802.1ad.
    pub const SERVICE_TAG: u16 = 0x88a8;
    /// A service tag as it was before the standard.
    pub const OLD_SERVICE_TAG: u16 = 0x9100;
    /// An Ethernet frame, in a tunnel.
    pub const ETHERNET: u16 = 0x6558;
}

/// What an IP packet carries (IANA's registry of protocol numbers).
pub mod protocol {
    pub use dpb_core::packet::{TCP, UDP};

    /// ICMP, of IPv4.
    pub const ICMP: u8 = 1;
    /// An IPv4 packet.
    pub const IPV4: u8 = 4;
    /// An IPv6 packet.
    pub const IPV6: u8 = 41;
    /// GRE.
    pub const GRE: u8 = 47;
    /// ESP.
    pub const ESP: u8 = 50;
    /// The authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// Nothing.
    pub const NONE: u8 = 59;
    /// SCTP.
    pub const SCTP: u8 = 132;
}
