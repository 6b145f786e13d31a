//! The way out of a loop: packets that wait for their ports.

use std::collections::VecDeque;
use std::io;
use std::mem;

use dpb_core::{Buf, PacketPort};

use super::{Account, Burst, Drops, Reason, Tally};

/// The choice of a loop whose way on has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It stops receiving: packets are lost in front of it, if anywhere. One slow way out holds up the others.
    #[default]
    Hold,
    /// It drops packets without room, and counts them.
    Drop,
}

/// A list of packets for each port.
#[derive(Debug)]
pub(super) struct Egress {
    queues: Vec<VecDeque<Buf>>,
    /// True, port by port, if only receiving from it makes room to send.
    looped: Vec<bool>,
    /// Packets of a list, at most: where they are held, so many and those of the bursts that are on their way.
    packets_max: usize,
    when_full: WhenFull,
    sent: Tally,
    dropped: Drops,
}

impl Egress {
    pub(super) fn new(
        ports: &[Box<dyn PacketPort>],
        packets_max: usize,
        when_full: WhenFull,
    ) -> Self {
        let queue = |_: &_| VecDeque::with_capacity(packets_max);
        Self {
            queues: ports.iter().map(queue).collect(),
            looped: ports.iter().map(|port| port.is_looped()).collect(),
            packets_max,
            when_full,
            sent: Tally::default(),
            dropped: Drops::default(),
        }
    }

    /// Takes the packets of a burst, each for the port that its mark says. Sends first where there may be no room for them: more bursts than a list holds may come
    /// home in one turn, and ports that have room are no reason to drop any. Says how many were sent.
    ///
    /// # Errors
    /// A port's own; the packets are taken then.
    pub(super) fn pass(
        &mut self,
        burst: &mut Burst,
        ports: &mut [Box<dyn PacketPort>],
    ) -> io::Result<usize> {
        let is_near_full = |queue: &VecDeque<Buf>| queue.len() + burst.len() > self.packets_max;
        let sent = match self.queues.iter().any(is_near_full) {
            true => self.flush(ports),
            false => Ok(0),
        };
        self.take(burst);
        sent
    }

    fn take(&mut self, burst: &mut Burst) {
        if self.take_whole(burst) {
            return;
        }
        for (frame, mark) in burst.drain() {
            let Some(queue) = self.queues.get_mut(usize::from(mark.egress)) else {
                self.dropped.count(Reason::NO_EGRESS, frame.len());
                continue;
            };
            match self.when_full {
                WhenFull::Drop if queue.len() >= self.packets_max => {
                    self.dropped.count(Reason::EGRESS_FULL, frame.len());
                }
                _ => queue.push_back(frame),
            }
        }
    }

    /// The usual case: all packets leave by one port, and none waits for it. Then lists change places, and no packet is moved.
    fn take_whole(&mut self, burst: &mut Burst) -> bool {
        let Some(first) = burst.marks.first().map(|mark| mark.egress) else {
            return true;
        };
        let has_room = self.when_full == WhenFull::Hold || burst.len() <= self.packets_max;
        let Some(queue) = self.queues.get_mut(usize::from(first)) else {
            return false;
        };
        if !queue.is_empty() || !has_room || burst.marks.iter().any(|mark| mark.egress != first) {
            return false;
        }
        let packets = VecDeque::from(mem::take(&mut burst.packets));
        burst.packets = mem::replace(queue, packets).into();
        burst.marks.clear();
        true
    }

    /// Sends what ports take; says how many.
    ///
    /// # Errors
    /// A port's own.
    pub(super) fn flush(&mut self, ports: &mut [Box<dyn PacketPort>]) -> io::Result<usize> {
        let before = self.sent.packets;
        for (queue, port) in self.queues.iter_mut().zip(ports) {
            while !queue.is_empty() {
                // What is sent is gone, so its bytes are counted by what is left.
                let (packets, bytes) = (queue.len(), bytes(queue));
                let result = port.send(queue);
                (self.sent).add(packets - queue.len(), bytes - self::bytes(queue));
                match result {
                    Ok(_) => break,
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                        if let Some(frame) = queue.pop_front() {
                            // The other frames that ports refuse end before their header does.
                            let reason = match frame.len() > port.packet_bytes_max() {
                                true => Reason::TOO_LONG,
                                false => Reason::TRUNCATED,
                            };
                            self.dropped.count(reason, frame.len());
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok((self.sent.packets - before) as usize)
    }

    /// True if packets may be received by port `ingress` that could leave by any port. What a looped port gives makes room in its own list, however full
    /// that is: who waited for room there before would wait for ever.
    pub(super) fn has_room(&self, ingress: usize) -> bool {
        let is_back = self.looped[ingress];
        let mut lists = self.queues.iter().zip(&self.looped);
        let has_room = |(queue, is_looped): (&VecDeque<Buf>, &bool)| {
            queue.len() < self.packets_max || (is_back && *is_looped)
        };
        self.when_full == WhenFull::Drop || lists.all(has_room)
    }

    /// Packets that wait for their ports.
    pub(super) fn waiting(&self) -> u64 {
        self.queues.iter().map(|queue| queue.len() as u64).sum()
    }

    /// Adds what it counted.
    pub(super) fn report(&self, account: &mut Account) {
        account.sent += self.sent;
        account.dropped.merge(&self.dropped);
        account.waiting += self.waiting();
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.packets
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.total().packets
    }
}

fn bytes(queue: &VecDeque<Buf>) -> usize {
    queue.iter().map(Buf::len).sum()
}
