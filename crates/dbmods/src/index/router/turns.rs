//! Turns: of the writes of one key to a mirrored range, one is on its way at a time.
//!
//! Keys share turns by their hash, so a write may wait for one of another key. A lane that does not get a turn holds its write back and goes on, and nobody waits
//! with a turn in hand: so there is no deadlock.

use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

/// Turns: several for each write that can be on its way.
const TURNS: usize = 1 << 14;

/// The turns of all keys.
pub(super) struct Turns {
    taken: Box<[AtomicBool]>,
}

/// A turn that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn(u32);

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            taken: (0..TURNS).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Takes the turn of a key, unless it is taken.
    pub(super) fn take(&self, key: &[u8]) -> Option<Turn> {
        let mut hasher = DefaultHasher::new();
        hasher.write(key);
        let turn = hasher.finish() as usize % TURNS;
        let was_free = !self.taken[turn].swap(true, Ordering::Acquire);
        was_free.then_some(Turn(turn as u32))
    }

    /// Gives turns back.
    pub(super) fn give_back(&self, turns: &mut Vec<Turn>) {
        for Turn(turn) in turns.drain(..) {
            self.taken[turn as usize].store(false, Ordering::Release);
        }
    }
}
