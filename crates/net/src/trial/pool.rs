//! Buffers that come back are sent again.

use dpb_core::{Buf, PacketPort, SetupError};

/// Buffers of one port, by their lengths: a buffer's length is its frame's, so each length needs buffers of its own.
#[derive(Debug, Default)]
pub struct Pool {
    by_len: Vec<Vec<Buf>>,
    /// A buffer of the port's memory, by which others are known: from the first that it gave.
    model: Option<Buf>,
    allocated: u64,
}

/// Buffers of a length that are kept.
const KEPT: usize = 8192;

impl Pool {
    /// A buffer of `len` bytes that `port` sends without a copy: one that came back, or a new one.
    ///
    /// # Errors
    /// The port's, if it has no memory.
    #[inline]
    pub fn take<P: PacketPort + ?Sized>(
        &mut self,
        port: &mut P,
        len: usize,
    ) -> Result<Buf, SetupError> {
        match self.by_len.get_mut(len).and_then(Vec::pop) {
            Some(buf) => Ok(buf),
            None => self.allocate(port, len),
        }
    }

    #[cold]
    fn allocate<P: PacketPort + ?Sized>(
        &mut self,
        port: &mut P,
        len: usize,
    ) -> Result<Buf, SetupError> {
        if self.model.is_none() {
            self.model = Some(port.alloc(len)?);
        }
        if self.by_len.len() <= len {
            self.by_len.resize_with(len + 1, Vec::new);
        }
        self.allocated += 1;
        port.alloc(len)
    }

    /// Takes a buffer back, if it is of the port's memory; else it is released to wherever it is from.
    #[inline]
    pub fn give(&mut self, buf: Buf) {
        let is_ours = self
            .model
            .as_ref()
            .is_some_and(|model| model.region().is(buf.region()));
        if let Some(kept) = self.by_len.get_mut(buf.len())
            && is_ours
            && kept.len() < KEPT
        {
            kept.push(buf);
        }
    }

    /// Buffers that were asked of the port.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }
}
