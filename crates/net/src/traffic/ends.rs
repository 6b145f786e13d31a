//! Addresses and ports of flows: a permutation of a flow's number, cut into fields.

use super::TrafficError;
use super::permutation::Permutation;

/// Bits of a client's port: ports from 32,768 on, which are ephemeral everywhere.
const PORT_BITS: u32 = 15;
const PORT_FIRST: u16 = 1 << PORT_BITS;

/// The ranges that addresses are taken from. Each range begins at a base and has a power of two of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The first client's IPv4 address: the side that begins flows.
    pub clients_v4: u32,
    /// The first server's.
    pub servers_v4: u32,
    /// The first client's IPv6 address.
    pub clients_v6: u128,
    /// The first server's.
    pub servers_v6: u128,
    /// There are 2^`client_bits` clients.
    pub client_bits: u32,
    /// There are 2^`server_bits` servers.
    pub server_bits: u32,
}

impl Default for Addresses {
    /// 65,536 clients in 10.0.0.0/8 and 1024 servers in 198.18.0.0/15, which is for benchmarks (RFC 2544); in IPv6 in 2001:2::/48, which is too (RFC
    /// 5180).
    fn default() -> Self {
        Self {
            clients_v4: u32::from_be_bytes([10, 0, 0, 0]),
            servers_v4: u32::from_be_bytes([198, 18, 0, 0]),
            clients_v6: 0x2001_0002_0000_0001 << 64,
            servers_v6: 0x2001_0002_0000_0002 << 64,
            client_bits: 16,
            server_bits: 10,
        }
    }
}

impl Addresses {
    /// Tuples that there are, as a power of two, with all clients' ports.
    fn tuple_bits(&self) -> u32 {
        PORT_BITS + self.client_bits + self.server_bits
    }

    fn check(&self) -> Result<(), TrafficError> {
        let is_range = |base: u128, bits: u32, width: u32| {
            bits <= 24 && bits < width && base & ((1 << bits) - 1) == 0
        };
        let ranges = [
            (u128::from(self.clients_v4), self.client_bits, 32),
            (u128::from(self.servers_v4), self.server_bits, 32),
            (self.clients_v6, self.client_bits, 128),
            (self.servers_v6, self.server_bits, 128),
        ];
        match ranges
            .iter()
            .all(|(base, bits, width)| is_range(*base, *bits, *width))
        {
            true => Ok(()),
            false => Err(TrafficError::Addresses),
        }
    }
}

/// The two ends of a flow, from the side that begins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Which of the clients.
    pub client: u32,
    /// Which of the servers.
    pub server: u32,
    /// The client's port.
    pub port: u16,
}

/// Makes the ends of flows.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    addresses: Addresses,
    tuples: Permutation,
}

impl Plan {
    /// For flows whose numbers lie up to `numbers` apart while they live: these get different ends.
    pub(super) fn new(
        addresses: &Addresses,
        numbers: u64,
        seed: u64,
    ) -> Result<Self, TrafficError> {
        addresses.check()?;
        let bits = addresses.tuple_bits();
        if numbers > 1 << bits {
            return Err(TrafficError::Tuples { numbers, bits });
        }
        Ok(Self {
            addresses: addresses.clone(),
            tuples: Permutation::of_bits(bits, seed),
        })
    }

    #[inline(always)]
    pub(super) fn ends(&self, flow: u64) -> Ends {
        let tuple = self.tuples.apply(flow & (self.tuples.len() - 1), 0);
        let client = tuple >> PORT_BITS & ((1 << self.addresses.client_bits) - 1);
        Ends {
            client: client as u32,
            server: (tuple >> (PORT_BITS + self.addresses.client_bits)) as u32,
            port: PORT_FIRST | (tuple & u64::from(PORT_FIRST - 1)) as u16,
        }
    }

    /// The addresses of client and server.
    #[inline(always)]
    pub(super) fn v4(&self, ends: Ends) -> [u32; 2] {
        [
            self.addresses.clients_v4 | ends.client,
            self.addresses.servers_v4 | ends.server,
        ]
    }

    /// The addresses of client and server.
    #[inline(always)]
    pub(super) fn v6(&self, ends: Ends) -> [u128; 2] {
        [
            self.addresses.clients_v6 | u128::from(ends.client),
            self.addresses.servers_v6 | u128::from(ends.server),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn flows_have_ends_of_their_own() {
        let plan = Plan::new(&Addresses::default(), 1 << 20, 3).expect("room");
        let ends: HashSet<_> = (0..100_000)
            .map(|flow| {
                let Ends {
                    client,
                    server,
                    port,
                } = plan.ends(flow);
                (client, server, port)
            })
            .collect();
        assert_eq!(ends.len(), 100_000);
        // Neither side counts up: neighbours differ in both.
        let [a, b] = [plan.ends(1), plan.ends(2)];
        assert!(a.client != b.client && a.port.abs_diff(b.port) > 1);
        assert!(
            ends.iter()
                .all(|(_, server, port)| *server < 1024 && *port >= 32_768)
        );
    }

    #[test]
    fn ranges_are_kept() {
        let plan = Plan::new(&Addresses::default(), 1, 9).expect("room");
        for flow in 0..1000 {
            let ends = plan.ends(flow);
            let [client, server] = plan.v4(ends);
            assert_eq!(client >> 16, 0x0a00);
            assert_eq!(server >> 10, 0xc612_0000 >> 10);
            let [client, server] = plan.v6(ends);
            assert_eq!(client >> 64, 0x2001_0002_0000_0001);
            assert_eq!(server >> 64, 0x2001_0002_0000_0002);
        }
    }

    #[test]
    fn too_few_tuples_and_ranges_that_are_none() {
        let few = Addresses {
            client_bits: 0,
            server_bits: 0,
            ..Addresses::default()
        };
        assert!(Plan::new(&few, 1 << 15, 1).is_ok());
        assert!(matches!(
            Plan::new(&few, (1 << 15) + 1, 1),
            Err(TrafficError::Tuples { bits: 15, .. })
        ));
        let crooked = Addresses {
            clients_v4: 1,
            ..Addresses::default()
        };
        assert!(Plan::new(&crooked, 1, 1).is_err());
    }
}
