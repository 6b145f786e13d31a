//! Time as an argument: wall time for what runs here, virtual time for what is modelled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Nanoseconds since some start; never goes back.
pub trait Clock: Send + Sync {
    /// Nanoseconds since this clock's start.
    fn now_ns(&self) -> u64;
}

/// The monotonic clock of this machine.
#[derive(Debug)]
pub struct WallClock(Instant);

impl Default for WallClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for WallClock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct VirtualClock(AtomicU64);

impl VirtualClock {
    /// Moves the clock to `ns`, or leaves it where it is if that is in the past.
    pub fn advance_to(&self, ns: u64) {
        self.0.fetch_max(ns, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
