//! Mistakes that tests plant, which the checker of histories must find.

use std::cell::Cell;

use super::leaf::LEAF;

/// A way to do it wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// None, and no pause.
    None,
    /// None, with pauses.
    Pauses,
    /// Readers of leaves do not ask whether the version holds.
    NoLeafVersion,
    /// Readers of inner nodes do not.
    NoInnerVersion,
    /// Readers take the newest version of each entry.
    SeesTheNewest,
    /// Transactions are made public write by write.
    CommitsEarly,
    /// The writer forgets what is still read.
    ForgetsEarly,
}

thread_local! {
    static PAUSES: Cell<u32> = const { Cell::new(0) };
    static RETRIES: Cell<u32> = const { Cell::new(0) };
}

impl Fault {
    /// True if the version of such a node is not asked for.
    pub(super) fn skips<T, const W: usize>(self, _node: &[T; W]) -> bool {
        match self {
            Self::NoLeafVersion => W == LEAF,
            Self::NoInnerVersion => W != LEAF,
            _ => false,
        }
    }

    /// Ends a reader that waits for what the writer forgot: the version that it looks for never comes.
    pub(super) fn retry(self) {
        const MAX: u32 = 100_000;
        RETRIES.set(RETRIES.get() + 1);
        assert!(
            self != Self::ForgetsEarly || RETRIES.get() < MAX,
            "a version is gone"
        );
    }

    /// Lets another thread in now and then.
    pub(super) fn pause(self) {
        if self == Self::None {
            return;
        }
        let pauses = PAUSES.get().wrapping_add(1);
        PAUSES.set(pauses);
        if pauses.is_multiple_of(7) {
            std::thread::yield_now();
        }
    }
}
