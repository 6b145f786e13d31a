//! The world outside of the kernel: another process, or a real network.

use std::fmt;

/// A way out of the kernel, and into it. One side of a link that is synchronised like the links among the kernel's own threads.
pub trait Outside<M>: Send {
    /// Takes a message that leaves now. Gives it back if there is no room; it is then offered again, and virtual time waits.
    ///
    /// # Errors
    /// If the peer is gone or breaks the protocol.
    fn send(&mut self, now_ps: u64, message: M) -> Result<Option<M>, OutsideError>;

    /// The next message that has come, with the time at which it arrives; `None` if there is none yet. Times never go back.
    ///
    /// # Errors
    /// If the peer is gone or breaks the protocol.
    fn receive(&mut self) -> Result<Option<(u64, M)>, OutsideError>;

    /// The promise of the other side: no message with an earlier time follows. Asked for after [`Outside::receive`] had nothing.
    fn promise_ps(&self) -> u64;

    /// Tells the other side that everything before this time has happened here. False if there is no room; it is then told again, and a run does
    /// not end before.
    ///
    /// # Errors
    /// If the peer is gone or breaks the protocol.
    fn reach(&mut self, now_ps: u64) -> Result<bool, OutsideError>;

    /// Called while nothing can happen before the other side promises more. `next_ps` is the time of the next event here. By default the
    /// thread lets others run. Of several outsides the first alone is asked to wait, so that none delays another: those that sleep wait for
    /// each other's peers too.
    ///
    /// # Errors
    /// If the peer is gone.
    fn wait(&mut self, _next_ps: u64) -> Result<(), OutsideError> {
        std::thread::yield_now();
        Ok(())
    }
}

impl<M, O: Outside<M> + ?Sized> Outside<M> for Box<O> {
    fn send(&mut self, now_ps: u64, message: M) -> Result<Option<M>, OutsideError> {
        (**self).send(now_ps, message)
    }

    fn receive(&mut self) -> Result<Option<(u64, M)>, OutsideError> {
        (**self).receive()
    }

    fn promise_ps(&self) -> u64 {
        (**self).promise_ps()
    }

    fn reach(&mut self, now_ps: u64) -> Result<bool, OutsideError> {
        (**self).reach(now_ps)
    }

    fn wait(&mut self, next_ps: u64) -> Result<(), OutsideError> {
        (**self).wait(next_ps)
    }
}

/// The reason why an outside ends a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideError(pub String);

impl fmt::Display for OutsideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OutsideError {}
