//! A port in two halves, for a program that sends and receives by the same port but asks for two.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpb_core::port::{Count, Losses, PacketPort, PortStats};
use dpb_core::{Buf, SetupError};

/// A half of a port. Both may be in threads of their own; a call waits while the other half is in one.
#[derive(Debug)]
pub struct Half<P> {
    name: String,
    packet_bytes_max: usize,
    is_sender: bool,
    port: Arc<Mutex<P>>,
}

/// The half of `port` that sends, to which nothing ever comes, and the one that receives, which takes nothing. Each counts what it does.
pub fn halves<P: PacketPort>(port: P) -> [Half<P>; 2] {
    let name = port.name().to_owned();
    let packet_bytes_max = port.packet_bytes_max();
    let port = Arc::new(Mutex::new(port));
    [true, false].map(|is_sender| Half {
        name: name.clone(),
        packet_bytes_max,
        is_sender,
        port: Arc::clone(&port),
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
        match self.is_sender {
            true => Ok(0),
            false => self.port().receive(packets, max),
        }
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
    use super::*;
    use crate::port::pair;

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
}
