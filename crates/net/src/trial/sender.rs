//! Frames on their way to a port, each when it is due.

use std::collections::VecDeque;

use dpb_core::measure::latency::Latencies;
use dpb_core::{Buf, PacketPort};

use super::error::{TrialError, Validity, failed};
use super::pool::Pool;
use crate::traffic::{NUMBERS, Pacer, StampKey, Traffic};

/// Frames that are made before they are due.
const AHEAD: usize = 64;

/// Told what becomes of packets on the sending side.
pub(super) trait Watcher {
    /// The next packet was due.
    fn offered(&mut self);

    /// The port did not take this packet in time.
    fn refused(&mut self, number: u64);
}

pub(super) struct Sender<'a, T: ?Sized, D> {
    traffic: &'a T,
    key: StampKey,
    pacer: Pacer<D>,
    pool: Pool,
    /// Made, and not yet due: when they are.
    ready: VecDeque<Buf>,
    ready_due_ns: VecDeque<u64>,
    /// Due, and not yet taken: when they were offered first.
    out: VecDeque<Buf>,
    out_offered_ns: VecDeque<u64>,
    /// Numbers of the next frame that is made, and of the first in `out`.
    next: u64,
    first_out: u64,
    /// When the port last took something.
    last_taken_ns: u64,
    tolerance_ns: u64,
}

impl<'a, T, D> Sender<'a, T, D>
where
    T: Traffic + ?Sized,
    D: Iterator<Item = u64>,
{
    pub(super) fn new(
        traffic: &'a T,
        key: StampKey,
        pacer: Pacer<D>,
        pool: Pool,
        tolerance_ns: u64,
    ) -> Self {
        Self {
            traffic,
            key,
            pacer,
            pool,
            ready: VecDeque::with_capacity(AHEAD),
            ready_due_ns: VecDeque::with_capacity(AHEAD),
            out: VecDeque::with_capacity(AHEAD),
            out_offered_ns: VecDeque::with_capacity(AHEAD),
            next: 0,
            first_out: 0,
            last_taken_ns: 0,
            tolerance_ns,
        }
    }

    /// Makes frames ahead of time.
    pub(super) fn make<P: PacketPort + ?Sized>(&mut self, port: &mut P) -> Result<(), TrialError> {
        while self.ready.len() < AHEAD
            && let Some(due_ns) = self.pacer.take()
        {
            if self.next == NUMBERS {
                return Err(TrialError::Packets);
            }
            let mut frame = self.pool.take(port, self.traffic.frame_bytes(self.next))?;
            self.traffic.write(self.next, due_ns, &self.key, &mut frame);
            self.ready.push_back(frame);
            self.ready_due_ns.push_back(due_ns);
            self.next += 1;
        }
        Ok(())
    }

    /// Offers what is due.
    pub(super) fn send<P: PacketPort + ?Sized>(
        &mut self,
        port: &mut P,
        watcher: &mut impl Watcher,
        now_ns: u64,
    ) -> Result<(), TrialError> {
        while let Some(due_ns) = self.ready_due_ns.front().copied()
            && due_ns <= now_ns
            && let Some(frame) = self.ready.pop_front()
        {
            self.ready_due_ns.pop_front();
            self.pacer.offered(due_ns, now_ns);
            watcher.offered();
            self.out.push_back(frame);
            self.out_offered_ns.push_back(now_ns);
        }
        if self.out.is_empty() {
            return Ok(());
        }
        let taken = port.send(&mut self.out);
        let taken = taken.map_err(|source| failed(port, source))?;
        self.out_offered_ns.drain(..taken);
        if taken > 0 {
            self.last_taken_ns = now_ns;
        }
        self.first_out += taken as u64;
        // What the port has no room for is tried again for a while, and then refused: a system that is slow must not slow its load down.
        while let Some(offered_ns) = self.out_offered_ns.front().copied()
            && now_ns.saturating_sub(offered_ns) > self.tolerance_ns
        {
            self.refuse(watcher);
        }
        Ok(())
    }

    /// Gives the first packet up that the port has not taken.
    fn refuse(&mut self, watcher: &mut impl Watcher) {
        let Some(frame) = self.out.pop_front() else {
            return;
        };
        self.out_offered_ns.pop_front();
        watcher.refused(self.first_out);
        self.first_out += 1;
        self.pool.give(frame);
    }

    /// Gives all packets up that the port has not taken.
    pub(super) fn refuse_all(&mut self, watcher: &mut impl Watcher) {
        while !self.out.is_empty() {
            self.refuse(watcher);
        }
    }

    /// Takes a buffer back that is not needed any more.
    pub(super) fn give(&mut self, frame: Buf) {
        self.pool.give(frame);
    }

    /// When the next packet is due that was made, in nanoseconds from the start; `None` if there is none.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.ready_due_ns.front().copied()
    }

    /// When the port last took something.
    pub(super) fn last_taken_ns(&self) -> u64 {
        self.last_taken_ns
    }

    pub(super) fn pacer(&self) -> &Pacer<D> {
        &self.pacer
    }

    pub(super) fn is_done(&self) -> bool {
        self.ready.is_empty() && self.out.is_empty() && self.pacer.peek_ns().is_none()
    }

    /// The buffers, the errors of the schedule, and what these make of a trial at so many packets a second.
    pub(super) fn finish(self, packets_per_s: f64) -> (Pool, Latencies, Validity) {
        let allowed = (packets_per_s * self.tolerance_ns as f64 / 1e9).ceil() as u64;
        let packets = self.pacer.late();
        let validity = match packets > allowed {
            true => Validity::Late { packets, allowed },
            false => Validity::Valid,
        };
        (self.pool, self.pacer.into_errors(), validity)
    }
}
