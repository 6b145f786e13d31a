//! An end of a connection that is encrypted both ways: [`Gateway`].

use dpb_core::packet::u32_at;
use dpb_core::{Buf, Direction, SetupError};

use super::{Association, Open, Opening, Seal, TAG_BYTES};
use crate::flow::Toeplitz;
use crate::packet::protocol;
use crate::pipeline::{Distributor, Pool, Sharding, Stage};
use crate::programs::network::Network;
use crate::programs::{Engine, Only};

/// An end of a connection: packets of its plain ports are encrypted, and those of its other ports decrypted. The other end has the associations the other way around.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// For each port by its number, true if packets come plain there.
    pub plain: Vec<bool>,
    /// The association by which each shard sends.
    pub sends: Vec<Association>,
    /// The associations by which packets come, whichever shard they come to. All packets of one have to come to one shard, which has the window.
    pub receives: Vec<Association>,
    /// `aes-gcm`.
    pub seals: Engine,
    /// `aes-gcm-decrypt`, with the same key.
    pub opens: Engine,
    /// Longest packet that is sent, from its IP header on.
    pub mtu: u16,
    /// Settings of the receiving side.
    pub opening: Opening,
    /// The number from which IVs count: [`Seal::in_epoch`].
    pub epoch: u64,
    /// True if ARP passes, in the clear, without which hosts on both sides of a bridge do not find each other.
    pub lets_arp_pass: bool,
}

impl Gateway {
    /// The stages of shard number `shard`: one that encrypts, one that decrypts. Frames that become longer have their room from `pool`, unless they have it.
    ///
    /// # Errors
    /// If a shard has no association, an engine's operator is another one, or its queue cannot be opened.
    pub fn stages(&self, shard: usize, pool: &Pool) -> Result<Vec<Box<dyn Stage>>, SetupError> {
        let association = self.sends.get(shard).ok_or_else(|| {
            let (shards, associations) = (shard + 1, self.sends.len());
            SetupError::Parameter(format!("{associations} associations for {shards} shards"))
        })?;
        association.check(&self.seals, Direction::Encrypt)?;
        for receives in &self.receives {
            receives.check(&self.opens, Direction::Decrypt)?;
        }
        let seal = Seal::new(*association, pool.clone(), self.mtu).in_epoch(self.epoch);
        let open = Open::new(&self.receives, pool.clone(), self.opening);
        let sealed = self.plain.iter().map(|is_plain| !is_plain).collect();
        let longest = u32::from(self.mtu) + TAG_BYTES as u32;
        let opened_bytes = u32::from(self.opening.mtu);
        let seals = Only::new(seal, self.plain.clone(), self.lets_arp_pass);
        let opens = Only::new(open, sealed, self.lets_arp_pass);
        Ok(vec![
            Box::new(self.seals.stage(seals, longest)?),
            Box::new(self.opens.stage(opens, opened_bytes)?),
        ])
    }
}

/// Spreads the packets of a gateway over its shards: plain ones by a hash of their flow, encrypted ones by their association, whose window only one shard has.
#[derive(Debug)]
pub struct GatewaySharding {
    sharding: Sharding,
    plain: Vec<bool>,
    /// SPIs that are received, in rising order, each with its shard.
    shards_of: Vec<(u32, u16)>,
}

impl GatewaySharding {
    /// Over `shards` shards of `gateway`. Association by association goes to the next shard, so that each has the packets of as many of the other end's shards.
    ///
    /// # Panics
    /// As [`Sharding::new`].
    pub fn new(toeplitz: Toeplitz, shards: u16, gateway: &Gateway) -> Self {
        let spis = gateway.receives.iter().map(|association| association.spi);
        let mut shards_of: Vec<_> = spis.zip((0..shards).cycle()).collect();
        shards_of.sort_unstable();
        Self {
            sharding: Sharding::new(toeplitz, shards.into()),
            plain: gateway.plain.clone(),
            shards_of,
        }
    }

    /// The shard of an ESP packet of a known association.
    fn of_sealed(&self, frame: &[u8]) -> Option<u16> {
        let headers = Network::of(frame).ok()?;
        let is_esp = headers.protocol == protocol::ESP && !headers.is_fragment;
        let has_spi = is_esp && headers.payload + 4 <= headers.end;
        let spi = has_spi.then(|| u32_at(frame, headers.payload))?;
        let place = self.shards_of.binary_search_by_key(&spi, |(of, _)| *of);
        place.ok().map(|at| self.shards_of[at].1)
    }
}

impl Distributor for GatewaySharding {
    fn shards(&self) -> usize {
        self.sharding.shards()
    }

    fn spread(&mut self, ingress: u16, frames: &[Buf], shards: &mut Vec<u16>) {
        if self.plain.get(usize::from(ingress)) == Some(&true) {
            return self.sharding.spread(ingress, frames, shards);
        }
        let of = |frame: &Buf| {
            let of_sealed = self.of_sealed(frame);
            of_sealed.unwrap_or_else(|| self.sharding.of_one(frame))
        };
        shards.extend(frames.iter().map(of));
    }
}
