//! Channels between ports, and what a component may do while it handles an event.

use std::collections::BinaryHeap;

use super::event::{Event, port_number};
use super::link::LinkOut;

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
                let event = Event::message(due_ps, channel.to, channel.to_port, number, message);
                self.wiring.events.push(event);
            }
            Place::Neighbour(link) => {
                let event = Event::message(due_ps, channel.to, channel.to_port, number, message);
                self.links[link].send(event);
            }
            Place::Outside(outside) => {
                let event = Event::leaving(due_ps, self.component, outside, number, message);
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
        let event = Event::timer(due_ps, self.component, number, token);
        self.wiring.events.push(event);
    }

    /// Ends the run with an error. Events that are due at the same time in other components may still happen.
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.wiring.failed.get_or_insert_with(|| reason.into());
    }
}
