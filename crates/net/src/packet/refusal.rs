//! Why frames are refused.

use super::TAGS_MAX;

/// Why a frame was refused: which of its lengths does not agree with the others, or with what is there.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum Refusal {
    /// Less than an Ethernet header.
    #[error("shorter than an Ethernet header")]
    Ethernet,
    /// A VLAN tag is cut short.
    #[error("a VLAN tag that is cut short")]
    Tag,
    /// There are more VLAN tags than [`TAGS_MAX`].
    #[error("more than {TAGS_MAX} VLAN tags")]
    Tags,
    /// The IP header is of another version than the layer below announces.
    #[error("another version of IP than was announced")]
    Version,
    /// The IP header is cut short, or says that it is shorter than one can be.
    #[error("an IP header that is cut short")]
    IpHeader,
    /// The length of the IP packet is less than that of its header, or more than is there.
    #[error("a length of an IP packet that is less than its header, or more than is there")]
    IpLength,
    /// An extension header of IPv6, or an authentication header, is cut short or out of place.
    #[error("an extension header that is cut short or out of place")]
    Extension,
    /// TCP's header is cut short, or says that it is shorter than one can be.
    #[error("a TCP header that is cut short")]
    Tcp,
    /// UDP's header is cut short, or its length is less than that, or more than is there.
    #[error("a UDP header that is cut short, or a length that is more than is there")]
    Udp,
    /// SCTP's common header is cut short.
    #[error("an SCTP header that is cut short")]
    Sctp,
    /// The header of ICMP or ICMPv6 is cut short.
    #[error("an ICMP header that is cut short")]
    Icmp,
    /// GRE's header is cut short.
    #[error("a GRE header that is cut short")]
    Gre,
    /// Headers or payload lie where 16 bits cannot say it: beyond 64 KiB.
    #[error("headers or payload beyond 64 KiB")]
    TooLong,
}

impl Refusal {
    /// All reasons, each at its own number: `Refusal::ALL[reason as usize] == reason`. For counters.
    pub const ALL: [Self; 13] = [
        Self::Ethernet,
        Self::Tag,
        Self::Tags,
        Self::Version,
        Self::IpHeader,
        Self::IpLength,
        Self::Extension,
        Self::Tcp,
        Self::Udp,
        Self::Sctp,
        Self::Icmp,
        Self::Gre,
        Self::TooLong,
    ];
}
