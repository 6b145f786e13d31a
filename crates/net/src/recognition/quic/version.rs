//! Versions of QUIC, and the types of their packets (RFC 9000, 17.2; RFC 9369, 3.2).

/// A version of QUIC whose Initial packets can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 9000.
    One,
    /// RFC 9369.
    Two,
    /// Drafts 29 to 32 of the IETF's working group.
    Draft29,
    /// Drafts 23 to 28.
    Draft23,
    /// Draft 22.
    Draft22,
}

/// What a packet with a long header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The start of the handshake.
    Initial,
    /// Data that a client sends early.
    ZeroRtt,
    /// The rest of the handshake.
    Handshake,
    /// A server asks for the Initial once more, with a token and with another connection's number, which the keys follow from.
    Retry,
    /// A server names the versions that it speaks.
    VersionNegotiation,
    /// A version that is not read here; its first packet has this version's number.
    Foreign(u32),
}

impl Version {
    /// By its number on the wire.
    pub fn of(number: u32) -> Option<Self> {
        match number {
            // Drafts 33 and 34 have the keys of version 1.
            0x0000_0001 | 0xff00_0021 | 0xff00_0022 => Some(Self::One),
            0x6b33_43cf => Some(Self::Two),
            0xff00_001d..=0xff00_0020 => Some(Self::Draft29),
            0xff00_0017..=0xff00_001c => Some(Self::Draft23),
            0xff00_0016 => Some(Self::Draft22),
            // mvfst's numbers from before it spoke version 1.
            0xface_b001 => Some(Self::Draft22),
            0xface_b002..=0xface_b00e => Some(Self::Draft23),
            _ => None,
        }
    }

    /// The type of a packet, by two bits of its first byte: version 2 has them in another order, so that nobody takes them for granted.
    pub(super) fn kind(self, bits: u8) -> Kind {
        const KINDS: [Kind; 4] = [Kind::Initial, Kind::ZeroRtt, Kind::Handshake, Kind::Retry];
        let turned = u8::from(self == Self::Two);
        KINDS[usize::from((bits + 4 - turned) % 4)]
    }
}
