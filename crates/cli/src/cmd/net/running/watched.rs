//! What ports have counted, for when their loops are gone: [`Watched`].

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::port::{Arrivals, PacketPort, PortStats};
use dpb_core::{Buf, SetupError};

/// The counts of a port's ends together. A clone has the same ones.
#[derive(Clone)]
pub struct Watcher {
    name: String,
    ends: Arc<Mutex<Vec<PortStats>>>,
}

/// An end of a port, which gives its counts to a watcher when it is dropped.
pub struct Watched<P: PacketPort> {
    port: P,
    watcher: Watcher,
}

impl Watcher {
    /// Of the port of this name.
    pub fn new(name: String) -> Self {
        let ends = Arc::default();
        Self { name, ends }
    }

    /// The port's name on the command line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The counts of each end that is gone.
    pub fn ends(&self) -> Vec<PortStats> {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.clone()
    }

    /// The sum of a count over all ends that are gone.
    pub fn sum(&self, of: impl Fn(&PortStats) -> u64) -> u64 {
        self.ends().iter().map(of).sum()
    }
}

impl<P: PacketPort> Watched<P> {
    pub fn new(port: P, watcher: Watcher) -> Self {
        Self { port, watcher }
    }
}

impl<P: PacketPort> Drop for Watched<P> {
    fn drop(&mut self) {
        let ends = self.watcher.ends.lock();
        let mut ends = ends.unwrap_or_else(PoisonError::into_inner);
        ends.push(self.port.stats());
    }
}

impl<P: PacketPort> PacketPort for Watched<P> {
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
        self.port.receive(packets, max)
    }

    fn arrivals(&self) -> Arrivals<'_> {
        self.port.arrivals()
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
