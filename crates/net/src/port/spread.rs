//! Several ports as one: what is sent is spread by a hash of flows, as a card with several queues does it.

use std::collections::VecDeque;
use std::io;

use dpb_core::port::{PacketPort, PortStats};
use dpb_core::{Buf, SetupError};

use crate::flow::Toeplitz;
use crate::pipeline::rss;

/// Ports of which each has a shard's packets, as [`Sharding::new`](crate::pipeline::Sharding::new) has them. Packets of a flow are sent by one of them; what comes by any
/// of them is received.
///
/// A packet whose port has no room holds up those behind it.
#[derive(Debug)]
pub struct Spread<P> {
    name: String,
    ports: Vec<P>,
    toeplitz: Toeplitz,
    /// The port that is asked first when packets are received, so that none is always first.
    next: usize,
    one: VecDeque<Buf>,
}

impl<P: PacketPort> Spread<P> {
    /// `ports`, one for each shard, and the hash that chooses among them.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(ports: Vec<P>, toeplitz: Toeplitz) -> Self {
        assert!(!ports.is_empty(), "one port at least");
        let names: Vec<&str> = ports.iter().map(PacketPort::name).collect();
        Self {
            name: names.join(" and "),
            ports,
            toeplitz,
            next: 0,
            one: VecDeque::with_capacity(1),
        }
    }
}

impl<P: PacketPort> PacketPort for Spread<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        let each = self.ports.iter().map(PacketPort::packet_bytes_max);
        each.min().unwrap_or(0)
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        self.ports[0].alloc(len)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let before = packets.len();
        for _ in 0..self.ports.len() {
            let room = max - (packets.len() - before);
            let at = self.next;
            self.next = (at + 1) % self.ports.len();
            self.ports[at].receive(packets, room)?;
        }
        Ok(packets.len() - before)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        if let [port] = &mut self.ports[..] {
            return port.send(packets);
        }
        let mut sent = 0;
        while let Some(frame) = packets.pop_front() {
            let entry = rss::hash(&self.toeplitz, &frame) as usize % rss::TABLE_ENTRIES;
            let shard = entry % self.ports.len();
            self.one.push_back(frame);
            let result = self.ports[shard].send(&mut self.one);
            if let Some(frame) = self.one.pop_front() {
                packets.push_front(frame);
            }
            match result? {
                0 => break,
                taken => sent += taken,
            }
        }
        Ok(sent)
    }

    /// Those of all ports together.
    fn stats(&mut self) -> PortStats {
        let mut sum = PortStats::default();
        for port in &mut self.ports {
            let stats = port.stats();
            for (sum, of) in [
                (&mut sum.taken, stats.taken),
                (&mut sum.sent, stats.sent),
                (&mut sum.delivered, stats.delivered),
            ] {
                sum.packets += of.packets;
                sum.bytes += of.bytes;
            }
            for (sum, of) in [
                (&mut sum.send_lost, stats.send_lost),
                (&mut sum.refused, stats.refused),
                (&mut sum.receive_lost, stats.receive_lost),
            ] {
                sum.queue_full += of.queue_full;
                sum.no_memory += of.no_memory;
                sum.too_long += of.too_long;
                sum.malformed += of.malformed;
                sum.kernel += of.kernel;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::toeplitz::SYMMETRIC_KEY;
    use crate::pipeline::Sharding;
    use crate::port::memory::pair_of;
    use crate::traffic::{Generator, Profile, StampKey, Traffic};

    #[test]
    fn packets_of_a_flow_go_one_way_and_none_is_lost() {
        let generator = Generator::new(&Profile::new(3)).expect("a profile");
        let key = StampKey::new(3, 0);
        let (near, mut far): (Vec<_>, Vec<_>) = (0..3)
            .map(|_| pair_of(64).into())
            .map(|[near, far]: [_; 2]| (near, far))
            .unzip();
        let sharding = Sharding::new(Toeplitz::new(SYMMETRIC_KEY), 3);
        let mut spread = Spread::new(near, Toeplitz::new(SYMMETRIC_KEY));
        let mut ready = VecDeque::new();
        for i in 0..2000 {
            let mut frame = spread.alloc(generator.frame_bytes(i)).expect("memory");
            generator.write(i, 0, &key, &mut frame);
            ready.push_back(frame);
        }
        let (mut sent, mut came, mut shards) = (0, Vec::new(), Vec::new());
        while sent < 2000 {
            sent += spread.send(&mut ready).expect("no error");
            assert_eq!(sent + ready.len(), 2000);
            for (shard, port) in far.iter_mut().enumerate() {
                let before = came.len();
                port.receive(&mut came, 64).expect("no error");
                assert!(came.len() - before <= 64);
                shards.extend((before..came.len()).map(|_| shard));
            }
        }
        assert_eq!(came.len(), 2000);
        for (frame, shard) in came.iter().zip(&shards) {
            assert_eq!(usize::from(sharding.of_one(frame)), *shard);
        }
        let per_shard = |shard| shards.iter().filter(|of| **of == shard).count();
        assert!(
            (0..3).all(|shard| per_shard(shard) > 400),
            "{:?}",
            [0, 1, 2].map(per_shard)
        );
        // And back.
        for (frame, shard) in came.into_iter().zip(shards) {
            far[shard]
                .send(&mut VecDeque::from([frame]))
                .expect("no error");
            let mut back = Vec::new();
            assert_eq!(spread.receive(&mut back, 9).expect("no error"), 1);
        }
        let stats = spread.stats();
        assert_eq!((stats.taken.packets, stats.delivered.packets), (2000, 2000));
    }
}
