//! The part of a kernel that one thread runs.

use std::collections::binary_heap::PeekMut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::channel::{Channel, Context, Place, Wiring};
use super::event::{Event, What};
use super::link::{LinkIn, LinkOut};
use super::outside::{Outside, OutsideError};
use super::{Component, Failure};

/// A way out of the kernel, and the port that it belongs to.
struct Exit<M> {
    component: u32,
    port: u32,
    received: u64,
    last_ps: u64,
    outside: Box<dyn Outside<M>>,
}

/// Components that one thread runs.
pub(super) struct Partition<M> {
    /// By number; those of other partitions are missing.
    components: Vec<Option<Box<dyn Component<M>>>>,
    pub(super) wiring: Wiring<M>,
    pub(super) links_out: Vec<LinkOut<M>>,
    pub(super) links_in: Vec<LinkIn<M>>,
    exits: Vec<Exit<M>>,
    /// The number of events that were handled.
    pub(super) handled: u64,
}

/// Events that are handled between two promises to the neighbours.
const PROMISE_EVENTS: u32 = 8;
/// Looks at a neighbour's promise before the thread lets others run.
const SPINS: u32 = 200;

impl<M: Send + 'static> Partition<M> {
    pub(super) fn new(components: usize) -> Self {
        Self {
            components: (0..components).map(|_| None).collect(),
            wiring: Wiring::new(components),
            links_out: Vec::new(),
            links_in: Vec::new(),
            exits: Vec::new(),
            handled: 0,
        }
    }

    pub(super) fn add(&mut self, id: usize, component: Box<dyn Component<M>>) {
        self.components[id] = Some(component);
    }

    /// The number of the link that leads to a partition.
    pub(super) fn link_to(&self, to: usize) -> usize {
        let found = self.links_out.iter().position(|link| link.to() == to);
        found.expect("each channel between partitions has a link")
    }

    pub(super) fn lead_out(&mut self, component: u32, port: usize, outside: Box<dyn Outside<M>>) {
        let place = Place::Outside(self.exits.len());
        self.wiring
            .lay(component, port, Channel::new(component, port, 0, place));
        self.exits.push(Exit {
            component,
            port: u32::try_from(port).expect("a port that a channel could be laid from"),
            received: 0,
            last_ps: 0,
            outside,
        });
    }

    pub(super) fn component(&self, id: usize) -> Option<&dyn Component<M>> {
        self.components.get(id)?.as_deref()
    }

    pub(super) fn component_mut(&mut self, id: usize) -> Option<&mut dyn Component<M>> {
        self.components.get_mut(id)?.as_deref_mut()
    }

    /// Handles all events up to `end_ps`. If it fails or panics, the others stop too.
    pub(super) fn run(
        &mut self,
        is_first: bool,
        end_ps: u64,
        stopped: &AtomicBool,
    ) -> Result<(), Failure> {
        let stop = StopOthers(stopped);
        if is_first {
            self.start()?;
        }
        self.run_until(end_ps, stopped)?;
        std::mem::forget(stop);
        Ok(())
    }

    fn start(&mut self) -> Result<(), Failure> {
        for id in 0..self.components.len() {
            self.with(id, 0, |component, context| component.start(context))?;
        }
        Ok(())
    }

    fn run_until(&mut self, end_ps: u64, stopped: &AtomicBool) -> Result<(), Failure> {
        let mut looks = 0_u32;
        loop {
            let horizon_ps = self.take_in(end_ps.saturating_add(1))?;
            let handled = self.handled;
            self.handle_before(horizon_ps)?;
            let next_ps = self.next_ps(horizon_ps);
            self.promise(next_ps);
            let is_known = self.reach(next_ps.min(end_ps))?;
            if next_ps > end_ps && is_known {
                return Ok(());
            }
            if self.handled != handled {
                looks = 0;
                continue;
            }
            looks = looks.saturating_add(1);
            if looks < SPINS {
                std::hint::spin_loop();
            } else if stopped.load(Ordering::Relaxed) {
                return Ok(());
            } else {
                self.wait()?;
            }
        }
    }

    /// Takes in what has come; gives the time before which all has come, at most `horizon_ps`.
    fn take_in(&mut self, mut horizon_ps: u64) -> Result<u64, Failure> {
        for link in &self.links_in {
            let (promise_ps, events) = link.take();
            horizon_ps = horizon_ps.min(promise_ps);
            self.wiring.events.extend(events);
        }
        for exit in &mut self.exits {
            loop {
                let received = exit.outside.receive();
                let received = received.map_err(|wrong| exit.failure(exit.last_ps, wrong))?;
                let Some((due_ps, message)) = received else {
                    break;
                };
                exit.last_ps = due_ps;
                let number = exit.received;
                exit.received += 1;
                let event = Event::message(due_ps, exit.component, exit.port, number, message);
                self.wiring.events.push(event);
            }
            horizon_ps = horizon_ps.min(exit.outside.promise_ps());
        }
        Ok(horizon_ps)
    }

    /// Handles the events with a time before this one.
    fn handle_before(&mut self, horizon_ps: u64) -> Result<(), Failure> {
        let mut unpromised = 0;
        loop {
            // The neighbours need not wait until all is done.
            if unpromised == PROMISE_EVENTS && !self.links_out.is_empty() {
                unpromised = 0;
                self.promise(self.next_ps(horizon_ps));
            }
            let Some(next) = self.wiring.events.peek_mut() else {
                return Ok(());
            };
            if next.due_ps >= horizon_ps {
                return Ok(());
            }
            let event = PeekMut::pop(next);
            unpromised += 1;
            self.handled += 1;
            self.handle(event)?;
        }
    }

    #[inline]
    fn handle(&mut self, event: Event<M>) -> Result<(), Failure> {
        let (id, port, now_ps) = (event.component(), event.port(), event.due_ps);
        match event.what {
            What::Message(message) => self.with(id, now_ps, |component, context| {
                component.receive(port, message, context);
            }),
            What::Timer(token) => self.with(id, now_ps, |component, context| {
                component.wake(token, context);
            }),
            What::Leaves(_) => self.leave(event),
        }
    }

    #[inline]
    fn with(
        &mut self,
        id: usize,
        now_ps: u64,
        handle: impl FnOnce(&mut dyn Component<M>, &mut Context<'_, M>),
    ) -> Result<(), Failure> {
        let Some(component) = &mut self.components[id] else {
            return Ok(());
        };
        let mut context = Context {
            now_ps,
            component: id as u32,
            wiring: &mut self.wiring,
            links: &mut self.links_out,
        };
        handle(component.as_mut(), &mut context);
        match self.wiring.failed.take() {
            None => Ok(()),
            Some(reason) => Err(Failure {
                component: id,
                at_ps: now_ps,
                reason,
            }),
        }
    }

    /// Hands a message to its outside, however long that takes. Meanwhile messages are taken in: of kernels that wait for each other to take, none
    /// would ever go on.
    fn leave(&mut self, event: Event<M>) -> Result<(), Failure> {
        let (now_ps, number) = (event.due_ps, event.outside());
        let What::Leaves(mut message) = event.what else {
            return Ok(());
        };
        loop {
            let exit = &mut self.exits[number];
            let sent = exit.outside.send(now_ps, message);
            match sent.map_err(|wrong| exit.failure(now_ps, wrong))? {
                None => return Ok(()),
                Some(back) => message = back,
            }
            self.take_in(now_ps)?;
            let exit = &mut self.exits[number];
            let waited = exit.outside.wait(now_ps);
            waited.map_err(|wrong| exit.failure(now_ps, wrong))?;
        }
    }

    fn next_ps(&self, horizon_ps: u64) -> u64 {
        let next = self.wiring.events.peek();
        next.map_or(horizon_ps, |next| next.due_ps.min(horizon_ps))
    }

    fn promise(&self, next_ps: u64) {
        for link in &self.links_out {
            link.promise(next_ps);
        }
    }

    /// Tells all outsides how far this is; false if one has no room for that.
    fn reach(&mut self, now_ps: u64) -> Result<bool, Failure> {
        let mut is_known = true;
        for exit in &mut self.exits {
            let reached = exit.outside.reach(now_ps);
            is_known &= reached.map_err(|wrong| exit.failure(now_ps, wrong))?;
        }
        Ok(is_known)
    }

    /// Lets others run. Sleeps of 10 µs after 50 looks were tried: tests on more threads than cores took twenty times as long.
    fn wait(&mut self) -> Result<(), Failure> {
        let next_ps = self.next_ps(u64::MAX);
        // One outside may sleep; of several each would delay the others. A neighbour is not to wait for a sleep.
        if let ([exit, ..], []) = (self.exits.as_mut_slice(), self.links_in.as_slice()) {
            let waited = exit.outside.wait(next_ps);
            return waited.map_err(|wrong| exit.failure(next_ps, wrong));
        }
        thread::yield_now();
        Ok(())
    }
}

impl<M> Exit<M> {
    fn failure(&self, at_ps: u64, OutsideError(reason): OutsideError) -> Failure {
        Failure {
            component: self.component as usize,
            at_ps,
            reason,
        }
    }
}

/// Tells the other partitions to stop, unless it is forgotten.
struct StopOthers<'a>(&'a AtomicBool);

impl Drop for StopOthers<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
