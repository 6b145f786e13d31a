//! Time as an argument: wall time for what runs here, virtual time for what is modelled.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Nanoseconds since some start; never goes back.
pub trait Clock: Send + Sync {
    /// Nanoseconds since this clock's start.
    fn now_ns(&self) -> u64;
    /// The kind of this clock: what moves it.
    fn kind(&self) -> ClockKind;
}

/// A clock that a thread can sleep by.
pub trait Timer: Clock + fmt::Debug {
    /// Returns when so much time has passed, or somewhat later.
    fn sleep(&self, duration: Duration);
}

/// The kinds of clocks, by what moves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// Time passes by itself, whatever the program does.
    Wall,
    /// Only a model moves the clock.
    Virtual {
        /// True if polling an empty queue moves the clock. An open loop needs this: between two jobs nothing else would.
        moves_when_polled: bool,
    },
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

    fn kind(&self) -> ClockKind {
        ClockKind::Wall
    }
}

impl Timer for WallClock {
    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct VirtualClock {
    now_ns: AtomicU64,
    moves_when_polled: bool,
}

impl VirtualClock {
    /// A clock at zero; for `moves_when_polled` see [`ClockKind::Virtual`].
    pub fn new(moves_when_polled: bool) -> Self {
        Self {
            now_ns: AtomicU64::new(0),
            moves_when_polled,
        }
    }

    /// Moves the clock to `ns`, or leaves it where it is if that is in the past.
    pub fn advance_to(&self, ns: u64) {
        self.now_ns.fetch_max(ns, Ordering::Relaxed);
    }
}

/// Sleeping moves the clock, and takes no time.
impl Timer for VirtualClock {
    fn sleep(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.advance_to(self.now_ns().saturating_add(ns));
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn kind(&self) -> ClockKind {
        ClockKind::Virtual {
            moves_when_polled: self.moves_when_polled,
        }
    }
}
