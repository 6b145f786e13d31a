//! Operators one behind another, as one operator: [`Chain`].

mod control;
mod stage_by_stage;

pub use control::changes_to;
pub use stage_by_stage::StageByStage;

use std::collections::VecDeque;
use std::fmt;
use std::mem::{replace, swap, take};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use self::control::StageControls;
use crate::items::SpareLists;
use crate::{
    Backend, Buf, Buffers, Completion, Control, Items, Job, JobError, Limits, Memory, NotInPlace,
    OpSpec, Operator, OutputShape, Place, Queue, SetupError, Span, Unsupported, spec,
};

/// Operators one behind another, as one operator: output *i* of a stage is item *i* of the next. The stages may be of different
/// backends. A device that runs such a sequence by itself takes it whole, as [`spec::Chain`]; everything else runs it stage by
/// stage, by this ([`StageByStage`]).
///
/// An item that a stage refuses is refused by the chain, with that stage's error; the stages behind it see an empty item. A job that a
/// stage cannot carry out fails with that stage's error, also where an output is longer than the next stage takes.
///
/// What goes from stage to stage lies in memory of the queue, which is allocated when it is opened, for jobs at the limits. Each
/// output has the room there that its stage's [`Operator::dst_len`] says; what a decoder makes of an item beyond that is refused with
/// [`JobError::DstTooShort`]. A chain works in place if its first stage does, and the others do with outputs
/// that begin where their items do: what lies before an item's slot then stays as it was.
///
/// The tables of its stages change by one [`Control`], each call of which has changes for one stage ([`changes_to`]). A commit makes the
/// changes of all stages visible, one stage after another: a job that it overtakes may see the new table of one stage and the old one of
/// another. Of each stage it sees one version, and a job that is submitted after the commit sees all changes.
pub struct Chain {
    spec: OpSpec,
    stages: Vec<Arc<dyn Operator>>,
    limits: Limits,
    alloc: Alloc,
    shape: OutputShape,
    in_place: Result<usize, NotInPlace>,
    control: Option<Arc<dyn Control>>,
}

type Alloc = Box<dyn Fn(usize) -> Result<Buf, SetupError> + Send + Sync>;

const NO_STAGE: &str = "a chain without stages";
/// Longest input of a job of a chain that a backend makes by [`Chain::on`], in bytes.
const INPUT_BYTES_MAX: usize = 1 << 20;
/// Most items of such a job.
const ITEMS_MAX: usize = 1024;
/// Most such jobs that one queue may hold.
const DEPTH_MAX: NonZeroU32 = NonZeroU32::new(64).unwrap();

impl Chain {
    /// A chain of `stages`, for jobs within `limits`. `alloc` gives memory that every stage reaches. Of the caller's memory the first
    /// stage must reach what a job reads and the last one what it writes; in place every stage.
    ///
    /// # Errors
    /// [`SetupError::Parameter`] if there is no stage, or if `limits` have no bound on the input or the items of a job.
    pub fn new(
        stages: Vec<Arc<dyn Operator>>,
        limits: Limits,
        alloc: impl Fn(usize) -> Result<Buf, SetupError> + Send + Sync + 'static,
    ) -> Result<Self, SetupError> {
        let Some(last) = stages.last() else {
            return Err(SetupError::Parameter(NO_STAGE.into()));
        };
        if limits.input_bytes_max == usize::MAX || limits.items_max == usize::MAX {
            let what = "a chain for jobs of any size: its memory needs a bound";
            return Err(SetupError::Parameter(what.into()));
        }
        let shapes = || stages.iter().map(|stage| stage.shape());
        let is_fixed = shapes().all(|shape| matches!(shape, OutputShape::Fixed(_)));
        let shape = if is_fixed {
            last.shape()
        } else {
            OutputShape::Variable
        };
        Ok(Self {
            spec: OpSpec::from(spec::Chain(
                stages.iter().map(|stage| stage.spec().clone()).collect(),
            )),
            limits,
            alloc: Box::new(alloc),
            shape,
            in_place: in_place(&stages),
            control: StageControls::of(stages.iter().map(|stage| stage.control()).collect()),
            stages,
        })
    }

    /// The chain of `specs` on one backend that has no engine for the whole of it.
    ///
    /// # Errors
    /// Those of [`Backend::prepare`] for any of them; [`SetupError::Unsupported`] if there is none.
    pub fn on(
        backend: &dyn Backend,
        specs: &[OpSpec],
        alloc: impl Fn(usize) -> Result<Buf, SetupError> + Send + Sync + 'static,
    ) -> Result<Self, SetupError> {
        let limits = Self::limits_on(backend, specs)?;
        let mut stages = Vec::new();
        for spec in flat(specs) {
            stages.push(backend.prepare(spec)?);
        }
        let chain = Self::new(stages, limits, alloc)?;
        let spec = OpSpec::from(spec::Chain(specs.to_vec()));
        Ok(Self { spec, ..chain })
    }

    /// What [`Chain::on`] promises: the lowest limits of any stage, and at most 64 jobs of 1 MiB and 1,024 items each.
    ///
    /// # Errors
    /// Those of [`Backend::limits`] for any of them, or that there is none.
    pub fn limits_on(backend: &dyn Backend, specs: &[OpSpec]) -> Result<Limits, Unsupported> {
        if flat(specs).is_empty() {
            let reason = NO_STAGE.to_owned();
            return Err(Unsupported { reason });
        }
        let mut limits = Limits::new(DEPTH_MAX);
        limits.input_bytes_max = INPUT_BYTES_MAX;
        limits.items_max = ITEMS_MAX;
        limits.synchronous = true;
        for spec in flat(specs) {
            limits = limits.and(backend.limits(spec)?);
        }
        Ok(limits)
    }

    /// The code that computes the chain of `specs` on `backend`, stage by stage: `inflate: libdeflate, …; crc32c: sse42, …`. `None` if the
    /// code of no stage is known.
    pub fn code_on(backend: &dyn Backend, specs: &[OpSpec]) -> Option<String> {
        let codes = flat(specs).into_iter().filter_map(|spec| {
            let code = backend.code(spec)?;
            Some(format!("{}: {code}", spec.name()))
        });
        let codes = codes.collect::<Vec<_>>().join("; ");
        (!codes.is_empty()).then_some(codes)
    }

    /// Bytes that go from each stage to the next at most, in a job at the limits.
    fn bytes_between(&self) -> impl Iterator<Item = usize> {
        let items_max = self.limits.items_max;
        let before_last = self.stages.iter().take(self.stages.len() - 1);
        before_last.scan(self.limits.input_bytes_max, move |bytes, stage| {
            let of = |len: usize, items: usize| stage.dst_len(len).saturating_mul(items);
            let input = *bytes;
            // As few long items, as many short ones, and what lies between.
            let counts = std::iter::successors(Some(1_usize), |count| count.checked_mul(2));
            let counts = counts
                .take_while(|&count| count < items_max)
                .chain([items_max]);
            let most = counts.map(|count| of(input.div_ceil(count.max(1)), count));
            let short = of(0, items_max).max(of(1, items_max));
            *bytes = most.max().unwrap_or(0).saturating_add(short);
            Some(*bytes)
        })
    }
}

/// The stages of a chain, and in the place of a chain among them its own.
fn flat(specs: &[OpSpec]) -> Vec<&OpSpec> {
    let mut stages = Vec::new();
    for spec in specs {
        match spec.get() {
            Some(spec::Chain(inner)) => stages.extend(flat(inner)),
            None => stages.push(spec),
        }
    }
    stages
}

/// How far behind the start of an item the output of a chain of `stages` begins, in place.
///
/// # Errors
/// The first stage to blame, and why.
fn in_place(stages: &[Arc<dyn Operator>]) -> Result<usize, NotInPlace> {
    let mut offsets = stages.iter().enumerate().map(|(k, stage)| {
        let blamed = |reason: String| {
            let name = stage.spec().name();
            NotInPlace::new(format!("stage {} of {}, {name}: {reason}", k + 1, stages.len()))
        };
        match stage.in_place() {
            Ok(offset) if k == 0 || offset == 0 => Ok(offset),
            Ok(offset) => Err(blamed(format!(
                "its output begins {offset} bytes behind the start of its item, and a chain writes over the first stage's items \
                 alone; make it the first stage, or give the outputs slots outside of the items"
            ))),
            Err(why) => Err(blamed(why.to_string())),
        }
    });
    let first = offsets.next().unwrap_or(Ok(0));
    first.and_then(|first| {
        offsets
            .try_for_each(|offset| offset.map(drop))
            .map(|()| first)
    })
}

impl Operator for Chain {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn shape(&self) -> OutputShape {
        self.shape
    }

    fn dst_len(&self, item_len: usize) -> usize {
        let stages = self.stages.iter();
        stages.fold(item_len, |len, stage| stage.dst_len(len))
    }

    /// A refusal names the stage that it is due to.
    fn in_place(&self) -> Result<usize, NotInPlace> {
        self.in_place.clone()
    }

    /// Those of all stages, as one: [`changes_to`] addresses one stage.
    fn control(&self) -> Option<Arc<dyn Control>> {
        self.control.clone()
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        if depth > self.limits.depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: self.limits.depth_max.get(),
            });
        }
        let jobs = depth.get() as usize;
        let lane = |stage: &Arc<dyn Operator>| {
            Ok::<_, SetupError>(Lane {
                queue: stage.clone().open(depth)?,
                shape: stage.shape(),
                ready: VecDeque::with_capacity(jobs),
            })
        };
        let lanes: Result<Vec<_>, _> = self.stages.iter().map(lane).collect();
        let mut bytes = [0; 2];
        for (between, needed) in self.bytes_between().enumerate() {
            bytes[between % 2] = bytes[between % 2].max(needed);
        }
        let flight = |_| Flight::new(&self, bytes);
        let flights: Result<Vec<_>, _> = (0..jobs).map(flight).collect();
        Ok(Box::new(ChainQueue {
            lanes: lanes?,
            flights: flights?,
            free: (0..jobs).rev().collect(),
            done: Vec::with_capacity(jobs),
            finished: VecDeque::with_capacity(jobs),
            chain: self,
        }))
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

struct ChainQueue {
    chain: Arc<Chain>,
    lanes: Vec<Lane>,
    /// One for each job that may be in flight.
    flights: Vec<Flight>,
    /// Which of them are free.
    free: Vec<usize>,
    /// What a stage has just finished.
    done: Vec<Completion>,
    /// What the chain has finished.
    finished: VecDeque<Completion>,
}

/// A stage.
struct Lane {
    queue: Box<dyn Queue>,
    shape: OutputShape,
    /// Jobs that the queue has not taken yet.
    ready: VecDeque<Job>,
}

/// A job of the chain on its way. Its parts move from the caller's job to that of the stages, and back.
struct Flight {
    /// The caller's job.
    outer: Option<Job>,
    /// The job that the stages use; `None` while a stage has it.
    inner: Option<Job>,
    /// True if the chain's shape is variable.
    is_variable: bool,
    is_in_place: bool,
    /// True while the stages' job has the caller's slots.
    has_slots: bool,
    /// The memory between two stages; empty while the job that the stages use has it. Stage *k* writes to `between[k % 2]`.
    between: [Buffers; 2],
    /// Why an item was refused, of those that were.
    refused: Vec<Option<JobError>>,
    /// Lists of items or slots that are free.
    lists: SpareLists,
    /// In place: the end of each of the caller's slots, behind which no stage writes.
    ends: Vec<usize>,
}

impl ChainQueue {
    /// Checks a job and sends it to the first stage.
    fn start(&mut self, mut job: Job) {
        if let Err(error) = self.chain.admit(&mut job) {
            let result = Err(error);
            return self.finished.push_back(Completion { job, result });
        }
        let number = self.free.pop().expect("no more jobs than flights");
        let flight = &mut self.flights[number];
        flight.board(job);
        self.enter(number, 0);
    }

    /// Sends flight `number` to stage `k`.
    fn enter(&mut self, number: usize, k: usize) {
        let is_last = k + 1 == self.lanes.len();
        let before = k.checked_sub(1).map(|before| self.lanes[before].shape);
        let stage = &*self.chain.stages[k];
        let flight = &mut self.flights[number];
        let mut job = flight.enter(k, before);
        job.tag = number as u64;
        match flight.aim(&mut job, stage, k, is_last) {
            Ok(()) => {
                let lane = &mut self.lanes[k];
                lane.ready.push_back(job);
                lane.queue.submit(&mut lane.ready);
            }
            Err(error) => {
                let result = Err(error);
                self.leave(k, Completion { job, result });
            }
        }
    }

    /// Sends what stages have finished to the next ones, in the order of the stages: what is computed at once is through at once.
    fn go_on(&mut self) {
        let mut done = take(&mut self.done);
        for k in 0..self.lanes.len() {
            let lane = &mut self.lanes[k];
            if !lane.ready.is_empty() {
                lane.queue.submit(&mut lane.ready);
            }
            lane.queue.poll(&mut done);
            for completion in done.drain(..) {
                self.leave(k, completion);
            }
        }
        self.done = done;
    }

    /// Goes on with a job that stage `k` has finished.
    fn leave(&mut self, k: usize, done: Completion) {
        let number = done.job.tag as usize;
        let is_last = k + 1 == self.lanes.len();
        let flight = &mut self.flights[number];
        let result = flight.leave(done, k, is_last, self.lanes[k].shape);
        if result.is_ok() && !is_last {
            return self.enter(number, k + 1);
        }
        let job = flight.land(k, self.chain.shape, self.lanes[k].shape, &result);
        self.free.push(number);
        self.finished.push_back(Completion { job, result });
    }
}

impl Queue for ChainQueue {
    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len() + self.finished.len()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let taken = ready.len().min(self.flights.len() - self.in_flight());
        for job in ready.drain(..taken) {
            self.start(job);
        }
        if self.chain.limits.synchronous {
            self.go_on();
        }
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.go_on();
        let finished = self.finished.len();
        done.extend(self.finished.drain(..));
        finished
    }

    /// Waits for the only stage that has jobs; for the last of several, briefly, since any of them may finish first.
    fn wait(&mut self, timeout: Duration) {
        const BRIEFLY: Duration = Duration::from_micros(50);
        if !self.finished.is_empty() {
            return;
        }
        let busy = |lane: &&mut Lane| lane.queue.in_flight() > 0;
        let mut busy = self.lanes.iter_mut().rev().filter(busy);
        let (last, others) = (busy.next(), busy.next().is_some());
        if let Some(lane) = last {
            lane.queue.wait(if others {
                timeout.min(BRIEFLY)
            } else {
                timeout
            });
        }
    }
}

impl Chain {
    fn admit(&self, job: &mut Job) -> Result<(), JobError> {
        if let Memory::Output = job.src {
            let Ok(offset) = self.in_place else {
                return Err(JobError::NotInPlace);
            };
            return job
                .open_in_place(self.shape, &self.limits, offset)
                .map(drop);
        }
        job.admit(self.shape, &self.limits).map(drop)
    }
}

impl Flight {
    fn new(chain: &Chain, bytes: [usize; 2]) -> Result<Self, SetupError> {
        let items = chain.limits.items_max;
        let between = |bytes: usize| match bytes {
            0 => Ok(Buffers::default()),
            bytes => (chain.alloc)(bytes).map(Buffers::from),
        };
        let [even, odd] = bytes.map(between);
        let (none, outcomes) = (Buffers::default(), Vec::with_capacity(items));
        let [list, slots] = [0; 2].map(|_| Items::default());
        let inner = Job::with_slots(0, Memory::Output, list, none, slots, outcomes);
        Ok(Self {
            outer: None,
            inner: Some(inner),
            is_variable: chain.shape == OutputShape::Variable,
            is_in_place: false,
            has_slots: false,
            between: [even?, odd?],
            refused: Vec::with_capacity(items),
            // The items of a stage, those of the next, and slots.
            lists: SpareLists::new(3, items),
            ends: Vec::with_capacity(items),
        })
    }

    /// Takes the caller's job, which is checked.
    fn board(&mut self, job: Job) {
        let count = job.items.count();
        self.refused.clear();
        self.refused.resize(count, None);
        self.is_in_place = matches!(job.src, Memory::Output);
        self.ends.clear();
        if self.is_in_place {
            let slots = (0..count).map(|i| job.slots.place(i, &job.dst));
            self.ends.extend(slots.map(|slot| slot.start + slot.len));
        }
        self.outer = Some(job);
    }

    /// The stages' job, which reads what stage `k` is to read. The stage before has the shape `before`.
    fn enter(&mut self, k: usize, before: Option<OutputShape>) -> Job {
        let outer = self.outer.as_mut().expect("on its way");
        let mut job = self.inner.take().expect("between two stages");
        let Some(before) = before else {
            swap(&mut job.items, &mut outer.items);
            match self.is_in_place {
                true => swap(&mut job.dst, &mut outer.dst),
                false => swap(&mut job.src, &mut outer.src),
            }
            return job;
        };
        let mut list = self.lists.take();
        let outputs = job.outputs(before, &mut list);
        self.lists.keep(Items::Spans(list));
        if k == 1 {
            swap(&mut job.items, &mut outer.items);
        }
        self.lists.keep(replace(&mut job.items, outputs));
        self.lists.keep(take(&mut job.slots));
        if !self.is_in_place {
            job.src = Memory::Own(take(&mut job.dst));
        }
        job
    }

    /// Says where the outputs of stage `k` go.
    ///
    /// # Errors
    /// [`JobError::TooLong`] if they may need more memory than lies between two stages.
    fn aim(
        &mut self,
        job: &mut Job,
        stage: &dyn Operator,
        k: usize,
        is_last: bool,
    ) -> Result<(), JobError> {
        if is_last {
            return self.aim_last(job, stage.shape());
        }
        let mut list = self.lists.take();
        let mut places = (0..job.items.count()).map(|i| job.items.place(i, job.input()));
        let mut push = |place: Place| span(place).map(|span| list.push(span));
        let mut end = 0_usize;
        let pushed = if self.is_in_place {
            let offset = stage.in_place().unwrap_or(0);
            let mut places = places.zip(&self.ends);
            places.try_for_each(|(Place { buf, start, .. }, slot_end)| {
                let start = start + offset;
                let len = slot_end.saturating_sub(start);
                push(Place { buf, start, len })
            })
        } else if let OutputShape::Fixed(bytes) = stage.shape() {
            end = bytes.saturating_mul(places.len());
            Ok(())
        } else {
            places.try_for_each(|place| {
                let (buf, start, len) = (0, end, stage.dst_len(place.len));
                end = end.saturating_add(len);
                push(Place { buf, start, len })
            })
        };
        job.slots = Items::Spans(list);
        pushed?;
        if self.is_in_place {
            return Ok(());
        }
        let room = self.between[k % 2].first().map_or(0, |buf| buf.len());
        if end > room {
            return Err(JobError::TooLong);
        }
        if let OutputShape::Fixed(_) = stage.shape() {
            let slots = stage.shape().slots(room, job.items.count());
            self.lists.keep(replace(&mut job.slots, slots));
        }
        job.dst = take(&mut self.between[k % 2]);
        Ok(())
    }

    /// Lends the stages' job the caller's slots and, unless it has them already, the buffers.
    ///
    /// A last stage of a fixed shape fails a job that has a slot too short. If the chain's shape is variable, such an item is refused
    /// alone, and the stage gets the others.
    fn aim_last(&mut self, job: &mut Job, shape: OutputShape) -> Result<(), JobError> {
        let outer = self.outer.as_mut().expect("on its way");
        if !self.is_in_place {
            swap(&mut job.dst, &mut outer.dst);
        }
        let bytes = match shape {
            OutputShape::Fixed(bytes) if self.is_variable => bytes,
            _ => 0,
        };
        let slot = |i: usize| outer.slots.place(i, &job.dst);
        let mut all = 0..outer.slots.count();
        self.has_slots = all.all(|i| slot(i).len >= bytes);
        if self.has_slots {
            swap(&mut job.slots, &mut outer.slots);
            return Ok(());
        }
        let [mut items, mut slots] = [0; 2].map(|_| self.lists.take());
        let mut filled = Ok(());
        for (i, refused) in self.refused.iter_mut().enumerate() {
            let slot = slot(i);
            if slot.len < bytes {
                *refused = refused.or(Some(JobError::DstTooShort));
                continue;
            }
            match (span(job.items.place(i, job.input())), span(slot)) {
                (Ok(item), Ok(slot)) => {
                    items.push(item);
                    slots.push(slot);
                }
                (Err(error), _) | (_, Err(error)) => filled = Err(error),
            }
        }
        job.slots = Items::Spans(slots);
        self.lists
            .keep(replace(&mut job.items, Items::Spans(items)));
        filled
    }

    /// Takes the stages' job back from stage `k`, and what it read and, of the last stage, wrote from the job.
    fn leave(
        &mut self,
        done: Completion,
        k: usize,
        is_last: bool,
        shape: OutputShape,
    ) -> Result<(), JobError> {
        let Completion { mut job, result } = done;
        let outer = self.outer.as_mut().expect("on its way");
        if !self.is_in_place {
            match k.checked_sub(1) {
                None => swap(&mut job.src, &mut outer.src),
                Some(before) => {
                    if let Memory::Own(buffers) = replace(&mut job.src, Memory::Output) {
                        self.between[before % 2] = buffers;
                    }
                }
            }
        }
        if is_last {
            if take(&mut self.has_slots) {
                swap(&mut job.slots, &mut outer.slots);
            }
            if !self.is_in_place {
                swap(&mut job.dst, &mut outer.dst);
            }
        }
        if shape == OutputShape::Variable && result.is_ok() {
            for (refused, outcome) in self.refused.iter_mut().zip(&job.outcomes) {
                *refused = refused.or(outcome.err());
            }
        }
        self.inner = Some(job);
        result
    }

    /// The caller's job, behind stage `k`, which has the shape `of_stage`: the last one, or the one that failed.
    fn land(
        &mut self,
        k: usize,
        shape: OutputShape,
        of_stage: OutputShape,
        result: &Result<(), JobError>,
    ) -> Job {
        let mut outer = self.outer.take().expect("on its way");
        let mut job = self.inner.take().expect("back from its stage");
        if k == 0 {
            swap(&mut job.items, &mut outer.items);
        }
        if self.is_in_place {
            swap(&mut job.dst, &mut outer.dst);
        } else if !job.dst.is_empty() {
            self.between[k % 2] = take(&mut job.dst);
        }
        self.lists.keep(take(&mut job.items));
        self.lists.keep(take(&mut job.slots));
        if shape == OutputShape::Variable && result.is_ok() {
            let outcome = |(i, refused): (usize, &Option<JobError>)| match (refused, of_stage) {
                (Some(error), _) => Err(*error),
                (None, OutputShape::Fixed(bytes)) => Ok(bytes as u32),
                (None, OutputShape::Variable) => job.outcomes[i],
            };
            outer.outcomes.clear();
            let outcomes = self.refused.iter().enumerate().map(outcome);
            outer.outcomes.extend(outcomes);
        }
        self.inner = Some(job);
        outer
    }
}

/// # Errors
/// [`JobError::TooLong`] at 4 GiB or beyond.
fn span(place: Place) -> Result<Span, JobError> {
    let small = |n: usize| u32::try_from(n).map_err(|_| JobError::TooLong);
    Ok(Span {
        buf: small(place.buf)?,
        start: small(place.start)?,
        len: small(place.len)?,
    })
}
