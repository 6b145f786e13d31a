//! The stack that all threads take from with loom's primitives and a mistake: its head does not count its changes.

pub(crate) mod sync {
    //! As beside it, but for the upper half of a head.

    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

    /// The lower half alone.
    pub(crate) struct AtomicU64(loom::sync::atomic::AtomicU64);

    fn lower(value: u64) -> u64 {
        value & u64::from(u32::MAX)
    }

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> Self {
            Self(loom::sync::atomic::AtomicU64::new(lower(value)))
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }

        pub(crate) fn compare_exchange_weak(
            &self,
            old: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            let (old, new) = (lower(old), lower(new));
            self.0.compare_exchange_weak(old, new, success, failure)
        }
    }
}

#[path = "../../src/pipeline/slots.rs"]
pub(crate) mod slots;
