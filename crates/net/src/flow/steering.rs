//! Which shard a packet comes to: receive-side scaling as network cards have it (Toeplitz hash and redirection table), for those who choose a packet's
//! ports so that its reply comes to them.

use super::Tuple;

/// Says to which shard a card gives a packet.
pub trait Steering {
    /// The shard of a packet with this tuple.
    fn shard(&self, tuple: &Tuple<u32>) -> usize;
}

impl<F: Fn(&Tuple<u32>) -> usize> Steering for F {
    fn shard(&self, tuple: &Tuple<u32>) -> usize {
        self(tuple)
    }
}

/// The ends of a packet that its hash depends on. What it does not depend on counts as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashedEnds {
    /// Where it comes from and where it goes.
    Both,
    /// Where it goes: DPDK's `RTE_ETH_RSS_L3_DST_ONLY` and `RTE_ETH_RSS_L4_DST_ONLY`.
    Destination,
    /// Where it comes from: DPDK's `RTE_ETH_RSS_L3_SRC_ONLY` and `RTE_ETH_RSS_L4_SRC_ONLY`.
    Source,
}

/// Receive-side scaling over IPv4. Of TCP and UDP addresses and ports are hashed, of other protocols addresses alone.
#[derive(Clone)]
pub struct Rss {
    /// The part of the hash that each value of each byte of a tuple adds: source, destination, source port, destination port, in network order.
    by_byte: Box<[[u32; 256]; TUPLE_BYTES]>,
    /// The shard for the lowest bits of a hash.
    redirection: Vec<u16>,
    ends: HashedEnds,
}

/// The bytes of a tuple with ports.
const TUPLE_BYTES: usize = 12;
/// The part of a key that is used for them.
const KEY_BYTES: usize = TUPLE_BYTES + 4;

/// Why there is no such scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RssError {
    /// The key is too short.
    #[error("a key of {0} bytes; at least {KEY_BYTES}")]
    Key(usize),
    /// The lowest bits of a hash cannot be the index.
    #[error("a redirection table of {0} entries; a power of two is needed")]
    Redirection(usize),
}

impl Rss {
    /// With a card's `key` (40 bytes or more) and redirection table.
    ///
    /// # Errors
    /// [`RssError`].
    pub fn new(key: &[u8], redirection: Vec<u16>, ends: HashedEnds) -> Result<Self, RssError> {
        if key.len() < KEY_BYTES {
            return Err(RssError::Key(key.len()));
        }
        if !redirection.len().is_power_of_two() {
            return Err(RssError::Redirection(redirection.len()));
        }
        let mut by_byte = Box::new([[0; 256]; TUPLE_BYTES]);
        for (at, sums) in by_byte.iter_mut().enumerate() {
            let window = key[at..at + 5].iter();
            let window = window.fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
            for (value, sum) in sums.iter_mut().enumerate() {
                // Bit i of the byte, from the highest on, adds the 32 bits of the key that begin i bits behind the byte's place.
                for bit in (0..8).filter(|bit| value >> (7 - bit) & 1 == 1) {
                    *sum ^= (window >> (8 - bit)) as u32;
                }
            }
        }
        Ok(Self {
            by_byte,
            redirection,
            ends,
        })
    }

    /// One shard after another, `entries` of them: how cards come up.
    pub fn evenly(shards: u16, entries: usize) -> Vec<u16> {
        (0..shards).cycle().take(entries).collect()
    }

    /// The hash of a packet.
    pub fn hash(&self, tuple: &Tuple<u32>) -> u32 {
        const TCP: u8 = 6;
        const UDP: u8 = 17;
        let [from, to] = tuple.addresses.map(u32::to_be_bytes);
        let [source, destination] = match tuple.protocol {
            TCP | UDP => tuple.ports.map(u16::to_be_bytes),
            _ => [[0; 2]; 2],
        };
        let mut sum = 0;
        if self.ends != HashedEnds::Destination {
            sum ^= self.part(0, from) ^ self.part(8, source);
        }
        if self.ends != HashedEnds::Source {
            sum ^= self.part(4, to) ^ self.part(10, destination);
        }
        sum
    }

    fn part<const N: usize>(&self, at: usize, bytes: [u8; N]) -> u32 {
        let sums = self.by_byte[at..].iter().zip(bytes);
        sums.fold(0, |sum, (sums, byte)| sum ^ sums[usize::from(byte)])
    }
}

impl Steering for Rss {
    fn shard(&self, tuple: &Tuple<u32>) -> usize {
        let at = self.hash(tuple) as usize & (self.redirection.len() - 1);
        usize::from(self.redirection[at])
    }
}

impl std::fmt::Debug for Rss {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rss = to.debug_struct("Rss");
        rss.field("redirection", &self.redirection);
        rss.field("ends", &self.ends).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The key of Microsoft's verification suite for receive-side scaling.
    pub(in super::super) const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    /// Source, destination, their ports, and the hash without and with ports.
    type Case = ([u8; 4], [u8; 4], [u16; 2], u32, u32);

    /// That suite's vectors for IPv4.
    const SUITE: [Case; 5] = [
        (
            [66, 9, 149, 187],
            [161, 142, 100, 80],
            [2794, 1766],
            0x323e_8fc2,
            0x51cc_c178,
        ),
        (
            [199, 92, 111, 2],
            [65, 69, 140, 83],
            [14230, 4739],
            0xd718_262a,
            0xc626_b0ea,
        ),
        (
            [24, 19, 198, 95],
            [12, 22, 207, 184],
            [12898, 38024],
            0xd2d0_a5de,
            0x5c2b_394a,
        ),
        (
            [38, 27, 205, 30],
            [209, 142, 163, 6],
            [48228, 2217],
            0x8298_9176,
            0xafc7_327f,
        ),
        (
            [153, 39, 163, 191],
            [202, 188, 127, 2],
            [44251, 1303],
            0x5d18_09c5,
            0x10e8_28a2,
        ),
    ];

    #[test]
    fn microsofts_verification_suite() {
        let both = Rss::new(&KEY, vec![0; 128], HashedEnds::Both).expect("a key");
        for (from, to, ports, without, with) in SUITE {
            let addresses = [from, to].map(u32::from_be_bytes);
            let tuple = |protocol| Tuple {
                addresses,
                ports,
                protocol,
            };
            assert_eq!(both.hash(&tuple(6)), with);
            assert_eq!(both.hash(&tuple(17)), with);
            assert_eq!(both.hash(&tuple(1)), without);
        }
    }

    #[test]
    fn one_end_is_as_zero_at_the_other() {
        let rss = |ends| Rss::new(&KEY, Rss::evenly(3, 128), ends).expect("a key");
        let tuple = Tuple {
            addresses: [0x0a00_0001, 0xc000_0201],
            ports: [5000, 80],
            protocol: 6,
        };
        let (mut to, mut from) = (tuple, tuple);
        (to.addresses[0], to.ports[0]) = (0, 0);
        (from.addresses[1], from.ports[1]) = (0, 0);
        let both = rss(HashedEnds::Both);
        assert_eq!(rss(HashedEnds::Destination).hash(&tuple), both.hash(&to));
        assert_eq!(rss(HashedEnds::Source).hash(&tuple), both.hash(&from));
        assert_eq!(both.hash(&tuple), both.hash(&to) ^ both.hash(&from));
    }

    #[test]
    fn short_keys_and_odd_tables_are_refused() {
        let new = |key: &[u8], entries| Rss::new(key, vec![0; entries], HashedEnds::Both).err();
        assert_eq!(new(&KEY[..15], 128), Some(RssError::Key(15)));
        for entries in [0, 100] {
            assert_eq!(new(&KEY, entries), Some(RssError::Redirection(entries)));
        }
    }
}
