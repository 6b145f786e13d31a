//! The events that are to come, in their order.
//!
//! Messages of a channel arrive in the order in which they were sent, so a queue for each channel keeps them; timers of a component have a queue too. The lanes
//! lie in the order of events of one time: by component, then port, timers last. So the next event is the head of the lane that is first in time, and of several the one with the
//! least number, which a [`Tournament`] finds. A heap of all events was twice as slow: it moves the events themselves.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::tournament::{NEVER_PS, Tournament};

/// The place that events of a component come from, in the order of events of one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The channel that ends at this port, or the outside that it leads to.
    Port(u32),
    /// The component itself, which sends a message out of the kernel by this outside.
    Exit(u32),
    /// The component's timers.
    Timers,
}

/// Something that happens to a component.
#[derive(Debug)]
pub(super) struct Event<M> {
    pub(super) due_ps: u64,
    pub(super) component: u32,
    pub(super) what: What<M>,
}

/// The kinds of events.
#[derive(Debug)]
pub(super) enum What<M> {
    /// A message arrives at a port.
    Arrives(u32, M),
    /// A message leaves the kernel by an outside.
    Leaves(u32, M),
    /// A timer with this token runs out.
    Timer(u64),
}

/// A lane's number in its agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId(u32);

/// The events that are to come.
pub(super) struct Agenda<M> {
    lanes: Vec<Lane<M>>,
    order: Tournament,
}

struct Lane<M> {
    component: u32,
    origin: Origin,
    events: Queue<M>,
}

enum Queue<M> {
    /// Messages with the times at which they are due.
    Messages(VecDeque<(u64, M)>),
    Timers(Timers),
}

impl<M> Agenda<M> {
    /// An agenda of the events that come from these places, each given once.
    pub(super) fn new(mut origins: Vec<(u32, Origin)>) -> Self {
        origins.sort_unstable();
        let lanes = origins.into_iter().map(|(component, origin)| Lane {
            component,
            origin,
            events: match origin {
                Origin::Timers => Queue::Timers(Timers::default()),
                Origin::Port(_) | Origin::Exit(_) => Queue::Messages(VecDeque::new()),
            },
        });
        let lanes = Vec::from_iter(lanes);
        Self {
            order: Tournament::new(lanes.len()),
            lanes,
        }
    }

    /// The lane of the events that come from there.
    ///
    /// # Panics
    /// If the agenda has none.
    pub(super) fn lane(&self, component: u32, origin: Origin) -> LaneId {
        let key = (component, origin);
        let found = self
            .lanes
            .binary_search_by_key(&key, |lane| (lane.component, lane.origin));
        LaneId(found.expect("the lane was laid") as u32)
    }

    /// Adds a message. It is due at a lane's last time or later.
    #[inline]
    pub(super) fn push(&mut self, LaneId(number): LaneId, due_ps: u64, message: M) {
        let number = number as usize;
        let Queue::Messages(messages) = &mut self.lanes[number].events else {
            unreachable!("a lane of messages");
        };
        if messages.is_empty() {
            self.order.set(number, due_ps);
        }
        messages.push_back((due_ps, message));
    }

    /// Sets a timer.
    #[inline]
    pub(super) fn set_timer(&mut self, LaneId(number): LaneId, due_ps: u64, token: u64) {
        let number = number as usize;
        let Queue::Timers(timers) = &mut self.lanes[number].events else {
            unreachable!("a lane of timers");
        };
        if timers.set(due_ps, token) {
            self.order.set(number, due_ps);
        }
    }

    /// The time of the next event; [`NEVER_PS`] if there is none.
    #[inline]
    pub(super) fn next_ps(&self) -> u64 {
        self.order.first().0
    }

    /// Takes the next event out, if its time is before this one.
    #[inline]
    pub(super) fn pop_before(&mut self, end_ps: u64) -> Option<Event<M>> {
        let (due_ps, number) = self.order.first();
        if due_ps >= end_ps {
            return None;
        }
        let lane = &mut self.lanes[number];
        let (what, next_ps) = match &mut lane.events {
            Queue::Messages(messages) => {
                let (_, message) = messages.pop_front()?;
                let next_ps = messages.front().map_or(NEVER_PS, |next| next.0);
                let what = match lane.origin {
                    Origin::Exit(exit) => What::Leaves(exit, message),
                    Origin::Port(port) => What::Arrives(port, message),
                    Origin::Timers => unreachable!("a lane of messages"),
                };
                (what, next_ps)
            }
            Queue::Timers(timers) => {
                let token = timers.pop()?;
                (What::Timer(token), timers.next_ps())
            }
        };
        let component = lane.component;
        self.order.set(number, next_ps);
        Some(Event {
            due_ps,
            component,
            what,
        })
    }
}

/// The timers of a component, by their time, and those of one time in the order in which they were set.
///
/// Most are set in the order of their times: they stand in a queue. A heap has those that were set for a time before the queue's last.
#[derive(Debug, Default)]
struct Timers {
    queue: VecDeque<Timer>,
    heap: BinaryHeap<Reverse<Timer>>,
    /// The number of timers that were ever set.
    count: u64,
}

/// A timer that was set. The number differs for all of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    due_ps: u64,
    number: u64,
    token: u64,
}

impl Timers {
    /// Sets a timer. True if it is now the first.
    #[inline]
    fn set(&mut self, due_ps: u64, token: u64) -> bool {
        let is_first = due_ps < self.next_ps();
        let timer = Timer {
            due_ps,
            number: self.count,
            token,
        };
        self.count += 1;
        match self.queue.back() {
            Some(last) if last.due_ps > due_ps => self.heap.push(Reverse(timer)),
            _ => self.queue.push_back(timer),
        }
        is_first
    }

    #[inline]
    fn next_ps(&self) -> u64 {
        let queued_ps = self.queue.front().map_or(NEVER_PS, |it| it.due_ps);
        match self.heap.peek() {
            Some(Reverse(timer)) => queued_ps.min(timer.due_ps),
            None => queued_ps,
        }
    }

    /// Takes the first out; its token.
    #[inline]
    fn pop(&mut self) -> Option<u64> {
        let is_in_heap = match (self.queue.front(), self.heap.peek()) {
            (Some(queued), Some(Reverse(timer))) => timer < queued,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if is_in_heap {
            return self.heap.pop().map(|Reverse(timer)| timer.token);
        }
        self.queue.pop_front().map(|timer| timer.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An event of the model: time, lane's place in the order, count.
    type Listed = (u64, (u32, Origin), u64);

    fn origins() -> Vec<(u32, Origin)> {
        vec![
            (2, Origin::Timers),
            (0, Origin::Port(7)),
            (0, Origin::Timers),
            (2, Origin::Port(0)),
            (2, Origin::Exit(1)),
            (2, Origin::Exit(0)),
            (0, Origin::Port(3)),
        ]
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// An event of this lane, so long after now.
        Add(usize, u64),
        /// Everything before so long after now.
        Take(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..origins().len(), 0u64..6).prop_map(|(lane, after)| Step::Add(lane, after)),
            1 => (0u64..5).prop_map(Step::Take),
        ]
    }

    proptest! {
        /// Beside a list that is sorted for each event: by time, component, origin, and the order in which events were added.
        #[test]
        fn events_come_in_the_order_of_a_sorted_list(steps in prop::collection::vec(step(), 0..200)) {
            let origins = origins();
            let mut agenda = Agenda::new(origins.clone());
            let mut list: Vec<Listed> = Vec::new();
            let mut last_ps = vec![0; origins.len()];
            let mut now_ps = 0;
            for (count, step) in steps.into_iter().enumerate() {
                let count = count as u64;
                match step {
                    Step::Add(number, after_ps) => {
                        let (component, origin) = origins[number];
                        let lane = agenda.lane(component, origin);
                        let mut due_ps = now_ps + after_ps;
                        if origin == Origin::Timers {
                            agenda.set_timer(lane, due_ps, count);
                        } else {
                            // A channel keeps order.
                            due_ps = due_ps.max(last_ps[number]);
                            last_ps[number] = due_ps;
                            agenda.push(lane, due_ps, count);
                        }
                        list.push((due_ps, (component, origin), count));
                    }
                    Step::Take(after_ps) => {
                        let end_ps = now_ps + after_ps;
                        list.sort_unstable();
                        let later = list.split_off(list.partition_point(|it| it.0 < end_ps));
                        for &(due_ps, (component, origin), count) in &list {
                            prop_assert_eq!(agenda.next_ps(), due_ps);
                            let event = agenda.pop_before(end_ps).expect("one more");
                            prop_assert_eq!((event.due_ps, event.component), (due_ps, component));
                            let (from, number) = match event.what {
                                What::Arrives(port, number) => (Origin::Port(port), number),
                                What::Leaves(exit, number) => (Origin::Exit(exit), number),
                                What::Timer(number) => (Origin::Timers, number),
                            };
                            prop_assert_eq!((from, number), (origin, count));
                        }
                        prop_assert!(agenda.pop_before(end_ps).is_none());
                        list = later;
                        now_ps = end_ps;
                    }
                }
            }
            prop_assert_eq!(agenda.next_ps(), list.iter().map(|it| it.0).min().unwrap_or(NEVER_PS));
        }
    }
}
