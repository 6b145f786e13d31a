//! The primitives that the ledger is made of, in one place, so that its tests can put loom's there instead.

pub(crate) use std::sync::{Arc, Mutex, PoisonError, TryLockError};
#[cfg(test)]
pub(crate) use std::thread::{spawn, yield_now};

/// How many shards a scenario has, and how many jobs each.
#[cfg(test)]
pub(crate) const SHARDS: u64 = 2;
#[cfg(test)]
pub(crate) const JOBS: u64 = 50;

/// Runs `scenario` again and again: threads interleave as the machine has them.
#[cfg(test)]
pub(crate) fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    (0..200).for_each(|_| scenario());
}
