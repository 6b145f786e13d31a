//! Channels between ports, and what a component may do while it handles an event.

use std::any::Any;

use super::agenda::{Agenda, LaneId};
use super::link::LinkOut;

/// A way from a port to another.
#[derive(Debug)]
pub(super) struct Channel {
    /// The lane of its messages, in the agenda of the place that it leads to.
    lane: LaneId,
    latency_ps: u64,
    /// The least delay that the sender has promised.
    least_delay_ps: u64,
    /// The time at which the last message arrives.
    last_ps: u64,
    place: Place,
}

/// Where a channel leads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// To a component of the same partition, or out of the kernel.
    Here,
    /// To one of another, over a link: its number, and the channel's number in it.
    Neighbour(usize, u32),
}

impl Channel {
    pub(super) fn new(lane: LaneId, latency_ps: u64, least_delay_ps: u64, place: Place) -> Self {
        Self {
            lane,
            latency_ps,
            least_delay_ps,
            last_ps: 0,
            place,
        }
    }
}

/// What the components of a partition are joined by, and what will happen to them.
pub(super) struct Wiring<M> {
    pub(super) agenda: Agenda<M>,
    pub(super) links: Vec<LinkOut<M>>,
    /// Messages that nobody needs any more.
    pub(super) spent: Vec<M>,
    /// By component, then by port.
    channels: Vec<Vec<Option<Channel>>>,
    /// The lanes of the timers, by component; those of other partitions are missing.
    timers: Vec<Option<LaneId>>,
    /// The first reason that a component gave for ending the run.
    pub(super) failed: Option<String>,
}

impl<M> Wiring<M> {
    pub(super) fn new(agenda: Agenda<M>, timers: Vec<Option<LaneId>>) -> Self {
        Self {
            agenda,
            links: Vec::new(),
            spent: Vec::new(),
            channels: timers.iter().map(|_| Vec::new()).collect(),
            timers,
            failed: None,
        }
    }

    /// Lays a channel from a port.
    pub(super) fn lay(&mut self, component: u32, port: usize, channel: Channel) {
        let ports = &mut self.channels[component as usize];
        if ports.len() <= port {
            ports.resize_with(port + 1, || None);
        }
        ports[port] = Some(channel);
    }
}

/// The kernel, as a component sees it while it handles an event.
#[allow(missing_debug_implementations)] // borrowed for a moment, full of events
pub struct Context<'a, M> {
    pub(super) now_ps: u64,
    pub(super) component: u32,
    pub(super) wiring: &'a mut Wiring<M>,
    pub(super) local: &'a mut Local,
}

/// Spent messages that a partition keeps at most.
const SPENT_MAX: usize = 4096;

/// The state that a component keeps on the thread that runs it.
pub(super) type Local = Option<Box<dyn Any>>;

impl<M> Context<'_, M> {
    /// The virtual time, in picoseconds.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// True if a channel leads from this port.
    pub fn is_joined(&self, port: usize) -> bool {
        let ports = &self.wiring.channels[self.component as usize];
        ports.get(port).is_some_and(Option::is_some)
    }

    /// Sends a message from a port now. It arrives after the channel's latency. From a port without a channel it is lost.
    #[inline]
    pub fn send(&mut self, port: usize, message: M) {
        self.send_after(port, 0, message);
    }

    /// Sends a message from a port in `delay_ps` from now.
    ///
    /// # Panics
    /// If it would arrive before a message that was sent earlier, as a channel keeps order; or sooner than the component has promised
    /// ([`Component::least_delay_ps`](super::Component::least_delay_ps)).
    #[inline]
    pub fn send_after(&mut self, port: usize, delay_ps: u64, message: M) {
        let Wiring {
            agenda,
            links,
            channels,
            ..
        } = &mut *self.wiring;
        let Some(Some(channel)) = channels[self.component as usize].get_mut(port) else {
            return;
        };
        let due_ps = self.now_ps + delay_ps + channel.latency_ps;
        assert!(
            delay_ps >= channel.least_delay_ps,
            "a message on port {port} has a delay of {delay_ps} ps, and the least was to be {} ps",
            channel.least_delay_ps
        );
        assert!(
            due_ps >= channel.last_ps,
            "a message on port {port} would arrive at {due_ps} ps, before one that arrives at {} ps",
            channel.last_ps
        );
        channel.last_ps = due_ps;
        match channel.place {
            Place::Here => agenda.push(channel.lane, due_ps, message),
            Place::Neighbour(link, way) => links[link].send(way, channel.lane, due_ps, message),
        }
    }

    /// Sets a timer. The component is told at this time, or now if that has passed, with this token. A timer cannot be taken back: a
    /// component that no longer wants it ignores it.
    #[inline]
    pub fn wake_at(&mut self, at_ps: u64, token: u64) {
        let due_ps = at_ps.max(self.now_ps);
        if let Some(lane) = self.wiring.timers[self.component as usize] {
            self.wiring.agenda.set_timer(lane, due_ps, token);
        }
    }

    /// Gives a message to the kernel that is no longer needed, for whoever makes the next one ([`Context::reuse`]).
    #[inline]
    pub fn spend(&mut self, message: M) {
        if self.wiring.spent.len() < SPENT_MAX {
            self.wiring.spent.push(message);
        }
    }

    /// A message that somebody has spent, with whatever it says, to be written over. Memory that goes from thread to thread so comes back, and no thread frees what
    /// another has allocated: for that they would wait for each other. Which message it is depends on threads, so nothing may depend on it.
    #[inline]
    pub fn reuse(&mut self) -> Option<M> {
        self.wiring.spent.pop()
    }

    /// A value of the component's that stays on this thread: an open queue of an operator, or another thing that cannot move. It is made when it is first asked for, and lives
    /// until the run ends ([`Kernel::run_until`](super::Kernel::run_until)); the next run, which another thread may carry out, begins with a new one. A component has one value, of one type.
    pub fn local<T: Default + 'static>(&mut self) -> &mut T {
        let is_there = self.local.as_ref().is_some_and(|it| it.is::<T>());
        if !is_there {
            *self.local = Some(Box::new(T::default()));
        }
        let local = self.local.as_mut().and_then(|it| it.downcast_mut());
        local.expect("it was just put there")
    }

    /// Ends the run with an error. Events that are due at the same time in other components may still happen.
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.wiring.failed.get_or_insert_with(|| reason.into());
    }
}
