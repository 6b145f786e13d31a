//! Ctrl-C and SIGTERM: a flag that long work looks at, so that it ends with whole files and complete records.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on a signal sets the flag instead of ending the process. May be called more than once.
pub fn catch() {
    // It fails if a handler is there already, which is then this one.
    let _ = ctrlc::set_handler(|| ASKED.store(true, Ordering::Relaxed));
}

/// Whether a signal asked to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
