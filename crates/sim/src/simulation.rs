//! Virtual time: one clock and one queue of events for all models that live in it.
//!
//! **What moves the clock.** The simulation alone, and only while a queue that lives in it is driven: a submission passes the model's
//! `doorbell_ns`; a poll of a queue that has nothing due runs the simulation to the next event that somebody sees, which is a job
//! coming home to any of its queues. With a `poll_ns` it goes no further than that; without one, the poll of a queue that has nothing in
//! flight moves nothing. Whoever drives several queues therefore polls them in turns, in any order, and finds each job at the
//! time at which it came home.
//!
//! **Order.** Events are handled by their time, and those of one time in the order in which they were scheduled. Stations serve first
//! come, first served.
//!
//! **Threads.** One thread drives a simulation: while it has a queue open, no other thread can open one, because the host's scheduler
//! would then decide whose jobs come first. Which thread that is does not matter, and when its last queue is closed another may take over.
//!
//! **Results** are computed for real, by the backend inside. Where that takes host time (a pool), virtual time waits: it does not pass the
//! moment at which an engine has finished a job whose result is not computed, whichever queue the job is of. A submission, which never
//! waits, is the exception: its doorbell passes, and such a job is handled afterwards, with the time that is its own. Over a backend that
//! computes within `submit`, the same calls give the same times, always; over others they do unless a doorbell passes such a job.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use dpb_core::{Clock, SetupError, Unsupported, VirtualClock};

/// Virtual time, and what is going to happen in it. A handle: its clones are the same simulation.
#[derive(Clone)]
pub struct Simulation(Arc<Shared>);

struct Shared {
    clock: VirtualClock,
    state: Mutex<State>,
}

/// Serves jobs for a time each, so many at once: the lanes of an engine, one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Station(usize);

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    pub(crate) station: Station,
    pub(crate) byte_ps: u64,
    pub(crate) latency_ns: u64,
}

/// What the jobs of a queue pass: a wire if there is one, the engine, and a wire again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) forth: Option<Wire>,
    pub(crate) engine: Station,
    pub(crate) back: Option<Wire>,
}

/// A queue's place in the simulation, until it is dropped.
pub(crate) struct Seat {
    simulation: Simulation,
    number: usize,
}

/// The simulation while one queue is submitted to or polled.
pub(crate) struct Turn<'a> {
    clock: &'a VirtualClock,
    state: MutexGuard<'a, State>,
    seat: usize,
}

impl Simulation {
    /// A simulation in which nothing lives yet, at time zero.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            clock: VirtualClock::new(false),
            state: Mutex::default(),
        }))
    }

    /// The virtual time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.0.clock.now_ns()
    }

    /// True if both are the same simulation.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A new station that serves `servers` jobs at a time.
    pub(crate) fn add_station(&self, servers: usize) -> Station {
        let mut state = self.lock();
        state.stations.push(vec![Reverse(0); servers].into());
        Station(state.stations.len() - 1)
    }

    /// A seat for a queue of at most `depth` jobs that take this route. Allocates all that they will need.
    ///
    /// # Errors
    /// If another thread has a seat.
    pub(crate) fn sit_down(&self, route: Route, depth: usize) -> Result<Seat, SetupError> {
        let mut state = self.lock();
        let driver = thread::current().id();
        let mut taken = state.seats.iter().flatten();
        if taken.any(|seated| seated.driver != driver) {
            return Err(SetupError::Unsupported(Unsupported {
                reason: "one thread drives a simulation, and another has queues open in it: the host's scheduler would decide \
                         whose jobs come first; open all queues of models on one thread, or give each thread a simulation"
                    .to_owned(),
            }));
        }
        let seated = Seated {
            driver,
            route,
            flights: vec![Flight::default(); depth].into(),
            home: VecDeque::with_capacity(depth),
        };
        let free = state.seats.iter().position(Option::is_none);
        let number = free.unwrap_or(state.seats.len());
        match free {
            Some(number) => state.seats[number] = Some(seated),
            None => state.seats.push(Some(seated)),
        }
        // A job has one event to come at most.
        let jobs: usize = state
            .seats
            .iter()
            .flatten()
            .map(|it| it.flights.len())
            .sum();
        let events = state.events.len();
        state.events.reserve(jobs - events);
        Ok(Seat {
            simulation: self.clone(),
            number,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Simulation {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Simulation({} ns)", self.now_ns())
    }
}

impl Seat {
    /// The simulation, to submit or to poll. Everything else waits.
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn {
            clock: &self.simulation.0.clock,
            state: self.simulation.lock(),
            seat: self.number,
        }
    }
}

impl Drop for Seat {
    /// Jobs that are under way vanish. The engine is busy until the end of those that it has taken in.
    fn drop(&mut self) {
        let mut state = self.simulation.lock();
        let number = self.number;
        state.events.retain(|Reverse(event)| event.seat != number);
        state.seats[number] = None;
    }
}

impl Turn<'_> {
    /// The virtual time, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Host time passes.
    pub(crate) fn pass(&mut self, ns: u64) {
        let until_ns = self.now_ns().saturating_add(ns);
        self.handle_until(until_ns);
        self.clock.advance_to(until_ns);
    }

    /// A job starts on its way now, at `place` in the queue: its inputs have so many bytes, and the engine needs `cost_ns` for it.
    pub(crate) fn start(&mut self, place: usize, input_bytes: u64, cost_ns: u64) {
        let now_ns = self.now_ns();
        let seat = self.seat;
        let seated = self.state.seated(seat);
        seated.flights[place] = Flight {
            cost_ns,
            output_bytes: None,
        };
        match seated.route.forth {
            Some(wire) => {
                let there_ns = self.state.cross(wire, now_ns, input_bytes);
                self.state.schedule(there_ns, Stage::AtEngine, seat, place);
            }
            None => self.state.reach_engine(now_ns, seat, place),
        }
    }

    /// The result of the job at `place` is computed: its outputs have so many bytes.
    pub(crate) fn computed(&mut self, place: usize, output_bytes: u64) {
        let seat = self.seat;
        self.state.seated(seat).flights[place].output_bytes = Some(output_bytes);
    }

    /// Lets the simulation run to the next job that comes home, unless one of this queue's is there; with a `poll_ns` for no longer
    /// than that.
    pub(crate) fn run(&mut self, has_jobs: bool, poll_ns: u64) {
        let now_ns = self.now_ns();
        let seat = self.seat;
        if !self.handle_until(now_ns) || !self.state.seated(seat).home.is_empty() {
            return;
        }
        let until_ns = match poll_ns {
            0 if has_jobs => None,
            0 => return,
            poll_ns => Some(now_ns.saturating_add(poll_ns)),
        };
        let homes = self.state.homes;
        while self.state.homes == homes {
            match self.state.events.peek() {
                Some(Reverse(next)) if until_ns.is_none_or(|until_ns| next.due_ns <= until_ns) => {
                    let due_ns = next.due_ns;
                    if !self.handle_until(due_ns) {
                        return;
                    }
                }
                _ => {
                    self.clock.advance_to(until_ns.unwrap_or(now_ns));
                    return;
                }
            }
        }
    }

    /// The place of the job of this queue that came home first, and has not been asked for.
    pub(crate) fn next_home(&mut self) -> Option<usize> {
        let seat = self.seat;
        self.state.seated(seat).home.pop_front()
    }

    /// True if time waits for a result that is not computed.
    pub(crate) fn is_held(&self) -> bool {
        let next = self.state.events.peek();
        next.is_some_and(|Reverse(next)| self.state.is_held(next))
    }

    /// Handles what happens until then, time moving along; `false` if something waits for a result that is not computed.
    fn handle_until(&mut self, until_ns: u64) -> bool {
        while let Some(Reverse(next)) = self.state.events.peek() {
            if next.due_ns > until_ns {
                break;
            }
            if self.state.is_held(next) {
                return false;
            }
            let event = *next;
            self.state.events.pop();
            self.clock.advance_to(event.due_ns);
            self.state.handle(event);
        }
        true
    }
}

/// Everything but the clock.
#[derive(Default)]
struct State {
    /// The earliest on top.
    events: BinaryHeap<Reverse<Event>>,
    /// The number of events that were ever scheduled.
    scheduled: u64,
    /// When each server of each station is free, in nanoseconds; the earliest on top.
    stations: Vec<BinaryHeap<Reverse<u64>>>,
    seats: Vec<Option<Seated>>,
    /// The number of jobs that ever came home.
    homes: u64,
}

/// A queue that lives in the simulation.
struct Seated {
    driver: ThreadId,
    route: Route,
    /// By the jobs' places in the queue.
    flights: Box<[Flight]>,
    /// Places of jobs that came home and were not yet asked for, in the order in which they came.
    home: VecDeque<usize>,
}

/// A job on its way.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    cost_ns: u64,
    /// Once its result is computed.
    output_bytes: Option<u64>,
}

/// Something that happens to a job. Ordered by time, then by when it was scheduled, which differs for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    due_ns: u64,
    number: u64,
    stage: Stage,
    seat: usize,
    place: usize,
}

/// The place of a job on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Over the wire, at the engine.
    AtEngine,
    /// Carried out.
    Served,
    /// Over the wire again, in the host's memory.
    Home,
}

impl State {
    fn seated(&mut self, seat: usize) -> &mut Seated {
        self.seats[seat].as_mut().expect("a seat that is taken")
    }

    fn is_held(&self, event: &Event) -> bool {
        let seated = self.seats[event.seat].as_ref();
        let seated = seated.expect("events of a seat go with it");
        event.stage == Stage::Served && seated.flights[event.place].output_bytes.is_none()
    }

    fn schedule(&mut self, due_ns: u64, stage: Stage, seat: usize, place: usize) {
        self.events.push(Reverse(Event {
            due_ns,
            number: self.scheduled,
            stage,
            seat,
            place,
        }));
        self.scheduled += 1;
    }

    fn handle(&mut self, event: Event) {
        let Event {
            due_ns: now_ns,
            stage,
            seat,
            place,
            ..
        } = event;
        match stage {
            Stage::AtEngine => self.reach_engine(now_ns, seat, place),
            Stage::Served => {
                let seated = self.seated(seat);
                let output_bytes = seated.flights[place].output_bytes.unwrap_or(0);
                match seated.route.back {
                    Some(wire) => {
                        let home_ns = self.cross(wire, now_ns, output_bytes);
                        self.schedule(home_ns, Stage::Home, seat, place);
                    }
                    None => self.come_home(seat, place),
                }
            }
            Stage::Home => self.come_home(seat, place),
        }
    }

    fn reach_engine(&mut self, now_ns: u64, seat: usize, place: usize) {
        let seated = self.seated(seat);
        let (engine, cost_ns) = (seated.route.engine, seated.flights[place].cost_ns);
        let due_ns = self.serve(engine, now_ns, cost_ns);
        self.schedule(due_ns, Stage::Served, seat, place);
    }

    fn come_home(&mut self, seat: usize, place: usize) {
        self.homes += 1;
        self.seated(seat).home.push_back(place);
    }

    /// Gives a job that comes at `now_ns` to the server that is free first; says when it is done.
    fn serve(&mut self, station: Station, now_ns: u64, cost_ns: u64) -> u64 {
        let mut server = self.stations[station.0]
            .peek_mut()
            .expect("at least one server");
        let done_ns = server.0.max(now_ns).saturating_add(cost_ns);
        server.0 = done_ns;
        done_ns
    }

    /// Sends `bytes` that are ready at `now_ns`; says when the last of them is at the other end.
    fn cross(&mut self, wire: Wire, now_ns: u64, bytes: u64) -> u64 {
        let cost_ns = bytes.saturating_mul(wire.byte_ps).div_ceil(1000);
        let sent_ns = self.serve(wire.station, now_ns, cost_ns);
        sent_ns.saturating_add(wire.latency_ns)
    }
}
