//! The bounded queue between the threads that scan and the one that sends.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// A queue of at most so many items: full, it blocks who fills it; closed, it tells them to stop.
#[derive(Debug)]
pub(super) struct Outbox<T> {
    state: Mutex<State<T>>,
    room: Condvar,
    ready: Condvar,
    items_max: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    /// Nobody takes any more.
    closed: bool,
    /// Nobody puts any more.
    finished: bool,
}

/// The answer of [`Outbox::take`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<T> {
    Item(T),
    /// Nothing yet.
    Nothing,
    /// Nothing, and nothing will come.
    Finished,
}

impl<T> Outbox<T> {
    pub(super) fn new(items_max: usize) -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::with_capacity(items_max),
                closed: false,
                finished: false,
            }),
            room: Condvar::new(),
            ready: Condvar::new(),
            items_max,
        }
    }

    /// Puts an item, once there is room.
    pub(super) fn put(&self, item: T) -> ControlFlow<()> {
        let mut state = self.lock();
        while state.items.len() >= self.items_max && !state.closed {
            state = self.room.wait(state).expect("no holder panics");
        }
        if state.closed {
            return ControlFlow::Break(());
        }
        state.items.push_back(item);
        drop(state);
        self.ready.notify_one();
        ControlFlow::Continue(())
    }

    /// Takes the oldest item, waiting for one at most so long.
    pub(super) fn take(&self, patience: Duration) -> Taken<T> {
        let mut state = self.lock();
        if state.items.is_empty() && !state.finished {
            state = self
                .ready
                .wait_timeout(state, patience)
                .expect("no holder panics")
                .0;
        }
        match state.items.pop_front() {
            Some(item) => {
                drop(state);
                self.room.notify_one();
                Taken::Item(item)
            }
            None if state.finished => Taken::Finished,
            None => Taken::Nothing,
        }
    }

    /// No more will be taken: whoever puts is told to stop, and what is queued is dropped.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.items.clear();
        drop(state);
        self.room.notify_all();
    }

    /// No more will be put.
    pub(super) fn finish(&self) {
        self.lock().finished = true;
        self.ready.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(5);

    #[test]
    fn items_come_out_in_order_and_then_the_end() {
        let outbox = Outbox::new(2);
        assert_eq!(outbox.take(SOON), Taken::Nothing);
        assert!(outbox.put(1).is_continue());
        assert!(outbox.put(2).is_continue());
        outbox.finish();
        assert_eq!(outbox.take(SOON), Taken::Item(1));
        assert_eq!(outbox.take(SOON), Taken::Item(2));
        assert_eq!(outbox.take(SOON), Taken::Finished);
    }

    #[test]
    fn a_full_outbox_blocks_until_taken_from_or_closed() {
        let outbox = Outbox::new(1);
        std::thread::scope(|scope| {
            let putter = scope.spawn(|| (0..).take_while(|&i| outbox.put(i).is_continue()).count());
            for expected in 0..100 {
                loop {
                    match outbox.take(SOON) {
                        Taken::Item(item) => break assert_eq!(item, expected),
                        Taken::Nothing => {}
                        Taken::Finished => panic!("nobody finished it"),
                    }
                }
            }
            outbox.close();
            let put = putter.join().unwrap();
            assert!((100..=101).contains(&put), "{put}");
        });
    }
}
