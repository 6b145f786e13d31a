//! The most that an agent gives to its clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most that an agent gives to its clients. What goes beyond is refused with the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Jobs that one queue may have in flight.
    pub depth_max: u32,
    /// Bytes of the items of one job.
    pub input_bytes_max: usize,
    /// Bytes of the slots of one job.
    pub output_bytes_max: usize,
    /// Items of one job.
    pub items_max: usize,
    /// Bytes of a spec: the keys and tables of an operator.
    pub spec_bytes_max: usize,
    /// Operators that all clients together have prepared.
    pub operators_max: usize,
    /// Queues that all clients together have open. Each may take [`Quotas::queue_bytes`].
    pub queues_max: usize,
    /// Backends that the agent opens; they stay open.
    pub backends_max: usize,
}

/// All queues together then take 3.2 GiB at most, if each is full of the largest jobs.
impl Default for Quotas {
    fn default() -> Self {
        Self {
            depth_max: 256,
            input_bytes_max: 8 << 20,
            output_bytes_max: 16 << 20,
            items_max: 1 << 14,
            spec_bytes_max: 64 << 20,
            operators_max: 64,
            queues_max: 32,
            backends_max: 32,
        }
    }
}

/// Bytes that an item is counted as, besides its own: its places in the lists of items, slots and outcomes.
pub(super) const ITEM_BYTES: usize = 64;

impl Quotas {
    /// Bytes that the jobs of one queue may take in flight, each counted as its items, its slots and its lists: the largest job and as much again.
    pub fn window_bytes(&self) -> usize {
        let largest = cost(self.input_bytes_max, self.output_bytes_max, self.items_max);
        largest.saturating_mul(2)
    }

    /// Memory that one queue may take: twice the bytes in flight, because buffers come in powers of two.
    pub fn queue_bytes(&self) -> usize {
        self.window_bytes().saturating_mul(2)
    }
}

/// Bytes that a job counts as.
pub(super) fn cost(input_bytes: usize, slot_bytes: usize, items: usize) -> usize {
    let lists = items.saturating_mul(ITEM_BYTES);
    input_bytes.saturating_add(slot_bytes).saturating_add(lists)
}

/// One of a counted number of places, which is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Seat(Arc<AtomicUsize>);

impl Seat {
    /// A place, if fewer than `max` are taken.
    pub(super) fn take(taken: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        let order = Ordering::Relaxed;
        let seated = taken.fetch_update(order, order, more);
        seated.ok().map(|_| Self(Arc::clone(taken)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_given_back() {
        let taken = Arc::default();
        let first = Seat::take(&taken, 2).expect("free");
        let second = Seat::take(&taken, 2).expect("free");
        assert!(Seat::take(&taken, 2).is_none());
        drop(first);
        assert!(Seat::take(&taken, 2).is_some());
        drop(second);
        assert_eq!(taken.load(Ordering::Relaxed), 0);
    }
}
