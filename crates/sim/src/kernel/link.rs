//! Links between partitions: messages, and promises that none with an earlier time follows.
//!
//! Messages are handed over many at a time, with a promise. A promise is the least of what each channel of the link allows: a channel carries nothing that is due before
//! its last message, and nothing sooner than its latency and the sender's least delay after the sender's next event. So over a channel
//! whose messages queue far ahead (frames that wait for a wire), the other side may run as far ahead.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::agenda::{Agenda, LaneId};

/// A message on its way to another partition.
struct Crossing<M> {
    lane: LaneId,
    due_ps: u64,
    message: M,
}

/// The promise of one partition to another, on cache lines of its own: the other looks at it often.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Promise {
    due_ps: AtomicU64,
    /// The number of times that messages were handed over.
    batches: AtomicU64,
}

#[repr(align(128))]
struct Shared<M> {
    promise: Promise,
    messages: Mutex<Vec<Crossing<M>>>,
    back: Back<M>,
}

/// Spent messages on their way back.
#[repr(align(128))]
struct Back<M>(Mutex<Vec<M>>);

/// Spent messages that a partition keeps for itself before it gives any back.
const KEPT: usize = 256;
/// Spent messages that are given back at a time.
const BACK: usize = 64;

/// Attempts to take the lock before the thread sleeps.
const LOCK_SPINS: u32 = 100;

impl<M> Shared<M> {
    fn messages(&self) -> MutexGuard<'_, Vec<Crossing<M>>> {
        // It is held for a few moves. To sleep for it, and to be woken, costs more than thousands of events.
        for _ in 0..LOCK_SPINS {
            match self.messages.try_lock() {
                Ok(messages) => return messages,
                Err(_) => std::hint::spin_loop(),
            }
        }
        // Nothing panics while it holds the lock.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both ends of a link between partitions.
pub(super) struct Link;

/// The sending end.
pub(super) struct LinkOut<M> {
    to: usize,
    ways: Vec<Way>,
    /// Messages that are not handed over.
    kept: Vec<Crossing<M>>,
    batches: u64,
    promised_ps: u64,
    shared: Arc<Shared<M>>,
}

/// A channel of a link.
#[derive(Debug)]
struct Way {
    lookahead_ps: u64,
    last_ps: u64,
}

/// The receiving end.
pub(super) struct LinkIn<M> {
    promise_ps: u64,
    batches: u64,
    /// Messages that came, and did not go back.
    foreign: usize,
    /// Room for the messages of the next batch.
    empty: Vec<Crossing<M>>,
    shared: Arc<Shared<M>>,
}

impl Link {
    /// A link to a partition.
    pub(super) fn pair<M>(to: usize) -> (LinkOut<M>, LinkIn<M>) {
        let shared = Arc::new(Shared {
            promise: Promise::default(),
            messages: Mutex::default(),
            back: Back(Mutex::default()),
        });
        let out = LinkOut {
            to,
            ways: Vec::new(),
            kept: Vec::new(),
            batches: 0,
            promised_ps: 0,
            shared: Arc::clone(&shared),
        };
        let into = LinkIn {
            promise_ps: 0,
            batches: 0,
            foreign: 0,
            empty: Vec::new(),
            shared,
        };
        (out, into)
    }
}

impl<M> LinkOut<M> {
    /// The partition that it leads to.
    pub(super) fn to(&self) -> usize {
        self.to
    }

    /// The number of times that messages were handed over.
    pub(super) fn batches(&self) -> u64 {
        self.batches
    }

    /// The least time that a message takes, of all channels.
    pub(super) fn lookahead_ps(&self) -> u64 {
        let ways = self.ways.iter().map(|way| way.lookahead_ps);
        ways.min().unwrap_or(u64::MAX)
    }

    /// Adds a channel whose messages arrive at least `lookahead_ps` after the event in which they are sent. The number of the channel in the link.
    pub(super) fn add_way(&mut self, lookahead_ps: u64) -> u32 {
        self.ways.push(Way {
            lookahead_ps,
            last_ps: 0,
        });
        (self.ways.len() - 1) as u32
    }

    /// Sends a message. It is handed over with the next promise.
    #[inline]
    pub(super) fn send(&mut self, way: u32, lane: LaneId, due_ps: u64, message: M) {
        self.ways[way as usize].last_ps = due_ps;
        self.kept.push(Crossing {
            lane,
            due_ps,
            message,
        });
    }

    /// Takes spent messages back, if there are few.
    pub(super) fn take_back(&self, spent: &mut Vec<M>) {
        if spent.len() < BACK
            && let Ok(mut back) = self.shared.back.0.try_lock()
        {
            spent.append(&mut back);
        }
    }

    /// Hands all messages over, and promises that no event before `next_ps` will happen here.
    pub(super) fn promise(&mut self, next_ps: u64) {
        let ways = self.ways.iter();
        let least_ps = ways
            .map(|way| way.last_ps.max(next_ps.saturating_add(way.lookahead_ps)))
            .min()
            .unwrap_or(u64::MAX);
        if !self.kept.is_empty() {
            self.batches += 1;
            let mut messages = self.shared.messages();
            if messages.is_empty() {
                std::mem::swap(&mut *messages, &mut self.kept);
            } else {
                messages.append(&mut self.kept);
            }
            drop(messages);
            let batches = &self.shared.promise.batches;
            batches.store(self.batches, Ordering::Relaxed);
        }
        if least_ps > self.promised_ps {
            self.promised_ps = least_ps;
            // A promise is seen after all messages that were sent before it.
            let promise = &self.shared.promise.due_ps;
            promise.store(least_ps, Ordering::Release);
        }
    }
}

impl<M> LinkIn<M> {
    /// The number of times that messages were taken over.
    pub(super) fn batches(&self) -> u64 {
        self.batches
    }

    /// Gives spent messages back to where as many came from, if there are many.
    pub(super) fn give_back(&mut self, spent: &mut Vec<M>) {
        let count = spent.len().saturating_sub(KEPT).min(self.foreign);
        if count >= BACK
            && let Ok(mut back) = self.shared.back.0.try_lock()
            && back.len() < KEPT
        {
            self.foreign -= count;
            back.extend(spent.drain(spent.len() - count..));
        }
    }

    /// The promise of the other end. All messages that were sent before it was given are then in the agenda.
    pub(super) fn take(&mut self, agenda: &mut Agenda<M>) -> u64 {
        let promise = &self.shared.promise;
        let promise_ps = promise.due_ps.load(Ordering::Acquire);
        if promise_ps != self.promise_ps {
            self.promise_ps = promise_ps;
            let batches = promise.batches.load(Ordering::Relaxed);
            if batches != self.batches {
                self.batches = batches;
                std::mem::swap(&mut *self.shared.messages(), &mut self.empty);
                self.foreign += self.empty.len();
                for crossing in self.empty.drain(..) {
                    agenda.push(crossing.lane, crossing.due_ps, crossing.message);
                }
            }
        }
        promise_ps
    }
}
