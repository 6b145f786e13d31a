//! DOCA's library in this process, and its handles: everything that could go wrong with memory.
//!
//! What is safe to use follows from who owns what: an [`EngineContext`] owns its jobs until the device is done with them, and a chunk
//! of memory its registration. What a device may still write is never given back; it is leaked, and that is said.

mod context;
mod device;
mod jobs;
mod library;
mod memory;
mod search;
mod tasks;

use std::fmt;
use std::sync::{Mutex, Once, PoisonError, TryLockError};
use std::time::Duration;

pub(super) use context::{EngineContext, Landing, Piece, Start};
pub(super) use device::{Bounds, Device};
pub(super) use library::{Absent, Doca, Family, library};
pub(super) use memory::alloc;
pub(super) use search::MATCH_BYTES;

use super::sys::Code;

/// The time that a device may do nothing at all with tasks in flight before a queue that is dropped gives it up, and that a
/// context may take to stop.
const SILENCE: Duration = Duration::from_secs(2);

/// A call that DOCA refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    call: String,
    text: String,
}

impl Refused {
    /// The code in the words of the library that gave it.
    fn new(doca: &Doca, call: impl Into<String>, code: Code) -> Self {
        Self {
            call: call.into(),
            text: doca.describe(code),
        }
    }
}

/// The reason that an engine is not open.
struct Unopened {
    refused: Refused,
    /// Whether the engine's context is stopped, so that the device touches nothing on its behalf.
    is_stopped: bool,
}

impl From<Refused> for Unopened {
    /// Before there was a context to start.
    fn from(refused: Refused) -> Self {
        Self {
            refused,
            is_stopped: true,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.text)
    }
}

/// Runs a call that makes or destroys an object: by one thread at a time, for objects share their device, and DOCA promises
/// only that different contexts may work at once. No device is waited for in it, and nothing is dropped.
fn setup<R>(call: impl FnOnce() -> R) -> R {
    let _one = SETUP.lock().unwrap_or_else(PoisonError::into_inner);
    call()
}

/// As [`setup`], for who must not wait: `None` if another thread is in it.
fn setup_now<R>(call: impl FnOnce() -> R) -> Option<R> {
    let _one = match SETUP.try_lock() {
        Ok(one) => one,
        Err(TryLockError::Poisoned(one)) => one.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    Some(call())
}

static SETUP: Mutex<()> = Mutex::new(());

/// Says once that memory stays with a device.
fn say_leaked(device: &str, why: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        eprintln!("doca: {device} {why}: what it may still write to is leaked, for taking it back would not be safe");
    });
}
