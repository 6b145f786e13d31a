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
}
