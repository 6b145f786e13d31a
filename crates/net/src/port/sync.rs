//! The primitives that [`ring`](super::ring) and [`returns`](super::returns) are made of, in one place, so that their tests can put loom's there instead.

use std::cell::UnsafeCell;

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

/// Memory for a `T` that two threads hand to each other.
#[derive(Debug)]
pub(crate) struct Cell<T>(UnsafeCell<T>);

impl<T> Cell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Calls `f` with the address of the memory, for as long as nobody else has it.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
