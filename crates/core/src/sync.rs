//! The primitives that [`crate::versions`] is made of, in one place, so that its tests can put loom's there instead.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
#[cfg(test)]
pub(crate) use std::thread::spawn;

/// How many readers and commits a scenario has.
#[cfg(test)]
pub(crate) const READERS: usize = 2;
#[cfg(test)]
pub(crate) const COMMITS: usize = 20;

/// Runs `scenario` again and again: threads interleave as the machine has them, or Miri.
#[cfg(test)]
pub(crate) fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    let times = if cfg!(miri) { 20 } else { 1000 };
    (0..times).for_each(|_| scenario());
}
