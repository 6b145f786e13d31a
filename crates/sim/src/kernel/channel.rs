//! Channels between ports, and what a component may do while it handles an event.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::partition::LinkOut;

/// A way from a port to another.
#[derive(Debug)]
pub(super) struct Channel {
    to: u32,
    to_port: u32,
    latency_ps: u64,
    /// The number of messages that it carried so far.
    sent: u64,
    /// The time at which the last of them arrives.
    last_ps: u64,
    place: Place,
}

/// Where a channel leads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// To a component of the same partition.
    Here,
    /// To one of another, over this link.
    Neighbour(usize),
    /// Out of the kernel, by this outside.
    Outside(usize),
}

impl Channel {
    pub(super) fn new(to: u32, to_port: usize, latency_ps: u64, place: Place) -> Self {
        Self {
            to,
            to_port: port_number(to_port),
            latency_ps,
            sent: 0,
            last_ps: 0,
            place,
        }
    }
}

/// Something that happens to a component.
#[derive(Debug)]
pub(super) struct Event<M> {
    pub(super) due_ps: u64,
    /// The component in the upper half, where the event came from in the lower.
    order: u64,
    /// Counts the events of one origin.
    number: u64,
    pub(super) what: What<M>,
}

/// The kinds of events.
#[derive(Debug)]
pub(super) enum What<M> {
    Message(M),
    Timer(u64),
    /// A message that leaves the kernel.
    Leaves(M),
}

/// The origin of timers, behind all ports.
const TIMER: u32 = u32::MAX;
/// The origin of messages that leave: behind timers, as a component of its own would be.
const LEAVES: u32 = u32::MAX - 1;

fn port_number(port: usize) -> u32 {
    let number = u32::try_from(port).ok().filter(|&it| it < LEAVES);
    number.expect("fewer than 2^32 - 2 ports")
}

impl<M> Event<M> {
    fn new(due_ps: u64, component: u32, origin: u32, number: u64, what: What<M>) -> Self {
        Self {
            due_ps,
            order: u64::from(component) << 32 | u64::from(origin),
            number,
            what,
        }
    }

    /// A message that came from outside.
    pub(super) fn from_outside(
        due_ps: u64,
        component: u32,
        port: u32,
        number: u64,
        message: M,
    ) -> Self {
        Self::new(due_ps, component, port, number, What::Message(message))
    }

    pub(super) fn component(&self) -> usize {
        (self.order >> 32) as usize
    }

    /// The port at which a message arrives, or the outside by which it leaves.
    pub(super) fn port(&self) -> usize {
        (self.order & u64::from(u32::MAX)) as usize
    }

    /// The outside by which a message leaves.
    pub(super) fn outside(&self) -> usize {
        (self.number >> OUTSIDE_SHIFT) as usize
    }

    fn key(&self) -> (u64, u64, u64) {
        (self.due_ps, self.order, self.number)
    }
}

/// The number of a message that leaves has the outside above these bits.
const OUTSIDE_SHIFT: u32 = 48;

impl<M> PartialEq for Event<M> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<M> Eq for Event<M> {}

impl<M> PartialOrd for Event<M> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The earliest is the greatest, so that it lies on top of a heap.
impl<M> Ord for Event<M> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// What the components of a partition are joined by, and what will happen to them.
pub(super) struct Wiring<M> {
    pub(super) events: BinaryHeap<Event<M>>,
    /// By component, then by port.
    channels: Vec<Vec<Option<Channel>>>,
    /// The number of timers that each component has set.
    timers: Vec<u64>,
    /// The first reason that a component gave for ending the run.
    pub(super) failed: Option<String>,
}

impl<M> Wiring<M> {
    pub(super) fn new(components: usize) -> Self {
        Self {
            events: BinaryHeap::with_capacity(1024),
            channels: (0..components).map(|_| Vec::new()).collect(),
            timers: vec![0; components],
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
    pub(super) links: &'a mut [LinkOut<M>],
}

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
    /// If it would arrive before a message that was sent earlier: a channel keeps order.
    #[inline]
    pub fn send_after(&mut self, port: usize, delay_ps: u64, message: M) {
        let ports = &mut self.wiring.channels[self.component as usize];
        let Some(Some(channel)) = ports.get_mut(port) else {
            return;
        };
        let due_ps = self.now_ps + delay_ps + channel.latency_ps;
        assert!(
            due_ps >= channel.last_ps,
            "a message on port {port} would arrive at {due_ps} ps, before one that arrives at {} ps",
            channel.last_ps
        );
        channel.last_ps = due_ps;
        let number = channel.sent;
        channel.sent += 1;
        match channel.place {
            Place::Here => {
                let what = What::Message(message);
                let event = Event::new(due_ps, channel.to, channel.to_port, number, what);
                self.wiring.events.push(event);
            }
            Place::Neighbour(link) => {
                let what = What::Message(message);
                let event = Event::new(due_ps, channel.to, channel.to_port, number, what);
                self.links[link].send(event);
            }
            Place::Outside(outside) => {
                let number = (outside as u64) << OUTSIDE_SHIFT | number;
                let what = What::Leaves(message);
                let event = Event::new(due_ps, self.component, LEAVES, number, what);
                self.wiring.events.push(event);
            }
        }
    }

    /// Sets a timer. The component is told at this time, or now if that has passed, with this token. A timer cannot be taken back: a
    /// component that no longer wants it ignores it.
    #[inline]
    pub fn wake_at(&mut self, at_ps: u64, token: u64) {
        let timers = &mut self.wiring.timers[self.component as usize];
        let number = *timers;
        *timers += 1;
        let due_ps = at_ps.max(self.now_ps);
        let event = Event::new(due_ps, self.component, TIMER, number, What::Timer(token));
        self.wiring.events.push(event);
    }

    /// Ends the run with an error. Events that are due at the same time in other components may still happen.
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.wiring.failed.get_or_insert_with(|| reason.into());
    }
}
