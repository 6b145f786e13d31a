//! Numbers that come back from any thread to the one that takes them, without locks.
//!
//! What comes back goes onto a stack, by a compare and exchange. The one that takes takes the whole stack at once and then has a list of its own, so no number can
//! come back onto the stack while it looks at it.

use super::sync::{AtomicU32, Ordering};

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

/// The way back, for all threads.
pub(crate) struct Returns {
    /// The number below each one that is free.
    below: Box<[AtomicU32]>,
    /// The stack of numbers that have come back.
    top: AtomicU32,
}

/// The list of free numbers that is the taker's own.
#[derive(Debug)]
pub(crate) struct Own(u32);

impl Returns {
    /// For the numbers below `count`, at least one and below [`NONE`]; and the list that has all of them.
    pub(crate) fn new(count: u32) -> (Self, Own) {
        let below = (1..count).chain([NONE]).map(AtomicU32::new);
        let returns = Self {
            below: below.collect(),
            top: AtomicU32::new(NONE),
        };
        (returns, Own(0))
    }

    /// The numbers that there are.
    pub(crate) fn len(&self) -> usize {
        self.below.len()
    }

    /// Has a number come back. The caller had it, and has it no more.
    #[inline]
    pub(crate) fn put(&self, number: u32) {
        let below = &self.below[number as usize];
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            below.store(top, Ordering::Relaxed);
            // Release: whoever takes the number sees what was done by who had it, and the number below it.
            match self
                .top
                .compare_exchange_weak(top, number, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// A number, if one is free.
    #[inline]
    pub(crate) fn take(&self, own: &mut Own) -> Option<u32> {
        if own.0 == NONE {
            // Acquire: see `put`.
            own.0 = self.top.swap(NONE, Ordering::Acquire);
        }
        let number = (own.0 != NONE).then_some(own.0)?;
        own.0 = self.below[number as usize].load(Ordering::Relaxed);
        Some(number)
    }

    /// Puts a number onto the taker's own list.
    #[inline]
    pub(crate) fn give(&self, own: &mut Own, number: u32) {
        self.below[number as usize].store(own.0, Ordering::Relaxed);
        own.0 = number;
    }
}
