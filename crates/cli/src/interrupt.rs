//! Ctrl-C and SIGTERM: the first asks the work to stop after what is complete, the second ends the process.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

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

/// Whether an interrupt ended a process that this one started. A terminal's Ctrl-C may reach the process while it leaves this
/// one's group, before this one has noticed.
pub fn has_ended(status: ExitStatus) -> bool {
    is_set()
        || status.code() == Some(Exit::Interrupted as i32)
        || status.signal() == Some(Signal::INT.as_raw())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_died_of_an_interrupt_is_told_from_one_that_failed() {
        let ended = |script| Command::new("sh").args(["-c", script]).status().unwrap();
        // Made up: a process that was started in the background ignores interrupts, and so would its shells.
        assert!(has_ended(ExitStatus::from_raw(Signal::INT.as_raw())));
        assert!(has_ended(ended("exit 130")));
        assert!(!has_ended(ended("exit 1")));
        assert!(!has_ended(ended("kill -KILL $$")));
    }
}
