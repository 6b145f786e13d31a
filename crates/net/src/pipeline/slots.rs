//! Numbers that any thread takes and gives back, without locks: a stack whose head counts its changes.

use super::sync::{AtomicU32, AtomicU64, Ordering};

/// The numbers that are free.
pub(crate) struct Slots {
    /// For each free number the next one, plus one; zero behind the last.
    next: Box<[AtomicU32]>,
    /// The first free number plus one, and above it a count of changes, so that a number which went and came back is noticed.
    head: AtomicU64,
}

impl Slots {
    /// The numbers below `count`, which is below `u32::MAX`; all are free.
    pub(crate) fn new(count: u32) -> Self {
        let next = (0..count).map(|i| AtomicU32::new((i + 2) % (count + 1)));
        Self {
            next: next.collect(),
            head: AtomicU64::new(u64::from(count > 0)),
        }
    }

    /// The numbers that there are.
    pub(crate) fn len(&self) -> usize {
        self.next.len()
    }

    /// The numbers that are free. Others may take them meanwhile.
    pub(crate) fn free(&self) -> usize {
        let (mut count, mut number) = (0, self.head.load(Ordering::Acquire) as u32);
        while number != 0 && count < self.next.len() {
            count += 1;
            number = self.next[number as usize - 1].load(Ordering::Acquire);
        }
        count
    }

    /// A number, if one is free.
    #[inline]
    pub(crate) fn take(&self) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let number = (head as u32).checked_sub(1)?;
            let next = self.next[number as usize].load(Ordering::Relaxed);
            match self.swap(head, next) {
                Ok(_) => return Some(number),
                Err(now) => head = now,
            }
        }
    }

    /// Gives a number back. The caller took it, and has it no more.
    #[inline]
    pub(crate) fn give(&self, number: u32) {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            self.next[number as usize].store(head as u32, Ordering::Relaxed);
            match self.swap(head, number + 1) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// What was done by who gave a number back is seen by who takes it: each change releases and acquires.
    fn swap(&self, head: u64, first: u32) -> Result<u64, u64> {
        let changes = (head >> 32).wrapping_add(1) << 32;
        let new = changes | u64::from(first);
        (self.head).compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire)
    }
}
