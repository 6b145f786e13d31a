//! The suite passes what is right and catches what is not; both lifts pass it.

use std::collections::VecDeque;
use std::panic::resume_unwind;

use super::*;
use crate::{
    Batch, BatchOut, Clock, Completion, Inline, Kernel, Limits, Pooled, Queue, Unsupported,
};
use sample::{SPECS, Sample, oracle};

fn workers(n: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(n)
}

#[test]
fn inline_conforms() {
    let coverage = check(&Sample::new(None), SPECS, &oracle).unwrap_or_else(|f| panic!("{f}"));
    assert!(coverage.items > 100);
    assert_eq!(coverage.skipped, [""; 0]);
}

#[test]
#[cfg_attr(miri, ignore = "three workers do all that one does, and Miri is slow")]
fn one_worker_conforms() {
    check(&Sample::new(workers(1)), SPECS, &oracle).unwrap_or_else(|f| panic!("{f}"));
}

#[test]
fn three_workers_conform() {
    check(&Sample::new(workers(3)), SPECS, &oracle).unwrap_or_else(|f| panic!("{f}"));
}

#[test]
fn what_is_not_supported_is_said_and_not_run() {
    let coverage = check(&Sample::new(None), &[OpSpec::Sha256], &oracle).unwrap();
    assert_eq!(coverage.jobs, 0);
    assert_eq!(
        coverage.skipped,
        ["sample/inline Sha256: a sample has no sha256"]
    );
}

/// Ways to be wrong.
#[derive(Clone, Copy, Debug)]
enum Bug {
    // Of a kernel.
    WrongAt65Bytes,
    NeighbourOverwritten,
    Panic,
    // Of a queue.
    JobLost,
    JobTwice,
    TagChanged,
    ResultsSwapped,
    TooManyTaken,
    BufferLeaked,
    DstReplaced,
    // Of a backend.
    DepthUnlimited,
    LimitsDisagree,
}

struct Buggy {
    sample: Sample,
    bug: Bug,
}

impl Backend for Buggy {
    fn name(&self) -> &str {
        "buggy"
    }

    fn clock(&self) -> &dyn Clock {
        self.sample.clock()
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        self.sample.alloc(len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        match self.bug {
            Bug::LimitsDisagree => Err(Unsupported {
                reason: "not today".into(),
            }),
            _ => self.sample.limits(spec),
        }
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let mut limits = self.sample.limits(spec).map_err(SetupError::Unsupported)?;
        let kernel = BuggyKernel(self.bug);
        if let Bug::DepthUnlimited = self.bug {
            limits.depth_max = NonZeroU32::MAX;
        }
        let inner = Arc::new(Inline::new(kernel, spec.clone(), limits));
        Ok(Arc::new(BuggyOperator {
            inner,
            bug: self.bug,
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

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        for i in 0..batch.len() {
            let mut value = oracle(&OpSpec::Crc32c, batch.item(i))?;
            match self.0 {
                Bug::WrongAt65Bytes if batch.item(i).len() == 65 => value[3] ^= 1,
                Bug::Panic => resume_unwind(Box::new("on purpose, and quietly")),
                _ => {}
            }
            out.dst[4 * i..][..4].copy_from_slice(&value);
            if let (Bug::NeighbourOverwritten, true) = (self.0, i > 0) {
                out.dst[4 * i - 1] = 0;
            }
        }
        Ok(())
    }
}

struct BuggyOperator {
    inner: Arc<dyn Operator>,
    bug: Bug,
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

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        let deeper = match self.bug {
            Bug::TooManyTaken if depth.get() < 64 => depth.saturating_add(1),
            _ => depth,
        };
        Ok(Box::new(BuggyQueue {
            inner: self.inner.clone().open(deeper)?,
            bug: self.bug,
        }))
    }
}

struct BuggyQueue {
    inner: Box<dyn Queue>,
    bug: Bug,
}

impl Queue for BuggyQueue {
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        if let Bug::TagChanged = self.bug {
            ready.iter_mut().for_each(|job| job.tag |= 1);
        }
        self.inner.submit(ready)
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let from = done.len();
        self.inner.poll(done);
        let fresh = &mut done[from..];
        match (self.bug, fresh) {
            (Bug::JobLost, [_, ..]) => {
                done.pop();
                // Not counted as in flight either, so that the suite need not wait to see it.
            }
            (Bug::JobTwice, [first, ..]) => first.job.tag = 1,
            (Bug::ResultsSwapped, [first, second, ..]) => {
                std::mem::swap(&mut first.job.dst, &mut second.job.dst);
            }
            (Bug::DstReplaced, [first, ..]) => {
                let mut copy = Buf::zeroed(first.job.dst.len()).expect("memory");
                copy.copy_from_slice(&first.job.dst);
                first.job.dst = copy;
            }
            _ => {}
        }
        done.len() - from
    }
}

impl Drop for BuggyQueue {
    fn drop(&mut self) {
        if let Bug::BufferLeaked = self.bug {
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
        (Bug::Panic, "the kernel panicked"),
        (Bug::JobLost, "poll says"),
        (Bug::JobTwice, "tags"),
        (Bug::TagChanged, "tags"),
        (Bug::ResultsSwapped, "expected"),
        (Bug::TooManyTaken, "submit says"),
        (Bug::BufferLeaked, "are not released"),
        (Bug::DstReplaced, "came home changed"),
        (Bug::DepthUnlimited, "beyond its own limit"),
        (Bug::LimitsDisagree, "`limits` refuses"),
    ];
    for (bug, expected) in bugs {
        let sample = Sample::new(None);
        let failure = check(&Buggy { sample, bug }, &[OpSpec::Crc32c], &oracle)
            .expect_err(&format!("{bug:?} passed"));
        let said = failure.to_string();
        assert!(said.starts_with("buggy, Crc32c, "), "{bug:?}: {said}");
        assert!(said.contains(expected), "{bug:?}: {said}");
    }
}

/// Panics on items that begin with `!`; counts its scratches.
struct Nervous;

impl Kernel for Nervous {
    type Scratch = bool;

    fn scratch(&self) -> bool {
        false
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(1)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        1
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, spoilt: &mut bool) -> Result<(), JobError> {
        assert!(!*spoilt, "a scratch that a panic left behind is used");
        *spoilt = true;
        if batch.item(0).starts_with(b"!") {
            resume_unwind(Box::new("on purpose, and quietly"));
        }
        out.dst[0] = batch.item(0)[0];
        *spoilt = false;
        Ok(())
    }
}

#[test]
fn a_panic_fails_its_own_job_only() {
    let limits = Sample::new(None).limits(&OpSpec::Crc32c).unwrap();
    let spec = OpSpec::custom("nervous", []);
    let inline: Arc<dyn Operator> = Arc::new(Inline::new(Nervous, spec.clone(), limits));
    let pool = Pooled::new(Nervous, spec, limits, NonZeroU32::MIN)
        .on_start(|_| resume_unwind(Box::new("on purpose, and quietly")));
    let pooled: Arc<dyn Operator> = Arc::new(pool);
    for operator in [inline, pooled] {
        let mut course = Course::open(&operator, 4).unwrap();
        for tag in 0..20 {
            let mut src = Buf::zeroed(1).unwrap();
            src[0] = if tag % 3 == 0 { b'!' } else { b'a' };
            course.add(Job {
                tag,
                src: src.freeze(),
                items: Items::One,
                dst: Buf::zeroed(1).unwrap(),
                outcomes: Vec::new(),
            });
        }
        for completion in course.finish().unwrap() {
            if completion.job.tag % 3 == 0 {
                assert_eq!(completion.result, Err(JobError::Panicked));
            } else {
                assert_eq!((completion.result, completion.job.dst[0]), (Ok(()), b'a'));
            }
        }
    }
}

/// Of variable shape; claims these outcomes, whatever the items.
struct Boaster(&'static [Result<u32, JobError>]);

impl Kernel for Boaster {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn run(&self, _: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.outcomes.extend_from_slice(self.0);
        Ok(())
    }
}

#[test]
fn outcomes_that_cannot_be_fail_their_job() {
    let limits = Sample::new(None).limits(&OpSpec::Crc32c).unwrap();
    // Two items, slots of eight bytes.
    let claims: [(&'static [Result<u32, JobError>], _); 6] = [
        (&[Ok(8), Err(JobError::Malformed)], Ok(())),
        (&[Ok(0), Ok(0)], Ok(())),
        (&[Ok(9), Ok(0)], Err(JobError::BadOutcomes)),
        (&[Ok(0), Ok(u32::MAX)], Err(JobError::BadOutcomes)),
        (&[Ok(8)], Err(JobError::BadOutcomes)),
        (&[Ok(8), Ok(8), Ok(8)], Err(JobError::BadOutcomes)),
    ];
    for (claimed, expected) in claims {
        let spec = OpSpec::custom("boast", []);
        let inline: Arc<dyn Operator> =
            Arc::new(Inline::new(Boaster(claimed), spec.clone(), limits));
        let pool = Pooled::new(Boaster(claimed), spec, limits, NonZeroU32::MIN);
        for operator in [inline, Arc::new(pool)] {
            let mut course = Course::open(&operator, 1).unwrap();
            course.add(Job {
                tag: 0,
                src: Buf::zeroed(16).unwrap().freeze(),
                items: Items::Fixed { len: 8, count: 2 },
                dst: Buf::zeroed(16).unwrap(),
                outcomes: Vec::with_capacity(2),
            });
            let done = course.finish().unwrap();
            assert_eq!(done[0].result, expected, "{claimed:?}");
        }
    }
}

#[test]
fn workers_that_sleep_wake_up() {
    let limits = Sample::new(None).limits(&OpSpec::Crc32c).unwrap();
    let two = NonZeroU32::new(2).unwrap();
    let pool = Pooled::new(Nervous, OpSpec::custom("nervous", []), limits, two);
    let mut queue = Arc::new(pool).open(two).unwrap();
    let (mut ready, mut done) = (VecDeque::new(), Vec::new());
    for tag in 0..if cfg!(miri) { 3 } else { 30 } {
        // Longer than a worker's patience.
        std::thread::sleep(std::time::Duration::from_millis(2));
        let mut src = Buf::zeroed(1).unwrap();
        src[0] = b'a';
        ready.push_back(Job {
            tag,
            src: src.freeze(),
            items: Items::One,
            dst: Buf::zeroed(1).unwrap(),
            outcomes: Vec::new(),
        });
        assert_eq!(queue.submit(&mut ready), 1);
        while queue.poll(&mut done) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(
            done.last().map(|c| (c.job.tag, c.result)),
            Some((tag, Ok(())))
        );
    }
}
