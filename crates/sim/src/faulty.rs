//! Any backend, with faults: errors, wrong bits, delays, another order. Never a job lost, never one twice.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dpb_core::random::SplitMix64;
use dpb_core::{
    Backend, Buf, Clock, Completion, Control, Evidence, Job, JobError, Limits, NotInPlace, OpSpec,
    Operator, OutputShape, Properties, Queue, SetupError, Unsupported,
};

/// Kinds of faults, and how often each comes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The same seed and the same calls give the same faults.
    pub seed: u64,
    /// Jobs in a million that are not carried out and end in [`Faults::ERROR`].
    pub errors_ppm: u32,
    /// Jobs in a million that end well, with one bit of their output wrong: the lowest in the middle of the first item that
    /// has any.
    pub flips_ppm: u32,
    /// Each completion is kept back for up to this many polls.
    pub delay_polls_max: u32,
    /// True if completions come home in random order.
    pub reorder: bool,
}

/// A backend with faults.
#[derive(Debug)]
pub struct Faulty<B> {
    inner: B,
    name: String,
    faults: Arc<Faults>,
    injected: Arc<Injected>,
    /// Queues opened: each draws its own faults.
    queues: Arc<AtomicU64>,
}

/// Faults injected so far, over all queues of one backend.
#[derive(Debug, Default)]
pub struct Injected {
    errors: AtomicU64,
    flips: AtomicU64,
    delays: AtomicU64,
    swaps: AtomicU64,
}

/// All by name, as [`FromStr`] reads them.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            errors_ppm,
            flips_ppm,
            delay_polls_max,
            reorder,
        } = self;
        let reorder = u8::from(*reorder);
        write!(
            f,
            "seed={seed},errors_ppm={errors_ppm},flips_ppm={flips_ppm},delay_polls_max={delay_polls_max},reorder={reorder}"
        )
    }
}

/// `name=value` pairs with commas between, each a field of [`Faults`]; `reorder` is 0 or 1. What is not named does not happen.
impl FromStr for Faults {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        let mut faults = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let wrong = |why| SetupError::Parameter(format!("faults `{text}`: `{pair}` {why}"));
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| wrong("is not name=value"))?;
            let number = value
                .parse::<u32>()
                .map_err(|_| wrong("is not a whole number below 2^32"))?;
            let share = || match number {
                0..=1_000_000 => Ok(number),
                _ => Err(wrong("is more than all")),
            };
            match name {
                "seed" => faults.seed = number.into(),
                "errors_ppm" => faults.errors_ppm = share()?,
                "flips_ppm" => faults.flips_ppm = share()?,
                "delay_polls_max" => faults.delay_polls_max = number,
                "reorder" => faults.reorder = number != 0,
                _ => {
                    return Err(wrong(
                        "is no fault; there are seed, errors_ppm, flips_ppm, delay_polls_max, reorder",
                    ));
                }
            }
        }
        Ok(faults)
    }
}

impl Faults {
    /// The error of a job that is not carried out.
    pub const ERROR: JobError = JobError::Device(-5);
}

impl Injected {
    /// Jobs that ended in [`Faults::ERROR`].
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Jobs with one bit of their output wrong.
    pub fn flips(&self) -> u64 {
        self.flips.load(Ordering::Relaxed)
    }

    /// Completions that were kept back for at least one poll.
    pub fn delays(&self) -> u64 {
        self.delays.load(Ordering::Relaxed)
    }

    /// Completions that came home before an earlier one that was also ready.
    pub fn swaps(&self) -> u64 {
        self.swaps.load(Ordering::Relaxed)
    }
}

impl<B: Backend> Faulty<B> {
    /// Named `faulty/NAME`; the backend inside is `inner`.
    pub fn new(name: &str, faults: Faults, inner: B) -> Self {
        Self {
            name: format!("faulty/{name}"),
            inner,
            faults: Arc::new(faults),
            injected: Arc::default(),
            queues: Arc::default(),
        }
    }

    /// The faults injected so far.
    pub fn injected(&self) -> &Injected {
        &self.injected
    }
}

impl<B: Backend> Backend for Faulty<B> {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        self.inner.clock()
    }

    fn properties(&self) -> Properties {
        let by = |inner: &str| format!("{inner} with faults on purpose: {}", self.faults);
        let inner = self.inner.properties();
        let evidence = match &inner.evidence {
            Evidence::Simulated { model } => Evidence::Simulated { model: by(model) },
            _ => Evidence::Emulated {
                by: by(self.inner.name()),
            },
        };
        Properties::of_wrapper(self.inner.name(), inner).with_evidence(evidence)
    }

    fn code(&self, spec: &OpSpec) -> Option<String> {
        self.inner.code(spec)
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        self.inner.alloc(len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        let mut limits = self.inner.limits(spec)?;
        limits.synchronous = false;
        Ok(limits)
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        Ok(Arc::new(FaultyOperator {
            inner: self.inner.prepare(spec)?,
            faults: self.faults.clone(),
            injected: self.injected.clone(),
            queues: self.queues.clone(),
        }))
    }
}

struct FaultyOperator {
    inner: Arc<dyn Operator>,
    faults: Arc<Faults>,
    injected: Arc<Injected>,
    queues: Arc<AtomicU64>,
}

impl Operator for FaultyOperator {
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
        let deep = depth.get() as usize;
        let inner = self.inner.clone().open(depth)?;
        let number = self.queues.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(FaultyQueue {
            inner,
            to_inner: VecDeque::with_capacity(deep),
            from_inner: Vec::with_capacity(deep),
            held: Vec::with_capacity(deep),
            random: SplitMix64::new(self.faults.seed ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93)),
            depth: deep,
            in_flight: 0,
            operator: self,
        }))
    }
}

struct FaultyQueue {
    operator: Arc<FaultyOperator>,
    inner: Box<dyn Queue>,
    to_inner: VecDeque<Job>,
    from_inner: Vec<Completion>,
    /// Finished, and the polls that each is still kept back for.
    held: Vec<(u32, Completion)>,
    random: SplitMix64,
    depth: usize,
    in_flight: usize,
}

impl Queue for FaultyQueue {
    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let taken = ready.len().min(self.depth - self.in_flight);
        for job in ready.drain(..taken) {
            if self.random.below(1_000_000) < self.operator.faults.errors_ppm as usize {
                self.operator
                    .injected
                    .errors
                    .fetch_add(1, Ordering::Relaxed);
                let result = Err(Faults::ERROR);
                self.from_inner.push(Completion { job, result });
            } else {
                self.to_inner.push_back(job);
            }
        }
        self.in_flight += taken;
        self.inner.submit(&mut self.to_inner);
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.inner.submit(&mut self.to_inner);
        self.inner.poll(&mut self.from_inner);
        let FaultyOperator {
            faults, injected, ..
        } = &*self.operator;
        for mut completion in self.from_inner.drain(..) {
            if completion.result.is_ok()
                && self.random.below(1_000_000) < faults.flips_ppm as usize
                && flip(&mut completion.job, self.operator.shape())
            {
                injected.flips.fetch_add(1, Ordering::Relaxed);
            }
            let polls = self.random.below(faults.delay_polls_max as usize + 1) as u32;
            injected
                .delays
                .fetch_add(u64::from(polls > 0), Ordering::Relaxed);
            self.held.push((polls, completion));
        }
        let before = done.len();
        let from = |held: &[(u32, Completion)]| held.iter().position(|(polls, _)| *polls == 0);
        while let Some(first) = from(&self.held) {
            let due = self.held.iter().filter(|(polls, _)| *polls == 0).count();
            let chosen = if faults.reorder {
                self.random.below(due)
            } else {
                0
            };
            injected
                .swaps
                .fetch_add(u64::from(chosen > 0), Ordering::Relaxed);
            let mut places = (first..self.held.len()).filter(|&i| self.held[i].0 == 0);
            let place = places.nth(chosen).expect("fewer than are due");
            done.push(self.held.remove(place).1);
        }
        for (polls, _) in &mut self.held {
            *polls -= 1;
        }
        self.in_flight -= done.len() - before;
        done.len() - before
    }

    /// What is kept back is kept for polls, not for time.
    fn wait(&mut self, timeout: Duration) {
        if self.held.is_empty() && self.from_inner.is_empty() {
            self.inner.wait(timeout);
        }
    }
}

/// Makes one bit of the output wrong; `false` if there is no output.
fn flip(job: &mut Job, shape: OutputShape) -> bool {
    let items = match job.batch() {
        Ok(batch) => batch.len(),
        Err(_) => return false,
    };
    let written = |item: usize| match shape {
        OutputShape::Fixed(bytes) => bytes,
        OutputShape::Variable => job.outcomes[item].map_or(0, |len| len as usize),
    };
    let Some(item) = (0..items).find(|&item| written(item) > 0) else {
        return false;
    };
    let slot = job.slots.place(item, &job.dst);
    let middle = slot.start + written(item) / 2;
    job.dst[slot.buf][middle] ^= 1;
    true
}

#[cfg(test)]
mod tests;
