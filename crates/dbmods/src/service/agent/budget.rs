//! Memory, or threads, that are handed out and given back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use dpb_core::Timer;

use super::lock;
use super::refusals::refuse;
use super::{GONE_LOOK, RESERVE_PATIENCE, SCAN_BYTES_MAX, SCAN_BYTES_MIN};
use crate::service::link::between;
use crate::service::protocol::{Refusal, WireError};

/// So much for all.
pub(super) struct Budget {
    left: Mutex<u64>,
    freed: Condvar,
    waiting: Arc<AtomicUsize>,
    clock: Arc<dyn Timer>,
}

/// A share of a budget; given back when dropped.
pub(super) struct Reserved<'a> {
    budget: &'a Budget,
    pub(super) bytes: u64,
}

/// Somebody who waits for what others hold.
pub(super) struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    pub(super) fn new(waiting: &'a AtomicUsize) -> Self {
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
    /// Who waits for some of it is counted in `waiting`, and has patience by `clock`.
    pub(super) fn new(bytes: u64, waiting: &Arc<AtomicUsize>, clock: &Arc<dyn Timer>) -> Self {
        Self {
            left: Mutex::new(bytes),
            freed: Condvar::new(),
            waiting: Arc::clone(waiting),
            clock: Arc::clone(clock),
        }
    }

    /// Takes what a scan wants, or what one may have of what is left, once that is something and at least `least`. While it
    /// waits it asks `gone` whether its client has left.
    pub(super) fn reserve_for_scan(
        &self,
        least: u64,
        wanted: u64,
        gone: &dyn Fn() -> bool,
    ) -> Result<Reserved<'_>, WireError> {
        if least > SCAN_BYTES_MAX {
            let text = format!(
                "the scan would take {least} bytes of memory; the agent gives one {SCAN_BYTES_MAX} at most"
            );
            return Err(refuse(Refusal::Usage, text));
        }
        let least = wanted.min(SCAN_BYTES_MIN).max(least);
        self.reserve(least, gone, |left| {
            wanted.min((left / 4).clamp(least, SCAN_BYTES_MAX))
        })
    }

    /// The part that nothing has reserved.
    pub(super) fn left(&self) -> u64 {
        *lock(&self.left)
    }

    /// Takes what `share` makes of what is left, once that is at least `least`.
    pub(super) fn reserve(
        &self,
        least: u64,
        gone: &dyn Fn() -> bool,
        share: impl FnOnce(u64) -> u64,
    ) -> Result<Reserved<'_>, WireError> {
        let mut left = lock(&self.left);
        if *left < least {
            let _waiting = Waiting::new(&self.waiting);
            let began_ns = self.clock.now_ns();
            while *left < least {
                if gone() {
                    return Err(WireError::Closed);
                }
                if between(began_ns, self.clock.now_ns()) > RESERVE_PATIENCE {
                    return Err(refuse(
                        Refusal::Busy,
                        "other scans hold all memory that the agent has for them; try again later",
                    ));
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
    pub(super) fn reserve_now(&self, bytes: u64) -> Option<Reserved<'_>> {
        let mut left = lock(&self.left);
        *left = left.checked_sub(bytes)?;
        Some(Reserved {
            budget: self,
            bytes,
        })
    }

    /// Takes so much of it as is there now.
    pub(super) fn reserve_up_to(&self, bytes: u64) -> Reserved<'_> {
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
    pub(super) fn keep(&mut self, bytes: u64) {
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
            assert!(matches!(waiter.join().unwrap(), Err(WireError::Closed)));
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
