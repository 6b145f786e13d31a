//! The memory that the threads of a scan share.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::ScanError;

/// Memory that threads take from in small pieces.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: usize,
    left: AtomicUsize,
}

impl Memory {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes,
            left: AtomicUsize::new(bytes),
        }
    }

    pub(super) fn take(&self, bytes: usize) -> Result<(), ScanError> {
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes)
            })
            .map(|_| ())
            .map_err(|_| ScanError::Memory(self.bytes))
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}
