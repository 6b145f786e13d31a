//! Counters of shards, for a thread that is none of them.
//!
//! A shard writes what it has counted to its own page, at the end of a job and never halfway through one, so that what others read adds up. It does not wait for them: a page that
//! is just being read is written after the next job, or when the shard ends.

use super::sync::{Arc, Mutex, PoisonError, TryLockError};

/// The pages of all shards that there are or were.
#[derive(Debug)]
pub(super) struct Ledger<T> {
    pages: Mutex<Vec<Arc<Mutex<T>>>>,
}

/// A shard's own page. What it is dropped with is written.
#[derive(Debug)]
pub(super) struct Page<T: Copy> {
    page: Arc<Mutex<T>>,
    now: T,
}

impl<T: Copy + Default> Ledger<T> {
    pub(super) fn new() -> Self {
        Self {
            pages: Mutex::new(Vec::new()),
        }
    }

    /// A page for one more shard.
    pub(super) fn open(&self) -> Page<T> {
        let page = Arc::new(Mutex::new(T::default()));
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.push(Arc::clone(&page));
        Page {
            page,
            now: T::default(),
        }
    }

    /// Gives each page to `add`.
    pub(super) fn each(&self, mut add: impl FnMut(&T)) {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        for page in &*pages {
            add(&page.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl<T: Copy> Page<T> {
    /// What the shard has counted by now.
    pub(super) fn write(&mut self, now: T) {
        self.now = now;
        match self.page.try_lock() {
            Ok(mut page) => *page = now,
            Err(TryLockError::Poisoned(page)) => *page.into_inner() = now,
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

impl<T: Copy> Drop for Page<T> {
    fn drop(&mut self) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = self.now;
    }
}

// By its path, since `tests/interleavings.rs` includes this file by its own.
#[cfg(test)]
#[path = "ledger/scenarios.rs"]
pub(crate) mod scenarios;
