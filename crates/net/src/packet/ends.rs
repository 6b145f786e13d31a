//! Where a packet comes from and where it goes.

use super::Sum;

/// The addresses of a packet as numbers, the source's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ends {
    /// Of IPv4.
    V4([u32; 2]),
    /// Of IPv6.
    V6([u128; 2]),
}

impl Ends {
    /// The sum of the pseudo header of `segment_bytes` bytes of a transport: header and payload (RFC 9293, 3.1; RFC 768; RFC 8200, 8.1).
    pub fn pseudo(&self, protocol: u8, segment_bytes: usize) -> Sum {
        let addresses = match self {
            Self::V4(addresses) => Sum::of(addresses.map(u32::to_be_bytes).as_flattened()),
            Self::V6(addresses) => Sum::of(addresses.map(u128::to_be_bytes).as_flattened()),
        };
        let length = (segment_bytes as u32).to_be_bytes();
        addresses + Sum::of(&length) + Sum::of(&[0, protocol])
    }
}
