//! Memory, or threads, that a service hands out to its clients and that are given back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use dpb_core::Timer;

use crate::error::{LinkError, Refusal};
use crate::link::between;
use crate::lock::lock;

/// The time for which somebody waits for what others hold.
pub const RESERVE_PATIENCE: Duration = Duration::from_secs(10);
/// The interval at which one that waits looks whether its client is still there.
const GONE_LOOK: Duration = Duration::from_millis(50);

/// So much for all clients of a service.
pub struct Budget {
    left: Mutex<u64>,
    freed: Condvar,
    waiting: Arc<AtomicUsize>,
    clock: Arc<dyn Timer>,
    busy: &'static str,
}

/// A share of a budget; given back when dropped.
pub struct Reserved<'a> {
    budget: &'a Budget,
    /// The share.
    pub bytes: u64,
}

/// Somebody who waits for what others hold.
pub struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    /// One more in `waiting`, for as long as this lives.
    pub fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Budget {
    /// A budget of `bytes`. `waiting` counts the threads that wait for some of it; their patience goes by `clock`.
    pub fn new(bytes: u64, waiting: &Arc<AtomicUsize>, clock: &Arc<dyn Timer>) -> Self {
        Self {
            left: Mutex::new(bytes),
            freed: Condvar::new(),
            waiting: Arc::clone(waiting),
            clock: Arc::clone(clock),
            busy: "other clients hold all that the agent has for them; try again later",
        }
    }

    /// The same, whose refusals say this to who waited in vain.
    pub fn saying(self, busy: &'static str) -> Self {
        Self { busy, ..self }
    }

    /// The part that nothing has reserved.
    pub fn left(&self) -> u64 {
        *lock(&self.left)
    }

    /// Takes what `share` makes of what is left, once that is at least `least`.
    pub fn reserve(
        &self,
        least: u64,
        gone: &dyn Fn() -> bool,
        share: impl FnOnce(u64) -> u64,
    ) -> Result<Reserved<'_>, LinkError> {
        let mut left = lock(&self.left);
        if *left < least {
            let _waiting = Waiting::new(&self.waiting);
            let began_ns = self.clock.now_ns();
            while *left < least {
                if gone() {
                    return Err(LinkError::Closed);
                }
                if between(began_ns, self.clock.now_ns()) > RESERVE_PATIENCE {
                    return Err(LinkError::refused(Refusal::Busy, self.busy));
                }
                left = self
                    .freed
                    .wait_timeout(left, GONE_LOOK)
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
                    .0;
            }
        }
        let bytes = share(*left);
        *left -= bytes;
        Ok(Reserved {
            budget: self,
            bytes,
        })
    }

    /// Takes so much, if it is there now.
    pub fn reserve_now(&self, bytes: u64) -> Option<Reserved<'_>> {
        let mut left = lock(&self.left);
        *left = left.checked_sub(bytes)?;
        Some(Reserved {
            budget: self,
            bytes,
        })
    }

    /// Takes what is left of it now, at most `bytes`.
    pub fn reserve_up_to(&self, bytes: u64) -> Reserved<'_> {
        let mut left = lock(&self.left);
        let bytes = bytes.min(*left);
        *left -= bytes;
        Reserved {
            budget: self,
            bytes,
        }
    }
}

impl Reserved<'_> {
    /// Gives back all but so much.
    pub fn keep(&mut self, bytes: u64) {
        let back = self.bytes.saturating_sub(bytes);
        self.bytes -= back;
        *lock(&self.budget.left) += back;
        self.budget.freed.notify_all();
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use dpb_core::WallClock;

    use super::*;

    #[test]
    fn who_waits_is_counted_and_goes_with_its_client() {
        let waiting = Arc::new(AtomicUsize::new(0));
        let clock: Arc<dyn Timer> = Arc::new(WallClock::default());
        let budget = Budget::new(100, &waiting, &clock);
        let mut most = budget.reserve_up_to(1000);
        assert_eq!(most.bytes, 100);
        let left = AtomicBool::new(false);
        let gone = || left.load(Ordering::Relaxed);
        thread::scope(|scope| {
            let waits = || {
                budget
                    .reserve(50, &gone, |left| left)
                    .map(|held| held.bytes)
            };
            let waiter = scope.spawn(waits);
            while waiting.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            left.store(true, Ordering::Relaxed);
            assert!(matches!(waiter.join().unwrap(), Err(LinkError::Closed)));
        });
        assert_eq!(waiting.load(Ordering::Relaxed), 0);
        most.keep(40);
        assert_eq!(
            budget.reserve(50, &|| false, |left| left).unwrap().bytes,
            60
        );
        drop(most);
        assert!(budget.reserve_now(101).is_none());
        assert!(budget.reserve_now(100).is_some());
    }
}
