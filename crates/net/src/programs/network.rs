//! The network layer of a frame, which is all that a router and a tunnel look at: [`Network`].

use dpb_core::packet::Version;

use crate::packet::{Frame, Places, Refusal, Start};
use crate::pipeline::Reason;

/// Where the IP packet of a frame lies, in bytes from the frame's start, kept while the frame changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    /// The version of IP.
    pub(super) version: Version,
    /// The first byte of the IP header.
    pub(super) start: usize,
    /// The first byte behind the headers.
    pub(super) payload: usize,
    /// The end of the packet; Ethernet's padding is behind it.
    pub(super) end: usize,
    /// The protocol of the payload.
    pub(super) protocol: u8,
    /// True of a part of a datagram.
    pub(super) is_fragment: bool,
    /// True if the IP header is all that is in front of the payload, and so has the byte that says the protocol: no extension headers of IPv6, no
    /// authentication header. IPv4 may have options.
    pub(super) is_plain: bool,
}

impl Network {
    /// Of an Ethernet frame.
    ///
    /// # Errors
    /// [`Reason::TRUNCATED`], [`Reason::MALFORMED`], [`Reason::NOT_IP`].
    pub(super) fn of(frame: &[u8]) -> Result<Self, Reason> {
        Self::placed(&read(frame)?).ok_or(Reason::NOT_IP)
    }

    /// Of a packet of this version.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub(super) fn of_packet(packet: &[u8], version: Version) -> Result<Self, Refusal> {
        let start = match version {
            Version::V4 => Start::Ipv4,
            Version::V6 => Start::Ipv6,
        };
        let frame = Frame::read_network(packet, start)?;
        Ok(Self::placed(&frame).expect("an IP packet"))
    }

    fn placed(frame: &Frame<'_>) -> Option<Self> {
        let (version, protocol) = (frame.version()?, frame.protocol()?);
        let Places { l3, l4, .. } = frame.places();
        let start = usize::from(l3);
        let has_extensions = version == Version::V6 && frame.has_options();
        Some(Self {
            version,
            start,
            payload: l4.into(),
            end: start + frame.ip()?.len(),
            protocol,
            is_fragment: frame.fragment().is_some(),
            is_plain: !has_extensions && !frame.is_authenticated(),
        })
    }
}

/// An Ethernet frame as far as IP.
///
/// # Errors
/// [`Reason::TRUNCATED`], [`Reason::MALFORMED`].
pub(super) fn read(frame: &[u8]) -> Result<Frame<'_>, Reason> {
    Ok(Frame::read_network(frame, Start::Ethernet)?)
}
