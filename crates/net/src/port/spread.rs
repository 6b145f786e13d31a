//! One port over several queues of another machine, as a network card with receive-side scaling has them.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dpb_core::port::{PacketPort, PortStats};
use dpb_core::{Buf, SetupError};

use crate::flow::Toeplitz;
use crate::flow::toeplitz::SYMMETRIC_KEY;
use crate::pipeline::WhenFull;
use crate::pipeline::rss::{TABLE_ENTRIES, hash_of};

/// Several ports as one: what is sent goes to one of them by the hash of its flow, what comes to any of them is received.
///
/// Where a packet's port has no room, it is dropped and counted, as a card does whose queue is full, and the other queues go on; or it holds up those behind it.
/// Its shards are those of a [`Sharding`](crate::pipeline::Sharding) with the symmetric key.
pub struct Spread {
    name: String,
    ports: Vec<Box<dyn PacketPort>>,
    toeplitz: Toeplitz,
    when_full: WhenFull,
    /// Of each port, the packets on their way to it. Empty between two calls.
    queues: Vec<VecDeque<Buf>>,
    /// The port that is received from first.
    next: usize,
    dropped: Arc<AtomicU64>,
    dropped_before: u64,
}

impl Spread {
    /// Over these ports, of which the first gives memory.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(ports: Vec<Box<dyn PacketPort>>, when_full: WhenFull) -> Self {
        assert!(!ports.is_empty(), "at least one port");
        let count = ports.len();
        Self {
            name: format!("{count} queues"),
            toeplitz: Toeplitz::new(SYMMETRIC_KEY),
            when_full,
            queues: (0..count).map(|_| VecDeque::new()).collect(),
            ports,
            next: 0,
            dropped: Arc::default(),
            dropped_before: 0,
        }
    }

    /// Packets that it has dropped since it was made, to be read while it is in use.
    pub fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped)
    }
}

impl Spread {
    /// The number of a packet's queue.
    fn queue(&self, packet: &[u8]) -> usize {
        let hash = hash_of(&self.toeplitz, packet) as usize;
        hash % TABLE_ENTRIES % self.ports.len()
    }

    /// Up to the first packet whose port has no room.
    fn send_in_order(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let mut taken = 0;
        while let Some(packet) = packets.pop_front() {
            let at = self.queue(&packet);
            let queue = &mut self.queues[at];
            queue.push_back(packet);
            let result = self.ports[at].send(queue);
            if let Some(packet) = queue.pop_front() {
                packets.push_front(packet);
            }
            match result {
                Ok(0) => break,
                Ok(sent) => taken += sent,
                // It stays in front, and the next call meets it first.
                Err(_) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// All, but for those that are too long.
    fn send_what_fits(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let max = self.packet_bytes_max();
        let mut taken = 0;
        // One that is too long stays in front, for its port to refuse.
        while packets.front().is_some_and(|packet| packet.len() <= max)
            && let Some(packet) = packets.pop_front()
        {
            let queue = self.queue(&packet);
            self.queues[queue].push_back(packet);
            taken += 1;
        }
        let mut dropped = 0;
        for (port, queue) in self.ports.iter_mut().zip(&mut self.queues) {
            if queue.is_empty() {
                continue;
            }
            let sent = port.send(queue);
            dropped += queue.len() as u64;
            queue.clear();
            sent?;
        }
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
        self.dropped_before += dropped;
        if taken == 0 && !packets.is_empty() {
            return self.ports[0].send(packets);
        }
        Ok(taken)
    }
}

impl PacketPort for Spread {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        let each = self.ports.iter().map(|port| port.packet_bytes_max());
        each.min().unwrap_or(0)
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        self.ports[0].alloc(len)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let mut came = 0;
        for _ in 0..self.ports.len() {
            let at = self.next;
            self.next = (at + 1) % self.ports.len();
            came += self.ports[at].receive(packets, max - came)?;
            if came == max {
                break;
            }
        }
        Ok(came)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        match self.when_full {
            WhenFull::Hold => self.send_in_order(packets),
            WhenFull::Drop => self.send_what_fits(packets),
        }
    }

    fn is_at_end(&self) -> bool {
        self.ports.iter().all(|port| port.is_at_end())
    }

    fn stats(&mut self) -> PortStats {
        let mut all = PortStats::default();
        for port in &mut self.ports {
            let stats = port.stats();
            for (sum, of) in [
                (&mut all.taken, stats.taken),
                (&mut all.sent, stats.sent),
                (&mut all.delivered, stats.delivered),
            ] {
                sum.packets += of.packets;
                sum.bytes += of.bytes;
            }
            for (sum, of) in [
                (&mut all.send_lost, stats.send_lost),
                (&mut all.refused, stats.refused),
                (&mut all.receive_lost, stats.receive_lost),
            ] {
                sum.queue_full += of.queue_full;
                sum.no_memory += of.no_memory;
                sum.too_long += of.too_long;
                sum.malformed += of.malformed;
                sum.kernel += of.kernel;
            }
        }
        // It took those, and no port did.
        all.taken.packets += self.dropped_before;
        all.send_lost.queue_full += self.dropped_before;
        all
    }
}

impl fmt::Debug for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spread({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Sharding;
    use crate::port::{End, pair_of};
    use crate::traffic::{Generator, Profile, StampKey, Traffic};

    fn spread(shards: usize, room: usize, when_full: WhenFull) -> (Spread, Vec<End>) {
        let pairs = (0..shards).map(|_| pair_of(room));
        let (near, far): (Vec<_>, Vec<_>) = pairs.map(|[near, far]| (near, far)).unzip();
        let near = near
            .into_iter()
            .map(|end| Box::new(end) as Box<dyn PacketPort>);
        (Spread::new(near.collect(), when_full), far)
    }

    fn frames(generator: &Generator, count: u64, port: &mut dyn PacketPort) -> VecDeque<Buf> {
        let key = StampKey::new(1, 0);
        let frame = |i| {
            let mut frame = port.alloc(generator.frame_bytes(i)).expect("memory");
            generator.write(i, 0, &key, &mut frame);
            frame
        };
        (0..count).map(frame).collect()
    }

    #[test]
    fn a_flow_goes_to_one_queue_and_all_queues_have_flows() {
        let generator = Generator::new(&Profile::new(3)).expect("a profile");
        let (mut near, mut far) = spread(3, 4096, WhenFull::Drop);
        let mut ready = frames(&generator, 3000, &mut near);
        assert_eq!(near.send(&mut ready).expect("room"), 3000);
        let mut of_flow = std::collections::HashMap::new();
        let mut total = 0;
        for (queue, end) in far.iter_mut().enumerate() {
            let mut came = Vec::new();
            total += end.receive(&mut came, 4096).expect("works");
            assert!(came.len() > 500, "{} of 3000 in queue {queue}", came.len());
            for frame in came {
                // Addresses and ports of UDP over IPv4.
                let flow = frame[26..38].to_vec();
                assert_eq!(*of_flow.entry(flow).or_insert(queue), queue);
            }
        }
        assert_eq!((total, of_flow.len()), (3000, 1000));
        let stats = near.stats();
        assert_eq!((stats.taken.packets, stats.in_flight()), (3000, 0));
    }

    #[test]
    fn what_a_queue_has_no_room_for_is_dropped_and_counted() {
        let generator = Generator::new(&Profile::new(3)).expect("a profile");
        let (mut near, mut far) = spread(2, 16, WhenFull::Drop);
        let dropped = near.dropped();
        let mut ready = frames(&generator, 100, &mut near);
        assert_eq!(near.send(&mut ready).expect("works"), 100);
        assert!(ready.is_empty());
        let stats = near.stats();
        assert_eq!((stats.sent.packets, stats.send_lost.queue_full), (32, 68));
        assert_eq!((stats.taken.packets, stats.in_flight()), (100, 0));
        assert_eq!(dropped.load(Ordering::Relaxed), 68);
        let mut came = Vec::new();
        let each: Vec<usize> = far
            .iter_mut()
            .map(|end| end.receive(&mut came, 99).expect("works"))
            .collect();
        assert_eq!(each, [16, 16]);
        // What comes is received from all, none of which is always first.
        for end in &mut far {
            let mut back: VecDeque<Buf> = (0..5).map(|_| end.alloc(60).expect("memory")).collect();
            end.send(&mut back).expect("room");
        }
        came.clear();
        let turns: Vec<usize> = (0..4)
            .map(|_| near.receive(&mut came, 3).expect("works"))
            .collect();
        assert_eq!((turns.iter().sum::<usize>(), came.len()), (10, 10));
        let too_long = near.packet_bytes_max() + 1;
        let mut ready = VecDeque::from([
            Buf::zeroed(60).expect("memory"),
            Buf::zeroed(too_long).expect("memory"),
        ]);
        assert_eq!(near.send(&mut ready).expect("the first"), 1);
        assert!(near.send(&mut ready).is_err());
        assert_eq!(ready.len(), 1);
    }

    #[test]
    fn packets_of_a_flow_go_one_way_and_none_is_lost_where_they_wait() {
        let generator = Generator::new(&Profile::new(3)).expect("a profile");
        let key = StampKey::new(3, 0);
        let sharding = Sharding::new(Toeplitz::new(SYMMETRIC_KEY), 3);
        let (mut spread, mut far) = spread(3, 64, WhenFull::Hold);
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
