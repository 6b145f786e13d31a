//! An end of a connection that is encrypted both ways: [`Gateway`].

use dpb_core::{Direction, SetupError};

use super::{Association, Open, Opening, Seal, TAG_BYTES};
use crate::pipeline::{Pool, Stage};
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
    /// The first four bytes of IVs: [`Seal::in_epoch`].
    pub epoch: u32,
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
