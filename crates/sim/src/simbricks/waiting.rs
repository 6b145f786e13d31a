//! What a loop does while its peers have nothing for it.

use std::hint::spin_loop;
use std::thread;
use std::time::Duration;

/// Looks before the core is given away: about as long as an answer of a peer on another core takes. Where there are fewer cores than
/// simulators, eight times as many make a round several times as long; fewer make no difference that stands out from the noise.
const SPINS: u32 = 64;
/// Looks before a loop sleeps that no virtual time waits for.
const YIELDS: u32 = 256;
/// The sleep of such a loop: short beside what a person or a process notices, long beside a look.
const SLEEP: Duration = Duration::from_micros(50);

/// The steps of a loop that waits: it spins, then gives its core away, then sleeps if it may.
///
/// Synchronised loops should not sleep: a peer's answer comes within microseconds, and the peers wait for this loop in turn.
#[derive(Clone, Debug)]
pub struct Waiting {
    looks: u32,
    sleeps: bool,
}

impl Waiting {
    /// For a loop that sleeps after a while if `sleeps`.
    pub fn new(sleeps: bool) -> Self {
        Self { looks: 0, sleeps }
    }

    /// One more look was in vain.
    pub fn pause(&mut self) {
        self.looks = self.looks.saturating_add(1);
        if self.looks <= SPINS {
            spin_loop();
        } else if self.sleeps && self.looks > SPINS + YIELDS {
            thread::sleep(SLEEP);
        } else {
            thread::yield_now();
        }
    }

    /// Something has come.
    pub fn end(&mut self) {
        self.looks = 0;
    }
}
