//! One direction of a wire.

use std::collections::VecDeque;
use std::io;

use dpb_core::Buf;

use super::{Plan, Planted};

/// The packets of one direction, from the sender's port to the receiver's.
#[derive(Debug)]
pub(super) struct Lane {
    plan: Plan,
    /// In the order in which they were sent.
    line: VecDeque<Traveller>,
    /// Those that are being overtaken.
    held: Vec<Held>,
    /// Those that have been.
    released: VecDeque<Traveller>,
    /// The time at which the line is free again, in picoseconds: 64 bytes at 100 Gbit/s are 6,720.
    free_ps: u128,
    /// The number of the latest packet that arrived, plus one.
    latest: u64,
    planted: Planted,
}

#[derive(Debug)]
struct Traveller {
    number: u64,
    frame: Buf,
    due_ns: u64,
    overtaken_by: u32,
    is_copy: bool,
}

#[derive(Debug)]
struct Held {
    traveller: Traveller,
    left: u32,
}

const PS_PER_NS: u128 = 1000;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

impl Lane {
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            plan,
            line: VecDeque::new(),
            held: Vec::new(),
            released: VecDeque::new(),
            free_ps: 0,
            latest: 0,
            planted: Planted::default(),
        }
    }

    fn waiting(&self) -> usize {
        self.line.len() + self.held.len() + self.released.len()
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting() < self.plan.packets_max
    }

    pub(super) fn planted(&self) -> Planted {
        Planted {
            waiting: self.waiting() as u64,
            ..self.planted
        }
    }

    /// Takes a packet at `now_ns`.
    pub(super) fn take(&mut self, mut frame: Buf, now_ns: u64) -> io::Result<()> {
        let number = self.planted.taken;
        let fate = self.plan.fate(number);
        let copy = match fate.is_duplicated && !fate.is_lost {
            true => Some(copied(&frame)?),
            false => None,
        };
        self.planted.taken += 1;
        let due_ns = self
            .sent_ns(frame.len(), now_ns)
            .saturating_add(self.plan.delay_ns);
        if fate.is_lost {
            self.planted.lost += 1;
            return Ok(());
        }
        if let Some(choice) = fate.corruption
            && let Some(bytes) = frame.get_mut(self.plan.corrupt_skips_bytes..)
            && !bytes.is_empty()
        {
            let bit = choice % (bytes.len() as u64 * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.planted.corrupted += 1;
        }
        self.line.push_back(Traveller {
            number,
            frame,
            due_ns,
            overtaken_by: fate.overtaken_by,
            is_copy: false,
        });
        if let Some(frame) = copy {
            self.planted.duplicated += 1;
            self.line.push_back(Traveller {
                number,
                frame,
                due_ns,
                overtaken_by: 0,
                is_copy: true,
            });
        }
        Ok(())
    }

    /// The time at which the line has sent a frame of `len` bytes that it is given at `now_ns`.
    fn sent_ns(&mut self, len: usize, now_ns: u64) -> u64 {
        let Some(rate) = self.plan.bits_per_second else {
            return now_ns;
        };
        let bits = (len as u128 + u128::from(self.plan.overhead_bytes)) * 8;
        let starts_ps = self.free_ps.max(u128::from(now_ns) * PS_PER_NS);
        self.free_ps = starts_ps + bits * PS_PER_SECOND / u128::from(rate.get());
        u64::try_from(self.free_ps.div_ceil(PS_PER_NS)).unwrap_or(u64::MAX)
    }

    /// Appends packets that have arrived at `now_ns`, at most `max`; says how many.
    pub(super) fn receive(&mut self, packets: &mut Vec<Buf>, max: usize, now_ns: u64) -> usize {
        let mut came = 0;
        while came < max {
            if let Some(traveller) = self.released.pop_front() {
                packets.push(self.arrived(traveller));
                came += 1;
                continue;
            }
            let is_due = self
                .line
                .front()
                .is_some_and(|front| front.due_ns <= now_ns);
            let Some(traveller) = is_due.then(|| self.line.pop_front()).flatten() else {
                if !self.release_held(now_ns) {
                    break;
                }
                continue;
            };
            if traveller.overtaken_by > 0 {
                self.planted.held += 1;
                let left = traveller.overtaken_by;
                self.held.push(Held { traveller, left });
                continue;
            }
            let number = traveller.number;
            packets.push(self.arrived(traveller));
            came += 1;
            self.overtake(number);
        }
        came
    }

    /// Packet `number` has overtaken those that are held.
    fn overtake(&mut self, number: u64) {
        let mut i = 0;
        while i < self.held.len() {
            let held = &mut self.held[i];
            held.left -= u32::from(held.traveller.number < number);
            match held.left {
                0 => self.released.push_back(self.held.remove(i).traveller),
                _ => i += 1,
            }
        }
    }

    /// Releases those that have been held long enough; says if there were any.
    fn release_held(&mut self, now_ns: u64) -> bool {
        let hold_ns = self.plan.reorder_hold_ns;
        let mut i = 0;
        while i < self.held.len() {
            let until_ns = self.held[i].traveller.due_ns.saturating_add(hold_ns);
            match until_ns <= now_ns {
                true => self.released.push_back(self.held.remove(i).traveller),
                false => i += 1,
            }
        }
        !self.released.is_empty()
    }

    fn arrived(&mut self, traveller: Traveller) -> Buf {
        self.planted.delivered += 1;
        let is_late = traveller.number + 1 < self.latest;
        self.planted.reordered += u64::from(is_late && !traveller.is_copy);
        self.latest = self.latest.max(traveller.number + 1);
        traveller.frame
    }

    /// The time at which something can arrive.
    pub(super) fn next_ns(&self) -> Option<u64> {
        if self.released.front().is_some() {
            return Some(0);
        }
        let held = self.held.iter().map(|held| {
            let hold_ns = self.plan.reorder_hold_ns;
            held.traveller.due_ns.saturating_add(hold_ns)
        });
        let line = self.line.front().map(|front| front.due_ns);
        held.chain(line).min()
    }
}

fn copied(frame: &[u8]) -> io::Result<Buf> {
    let mut copy = Buf::zeroed(frame.len()).ok_or(io::ErrorKind::OutOfMemory)?;
    copy.copy_from_slice(frame);
    Ok(copy)
}
