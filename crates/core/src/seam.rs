//! Submission and completion with owned buffers: the one seam of dpb.
//!
//! [`Backend`] prepares an [`Operator`] once; each thread opens its own [`Queue`] into it; jobs go in, completions
//! come out, each with its buffers. A synchronous CPU kernel is the special case ([`Kernel`] and its lifts).
//!
//! **A job is a batch.** It carries one item or many, which lie anywhere in its [`Memory`]; every output is bytes in `dst`.
//! Item *i* writes at `i * slot`, where [`OutputShape::slot`] says how long a slot is: the fixed size, or for variable outputs an equal share of `dst`, so that
//! the caller decides. A `dst` of `items * operator.dst_len(longest item)` bytes fits whatever an encoder can produce.
//!
//! **A job that cannot be carried out still comes home.** The lifts check each job once, before its kernel sees it:
//! [`JobError::BadItems`], [`JobError::TooManyItems`], [`JobError::TooLong`], [`JobError::DstTooShort`] (fixed outputs
//! only). In a job of variable shape each item has its own outcome, and a slot that is too short refuses that item alone.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::{
    Batch, Buf, Clock, Evidence, Items, JobError, Memory, OpSpec, SetupError, Span, Unsupported,
};

/// What one backend can do for one operator; every field is a promise. Made by [`Limits::new`], then tightened field by
/// field, so that a backend keeps compiling when there is one more.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most jobs that one queue may hold.
    pub depth_max: NonZeroU32,
    /// Longest input that one job may carry, in bytes over all its items.
    pub input_bytes_max: usize,
    /// Longest single item, in bytes: an engine's largest buffer.
    pub item_bytes_max: usize,
    /// Most items that one job may carry: an engine's longest list.
    pub items_max: usize,
    /// Whether the work happens inside `submit`: depth then means burst, and latency has meaning only at depth one.
    pub synchronous: bool,
}

/// Where an operator puts what it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputShape {
    /// Exactly this many bytes per item. No item can be refused.
    Fixed(usize),
    /// Up to a slot per item, a slot being an equal share of `dst`; [`Job::outcomes`] says how long each output is, or
    /// why its item was refused.
    Variable,
}

/// One unit of work. The queue owns its buffers until the [`Completion`].
#[non_exhaustive]
#[derive(Debug)]
pub struct Job {
    /// The caller's own name for this job, returned untouched.
    pub tag: u64,
    /// The memory that the device reads.
    pub src: Memory,
    /// Where the items lie in `src`.
    pub items: Items,
    /// Written by the device; unique, so that nobody can see it half written. Bytes behind the last slot stay as they
    /// were.
    pub dst: Buf,
    /// For [`OutputShape::Variable`]: cleared and filled with one entry per item. Its capacity is the caller's, at
    /// least the number of items, so that a queue never allocates. Untouched for fixed outputs.
    pub outcomes: Vec<Result<u32, JobError>>,
}

/// A finished job: its buffers come home, whether it worked or not.
#[derive(Debug)]
pub struct Completion {
    /// The job, with `dst` and `outcomes` filled.
    pub job: Job,
    /// Whether the job as a whole was carried out. Single items of variable shape may still be refused. After an error
    /// `dst` and `outcomes` mean nothing.
    pub result: Result<(), JobError>,
}

/// Somewhere operators can run: an instruction set, a thread pool, a device, a model.
pub trait Backend: Send + Sync {
    /// Stable name, as written on the command line and in records: `cpu/portable`, `cpu/avx512`, `pool/2`, `sim/…`.
    fn name(&self) -> &str;
    /// The clock that its work is timed by; virtual for modelled devices.
    fn clock(&self) -> &dyn Clock;
    /// What its numbers rest on: [`Evidence::of_this_cpu`] for software, [`Evidence::of_device`] for devices.
    fn evidence(&self) -> Evidence;
    /// Allocates zeroed memory that this backend can reach without a copy, 64-byte aligned.
    ///
    /// # Errors
    /// [`SetupError::OutOfMemory`].
    fn alloc(&self, len: usize) -> Result<Buf, SetupError>;
    /// Says what it promises for `spec`, or why it cannot run it.
    ///
    /// # Errors
    /// A reason that a person can act on.
    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported>;
    /// Does everything that need happen only once: key schedules, tables, sessions, dispatch.
    ///
    /// # Errors
    /// [`SetupError::Unsupported`] with the reason that [`Backend::limits`] gives; [`SetupError::Parameter`] if the
    /// spec's own numbers are out of range.
    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError>;
}

/// A prepared operator: immutable, shared by all threads.
pub trait Operator: Send + Sync {
    /// What it computes.
    fn spec(&self) -> &OpSpec;
    /// Where outputs go.
    fn shape(&self) -> OutputShape;
    /// The longest output that an item of `item_len` bytes can need. For a decoder a suggestion: only the data knows,
    /// and the slot that the caller offers is the bound.
    fn dst_len(&self, item_len: usize) -> usize;
    /// Opens this thread's own lane, with its scratch, at most `depth` jobs deep. Everything is allocated here.
    ///
    /// # Errors
    /// [`SetupError::TooDeep`] beyond [`Limits::depth_max`]; [`SetupError::NoThread`] if a worker cannot be started.
    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError>;
}

/// One thread's lane into an operator. Not `Send`: open it where you poll it.
/// Each job taken yields exactly one completion; dropping a queue waits for the device.
pub trait Queue {
    /// Jobs taken and not yet completed.
    fn in_flight(&self) -> usize;
    /// Takes jobs from the front of `ready` until full; says how many. Neither waits nor allocates.
    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize;
    /// Appends finished jobs to `done`; says how many. Neither waits nor, if `done` has room, allocates.
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize;
}

/// The destination of a kernel: `slot` bytes per item, and one outcome per item if the shape is variable.
#[derive(Debug)]
pub struct BatchOut<'a> {
    /// Slots, one after another: exactly `slot * items` bytes.
    pub dst: &'a mut [u8],
    /// Bytes per slot.
    pub slot: usize,
    /// Empty, with room for one entry per item if the shape is variable; a kernel of variable shape pushes one per item.
    pub outcomes: &'a mut Vec<Result<u32, JobError>>,
}

/// A synchronous CPU kernel; `Inline<K>` and `Pooled<K>` lift it to an [`Operator`].
pub trait Kernel: Send + Sync + 'static {
    /// Working memory that is reused between calls, one per queue.
    type Scratch: Send;
    /// Allocates the scratch.
    fn scratch(&self) -> Self::Scratch;
    /// Where outputs go.
    fn shape(&self) -> OutputShape;
    /// See [`Operator::dst_len`].
    fn dst_len(&self, item_len: usize) -> usize;
    /// Computes the whole batch; allocates nothing. The lift has checked that every item lies inside its input and has
    /// a slot; afterwards it checks that the outcomes of variable shape are one per item and within their slots, or the job
    /// fails with [`JobError::BadOutcomes`]. A panic is caught there too: the job fails with [`JobError::Panicked`] and
    /// the scratch is built anew.
    ///
    /// # Errors
    /// What ends the whole job. A single item of variable shape is refused by its outcome instead.
    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut Self::Scratch,
    ) -> Result<(), JobError>;
}

/// A backend that is chosen at run time can be wrapped like one that is chosen at compile time.
impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn clock(&self) -> &dyn Clock {
        (**self).clock()
    }

    fn evidence(&self) -> Evidence {
        (**self).evidence()
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        (**self).alloc(len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        (**self).limits(spec)
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        (**self).prepare(spec)
    }
}

impl Limits {
    /// Limits of `depth_max` jobs a queue, without limits on lengths and counts, not synchronous.
    pub const fn new(depth_max: NonZeroU32) -> Self {
        Self {
            depth_max,
            input_bytes_max: usize::MAX,
            item_bytes_max: usize::MAX,
            items_max: usize::MAX,
            synchronous: false,
        }
    }

    /// The limits of two backends, one behind the other: the lower limit of each, and synchronous if both are.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            depth_max: self.depth_max.min(other.depth_max),
            input_bytes_max: self.input_bytes_max.min(other.input_bytes_max),
            item_bytes_max: self.item_bytes_max.min(other.item_bytes_max),
            items_max: self.items_max.min(other.items_max),
            synchronous: self.synchronous && other.synchronous,
        }
    }

    /// Whether a job over `batch` may be submitted.
    ///
    /// # Errors
    /// [`JobError::TooManyItems`]; [`JobError::TooLong`] for the whole input or an item.
    pub fn check(&self, batch: Batch<'_>) -> Result<(), JobError> {
        if batch.len() > self.items_max {
            return Err(JobError::TooManyItems);
        }
        // No item is longer than all together, so most jobs need no look at each.
        let bytes = batch.bytes();
        let is_too_long = bytes > self.input_bytes_max
            || bytes > self.item_bytes_max && batch.longest() > self.item_bytes_max;
        (!is_too_long).then_some(()).ok_or(JobError::TooLong)
    }
}

impl OutputShape {
    /// Bytes per slot in a `dst` of `dst_bytes` shared by `items` items.
    pub fn slot(self, dst_bytes: usize, items: usize) -> usize {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Variable => dst_bytes.checked_div(items).unwrap_or(0),
        }
    }
}

impl Job {
    /// A job for an operator of this `shape`, with room for its outcomes.
    pub fn new(
        tag: u64,
        src: impl Into<Memory>,
        items: Items,
        dst: Buf,
        shape: OutputShape,
    ) -> Self {
        let outcomes = match shape {
            OutputShape::Fixed(_) => 0,
            OutputShape::Variable => items.count(),
        };
        Self::recycled(tag, src, items, dst, Vec::with_capacity(outcomes))
    }

    /// A job of parts that other jobs have used before: nothing is allocated. Where outputs are variable, `outcomes` needs a
    /// capacity of one for each item; what it holds is forgotten.
    pub fn recycled(
        tag: u64,
        src: impl Into<Memory>,
        items: Items,
        dst: Buf,
        outcomes: Vec<Result<u32, JobError>>,
    ) -> Self {
        Self {
            tag,
            src: src.into(),
            items,
            dst,
            outcomes,
        }
    }

    /// What it reads, checked.
    ///
    /// # Errors
    /// [`JobError::BadItems`] if an item does not lie inside its buffer.
    pub fn batch(&self) -> Result<Batch<'_>, JobError> {
        Batch::of(&self.src, &self.items)
    }

    /// Where the outputs lie in `dst`, once the job is home and its result is `Ok`: what a next job, which takes `dst` as its
    /// [`Memory`], reads. Of a variable shape `spans` is filled, one for each item; an item that was refused has no bytes.
    ///
    /// # Panics
    /// If `dst` has 4 GiB or more, or [`Job::check_outcomes`] has something to say.
    pub fn outputs(&self, shape: OutputShape, mut spans: Vec<Span>) -> Items {
        let (count, small) = (self.items.count(), "below 4 GiB");
        let slot = u32::try_from(shape.slot(self.dst.len(), count)).expect(small);
        if let OutputShape::Fixed(_) = shape {
            return Items::fixed(slot, u32::try_from(count).expect(small));
        }
        assert_eq!(self.outcomes.len(), count, "an outcome for each item");
        spans.clear();
        spans.extend(
            self.outcomes
                .iter()
                .zip(0..)
                .map(|(outcome, i): (_, u32)| Span {
                    buf: 0,
                    start: i.checked_mul(slot).expect(small),
                    len: outcome.unwrap_or(0),
                }),
        );
        Items::Spans(spans)
    }

    /// Whether the outcomes are one per item, each length within its slot; of fixed outputs there are none to check. A
    /// queue owes this for every job whose result is `Ok`.
    ///
    /// # Errors
    /// [`JobError::BadOutcomes`].
    pub fn check_outcomes(&self, shape: OutputShape) -> Result<(), JobError> {
        let items = self.items.count();
        let slot = shape.slot(self.dst.len(), items);
        let fits =
            |outcome: &Result<u32, JobError>| !matches!(outcome, Ok(len) if *len as usize > slot);
        let is_right = match shape {
            OutputShape::Fixed(_) => true,
            OutputShape::Variable => self.outcomes.len() == items && self.outcomes.iter().all(fits),
        };
        is_right.then_some(()).ok_or(JobError::BadOutcomes)
    }

    /// What item `i` gave, once the job is home and its result is `Ok`.
    ///
    /// # Errors
    /// Why the item was refused.
    ///
    /// # Panics
    /// If there is no such item, the job was not carried out, or [`Job::check_outcomes`] has something to say.
    pub fn output(&self, shape: OutputShape, i: usize) -> Result<&[u8], JobError> {
        let slot = shape.slot(self.dst.len(), self.items.count());
        let len = match shape {
            OutputShape::Fixed(bytes) => bytes,
            OutputShape::Variable => self.outcomes[i]? as usize,
        };
        Ok(&self.dst[i * slot..][..slot][..len])
    }
}
