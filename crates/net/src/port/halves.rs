//! A port in two halves, for a program that sends and receives by the same port but asks for two.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpb_core::port::{Arrivals, Count, Dating, Losses, PacketPort, PortStats};
use dpb_core::{Buf, SetupError};

/// A half of a port. Both may be in threads of their own; a call waits while the other half is in one.
#[derive(Debug)]
pub struct Half<P> {
    name: String,
    packet_bytes_max: usize,
    is_sender: bool,
    port: Arc<Mutex<P>>,
    /// The port's file once more, which is there without a lock.
    file: Option<Arc<OwnedFd>>,
    /// Who dated the packets that the last call of `receive` gave, and the time of each.
    dated_by: Dating,
    times_ns: Vec<u64>,
}

/// The half of `port` that sends, to which nothing ever comes, and the one that receives, which takes nothing. Each counts what it does.
pub fn halves<P: PacketPort>(port: P) -> [Half<P>; 2] {
    let name = port.name().to_owned();
    let packet_bytes_max = port.packet_bytes_max();
    // Without a descriptor for it both are polled.
    let file = port.file().and_then(|file| file.try_clone_to_owned().ok());
    let file = file.map(Arc::new);
    let port = Arc::new(Mutex::new(port));
    [true, false].map(|is_sender| Half {
        name: name.clone(),
        packet_bytes_max,
        is_sender,
        port: Arc::clone(&port),
        file: file.clone(),
        dated_by: Dating::Nothing,
        times_ns: Vec::new(),
    })
}

impl<P> Half<P> {
    fn port(&self) -> MutexGuard<'_, P> {
        // A port has no state that a panic of the other half leaves half made: its own calls are what is in here.
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: PacketPort> PacketPort for Half<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        self.packet_bytes_max
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        self.port().alloc(len)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        if self.is_sender {
            return Ok(0);
        }
        // The lock by its field: what is beside it is written meanwhile.
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        let result = port.receive(packets, max);
        let Arrivals { by, times_ns } = port.arrivals();
        self.dated_by = by;
        self.times_ns.clear();
        self.times_ns.extend(times_ns);
        result
    }

    fn arrivals(&self) -> Arrivals<'_> {
        Arrivals {
            by: self.dated_by,
            times_ns: &self.times_ns,
        }
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(|file| file.as_fd())
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        match self.is_sender {
            true => self.port().send(packets),
            false => Ok(0),
        }
    }

    fn is_at_end(&self) -> bool {
        self.is_sender || self.port().is_at_end()
    }

    fn stats(&mut self) -> PortStats {
        let mut stats = self.port().stats();
        match self.is_sender {
            true => {
                stats.delivered = Count::default();
                stats.receive_lost = Losses::default();
            }
            false => {
                (stats.taken, stats.sent) = (Count::default(), Count::default());
                (stats.send_lost, stats.refused) = (Losses::default(), Losses::default());
            }
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::VirtualClock;

    use super::*;
    use crate::port::{Datagrams, Dated, datagrams, pair};

    #[test]
    fn each_half_does_its_part_and_counts_it() {
        let [near, mut far] = pair();
        let [mut sender, mut receiver] = halves(near);
        assert_eq!(sender.name(), receiver.name());
        let packets = |port: &mut dyn PacketPort, count: usize| -> VecDeque<Buf> {
            (0..count)
                .map(|_| port.alloc(60).expect("memory"))
                .collect()
        };
        let mut there = packets(&mut sender, 3);
        assert_eq!(sender.send(&mut there).expect("room"), 3);
        let mut back = packets(&mut far, 2);
        assert_eq!(far.send(&mut back).expect("room"), 2);
        let mut came = Vec::new();
        assert_eq!(sender.receive(&mut came, 9).expect("works"), 0);
        assert_eq!(receiver.receive(&mut came, 9).expect("works"), 2);
        assert_eq!(far.receive(&mut came, 9).expect("works"), 3);
        let mut more = packets(&mut receiver, 1);
        assert_eq!(receiver.send(&mut more).expect("works"), 0);
        assert_eq!(more.len(), 1);
        let (sent, received) = (sender.stats(), receiver.stats());
        assert_eq!((sent.taken.packets, sent.delivered.packets), (3, 0));
        assert_eq!((received.taken.packets, received.delivered.packets), (0, 2));
    }

    #[test]
    fn a_half_has_the_times_and_the_file_of_its_port() {
        let clock = Arc::new(VirtualClock::new(false));
        let [near, mut far] = pair();
        let [mut sender, mut receiver] = halves(Dated::new(near, clock.clone()));
        assert!(sender.file().is_none() && receiver.file().is_none());
        let mut there = [60, 60].map(|len| far.alloc(len).expect("memory")).into();
        assert_eq!(far.send(&mut there).expect("room"), 2);
        clock.advance_to(7);
        let mut came = Vec::new();
        assert_eq!(receiver.receive(&mut came, 9).expect("works"), 2);
        assert_eq!(receiver.arrivals().by, Dating::Clock);
        assert_eq!(receiver.arrivals().times_ns, [7, 7]);
        assert_eq!(sender.receive(&mut came, 9).expect("works"), 0);
        assert_eq!(sender.arrivals(), Arrivals::default());

        let socket = Datagrams::open(&datagrams::Options {
            port: 0,
            to: None,
            receives: true,
            bytes_max: 100,
            is_shared: false,
        });
        let [sender, receiver] = halves(socket.expect("a socket"));
        assert!(sender.file().is_some() && receiver.file().is_some());
    }
}
