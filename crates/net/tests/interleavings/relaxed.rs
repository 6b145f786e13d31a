//! The queue and the stacks with loom's primitives and a mistake: no load and no store orders anything.

pub(crate) mod sync {
    //! As beside it, but for the orders.

    pub(crate) use crate::right::sync::Cell;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, fence};

    /// All orders are the weakest one.
    #[allow(non_snake_case, non_upper_case_globals)]
    pub(crate) mod Ordering {
        use loom::sync::atomic::Ordering;

        pub(crate) const Acquire: Ordering = Ordering::Relaxed;
        pub(crate) const Release: Ordering = Ordering::Relaxed;
        pub(crate) const AcqRel: Ordering = Ordering::Relaxed;
        pub(crate) const Relaxed: Ordering = Ordering::Relaxed;
    }
}

#[path = "../../src/port/returns.rs"]
pub(crate) mod returns;
#[path = "../../src/port/ring.rs"]
pub(crate) mod ring;
#[path = "../../src/pipeline/slots.rs"]
pub(crate) mod slots;
