//! A bounded queue between two threads, one that puts in and one that takes out, without locks.
//!
//! Both sides count what they have moved since the start, and the difference of the counts is what the queue holds. Each side has its count in a
//! cache line of its own, and keeps a copy of the other's that it renews only when the copy says that nothing can be done. So a burst costs one
//! store that the other side sees, and a cache line crosses between cores once for many packets (Lamport's queue with cached indices, as in
//! Giacomoni et al., FastForward, PPoPP 2008, and Torquati, arXiv:1012.1824).
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fmt;
use std::mem::MaybeUninit;

use super::sync::{Arc, AtomicUsize, Cell, Ordering, fence};

/// The side that puts in.
pub(crate) struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// Items that were ever put in.
    put: usize,
    /// Items that were taken out, as far as this side has looked.
    taken: usize,
}

/// The side that takes out.
pub(crate) struct Consumer<T> {
    ring: Arc<Ring<T>>,
    /// Items that were ever taken out.
    taken: usize,
    /// Items that were put in, as far as this side has looked.
    put: usize,
}

struct Ring<T> {
    /// Items that were put in, as the producer has said.
    put: Line,
    /// Items that were taken out, as the consumer has said.
    taken: Line,
    /// A power of two of them. Item `i` lies in the slot of its last bits; those from `taken` to `put` are there.
    slots: Box<[Cell<MaybeUninit<T>>]>,
    capacity: usize,
}

/// Two cache lines: CPUs fetch the neighbour of a line with it.
#[repr(align(128))]
struct Line(AtomicUsize);

// SAFETY: a slot is one side's at a time, which the counts say; items are sent from one thread to another.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Ring<T> {}

/// A queue for up to `capacity` items, at least one.
pub(crate) fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.max(1);
    let slots = (0..capacity.next_power_of_two()).map(|_| Cell::new(MaybeUninit::uninit()));
    let ring = Arc::new(Ring {
        put: Line(AtomicUsize::new(0)),
        taken: Line(AtomicUsize::new(0)),
        slots: slots.collect(),
        capacity,
    });
    let producer = Producer {
        ring: ring.clone(),
        put: 0,
        taken: 0,
    };
    let consumer = Consumer {
        ring,
        taken: 0,
        put: 0,
    };
    (producer, consumer)
}

impl<T> Ring<T> {
    /// The slots of `count` items from item `i` on: those up to the last slot, and those from the first one on.
    fn slots(&self, i: usize, count: usize) -> [&[Cell<MaybeUninit<T>>]; 2] {
        let start = i & (self.slots.len() - 1);
        let (before, behind) = self.slots.split_at(start);
        let first = count.min(behind.len());
        [&behind[..first], &before[..count - first]]
    }
}

impl<T> Producer<T> {
    /// Puts in up to `max` items from the front of `items`; says how many there was room for.
    pub(crate) fn put(&mut self, items: &mut VecDeque<T>, max: usize) -> usize {
        let wanted = items.len().min(max);
        let mut room = self.ring.capacity - self.put.wrapping_sub(self.taken);
        if room < wanted {
            // Acquire: what the consumer read out of the slots comes before what is written there now.
            self.taken = self.ring.taken.0.load(Ordering::Acquire);
            room = self.ring.capacity - self.put.wrapping_sub(self.taken);
        }
        let count = wanted.min(room);
        if count == 0 {
            return 0;
        }
        let mut items = items.drain(..count);
        for slots in self.ring.slots(self.put, count) {
            for (slot, item) in slots.iter().zip(&mut items) {
                // SAFETY: slots of items from `put` to `taken + capacity` are this side's; nothing is in them.
                slot.with_mut(|slot| unsafe { (*slot).write(item) });
            }
        }
        drop(items);
        self.put = self.put.wrapping_add(count);
        // Release: who sees the count sees the items.
        self.ring.put.0.store(self.put, Ordering::Release);
        count
    }

    /// True if the other side is gone, and nothing that is put in is ever taken out.
    pub(crate) fn is_alone(&self) -> bool {
        let is_alone = Arc::strong_count(&self.ring) == 1;
        if is_alone {
            // The count alone orders nothing. Acquire: what the other side did before it went, in a ring the other way too, is seen from here on.
            fence(Ordering::Acquire);
        }
        is_alone
    }
}

impl<T> Consumer<T> {
    /// Takes up to `max` items out and appends them to `items`; says how many there were.
    pub(crate) fn take(&mut self, items: &mut Vec<T>, max: usize) -> usize {
        let mut there = self.put.wrapping_sub(self.taken);
        if there < max {
            // Acquire: the items that are counted are seen.
            self.put = self.ring.put.0.load(Ordering::Acquire);
            there = self.put.wrapping_sub(self.taken);
        }
        let count = there.min(max);
        if count == 0 {
            return 0;
        }
        for slots in self.ring.slots(self.taken, count) {
            // SAFETY: slots of items from `taken` to `put` are this side's, and an item is in each; it is moved out once, since `taken`
            // goes past it.
            let read = |slot: *mut MaybeUninit<T>| unsafe { (*slot).assume_init_read() };
            items.extend(slots.iter().map(|slot| slot.with_mut(read)));
        }
        self.taken = self.taken.wrapping_add(count);
        // Release: the items were read before their slots are written again.
        self.ring.taken.0.store(self.taken, Ordering::Release);
        count
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Both sides are gone, and dropping the last `Arc` has made their stores visible.
        let (taken, put) = (
            self.taken.0.load(Ordering::Relaxed),
            self.put.0.load(Ordering::Relaxed),
        );
        for slots in self.slots(taken, put.wrapping_sub(taken)) {
            for slot in slots {
                // SAFETY: as in `take`; nobody else is left.
                drop(slot.with_mut(|slot| unsafe { (*slot).assume_init_read() }));
            }
        }
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Producer({} put in)", self.put)
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Consumer({} taken out)", self.taken)
    }
}
