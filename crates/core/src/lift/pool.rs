//! A kernel on worker threads.
//!
//! Each queue owns its workers. A job stays in one place from `submit` to `poll`, a slot of a table as long as the queue is
//! deep; what travels between threads is its index. Two rings of indices carry them: `ready` (one writer, many takers)
//! and `finished` (many writers, one taker). Neither can overflow, because no more indices exist than the queue is deep.
//! A slot has a lock so that no `unsafe` is needed; whoever holds its index is alone with it, so the lock is always free.
//!
//! Workers without work spin, then yield, then park; `submit` pays for a wake-up only if somebody is parked. Channels with
//! a blocking receiver were tried and lost: a wake-up for every job, ten microseconds each.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Prepared, carry_out};
use crate::{
    Completion, Job, JobError, Kernel, Limits, OpSpec, Operator, OutputShape, Queue, SetupError,
};

/// A kernel on a number of worker threads per queue. Completes out of order.
pub struct Pooled<K> {
    prepared: Arc<Prepared<K>>,
    workers: NonZeroU32,
    on_start: Option<OnStart>,
}

/// Called once on each worker's own thread, with the worker's number from zero.
type OnStart = Arc<dyn Fn(usize) + Send + Sync>;

impl<K: Kernel> Pooled<K> {
    /// Lifts `kernel`, which computes `spec` within `limits`, to `workers` threads for each queue that is opened.
    pub fn new(kernel: K, spec: OpSpec, limits: Limits, workers: NonZeroU32) -> Self {
        Self {
            prepared: Arc::new(Prepared::new(kernel, spec, limits)),
            workers,
            on_start: None,
        }
    }

    /// Has each worker call `hook` with its number (from zero) before its first job: the place to pin it to a core. A
    /// hook that panics ends there; its worker goes on. `open` waits until all hooks have returned.
    pub fn on_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.on_start = Some(Arc::new(hook));
        self
    }
}

impl<K: fmt::Debug> fmt::Debug for Pooled<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooled")
            .field("prepared", &self.prepared)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

impl<K: Kernel> Operator for Pooled<K> {
    fn spec(&self) -> &OpSpec {
        &self.prepared.spec
    }

    fn shape(&self) -> OutputShape {
        self.prepared.shape
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.prepared.kernel.dst_len(item_len)
    }

    fn in_place(&self) -> Option<usize> {
        self.prepared.kernel.in_place()
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        let depth = self.prepared.admit(depth)?;
        let workers = self.workers.get() as usize;
        let shared = Arc::new(Shared::new(depth, workers));
        // Built before the first thread starts, so that its `Drop` ends those that did start if a later one fails.
        let mut queue = PooledQueue {
            shared,
            free: (0..depth as u32).rev().collect(),
            depth,
            threads: Vec::with_capacity(workers),
        };
        for number in 0..workers {
            let worker = Worker {
                prepared: self.prepared.clone(),
                shared: queue.shared.clone(),
                scratch: Some(self.prepared.kernel.scratch()),
                number,
            };
            let on_start = self.on_start.clone();
            let thread = thread::Builder::new()
                .name(format!("dpb-worker-{number}"))
                .spawn(move || {
                    if let Some(hook) = on_start {
                        // A hook that panics has said so; without this worker the queue might never finish.
                        drop(catch_unwind(AssertUnwindSafe(|| hook(number))));
                    }
                    worker.shared.started.fetch_add(1, Ordering::Release);
                    worker.run();
                })
                .map_err(|e| SetupError::NoThread {
                    reason: e.to_string(),
                })?;
            queue.threads.push(thread);
        }
        // A thread allocates while it starts, which is not to happen while jobs run.
        while queue.shared.started.load(Ordering::Acquire) < workers {
            thread::yield_now();
        }
        Ok(Box::new(queue))
    }
}

struct PooledQueue {
    shared: Arc<Shared>,
    /// Slots that hold no job.
    free: Vec<u32>,
    depth: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Queue for PooledQueue {
    fn in_flight(&self) -> usize {
        self.depth - self.free.len()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let taken = ready.len().min(self.free.len());
        if taken == 0 {
            return 0;
        }
        for (job, index) in ready
            .drain(..taken)
            .zip(self.free.drain(self.free.len() - taken..))
        {
            self.shared.slot(index).job = Some(job);
            self.shared.ready.push(index);
        }
        self.shared.wake(taken, &self.threads);
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = self.free.len();
        while let Some(index) = self.shared.finished.pop() {
            let mut slot = self.shared.slot(index);
            let job = slot.job.take().expect("a finished slot holds its job");
            done.push(Completion {
                job,
                result: slot.result,
            });
            drop(slot);
            self.free.push(index);
        }
        self.free.len() - before
    }
}

impl Drop for PooledQueue {
    /// Waits for the jobs that workers are at; the others go home unfinished, with the table.
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        for thread in &self.threads {
            thread.thread().unpark();
        }
        for thread in self.threads.drain(..) {
            thread.join().expect("workers catch every panic");
        }
    }
}

struct Worker<K: Kernel> {
    prepared: Arc<Prepared<K>>,
    shared: Arc<Shared>,
    scratch: Option<K::Scratch>,
    number: usize,
}

impl<K: Kernel> Worker<K> {
    fn run(mut self) {
        while let Some(index) = self.next() {
            let mut slot = self.shared.slot(index);
            let slot_now = &mut *slot;
            let job = slot_now.job.as_mut().expect("a ready slot holds its job");
            slot_now.result = carry_out(&self.prepared, job, &mut self.scratch);
            drop(slot);
            self.shared.finished.push(index);
        }
    }

    /// The next job's slot; waits for one. `None` once the queue is closed.
    fn next(&self) -> Option<u32> {
        loop {
            let mut spins = 0_u32;
            let mut idle_since = None;
            loop {
                if self.shared.closed.load(Ordering::Relaxed) {
                    return None;
                }
                if let Some(index) = self.shared.ready.pop() {
                    return Some(index);
                }
                if spins < SPINS {
                    spins += 1;
                    std::hint::spin_loop();
                } else if idle_since.get_or_insert_with(Instant::now).elapsed() < PATIENCE {
                    // With fewer cores than threads, the one who has the work may be waiting for this core.
                    thread::yield_now();
                } else {
                    break;
                }
            }
            self.shared.sleep(self.number);
        }
    }
}

/// Looks at the ring before the first yield: about two microseconds.
const SPINS: u32 = if cfg!(miri) { 2 } else { 100 };
/// How long to yield before parking: several times what a wake-up costs.
const PATIENCE: Duration = Duration::from_micros(if cfg!(miri) { 1 } else { 50 });

/// What a queue and its workers share.
struct Shared {
    slots: Box<[Mutex<Slot>]>,
    ready: ReadyRing,
    finished: FinishedRing,
    parked: Box<[AtomicBool]>,
    /// How many flags of `parked` are set, at least.
    parked_count: AtomicUsize,
    closed: AtomicBool,
    /// Workers that have come to their loop.
    started: AtomicUsize,
}

/// A line of its own, so that workers at neighbouring slots do not slow each other.
#[repr(align(128))]
struct Slot {
    job: Option<Job>,
    result: Result<(), JobError>,
}

impl Shared {
    fn new(depth: usize, workers: usize) -> Self {
        let slot = || {
            Mutex::new(Slot {
                job: None,
                result: Ok(()),
            })
        };
        Self {
            slots: (0..depth).map(|_| slot()).collect(),
            ready: ReadyRing::new(depth),
            finished: FinishedRing::new(depth),
            parked: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            parked_count: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            started: AtomicUsize::new(0),
        }
    }

    /// The slot whose index the caller holds: never contended.
    fn slot(&self, index: u32) -> MutexGuard<'_, Slot> {
        self.slots[index as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Parks worker `number` until it is woken or there is something to do.
    fn sleep(&self, number: usize) {
        self.parked[number].store(true, Ordering::SeqCst);
        self.parked_count.fetch_add(1, Ordering::SeqCst);
        // Against the fence in `wake`: either this sees the new job, or `wake` sees this flag.
        fence(Ordering::SeqCst);
        if self.ready.is_empty() && !self.closed.load(Ordering::SeqCst) {
            thread::park();
        }
        // A waker that took the flag has also counted down.
        if self.parked[number].swap(false, Ordering::SeqCst) {
            self.parked_count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Wakes up to `jobs` parked workers.
    fn wake(&self, jobs: usize, threads: &[JoinHandle<()>]) {
        fence(Ordering::SeqCst);
        let mut wanted = jobs.min(self.parked_count.load(Ordering::SeqCst));
        for (flag, thread) in self.parked.iter().zip(threads) {
            if wanted == 0 {
                break;
            }
            if flag.swap(false, Ordering::SeqCst) {
                self.parked_count.fetch_sub(1, Ordering::SeqCst);
                thread.thread().unpark();
                wanted -= 1;
            }
        }
    }
}

/// Keeps two counters that different threads write out of one cache line.
#[repr(align(128))]
struct Apart<T>(T);

/// Indices from the one who submits to the workers.
struct ReadyRing {
    entries: Box<[AtomicU32]>,
    head: Apart<AtomicU64>,
    tail: Apart<AtomicU64>,
}

impl ReadyRing {
    fn new(depth: usize) -> Self {
        Self {
            entries: ring(depth),
            head: Apart(AtomicU64::new(0)),
            tail: Apart(AtomicU64::new(0)),
        }
    }

    /// Only the queue's own thread pushes.
    fn push(&self, index: u32) {
        let tail = self.tail.0.load(Ordering::Relaxed);
        entry(&self.entries, tail).store(index, Ordering::Relaxed);
        self.tail.0.store(tail + 1, Ordering::Release);
    }

    fn pop(&self) -> Option<u32> {
        // Whoever moved `head` here had seen a `tail` beyond it. Acquiring `head` makes that tail the oldest that can be
        // read below; with a relaxed load an older one would look like a full ring.
        let mut head = self.head.0.load(Ordering::Acquire);
        loop {
            if head == self.tail.0.load(Ordering::Acquire) {
                return None;
            }
            // Read before it is claimed: once claimed, the ring may come round and overwrite it. If it was claimed by
            // another meanwhile, the exchange fails.
            let index = entry(&self.entries, head).load(Ordering::Relaxed);
            match self.head.0.compare_exchange_weak(
                head,
                head + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(index),
                Err(now) => head = now,
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.head.0.load(Ordering::SeqCst) == self.tail.0.load(Ordering::SeqCst)
    }
}

/// Indices from the workers to the one who polls. An entry is zero until its writer has filled it with index + 1.
struct FinishedRing {
    entries: Box<[AtomicU32]>,
    /// Only the queue's own thread pops.
    head: Apart<AtomicU64>,
    tail: Apart<AtomicU64>,
}

impl FinishedRing {
    fn new(depth: usize) -> Self {
        Self {
            entries: ring(depth),
            head: Apart(AtomicU64::new(0)),
            tail: Apart(AtomicU64::new(0)),
        }
    }

    fn push(&self, index: u32) {
        // Acquire and release: the taker's reset of this entry, one round ago, is known to whoever got a job since.
        let tail = self.tail.0.fetch_add(1, Ordering::AcqRel);
        entry(&self.entries, tail).store(index + 1, Ordering::Release);
    }

    fn pop(&self) -> Option<u32> {
        let head = self.head.0.load(Ordering::Relaxed);
        let cell = entry(&self.entries, head);
        let index = cell.load(Ordering::Acquire).checked_sub(1)?;
        cell.store(0, Ordering::Relaxed);
        self.head.0.store(head + 1, Ordering::Relaxed);
        Some(index)
    }
}

/// A ring with room for `depth` entries; its length is a power of two.
fn ring(depth: usize) -> Box<[AtomicU32]> {
    (0..depth.next_power_of_two())
        .map(|_| AtomicU32::new(0))
        .collect()
}

fn entry(entries: &[AtomicU32], position: u64) -> &AtomicU32 {
    &entries[position as usize & (entries.len() - 1)]
}
