//! A wire between two ports in memory, with the faults of real ones, planted on purpose and counted exactly.
//!
//! Packets are lost, doubled, damaged, overtaken by later ones, delayed, and sent no faster than a line allows. The fate of packet *i* is a function of the plan's seed and
//! *i* ([`Plan::fate`]), whatever the time and the bursts in which packets come. Time is the clock that is passed. What a plan did is counted
//! ([`Planted`]), so that counters behind the wire can be compared with it, number by number.
//!
//! ```
//! use std::collections::VecDeque;
//! use std::sync::Arc;
//!
//! use dpb_core::{Buf, VirtualClock};
//! use dpb_core::PacketPort;
//! use dpb_net::wire::{Plan, Wire};
//!
//! let lossy = Plan { seed: 1, loss_ppm: 100_000, ..Plan::default() };
//! let clock = Arc::new(VirtualClock::new(false));
//! let (wire, [mut one, mut two]) = Wire::new(clock, [lossy, Plan::default()]);
//! let mut packets: VecDeque<_> = (0..1000).map(|_| Buf::zeroed(60).expect("memory")).collect();
//! one.send(&mut packets)?;
//! let mut came = Vec::new();
//! two.receive(&mut came, usize::MAX)?;
//! let [there, _] = wire.planted();
//! assert_eq!(there.lost + came.len() as u64, 1000);
//! # Ok::<(), std::io::Error>(())
//! ```

mod lane;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpb_core::port::{PacketPort, PortStats, too_long};
use dpb_core::random::SplitMix64;
use dpb_core::{Buf, Clock, SetupError};

use self::lane::Lane;

/// The treatment of packets of one direction. By default they arrive at once, whole and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The same seed gives packet *i* the same fate.
    pub seed: u64,
    /// Packets in a million that are lost.
    pub loss_ppm: u32,
    /// Of the others, packets in a million that arrive twice.
    pub duplicate_ppm: u32,
    /// Of those that arrive once, packets in a million that are held back, so that later ones overtake them.
    pub reorder_ppm: u32,
    /// Later packets that overtake one that is held back: one at least, this many at most, each number as likely.
    pub reorder_distance_max: u32,
    /// A packet is held back for no longer than this, though fewer have overtaken it.
    pub reorder_hold_ns: u64,
    /// Packets in a million that arrive with one bit wrong; of one that arrives twice, the first copy.
    pub corrupt_ppm: u32,
    /// Bytes at the start of a frame that are never damaged.
    pub corrupt_skips_bytes: usize,
    /// From the end of a packet's sending to its arrival.
    pub delay_ns: u64,
    /// The rate of the line; `None` sends in no time.
    pub bits_per_second: Option<NonZeroU64>,
    /// Bytes that a packet takes on the line beside its frame: of Ethernet preamble, check sequence and gap.
    pub overhead_bytes: u32,
    /// Packets on the wire, at most: the sender keeps what does not fit.
    pub packets_max: usize,
    /// Longest packet, in bytes.
    pub packet_bytes_max: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 0,
            loss_ppm: 0,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            reorder_distance_max: 1,
            reorder_hold_ns: 1_000_000,
            corrupt_ppm: 0,
            corrupt_skips_bytes: 0,
            delay_ns: 0,
            bits_per_second: None,
            // Preamble of 8, check sequence of 4, gap of 12.
            overhead_bytes: 24,
            packets_max: 4096,
            // What IP allows, and an Ethernet header with a tag.
            packet_bytes_max: 65535 + 18,
        }
    }
}

/// The fate of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// It does not arrive; then nothing else becomes of it.
    pub is_lost: bool,
    /// It arrives twice.
    pub is_duplicated: bool,
    /// So many later packets overtake it, if as many come in time. Not of one that arrives twice.
    pub overtaken_by: u32,
    /// A number that chooses the bit that is wrong.
    pub corruption: Option<u64>,
}

const MILLION: usize = 1_000_000;

impl Plan {
    /// The fate of packet `i`, the first being 0.
    pub fn fate(&self, i: u64) -> Fate {
        // A generator for each packet, so that fates do not depend on each other.
        let mut random = SplitMix64::new(self.seed ^ i.wrapping_mul(0xa076_1d64_78bd_642f));
        let mut happens = |ppm: u32| random.below(MILLION) < ppm as usize;
        let [is_lost, is_duplicated, is_held, is_corrupted] = [
            self.loss_ppm,
            self.duplicate_ppm,
            self.reorder_ppm,
            self.corrupt_ppm,
        ]
        .map(&mut happens);
        if is_lost {
            return Fate {
                is_lost,
                ..Fate::default()
            };
        }
        let (bit, distance) = (random.next_u64(), self.reorder_distance_max.max(1));
        let overtaken_by = 1 + random.below(distance as usize) as u32;
        Fate {
            is_lost,
            is_duplicated,
            overtaken_by: match is_held && !is_duplicated {
                true => overtaken_by,
                false => 0,
            },
            corruption: is_corrupted.then_some(bit),
        }
    }
}

/// Counts of one direction so far: `taken + duplicated = delivered + lost + waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    /// Packets that the wire took from their sender.
    pub taken: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Second copies that were made.
    pub duplicated: u64,
    /// Packets of which a bit was made wrong; an empty one has none.
    pub corrupted: u64,
    /// Packets that were held back.
    pub held: u64,
    /// Packets that arrived behind a later one: reordered by RFC 4737, 3.3. Of those that were held, the ones that were really overtaken.
    pub reordered: u64,
    /// Packets that were received, second copies too.
    pub delivered: u64,
    /// Packets that are on the wire, second copies too.
    pub waiting: u64,
}

/// A wire, for who asks for its counts. Its ends are the ports.
#[derive(Clone)]
pub struct Wire {
    lanes: [Arc<Mutex<Lane>>; 2],
}

/// A port at one end of a wire.
pub struct End {
    name: String,
    clock: Arc<dyn Clock>,
    out: Arc<Mutex<Lane>>,
    into: Arc<Mutex<Lane>>,
    packet_bytes_max: usize,
    stats: PortStats,
}

impl Wire {
    /// A wire and its two ends; the first plan is for packets that the first end sends.
    pub fn new(clock: Arc<dyn Clock>, plans: [Plan; 2]) -> (Self, [End; 2]) {
        let lengths = [&plans[0], &plans[1]].map(|plan| plan.packet_bytes_max);
        let lanes = plans.map(|plan| Arc::new(Mutex::new(Lane::new(plan))));
        let end = |of: usize| End {
            name: format!("wire {of}"),
            clock: Arc::clone(&clock),
            out: Arc::clone(&lanes[of]),
            into: Arc::clone(&lanes[1 - of]),
            packet_bytes_max: lengths[of],
            stats: PortStats::default(),
        };
        let ends = [end(0), end(1)];
        (Self { lanes }, ends)
    }

    /// The counts so far, of packets of the first end and of those of the second.
    pub fn planted(&self) -> [Planted; 2] {
        [0, 1].map(|of| locked(&self.lanes[of]).planted())
    }

    /// The time at which the next packet can arrive, of those that are on the wire in each direction: for who moves a virtual clock. `None` without any.
    pub fn next_ns(&self) -> [Option<u64>; 2] {
        [0, 1].map(|of| locked(&self.lanes[of]).next_ns())
    }
}

impl PacketPort for End {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        self.packet_bytes_max
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        let fits = (len <= self.packet_bytes_max).then(|| Buf::zeroed(len));
        fits.flatten().ok_or(SetupError::OutOfMemory { len })
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let before = packets.len();
        let came = locked(&self.into).receive(packets, max, self.clock.now_ns());
        for packet in &packets[before..] {
            self.stats.delivered.add(packet.len());
        }
        Ok(came)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let now_ns = self.clock.now_ns();
        let mut lane = locked(&self.out);
        let mut taken = 0;
        while let Some(packet) = packets.front() {
            if packet.len() > self.packet_bytes_max {
                self.stats.refused.too_long += 1;
                return match taken {
                    0 => Err(too_long(packet.len(), self.packet_bytes_max)),
                    _ => Ok(taken),
                };
            }
            if !lane.has_room() {
                self.stats.refused.queue_full += packets.len() as u64;
                break;
            }
            if let Some(packet) = packets.pop_front() {
                // The wire's losses come behind the port.
                let len = packet.len();
                self.stats.taken.add(len);
                match lane.take(packet, now_ns) {
                    Ok(()) => self.stats.sent.add(len),
                    Err(error) => {
                        self.stats.send_lost.no_memory += 1;
                        return Err(error);
                    }
                }
                taken += 1;
            }
        }
        Ok(taken)
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }
}

fn locked(lane: &Mutex<Lane>) -> MutexGuard<'_, Lane> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wire({:?})", self.planted())
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "End({})", self.name)
    }
}
