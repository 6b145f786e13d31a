//! The event kernel: components, joined by channels, on virtual time in picoseconds.
//!
//! **Components.** A [`Component`] has state of its own and ports. It is told of a message that came in at a port, or that a timer
//! which it set has run out, and sends messages and sets timers in turn ([`Context`]). Nothing else is shared among components.
//!
//! **Channels.** A channel carries messages from a port of one component to a port of another, and has a latency. Messages of a channel
//! arrive in the order in which they were sent.
//!
//! **Order.** A component handles its events by their time; those of one time by the port that they came in at, timers last; those of one port in
//! the order in which they were sent, timers in the order in which they were set. The order depends on nothing else: not on threads, nor on where a
//! component runs. So a system gives the same results on one thread and on many, to the last bit.
//!
//! **Threads.** A [`Kernel`] spreads its components over partitions, one for each thread. Synchronisation is conservative (Chandy and Misra,
//! IEEE TSE 5(5), 1979): a partition promises to each neighbour that no message with a time before the promise will follow, and handles its
//! own events up to the least promise that it was given. A promise may look ahead by the latency of the channels between two partitions and the least delay of their
//! senders ([`Component::least_delay_ps`]), so channels without either stay inside a partition; and over a channel by as long as its last message is under way. When all partitions wait,
//! the earliest event of all is known, and they go on from there.
//!
//! **The outside.** A port may lead out of the kernel instead ([`Outside`]): to another process, or to a real network. An outside
//! gives promises too; one in real time promises the time of the wall clock.

mod agenda;
mod channel;
mod link;
mod outside;
mod partition;
mod placement;
mod standstill;
mod tournament;

use std::any::Any;
use std::fmt;
use std::thread;

pub use channel::Context;
pub use outside::{Outside, OutsideError};

use agenda::Origin;
use channel::{Channel, Place};
use link::{Link, LinkOut};
use partition::{Exits, Here, Partition, Stop};
use placement::{Edge, place};
use rustix::thread::{CpuSet, sched_setaffinity};
use standstill::Standstill;

/// Picoseconds of a nanosecond, and of longer units.
pub const NANOSECOND_PS: u64 = 1000;
/// Picoseconds of a microsecond.
pub const MICROSECOND_PS: u64 = 1000 * NANOSECOND_PS;
/// Picoseconds of a millisecond.
pub const MILLISECOND_PS: u64 = 1000 * MICROSECOND_PS;
/// Picoseconds of a second.
pub const SECOND_PS: u64 = 1000 * MILLISECOND_PS;

/// A part of a simulated system. `M` is the messages that parts exchange.
pub trait Component<M>: Any + Send {
    /// Called once, at time zero, before anything else happens.
    fn start(&mut self, _context: &mut Context<'_, M>) {}
    /// A message has arrived at a port.
    fn receive(&mut self, port: usize, message: M, context: &mut Context<'_, M>);
    /// A timer has run out: the one that was set with this token.
    fn wake(&mut self, _token: u64, _context: &mut Context<'_, M>) {}
    /// The least delay with which it ever sends from this port ([`Context::send_after`]), in picoseconds: a wire takes at least the time of its shortest frame. Asked
    /// for once, when the kernel is built. The greater it is, the further threads may run apart.
    fn least_delay_ps(&self, _port: usize) -> u64 {
        0
    }
}

/// The number of a component in its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentId(u32);

/// The reason why a system cannot be put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WiringError {
    /// A port has a channel already.
    PortTaken {
        /// The component's name.
        component: String,
        /// Its port.
        port: usize,
    },
}

impl fmt::Display for WiringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortTaken { component, port } => {
                write!(f, "port {port} of `{component}` is joined already")
            }
        }
    }
}

impl std::error::Error for WiringError {}

/// Components and channels before they run.
#[allow(missing_debug_implementations)] // components are anything
pub struct Plan<M> {
    components: Vec<Planned<M>>,
    channels: Vec<Joined>,
    outsides: Vec<(ComponentId, usize, Box<dyn Outside<M>>)>,
}

struct Planned<M> {
    name: String,
    weight: u64,
    component: Box<dyn Component<M>>,
}

/// One direction of a joint.
struct Joined {
    from: ComponentId,
    from_port: usize,
    to: ComponentId,
    to_port: usize,
    latency_ps: u64,
}

impl<M: Send + 'static> Plan<M> {
    /// A plan without components.
    pub fn new() -> Self {
        Self {
            components: Vec::new(),
            channels: Vec::new(),
            outsides: Vec::new(),
        }
    }

    /// Adds a component. The weight is its share of the work, in any unit: partitions are made of about equal weight.
    pub fn add(&mut self, name: &str, weight: u64, component: impl Component<M>) -> ComponentId {
        let id = u32::try_from(self.components.len()).expect("fewer than 2^32 components");
        self.components.push(Planned {
            name: name.to_owned(),
            weight,
            component: Box::new(component),
        });
        ComponentId(id)
    }

    /// Joins two ports, by a channel of this latency in each direction.
    ///
    /// # Errors
    /// [`WiringError::PortTaken`].
    pub fn join(
        &mut self,
        a: (ComponentId, usize),
        b: (ComponentId, usize),
        latency_ps: u64,
    ) -> Result<(), WiringError> {
        for end in [a, b] {
            self.check_free(end)?;
        }
        if a == b {
            return Err(self.taken(b));
        }
        for ((from, from_port), (to, to_port)) in [(a, b), (b, a)] {
            self.channels.push(Joined {
                from,
                from_port,
                to,
                to_port,
                latency_ps,
            });
        }
        Ok(())
    }

    /// Leads a port out of the kernel. The outside adds whatever latency the way has.
    ///
    /// # Errors
    /// [`WiringError::PortTaken`].
    pub fn lead_out(
        &mut self,
        end: (ComponentId, usize),
        outside: impl Outside<M> + 'static,
    ) -> Result<(), WiringError> {
        self.check_free(end)?;
        self.outsides.push((end.0, end.1, Box::new(outside)));
        Ok(())
    }

    fn check_free(&self, end: (ComponentId, usize)) -> Result<(), WiringError> {
        let joined = self.channels.iter().map(|it| (it.from, it.from_port));
        let mut taken = joined.chain(self.outsides.iter().map(|it| (it.0, it.1)));
        match taken.any(|it| it == end) {
            true => Err(self.taken(end)),
            false => Ok(()),
        }
    }

    fn taken(&self, (component, port): (ComponentId, usize)) -> WiringError {
        WiringError::PortTaken {
            component: self.components[component.0 as usize].name.clone(),
            port,
        }
    }

    /// The kernel that runs this plan on at most so many threads; fewer if there are not so many parts that channels with a latency join.
    /// The parts that are led out run on one thread together.
    pub fn build(self, threads: usize) -> Kernel<M> {
        let weights: Vec<u64> = self.components.iter().map(|it| it.weight).collect();
        let mut edges: Vec<Edge> = self.channels.iter().map(|it| self.edge(it)).collect();
        edges.extend(self.outsides.windows(2).map(|pair| Edge {
            ends: [pair[0].0.0 as usize, pair[1].0.0 as usize],
            lookahead_ps: 0,
        }));
        let places = place(&weights, &edges, threads);
        let least_delays_ps: Vec<u64> = self.channels.iter().map(|it| self.least_ps(it)).collect();
        let (names, mut partitions) =
            split(self.components, &self.channels, self.outsides, &places);
        lay(&mut partitions, &self.channels, &least_delays_ps, &places);
        Kernel {
            names,
            places,
            partitions,
            cores: Vec::new(),
            now_ps: 0,
            is_started: false,
        }
    }

    /// The least delay with which the sender of a channel sends.
    fn least_ps(&self, channel: &Joined) -> u64 {
        let from = &self.components[channel.from.0 as usize];
        from.component.least_delay_ps(channel.from_port)
    }

    fn edge(&self, channel: &Joined) -> Edge {
        Edge {
            ends: [channel.from.0 as usize, channel.to.0 as usize],
            lookahead_ps: channel.latency_ps + self.least_ps(channel),
        }
    }
}

impl<M: Send + 'static> Default for Plan<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// The names of the components, and the components in their partitions, with nothing laid between them.
fn split<M: Send + 'static>(
    components: Vec<Planned<M>>,
    channels: &[Joined],
    outsides: Vec<(ComponentId, usize, Box<dyn Outside<M>>)>,
    places: &[usize],
) -> (Vec<String>, Vec<Partition<M>>) {
    let count = places.iter().max().map_or(1, |last| last + 1);
    let total = components.len();
    let mut parts: Vec<Vec<Option<Box<dyn Component<M>>>>> = (0..count)
        .map(|_| (0..total).map(|_| None).collect())
        .collect();
    let mut names = Vec::with_capacity(total);
    for (id, planned) in components.into_iter().enumerate() {
        names.push(planned.name);
        parts[places[id]][id] = Some(planned.component);
    }
    let mut exits: Vec<Exits<M>> = (0..count).map(|_| Vec::new()).collect();
    for (component, port, outside) in outsides {
        let exit = (component.0, port_number(port), outside);
        exits[places[component.0 as usize]].push(exit);
    }
    let parts = parts.into_iter().zip(exits).enumerate();
    let partitions = parts.map(|(number, (components, exits))| {
        let here = channels.iter();
        let here = here.filter(|channel| places[channel.to.0 as usize] == number);
        let ends = here.map(|channel| (channel.to.0, port_number(channel.to_port)));
        Partition::new(components, ends, exits)
    });
    (names, partitions.collect())
}

/// Lays the channels, and a link for each ordered pair of partitions between which one leads.
fn lay<M: Send + 'static>(
    partitions: &mut [Partition<M>],
    channels: &[Joined],
    least_delays_ps: &[u64],
    places: &[usize],
) {
    for from in 0..partitions.len() {
        for to in (0..partitions.len()).filter(|&to| to != from) {
            let between = |channel: &Joined| {
                [channel.from, channel.to].map(|id| places[id.0 as usize]) == [from, to]
            };
            if channels.iter().any(between) {
                let (out, into) = Link::pair(to);
                partitions[from].wiring.links.push(out);
                partitions[to].links_in.push(into);
            }
        }
    }
    for (channel, &least_delay_ps) in channels.iter().zip(least_delays_ps) {
        let [from, to] = [channel.from, channel.to].map(|id| places[id.0 as usize]);
        let origin = Origin::Port(port_number(channel.to_port));
        let lane = partitions[to].wiring.agenda.lane(channel.to.0, origin);
        let place = match from == to {
            true => Place::Here,
            false => {
                let link = partitions[from].link_to(to);
                let lookahead_ps = channel.latency_ps + least_delay_ps;
                let way = partitions[from].wiring.links[link].add_way(lookahead_ps);
                Place::Neighbour(link, way)
            }
        };
        let laid = Channel::new(lane, channel.latency_ps, least_delay_ps, place);
        let wiring = &mut partitions[from].wiring;
        wiring.lay(channel.from.0, channel.from_port, laid);
    }
}

/// The number of a port, in the order of events.
fn port_number(port: usize) -> u32 {
    u32::try_from(port).expect("fewer than 2^32 ports")
}

/// Components on virtual time.
#[allow(missing_debug_implementations)] // components are anything
pub struct Kernel<M> {
    names: Vec<String>,
    /// The partition of each component.
    places: Vec<usize>,
    partitions: Vec<Partition<M>>,
    /// The cores that its threads keep to; any if there are none.
    cores: Vec<usize>,
    now_ps: u64,
    is_started: bool,
}

impl<M: Send + 'static> Kernel<M> {
    /// The virtual time: everything up to it has happened, and nothing behind it.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// The number of threads that it runs on.
    pub fn threads(&self) -> usize {
        self.partitions.len()
    }

    /// The number of events that were handled so far.
    pub fn events(&self) -> u64 {
        self.partitions.iter().map(|it| it.handled).sum()
    }

    /// The name of a component.
    pub fn name(&self, id: ComponentId) -> &str {
        &self.names[id.0 as usize]
    }

    /// A component, if it is a `C`.
    pub fn component<C: Component<M>>(&self, id: ComponentId) -> Option<&C> {
        let partition = &self.partitions[*self.places.get(id.0 as usize)?];
        let component: &dyn Any = partition.component(id.0 as usize)?;
        component.downcast_ref()
    }

    /// A component, if it is a `C`, to be changed between two runs.
    pub fn component_mut<C: Component<M>>(&mut self, id: ComponentId) -> Option<&mut C> {
        let partition = &mut self.partitions[*self.places.get(id.0 as usize)?];
        let component: &mut dyn Any = partition.component_mut(id.0 as usize)?;
        component.downcast_mut()
    }

    /// Lets each thread keep to a core of its own, in this order; those that no core is named for run on any. Worth while where the system's scheduler puts threads that talk to each other
    /// on one core. A core that this process may not use is passed over.
    pub fn keep_to(&mut self, cores: &[usize]) {
        self.cores = cores.to_vec();
    }

    /// Runs all that happens up to this time, and at it.
    ///
    /// # Errors
    /// The error that an outside or a component gave first in virtual time, with the component's name; of one time that of the component which was added first.
    /// It is the same however many threads there are, unless ports lead out of the kernel: then all threads stop as soon as one of them fails. The
    /// system is of no more use.
    pub fn run_until(&mut self, end_ps: u64) -> Result<(), RunError> {
        let is_first = !std::mem::replace(&mut self.is_started, true);
        let stop = Stop::new(self.partitions.iter().any(Partition::has_exits));
        let links = self.partitions.iter().flat_map(|it| &it.wiring.links);
        let lookahead_ps = links.map(LinkOut::lookahead_ps).min().unwrap_or(u64::MAX);
        let standstill = Standstill::new(self.partitions.len(), lookahead_ps);
        let cores = &self.cores;
        let run = |(number, partition): (usize, &mut Partition<M>)| {
            // What cannot be had is no reason not to run.
            if let Some(&core) = cores.get(number).filter(|&&core| core < CpuSet::MAX_CPU) {
                let mut set = CpuSet::new();
                set.set(core);
                let _ = sched_setaffinity(None, &set);
            }
            partition.run(is_first, end_ps, Here::new(number, &stop, &standstill))
        };
        let run = &run;
        let outcomes: Vec<Result<(), Failure>> = thread::scope(|scope| {
            let mut partitions = self.partitions.iter_mut().enumerate();
            // The caller's thread keeps to no core.
            let first = cores.is_empty().then(|| partitions.next()).flatten();
            let handles: Vec<_> = partitions
                .map(|partition| scope.spawn(move || run(partition)))
                .collect();
            let outcome = first.map(run);
            let joined = handles.into_iter().map(|handle| match handle.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            outcome.into_iter().chain(joined).collect()
        });
        let failures = outcomes.into_iter().filter_map(Result::err);
        let first = failures.min_by_key(|failure| (failure.at_ps, failure.component));
        if let Some(failure) = first {
            return Err(RunError {
                component: self.names[failure.component].clone(),
                at_ps: failure.at_ps,
                reason: failure.reason,
            });
        }
        self.now_ps = self.now_ps.max(end_ps);
        Ok(())
    }
}

/// The error that ended a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunError {
    /// The name of the component that failed, or whose outside did.
    pub component: String,
    /// The virtual time at which it failed.
    pub at_ps: u64,
    /// The reason, in words.
    pub reason: String,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            component,
            at_ps,
            reason,
        } = self;
        write!(f, "`{component}` failed at {at_ps} ps: {reason}")
    }
}

impl std::error::Error for RunError {}

/// As [`RunError`], before names are known.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) component: usize,
    pub(crate) at_ps: u64,
    pub(crate) reason: String,
}

#[cfg(test)]
mod tests;
