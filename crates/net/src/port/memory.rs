//! A pair of ports in memory: what one end sends the other receives, as it is.

use std::collections::VecDeque;
use std::io;

use dpb_core::port::{PacketPort, PortStats};
use dpb_core::{Buf, SetupError};

use super::pool::Pool;
use super::ring::{Consumer, Producer, ring};
use super::{BYTES_MAX, Unfit, pooled, zeroed};

/// Frames for packets that an end allocates: longer ones, and those beyond their number, come from the heap.
const FRAME_BYTES: usize = 2048;
const FRAMES_MAX: u32 = 32 << 10;

/// One end of a pair. Each may be in a thread of its own.
///
/// A packet crosses as its buffer, without a copy. What a full queue has no room for stays with the sender and counts as refused.
#[derive(Debug)]
pub struct End {
    name: String,
    out: Producer<Buf>,
    into: Consumer<Buf>,
    stats: PortStats,
    /// Made with the first packet that is allocated: who sends buffers of others needs none.
    pool: Option<Pool>,
    frames: u32,
}

/// Two ports, each of which holds up to 4096 packets for the other.
pub fn pair() -> [End; 2] {
    pair_of(4096)
}

/// Two ports, each of which holds up to `capacity` packets for the other, at least one. A long queue hides what is lost behind what is late: a packet may wait
/// for as many as it holds.
pub fn pair_of(capacity: usize) -> [End; 2] {
    let ((out_one, into_two), (out_two, into_one)) = (ring(capacity), ring(capacity));
    let end = |name: &str, out, into| End {
        name: name.to_owned(),
        out,
        into,
        stats: PortStats::default(),
        pool: None,
        // What the queue holds, and what both sides have in hand.
        frames: u32::try_from(capacity)
            .unwrap_or(u32::MAX)
            .saturating_add(1024)
            .min(FRAMES_MAX),
    };
    [
        end("memory 0", out_one, into_one),
        end("memory 1", out_two, into_two),
    ]
}

impl End {
    /// True if the other end is gone, so that nothing comes any more but what it has sent before.
    pub fn is_alone(&self) -> bool {
        self.out.is_alone()
    }
}

impl PacketPort for End {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        BYTES_MAX
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        if self.pool.is_none() {
            self.pool = Pool::new(self.frames, FRAME_BYTES).ok();
        }
        let pool = self.pool.as_mut();
        let frame = pool.and_then(|pool| pooled(pool, len, BYTES_MAX).ok());
        frame.map_or_else(|| zeroed(len, BYTES_MAX), Ok)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let came = self.into.take(packets, max);
        let mut bytes = 0;
        for packet in &packets[packets.len() - came..] {
            bytes += packet.len() as u64;
        }
        self.stats.delivered.packets += came as u64;
        self.stats.delivered.bytes += bytes;
        Ok(came)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let (mut fit, mut bytes) = (0, 0);
        let mut unfit = None;
        for packet in &*packets {
            if packet.len() > BYTES_MAX {
                let (len, max) = (packet.len(), BYTES_MAX);
                unfit = Some(Unfit::TooLong { len, max });
                break;
            }
            bytes += packet.len() as u64;
            fit += 1;
        }
        let taken = self.out.put(packets, fit);
        if taken < fit {
            // Those that stay are counted off again: as a rule they are few, or all.
            for packet in packets.range(..fit - taken) {
                bytes -= packet.len() as u64;
            }
            self.stats.refused.queue_full += packets.len() as u64;
        }
        self.stats.taken.packets += taken as u64;
        self.stats.taken.bytes += bytes;
        match unfit {
            Some(unfit) if taken == fit => unfit.refused(taken, &mut self.stats),
            _ => Ok(taken),
        }
    }

    fn stats(&mut self) -> PortStats {
        let mut stats = self.stats;
        stats.sent = stats.taken;
        stats
    }
}

/// A port that receives what it has sent: by it a [`Dispatcher`](crate::pipeline::Dispatcher) gets packets back that another core has to go on with.
#[derive(Debug)]
pub struct Looped {
    out: End,
    back: End,
}

impl Looped {
    /// A port that holds up to `capacity` packets, at least one.
    pub fn new(capacity: usize) -> Self {
        let [out, back] = pair_of(capacity);
        Self { out, back }
    }
}

impl PacketPort for Looped {
    fn name(&self) -> &str {
        "looped"
    }

    fn packet_bytes_max(&self) -> usize {
        BYTES_MAX
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        self.out.alloc(len)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        self.back.receive(packets, max)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        self.out.send(packets)
    }

    fn stats(&mut self) -> PortStats {
        let mut stats = self.out.stats();
        stats.delivered = self.back.stats().delivered;
        stats
    }

    fn is_looped(&self) -> bool {
        true
    }

    /// Nobody else sends into it.
    fn is_at_end(&self) -> bool {
        self.out.stats.taken.packets == self.back.stats.delivered.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64, len: usize) -> Buf {
        let mut packet = Buf::zeroed(len.max(8)).expect("memory");
        packet[..8].copy_from_slice(&number.to_le_bytes());
        packet
    }

    #[test]
    fn a_full_queue_refuses_and_counts() {
        for capacity in [1, 2, 3, 7, 64] {
            let [mut one, mut two] = pair_of(capacity);
            let mut ready: VecDeque<Buf> = (0..100).map(|i| packet(i, 60 + i as usize)).collect();
            assert_eq!(one.send(&mut ready).expect("room"), capacity);
            assert_eq!(one.send(&mut ready).expect("no error"), 0);
            assert_eq!(ready.len(), 100 - capacity);
            let left = ready.len() as u64;
            let stats = one.stats();
            assert_eq!(stats.refused.queue_full, 2 * left);
            assert_eq!(stats.taken.packets, capacity as u64);
            let bytes: u64 = (0..capacity as u64).map(|i| 60 + i).sum();
            assert_eq!((stats.taken.bytes, stats.in_flight()), (bytes, 0));
            // Room for one comes with one that is received.
            let mut came = Vec::new();
            assert_eq!(two.receive(&mut came, 1).expect("works"), 1);
            assert_eq!(one.send(&mut ready).expect("room"), 1);
            assert_eq!(two.receive(&mut came, 100).expect("works"), capacity);
            let numbers = came.iter().map(|packet| packet[0]);
            assert!(numbers.eq(0..=capacity as u8));
            let delivered = two.stats().delivered;
            assert_eq!(delivered, one.stats().taken);
        }
    }

    #[test]
    fn what_is_in_the_queue_when_both_are_gone_is_dropped_once() {
        let [mut one, two] = pair_of(8);
        let mut ready: VecDeque<Buf> = (0..5).map(|i| packet(i, 60)).collect();
        assert!(!one.is_alone());
        assert_eq!(one.send(&mut ready).expect("room"), 5);
        drop(two);
        assert!(one.is_alone());
        drop(one);
    }

    /// Threads that both send and receive, in bursts of all lengths: nothing is lost, doubled or out of order.
    #[test]
    fn two_threads_exchange_in_order() {
        const PACKETS: u64 = if cfg!(miri) { 200 } else { 200_000 };
        let [one, two] = pair_of(48);
        let run = |mut end: End| {
            let (mut sent, mut seen) = (0, 0);
            let (mut ready, mut came) = (VecDeque::new(), Vec::new());
            while seen < PACKETS || sent < PACKETS || !ready.is_empty() {
                for _ in 0..(sent % 37)
                    .min(PACKETS - sent)
                    .max(u64::from(sent < PACKETS))
                {
                    ready.push_back(packet(sent, 64));
                    sent += 1;
                }
                let moved = end.send(&mut ready).expect("fits");
                let received = end.receive(&mut came, 32).expect("works");
                for packet in came.drain(..) {
                    let number = u64::from_le_bytes(*packet.first_chunk().expect("64 bytes"));
                    assert_eq!(number, seen);
                    seen += 1;
                }
                if moved + received == 0 {
                    std::thread::yield_now();
                }
            }
            let stats = end.stats();
            assert_eq!(
                (stats.taken.packets, stats.delivered.packets),
                (PACKETS, PACKETS)
            );
            assert_eq!((stats.taken.bytes, stats.in_flight()), (64 * PACKETS, 0));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| run(one));
            run(two);
        });
    }
}
