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
use crate::pipeline::rss::hash_of;

/// Several ports as one: what is sent goes to one of them by the hash of its flow, what comes to any of them is received.
///
/// It takes every packet. One whose port has no room is dropped and counted, as a card does whose queue is full: the other queues go on.
pub struct Spread {
    name: String,
    ports: Vec<Box<dyn PacketPort>>,
    toeplitz: Toeplitz,
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
    pub fn new(ports: Vec<Box<dyn PacketPort>>) -> Self {
        assert!(!ports.is_empty(), "at least one port");
        let count = ports.len();
        Self {
            name: format!("{count} queues"),
            toeplitz: Toeplitz::new(SYMMETRIC_KEY),
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
        let max = self.packet_bytes_max();
        let mut taken = 0;
        // One that is too long stays in front, for its port to refuse.
        while packets.front().is_some_and(|packet| packet.len() <= max)
            && let Some(packet) = packets.pop_front()
        {
            let hash = hash_of(&self.toeplitz, &packet) as usize;
            let queue = hash % self.queues.len();
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

    fn stats(&mut self) -> PortStats {
        let mut all = PortStats::default();
        for port in &mut self.ports {
            let one = port.stats();
            for (sum, count) in [
                (&mut all.taken, one.taken),
                (&mut all.sent, one.sent),
                (&mut all.delivered, one.delivered),
            ] {
                sum.packets += count.packets;
                sum.bytes += count.bytes;
            }
            all.receive_lost.kernel += one.receive_lost.total();
            all.send_lost.kernel += one.send_lost.total();
            all.refused.too_long += one.refused.too_long;
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
    use crate::port::{End, pair_of};
    use crate::traffic::{Generator, Profile, StampKey, Traffic};

    fn spread(shards: usize, room: usize) -> (Spread, Vec<End>) {
        let pairs = (0..shards).map(|_| pair_of(room));
        let (near, far): (Vec<_>, Vec<_>) = pairs.map(|[near, far]| (near, far)).unzip();
        let near = near
            .into_iter()
            .map(|end| Box::new(end) as Box<dyn PacketPort>);
        (Spread::new(near.collect()), far)
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
        let (mut near, mut far) = spread(3, 4096);
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
        let (mut near, mut far) = spread(2, 16);
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
}
