<<<<<<< HEAD
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
=======
//! Ctrl-C and SIGTERM: the first asks the work to stop after what is complete, the second ends the process.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::Exit;

static STOP: AtomicBool = AtomicBool::new(false);

/// Set once somebody wants the work to end. The first call installs the handler.
pub fn flag() -> &'static AtomicBool {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let installed = ctrlc::set_handler(|| {
            if STOP.swap(true, Ordering::Relaxed) {
                std::process::exit(Exit::Interrupted as i32);
            }
        });
        // Without a handler the signal ends the process at once, which the records survive too.
        if let Err(error) = installed {
            crate::output::note(&format!("dpb: Ctrl-C will not be clean: {error}"));
        }
    });
    &STOP
}

/// Whether somebody wants the work to end.
pub fn is_set() -> bool {
    flag().load(Ordering::Relaxed)
>>>>>>> measure
}
