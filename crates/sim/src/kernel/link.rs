//! Links between partitions: events, and promises that none with an earlier time follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryIter, channel};

use super::event::Event;

/// The promise of one partition to another, on a cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Promise(AtomicU64);

/// Both ends of a link between partitions.
pub(super) struct Link;

/// The sending end.
pub(super) struct LinkOut<M> {
    to: usize,
    events: Sender<Event<M>>,
    promise: Arc<Promise>,
    lookahead_ps: u64,
}

/// The receiving end.
pub(super) struct LinkIn<M> {
    events: Receiver<Event<M>>,
    promise: Arc<Promise>,
}

impl Link {
    /// A link to a partition, over which a message takes at least `lookahead_ps`.
    pub(super) fn pair<M>(lookahead_ps: u64, to: usize) -> (LinkOut<M>, LinkIn<M>) {
        let (sender, receiver) = channel();
        let promise = Arc::new(Promise::default());
        let out = LinkOut {
            to,
            events: sender,
            promise: promise.clone(),
            lookahead_ps,
        };
        let into = LinkIn {
            events: receiver,
            promise,
        };
        (out, into)
    }
}

impl<M> LinkOut<M> {
    /// The partition that it leads to.
    pub(super) fn to(&self) -> usize {
        self.to
    }

    /// Sends an event. The other end lives as long as the kernel, so that no event is lost.
    pub(super) fn send(&self, event: Event<M>) {
        let _ = self.events.send(event);
    }

    /// Promises that nothing follows that happens here before `next_ps`.
    pub(super) fn promise(&self, next_ps: u64) {
        let promise_ps = next_ps.saturating_add(self.lookahead_ps);
        // A promise is seen after all events that were sent before it.
        self.promise.0.store(promise_ps, Ordering::Release);
    }
}
impl<M> LinkIn<M> {
    /// The promise of the other end, and the events that have come: all that were sent before the promise was given.
    pub(super) fn take(&self) -> (u64, TryIter<'_, Event<M>>) {
        // The promise first: whatever was sent before it is then there.
        let promise_ps = self.promise.0.load(Ordering::Acquire);
        (promise_ps, self.events.try_iter())
    }
}
