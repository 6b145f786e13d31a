//! Queues over devices that are made up: answers in any order, few operations taken at a time, failures, and no answer
//! at all.
#![allow(unsafe_code)]

use std::sync::{LazyLock, Mutex};

use dpb_core::random::SplitMix64;
use dpb_core::{
    Backend, Buf, ClockKind, CopyMode, Items, Limits, OpSpec, Operator, Properties, SetupError,
    Timer, Unsupported, View, VirtualClock, conformance, spec,
};
use dpb_operators::registry;

use super::super::Memory;
use super::super::operation::{Digest, Iv, Operation, Step};
use super::*;
use crate::dpdk::sys;

static SPEC: LazyLock<OpSpec> = LazyLock::new(|| {
    let mode = CopyMode::Cached;
    spec::Copy { mode }.into()
});

/// Copies, and answers in any order, sometimes not at once.
struct Shuffled {
    held: Vec<Run>,
    random: SplitMix64,
    /// Fails each operation whose number divides by this.
    fails_each: usize,
    taken: usize,
    answers: bool,
}

impl Device for Shuffled {
    fn admits(&self, operation: &Operation<'_>, item_len: usize, slot_len: usize) -> bool {
        operation.src.end <= item_len
            && operation.dst.end <= slot_len
            && operation.src.len() <= operation.dst.len()
    }

    unsafe fn submit(&mut self, runs: &[Run]) -> usize {
        let room = 20_usize.saturating_sub(self.held.len());
        let before = self.held.len();
        let operations = runs.iter().flat_map(|run| {
            (0..run.n as usize).map(|n| {
                let mut one = *run;
                skip(&mut one, n);
                one.n = 1;
                one
            })
        });
        let taken = operations.take(room.min(self.random.below(9)));
        self.held.extend(taken);
        self.held.len() - before
    }

    fn poll(&mut self, done: &mut [Done]) -> usize {
        if !self.answers {
            return 0;
        }
        let count = self.random.below(self.held.len() + 1).min(done.len());
        // Something always moves, so that a test ends.
        let count = count.max(1).min(self.held.len());
        for done in &mut done[..count] {
            let at = self.random.below(self.held.len());
            let item = self.held.swap_remove(at);
            // SAFETY: the queue admitted it, and keeps both buffers until this is told to be over.
            unsafe {
                item.dst
                    .copy_from_nonoverlapping(item.src, item.src_len as usize)
            };
            self.taken += 1;
            let fails = self.taken.is_multiple_of(self.fails_each);
            *done = Done {
                user: item.user,
                verdict: if fails { u32::MAX } else { sys::DONE },
                status: 42,
                produced: item.src_len,
                n: 1,
                ..Done::default()
            };
        }
        count
    }
}

/// The item's bytes, in two operations if there are enough.
#[derive(Clone)]
struct Copying(Limits);

impl Recipe for Copying {
    type Version = ();

    fn version(&mut self) {}

    fn limits(&self) -> &Limits {
        &self.0
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn step<'a>(&'a self, (): &'a (), item: &[u8], slot_len: usize, piece: u32) -> Step<'a> {
        if item.len() > slot_len {
            return Step::Known(Err(JobError::DstTooShort));
        }
        let middle = item.len() / 2;
        let range = match (item.len(), piece) {
            (..100, _) => 0..item.len(),
            (_, 0) => 0..middle,
            _ => middle..item.len(),
        };
        Step::Run(Operation {
            src: range.clone(),
            has_more: range.end != item.len(),
            is_alike: item.len() < 100,
            dst: range,
            iv: Iv::Item(0),
            aad: 0,
            digest: Digest::Nowhere,
            session: None,
            head: &[],
            planned: item.len() as u32,
        })
    }

    fn end(&self, done: &Done, _over: Over<'_>) -> End {
        match done.verdict {
            sys::DONE => End::AsPlanned,
            _ => End::Failed(JobError::Device(done.status)),
        }
    }
}

/// A millisecond passes at each reading, so that patience ends soon.
struct Ticking(VirtualClock);

impl Default for Ticking {
    fn default() -> Self {
        Self(VirtualClock::new(false))
    }
}

impl Clock for Ticking {
    fn now_ns(&self) -> u64 {
        self.0.sleep(Duration::from_millis(1));
        self.0.now_ns()
    }

    fn kind(&self) -> ClockKind {
        ClockKind::Wall
    }
}

struct MadeUp {
    memory: Arc<Memory>,
    clock: Arc<Ticking>,
    limits: Limits,
    seed: Arc<Mutex<SplitMix64>>,
    fails_each: usize,
    answers: bool,
}

impl MadeUp {
    fn new(fails_each: usize, answers: bool) -> Self {
        let mut limits = Limits::new(NonZeroU32::new(100).expect("not zero"));
        limits.item_bytes_max = 1 << 20;
        Self {
            memory: Arc::new(Memory { eal: None }),
            clock: Arc::default(),
            limits,
            seed: Arc::new(Mutex::new(SplitMix64::new(1))),
            fails_each,
            answers,
        }
    }

    fn queue(&self, depth: u32) -> OperationQueue<Shuffled, Copying> {
        let seed = self.seed.lock().expect("nobody panics").next_u64();
        let device = Shuffled {
            held: Vec::new(),
            random: SplitMix64::new(seed),
            fails_each: self.fails_each,
            taken: 0,
            answers: self.answers,
        };
        let depth = NonZeroU32::new(depth).expect("not zero");
        OperationQueue::new(
            self.memory.clone(),
            "made up",
            Copying(self.limits),
            device,
            depth,
            self.clock.clone(),
        )
    }

    fn job(&self, tag: u64) -> Job {
        let src: View = self.memory.alloc(3 * 150).expect("memory").freeze();
        let dst = self.memory.alloc(3 * 150).expect("memory");
        let items = Items::fixed(150, 3);
        Job::new(tag, src, items, dst, OutputShape::Variable)
    }
}

impl Backend for MadeUp {
    fn name(&self) -> &str {
        "made up"
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn properties(&self) -> Properties {
        Properties::of_this_cpu()
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        self.memory.alloc(len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        assert_eq!(spec, &*SPEC);
        Ok(self.limits)
    }

    fn prepare(&self, _spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        Ok(Arc::new(MadeUp {
            memory: self.memory.clone(),
            seed: self.seed.clone(),
            clock: self.clock.clone(),
            ..*self
        }))
    }
}

impl Operator for MadeUp {
    fn spec(&self) -> &OpSpec {
        &SPEC
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        match depth > self.limits.depth_max {
            true => Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: self.limits.depth_max.get(),
            }),
            false => Ok(Box::new(self.queue(depth.get()))),
        }
    }
}

#[test]
fn answers_in_any_order_pass_the_suite() {
    let workload = registry::of(&SPEC).expect("registered").workload(&*SPEC);
    let workload = workload.expect("its own spec");
    let backend = MadeUp::new(usize::MAX, true);
    let coverage = conformance::check(&backend, &[&*workload]);
    let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(coverage.items > 0);
}

#[test]
fn an_operation_that_fails_fails_its_job_and_no_other() {
    let made_up = MadeUp::new(12, true);
    let mut queue = made_up.queue(50);
    let mut ready: VecDeque<Job> = (0..50).map(|tag| made_up.job(tag)).collect();
    let mut done = Vec::new();
    while done.len() < 50 {
        queue.submit(&mut ready);
        queue.poll(&mut done);
    }
    // 300 operations, six a job: each twelfth fails, so no job can have more than one.
    let failed = done
        .iter()
        .filter(|done| done.result == Err(JobError::Device(42)));
    let (failed, all) = (failed.count(), done.len());
    assert!((1..=25).contains(&failed), "{failed}");
    let worked = done.iter().filter(|done| done.result == Ok(())).count();
    assert_eq!(worked + failed, all);
    let mut tags: Vec<u64> = done.iter().map(|done| done.job.tag).collect();
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..50));
}

#[test]
fn a_device_that_does_not_answer_keeps_the_buffers() {
    let made_up = MadeUp::new(usize::MAX, false);
    let mut queue = made_up.queue(2);
    let mut ready: VecDeque<Job> = (0..3).map(|tag| made_up.job(tag)).collect();
    while queue.flying == 0 {
        queue.submit(&mut ready);
        assert_eq!(queue.poll(&mut Vec::new()), 0);
    }
    drop(ready);
    let before = Arc::strong_count(&made_up.memory);
    drop(queue);
    // The queue's own handle is gone; those of two jobs' buffers, which the device may yet write to, are not.
    assert_eq!(Arc::strong_count(&made_up.memory), before - 1);
    assert!(before > 4);
}
