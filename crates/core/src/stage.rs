//! One operator, used by one job at a time: [`Stage`], for programs in steps.
//!
//! A stage keeps its job and uses it again and again, so that after the first bursts nothing is allocated, whichever ways of running
//! alternate. The memory that it reads is lent to it for the call, and nothing is copied. A program that wants several jobs in flight opens an [`Operator`]'s queue itself.
//!
//! ```
//! use dpb_core::{Buf, Items, Span, Stage};
//! # use dpb_core::{Batch, BatchOut, Inline, JobError, Kernel, Limits, OpSpec, OutputShape};
//! # struct Sum;
//! # impl Kernel for Sum {
//! #     type Scratch = ();
//! #     fn scratch(&self) {}
//! #     fn shape(&self) -> OutputShape { OutputShape::Fixed(1) }
//! #     fn dst_len(&self, _: usize) -> usize { 1 }
//! #     fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, _: &mut ()) -> Result<(), JobError> {
//! #         out.each(batch, |item, slot| slot[0] = item.iter().sum());
//! #         Ok(())
//! #     }
//! # }
//! # let limits = Limits::new(std::num::NonZeroU32::MIN);
//! # let operator = std::sync::Arc::new(Inline::new(Sum, OpSpec::custom("sum", []), limits));
//! // `operator` adds the bytes of each item, and is what a backend prepared. Bursts have up to 64 items.
//! let mut stage = Stage::new(operator, 64, 1, |len| Ok(Buf::zeroed(len).expect("memory")))?;
//! let mut packet = Buf::zeroed(8).expect("memory");
//! packet.copy_from_slice(&[9, 1, 2, 3, 9, 4, 5, 6]);
//! let packet = packet.freeze();
//! let part = |start| Span { buf: 0, start, len: 3 };
//! let sums = stage.run(&packet, &[part(1), part(5)])?;
//! assert_eq!(sums.get(0)?, [6]);
//! assert_eq!(sums.get(1)?, [15]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::mem::{replace, take};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::items::SpareLists;
use crate::patience::Silence;
use crate::{
    Buf, Buffers, Clock, Completion, Items, Job, JobError, Memory, Operator, OutputShape, Queue,
    SetupError, Span, View, WallClock,
};

/// One operator, its queue, and the one job that goes through it.
pub struct Stage {
    operator: Arc<dyn Operator>,
    queue: Box<dyn Queue>,
    items_max: usize,
    slot_bytes: u32,
    /// At home between two calls. `None` once it was lost.
    job: Option<Job>,
    /// Lists that the job does not need in this call.
    lists: SpareLists,
    ready: VecDeque<Job>,
    done: Vec<Completion>,
    clock: Arc<dyn Clock>,
    patience: Duration,
}

/// The reason why a stage gave no outputs.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageError {
    /// The job as a whole was not carried out. What was lent is home again.
    Job(JobError),
    /// The device did not give the job back, in this call within the time that is named, or in an earlier one. What was lent is the
    /// device's for good.
    Lost(Duration),
}

/// The outputs of a call, in the order of its items.
#[derive(Clone, Copy)]
pub struct Outputs<'a> {
    job: &'a Job,
    shape: OutputShape,
}

impl Stage {
    /// The longest time that a device may be silent, by default.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// A stage for up to `items_max` items a call. Each output has up to `slot_bytes`; of an operator with outputs of a fixed length that
    /// length counts, if it is more. `alloc` gives memory that the operator's backend reaches, as [`Backend::alloc`](crate::Backend::alloc).
    ///
    /// # Errors
    /// If there is no memory, or the queue cannot be opened.
    pub fn new(
        operator: Arc<dyn Operator>,
        items_max: usize,
        slot_bytes: u32,
        alloc: impl FnOnce(usize) -> Result<Buf, SetupError>,
    ) -> Result<Self, SetupError> {
        let slot_bytes = match operator.shape() {
            OutputShape::Fixed(bytes) => slot_bytes.max(u32::try_from(bytes).unwrap_or(u32::MAX)),
            OutputShape::Variable => slot_bytes,
        };
        let dst = alloc(items_max.saturating_mul(slot_bytes as usize))?;
        let none = Items::default;
        let outcomes = Vec::with_capacity(items_max);
        let job = Job::with_slots(0, Memory::Output, none(), dst, none(), outcomes);
        Ok(Self {
            queue: operator.clone().open(NonZeroU32::MIN)?,
            operator,
            items_max,
            slot_bytes,
            job: Some(job),
            lists: SpareLists::new(2, items_max),
            ready: VecDeque::with_capacity(1),
            done: Vec::with_capacity(1),
            clock: Arc::new(WallClock::default()),
            patience: Self::PATIENCE,
        })
    }

    /// Waits for its device for `patience` by `clock`, instead of ten seconds by the wall clock.
    #[must_use]
    pub fn with_patience(self, clock: Arc<dyn Clock>, patience: Duration) -> Self {
        Self {
            clock,
            patience,
            ..self
        }
    }

    /// The operator of the stage.
    pub fn operator(&self) -> &dyn Operator {
        &*self.operator
    }

    /// Carries out `items`, which lie in `memory`. Sleeps until that is done.
    ///
    /// # Errors
    /// If the job cannot be carried out; a single item of variable shape is refused by itself.
    pub fn run(&mut self, memory: &View, items: &[Span]) -> Result<Outputs<'_>, StageError> {
        self.read(&mut Memory::Shared(memory.clone()), items)
    }

    /// [`Stage::run`] for items that lie in buffers of the caller's own.
    ///
    /// # Errors
    /// As [`Stage::run`].
    pub fn run_over(
        &mut self,
        memory: &mut Buffers,
        items: &[Span],
    ) -> Result<Outputs<'_>, StageError> {
        let mut lent = Memory::Own(take(memory));
        let result = self.read(&mut lent, items).map(|_| ());
        if let Memory::Own(buffers) = lent {
            *memory = buffers;
        }
        result.and_then(|()| self.outputs())
    }

    /// [`Stage::run`] where the outputs of the last call of `before` are the items, each where it lies; one that was refused there has
    /// no bytes.
    ///
    /// # Errors
    /// As [`Stage::run`]; the outputs of `before` are lost where the job is.
    pub fn run_behind(&mut self, before: &mut Self) -> Result<Outputs<'_>, StageError> {
        let mut earlier = before.take_job()?;
        let mut job = match self.take_job() {
            Ok(job) => job,
            Err(lost) => {
                before.job = Some(earlier);
                return Err(lost);
            }
        };
        self.lists.keep(take(&mut job.items));
        let mut list = self.lists.take();
        job.items = earlier.outputs(before.operator.shape(), &mut list);
        self.lists.keep(Items::Spans(list));
        job.src = Memory::Own(take(&mut earlier.dst));
        let result = self.send_to_slots(job);
        if let Some(job) = &mut self.job
            && let Memory::Own(buffers) = replace(&mut job.src, Memory::Output)
        {
            earlier.dst = buffers;
        }
        before.job = Some(earlier);
        result?.map_err(StageError::Job)?;
        self.outputs()
    }

    /// Takes the memory that the outputs of the last call lie in. So outputs are handed on without a copy: output `i` lies in slot `i`,
    /// and all slots have the bytes that [`Stage::new`] was told. The next call needs other memory ([`Stage::give_memory`]), or its job
    /// fails.
    ///
    /// # Errors
    /// [`StageError::Lost`].
    pub fn take_memory(&mut self) -> Result<Buffers, StageError> {
        let lost = self.lost();
        let job = self.job.as_mut().ok_or(lost)?;
        Ok(take(&mut job.dst))
    }

    /// Gives memory for the outputs of later calls.
    ///
    /// # Errors
    /// [`StageError::Lost`].
    ///
    /// # Panics
    /// If `memory` has no room for the outputs of a call.
    pub fn give_memory(&mut self, memory: Buf) -> Result<(), StageError> {
        let (lost, needed) = (self.lost(), self.items_max * self.slot_bytes as usize);
        assert!(memory.len() >= needed, "room for all outputs");
        let job = self.job.as_mut().ok_or(lost)?;
        job.dst = memory.into();
        Ok(())
    }

    /// Writes over items that lie in `memory`, in the order of their addresses; the output of each goes to its slot, which begins as far
    /// behind the item's start as [`Operator::in_place`] says. Gives the length of each output.
    ///
    /// # Errors
    /// As [`Stage::run`]; [`JobError::NotInPlace`] if the operator does not do that here, for the reason that [`Operator::in_place`] gives.
    pub fn run_in_place(
        &mut self,
        memory: &mut Buffers,
        items: &[Span],
        slots: &[Span],
    ) -> Result<impl ExactSizeIterator<Item = Result<usize, JobError>> + '_, StageError> {
        let mut job = self.take_job()?;
        self.fill(&mut job.items, items);
        self.fill(&mut job.slots, slots);
        let own = replace(&mut job.dst, take(memory));
        let result = self.send(job)?;
        let job = self.job.as_mut().expect("it came home");
        *memory = replace(&mut job.dst, own);
        result.map_err(StageError::Job)?;
        let job = self.job.as_ref().expect("it came home");
        let shape = self.operator.shape();
        Ok((0..job.items.count()).map(move |i| match shape {
            OutputShape::Fixed(bytes) => Ok(bytes),
            OutputShape::Variable => job.outcomes[i].map(|len| len as usize),
        }))
    }

    fn read(&mut self, memory: &mut Memory, items: &[Span]) -> Result<Outputs<'_>, StageError> {
        let mut job = self.take_job()?;
        self.fill(&mut job.items, items);
        job.src = replace(memory, Memory::Output);
        let result = self.send_to_slots(job)?;
        let job = self.job.as_mut().expect("it came home");
        *memory = replace(&mut job.src, Memory::Output);
        result.map_err(StageError::Job)?;
        self.outputs()
    }

    fn outputs(&self) -> Result<Outputs<'_>, StageError> {
        let job = self.job.as_ref().ok_or(self.lost())?;
        let shape = self.operator.shape();
        Ok(Outputs { job, shape })
    }

    fn take_job(&mut self) -> Result<Job, StageError> {
        self.job.take().ok_or(self.lost())
    }

    fn lost(&self) -> StageError {
        StageError::Lost(self.patience)
    }

    /// Sends a job whose outputs go to the stage's own memory.
    fn send_to_slots(&mut self, mut job: Job) -> Result<Result<(), JobError>, StageError> {
        let count = u32::try_from(job.items.count()).unwrap_or(u32::MAX);
        let slots = replace(&mut job.slots, Items::fixed(self.slot_bytes, count));
        self.lists.keep(slots);
        self.send(job)
    }

    /// Makes `items` these spans, in a list that there is.
    fn fill(&mut self, items: &mut Items, spans: &[Span]) {
        self.lists.keep(take(items));
        let mut list = self.lists.take();
        list.extend_from_slice(spans);
        *items = Items::Spans(list);
    }

    /// Sends the job, and waits until it is home.
    fn send(&mut self, job: Job) -> Result<Result<(), JobError>, StageError> {
        if job.items.count() > self.items_max {
            self.job = Some(job);
            return Ok(Err(JobError::TooManyItems));
        }
        self.ready.push_back(job);
        self.queue.submit(&mut self.ready);
        let mut silence = Silence::default();
        while self.queue.poll(&mut self.done) == 0 {
            if silence.lasts(&*self.clock) > self.patience {
                return Err(self.lost());
            }
            self.queue.wait(self.patience);
        }
        let Completion { job, result } = self.done.pop().expect("a job came home");
        self.job = Some(job);
        Ok(result)
    }
}

impl<'a> Outputs<'a> {
    /// The output of item `i`.
    ///
    /// # Errors
    /// Why the item was refused.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn get(&self, i: usize) -> Result<&'a [u8], JobError> {
        self.job.output(self.shape, i)
    }

    /// The number of outputs: one for each item.
    pub fn len(&self) -> usize {
        self.job.items.count()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes, one output right behind another, if each fills its slot.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        let Items::Strided(slots) = &self.job.slots else {
            return None;
        };
        let is_full = match self.shape {
            OutputShape::Fixed(bytes) => bytes == slots.len as usize,
            OutputShape::Variable => self.job.outcomes.iter().all(|len| *len == Ok(slots.len)),
        };
        is_full.then(|| &self.job.dst[0][..slots.len as usize * self.len()])
    }

    /// Each in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Result<&'a [u8], JobError>> + use<'a> {
        let outputs = *self;
        (0..self.len()).map(move |i| outputs.get(i))
    }
}

impl fmt::Debug for Outputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stage({})", self.operator.spec())
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(error) => write!(f, "the job was not carried out: {error}"),
            Self::Lost(patience) => write!(f, "the device did not answer within {patience:?}"),
        }
    }
}

impl std::error::Error for StageError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Batch, BatchOut, InPlace, Inline, Kernel, Limits, NotInPlace, OpSpec, Pool, Pooled,
        VirtualClock,
    };

    /// Gives each item backwards; refuses those that begin with zero.
    struct Backwards;

    impl Kernel for Backwards {
        type Scratch = ();

        fn scratch(&self) {}

        fn shape(&self) -> OutputShape {
            OutputShape::Variable
        }

        fn dst_len(&self, item_len: usize) -> usize {
            item_len
        }

        fn in_place(&self) -> Result<usize, NotInPlace> {
            Ok(1)
        }

        fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
            out.each_outcome(batch, |item, slot| {
                let slot = slot.get_mut(..item.len()).ok_or(JobError::DstTooShort)?;
                slot.copy_from_slice(item);
                slot.reverse();
                match item {
                    [0, ..] => Err(JobError::Malformed),
                    _ => Ok(item.len() as u32),
                }
            });
            Ok(())
        }

        /// The first byte stays.
        fn run_in_place(&self, work: InPlace<'_>, (): &mut ()) -> Result<(), JobError> {
            for overlay in work.items {
                overlay.bytes[1..overlay.item_len].reverse();
                work.outcomes.push(Ok(overlay.item_len as u32 - 1));
            }
            Ok(())
        }
    }

    fn operator(workers: Option<u32>) -> Arc<dyn Operator> {
        let spec = OpSpec::custom("backwards", []);
        let limits = Limits::new(NonZeroU32::MIN);
        match workers {
            None => Arc::new(Inline::new(Backwards, spec, limits)),
            Some(count) => {
                let pool = Pool::new(NonZeroU32::new(count).unwrap()).unwrap();
                Arc::new(Pooled::new(Backwards, spec, limits, pool))
            }
        }
    }

    fn stage(workers: Option<u32>) -> Stage {
        let alloc = |len| Ok(Buf::zeroed(len).unwrap());
        Stage::new(operator(workers), 4, 8, alloc).unwrap()
    }

    fn buf(bytes: &[u8]) -> Buf {
        let mut buf = Buf::zeroed(bytes.len()).unwrap();
        buf.copy_from_slice(bytes);
        buf
    }

    fn span(buf: u32, start: u32, len: u32) -> Span {
        Span { buf, start, len }
    }

    #[test]
    fn items_are_read_wherever_they_lie() {
        for workers in [None, Some(2)] {
            let mut stage = stage(workers);
            let memory = buf(&[1, 2, 3, 0, 5]).freeze();
            let shared = [span(0, 3, 2), span(0, 0, 3)];
            let outputs = stage.run(&memory, &shared).unwrap();
            assert_eq!(outputs.get(0), Err(JobError::Malformed));
            assert_eq!(outputs.get(1), Ok(&[3, 2, 1][..]));
            assert_eq!((outputs.len(), outputs.bytes()), (2, None));
            let mut packets = Buffers::from(vec![buf(&[1, 2]), buf(&[7, 8, 9])]);
            let addresses = [packets[0].as_ptr(), packets[1].as_ptr()];
            let parts = [span(1, 1, 2), span(0, 0, 2)];
            let outputs = stage.run_over(&mut packets, &parts).unwrap();
            assert!(outputs.iter().eq([Ok(&[9, 8][..]), Ok(&[2, 1][..])]));
            assert_eq!([packets[0].as_ptr(), packets[1].as_ptr()], addresses);
            assert!(stage.run(&memory, &[]).unwrap().is_empty());
        }
    }

    #[test]
    fn what_one_stage_writes_another_reads() {
        let (mut first, mut second) = (stage(None), stage(Some(1)));
        let memory = buf(&[1, 2, 3, 0, 5]).freeze();
        for _ in 0..3 {
            let written = first.run(&memory, &[span(0, 0, 3), span(0, 3, 2), span(0, 1, 2)]);
            let written = written.unwrap().get(0).unwrap().as_ptr();
            let outputs = second.run_behind(&mut first).unwrap();
            let right = [&[1, 2, 3][..], &[], &[2, 3]].map(Ok);
            assert!(outputs.iter().eq(right), "{outputs:?}");
            // The memory of the first came home.
            let again = first.run(&memory, &[span(0, 0, 1)]).unwrap();
            assert_eq!(again.get(0).unwrap().as_ptr(), written);
        }
    }

    #[test]
    fn outputs_leave_with_their_memory() {
        let mut stage = stage(None);
        let memory = buf(&[1, 2, 3]).freeze();
        let written = stage.run(&memory, &[span(0, 0, 3)]).unwrap();
        let written = written.get(0).unwrap().as_ptr();
        let next = Buf::zeroed(4 * 8).unwrap();
        let next_ptr = next.as_ptr();
        let full = stage.take_memory().unwrap();
        assert_eq!((full[0].as_ptr(), &full[0][..3]), (written, &[3, 2, 1][..]));
        let failed = stage.run(&memory, &[span(0, 1, 2)]).err();
        assert!(matches!(failed, Some(StageError::Job(_))), "{failed:?}");
        stage.give_memory(next).unwrap();
        let again = stage.run(&memory, &[span(0, 1, 2)]).unwrap();
        let again = again.get(0).unwrap();
        assert_eq!((again.as_ptr(), again), (next_ptr, &[3, 2][..]));
    }

    #[test]
    fn items_are_written_over() {
        for workers in [None, Some(2)] {
            let mut stage = stage(workers);
            let mut packets = Buffers::from(vec![buf(&[9, 1, 2, 3, 9]), buf(&[4, 5, 6])]);
            let items = [span(0, 1, 3), span(1, 0, 3)];
            let slots = [span(0, 2, 3), span(1, 1, 2)];
            let lens = stage.run_in_place(&mut packets, &items, &slots).unwrap();
            assert!(lens.eq([Ok(2), Ok(2)]));
            assert_eq!(packets[0][..], [9, 1, 3, 2, 9]);
            assert_eq!(packets[1][..], [4, 6, 5]);
            // Slots that do not lie inside their buffer: refused, and all comes home.
            let beyond = stage.run_in_place(&mut packets, &[span(1, 0, 3)], &[span(1, 1, 3)]);
            assert_eq!(beyond.err(), Some(StageError::Job(JobError::DstTooShort)));
            assert_eq!(packets[1][..], [4, 6, 5]);
        }
    }

    #[test]
    fn a_refused_job_comes_home() {
        let mut stage = stage(None);
        let mut packet = Buffers::from(buf(&[1, 2]));
        for (items, error) in [
            (vec![span(0, 0, 3)], JobError::BadItems),
            (vec![span(1, 0, 1)], JobError::BadItems),
            (vec![span(0, 0, 1); 5], JobError::TooManyItems),
        ] {
            let refused = stage.run_over(&mut packet, &items).err();
            assert_eq!(refused, Some(StageError::Job(error)));
            assert_eq!(packet[0][..], [1, 2]);
        }
        let outputs = stage.run_over(&mut packet, &[span(0, 0, 2); 4]).unwrap();
        assert!(outputs.iter().all(|output| output == Ok(&[2, 1])));
        assert_eq!(outputs.bytes(), None, "slots of eight bytes");
        let mut full =
            Stage::new(operator(None), 4, 2, |len| Ok(Buf::zeroed(len).unwrap())).unwrap();
        let outputs = full.run_over(&mut packet, &[span(0, 0, 2); 3]).unwrap();
        assert_eq!(outputs.bytes(), Some(&[2, 1, 2, 1, 2, 1][..]));
    }

    /// Keeps what it takes. Waiting moves its clock.
    struct Wedged(Arc<VirtualClock>, Vec<Job>);

    impl Queue for Wedged {
        fn in_flight(&self) -> usize {
            self.1.len()
        }

        fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
            self.1.extend(ready.drain(..));
            self.1.len()
        }

        fn poll(&mut self, _: &mut Vec<Completion>) -> usize {
            0
        }

        fn wait(&mut self, _: Duration) {
            self.0.advance_to(self.0.now_ns() + 1_000_000);
        }
    }

    #[test]
    fn a_wedged_device_keeps_what_it_has() {
        let clock = Arc::new(VirtualClock::new(false));
        let patience = Duration::from_millis(20);
        let mut stage = stage(None).with_patience(clock.clone(), patience);
        stage.queue = Box::new(Wedged(clock.clone(), Vec::new()));
        let mut packet = Buffers::from(buf(&[1, 2]));
        let lost = StageError::Lost(patience);
        let answer = stage.run_over(&mut packet, &[span(0, 0, 2)]).err();
        assert_eq!(answer, Some(lost));
        assert!(packet.is_empty(), "the device has it");
        assert_eq!(clock.now_ns(), 21_000_000);
        let memory = buf(&[1]).freeze();
        assert_eq!(stage.run(&memory, &[]).err(), Some(lost));
        // Another stage keeps its job where this one has none.
        let mut before = self::stage(None);
        before.run(&memory, &[span(0, 0, 1)]).unwrap();
        assert_eq!(stage.run_behind(&mut before).err(), Some(lost));
        assert!(before.run(&memory, &[]).is_ok());
    }
}
