//! A kernel on worker threads that all queues of a process share.
//!
//! Each queue keeps its jobs in a table as long as the queue is deep. A job stays in one place from `submit` to `poll`; what
//! travels between threads is its index. Two rings of indices carry them: `ready` (one writer, many takers) and `finished` (many
//! writers, one taker). Neither can overflow, because no more indices exist than the queue is deep. A place of the table has a lock
//! so that no `unsafe` is needed; whoever holds its index is alone with it, so the lock is always free.
//!
//! Workers take one job of each queue in turn. Without work they spin, then yield, then park; `submit` pays for a wake-up only if
//! somebody is parked. Channels with a blocking receiver were tried and lost: a wake-up for every job, ten microseconds each.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::{Prepared, carry_out, caught};
use crate::{
    Completion, Control, Job, JobError, Kernel, Limits, NotInPlace, OpSpec, Operator, OutputShape,
    Queue, SetupError,
};

/// Worker threads, shared by any number of operators and queues. They end when the last of these has gone.
///
/// A kernel must not wait for another job of the pool that it runs on: with all workers waiting, nobody would do it.
pub struct Pool {
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
}

/// The most threads that it makes sense to ask for: 16 a CPU, or 1,024 if that is more. Beyond it a machine has no use for
/// threads, and may have no room for them.
pub fn threads_max() -> NonZeroU32 {
    let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let most = u32::try_from(16 * cpus).unwrap_or(u32::MAX).max(1024);
    NonZeroU32::new(most).expect("at least 1,024")
}

/// A kernel on the workers of a pool. Completes out of order.
pub struct Pooled<K> {
    prepared: Arc<Prepared<K>>,
    pool: Arc<Pool>,
}

impl Pool {
    /// Starts `workers` threads.
    ///
    /// # Errors
    /// [`SetupError::NoThread`].
    pub fn new(workers: NonZeroU32) -> Result<Arc<Self>, SetupError> {
        Self::with_start(workers, |_| {})
    }

    /// Starts `workers` threads. Each calls `on_start` with its number (from zero) before its first job: the place to pin it to a core. A
    /// hook that panics ends there; its worker goes on. Returns when all hooks have returned.
    ///
    /// # Errors
    /// [`SetupError::NoThread`].
    pub fn with_start(
        workers: NonZeroU32,
        on_start: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Arc<Self>, SetupError> {
        let workers = workers.get() as usize;
        // Built before the first thread starts, so that its `Drop` ends those that did start if a later one fails.
        let mut pool = Self {
            board: Arc::new(Board::new(workers)),
            threads: Vec::with_capacity(workers),
        };
        let on_start = Arc::new(on_start);
        for number in 0..workers {
            let (board, on_start) = (pool.board.clone(), on_start.clone());
            let thread = thread::Builder::new()
                .name(format!("dpb-worker-{number}"))
                .spawn(move || {
                    // A hook that panics has said so; without this worker jobs might never finish.
                    drop(catch_unwind(AssertUnwindSafe(|| on_start(number))));
                    drop(on_start);
                    board.work(number);
                })
                .map_err(|e| SetupError::NoThread {
                    reason: e.to_string(),
                })?;
            pool.threads.push(thread);
        }
        // A thread allocates while it starts, which is not to happen while jobs run.
        while pool.board.started.load(Ordering::Acquire) < workers {
            thread::yield_now();
        }
        Ok(Arc::new(pool))
    }

    /// The pool of `workers` threads that this process has; started if there is none. Threads run where the thread may that starts
    /// them: one that is pinned pins the pool.
    ///
    /// # Errors
    /// [`SetupError::NoThread`].
    pub fn shared(workers: NonZeroU32) -> Result<Arc<Self>, SetupError> {
        static POOLS: Mutex<BTreeMap<NonZeroU32, Weak<Pool>>> = Mutex::new(BTreeMap::new());
        let mut pools = lock(&POOLS);
        if let Some(pool) = pools.get(&workers).and_then(Weak::upgrade) {
            return Ok(pool);
        }
        let pool = Self::new(workers)?;
        pools.insert(workers, Arc::downgrade(&pool));
        Ok(pool)
    }

    /// The number of threads.
    pub fn workers(&self) -> usize {
        self.board.parked.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.board.closed.store(true, Ordering::SeqCst);
        for thread in &self.threads {
            thread.thread().unpark();
        }
        for thread in self.threads.drain(..) {
            // A kernel that owns the last operator of the pool it runs on ends it from a worker, which cannot wait for itself.
            if thread.thread().id() != thread::current().id() {
                thread.join().expect("workers catch every panic");
            }
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} workers)", self.workers())
    }
}

impl<K: Kernel> Pooled<K> {
    /// Lifts `kernel`, which computes `spec` within `limits`, to the workers of `pool`.
    pub fn new(kernel: K, spec: OpSpec, limits: Limits, pool: Arc<Pool>) -> Self {
        Self {
            prepared: Arc::new(Prepared::new(kernel, spec, limits)),
            pool,
        }
    }
}

impl<K: fmt::Debug> fmt::Debug for Pooled<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooled")
            .field("prepared", &self.prepared)
            .field("pool", &self.pool)
            .finish()
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

    fn in_place(&self) -> Result<usize, NotInPlace> {
        self.prepared.in_place.clone()
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        self.prepared.kernel.control()
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        let depth = self.prepared.admit(depth)?;
        let hand = || {
            Mutex::new(Some(Hand {
                scratch: Some(self.prepared.kernel.scratch()),
                prepared: self.prepared.clone(),
            }))
        };
        let table = Arc::new(Table::new(depth, self.pool.workers()));
        let lane: Arc<dyn Lane> = Arc::new(KernelLane {
            hands: (0..self.pool.workers()).map(|_| hand()).collect(),
            table: table.clone(),
        });
        self.pool.board.add(lane.clone());
        Ok(Box::new(PooledQueue {
            pool: self.pool.clone(),
            lane,
            table,
            free: (0..depth as u32).rev().collect(),
            depth,
        }))
    }
}

struct PooledQueue {
    pool: Arc<Pool>,
    lane: Arc<dyn Lane>,
    table: Arc<Table>,
    /// Places that hold no job.
    free: Vec<u32>,
    depth: usize,
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
            self.table.place(index).job = Some(job);
            self.table.ready.push(index);
        }
        self.pool.board.wake(taken);
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = self.free.len();
        while let Some(index) = self.table.finished.pop() {
            let mut place = self.table.place(index);
            let job = place.job.take().expect("a finished place holds its job");
            done.push(Completion {
                job,
                result: place.result,
            });
            drop(place);
            self.free.push(index);
        }
        self.free.len() - before
    }

    fn wait(&mut self, timeout: Duration) {
        let table = &*self.table;
        table.is_awaited.store(true, Ordering::SeqCst);
        // Against the fence in `finish`: either this sees the finished job, or the worker sees the flag.
        fence(Ordering::SeqCst);
        if self.in_flight() > 0 && table.finished.is_empty() {
            thread::park_timeout(timeout);
        }
        table.is_awaited.store(false, Ordering::SeqCst);
    }
}

impl Drop for PooledQueue {
    /// Waits for the jobs that workers are at; the others go home unfinished, with the table.
    fn drop(&mut self) {
        self.pool.board.remove(&self.lane);
        self.table.closed.store(true, Ordering::SeqCst);
        let mut spins = 0_u32;
        let is_busy = |worker: &Apart<AtomicBool>| worker.0.load(Ordering::SeqCst);
        while self.table.busy.iter().any(is_busy) {
            spins += 1;
            match spins < SPINS {
                true => std::hint::spin_loop(),
                false => thread::sleep(Duration::from_micros(20)),
            }
        }
        // A worker that has the lane on its list for a moment longer sees that it is closed.
        self.lane.clear();
    }
}

/// A queue, as workers see it.
trait Lane: Send + Sync {
    /// True if a job waits for a worker.
    fn has_work(&self) -> bool;
    /// Does one job as worker `number`, if one waits.
    fn work(&self, number: usize) -> bool;
    /// Drops its jobs and what was allocated for them. No worker is at one.
    fn clear(&self);
}

struct KernelLane<K: Kernel> {
    /// Of each worker, alone with it. `None` once the queue has gone: a worker that still has the lane on its list keeps no kernel.
    hands: Box<[Mutex<Option<Hand<K>>>]>,
    table: Arc<Table>,
}

/// What a worker needs to do a job of one queue.
struct Hand<K: Kernel> {
    prepared: Arc<Prepared<K>>,
    /// `None` after a panic, until the next job.
    scratch: Option<K::Scratch>,
}

impl<K: Kernel> Lane for KernelLane<K> {
    fn has_work(&self) -> bool {
        !self.table.ready.is_empty()
    }

    fn work(&self, number: usize) -> bool {
        let table = &*self.table;
        if table.ready.is_empty() {
            return false;
        }
        // Before `closed` is read: either this sees it, or the one who drops the queue sees a busy worker.
        table.busy[number].0.store(true, Ordering::SeqCst);
        let index = match table.closed.load(Ordering::SeqCst) {
            true => None,
            false => table.ready.pop(),
        };
        if let Some(index) = index {
            let mut place = table.place(index);
            let Held { job, result } = &mut *place;
            let job = job.as_mut().expect("a ready place holds its job");
            let mut hand = lock(&self.hands[number]);
            let Hand { prepared, scratch } = hand.as_mut().expect("of an open queue");
            let run = |scratch: &mut Option<K::Scratch>| {
                let scratch = scratch.get_or_insert_with(|| prepared.kernel.scratch());
                carry_out(prepared, job, scratch)
            };
            *result = caught(scratch, run).flatten();
            drop((place, hand));
            table.finish(index);
        }
        table.busy[number].0.store(false, Ordering::Release);
        index.is_some()
    }

    fn clear(&self) {
        for place in &self.table.places {
            lock(place).job = None;
        }
        for hand in &self.hands {
            *lock(hand) = None;
        }
    }
}

/// Looks at the lanes before the first yield: about two microseconds.
const SPINS: u32 = if cfg!(miri) { 2 } else { 100 };
/// How long to yield before parking: several times what a wake-up costs.
const PATIENCE: Duration = Duration::from_micros(if cfg!(miri) { 1 } else { 50 });

/// The list of queues that workers look at, and what wakes them.
struct Board {
    lanes: Mutex<Arc<[Arc<dyn Lane>]>>,
    /// How often `lanes` has changed.
    changes: AtomicU64,
    parked: Box<[AtomicBool]>,
    /// How many flags of `parked` are set, but for a moment in which one changes.
    parked_count: AtomicUsize,
    threads: Box<[OnceLock<Thread>]>,
    closed: AtomicBool,
    /// Workers that have come to their loop.
    started: AtomicUsize,
}

impl Board {
    fn new(workers: usize) -> Self {
        Self {
            lanes: Mutex::new(Arc::new([])),
            changes: AtomicU64::new(0),
            parked: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            parked_count: AtomicUsize::new(0),
            threads: (0..workers).map(|_| OnceLock::new()).collect(),
            closed: AtomicBool::new(false),
            started: AtomicUsize::new(0),
        }
    }

    fn add(&self, lane: Arc<dyn Lane>) {
        let mut lanes = lock(&self.lanes);
        *lanes = lanes.iter().cloned().chain([lane]).collect();
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn remove(&self, lane: &Arc<dyn Lane>) {
        let mut lanes = lock(&self.lanes);
        let others = lanes.iter().filter(|other| !Arc::ptr_eq(other, lane));
        *lanes = others.cloned().collect();
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The queues that are open.
    fn lanes(&self) -> Arc<[Arc<dyn Lane>]> {
        lock(&self.lanes).clone()
    }

    /// What worker `number` does until the pool is closed.
    fn work(&self, number: usize) {
        self.threads[number].get_or_init(thread::current);
        self.started.fetch_add(1, Ordering::Release);
        loop {
            self.work_until_idle(number);
            if self.closed.load(Ordering::SeqCst) {
                return;
            }
            self.sleep(number);
        }
    }

    /// Works until there was nothing to do for a while, or the pool is closed. Keeps no list of lanes behind.
    fn work_until_idle(&self, number: usize) {
        let mut seen = self.changes.load(Ordering::Acquire);
        let mut lanes = self.lanes();
        let mut turn = number;
        let mut spins = 0_u32;
        let mut idle_since = None;
        while !self.closed.load(Ordering::Relaxed) {
            let changes = self.changes.load(Ordering::Acquire);
            if changes != seen {
                seen = changes;
                lanes = self.lanes();
            }
            let found = (0..lanes.len()).find(|i| lanes[(turn + i) % lanes.len()].work(number));
            if let Some(i) = found {
                // The queue behind it is next.
                turn = (turn + i + 1) % lanes.len();
                (spins, idle_since) = (0, None);
            } else if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else if idle_since.get_or_insert_with(Instant::now).elapsed() < PATIENCE {
                // With fewer cores than threads, the one who has the work may be waiting for this core.
                thread::yield_now();
            } else {
                return;
            }
        }
    }

    /// Parks worker `number` until it is woken or there is something to do.
    fn sleep(&self, number: usize) {
        self.parked[number].store(true, Ordering::SeqCst);
        self.parked_count.fetch_add(1, Ordering::SeqCst);
        // Against the fence in `wake`: either this sees the new job, or `wake` sees this flag.
        fence(Ordering::SeqCst);
        let has_work = self.lanes().iter().any(|lane| lane.has_work());
        if !has_work && !self.closed.load(Ordering::SeqCst) {
            thread::park();
        }
        // A waker that took the flag has also counted down.
        if self.parked[number].swap(false, Ordering::SeqCst) {
            self.parked_count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Wakes up to `jobs` parked workers.
    fn wake(&self, jobs: usize) {
        fence(Ordering::SeqCst);
        let mut wanted = jobs.min(self.parked_count.load(Ordering::SeqCst));
        for (flag, thread) in self.parked.iter().zip(&self.threads) {
            if wanted == 0 {
                break;
            }
            if flag.swap(false, Ordering::SeqCst) {
                self.parked_count.fetch_sub(1, Ordering::SeqCst);
                if let Some(thread) = thread.get() {
                    thread.unpark();
                }
                wanted -= 1;
            }
        }
    }
}

/// The jobs of a queue.
struct Table {
    places: Box<[Mutex<Held>]>,
    ready: ReadyRing,
    finished: FinishedRing,
    /// Of each worker: whether it is at one of the jobs, or is about to look for one.
    busy: Box<[Apart<AtomicBool>]>,
    closed: AtomicBool,
    /// Whether the one who polls waits to be woken.
    is_awaited: AtomicBool,
    /// The thread that has opened the queue, which cannot leave it.
    poller: Thread,
}

/// A line of its own, so that workers at neighbouring places do not slow each other.
#[repr(align(128))]
struct Held {
    job: Option<Job>,
    result: Result<(), JobError>,
}

impl Table {
    fn new(depth: usize, workers: usize) -> Self {
        let place = || {
            Mutex::new(Held {
                job: None,
                result: Ok(()),
            })
        };
        Self {
            places: (0..depth).map(|_| place()).collect(),
            ready: ReadyRing::new(depth),
            finished: FinishedRing::new(depth),
            busy: (0..workers)
                .map(|_| Apart(AtomicBool::new(false)))
                .collect(),
            closed: AtomicBool::new(false),
            is_awaited: AtomicBool::new(false),
            poller: thread::current(),
        }
    }

    /// The place whose index the caller holds: never contended.
    fn place(&self, index: u32) -> MutexGuard<'_, Held> {
        lock(&self.places[index as usize])
    }

    /// Sends the job at `index` home.
    fn finish(&self, index: u32) {
        self.finished.push(index);
        fence(Ordering::SeqCst);
        if self.is_awaited.load(Ordering::SeqCst) && self.is_awaited.swap(false, Ordering::SeqCst) {
            self.poller.unpark();
        }
    }
}

/// A lock that means nothing more after a panic than before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// For the queue's own thread.
    fn is_empty(&self) -> bool {
        let head = self.head.0.load(Ordering::Relaxed);
        entry(&self.entries, head).load(Ordering::Acquire) == 0
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
