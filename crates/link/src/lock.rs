//! Locks whose holders may have panicked: what they guard is whole between any two statements.

use std::sync::{Mutex, MutexGuard};

/// Locks, also after a holder's panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
