//! Which shard a packet comes to: receive-side scaling as network cards have it (Toeplitz hash and redirection table), for those who choose a packet's
//! ports so that its reply comes to them.

use super::{Toeplitz, Tuple};

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
    toeplitz: Toeplitz,
    /// The shard for the lowest bits of a hash.
    redirection: Vec<u16>,
    ends: HashedEnds,
}

/// Why there is no such scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RssError {
    /// The lowest bits of a hash cannot be the index.
    #[error("a redirection table of {0} entries; a power of two is needed")]
    Redirection(usize),
}

impl Rss {
    /// With the hash of a card's key, and its redirection table.
    ///
    /// # Errors
    /// [`RssError`].
    pub fn new(
        toeplitz: Toeplitz,
        redirection: Vec<u16>,
        ends: HashedEnds,
    ) -> Result<Self, RssError> {
        if !redirection.len().is_power_of_two() {
            return Err(RssError::Redirection(redirection.len()));
        }
        Ok(Self {
            toeplitz,
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
        // Zeroes add nothing.
        let mut hashed = *tuple;
        for (i, end) in [HashedEnds::Source, HashedEnds::Destination]
            .iter()
            .enumerate()
        {
            if self.ends != HashedEnds::Both && self.ends != *end {
                (hashed.addresses[i], hashed.ports[i]) = (0, 0);
            }
        }
        self.toeplitz.hash_v4(&hashed)
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
mod tests {
    use super::*;
    use crate::flow::toeplitz::{MICROSOFTS_KEY, SUITE_V4};

    #[test]
    fn microsofts_verification_suite() {
        let both = Rss::new(
            Toeplitz::new(MICROSOFTS_KEY),
            vec![0; 128],
            HashedEnds::Both,
        )
        .expect("a key");
        for (to, [to_port, from_port], from, without, with) in SUITE_V4 {
            let address = |text: &str| text.parse().map(std::net::Ipv4Addr::to_bits);
            let addresses = [from, to].map(|text| address(text).expect("an address"));
            let ports = [from_port, to_port];
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
        let rss = |ends| {
            Rss::new(Toeplitz::new(MICROSOFTS_KEY), Rss::evenly(3, 128), ends).expect("a key")
        };
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
    fn odd_tables_are_refused() {
        for entries in [0, 100] {
            let toeplitz = Toeplitz::new(MICROSOFTS_KEY);
            let refused = Rss::new(toeplitz, vec![0; entries], HashedEnds::Both);
            assert_eq!(refused.err(), Some(RssError::Redirection(entries)));
        }
    }
}
