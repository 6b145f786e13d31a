//! The primitives of the version lock and of the registry, in one place, so that their tests can put loom's there instead.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
pub(super) use std::thread::yield_now;
