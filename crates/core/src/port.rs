//! Packets in and out: [`PacketPort`], and what a port counts.
//!
//! A packet is one [`Buf`]: an Ethernet frame without preamble and check sequence. `dpb-net` has ports over memory, capture files, raw sockets and
//! interfaces of software, `dpb-accel` those of DPDK.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use crate::{Buf, SetupError};

/// Somewhere packets come from and go to. Driven by one thread at a time; [`receive`](PacketPort::receive) and [`send`](PacketPort::send) never wait.
///
/// Nothing is lost in silence: what `send` takes is sent, in flight, or counted in [`PortStats`] under a reason.
pub trait PacketPort: Send {
    /// The port's name: `net_ring0`, `eth0`.
    fn name(&self) -> &str;

    /// Longest packet, in bytes.
    fn packet_bytes_max(&self) -> usize;

    /// Zeroed memory for a packet that this port sends without a copy.
    ///
    /// # Errors
    /// [`SetupError::OutOfMemory`], also if it is longer than [`PacketPort::packet_bytes_max`].
    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError>;

    /// Appends packets that have come, at most `max`; says how many.
    ///
    /// # Errors
    /// The port's own. Packets that came before it are appended.
    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize>;

    /// The times at which the packets came that the last call of [`PacketPort::receive`] appended.
    fn arrivals(&self) -> Arrivals<'_> {
        Arrivals::default()
    }

    /// Takes packets from the front, until it has no room for more; says how many. What is taken may be on its way
    /// still.
    ///
    /// # Errors
    /// The port's own, or [`io::ErrorKind::InvalidInput`] for a packet that is too long or no frame. That packet is in front, those
    /// before it are taken.
    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize>;

    /// What the port has counted since it was opened.
    fn stats(&mut self) -> PortStats;

    /// True if nothing more comes until something is sent: a file was read to its end. False, as by default, says nothing.
    fn is_at_end(&self) -> bool {
        false
    }

    /// The file by which to wait for this port beside others, with `poll(2)`: readable if packets may have come, writable if there may be
    /// room to send. `None` if nothing wakes up who waits: then the port is polled by `receive`.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// True if what is sent comes back by [`PacketPort::receive`] and by no other way, so that only receiving makes room to send.
    fn is_looped(&self) -> bool {
        false
    }
}

/// The times at which packets came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals<'a> {
    /// Who dated them, and from which start the times count.
    pub by: Dating,
    /// In nanoseconds, one for each packet, in their order. Empty with [`Dating::Nothing`].
    pub times_ns: &'a [u64],
}

/// Who dates packets that come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dating {
    /// Nobody.
    #[default]
    Nothing,
    /// The device, by a clock of its own.
    Hardware,
    /// The kernel when it took the packet over from the device: since 1970.
    Kernel,
    /// Whoever wrote the file: since 1970.
    File,
    /// The program when it called [`PacketPort::receive`], by a [`Clock`](crate::Clock) that it gave: since that clock's start. The time that packets waited
    /// before is not in it.
    Clock,
}

/// Packets, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of the packets, each an Ethernet frame without its check sequence.
    pub bytes: u64,
}

/// Packets that did not go through, by the reason.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// A queue or a ring was full.
    pub queue_full: u64,
    /// There was no memory for them.
    pub no_memory: u64,
    /// They were longer than [`PacketPort::packet_bytes_max`].
    pub too_long: u64,
    /// They were no whole Ethernet frames: shorter than the header, or cut when they were captured.
    pub malformed: u64,
    /// The kernel or the device below dropped them, and says no more than that.
    pub kernel: u64,
}

/// What a port has counted. Of what was sent, `taken` is `sent`, `send_lost` and what is [in flight](PortStats::in_flight), exactly.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets that [`PacketPort::send`] has taken.
    pub taken: Count,
    /// Of those, the packets that were handed on: to the other end, to the kernel, to the device, to the file.
    pub sent: Count,
    /// Of those, the packets that were lost.
    pub send_lost: Losses,
    /// Packets that were offered to [`PacketPort::send`] and that it left where they were. A packet that is offered again counts again.
    pub refused: Losses,
    /// Packets that [`PacketPort::receive`] gave out.
    pub delivered: Count,
    /// Packets that came and were lost before that.
    pub receive_lost: Losses,
}

impl Count {
    /// Adds a packet of `bytes` bytes.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

impl Losses {
    /// Packets for all reasons together.
    pub fn total(&self) -> u64 {
        self.queue_full + self.no_memory + self.too_long + self.malformed + self.kernel
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            queue_full: self.queue_full - earlier.queue_full,
            no_memory: self.no_memory - earlier.no_memory,
            too_long: self.too_long - earlier.too_long,
            malformed: self.malformed - earlier.malformed,
            kernel: self.kernel - earlier.kernel,
        }
    }
}

impl PortStats {
    /// Packets that were taken and are neither handed on nor lost yet.
    pub fn in_flight(&self) -> u64 {
        self.taken.packets - self.sent.packets - self.send_lost.total()
    }

    /// The difference to what the same port had counted `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let count = |later: Count, earlier: Count| Count {
            packets: later.packets - earlier.packets,
            bytes: later.bytes - earlier.bytes,
        };
        Self {
            taken: count(self.taken, earlier.taken),
            sent: count(self.sent, earlier.sent),
            send_lost: self.send_lost.since(earlier.send_lost),
            refused: self.refused.since(earlier.refused),
            delivered: count(self.delivered, earlier.delivered),
            receive_lost: self.receive_lost.since(earlier.receive_lost),
        }
    }
}

impl<P: PacketPort + ?Sized> PacketPort for Box<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn packet_bytes_max(&self) -> usize {
        (**self).packet_bytes_max()
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        (**self).alloc(len)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        (**self).receive(packets, max)
    }

    fn arrivals(&self) -> Arrivals<'_> {
        (**self).arrivals()
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        (**self).send(packets)
    }

    fn stats(&mut self) -> PortStats {
        (**self).stats()
    }

    fn is_at_end(&self) -> bool {
        (**self).is_at_end()
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        (**self).file()
    }

    fn is_looped(&self) -> bool {
        (**self).is_looped()
    }
}

/// The error of a packet that a port cannot send because of its length.
pub fn too_long(len: usize, max: usize) -> io::Error {
    let why = format!("a packet of {len} bytes, and the port takes up to {max}");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_trial_are_differences() {
        let mut before = PortStats::default();
        before.taken.add(60);
        before.taken.add(1514);
        before.sent.add(60);
        before.refused.queue_full = 3;
        assert_eq!(before.in_flight(), 1);
        let mut after = before;
        after.taken.add(100);
        after.sent.add(1514);
        after.send_lost.kernel = 1;
        after.refused.too_long = 1;
        assert_eq!((after.in_flight(), after.send_lost.total()), (0, 1));
        let trial = after.since(&before);
        assert_eq!((trial.taken.packets, trial.taken.bytes), (1, 100));
        assert_eq!((trial.sent.packets, trial.sent.bytes), (1, 1514));
        assert_eq!((trial.refused.queue_full, trial.refused.too_long), (0, 1));
        assert_eq!(trial.delivered, Count::default());
    }
}
