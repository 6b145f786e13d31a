//! Waiting for a device, but not for ever.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::{Completion, Job, Queue};

/// How long nothing has happened. Reads the clock only while nothing does.
#[derive(Debug, Default)]
pub(crate) struct Silence(Option<Instant>);

impl Silence {
    /// Something has.
    pub(crate) fn end(&mut self) {
        self.0 = None;
    }

    /// Nothing has, since this was first said.
    pub(crate) fn lasts(&mut self) -> Duration {
        self.0.get_or_insert_with(Instant::now).elapsed()
    }
}

/// Leaves `queue` and what it holds where they are, for good. Dropping it would wait for its device, and taking memory back
/// that the device may still write to would be worse.
pub(crate) fn leak(queue: &mut Box<dyn Queue>) {
    std::mem::forget(std::mem::replace(queue, Box::new(Gone)));
}

/// In the place of a queue that was leaked.
struct Gone;

impl Queue for Gone {
    fn in_flight(&self) -> usize {
        0
    }

    fn submit(&mut self, _: &mut VecDeque<Job>) -> usize {
        0
    }

    fn poll(&mut self, _: &mut Vec<Completion>) -> usize {
        0
    }
}
