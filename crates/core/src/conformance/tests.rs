//! The suite passes what is right and catches what is not; both lifts pass it.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use super::*;
use crate::buf::Island;
use crate::spec;
use crate::{
    Batch, BatchOut, Clock, Control, Exact, InPlace, Inline, Items, JobError, JobParts, Kernel,
    NotInPlace, Overlay, Place, Pool, Pooled, Properties, Queue, Region, Right, Unsupported,
};
use sample::{Sample, stored, workloads, xored};

fn workers(n: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(n)
}

#[test]
fn inline_conforms() {
    // Under Miri the streams are left to the pool, below.
    let is_chosen = |at: usize| !cfg!(miri) || at == 0 || at == 3;
    let some: Vec<_> = (0..4)
        .filter(|at| is_chosen(*at))
        .map(|at| workloads()[at])
        .collect();
    let coverage = check(&Sample::new(None), &some).unwrap_or_else(|f| panic!("{f}"));
    assert!(cfg!(miri) || coverage.items > 100);
    assert_eq!(coverage.skipped, [""; 0]);
}

#[test]
#[cfg_attr(miri, ignore = "three workers do all that one does, and Miri is slow")]
fn one_worker_conforms() {
    check(&Sample::new(workers(1)), workloads()).unwrap_or_else(|f| panic!("{f}"));
}

#[test]
fn three_workers_conform() {
    // Miri takes minutes for three threads; the pool itself does not look at specs.
    let some = if cfg!(miri) { 2..3 } else { 0..4 };
    check(&Sample::new(workers(3)), &workloads()[some]).unwrap_or_else(|f| panic!("{f}"));
}

#[test]
fn what_is_not_supported_is_said_and_not_run() {
    let sha256 = Exact::new(&OpSpec::from(spec::Sha256), "nobody", |_, _| {
        unreachable!("not run")
    });
    let coverage = check(&Sample::new(None), &[&sha256]).unwrap();
    assert_eq!(coverage.jobs, 0);
    assert_eq!(
        coverage.skipped,
        ["sample/inline Sha256: a sample has no sha256"]
    );
}

/// Ways to be wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    None,
    // Of a kernel.
    WrongAt65Bytes,
    NeighbourOverwritten,
    NothingWritten,
    Panic,
    // Of a queue.
    JobLost,
    JobTwice,
    TagChanged,
    ResultsSwapped,
    TooManyTaken,
    BufferLeaked,
    DstReplaced,
    SrcReplaced,
    SrcWritten,
    /// Jobs that work in place are carried out, it says.
    InPlaceTaken,
    /// It does not say why it refuses them.
    NoReason,
    /// A byte of the headroom of its output changes.
    RoomWritten,
    /// Outputs land in each other's buffers.
    SlotsExchanged,
    ItemsReplaced,
    OutcomesReplaced,
    OutcomesAppended,
    RefusalSpills,
    OpenPanicsOnSecondThread,
    LateThoughSynchronous,
    ForeignTaken,
    ForeignTakenBehindFirst,
    ForeignMisnamed,
    // Of queues beside each other.
    OneQueueOnly,
    OneThreadOnly,
    // Of a backend.
    DepthUnlimited,
    ItemsUnlimited,
    ItemLengthUnlimited,
    LimitsDisagree,
    LimitsNone,
    SaysItIsAModel,
}

/// A device: it reaches its own memory and no other.
struct Buggy {
    sample: Sample,
    island: Arc<Island>,
    bug: Bug,
}

impl Buggy {
    fn new(bug: Bug) -> Self {
        Self {
            sample: Sample::new(None),
            island: Arc::default(),
            bug,
        }
    }
}

impl Backend for Buggy {
    fn name(&self) -> &str {
        "buggy"
    }

    fn clock(&self) -> &dyn Clock {
        self.sample.clock()
    }

    fn properties(&self) -> Properties {
        let properties = self.sample.properties();
        match self.bug {
            Bug::SaysItIsAModel => {
                Properties::of_model("none".to_owned(), self.sample.name(), properties)
            }
            _ => properties,
        }
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        self.island
            .zeroed(len)
            .ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        let mut limits = self.sample.limits(spec)?;
        match self.bug {
            Bug::LimitsDisagree => {
                return Err(Unsupported {
                    reason: "not today".into(),
                });
            }
            Bug::LimitsNone => limits = Limits::new(limits.depth_max),
            Bug::ItemLengthUnlimited => limits.item_bytes_max = 5000,
            Bug::ItemsUnlimited => limits.items_max = 300,
            _ => {}
        }
        Ok(limits)
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let mut limits = self.sample.limits(spec)?;
        if let Bug::DepthUnlimited = self.bug {
            limits.depth_max = NonZeroU32::MAX;
        }
        let inner: Arc<dyn Operator> = match spec.is::<spec::Crc32c>() {
            true => Arc::new(Inline::new(BuggyKernel(self.bug), spec.clone(), limits)),
            false => self.sample.prepare(spec)?,
        };
        Ok(Arc::new(BuggyOperator {
            inner,
            island: self.island.clone(),
            bug: self.bug,
            open: AtomicUsize::new(0),
            first: OnceLock::new(),
        }))
    }
}

struct BuggyKernel(Bug);

impl Kernel for BuggyKernel {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(4)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        4
    }

    fn run(&self, batch: Batch<'_>, mut out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        for i in 0..batch.len() {
            let item = batch.item(i);
            let mut value = sample::crc32c(item).to_le_bytes();
            match self.0 {
                Bug::WrongAt65Bytes if item.len() == 65 => value[3] ^= 1,
                Bug::NothingWritten => return Ok(()),
                Bug::Panic => resume_unwind(Box::new("on purpose, and quietly")),
                _ => {}
            }
            out.slots[i][..4].copy_from_slice(&value);
            if let (Bug::NeighbourOverwritten, true) = (self.0, i > 0) {
                out.slots[i - 1][3] = 0;
            }
        }
        Ok(())
    }
}

struct BuggyOperator {
    inner: Arc<dyn Operator>,
    island: Arc<Island>,
    bug: Bug,
    /// Queues that are.
    open: AtomicUsize,
    /// The thread that opened the first queue.
    first: OnceLock<ThreadId>,
}

impl Operator for BuggyOperator {
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
        match self.bug {
            Bug::NoReason => Err(NotInPlace::new(" ")),
            _ => self.inner.in_place(),
        }
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        self.inner.control()
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        let here = std::thread::current().id();
        let is_first = *self.first.get_or_init(|| here) == here;
        if let (Bug::OpenPanicsOnSecondThread, false) = (self.bug, is_first) {
            resume_unwind(Box::new("on purpose, and quietly"));
        }
        let deeper = match self.bug {
            Bug::TooManyTaken if depth.get() < 64 => depth.saturating_add(1),
            _ => depth,
        };
        let inner = self.inner.clone().open(deeper)?;
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(BuggyQueue {
            inner,
            depth: deeper.get() as usize,
            home: Vec::new(),
            operator: self,
        }))
    }
}

struct BuggyQueue {
    inner: Box<dyn Queue>,
    operator: Arc<BuggyOperator>,
    depth: usize,
    /// Finished or refused, and not yet handed back.
    home: Vec<Completion>,
}

impl BuggyQueue {
    /// A job whose memory the device cannot reach, if it says so.
    fn refusal(&self, job: &Job) -> Option<Result<(), JobError>> {
        let is_mine = |home: &dyn Region| home.is(&*self.operator.island);
        if job.all_regions(is_mine) {
            return None;
        }
        Some(match self.operator.bug {
            // It reads and writes somewhere else.
            Bug::ForeignTaken => Ok(()),
            Bug::ForeignTakenBehindFirst
                if is_mine(job.src[0].region()) && is_mine(job.dst[0].region()) =>
            {
                Ok(())
            }
            Bug::ForeignMisnamed => Err(JobError::Device(-14)),
            _ => Err(JobError::ForeignBuffer),
        })
    }
}

impl Queue for BuggyQueue {
    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.home.len()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let mut taken = 0;
        while self.in_flight() < self.depth
            && let Some(mut job) = ready.pop_front()
        {
            if let Bug::TagChanged = self.operator.bug {
                job.tag |= 1;
            }
            match self.refusal(&job) {
                Some(result) => self.home.push(Completion { job, result }),
                None => assert_eq!(self.inner.submit(&mut VecDeque::from([job])), 1),
            }
            taken += 1;
        }
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let from = done.len();
        self.inner.poll(&mut self.home);
        let kept = match self.operator.bug {
            Bug::LateThoughSynchronous => self.home.len().min(2) / 2,
            _ => 0,
        };
        done.extend(self.home.drain(kept..));
        let fresh = &mut done[from..];
        let here = std::thread::current().id();
        let is_lost = match self.operator.bug {
            Bug::OneQueueOnly => self.operator.open.load(Ordering::SeqCst) > 1,
            Bug::OneThreadOnly => self.operator.first.get() != Some(&here),
            _ => false,
        };
        if is_lost {
            let broken = Err(JobError::Device(-11));
            fresh.iter_mut().for_each(|c| c.result = broken);
        }
        let bytes = |like: &[u8]| {
            let mut copy = self.operator.island.zeroed(like.len()).expect("memory");
            copy.copy_from_slice(like);
            copy
        };
        match (self.operator.bug, fresh) {
            (Bug::JobLost, [_, ..]) => {
                done.pop();
                // Not counted as in flight either, so that the suite need not wait to see it.
            }
            (Bug::JobTwice, [first, ..]) => first.job.tag = 1,
            (Bug::ResultsSwapped, [first, second, ..]) => {
                first.job.dst[0].swap_with_slice(&mut second.job.dst[0]);
            }
            (Bug::DstReplaced, [first, ..]) => first.job.dst[0] = bytes(&first.job.dst[0]),
            (Bug::SrcReplaced, [first, ..]) => first.job.src = bytes(&first.job.src[0]).into(),
            (Bug::SrcWritten, fresh) => {
                for src in fresh.iter_mut().map(|c| &mut c.job.src) {
                    if let Memory::Own(bufs) = src
                        && let Some(byte) = bufs[0].first_mut()
                    {
                        *byte ^= 1;
                    }
                }
            }
            (Bug::InPlaceTaken, fresh) => {
                for c in fresh {
                    c.result = c.result.or_else(|error| match error {
                        JobError::NotInPlace => Ok(()),
                        other => Err(other),
                    });
                }
            }
            (Bug::RoomWritten, fresh) => {
                // Before the first slot, where there is room.
                for job in fresh.iter_mut().map(|c| &mut c.job) {
                    if job.slots.count() > 0 && job.slots.place(0, &job.dst).start > 0 {
                        job.dst[0][0] ^= 1;
                    }
                }
            }
            (Bug::SlotsExchanged, fresh) => {
                for job in fresh.iter_mut().map(|c| &mut c.job) {
                    if let [first, second, ..] = &mut job.dst[..] {
                        first.swap_with_slice(second);
                    }
                }
            }
            (Bug::ItemsReplaced, [first, ..]) => first.job.items = Items::Offsets([0, 0].into()),
            (Bug::OutcomesReplaced, [first, ..]) => first.job.outcomes = Vec::new(),
            (Bug::OutcomesAppended, [first, ..]) => first.job.outcomes.insert(0, Ok(0)),
            (Bug::RefusalSpills, fresh) => fresh.iter_mut().for_each(spill),
            _ => {}
        }
        done.len() - from
    }
}

/// Each refusal damages the last byte of the slot before, if slots have room for a word.
fn spill(Completion { job, .. }: &mut Completion) {
    let job: &mut JobParts = job;
    for (i, outcome) in job.outcomes.iter().enumerate().skip(1) {
        let Place { buf, start, len } = job.slots.place(i - 1, &job.dst);
        if outcome.is_err() && len >= 8 {
            job.dst[buf][start + len - 1] ^= 1;
        }
    }
}

impl Drop for BuggyQueue {
    fn drop(&mut self) {
        self.operator.open.fetch_sub(1, Ordering::SeqCst);
        if let Bug::BufferLeaked = self.operator.bug {
            let mut done = Vec::new();
            self.inner.poll(&mut done);
            std::mem::forget(done);
        }
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "some bugs show only at sizes for which Miri is too slow"
)]
fn every_bug_is_caught() {
    let bugs = [
        (Bug::WrongAt65Bytes, "65 bytes"),
        (Bug::NeighbourOverwritten, "expected"),
        (Bug::NothingWritten, "got [a5, a5, a5, a5]"),
        (Bug::Panic, "the kernel panicked"),
        (Bug::JobLost, "poll says"),
        (Bug::JobTwice, "tags"),
        (Bug::TagChanged, "tags"),
        (Bug::ResultsSwapped, "expected"),
        (Bug::TooManyTaken, "submit says"),
        (Bug::BufferLeaked, "are not released"),
        (Bug::DstReplaced, "came home changed"),
        (Bug::SrcReplaced, "came home changed"),
        (Bug::SrcWritten, "the input was written to"),
        (Bug::InPlaceTaken, "in place: expected NotInPlace"),
        (Bug::NoReason, "does not say why"),
        (Bug::RoomWritten, "outside of slots"),
        (Bug::SlotsExchanged, "item 0"),
        (Bug::ItemsReplaced, "came home changed"),
        (Bug::OutcomesReplaced, "came home changed"),
        (Bug::OutcomesAppended, "left the outcomes"),
        (Bug::LateThoughSynchronous, "said to be synchronous"),
        (Bug::ForeignTaken, "foreign src: job 0, item 0"),
        (
            Bug::ForeignTakenBehindFirst,
            "one foreign buffer of many to read: job 0, item 0",
        ),
        (Bug::ForeignMisnamed, "expected ForeignBuffer"),
        (Bug::OneQueueOnly, "two queues on one thread"),
        (Bug::OneThreadOnly, "two queues on two threads"),
        (Bug::OpenPanicsOnSecondThread, "`open` panicked"),
        (Bug::DepthUnlimited, "beyond its own limit"),
        (Bug::ItemsUnlimited, "many items: expected TooManyItems"),
        (Bug::ItemLengthUnlimited, "a long item: expected TooLong"),
        (Bug::LimitsDisagree, "`limits` refuses"),
        (
            Bug::SaysItIsAModel,
            "properties: the clock is Wall, jobs are carried out by Model",
        ),
    ];
    for (bug, expected) in bugs {
        let failure =
            check(&Buggy::new(bug), &workloads()[..1]).expect_err(&format!("{bug:?} passed"));
        let said = failure.to_string();
        assert!(said.starts_with("buggy, Crc32c, "), "{bug:?}: {said}");
        assert!(said.contains(expected), "{bug:?}: {said}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "the lifts are what Miri is to see, and it is slow")]
fn a_device_with_memory_of_its_own_conforms() {
    check(&Buggy::new(Bug::None), workloads()).unwrap_or_else(|f| panic!("{f}"));
}

#[test]
#[cfg_attr(miri, ignore = "the lifts are what Miri is to see, and it is slow")]
fn what_shows_only_where_outputs_vary_in_length_is_caught() {
    for (at, bug, expected) in [
        (2, Bug::OutcomesAppended, "left the outcomes"),
        (3, Bug::RefusalSpills, "bytes in, slots of"),
    ] {
        let failure = check(&Buggy::new(bug), &workloads()[at..=at]);
        let said = failure.expect_err(expected).to_string();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "the lifts are what Miri is to see, and it is slow")]
fn where_there_is_no_limit_nothing_is_skipped() {
    let coverage = check(&Buggy::new(Bug::LimitsNone), &workloads()[..1]);
    assert_eq!(coverage.unwrap_or_else(|f| panic!("{f}")).skipped, [""; 0]);
}

mod lifts;
mod mistakes;
