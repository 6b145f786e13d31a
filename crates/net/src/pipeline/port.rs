//! Ports, as the pipeline sees them.

use std::collections::VecDeque;
use std::io;

use dpb_core::{Buf, SetupError};

/// Somewhere packets come from and go to, each in a buffer of its own: an Ethernet frame without preamble and check
/// sequence. Driven by one thread at a time; nothing waits.
pub trait PacketPort: Send {
    /// The port's name: `eth0`, `wire 0`.
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

    /// Takes packets from the front, until it has no room for more; says how many.
    ///
    /// # Errors
    /// The port's own, or [`io::ErrorKind::InvalidInput`] for a packet that is too long. That packet is in front, those
    /// before it are taken.
    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize>;
}
