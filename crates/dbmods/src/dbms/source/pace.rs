//! The pace of a link that several connections share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dpb_core::Timer;

/// A link's pace, kept by who receives: what came over any of its connections has passed one after another. Senders have none.
#[derive(Clone)]
pub struct Pace {
    bits_per_s: u64,
    clock: Arc<dyn Timer>,
    /// The time at which all that was received has passed.
    passed_ns: Arc<Mutex<u64>>,
}

impl Pace {
    /// A link of so many bits per second, 0 for one without a pace.
    pub fn new(bits_per_s: u64, clock: Arc<dyn Timer>) -> Self {
        Self {
            bits_per_s,
            clock,
            passed_ns: Arc::default(),
        }
    }

    /// The pace, bits per second; 0 for none.
    pub fn bits_per_s(&self) -> u64 {
        self.bits_per_s
    }

    /// Waits until so many bytes more have passed. Where they were there before the receiver asked for them, a link would have carried them while it was busy
    /// with the bytes before, so they began then.
    pub fn pass(&self, bytes: u64, were_there: bool) {
        if self.bits_per_s == 0 {
            return;
        }
        let takes_ns = u128::from(bytes) * 8_000_000_000 / u128::from(self.bits_per_s);
        let takes_ns = takes_ns as u64;
        let now_ns = self.clock.now_ns();
        let began_ns = match were_there {
            true => now_ns.saturating_sub(takes_ns),
            false => now_ns,
        };
        let passed_ns = {
            let mut passed_ns = self
                .passed_ns
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *passed_ns = (*passed_ns).max(began_ns).saturating_add(takes_ns);
            *passed_ns
        };
        self.clock
            .sleep(Duration::from_nanos(passed_ns.saturating_sub(now_ns)));
    }
}

impl std::fmt::Debug for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pace({} bit/s)", self.bits_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that sleeps by moving on.
    #[derive(Debug, Default)]
    struct Still(Mutex<u64>);

    impl dpb_core::Clock for Still {
        fn now_ns(&self) -> u64 {
            *self.0.lock().unwrap()
        }

        fn kind(&self) -> dpb_core::ClockKind {
            dpb_core::ClockKind::Virtual {
                moves_when_polled: false,
            }
        }
    }

    impl Timer for Still {
        fn sleep(&self, time: Duration) {
            *self.0.lock().unwrap() += time.as_nanos() as u64;
        }
    }

    #[test]
    fn bytes_pass_one_after_another_and_idle_time_is_not_saved_up() {
        let clock = Arc::new(Still::default());
        let pace = Pace::new(8_000, clock.clone());
        let other = pace.clone();
        pace.pass(500, false);
        other.pass(500, true);
        assert_eq!(dpb_core::Clock::now_ns(&*clock), 1_000_000_000);
        clock.sleep(Duration::from_secs(5));
        pace.pass(1000, false);
        assert_eq!(dpb_core::Clock::now_ns(&*clock), 7_000_000_000);
        // What came while the receiver was busy for half the time that it takes has half of it left.
        clock.sleep(Duration::from_millis(500));
        pace.pass(1000, true);
        assert_eq!(dpb_core::Clock::now_ns(&*clock), 8_000_000_000);
        // It had time to spare, but no more than its own is made up for.
        clock.sleep(Duration::from_secs(60));
        pace.pass(1000, true);
        pace.pass(1000, true);
        assert_eq!(dpb_core::Clock::now_ns(&*clock), 69_000_000_000);
        Pace::new(0, clock.clone()).pass(u64::MAX, false);
        assert_eq!(dpb_core::Clock::now_ns(&*clock), 69_000_000_000);
    }
}
