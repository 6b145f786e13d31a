//! One port over several queues of another machine, as a network card with receive-side scaling has them.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dpb_core::port::{Arrivals, Count, Dating, Losses, PacketPort, PortStats, too_long};
use dpb_core::{Buf, SetupError};

use crate::flow::Toeplitz;
use crate::flow::toeplitz::SYMMETRIC_KEY;
use crate::pipeline::WhenFull;
use crate::pipeline::rss::{TABLE_ENTRIES, hash_of};

/// Several ports as one: what is sent goes to one of them by the hash of its flow, what comes to any of them is received.
///
/// Where a packet's port has no room, it is dropped and counted, as a card does whose queue is full, and the other queues go on; or it holds up those behind it.
/// Its shards are those of a [`Sharding`](crate::pipeline::Sharding) with the symmetric key.
pub struct MultiQueue {
    name: String,
    ports: Vec<Box<dyn PacketPort>>,
    toeplitz: Toeplitz,
    when_full: WhenFull,
    /// The packets on their way to each port. Empty between two calls.
    queues: Vec<VecDeque<Buf>>,
    /// The port that is received from first.
    next: usize,
    /// Who dated the packets that the last call of `receive` gave, and the time of each.
    dated_by: Dating,
    times_ns: Vec<u64>,
    /// Packets that it took and dropped, and the reasons.
    dropped: Count,
    lost: Losses,
    /// The number of those, for others.
    dropped_for_others: Arc<AtomicU64>,
    /// Packets that it left where they were, as they are too long.
    refused: Losses,
}

impl MultiQueue {
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
            dated_by: Dating::Nothing,
            times_ns: Vec::new(),
            dropped: Count::default(),
            lost: Losses::default(),
            dropped_for_others: Arc::default(),
            refused: Losses::default(),
        }
    }

    /// Packets that it has dropped since it was made, to be read while it is in use.
    pub fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped_for_others)
    }
}

impl MultiQueue {
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

    /// All, but for those that are too long. A port that fails loses the packets that were on their way to it; the others get theirs, and then the error is given.
    fn send_what_fits(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let max = self.packet_bytes_max();
        let mut taken = 0;
        // One that is too long stays in front, and the next call meets it first.
        while packets.front().is_some_and(|packet| packet.len() <= max)
            && let Some(packet) = packets.pop_front()
        {
            let queue = self.queue(&packet);
            self.queues[queue].push_back(packet);
            taken += 1;
        }
        let mut failed = None;
        for (port, queue) in self.ports.iter_mut().zip(&mut self.queues) {
            while !queue.is_empty() {
                let (count, reason) = match port.send(queue) {
                    // There may be more room: a port stops in front of what is no frame to it.
                    Ok(1..) => continue,
                    Ok(0) => (queue.len(), &mut self.lost.queue_full),
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                        (1, &mut self.lost.malformed)
                    }
                    Err(error) => {
                        failed.get_or_insert(error);
                        (queue.len(), &mut self.lost.kernel)
                    }
                };
                *reason += count as u64;
                for packet in queue.drain(..count) {
                    self.dropped.add(packet.len());
                }
            }
        }
        (self.dropped_for_others).store(self.dropped.packets, Ordering::Relaxed);
        match (failed, packets.front()) {
            (Some(error), _) => Err(error),
            (None, Some(packet)) if taken == 0 => {
                self.refused.too_long += 1;
                Err(too_long(packet.len(), max))
            }
            (None, _) => Ok(taken),
        }
    }
}

impl PacketPort for MultiQueue {
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
        self.times_ns.clear();
        let before = packets.len();
        let (mut result, mut dated_by) = (Ok(0), None);
        for _ in 0..self.ports.len() {
            let at = self.next;
            self.next = (at + 1) % self.ports.len();
            let (port, already) = (&mut self.ports[at], packets.len());
            result = port.receive(packets, max - (already - before));
            if packets.len() > already {
                let Arrivals { by, times_ns } = port.arrivals();
                self.times_ns.extend(times_ns);
                dated_by = match dated_by {
                    None => Some(by),
                    Some(others) if others == by => Some(by),
                    // Times that count from different starts say nothing beside each other.
                    Some(_) => Some(Dating::Nothing),
                };
            }
            if result.is_err() || packets.len() - before == max {
                break;
            }
        }
        self.dated_by = dated_by.unwrap_or_default();
        if self.dated_by == Dating::Nothing {
            self.times_ns.clear();
        }
        result.map(|_| packets.len() - before)
    }

    /// Those of its ports, where one kind of clock has dated all packets.
    fn arrivals(&self) -> Arrivals<'_> {
        Arrivals {
            by: self.dated_by,
            times_ns: &self.times_ns,
        }
    }

    /// That of its port, where there is one. No file stands for several, and who waits polls.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.ports[..] {
            [port] => port.file(),
            _ => None,
        }
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
            add(&mut all.send_lost, stats.send_lost);
            add(&mut all.receive_lost, stats.receive_lost);
            // What a port refuses is dropped here otherwise, and counted as that.
            if self.when_full == WhenFull::Hold {
                add(&mut all.refused, stats.refused);
            }
        }
        // It took those, and no port did.
        all.taken.packets += self.dropped.packets;
        all.taken.bytes += self.dropped.bytes;
        add(&mut all.send_lost, self.lost);
        add(&mut all.refused, self.refused);
        all
    }
}

fn add(sum: &mut Losses, of: Losses) {
    sum.queue_full += of.queue_full;
    sum.no_memory += of.no_memory;
    sum.too_long += of.too_long;
    sum.malformed += of.malformed;
    sum.kernel += of.kernel;
}

impl fmt::Debug for MultiQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MultiQueue({})", self.name)
    }
}

#[cfg(test)]
mod tests;
