//! Memory that is handed out, and given back.

use std::sync::{Condvar, Mutex};

use super::lock;
use super::shelf::refuse;
use super::{RESERVE_PATIENCE, SCAN_BYTES_MAX, SCAN_BYTES_MIN};
use crate::pushdown::wire::{Refusal, WireError};

/// So much memory for all.
pub(super) struct Budget {
    left: Mutex<u64>,
    freed: Condvar,
}

/// A share of a budget; given back when dropped.
pub(super) struct Reserved<'a> {
    budget: &'a Budget,
    pub(super) bytes: u64,
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            left: Mutex::new(bytes),
            freed: Condvar::new(),
        }
    }

    /// Takes what is wanted, or what one scan may have of what is left, once that is something and at least `least`.
    pub(super) fn reserve(&self, least: u64, wanted: u64) -> Result<Reserved<'_>, WireError> {
        if least > SCAN_BYTES_MAX {
            let text = format!(
                "the scan would take {least} bytes of memory; the agent gives one {SCAN_BYTES_MAX} at most"
            );
            return Err(refuse(Refusal::Usage, text));
        }
        let least = wanted.min(SCAN_BYTES_MIN).max(least);
        let (mut left, waited) = self
            .freed
            .wait_timeout_while(lock(&self.left), RESERVE_PATIENCE, |left| *left < least)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if waited.timed_out() {
            return Err(refuse(
                Refusal::Busy,
                "other scans hold all memory that the agent has for batches; try again later",
            ));
        }
        let share = (*left / 4).clamp(least, SCAN_BYTES_MAX);
        let bytes = wanted.min(share);
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
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        *lock(&self.budget.left) += self.bytes;
        self.budget.freed.notify_all();
    }
}
