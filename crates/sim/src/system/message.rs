//! Messages between the parts of a system.

use super::frame::Frame;

/// A message between parts.
#[derive(Debug)]
pub enum Message {
    /// A frame on a wire.
    Frame(Box<Frame>),
    /// A host gives a frame to its card: descriptor and doorbell.
    Send(Box<Frame>),
    /// A card interrupts its host.
    Interrupt(Box<Interrupt>),
    /// A host gives so many buffers back to its card.
    Refill(u32),
}

/// The news of an interrupt.
#[derive(Debug, Default)]
pub struct Interrupt {
    /// Frames that lie in the host's memory, in the order in which they came.
    pub frames: Vec<Box<Frame>>,
    /// Frames that were sent since the last interrupt: their descriptors are free.
    pub sent: u32,
}
