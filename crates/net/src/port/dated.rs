//! Arrival times by a clock that is given, for ports that have none or whose own count from another start.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use dpb_core::port::{Arrivals, Dating, PacketPort, PortStats};
use dpb_core::{Buf, Clock, SetupError};

/// A port whose packets are dated by a clock when they are received. The clock is read once for each call of `receive` that gives packets, after it, so the
/// packets of a call have the same time, and none was there later.
pub struct Dated<P> {
    port: P,
    clock: Arc<dyn Clock>,
    times_ns: Vec<u64>,
}

impl<P: PacketPort> Dated<P> {
    /// `port`, by `clock`.
    pub fn new(port: P, clock: Arc<dyn Clock>) -> Self {
        let times_ns = Vec::new();
        Self {
            port,
            clock,
            times_ns,
        }
    }

    /// The port itself.
    pub fn into_inner(self) -> P {
        self.port
    }
}

impl<P: PacketPort> fmt::Debug for Dated<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dated({})", self.port.name())
    }
}

impl<P: PacketPort> PacketPort for Dated<P> {
    fn name(&self) -> &str {
        self.port.name()
    }

    fn packet_bytes_max(&self) -> usize {
        self.port.packet_bytes_max()
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        self.port.alloc(len)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let before = packets.len();
        self.times_ns.clear();
        let result = self.port.receive(packets, max);
        let came = packets.len() - before;
        if came > 0 {
            self.times_ns.resize(came, self.clock.now_ns());
        }
        result
    }

    fn arrivals(&self) -> Arrivals<'_> {
        Arrivals {
            by: Dating::Clock,
            times_ns: &self.times_ns,
        }
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        self.port.send(packets)
    }

    fn stats(&mut self) -> PortStats {
        self.port.stats()
    }

    fn is_at_end(&self) -> bool {
        self.port.is_at_end()
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.port.file()
    }

    fn is_looped(&self) -> bool {
        self.port.is_looped()
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::VirtualClock;

    use super::*;
    use crate::port::pair;

    #[test]
    fn packets_of_a_call_have_the_time_of_the_call() {
        let clock = Arc::new(VirtualClock::new(false));
        let [mut one, two] = pair();
        let mut two = Dated::new(two, clock.clone());
        let mut ready: VecDeque<Buf> = (0..3).map(|_| one.alloc(60).expect("memory")).collect();
        one.send(&mut ready).expect("room");
        let mut came = Vec::new();
        clock.advance_to(5);
        assert_eq!(two.receive(&mut came, 2).expect("works"), 2);
        assert_eq!(two.arrivals().by, Dating::Clock);
        assert_eq!(two.arrivals().times_ns, [5, 5]);
        clock.advance_to(9);
        assert_eq!(two.receive(&mut came, 2).expect("works"), 1);
        assert_eq!(two.arrivals().times_ns, [9]);
        assert_eq!(two.receive(&mut came, 2).expect("works"), 0);
        assert!(two.arrivals().times_ns.is_empty());
        assert_eq!(two.into_inner().stats().delivered.packets, 3);
    }
}
