//! How a scan is stopped from outside.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lock;
use crate::duckdb::Interrupt;

/// Stops a scan, whichever engine runs it.
#[derive(Default)]
pub(super) struct Halt {
    pub(super) stop: AtomicBool,
    /// The handle that interrupts DuckDB, once it runs.
    pub(super) duckdb: Mutex<Option<Interrupt>>,
}

impl Halt {
    /// May be called again: DuckDB forgets an interrupt that comes before its statement.
    pub(super) fn now(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(running) = &*lock(&self.duckdb) {
            running.interrupt();
        }
    }

    pub(super) fn is_set(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
