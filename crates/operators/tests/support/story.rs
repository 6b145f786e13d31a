//! Tables that change while queues read them: each job answers as one committed version does, and as the newest one if it was submitted
//! after the commit.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dpb_core::{Backend, Buf, Items, Job, OpSpec, Operator, OutputShape, View};
use dpb_operators::cpu;

const QUEUES: usize = 2;
/// Jobs of a queue.
pub(crate) const DEPTH: u32 = 4;

/// What a table is asked, what becomes of it, and what is right for each of its versions.
pub(crate) struct Story {
    pub(crate) spec: OpSpec,
    /// The input of every job.
    pub(crate) input: View,
    pub(crate) items: Items,
    /// Room for its outputs, in equal shares.
    pub(crate) output_bytes: usize,
    /// The changes before each version but version zero.
    pub(crate) scripts: Vec<Vec<u8>>,
    /// The outputs of all items by version, one behind another.
    pub(crate) answers: Vec<Vec<u8>>,
}

impl Story {
    pub(crate) fn prepare(&self, backend: &str) -> Arc<dyn Operator> {
        let backend = cpu::FAMILIES.open(backend).expect("a backend");
        backend.prepare(&self.spec).expect("prepares")
    }

    /// True if `answer` is that of a version of `versions`.
    fn is_right(&self, answer: &[u8], versions: RangeInclusive<usize>) -> bool {
        self.answers[versions].iter().any(|right| right == answer)
    }
}

/// The progress of the writer, for readers to know, and the other way round.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) begun: AtomicUsize,
    pub(crate) ended: AtomicUsize,
    is_done: AtomicBool,
    /// Jobs that came home, by queue.
    jobs: [AtomicUsize; QUEUES],
}

impl Progress {
    /// Nothing was committed, and nothing will be.
    pub(crate) fn done() -> Self {
        Self {
            is_done: AtomicBool::new(true),
            ..Self::default()
        }
    }
}

/// Asks until a job was submitted after the last commit.
pub(crate) fn ask(story: &Story, operator: &Arc<dyn Operator>, progress: &Progress, number: usize) {
    let depth = NonZeroU32::new(DEPTH).expect("not zero");
    let mut queue = operator.clone().open(depth).expect("opens");
    let shape = operator.shape();
    let job = |tag: u32| {
        let dst = Buf::zeroed(story.output_bytes).expect("memory");
        Job::new(
            tag.into(),
            story.input.clone(),
            story.items.clone(),
            dst,
            shape,
        )
    };
    let mut ready: VecDeque<Job> = (0..DEPTH).map(job).collect();
    let mut done = Vec::new();
    // What was committed when each job was submitted, by tag.
    let mut least = [0; DEPTH as usize];
    loop {
        let is_last = progress.is_done.load(Ordering::Acquire);
        for job in &ready {
            least[job.tag as usize] = progress.ended.load(Ordering::Acquire);
        }
        queue.submit(&mut ready);
        assert!(ready.is_empty(), "as deep as there are jobs");
        queue.poll(&mut done);
        while done.is_empty() || is_last && queue.in_flight() > 0 {
            queue.wait(Duration::from_secs(1));
            queue.poll(&mut done);
        }
        let most = progress.begun.load(Ordering::Acquire);
        for completion in done.drain(..) {
            completion.result.expect("carried out");
            let mut job = completion.job;
            let answer = answer(&job, shape);
            let versions = least[job.tag as usize]..=most;
            assert!(
                story.is_right(&answer, versions.clone()),
                "not of {versions:?}"
            );
            job.dst[0].fill(0xee);
            ready.push_back(job);
            progress.jobs[number].fetch_add(1, Ordering::Release);
        }
        if is_last {
            return;
        }
    }
}

fn answer(job: &Job, shape: OutputShape) -> Vec<u8> {
    let items = 0..job.items.count();
    let outputs = items.map(|item| job.output(shape, item).expect("no item is refused"));
    outputs.collect::<Vec<_>>().concat()
}

/// Two queues that ask, and a writer that makes the story's changes.
pub(crate) fn tell(story: &Story, backend: &str) {
    let (operator, other) = (&story.prepare(backend), story.prepare(backend));
    let control = operator.control().expect("the table can be changed");
    let progress = &Progress::default();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..QUEUES)
            .map(|number| scope.spawn(move || ask(story, operator, progress, number)))
            .collect();
        for (version, script) in (1..).zip(&story.scripts) {
            control.change(script).expect("fits");
            progress.begun.store(version, Ordering::Release);
            assert_eq!(control.commit(), Ok(version as u64));
            progress.ended.store(version, Ordering::Release);
            // Now and then every queue gets to see it.
            let had = progress
                .jobs
                .each_ref()
                .map(|jobs| jobs.load(Ordering::Acquire));
            let lags = || {
                let mut queues = readers.iter().zip(&progress.jobs).zip(had);
                queues.any(|((reader, jobs), had)| {
                    !reader.is_finished() && jobs.load(Ordering::Acquire) == had
                })
            };
            let patience = Instant::now() + Duration::from_secs(60);
            while version % 8 == 0 && lags() {
                assert!(Instant::now() < patience, "a queue brings no job home");
                thread::yield_now();
            }
        }
        progress.is_done.store(true, Ordering::Release);
    });
    assert!(
        progress
            .jobs
            .iter()
            .all(|jobs| jobs.load(Ordering::Acquire) > 0)
    );
    let untouched = Progress::done();
    ask(story, &other, &untouched, 0);
    assert_eq!(untouched.jobs[0].load(Ordering::Acquire), DEPTH as usize);
}
