//! Packets as a driver hands them over: each in a buffer of its own, with room before and behind it.

use anyhow::Result;
use dpb_core::random::SplitMix64;
use dpb_core::{Backend, Buf};
use dpb_operators::network::packet::{Sample, Transport, Version};

use crate::BURST;

/// The place at which a packet begins in its buffer.
pub const PACKET_AT: usize = 128;
/// The nonce that lies before it.
pub const NONCE_BYTES: usize = 12;
/// Room behind it, for the tag.
pub const ROOM_BEHIND: usize = 16;

/// The number of packets of which one was damaged on its way.
const DAMAGED_ONE_IN: usize = 16;

/// A burst of packets, to be received again and again.
pub struct Packets {
    packets: Vec<Vec<u8>>,
    received: u64,
}

impl Packets {
    /// TCP and UDP over IPv4, of 64 to 1,500 bytes; the same for the same seed.
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut packet = |i: usize| {
            let transport = match i % 2 {
                0 => Transport::ACK,
                _ => Transport::Udp,
            };
            let sample = Sample::new(Version::V4, transport);
            let len = 64 + random.below(1437) - sample.headers_bytes();
            let payload: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            let mut packet = sample.packet(&payload);
            if i % DAMAGED_ONE_IN == DAMAGED_ONE_IN - 1 {
                packet[len / 2] ^= 1;
            }
            packet
        };
        Self {
            packets: (0..BURST).map(&mut packet).collect(),
            received: 0,
        }
    }

    /// Buffers for them, in memory of `backend`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn buffers(&self, backend: &dyn Backend) -> Result<Vec<Buf>> {
        let lens = self.packets.iter().map(Vec::len);
        let bufs = lens.map(|len| backend.alloc(PACKET_AT + len + ROOM_BEHIND));
        Ok(bufs.collect::<Result<_, _>>()?)
    }

    /// Does what a card does when a burst comes in: puts each packet into its buffer. Each gets a nonce that none had before.
    pub fn receive(&mut self, buffers: &mut [Buf]) {
        for (buf, packet) in buffers.iter_mut().zip(&self.packets) {
            buf[PACKET_AT..][..packet.len()].copy_from_slice(packet);
            self.received += 1;
            let nonce = &mut buf[PACKET_AT - NONCE_BYTES..PACKET_AT];
            nonce[..8].copy_from_slice(&self.received.to_be_bytes());
        }
    }

    /// Has the next burst the nonces of the last one.
    pub fn again(&mut self) {
        self.received -= self.packets.len() as u64;
    }

    /// The number of packets of a burst that are as they were sent.
    pub fn undamaged(&self) -> usize {
        self.packets.len() - self.packets.len() / DAMAGED_ONE_IN
    }
}
