//! Events and their order.

use std::cmp::Ordering;

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
/// The origin of messages that leave the kernel, behind all ports and before timers.
const LEAVES: u32 = u32::MAX - 1;

/// The number of a port, in the order of events.
pub(super) fn port_number(port: usize) -> u32 {
    let number = u32::try_from(port).ok().filter(|&it| it < LEAVES);
    number.expect("fewer than 2^32 - 2 ports")
}

impl<M> Event<M> {
    /// A message that arrives at a port, the `number`-th of its channel.
    pub(super) fn message(due_ps: u64, to: u32, port: u32, number: u64, message: M) -> Self {
        Self::new(due_ps, to, port, number, What::Message(message))
    }

    /// A timer that runs out, the `number`-th of its component.
    pub(super) fn timer(due_ps: u64, component: u32, number: u64, token: u64) -> Self {
        Self::new(due_ps, component, TIMER, number, What::Timer(token))
    }

    /// A message that leaves the kernel by an outside, the `number`-th that does.
    pub(super) fn leaving(
        due_ps: u64,
        component: u32,
        outside: usize,
        number: u64,
        message: M,
    ) -> Self {
        let number = (outside as u64) << OUTSIDE_SHIFT | number;
        Self::new(due_ps, component, LEAVES, number, What::Leaves(message))
    }

    fn new(due_ps: u64, component: u32, origin: u32, number: u64, what: What<M>) -> Self {
        Self {
            due_ps,
            order: u64::from(component) << 32 | u64::from(origin),
            number,
            what,
        }
    }

    pub(super) fn component(&self) -> usize {
        (self.order >> 32) as usize
    }

    /// The port at which a message arrives.
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
