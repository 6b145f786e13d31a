//! An engine on virtual time: real results, modelled durations.
//!
//! The engine lives in a [`Simulation`], which has the clock. It has lanes that serve jobs first come, first served: a job that
//! comes at `now` is done at `max(now, first free lane) + cost`. All queues of one backend share its lanes, as they would share
//! a device. An engine may lie behind a [`Link`]: then a job's inputs cross it first, and its outputs afterwards.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::{
    Backend, Buf, Clock, ClockKind, Completion, Control, Job, JobError, Limits, Memory, NotInPlace,
    OpSpec, Operator, OutputShape, Properties, Queue, SetupError, Unsupported,
};

use crate::link::Link;
use crate::simulation::{Route, Seat, Simulation};

/// The parts of an engine's time. Whole nanoseconds and picoseconds, so that times are exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The number of jobs that are served at a time.
    pub lanes: NonZeroU32,
    /// Lane time for each job.
    pub job_ns: u64,
    /// Lane time for each item of a job.
    pub item_ns: u64,
    /// Lane time for each byte of a job's items, in picoseconds; a job's total is rounded up to a nanosecond.
    pub byte_ps: u64,
    /// Host time for each `submit` that takes a job: descriptors, fence, doorbell.
    pub doorbell_ns: u64,
    /// Host time for a `poll` that finds nothing; the clock moves by this much, but not beyond the next job that comes home to any
    /// queue of the simulation. Zero skips to that job, which is quick and right for a closed loop; a poll with nothing in flight then
    /// moves nothing. An open loop, whose jobs arrive while others are in flight, needs more than zero.
    pub poll_ns: u64,
    /// Most jobs that one queue may hold.
    pub depth_max: NonZeroU32,
    /// Longest input that one job may carry.
    pub input_bytes_max: usize,
    /// Longest single item.
    pub item_bytes_max: usize,
    /// Most items that one job may carry.
    pub items_max: usize,
}

/// A modelled engine that computes with the backend `B`.
#[derive(Debug)]
pub struct Modelled<B> {
    inner: B,
    name: String,
    model: Model,
    clock: EngineClock,
    route: Route,
    link: Option<Link>,
}

/// The simulation's time.
#[derive(Debug)]
struct EngineClock {
    simulation: Simulation,
    moves_when_polled: bool,
}

impl Clock for EngineClock {
    fn now_ns(&self) -> u64 {
        self.simulation.now_ns()
    }

    fn kind(&self) -> ClockKind {
        ClockKind::Virtual {
            moves_when_polled: self.moves_when_polled,
        }
    }
}

impl Default for Model {
    /// Four lanes, two microseconds a job, ten gigabytes a second a lane: of the size of today's engines, no one of them.
    fn default() -> Self {
        Self {
            lanes: const { NonZeroU32::new(4).unwrap() },
            job_ns: 2000,
            item_ns: 0,
            byte_ps: 100,
            doorbell_ns: 100,
            poll_ns: 0,
            depth_max: const { NonZeroU32::new(1024).unwrap() },
            input_bytes_max: 1 << 30,
            item_bytes_max: 1 << 30,
            items_max: 1 << 20,
        }
    }
}

impl Model {
    fn limits(&self) -> Limits {
        let mut limits = Limits::new(self.depth_max);
        limits.input_bytes_max = self.input_bytes_max;
        limits.item_bytes_max = self.item_bytes_max;
        limits.items_max = self.items_max;
        limits
    }

    /// The time for which a lane is busy with `job`, in nanoseconds. Items that do not lie inside their input cost nothing: the
    /// job is refused before they are looked at.
    pub fn cost_ns(&self, job: &Job) -> u64 {
        let (items, bytes) = extent(job);
        self.job_ns
            .saturating_add(items.saturating_mul(self.item_ns))
            .saturating_add(bytes.saturating_mul(self.byte_ps).div_ceil(1000))
    }
}

/// All parameters by name, as [`FromStr`] reads them; part of the backend's name.
impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lanes,
            job_ns,
            item_ns,
            byte_ps,
            doorbell_ns,
            poll_ns,
            depth_max,
            input_bytes_max,
            item_bytes_max,
            items_max,
        } = self;
        write!(
            f,
            "lanes={lanes},job_ns={job_ns},item_ns={item_ns},byte_ps={byte_ps},doorbell_ns={doorbell_ns},\
             poll_ns={poll_ns},depth_max={depth_max},input_bytes_max={input_bytes_max},\
             item_bytes_max={item_bytes_max},items_max={items_max}"
        )
    }
}

/// `name=value` pairs with commas between, each a field of [`Model`]; what is not named is as in [`Model::default`].
impl FromStr for Model {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        let mut model = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let wrong = |why| SetupError::Parameter(format!("model `{text}`: `{pair}` {why}"));
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| wrong("is not name=value"))?;
            let number = value
                .parse::<u64>()
                .map_err(|_| wrong("is not a whole number"))?;
            let count = || {
                let number = u32::try_from(number).map_err(|_| wrong("is too large"))?;
                NonZeroU32::new(number).ok_or_else(|| wrong("must not be zero"))
            };
            let size = || usize::try_from(number).map_err(|_| wrong("is too large"));
            match name {
                "lanes" => model.lanes = count()?,
                "job_ns" => model.job_ns = number,
                "item_ns" => model.item_ns = number,
                "byte_ps" => model.byte_ps = number,
                "doorbell_ns" => model.doorbell_ns = number,
                "poll_ns" => model.poll_ns = number,
                "depth_max" => model.depth_max = count()?,
                "input_bytes_max" => model.input_bytes_max = size()?,
                "item_bytes_max" => model.item_bytes_max = size()?,
                "items_max" => model.items_max = size()?,
                _ => {
                    return Err(wrong(
                        "is no parameter; there are lanes, job_ns, item_ns, byte_ps, doorbell_ns, poll_ns, depth_max, \
                         input_bytes_max, item_bytes_max, items_max",
                    ));
                }
            }
        }
        Ok(model)
    }
}

impl<B: Backend> Modelled<B> {
    /// Named `sim/NAME`, after the model; lives in `simulation` and computes with `inner`.
    ///
    /// # Panics
    /// If `inner` is a model itself: its time would be another, which nobody would see.
    pub fn new(name: &str, model: Model, inner: B, simulation: &Simulation) -> Self {
        assert!(
            !inner.properties().is_modelled(),
            "{} is a model, and would compute for a model",
            inner.name()
        );
        Self {
            inner,
            name: format!("sim/{name}"),
            clock: EngineClock {
                simulation: simulation.clone(),
                moves_when_polled: model.poll_ns > 0,
            },
            route: Route {
                forth: None,
                engine: simulation.add_station(model.lanes.get() as usize),
                back: None,
            },
            link: None,
            model,
        }
    }

    /// The same engine, reached over `link`.
    ///
    /// # Panics
    /// If they do not live in the same simulation.
    #[must_use]
    pub fn behind(mut self, link: &Link) -> Self {
        assert!(
            link.simulation().is(&self.clock.simulation),
            "{} and its link live in different simulations",
            self.name
        );
        let (forth, back) = link.wires();
        (self.route.forth, self.route.back) = (Some(forth), back);
        self.link = Some(link.clone());
        self
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }
}

impl<B: Backend> Backend for Modelled<B> {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn properties(&self) -> Properties {
        let inner = self.inner.properties();
        let mut model = self.model.to_string();
        if let Some(link) = &self.link {
            model.push_str(&format!("; behind a link of {}", link.model()));
        }
        Properties::of_model(model, self.inner.name(), inner)
    }

    fn code(&self, spec: &OpSpec) -> Option<String> {
        self.inner.code(spec)
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        self.inner.alloc(len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        Ok(self.model.limits().and(self.inner.limits(spec)?))
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        Ok(Arc::new(ModelledOperator {
            limits: self.limits(spec)?,
            inner: self.inner.prepare(spec)?,
            model: self.model.clone(),
            simulation: self.clock.simulation.clone(),
            route: self.route,
        }))
    }
}

struct ModelledOperator {
    inner: Arc<dyn Operator>,
    limits: Limits,
    model: Model,
    simulation: Simulation,
    route: Route,
}

impl Operator for ModelledOperator {
    fn spec(&self) -> &OpSpec {
        self.inner.spec()
    }

    fn shape(&self) -> OutputShape {
        self.inner.shape()
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.inner.dst_len(item_len)
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        self.inner.in_place()
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        self.inner.control()
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        if depth > self.limits.depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: self.limits.depth_max.get(),
            });
        }
        let deep = depth.get() as usize;
        Ok(Box::new(ModelledQueue {
            seat: self.simulation.sit_down(self.route, deep)?,
            inner: self.inner.clone().open(depth)?,
            to_inner: VecDeque::with_capacity(deep),
            from_inner: Vec::with_capacity(deep),
            flying: (0..deep).map(|_| Flying::default()).collect(),
            free: (0..deep).rev().collect(),
            operator: self,
        }))
    }
}

struct ModelledQueue {
    operator: Arc<ModelledOperator>,
    seat: Seat,
    inner: Box<dyn Queue>,
    to_inner: VecDeque<Job>,
    from_inner: Vec<Completion>,
    flying: Vec<Flying>,
    /// Places in `flying` without a job.
    free: Vec<usize>,
}

/// A job in flight. Inside, its tag is its place.
#[derive(Default)]
struct Flying {
    /// The caller's tag.
    tag: u64,
    /// Once the backend inside is done with it.
    computed: Option<Completion>,
}

impl Queue for ModelledQueue {
    fn in_flight(&self) -> usize {
        self.flying.len() - self.free.len()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let taken = ready.len().min(self.free.len());
        if taken == 0 {
            return 0;
        }
        let ModelledOperator { model, .. } = &*self.operator;
        let mut turn = self.seat.turn();
        turn.pass(model.doorbell_ns);
        for mut job in ready.drain(..taken) {
            let place = self.free.pop().expect("counted above");
            let (_, input_bytes) = extent(&job);
            turn.start(place, input_bytes, model.cost_ns(&job));
            self.flying[place].tag = job.tag;
            match self.operator.admit(&job) {
                Ok(()) => {
                    job.tag = place as u64;
                    self.to_inner.push_back(job);
                }
                Err(error) => {
                    turn.computed(place, 0);
                    let result = Err(error);
                    self.flying[place].computed = Some(Completion { job, result });
                }
            }
        }
        drop(turn);
        // What is computed at once holds up nobody's time.
        self.collect();
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.collect();
        let has_jobs = self.in_flight() > 0;
        let before = self.free.len();
        let mut turn = self.seat.turn();
        turn.run(has_jobs, self.operator.model.poll_ns);
        while let Some(place) = turn.next_home() {
            let flying = &mut self.flying[place];
            let computed = flying.computed.take();
            let mut completion = computed.expect("nothing comes home before it is computed");
            completion.job.tag = flying.tag;
            done.push(completion);
            self.free.push(place);
        }
        self.free.len() - before
    }

    /// Polling moves virtual time; what the backend inside still computes is waited for.
    fn wait(&mut self, timeout: Duration) {
        if self.seat.turn().is_held() {
            self.inner.wait(timeout);
        }
    }
}

impl ModelledOperator {
    /// Whether the engine takes `job`.
    fn admit(&self, job: &Job) -> Result<(), JobError> {
        match job.src {
            Memory::Output if self.in_place().is_err() => Err(JobError::NotInPlace),
            _ => job.batch().and_then(|batch| self.limits.check(batch)),
        }
    }
}

impl ModelledQueue {
    /// Brings home what the backend inside has finished, and hands it what it had no room for.
    fn collect(&mut self) {
        self.inner.submit(&mut self.to_inner);
        self.inner.poll(&mut self.from_inner);
        if self.from_inner.is_empty() {
            return;
        }
        let shape = self.operator.shape();
        let mut turn = self.seat.turn();
        for completion in self.from_inner.drain(..) {
            let place = completion.job.tag as usize;
            turn.computed(place, output_bytes(&completion, shape));
            self.flying[place].computed = Some(completion);
        }
    }
}

/// Items of `job`, and their bytes; none of a job whose items do not lie inside its input.
fn extent(job: &Job) -> (u64, u64) {
    job.batch()
        .map_or((0, 0), |batch| (batch.len() as u64, batch.bytes() as u64))
}

/// Bytes that a job wrote.
fn output_bytes(completion: &Completion, shape: OutputShape) -> u64 {
    let job = &completion.job;
    match (completion.result, shape) {
        (Err(_), _) => 0,
        (Ok(()), OutputShape::Fixed(bytes)) => bytes as u64 * job.items.count() as u64,
        (Ok(()), OutputShape::Variable) => {
            job.outcomes.iter().flatten().copied().map(u64::from).sum()
        }
    }
}

#[cfg(test)]
mod tests;
