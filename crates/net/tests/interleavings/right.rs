//! The queue and the stacks with loom's primitives.

pub(crate) mod sync {
    //! loom's, by the names of the port's own list.

    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

    /// Memory of which loom sees who uses it when.
    pub(crate) struct Cell<T>(loom::cell::UnsafeCell<T>);

    impl<T> Cell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(f)
        }
    }
}

#[path = "../../src/port/returns.rs"]
pub(crate) mod returns;
#[path = "../../src/port/ring.rs"]
pub(crate) mod ring;
#[path = "../../src/pipeline/slots.rs"]
pub(crate) mod slots;
