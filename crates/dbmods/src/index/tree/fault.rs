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
    /// The writer forgets versions that are still read.
    ForgetsEarly,
    /// The writer uses nodes and long values again that are still read.
    GivesNodesEarly,
    /// The writer takes entries without a value away that have one in a state that is still read.
    PurgesEarly,
    /// Readers do not ask whether the root still is the root.
    KeepsRoot,
    /// Batches do not ask whether a node was its parent's child when its version was read.
    KeepsChild,
    /// A writer panics while it has locked a node.
    Panics,
}

thread_local! {
    static WAYS: Cell<u64> = const { Cell::new(0) };
    static PAUSES: Cell<u32> = const { Cell::new(0) };
    static RETRIES: Cell<u32> = const { Cell::new(0) };
}

/// Counts a way down from the root that one key takes alone.
pub(super) fn goes_down() {
    WAYS.set(WAYS.get() + 1);
}

/// The ways of this thread so far.
pub(crate) fn ways() -> u64 {
    WAYS.get()
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

    /// True if what readers are promised holds.
    pub(super) fn is_right(self) -> bool {
        matches!(self, Self::None | Self::Pauses | Self::Panics)
    }

    /// Ends a reader that waits for what the writer threw away: it never comes.
    pub(super) fn retry(self) {
        const MAX: u32 = 100_000;
        RETRIES.set(RETRIES.get() + 1);
        assert!(self.is_right() || RETRIES.get() < MAX, "it waits for ever");
    }

    /// Between a reader's look at the root and its look at the root's version: roots change seldom, so this one waits longer.
    pub(super) fn pause_at_root(self) {
        const WAIT: std::time::Duration = std::time::Duration::from_micros(200);
        let pauses = PAUSES.get().wrapping_add(1);
        PAUSES.set(pauses);
        if self == Self::KeepsRoot && pauses.is_multiple_of(4) {
            std::thread::sleep(WAIT);
        }
    }

    /// Lets another thread in now and then.
    pub(super) fn pause(self) {
        if matches!(self, Self::None | Self::Panics) {
            return;
        }
        let pauses = PAUSES.get().wrapping_add(1);
        PAUSES.set(pauses);
        if pauses.is_multiple_of(31) {
            std::thread::yield_now();
        }
    }
}
