//! An engine on virtual time: real results, modelled durations.
//!
//! The engine has lanes that serve jobs first come, first served. A job taken at `now` is due at
//! `max(now, first free lane) + cost`; `poll` moves the virtual clock to the next job that is due. All queues of one backend
//! share lanes and clock, as they would share a device.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dpb_core::{
    Backend, Buf, Clock, Completion, Control, Evidence, Job, JobError, Limits, Memory, OpSpec,
    Operator, OutputShape, Queue, SetupError, Unsupported, VirtualClock,
};

/// What an engine's time is made of. Whole nanoseconds and picoseconds, so that times are exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// How many jobs are served at a time.
    pub lanes: NonZeroU32,
    /// Lane time for each job.
    pub job_ns: u64,
    /// Lane time for each item of a job.
    pub item_ns: u64,
    /// Lane time for each byte of a job's items, in picoseconds; a job's total is rounded up to a nanosecond.
    pub byte_ps: u64,
    /// Host time for each `submit` that takes a job: descriptors, fence, doorbell.
    pub doorbell_ns: u64,
    /// Host time for a `poll` that finds nothing; the clock moves by this much, but not beyond the next job due. Zero
    /// skips to the next job due, which is quick and right for a closed loop. An open loop, whose jobs arrive while others
    /// are in flight, needs more than zero.
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
    engine: Arc<Engine>,
}

/// What all queues of one backend share.
#[derive(Debug)]
struct Engine {
    clock: VirtualClock,
    /// When each lane is free, in nanoseconds; the earliest on top.
    lanes: Mutex<BinaryHeap<Reverse<u64>>>,
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

    /// How long a lane is busy with `job`, in nanoseconds. Items that do not lie inside their input cost nothing: the
    /// job is refused before they are looked at.
    pub fn cost_ns(&self, job: &Job) -> u64 {
        let (items, bytes) = match job.batch() {
            Ok(batch) => (batch.len() as u64, batch.bytes() as u64),
            Err(_) => (0, 0),
        };
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
    /// Named `sim/NAME`, after the model; computes with `inner`.
    pub fn new(name: &str, model: Model, inner: B) -> Self {
        let lanes = (0..model.lanes.get()).map(|_| Reverse(0)).collect();
        Self {
            inner,
            name: format!("sim/{name}"),
            engine: Arc::new(Engine {
                clock: VirtualClock::new(model.poll_ns > 0),
                lanes: Mutex::new(lanes),
            }),
            model,
        }
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
        &self.engine.clock
    }

    fn evidence(&self) -> Evidence {
        Evidence::Simulated {
            model: self.model.to_string(),
        }
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
            engine: self.engine.clone(),
        }))
    }
}

struct ModelledOperator {
    inner: Arc<dyn Operator>,
    limits: Limits,
    model: Model,
    engine: Arc<Engine>,
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

    fn in_place(&self) -> Option<usize> {
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
            inner: self.inner.clone().open(depth)?,
            to_inner: VecDeque::with_capacity(deep),
            from_inner: Vec::with_capacity(deep),
            flying: (0..deep).map(|_| Flying::default()).collect(),
            free: (0..deep).rev().collect(),
            due: BinaryHeap::with_capacity(deep),
            taken: 0,
            operator: self,
        }))
    }
}

struct ModelledQueue {
    operator: Arc<ModelledOperator>,
    inner: Box<dyn Queue>,
    to_inner: VecDeque<Job>,
    from_inner: Vec<Completion>,
    flying: Vec<Flying>,
    /// Places in `flying` without a job.
    free: Vec<usize>,
    /// Due time, sequence number, place in `flying`. Ties complete in the order of submission.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    taken: u64,
}

/// A job in flight. Inside, its tag is its place.
#[derive(Default)]
struct Flying {
    /// The caller's tag.
    tag: u64,
    /// Once the backend inside is done with it.
    home: Option<Completion>,
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
        let ModelledOperator { model, engine, .. } = &*self.operator;
        let now_ns = engine.clock.now_ns() + model.doorbell_ns;
        engine.clock.advance_to(now_ns);
        for mut job in ready.drain(..taken) {
            let due_ns = engine.serve(now_ns, model.cost_ns(&job));
            let place = self.free.pop().expect("counted above");
            self.due.push(Reverse((due_ns, self.taken, place)));
            self.taken += 1;
            self.flying[place].tag = job.tag;
            let limits = &self.operator.limits;
            let checked = match job.src {
                Memory::Output if self.operator.in_place().is_none() => Err(JobError::NotInPlace),
                _ => job.batch().and_then(|batch| limits.check(batch)),
            };
            match checked {
                Ok(()) => {
                    job.tag = place as u64;
                    self.to_inner.push_back(job);
                }
                Err(error) => {
                    let result = Err(error);
                    self.flying[place].home = Some(Completion { job, result });
                }
            }
        }
        self.inner.submit(&mut self.to_inner);
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.collect();
        let ModelledOperator { model, engine, .. } = &*self.operator;
        let now_ns = engine.clock.now_ns();
        match self.due.peek() {
            // Not computed yet: virtual time waits for it.
            Some(&Reverse((_, _, place))) if self.flying[place].home.is_none() => return 0,
            Some(&Reverse((due_ns, ..))) if model.poll_ns == 0 => engine.clock.advance_to(due_ns),
            Some(&Reverse((due_ns, ..))) => {
                engine.clock.advance_to(due_ns.min(now_ns + model.poll_ns));
            }
            None => engine.clock.advance_to(now_ns + model.poll_ns),
        }
        let now_ns = engine.clock.now_ns();
        let before = self.free.len();
        while let Some(&Reverse((due_ns, _, place))) = self.due.peek() {
            let flying = &mut self.flying[place];
            let Some(mut completion) = flying.home.take_if(|_| due_ns <= now_ns) else {
                break;
            };
            self.due.pop();
            completion.job.tag = flying.tag;
            done.push(completion);
            self.free.push(place);
        }
        self.free.len() - before
    }

    /// Polling moves virtual time; what the backend inside still computes is waited for.
    fn wait(&mut self, timeout: Duration) {
        if let Some(&Reverse((_, _, place))) = self.due.peek()
            && self.flying[place].home.is_none()
        {
            self.inner.wait(timeout);
        }
    }
}

impl ModelledQueue {
    /// Brings home what the backend inside has finished, and hands it what it had no room for.
    fn collect(&mut self) {
        self.inner.submit(&mut self.to_inner);
        self.inner.poll(&mut self.from_inner);
        for completion in self.from_inner.drain(..) {
            let place = completion.job.tag as usize;
            self.flying[place].home = Some(completion);
        }
    }
}

impl Engine {
    /// Gives a job that arrives at `now_ns` to the lane that is free first; says when it is due.
    fn serve(&self, now_ns: u64, cost_ns: u64) -> u64 {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lane = lanes.peek_mut().expect("at least one lane");
        let due_ns = lane.0.max(now_ns).saturating_add(cost_ns);
        lane.0 = due_ns;
        due_ns
    }
}

#[cfg(test)]
mod tests;
