//! A clock that can be put forward, so that connections are over: [`AheadClock`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dpb_core::{Clock, ClockKind};

/// A clock that runs as another one does, and can be put forward. A system whose connections end by it forgets them all when it is put forward by more than they live without a packet.
pub struct AheadClock {
    clock: Arc<dyn Clock>,
    ahead_ns: AtomicU64,
}

impl AheadClock {
    /// A clock that shows what `clock` does.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            ahead_ns: AtomicU64::new(0),
        }
    }

    /// Puts it forward by so much.
    pub fn put_forward(&self, by_ns: u64) {
        self.ahead_ns.fetch_add(by_ns, Ordering::Relaxed);
    }
}

impl Clock for AheadClock {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns() + self.ahead_ns.load(Ordering::Relaxed)
    }

    fn kind(&self) -> ClockKind {
        self.clock.kind()
    }
}

impl fmt::Debug for AheadClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ahead_ns = self.ahead_ns.load(Ordering::Relaxed);
        write!(f, "AheadClock({ahead_ns} ns ahead)")
    }
}
