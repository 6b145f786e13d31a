//! Ways to hand requests to the kernel: one trait, three engines.

mod aio;
mod buffers;
mod sync;
mod uring;

use std::fs::File;
use std::io;

use super::{Engine, Plan};
use crate::crew::Broken;
use buffers::Buffers;

/// A request, and the slot that it keeps until it is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) slot: usize,
    pub(super) buffer: usize,
    pub(super) is_write: bool,
    pub(super) offset: u64,
}

/// A request that is done: its slot, and its bytes or why not.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) slot: usize,
    pub(super) result: io::Result<usize>,
}

/// A thread's lane to the kernel, with the buffers of its requests. Made, used and dropped by one thread.
pub(super) trait Lane: Send {
    /// Takes a request; the kernel has it after the next [`Lane::submit`].
    fn push(&mut self, request: Request);

    /// Hands over what was pushed, waits until at least one request is done, and adds all that are to `done`.
    ///
    /// # Errors
    /// What the kernel says; requests may still be in flight.
    fn submit(&mut self, done: &mut Vec<Done>) -> io::Result<()>;

    /// A buffer that no request in flight uses.
    ///
    /// # Panics
    /// If one does.
    fn buffer(&mut self, number: usize) -> &mut [u8];
}

/// Opens a lane of this plan to `file`, with so many buffers.
pub(super) fn open(plan: &Plan, file: &File, buffers: usize) -> Result<Box<dyn Lane>, Broken> {
    let buffers = Buffers::new(buffers, plan.block as usize).map_err(Broken::Unsupported)?;
    let file = file.try_clone();
    let file =
        file.map_err(|error| Broken::Wrong(format!("cannot open the file again: {error}")))?;
    match plan.engine {
        Engine::IoUring => uring::open(plan, file, buffers),
        Engine::Libaio => aio::open(plan, file, buffers),
        Engine::Sync => Ok(Box::new(sync::OneByOne::new(file, buffers))),
    }
}

#[cfg(test)]
mod tests;
