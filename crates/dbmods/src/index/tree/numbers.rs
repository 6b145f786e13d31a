//! Which nodes of an arena are free. The writer has it.

use super::arena::Arena;
use crate::index::IndexError;

/// Numbers of free nodes: those given back, the last one first as it is most likely in a cache, then those never taken. Zero is no number.
#[derive(Debug)]
pub(super) struct Numbers {
    given: Vec<u32>,
    /// The first that was never taken.
    next: u32,
    /// Nodes below this have memory.
    ready: u32,
}

impl Numbers {
    pub(super) fn new() -> Self {
        Self {
            given: Vec::new(),
            next: 1,
            ready: 1,
        }
    }

    /// Makes sure that [`Numbers::take`] has so many.
    pub(super) fn reserve<const W: usize>(
        &mut self,
        arena: &Arena<W>,
        count: usize,
    ) -> Result<(), IndexError> {
        let missing = count.saturating_sub(self.given.len());
        let end = u32::try_from(missing)
            .ok()
            .and_then(|missing| self.next.checked_add(missing));
        let end = end.ok_or_else(|| arena.full())?;
        while self.ready < end {
            arena.ensure(self.ready)?;
            self.ready += 1;
        }
        Ok(())
    }

    /// A number that was reserved.
    pub(super) fn take(&mut self) -> u32 {
        if let Some(number) = self.given.pop() {
            return number;
        }
        debug_assert!(
            self.next < self.ready,
            "numbers are reserved before they are taken"
        );
        self.next += 1;
        self.next - 1
    }

    /// Gives a number back that no reader can reach.
    pub(super) fn give(&mut self, number: u32) {
        self.given.push(number);
    }

    /// Nodes that are taken and not given back.
    pub(super) fn in_use(&self) -> usize {
        self.next as usize - 1 - self.given.len()
    }

    /// All numbers that were ever taken.
    pub(super) fn all(&self) -> std::ops::Range<u32> {
        1..self.next
    }

    /// Nodes that were ever taken. All of them have memory.
    pub(super) fn ever(&self) -> u64 {
        u64::from(self.next - 1)
    }
}
