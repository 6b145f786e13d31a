//! The hash by which network cards spread packets over queues: [`Toeplitz`].

use dpb_core::packet::{TCP, UDP};

use super::Tuple;

/// The Toeplitz hash with one key: each bit of the input that is set adds 32 bits of the key, those that start where the bit stands.
#[derive(Clone)]
pub struct Toeplitz {
    key: [u8; KEY_BYTES],
    /// The sum that each value of each half byte of an input adds.
    halves: Box<[[u32; 16]]>,
}

/// Bytes of a key: enough for two IPv6 addresses and two ports.
pub const KEY_BYTES: usize = 40;
/// Bytes of the longest input: two addresses of IPv6 and two ports.
pub(crate) const INPUT_BYTES_MAX: usize = 36;

/// The key of Woo and Park, of which every sixteenth bit is the same.
pub const SYMMETRIC_KEY: [u8; KEY_BYTES] = {
    let mut key = [0x6d; KEY_BYTES];
    let mut i = 1;
    while i < KEY_BYTES {
        key[i] = 0x5a;
        i += 2;
    }
    key
};

/// The key of Microsoft's verification suite ("Verifying the RSS Hash Calculation").
pub const MICROSOFTS_KEY: [u8; KEY_BYTES] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

impl Toeplitz {
    /// The hash with `key`.
    pub fn new(key: [u8; KEY_BYTES]) -> Self {
        // The 32 bits of the key that start at bit `at`.
        let window = |at: usize| {
            let byte = |i: usize| u64::from(*key.get(at / 8 + i).unwrap_or(&0));
            let bits = (0..5).fold(0, |bits, i| bits << 8 | byte(i));
            (bits >> (8 - at % 8)) as u32
        };
        let half = |at: usize| {
            let adds = |value: usize| {
                let set = (0..4).filter(|bit| value & (8 >> bit) != 0);
                set.fold(0, |sum, bit| sum ^ window(at * 4 + bit))
            };
            std::array::from_fn(adds)
        };
        Self {
            key,
            halves: (0..INPUT_BYTES_MAX * 2).map(half).collect(),
        }
    }

    /// The hash of `input`.
    ///
    /// # Panics
    /// If that is longer than 36 bytes.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> u32 {
        assert!(input.len() <= INPUT_BYTES_MAX, "as long as a key is for");
        let mut hash = 0;
        for (byte, halves) in input.iter().zip(self.halves.as_chunks::<2>().0) {
            hash ^= halves[0][usize::from(byte >> 4)] ^ halves[1][usize::from(byte & 15)];
        }
        hash
    }

    /// The hash of a whole packet with this tuple: of TCP and UDP, of addresses and ports; of others, of addresses alone.
    #[inline]
    pub fn hash_v4(&self, tuple: &Tuple<u32>) -> u32 {
        let [from, to] = tuple.addresses;
        let [source, destination] = match tuple.protocol {
            TCP | UDP => tuple.ports.map(u32::from),
            _ => [0; 2],
        };
        // Ports of zero add nothing.
        let words = [from, to, source << 16 | destination];
        self.hash(words.map(u32::to_be_bytes).as_flattened())
    }

    /// The key.
    pub fn key(&self) -> &[u8; KEY_BYTES] {
        &self.key
    }
}

impl std::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Toeplitz({:02x?})", self.key)
    }
}

/// Destination, its port and the source's, source; the hash of addresses, the hash with ports.
#[cfg(test)]
type Case = (&'static str, [u16; 2], &'static str, u32, u32);

/// The vectors of Microsoft's verification suite for IPv4.
#[cfg(test)]
#[rustfmt::skip]
pub(super) const SUITE_V4: [Case; 5] = [
    ("161.142.100.80", [1766, 2794], "66.9.149.187", 0x323e_8fc2, 0x51cc_c178),
    ("65.69.140.83", [4739, 14230], "199.92.111.2", 0xd718_262a, 0xc626_b0ea),
    ("12.22.207.184", [38024, 12898], "24.19.198.95", 0xd2d0_a5de, 0x5c2b_394a),
    ("209.142.163.6", [2217, 48228], "38.27.205.30", 0x8298_9176, 0xafc7_327f),
    ("202.188.127.2", [1303, 44251], "153.39.163.191", 0x5d18_09c5, 0x10e8_28a2),
];

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn v4(destination: &str, source: &str, ports: Option<[u16; 2]>) -> Vec<u8> {
        let address = |text: &str| text.parse::<Ipv4Addr>().expect("an address").octets();
        let mut input = [address(source), address(destination)].concat();
        let [to, from] = ports.unwrap_or_default();
        if ports.is_some() {
            input.extend([from, to].map(u16::to_be_bytes).concat());
        }
        input
    }

    fn v6(destination: &str, source: &str, ports: Option<[u16; 2]>) -> Vec<u8> {
        let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address").octets();
        let mut input = [address(source), address(destination)].concat();
        let [to, from] = ports.unwrap_or_default();
        if ports.is_some() {
            input.extend([from, to].map(u16::to_be_bytes).concat());
        }
        input
    }

    #[test]
    fn microsofts_verification_suite_holds() {
        let hash = Toeplitz::new(MICROSOFTS_KEY);
        for (destination, ports, source, addresses, all) in SUITE_V4 {
            assert_eq!(hash.hash(&v4(destination, source, None)), addresses);
            assert_eq!(hash.hash(&v4(destination, source, Some(ports))), all);
        }
        for (destination, to, source, from, addresses, all) in [
            (
                "3ffe:2501:200:3::1",
                1766,
                "3ffe:2501:200:1fff::7",
                2794,
                0x2cc1_8cd5,
                0x4020_7d3d,
            ),
            (
                "ff02::1",
                4739,
                "3ffe:501:8::260:97ff:fe40:efab",
                14230,
                0x0f0c_461c,
                0xdde5_1bbf,
            ),
            (
                "fe80::200:f8ff:fe21:67cf",
                38024,
                "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
                44251,
                0x4b61_e985,
                0x02d1_feef,
            ),
        ] {
            assert_eq!(hash.hash(&v6(destination, source, None)), addresses);
            assert_eq!(hash.hash(&v6(destination, source, Some([to, from]))), all);
        }
    }
}
