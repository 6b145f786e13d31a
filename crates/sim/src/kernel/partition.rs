//! The part of a kernel that one thread runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::agenda::{Agenda, Event, LaneId, Origin, What};
use super::channel::{Channel, Context, Local, Place, Wiring};
use super::link::{LinkIn, LinkOut};
use super::outside::{Outside, OutsideError};
use super::standstill::{Standstill, Waiting};
use super::{Component, Failure};

/// A way out of the kernel, and the port that it belongs to.
struct Exit<M> {
    component: u32,
    /// The lane of the messages that come in by it.
    arrivals: LaneId,
    last_ps: u64,
    /// The number of messages that came for `last_ps`.
    at_once: u64,
    /// The number of messages that ever came.
    taken: u64,
    outside: Box<dyn Outside<M>>,
}

/// The ways out of a partition: component, port, outside.
pub(super) type Exits<M> = Vec<(u32, u32, Box<dyn Outside<M>>)>;

/// Components that one thread runs.
pub(super) struct Partition<M> {
    /// By number; those of other partitions are missing.
    components: Vec<Option<Box<dyn Component<M>>>>,
    pub(super) wiring: Wiring<M>,
    pub(super) links_in: Vec<LinkIn<M>>,
    exits: Vec<Exit<M>>,
    /// The number of events that were handled.
    pub(super) handled: u64,
}

/// Events that are handled between two promises to the neighbours, unless there is nothing more to handle. A promise takes as long as some ten events, as
/// its cache lines come from another core. With 4, and with 16, two threads were several times as slow as one.
const PROMISE_EVENTS: u32 = 128;
/// Messages that are taken of an outside before events are handled again: as many as a ring of SimBricks has slots. A peer that sends as fast as it is read
/// would keep virtual time from going on otherwise.
const TAKEN_MAX: u32 = 8192;
/// Messages of an outside that are kept while virtual time cannot go on: more for one time, or from a peer that takes nothing, and the peer sends without end.
const KEPT_MAX: u64 = 1 << 16;
/// Looks at a neighbour's promise before the thread lets others run.
const SPINS: u32 = 200;

impl<M: Send + 'static> Partition<M> {
    /// A partition of these components, with channels to these components' ports from anywhere, and with these ways out.
    pub(super) fn new(
        components: Vec<Option<Box<dyn Component<M>>>>,
        ends: impl IntoIterator<Item = (u32, u32)>,
        exits: Exits<M>,
    ) -> Self {
        let timers = components.iter().enumerate();
        let timers = timers.filter(|(_, component)| component.is_some());
        let mut origins: Vec<(u32, Origin)> =
            timers.map(|(id, _)| (id as u32, Origin::Timers)).collect();
        let ends = ends.into_iter();
        origins.extend(ends.map(|(component, port)| (component, Origin::Port(port))));
        for (number, &(component, port, _)) in exits.iter().enumerate() {
            origins.push((component, Origin::Port(port)));
            origins.push((component, Origin::Exit(number as u32)));
        }
        let agenda = Agenda::new(origins);
        let timers = components.iter().enumerate().map(|(id, component)| {
            let is_here = component.is_some();
            is_here.then(|| agenda.lane(id as u32, Origin::Timers))
        });
        let timers = timers.collect();
        let mut partition = Self {
            wiring: Wiring::new(agenda, timers),
            components,
            links_in: Vec::new(),
            exits: Vec::new(),
            handled: 0,
        };
        for (component, port, outside) in exits {
            partition.lead_out(component, port, outside);
        }
        partition
    }

    fn lead_out(&mut self, component: u32, port: u32, outside: Box<dyn Outside<M>>) {
        let agenda = &self.wiring.agenda;
        let departures = agenda.lane(component, Origin::Exit(self.exits.len() as u32));
        let arrivals = agenda.lane(component, Origin::Port(port));
        let channel = Channel::new(departures, 0, 0, Place::Here);
        self.wiring.lay(component, port as usize, channel);
        self.exits.push(Exit {
            component,
            arrivals,
            last_ps: 0,
            at_once: 0,
            taken: 0,
            outside,
        });
    }

    /// True if ports of its components lead out of the kernel.
    pub(super) fn has_exits(&self) -> bool {
        !self.exits.is_empty()
    }

    /// The number of the link that leads to a partition.
    pub(super) fn link_to(&self, to: usize) -> usize {
        let found = self.wiring.links.iter().position(|link| link.to() == to);
        found.expect("each channel between partitions has a link")
    }

    pub(super) fn component(&self, id: usize) -> Option<&dyn Component<M>> {
        self.components.get(id)?.as_deref()
    }

    pub(super) fn component_mut(&mut self, id: usize) -> Option<&mut dyn Component<M>> {
        self.components.get_mut(id)?.as_deref_mut()
    }

    /// Handles all events up to `end_ps`. If it fails, the others handle theirs up to that time, as one of them may fail before; if it panics, they stop.
    pub(super) fn run(
        &mut self,
        is_first: bool,
        end_ps: u64,
        mut here: Here<'_>,
    ) -> Result<(), Failure> {
        let stop = StopOthers(here.stop);
        here.locals = self.components.iter().map(|_| None).collect();
        let started = match is_first {
            true => self.start(&mut here),
            false => Ok(()),
        };
        let outcome = started.and_then(|()| self.run_until(end_ps, &mut here));
        if let Err(failure) = &outcome {
            // Everything before it has happened here.
            self.promise(failure.at_ps);
            here.stop.at(failure.at_ps);
        }
        std::mem::forget(stop);
        outcome
    }

    fn start(&mut self, here: &mut Here<'_>) -> Result<(), Failure> {
        for id in 0..self.components.len() {
            self.with(id, 0, here, |component, context| component.start(context))?;
        }
        Ok(())
    }

    fn run_until(&mut self, end_ps: u64, here: &mut Here<'_>) -> Result<(), Failure> {
        let mut looks = 0_u32;
        loop {
            let Some(last_ps) = here.stop.last_ps() else {
                return Ok(());
            };
            let end_ps = end_ps.min(last_ps);
            let promised_ps = self.take_in(end_ps.saturating_add(1))?;
            let floor_ps = here.standstill.floor_ps().min(end_ps.saturating_add(1));
            let horizon_ps = promised_ps.max(floor_ps);
            if here.is_waiting && self.wiring.agenda.next_ps() < horizon_ps {
                here.is_waiting = false;
                here.standstill.go_on(here.number);
            }
            let handled = self.handled;
            self.handle_before(horizon_ps, here)?;
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
            match looks < SPINS {
                true => std::hint::spin_loop(),
                false => self.wait(here)?,
            }
        }
    }

    /// Takes in what has come; gives the time before which all has come, at most `horizon_ps`.
    fn take_in(&mut self, mut horizon_ps: u64) -> Result<u64, Failure> {
        for link in &mut self.links_in {
            horizon_ps = horizon_ps.min(link.take(&mut self.wiring.agenda));
        }
        for exit in &mut self.exits {
            let promise_ps = exit.take_in(&mut self.wiring.agenda)?;
            horizon_ps = horizon_ps.min(promise_ps);
        }
        Ok(horizon_ps)
    }

    /// Handles the events with a time before this one.
    fn handle_before(&mut self, horizon_ps: u64, here: &mut Here<'_>) -> Result<(), Failure> {
        let mut unpromised = 0;
        while let Some(event) = self.wiring.agenda.pop_before(horizon_ps) {
            self.handled += 1;
            self.handle(event, here)?;
            unpromised += 1;
            // The neighbours need not wait until all is done.
            if unpromised == PROMISE_EVENTS && !self.wiring.links.is_empty() {
                unpromised = 0;
                self.promise(self.next_ps(horizon_ps));
            }
        }
        Ok(())
    }

    #[inline]
    fn handle(&mut self, event: Event<M>, here: &mut Here<'_>) -> Result<(), Failure> {
        let (id, now_ps) = (event.component as usize, event.due_ps);
        match event.what {
            What::Arrives(port, message) => self.with(id, now_ps, here, |component, context| {
                component.receive(port as usize, message, context);
            }),
            What::Timer(token) => self.with(id, now_ps, here, |component, context| {
                component.wake(token, context);
            }),
            What::Leaves(exit, message) => self.leave(exit as usize, now_ps, message, here),
        }
    }

    #[inline]
    fn with(
        &mut self,
        id: usize,
        now_ps: u64,
        here: &mut Here<'_>,
        handle: impl FnOnce(&mut dyn Component<M>, &mut Context<'_, M>),
    ) -> Result<(), Failure> {
        let Some(component) = &mut self.components[id] else {
            return Ok(());
        };
        let mut context = Context {
            now_ps,
            component: id as u32,
            wiring: &mut self.wiring,
            local: &mut here.locals[id],
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

    /// Hands a message to its outside, however long that takes, unless another partition stops: then the run has failed, and the message is lost. Meanwhile
    /// messages are taken in: of kernels that wait for each other to take, none would ever go on.
    fn leave(
        &mut self,
        number: usize,
        now_ps: u64,
        mut message: M,
        here: &Here<'_>,
    ) -> Result<(), Failure> {
        let taken = self.exits[number].taken;
        while !here.stop.is_called() {
            let exit = &mut self.exits[number];
            let sent = exit.outside.send(now_ps, message);
            match sent.map_err(|wrong| exit.failure(now_ps, wrong))? {
                None => return Ok(()),
                Some(back) => message = back,
            }
            self.promise(now_ps);
            self.take_in(now_ps)?;
            let exit = &mut self.exits[number];
            let more = exit.taken - taken;
            if more > KEPT_MAX {
                let wrong = format!("the peer has sent {more} messages and taken none");
                return Err(exit.failure(now_ps, OutsideError(wrong)));
            }
            let waited = exit.outside.wait(now_ps);
            waited.map_err(|wrong| exit.failure(now_ps, wrong))?;
        }
        Ok(())
    }

    fn next_ps(&self, horizon_ps: u64) -> u64 {
        self.wiring.agenda.next_ps().min(horizon_ps)
    }

    fn promise(&mut self, next_ps: u64) {
        let Wiring { links, spent, .. } = &mut self.wiring;
        for link in links {
            link.promise(next_ps);
            link.take_back(spent);
        }
        for link in &mut self.links_in {
            link.give_back(spent);
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
    fn wait(&mut self, here: &mut Here<'_>) -> Result<(), Failure> {
        let next_ps = self.next_ps(u64::MAX);
        // One outside may sleep; of several each would delay the others. A neighbour is not to wait for a sleep.
        if let ([exit, ..], []) = (self.exits.as_mut_slice(), self.links_in.as_slice()) {
            let waited = exit.outside.wait(next_ps);
            return waited.map_err(|wrong| exit.failure(next_ps, wrong));
        }
        // What comes from outside is not counted as under way.
        if self.exits.is_empty() {
            here.is_waiting = true;
            let state = Waiting {
                next_ps,
                sent: self.wiring.links.iter().map(LinkOut::batches).sum(),
                taken: self.links_in.iter().map(LinkIn::batches).sum(),
            };
            here.standstill.wait(here.number, state);
        }
        thread::yield_now();
        Ok(())
    }
}

impl<M> Exit<M> {
    /// Takes in what has come, up to a bound; gives the time before which all has come.
    fn take_in(&mut self, agenda: &mut Agenda<M>) -> Result<u64, Failure> {
        for _ in 0..TAKEN_MAX {
            let received = self.outside.receive();
            let received = received.map_err(|wrong| self.failure(self.last_ps, wrong))?;
            let Some((due_ps, message)) = received else {
                return Ok(self.outside.promise_ps());
            };
            if due_ps < self.last_ps {
                let wrong = format!("a message for {due_ps} ps came after a later one");
                return Err(self.failure(self.last_ps, OutsideError(wrong)));
            }
            self.at_once = match due_ps == self.last_ps {
                true => self.at_once + 1,
                false => 1,
            };
            if self.at_once > KEPT_MAX {
                let wrong = format!("the peer has sent more than {KEPT_MAX} messages for one time");
                return Err(self.failure(due_ps, OutsideError(wrong)));
            }
            self.last_ps = due_ps;
            self.taken += 1;
            agenda.push(self.arrivals, due_ps, message);
        }
        // More may have come, but none for an earlier time.
        Ok(self.last_ps)
    }

    fn failure(&self, at_ps: u64, OutsideError(reason): OutsideError) -> Failure {
        Failure {
            component: self.component as usize,
            at_ps,
            reason,
        }
    }
}

/// The time up to which partitions go on when one has failed.
pub(super) struct Stop {
    /// Nothing at this time or later is of interest; zero if all stop at once.
    before_ps: AtomicU64,
    /// True if nobody goes on after a failure.
    is_at_once: bool,
}

impl Stop {
    /// A run that has not failed. If the kernel has outsides, nobody goes on after a failure: an outside need not promise as much.
    pub(super) fn new(has_outsides: bool) -> Self {
        Self {
            before_ps: AtomicU64::new(u64::MAX),
            is_at_once: has_outsides,
        }
    }

    /// The last time that is of interest; `None` if all stop at once.
    fn last_ps(&self) -> Option<u64> {
        self.before_ps.load(Ordering::Relaxed).checked_sub(1)
    }

    /// True if a partition has failed.
    fn is_called(&self) -> bool {
        self.before_ps.load(Ordering::Relaxed) < u64::MAX
    }

    /// A partition has failed at this time.
    fn at(&self, at_ps: u64) {
        let before_ps = match self.is_at_once {
            true => 0,
            false => at_ps.saturating_add(1),
        };
        self.before_ps.fetch_min(before_ps, Ordering::Relaxed);
    }
}

/// A partition's run, on the thread that carries it out.
pub(super) struct Here<'a> {
    /// The number of the partition.
    number: usize,
    stop: &'a Stop,
    standstill: &'a Standstill,
    /// True if the others may know that this partition waits.
    is_waiting: bool,
    /// By component.
    locals: Vec<Local>,
}

impl<'a> Here<'a> {
    pub(super) fn new(number: usize, stop: &'a Stop, standstill: &'a Standstill) -> Self {
        Self {
            number,
            stop,
            standstill,
            is_waiting: false,
            locals: Vec::new(),
        }
    }
}

/// Tells the other partitions to stop at once, unless it is forgotten.
struct StopOthers<'a>(&'a Stop);

impl Drop for StopOthers<'_> {
    fn drop(&mut self) {
        self.0.before_ps.store(0, Ordering::Relaxed);
    }
}
