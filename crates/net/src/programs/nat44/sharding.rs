//! The shards of a NAT's packets: [`NatSharding`].

use dpb_core::Buf;

use super::stage::{Sides, read_error};
use crate::flow::nat::Realm;
use crate::flow::{HashedEnds, Rss, RssError, Steering, Toeplitz, Tuple};
use crate::packet::protocol::{ICMP, TCP, UDP};
use crate::packet::{Headers, Marks};
use crate::pipeline::Distributor;

/// Spreads packets over the shards of a NAT with [`Mapping::EndpointIndependent`](crate::flow::nat::Mapping): those of a session come to one shard, whose NAT has its outside port.
///
/// * From inside: TCP and UDP by the source, queries of ICMP by the outside address that the source is mapped to.
/// * From outside: by the destination.
/// * Errors of ICMP as the answer to the packet that they quote would be.
#[derive(Debug)]
pub struct NatSharding {
    sides: Sides,
    addresses: Vec<u32>,
    by_source: Rss,
    by_destination: Rss,
    shards: usize,
    headers: Headers,
}

impl NatSharding {
    /// Over `shards` shards, for a NAT behind the outside addresses `addresses`.
    ///
    /// # Errors
    /// [`RssError`].
    ///
    /// # Panics
    /// If there is no outside address.
    pub fn new(
        toeplitz: Toeplitz,
        shards: u16,
        addresses: Vec<u32>,
        sides: Sides,
    ) -> Result<Self, RssError> {
        assert!(!addresses.is_empty(), "a NAT has an outside address");
        Ok(Self {
            sides,
            addresses,
            by_source: rss(toeplitz.clone(), shards, HashedEnds::Source)?,
            by_destination: Self::steering(toeplitz, shards)?,
            shards: shards.into(),
            headers: Headers::new(),
        })
    }

    /// The hash of packets from outside, by which the NAT of each shard chooses its ports.
    ///
    /// # Errors
    /// [`RssError`].
    pub fn steering(toeplitz: Toeplitz, shards: u16) -> Result<Rss, RssError> {
        rss(toeplitz, shards, HashedEnds::Destination)
    }

    /// The shard of a packet from `realm` with this tuple.
    fn of(&self, realm: Realm, tuple: &Tuple<u32>) -> usize {
        match (realm, tuple.protocol) {
            (Realm::Inside, TCP | UDP) => self.by_source.shard(tuple),
            (Realm::Inside, _) => {
                let inside = tuple.addresses[0] as usize;
                let outside = self.addresses[inside % self.addresses.len()];
                self.by_destination.shard(&Tuple {
                    addresses: [0, outside],
                    ports: [0; 2],
                    protocol: ICMP,
                })
            }
            (Realm::Outside, _) => self.by_destination.shard(tuple),
        }
    }

    fn of_row(&self, realm: Realm, row: usize, frame: &[u8]) -> Option<usize> {
        let tuple = self.headers.tuple_v4(row)?;
        let facts = &self.headers.facts()[row];
        let is_icmp = facts.protocol == ICMP && !facts.marks.has(Marks::FRAGMENT);
        let l4 = usize::from(self.headers.places()[row].l4);
        if is_icmp && matches!(frame.get(l4), Some(3 | 11 | 12)) {
            let (_, quoted) = read_error(frame);
            let Tuple {
                addresses: [from, to],
                ports: [source, destination],
                protocol,
            } = quoted?;
            let answer = Tuple {
                addresses: [to, from],
                ports: [destination, source],
                protocol,
            };
            return Some(self.of(realm, &answer));
        }
        Some(self.of(realm, &tuple))
    }
}

impl Distributor for NatSharding {
    fn shards(&self) -> usize {
        self.shards
    }

    fn spread(&mut self, ingress: u16, frames: &[Buf], shards: &mut Vec<u16>) {
        let realm = self.sides.realm(ingress);
        self.headers.read(frames);
        for (row, frame) in frames.iter().enumerate() {
            let shard = realm.and_then(|realm| self.of_row(realm, row, frame));
            shards.push(shard.unwrap_or(0) as u16);
        }
    }
}

/// Entries of the redirection table: as [`Sharding`](crate::pipeline::Sharding) has.
const ENTRIES: usize = crate::pipeline::rss::TABLE_ENTRIES;

fn rss(toeplitz: Toeplitz, shards: u16, ends: HashedEnds) -> Result<Rss, RssError> {
    Rss::new(toeplitz, Rss::evenly(shards, ENTRIES), ends)
}
