//! The atomics of the ledger and of the count of records, in one place, so that their tests can put loom's there instead.

pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
