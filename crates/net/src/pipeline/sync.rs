//! The primitives that [`slots`](super::slots) is made of, in one place, so that its tests can put loom's there instead.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
