//! How a NAT behaves, what it is asked and what it answers.

use std::ops::RangeInclusive;

use super::super::{Flags, TableError, Timeouts, Tuple};

/// What an outside port depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// The inside address and port.
    EndpointIndependent,
    /// These, and the address and port of the other end.
    AddressAndPortDependent,
}

/// Who may send to an outside port. With [`Mapping::AddressAndPortDependent`] it is always the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filtering {
    /// Everybody, as long as the mapping lives (RFC 4787, REQ-8, for the most transparency). Of TCP a packet that asks for a connection; others need one.
    EndpointIndependent,
    /// Addresses and ports that were sent to.
    AddressAndPortDependent,
}

/// How a NAT behaves.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// What an outside port depends on.
    pub mapping: Mapping,
    /// Who may send there.
    pub filtering: Filtering,
    /// The outside ports, and identifiers of ICMP.
    pub ports: RangeInclusive<u16>,
    /// True if an outside port is like the inside one where that is free.
    pub keeps_ports: bool,
    /// True if the outside port of an even port of UDP is even (RTP, RFC 3550).
    pub keeps_parity: bool,
    /// How long sessions live.
    pub timeouts: Timeouts,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            mapping: Mapping::EndpointIndependent,
            filtering: Filtering::EndpointIndependent,
            ports: 1024..=u16::MAX,
            keeps_ports: false,
            keeps_parity: true,
            timeouts: Timeouts::default(),
        }
    }
}

/// The side that a packet comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Realm {
    /// The many addresses.
    Inside,
    /// The few.
    Outside,
}

/// A packet, as a NAT sees it.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// As its headers have it. Of a query of ICMP both ports are the identifier.
    pub tuple: Tuple<u32>,
    /// Its bytes, by the measure that the caller chose.
    pub bytes: u32,
    /// Of TCP, its flags.
    pub flags: Option<Flags>,
    /// True of each fragment of a datagram.
    pub is_fragment: bool,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translated {
    /// It is sent on with this tuple.
    To(Tuple<u32>),
    /// It is given with this tuple to another shard's NAT, as a packet from `realm`: a hairpin whose second half is there, or a packet whose
    /// reply no port brings here.
    ByShard {
        /// The number of the shard.
        shard: usize,
        /// The realm that it comes from there.
        realm: Realm,
        /// The tuple that it has from now on.
        tuple: Tuple<u32>,
    },
    /// It is dropped.
    Refused(Refusal),
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// All outside ports that it could have are taken; with [`Mapping::AddressAndPortDependent`], all that were drawn.
    NoPort,
    /// There is no room for its session.
    Full,
    /// Its sender is not one that was sent to.
    Filtered,
    /// Nothing is mapped to where it goes.
    Unmapped,
    /// It is a fragment.
    Fragment,
    /// It is of another protocol than TCP, UDP and ICMP.
    Protocol,
}

impl Refusal {
    const COUNT: usize = 6;
}

/// What becomes of an error of ICMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslatedError {
    /// The shard that it is to be given to, as an error from outside, instead of being sent on.
    pub by_shard: Option<usize>,
    /// Source and destination of the error.
    pub addresses: [u32; 2],
    /// The tuple of the packet that it quotes.
    pub quoted: Tuple<u32>,
}

/// Of packets: offered is translated, given to other shards, and refused. Errors of ICMP count for themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatStats {
    /// Packets that came.
    pub offered: u64,
    /// Packets that were sent on.
    pub translated: u64,
    /// Packets that other shards got.
    pub by_shard: u64,
    /// Of those sent on, packets that went from inside to inside here.
    pub hairpinned: u64,
    /// Packets that were counted at sessions, those from inside to inside here at two where both ends have sent.
    pub counted: u64,
    /// Packets of strangers that were let in and counted at no session.
    pub unsolicited: u64,
    pub(super) refused: [u64; Refusal::COUNT],
    /// Errors of ICMP that were translated.
    pub errors: u64,
    /// Errors of ICMP that quote nothing that is known.
    pub errors_refused: u64,
}

impl NatStats {
    /// Packets that were refused so.
    pub fn refused(&self, why: Refusal) -> u64 {
        self.refused[why as usize]
    }

    /// Packets that were refused.
    pub fn refused_in_all(&self) -> u64 {
        self.refused.iter().sum()
    }
}

/// Why there is no NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NatError {
    /// There is no outside address.
    #[error("no outside address")]
    NoAddress,
    /// No table for its sessions.
    #[error(transparent)]
    Table(#[from] TableError),
}
