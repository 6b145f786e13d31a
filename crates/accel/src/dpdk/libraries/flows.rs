//! Flows by `rte_hash`, and beside it a line for each with what is counted: what an application on DPDK has for a flow table.

use dpb_core::Unsupported;

use super::{Libraries, because};
use crate::dpdk::raw;

/// A table of flows whose keys have one length, for one thread. Keys lie one behind another; hashes are those of [`Flows::hashes`].
pub struct Flows(raw::Flows);

/// Packets in mbufs, and the table that a program looks their flows up in.
pub struct Received<'a>(raw::Received<'a>);

impl Libraries {
    /// A table for so many flows.
    ///
    /// # Errors
    /// DPDK makes no such table.
    pub fn flows(&self, entries: u32, key_bytes: u32) -> Result<Flows, Unsupported> {
        let table = raw::Flows::new(self.0, entries, key_bytes);
        let table = table.map_err(|error| {
            because(format!(
                "rte_hash for {entries} flows: DPDK's error {error}"
            ))
        })?;
        Ok(Flows(table))
    }
}

impl Flows {
    /// The hash of each key, as a card or the program has it beforehand.
    ///
    /// # Panics
    /// If there is not one place for each key.
    pub fn hashes(&self, keys: &[u8], hashes: &mut [u32]) {
        self.0.hashes(keys, hashes);
    }

    /// Begins a flow with each packet of so many bytes, but counts the packet at a flow that this call has begun; says how many packets there is no room for.
    ///
    /// # Panics
    /// If there is not one hash and one length for each key; so do the calls below.
    pub fn add(&mut self, keys: &[u8], hashes: &[u32], lens: &[u32], now: u32) -> u32 {
        self.0.add(keys, hashes, lens, now)
    }

    /// Ends flows; says how many there were.
    pub fn remove(&mut self, keys: &[u8], hashes: &[u32]) -> u32 {
        self.0.remove(keys, hashes)
    }

    /// Counts packets at their flows, by bulk calls with `size` hashes, 64 at most; says how many have a flow.
    pub fn count(
        &mut self,
        keys: &[u8],
        hashes: &mut [u32],
        lens: &[u32],
        size: u32,
        now: u32,
    ) -> u32 {
        self.0.count(keys, hashes, lens, size, now)
    }

    /// The same, and begins the flows that there are not; says how many there is no room for.
    pub fn pass(&mut self, keys: &[u8], hashes: &mut [u32], lens: &[u32], now: u32) -> u32 {
        self.0.pass(keys, hashes, lens, now)
    }

    /// Writes mbufs over frames, 256 at most, as a driver does for packets that came. Frames are not looked at.
    ///
    /// # Panics
    /// If there are more frames, one has 64 KiB or more, or the table's keys do not have 16 bytes.
    pub fn receive<'a>(&'a mut self, frames: impl IntoIterator<Item = &'a [u8]>) -> Received<'a> {
        Received(self.0.receive(frames))
    }

    /// Packets of the flow with this key; zero if there is none.
    pub fn packets(&self, key: &[u8]) -> u64 {
        self.0.packets(key)
    }
}

impl Received<'_> {
    /// The work of a program on DPDK on the packets that it has received, in bursts of this many: it asks for packets ahead, reads headers by `rte_net_get_ptype`,
    /// hashes each five-tuple by `rte_hash_crc` (addresses, ports and protocol as they stand in the packet, and zeroes), and goes on as [`Flows::pass`]. Says
    /// how many packets have no flow: there is no room for it, or they are no TCP or UDP over IPv4.
    ///
    /// # Panics
    /// If `burst` is zero.
    pub fn work(&mut self, burst: u32, now: u32) -> u32 {
        self.0.work(burst, now)
    }
}

impl std::fmt::Debug for Flows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Flows(rte_hash)")
    }
}
