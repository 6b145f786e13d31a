//! Submission and completion with owned buffers: the one seam of dpb.
//!
//! [`Backend`] prepares an [`Operator`] once; each thread opens its own [`Queue`] into it; jobs go in, completions
//! come out, each with its buffers. A synchronous CPU kernel is the special case ([`Kernel`] and its lifts).
//!
//! **A job is a batch.** It carries one item or many, which lie anywhere in its [`Memory`]. Outputs are described as items
//! are: output *i* goes to slot *i*, and slots lie anywhere in the job's [`Buffers`], in the order of their addresses. Mostly
//! they lie one behind another in one buffer ([`OutputShape::slots`]): slots of the fixed size, or for variable outputs of an equal
//! share of the buffer. A slot of `operator.dst_len(item)` bytes fits whatever an encoder can produce.
//!
//! **In place.** A job of [`Memory::Output`] has no input but its output: outputs are written over items, if the operator does that
//! ([`Operator::in_place`]).
//!
//! **A job that cannot be carried out still comes home.** Each backend checks a job once ([`JobParts::admit`]):
//! [`JobError::BadItems`], [`JobError::TooManyItems`], [`JobError::TooLong`], [`JobError::DstTooShort`] where a slot does not
//! lie inside its buffer or is shorter than a fixed output. In a job of variable shape each item has its own outcome, and a
//! slot that is too short refuses that item alone.

use std::collections::VecDeque;
use std::mem::take;
use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    Batch, BatchOut, Buf, Buffers, Clock, Control, InPlace, Items, JobError, Memory, NotInPlace,
    OpSpec, Properties, Region, SetupError, Slots, Span, Stride, Unsupported,
};

/// The limits within which one backend runs one operator; every field is a promise. Made by [`Limits::new`], then tightened field by
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
    /// True if the work happens inside `submit`: depth then means burst, and latency has meaning only at depth one.
    pub synchronous: bool,
}

/// The shape of an operator's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputShape {
    /// Exactly this many bytes per item. No item can be refused.
    Fixed(usize),
    /// Up to a slot per item; [`JobParts::outcomes`] says how long each output is, or why its item was refused.
    Variable,
}

/// One unit of work. The queue owns it and its buffers until the [`Completion`].
///
/// Moving a job moves an address. A job that came home is the next job: write what changes into its [`JobParts`], and nothing is
/// allocated.
#[derive(Debug)]
pub struct Job(Box<JobParts>);

/// The parts of a job.
#[non_exhaustive]
#[derive(Debug)]
pub struct JobParts {
    /// The caller's own name for this job, returned untouched.
    pub tag: u64,
    /// The memory that the device reads, if it is not what it writes.
    pub src: Memory,
    /// The places of the items in [`JobParts::input`].
    pub items: Items,
    /// Written by the device; of this job alone, so that nobody can see them half written. Bytes outside of slots stay as
    /// they were.
    pub dst: Buffers,
    /// The places of the outputs in `dst`: a slot for each item, in the order of their addresses, none overlapping another.
    pub slots: Items,
    /// For [`OutputShape::Variable`]: cleared and filled with one entry per item. Its capacity is the caller's, at
    /// least the number of items, so that a queue never allocates. Untouched for fixed outputs.
    pub outcomes: Vec<Result<u32, JobError>>,
}

/// A finished job: its buffers come home, whether it worked or not.
#[derive(Debug)]
pub struct Completion {
    /// The job, with `dst` and `outcomes` filled.
    pub job: Job,
    /// The outcome of the job as a whole. Single items of variable shape may still be refused. After an error
    /// `dst` and `outcomes` mean nothing.
    pub result: Result<(), JobError>,
}

/// Somewhere operators can run: an instruction set, a thread pool, a device, a model.
pub trait Backend: Send + Sync {
    /// Stable name, as written on the command line and in records: `cpu/portable`, `cpu/avx512`, `pool/2`, `sim/…`.
    fn name(&self) -> &str;
    /// The clock that its work is timed by; virtual for modelled devices.
    fn clock(&self) -> &dyn Clock;
    /// The properties of the backend: the evidence that its numbers rest on, who carries out its jobs, its parts. [`Properties::of_this_cpu`] is all that a
    /// backend of plain software has to say.
    fn properties(&self) -> Properties;
    /// The code that computes `spec` here, with its version: `libdeflate, libdeflater 1.26.1`. By default the library of its
    /// [`properties`](Backend::properties). A backend that chooses among several says which it chooses.
    fn code(&self, _spec: &OpSpec) -> Option<String> {
        self.properties().made_of.library
    }
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
    /// spec's own numbers are out of range; [`SetupError::NoThread`] if a pool's worker cannot be started.
    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError>;
}

/// A prepared operator, shared by all threads: immutable but for the table that its [`Control`] changes, if it has one.
pub trait Operator: Send + Sync {
    /// The spec that it computes.
    fn spec(&self) -> &OpSpec;
    /// The shape of its outputs.
    fn shape(&self) -> OutputShape;
    /// The longest output that an item of `item_len` bytes can need. For a decoder a suggestion: only the data knows,
    /// and the slot that the caller offers is the bound.
    fn dst_len(&self, item_len: usize) -> usize;
    /// If it takes jobs whose input is their output ([`Memory::Output`]): how many bytes behind the start of an item its output
    /// begins. Each slot of such a job begins there, in the buffer of its item; where it ends is the caller's choice. Items come in
    /// the order of their addresses, and an item and its slot overlap no others. What an item held is lost, even if it is refused.
    /// A wrapper hands on what is inside.
    ///
    /// # Errors
    /// Why it takes none; by default the reason that its shape gives ([`OutputShape::not_in_place`]).
    fn in_place(&self) -> Result<usize, NotInPlace> {
        Err(self.shape().not_in_place())
    }
    /// The handle that changes its table while queues run, if it has such a table. A wrapper hands on what is inside.
    fn control(&self) -> Option<Arc<dyn Control>> {
        None
    }
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
    /// Takes jobs from the front of `ready` until full; says how many. Neither waits nor allocates. The exception are kernels that allocate
    /// while they compute, as libraries for large numbers do: whoever has such a kernel says so where the operator is described
    /// (`Entry::allocates` of dpb's operators).
    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize;
    /// Appends finished jobs to `done`; says how many. Neither waits nor, if `done` has room, allocates.
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize;
    /// Sleeps until a job has finished, at most for `timeout`; returns at once if nothing is in flight. It may return before a job has
    /// finished: `poll` says. By default it is a short sleep, for devices that wake nobody; a queue on virtual time, which
    /// polling moves, must replace it. A queue with a [`Queue::file`] arms that file and sleeps in `poll(2)`; if a job had finished
    /// before, it does not sleep.
    fn wait(&mut self, timeout: Duration) {
        const NAP: Duration = Duration::from_micros(50);
        if self.in_flight() > 0 {
            std::thread::sleep(timeout.min(NAP));
        }
    }
    /// The file that becomes readable when a job may have finished, for who waits for other files too (`poll(2)`, `epoll(7)`, a runtime).
    /// `None` where the device has none: software, and devices that must be polled. It is the same file as long as the queue lives.
    /// Nobody but the queue reads it.
    ///
    /// [`Queue::wait`] arms the file, if jobs are in flight; with a timeout of zero it does nothing else. An armed file becomes readable
    /// once, when the device has finished something, and stays readable until the next `wait`. A job that has finished before the file
    /// was armed need not make it readable. So the caller polls between arming and sleeping:
    ///
    /// ```text
    /// loop {
    ///     queue.wait(Duration::ZERO);          // arms the file
    ///     if queue.poll(&mut done) > 0 { … }   // the jobs that have finished before
    ///     else { poll(2) on the file and on others }
    /// }
    /// ```
    ///
    /// The file never replaces [`Queue::poll`]. A readable file says that `poll` may have something to do, not that a job is home; and a
    /// job that the device gets in several parts goes on in `poll` alone.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A synchronous CPU kernel; `Inline<K>` and `Pooled<K>` lift it to an [`Operator`].
pub trait Kernel: Send + Sync + 'static {
    /// Working memory that is reused between calls: one for each queue, and there for each thread that works for it.
    type Scratch: Send;
    /// Allocates the scratch.
    fn scratch(&self) -> Self::Scratch;
    /// The shape of its outputs.
    fn shape(&self) -> OutputShape;
    /// See [`Operator::dst_len`].
    fn dst_len(&self, item_len: usize) -> usize;
    /// See [`Operator::in_place`]. A kernel that works so has [`Kernel::run_in_place`].
    ///
    /// # Errors
    /// Why it does not.
    fn in_place(&self) -> Result<usize, NotInPlace> {
        Err(self.shape().not_in_place())
    }
    /// See [`Operator::control`]. What a job reads of the table comes from a [`crate::versions::Reader`] in its scratch, which enters once a job.
    fn control(&self) -> Option<Arc<dyn Control>> {
        None
    }
    /// Computes the whole batch; allocates nothing, see [`Queue::submit`]. The lift has checked that every item lies inside its input and has
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
    /// As [`Kernel::run`], where outputs are written over their items.
    ///
    /// # Errors
    /// [`JobError::NotInPlace`] if it cannot; otherwise as [`Kernel::run`].
    fn run_in_place(
        &self,
        _items: InPlace<'_>,
        _scratch: &mut Self::Scratch,
    ) -> Result<(), JobError> {
        Err(JobError::NotInPlace)
    }
}

/// A backend that is chosen at run time can be wrapped like one that is chosen at compile time.
macro_rules! behind_pointer {
    ($($pointer:ident),+) => {$(
        impl<B: Backend + ?Sized> Backend for $pointer<B> {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn clock(&self) -> &dyn Clock {
                (**self).clock()
            }

            fn properties(&self) -> Properties {
                (**self).properties()
            }

            fn code(&self, spec: &OpSpec) -> Option<String> {
                (**self).code(spec)
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
    )+};
}

behind_pointer!(Arc, Box);

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

    /// Checks whether a job over `batch` may be submitted.
    ///
    /// # Errors
    /// [`JobError::TooManyItems`]; [`JobError::TooLong`] for the whole input or an item.
    #[inline]
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
    /// The usual slots for the outputs of `items` items: one right behind another in one buffer of `dst_bytes`. Of a variable shape each
    /// gets an equal share of the buffer.
    pub fn slots(self, dst_bytes: usize, items: usize) -> Items {
        let len = match self {
            Self::Fixed(bytes) => bytes,
            Self::Variable => dst_bytes.checked_div(items).unwrap_or(0),
        };
        // No output is longer than an outcome can say; a fixed one would be found not to fit.
        let [len, count] = [len, items].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        Items::fixed(len, count)
    }

    /// Why operators of this shape mostly do not work in place. One that has a reason of its own says that instead.
    pub fn not_in_place(self) -> NotInPlace {
        NotInPlace::new(match self {
            Self::Fixed(_) => {
                "an output of fixed length tells something of its item and does not take its place; give the outputs slots \
                 outside of the items"
            }
            Self::Variable => {
                "an item is still read while its output is written; give the outputs slots outside of the items"
            }
        })
    }

    /// Whether the shortest of `items` slots, and the list of outcomes, which is cleared, have room for what is put there.
    #[inline]
    fn admit(
        self,
        items: usize,
        shortest_slot: impl FnOnce() -> usize,
        outcomes: &mut Vec<Result<u32, JobError>>,
    ) -> Result<(), JobError> {
        match self {
            Self::Fixed(bytes) if shortest_slot() < bytes => return Err(JobError::DstTooShort),
            Self::Fixed(_) => {}
            Self::Variable if outcomes.capacity() < items => return Err(JobError::BadItems),
            Self::Variable => outcomes.clear(),
        }
        Ok(())
    }
}

impl Job {
    /// A job for an operator of this `shape`, with the usual slots ([`OutputShape::slots`]) and room for its outcomes.
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
        let slots = shape.slots(dst.len(), items.count());
        Self::with_slots(tag, src, items, dst, slots, Vec::with_capacity(outcomes))
    }

    /// A job whose outputs go to `slots` in `dst`. Where outputs are variable, `outcomes` needs a capacity of one for each item; what it
    /// holds is forgotten.
    pub fn with_slots(
        tag: u64,
        src: impl Into<Memory>,
        items: Items,
        dst: impl Into<Buffers>,
        slots: Items,
        outcomes: Vec<Result<u32, JobError>>,
    ) -> Self {
        Self(Box::new(JobParts {
            tag,
            src: src.into(),
            items,
            dst: dst.into(),
            slots,
            outcomes,
        }))
    }

    /// Takes the job apart.
    pub fn into_parts(self) -> JobParts {
        *self.0
    }
}

impl Deref for Job {
    type Target = JobParts;

    #[inline]
    fn deref(&self) -> &JobParts {
        &self.0
    }
}

impl DerefMut for Job {
    #[inline]
    fn deref_mut(&mut self) -> &mut JobParts {
        &mut self.0
    }
}

impl JobParts {
    /// The buffers that items lie in.
    #[inline]
    pub fn input(&self) -> &[Buf] {
        match &self.src {
            Memory::Output => &self.dst,
            memory => memory,
        }
    }

    /// The items that it reads, checked. Of a job that was carried out in place these are the bytes that lie there now.
    ///
    /// # Errors
    /// [`JobError::BadItems`] if an item does not lie inside its buffer.
    pub fn batch(&self) -> Result<Batch<'_>, JobError> {
        Batch::of(self.input(), &self.items)
    }

    /// What it reads and where it writes, for an operator of `shape` on a backend of `limits`. With [`JobParts::open_in_place`] the
    /// only place where jobs are checked. Outcomes of a variable shape are cleared.
    ///
    /// # Errors
    /// See the module's documentation. [`JobError::NotInPlace`] for a job whose input is its output.
    pub fn open(
        &mut self,
        shape: OutputShape,
        limits: &Limits,
    ) -> Result<(Batch<'_>, BatchOut<'_>), JobError> {
        if let Memory::Output = self.src {
            return Err(JobError::NotInPlace);
        }
        let batch = Batch::of(&self.src, &self.items)?;
        limits.check(batch)?;
        if self.slots.count() != batch.len() {
            return Err(JobError::BadItems);
        }
        let out = BatchOut::of(&mut self.dst, &self.slots, &mut self.outcomes)?;
        shape.admit(batch.len(), || out.slots.shortest(), out.outcomes)?;
        Ok((batch, out))
    }

    /// [`JobParts::open`] for jobs of the usual layout: items at a stride in one buffer, slots at one in another. `None` for others, and for
    /// those that `open` refuses.
    // Within its caller, and with one way to what it makes: where two ways meet, what they made is copied just after it was written in
    // parts, which takes longer than all these checks.
    #[inline(always)]
    pub(crate) fn open_strided(
        &mut self,
        shape: OutputShape,
        limits: &Limits,
    ) -> Option<(Batch<'_>, BatchOut<'_>)> {
        let (Items::Strided(items), Items::Strided(slots)) = (&self.items, &self.slots) else {
            return None;
        };
        let ([src], [dst]) = (&*self.src, &mut *self.dst) else {
            return None;
        };
        let [count, item_bytes] = [items.count, items.len].map(|n| n as usize);
        let bytes = item_bytes * count;
        let has_room = match shape {
            OutputShape::Fixed(bytes) => slots.len as usize >= bytes,
            OutputShape::Variable => self.outcomes.capacity() >= count,
        };
        // One branch for all.
        let is_admitted = (count > 0)
            & (slots.count == items.count)
            & (slots.len <= slots.step)
            & (count <= limits.items_max)
            & (bytes <= limits.input_bytes_max)
            & (item_bytes <= limits.item_bytes_max)
            & has_room;
        if !is_admitted {
            return None;
        }
        let batch = Batch::at_stride(src, items)?;
        let slots = Slots::at_stride(dst, slots)?;
        if let OutputShape::Variable = shape {
            self.outcomes.clear();
        }
        let outcomes = &mut self.outcomes;
        Some((batch, BatchOut { slots, outcomes }))
    }

    /// [`JobParts::open`] for a job whose input is its output, of an operator whose outputs begin `offset` bytes behind the start of
    /// their items.
    ///
    /// # Errors
    /// As [`JobParts::open`]; [`JobError::BadItems`] also where a slot does not begin there, or where an item or its slot overlaps
    /// another's or comes before it.
    #[inline(always)]
    pub fn open_in_place(
        &mut self,
        shape: OutputShape,
        limits: &Limits,
        offset: usize,
    ) -> Result<InPlace<'_>, JobError> {
        let batch = Batch::of(&self.dst, &self.items)?;
        limits.check(batch)?;
        let count = batch.len();
        let items = [&self.items, &self.slots];
        let work = InPlace::of(&mut self.dst, items, offset, &mut self.outcomes)?;
        shape.admit(count, || work.items.shortest_slot(), work.outcomes)?;
        Ok(work)
    }

    /// [`JobParts::open`] for a device, which computes with addresses: how many items there are.
    ///
    /// # Errors
    /// As [`JobParts::open`].
    pub fn admit(&mut self, shape: OutputShape, limits: &Limits) -> Result<usize, JobError> {
        self.open(shape, limits).map(|(batch, _)| batch.len())
    }

    /// [`JobParts::open_in_place`] for a device, which computes with addresses: how many items there are.
    ///
    /// # Errors
    /// As [`JobParts::open_in_place`].
    pub fn admit_in_place(
        &mut self,
        shape: OutputShape,
        limits: &Limits,
        offset: usize,
    ) -> Result<usize, JobError> {
        let work = self.open_in_place(shape, limits, offset)?;
        Ok(work.items.len())
    }

    /// True if all buffers that it reads and writes are of regions that `is_known` accepts.
    pub fn all_regions(&self, is_known: impl Fn(&dyn Region) -> bool) -> bool {
        let mut bufs = self.src.iter().chain(&*self.dst);
        bufs.all(|buf| is_known(buf.region()))
    }

    /// The places of the outputs in `dst`, once the job is home and its result is `Ok`: the items of a next job, which takes `dst` as its
    /// [`Memory`]. If outputs of one length lie at a stride, so do these items, and `spans` stays as it is; else the list is taken
    /// out of `spans` and filled, one for each item. An item that was refused has no bytes.
    ///
    /// # Panics
    /// If a slot starts at 4 GiB or behind it, or [`JobParts::check_outcomes`] has something to say.
    pub fn outputs(&self, shape: OutputShape, spans: &mut Vec<Span>) -> Items {
        let small = |n: usize| u32::try_from(n).expect("below 4 GiB");
        if let (OutputShape::Fixed(bytes), Items::Strided(slots)) = (shape, &self.slots) {
            let len = small(bytes);
            return Items::Strided(Stride { len, ..*slots });
        }
        let mut list = take(spans);
        list.clear();
        list.extend((0..self.items.count()).map(|i| {
            let slot = self.slots.place(i, &self.dst);
            Span {
                buf: small(slot.buf),
                start: small(slot.start),
                len: small(self.len(shape, i).unwrap_or(0)),
            }
        }));
        Items::Spans(list)
    }

    /// Whether the outcomes are one per item, each length within its slot; of fixed outputs there are none to check. A
    /// queue owes this for every job whose result is `Ok`.
    ///
    /// # Errors
    /// [`JobError::BadOutcomes`].
    #[inline]
    pub fn check_outcomes(&self, shape: OutputShape) -> Result<(), JobError> {
        match shape {
            OutputShape::Fixed(_) => Ok(()),
            OutputShape::Variable => self.check_each_outcome(),
        }
    }

    fn check_each_outcome(&self) -> Result<(), JobError> {
        let outcomes = &self.outcomes[..];
        let fits = |outcome: &Result<u32, JobError>, slot_len: u32| !matches!(outcome, Ok(len) if *len > slot_len);
        // One question for each layout, not for each item.
        let all_fit = match &self.slots {
            Items::Strided(stride) => outcomes.iter().all(|outcome| fits(outcome, stride.len)),
            Items::Spans(spans) => {
                let mut pairs = outcomes.iter().zip(spans);
                pairs.all(|(outcome, span)| fits(outcome, span.len))
            }
            Items::One | Items::Offsets(_) => {
                let mut outcomes = outcomes.iter().enumerate();
                let len = |i: usize| self.slots.place(i, &self.dst).len;
                outcomes
                    .all(|(i, outcome)| !matches!(outcome, Ok(bytes) if *bytes as usize > len(i)))
            }
        };
        let is_right = outcomes.len() == self.items.count() && all_fit;
        is_right.then_some(()).ok_or(JobError::BadOutcomes)
    }

    /// The output of item `i`, once the job is home and its result is `Ok`.
    ///
    /// # Errors
    /// Why the item was refused.
    ///
    /// # Panics
    /// If there is no such item, the job was not carried out, or [`JobParts::check_outcomes`] has something to say.
    pub fn output(&self, shape: OutputShape, i: usize) -> Result<&[u8], JobError> {
        assert!(i < self.items.count(), "item {i} of {}", self.items.count());
        let len = self.len(shape, i)?;
        let slot = self.slots.place(i, &self.dst).bytes(&self.dst);
        Ok(&slot[..len])
    }

    /// Bytes that item `i` gave.
    fn len(&self, shape: OutputShape, i: usize) -> Result<usize, JobError> {
        match shape {
            OutputShape::Fixed(bytes) => Ok(bytes),
            OutputShape::Variable => Ok(self.outcomes[i]? as usize),
        }
    }
}
