//! The driver of a scan: threads that take row groups from a counter and scan them on a backend, within bounds of memory.
//!
//! Each thread has a queue of the operator [`super::operator`], and one job in it. An item names so many row groups that a job takes
//! about ten milliseconds: a scan can be ended between two jobs, and batches of few survivors are of many row groups.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use dpb_core::{
    Backend, Buf, Buffers, JobError, OpSpec, Operator, SetupError, Span, Stage, StageError,
    WallClock,
};

use super::error::ScanError;
use super::group_scan::GroupScan;
use super::memory::Memory;
use super::operator::{Merged, NO_MEMORY, Output, Scan, Share, own_cores, write_item};
use super::plan::{Plan, Target, useful_threads};
use super::quota::Quota;
use super::stats::ScanStats;
use crate::ipc;
use crate::query::Query;
use crate::table::cache::{Cache, Room};
use crate::table::segment::Segment;

/// The time that a job should take.
const JOB: Duration = Duration::from_millis(10);
/// Of its share of the row groups that are left a thread takes no less than one part in so many of what a job should take.
const PARTS_OF_JOB: usize = 8;
/// Row groups of an item, at most.
const ITEM_GROUPS_MAX: usize = 1023;
/// Slots that are kept, at most: results of aggregates are short, and looking for a slot looks at all of them.
const SLOTS_MAX: usize = 64;
/// The time for which a backend may be silent over a job: some row groups, which may come from a slow disk.
const PATIENCE: Duration = Duration::from_secs(60);

/// The options of a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanOptions<'a> {
    /// Threads, at least 1: so many jobs are in flight.
    pub threads: usize,
    /// Set from outside to end the scan at the next job.
    pub stop: &'a AtomicBool,
    /// Rows of a batch, at most.
    pub batch_rows: usize,
    /// What the scan may take beside the cache, bytes: what its threads compute with, the chunks that they use and the cache has
    /// no room for, the batches that they fill or wait to hand over, [`ScanOptions::sink_batches`], groups. It runs with fewer
    /// threads and smaller batches to keep to it.
    pub memory_bytes: usize,
    /// Batches that the sink keeps after it has returned, at most.
    pub sink_batches: usize,
    /// Memory that earlier scans on the same backend have left; `None` for this scan's own.
    pub slots: Option<&'a Arc<Slots>>,
}

/// A batch, as a message of the Arrow IPC format. Its memory is used again once it is dropped.
#[derive(Debug)]
pub struct Message {
    /// `None` once it goes home.
    memory: Option<Buf>,
    place: Range<usize>,
    rows: u64,
    home: Arc<Slots>,
}

/// Memory for outputs that nobody has, of one backend: scans one after another need not allocate it anew.
#[derive(Debug)]
pub struct Slots {
    free: Mutex<Vec<Buf>>,
    /// Most memory that is kept, bytes.
    kept_bytes_max: usize,
}

impl Slots {
    /// None yet; keeps at most so many bytes that nobody has.
    pub fn new(kept_bytes_max: usize) -> Self {
        Self {
            free: Mutex::default(),
            kept_bytes_max,
        }
    }

    /// The shortest of at least so many bytes, if it is not much longer.
    fn take(&self, bytes: usize) -> Option<Buf> {
        let mut free = lock(&self.free);
        let fitting = free.iter().enumerate().filter_map(|(at, memory)| {
            let fits = (bytes..=2 * bytes).contains(&memory.len());
            fits.then_some((memory.len(), at))
        });
        let (_, at) = fitting.min()?;
        Some(free.swap_remove(at))
    }

    fn put(&self, memory: Buf) {
        lock(&self.free).push(memory);
        self.trim(self.kept_bytes_max);
    }

    /// Drops what is more than so many bytes; those that were used last stay, which a cache may still have.
    pub fn trim(&self, bytes_max: usize) {
        let mut free = lock(&self.free);
        let mut kept: usize = free.iter().map(|memory| memory.len()).sum();
        let mut dropped = 0;
        while kept > bytes_max || free.len() - dropped > SLOTS_MAX {
            kept -= free[dropped].len();
            dropped += 1;
        }
        free.drain(..dropped);
    }
}

/// Takes messages, from several threads, in no order.
pub type MessageSink<'a> = dyn Fn(Message) -> ControlFlow<()> + Sync + 'a;

impl Message {
    /// The message.
    pub fn bytes(&self) -> &[u8] {
        let memory = self.memory.as_ref().expect("it goes home when dropped");
        &memory[self.place.clone()]
    }

    /// Rows of the batch, as its maker counted them.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.home.put(memory);
        }
    }
}

/// Takes batches, from several threads, in no order.
pub type BatchSink<'a> = dyn Fn(RecordBatch) -> ControlFlow<()> + Sync + 'a;

/// Scans a segment on the caller's cores; gives batches of [`super::output_schema`] to `sink`.
///
/// # Errors
/// If the query does not fit the table, or the segment is damaged: then rows of other row groups may have been given.
pub fn scan(
    segment: &Arc<Segment>,
    cache: &Arc<Cache>,
    query: &Query,
    options: &ScanOptions<'_>,
    sink: &BatchSink<'_>,
) -> Result<ScanStats, ScanError> {
    scan_on(&own_cores(), segment, cache, query, options, sink)
}

/// [`scan`] on `backend`.
///
/// # Errors
/// As [`scan`], and if the backend cannot scan.
pub fn scan_on(
    backend: &dyn Backend,
    segment: &Arc<Segment>,
    cache: &Arc<Cache>,
    query: &Query,
    options: &ScanOptions<'_>,
    sink: &BatchSink<'_>,
) -> Result<ScanStats, ScanError> {
    let plan = Arc::new(Plan::new(segment.schema(), query)?);
    plan.batches_on(
        backend,
        &Arc::new(query.clone()),
        segment,
        cache,
        options,
        sink,
    )
}

impl Plan {
    /// [`scan_on`] for a query whose plan this is.
    pub(super) fn batches_on(
        self: &Arc<Self>,
        backend: &dyn Backend,
        query: &Arc<Query>,
        segment: &Arc<Segment>,
        cache: &Arc<Cache>,
        options: &ScanOptions<'_>,
        sink: &BatchSink<'_>,
    ) -> Result<ScanStats, ScanError> {
        let failed = Mutex::new(None);
        let schema = self.output_schema();
        let sink =
            |message: Message| match ipc::decode_batch(&Buffer::from(message.bytes()), schema) {
                Ok(batch) => sink(batch),
                Err(error) => {
                    *lock(&failed) = Some(error);
                    ControlFlow::Break(())
                }
            };
        let stats = self.scan_on(backend, query, segment, cache, options, &sink)?;
        match lock(&failed).take() {
            Some(_) => Err(ScanError::Malformed("a batch")),
            None => Ok(stats),
        }
    }

    /// Scans a segment of the plan's table on `backend`; gives messages to `sink`, from several threads, in no order.
    ///
    /// # Errors
    /// If the segment is damaged, memory does not suffice, or the backend cannot scan: then rows of other row groups may have been
    /// given.
    pub fn scan_on(
        self: &Arc<Self>,
        backend: &dyn Backend,
        query: &Arc<Query>,
        segment: &Arc<Segment>,
        cache: &Arc<Cache>,
        options: &ScanOptions<'_>,
        sink: &MessageSink<'_>,
    ) -> Result<ScanStats, ScanError> {
        let drive = self.drive(backend, query, (segment, cache), options, sink)?;
        drive.run();
        drive.finish(AggregateForm::Final)
    }

    /// The same for an aggregate that others merge: gives one message, which [`Merged::add`] takes.
    pub(crate) fn scan_partial_on(
        self: &Arc<Self>,
        backend: &dyn Backend,
        query: &Arc<Query>,
        segment: &Arc<Segment>,
        cache: &Arc<Cache>,
        options: &ScanOptions<'_>,
        sink: &MessageSink<'_>,
    ) -> Result<ScanStats, ScanError> {
        let drive = self.drive(backend, query, (segment, cache), options, sink)?;
        drive.run();
        drive.finish(AggregateForm::Partial)
    }

    /// Prepares the operator, and divides what the scan may take.
    fn drive<'a>(
        self: &'a Arc<Self>,
        backend: &'a dyn Backend,
        query: &Arc<Query>,
        (segment, cache): (&'a Arc<Segment>, &'a Arc<Cache>),
        options: &'a ScanOptions<'a>,
        sink: &'a MessageSink<'a>,
    ) -> Result<Drive<'a>, ScanError> {
        let threads = useful_threads(segment, options.threads);
        let mut chunks = self.chunks(segment);
        let room = cache.room(threads.saturating_mul(chunks.thread_bytes) as u64);
        chunks.room = room.bytes() as usize;
        // A job ends where its batch is full: no later than all rows that are asked for.
        let limit = self.limit.map_or(usize::MAX, |limit| limit.max(1) as usize);
        let batches = (options.batch_rows.min(limit), options.sink_batches);
        let quota = Quota::new(self.limit);
        let wants_none = matches!(self.target, Target::Rows(_)) && quota.is_spent();
        let shares = self.shares(threads, chunks, options.memory_bytes, batches)?;
        let share = Share {
            cache: Some(Arc::clone(cache)),
            batch_rows: shares.batch_rows,
            batches_max: 1,
            group_bytes: shares.group_bytes,
        };
        let scan = Scan::of_plan(
            Arc::clone(self),
            Arc::clone(segment),
            Arc::clone(query),
            share,
        );
        Ok(Drive {
            operator: backend.prepare(&OpSpec::from(scan))?,
            backend,
            plan: self,
            segment,
            cache,
            _room: room,
            options,
            threads: shares.threads,
            slot_bytes: shares.slot_bytes.min(u32::MAX as usize),
            slots: match options.slots {
                Some(slots) => Arc::clone(slots),
                None => Arc::new(Slots::new(usize::MAX)),
            },
            sink,
            quota,
            next_group: AtomicUsize::new(0),
            done: AtomicBool::new(wants_none),
            end: Mutex::new(End {
                stats: self.new_stats(),
                merged: Merged::new(self, shares.result_bytes),
                error: None,
            }),
        })
    }
}

/// The form in which an aggregate is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AggregateForm {
    /// The result, as a batch.
    Final,
    /// The groups that were accumulated.
    Partial,
}

/// The state that all threads of a scan share.
struct Drive<'a> {
    operator: Arc<dyn Operator>,
    backend: &'a dyn Backend,
    plan: &'a Arc<Plan>,
    segment: &'a Arc<Segment>,
    cache: &'a Arc<Cache>,
    /// The cache's room for chunks that the threads use at once.
    _room: Room<'a>,
    options: &'a ScanOptions<'a>,
    threads: usize,
    slot_bytes: usize,
    slots: Arc<Slots>,
    sink: &'a MessageSink<'a>,
    /// Rows that may still be given.
    quota: Quota,
    next_group: AtomicUsize,
    done: AtomicBool,
    end: Mutex<End>,
}

/// The counts and groups of all jobs together.
struct End {
    stats: ScanStats,
    merged: Merged,
    error: Option<ScanError>,
}

/// A thread's own: its queue, and the item that it sends.
struct Worker {
    stage: Stage,
    item: Vec<u8>,
    memory: Buffers,
}

impl Drive<'_> {
    /// Works with all threads until the row groups are scanned or something ends the scan.
    fn run(&self) {
        std::thread::scope(|scope| {
            for _ in 1..self.threads {
                let worker = std::thread::Builder::new().spawn_scoped(scope, || self.work());
                // Row groups come from a counter: with fewer threads than asked for, the others take them all.
                if worker.is_err() {
                    break;
                }
            }
            self.work();
        });
    }

    fn work(&self) {
        if let Err(error) = self.scan_groups() {
            self.done.store(true, Ordering::Relaxed);
            lock(&self.end).error.get_or_insert(error);
        }
    }

    fn scan_groups(&self) -> Result<(), ScanError> {
        let operator = Arc::clone(&self.operator);
        let stage = Stage::new(operator, 1, self.slot_bytes as u32, |_| self.slot())?;
        let mut worker = Worker {
            stage: stage.with_patience(Arc::new(WallClock::default()), PATIENCE),
            item: Vec::new(),
            memory: self
                .backend
                .alloc((1 + ITEM_GROUPS_MAX) * size_of::<u32>())?
                .into(),
        };
        let mut count = 1;
        while let Some(mut groups) = self.claim(count) {
            let began_ns = self.backend.clock().now_ns();
            let (taken, mut row) = (groups.len(), 0);
            while !groups.is_empty() && !self.is_stopped() {
                let (done, rows) = self.scan_some(&mut worker, row, groups.clone())?;
                if done > groups.len() || (done, rows) == (0, row) {
                    return Err(self.failed("a job that made no progress".to_owned()));
                }
                (groups.start, row) = (groups.start + done, rows);
            }
            let took_ns = self
                .backend
                .clock()
                .now_ns()
                .saturating_sub(began_ns)
                .max(1);
            let fitting = taken as u128 * JOB.as_nanos() / u128::from(took_ns);
            count = (fitting as usize).clamp(1, ITEM_GROUPS_MAX);
        }
        if let Ok(Buffers::One(memory)) = worker.stage.take_memory() {
            self.slots.put(memory);
        }
        Ok(())
    }

    /// Memory for an output.
    fn slot(&self) -> Result<Buf, SetupError> {
        match self.slots.take(self.slot_bytes) {
            Some(memory) => Ok(memory),
            None => self.backend.alloc(self.slot_bytes),
        }
    }

    /// The next row groups, up to `count`; `None` if there are none left, or the scan ends.
    fn claim(&self, count: usize) -> Option<Range<usize>> {
        let groups = self.segment.groups().len();
        let left = groups.saturating_sub(self.next_group.load(Ordering::Relaxed));
        // So that all threads end together; one thread alone may take all.
        let share = (left / (2 * self.threads - 1))
            .max(count / PARTS_OF_JOB)
            .max(1);
        let count = count.min(share);
        if self.is_stopped() {
            return None;
        }
        let start = self.next_group.fetch_add(count, Ordering::Relaxed);
        (start < groups).then(|| start..groups.min(start + count))
    }

    /// One job: scans `groups` from `row` of the first one on. Says how many row groups are done, and how many rows of the next.
    fn scan_some(
        &self,
        worker: &mut Worker,
        row: usize,
        groups: Range<usize>,
    ) -> Result<(usize, usize), ScanError> {
        let Worker {
            stage,
            item,
            memory,
        } = worker;
        item.clear();
        write_item(item, row, groups.clone());
        memory[0][..item.len()].copy_from_slice(item);
        let whole = Span {
            buf: 0,
            start: 0,
            len: item.len() as u32,
        };
        let failed = |why| self.why(why, row, groups.clone());
        let outputs = stage.run_over(memory, &[whole]).map_err(failed)?;
        let bytes = outputs.get(0).map_err(|why| failed(StageError::Job(why)))?;
        let output = Output::parse(bytes, self.plan.names.len())?;
        let body = bytes.len() - output.body.len()..bytes.len();
        let (done, rows, selected) = (output.groups, output.row, output.stats.rows_selected);
        let mut end = lock(&self.end);
        end.stats.add(output.stats);
        match &self.plan.target {
            Target::Aggregate(_) => {
                end.merged.add(output.body)?;
            }
            Target::Rows(_) if body.is_empty() => {}
            Target::Rows(_) => {
                drop(end);
                let Buffers::One(full) = stage.take_memory().map_err(failed)? else {
                    return Err(ScanError::Internal("a slot of several buffers"));
                };
                self.give(full, body, selected)?;
                if !self.is_stopped() {
                    stage.give_memory(self.slot()?).map_err(failed)?;
                }
            }
        }
        Ok((done, rows))
    }

    /// Gives a batch, or as much of it as the limit has left.
    fn give(&self, memory: Buf, place: Range<usize>, rows: u64) -> Result<(), ScanError> {
        let message = Message {
            memory: Some(memory),
            place,
            rows,
            home: Arc::clone(&self.slots),
        };
        let message = match self.quota.take(rows) {
            0 => None,
            taken if taken == rows => Some(message),
            taken => Some(self.cut(&message, taken)?),
        };
        let given = message.map_or(ControlFlow::Break(()), |message| (self.sink)(message));
        if given.is_break() || self.quota.is_spent() {
            self.done.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The first `rows` rows of a batch.
    fn cut(&self, whole: &Message, rows: u64) -> Result<Message, ScanError> {
        let schema = self.plan.output_schema();
        let batch = ipc::decode_batch(&Buffer::from(whole.bytes()), schema);
        let batch = batch.map_err(|_| ScanError::Malformed("a batch"))?;
        let bytes = ipc::batch_message(&batch.slice(0, rows as usize))?;
        message(&bytes, rows, Arc::clone(&self.slots))
    }

    fn is_stopped(&self) -> bool {
        self.done.load(Ordering::Relaxed) || self.options.stop.load(Ordering::Relaxed)
    }

    /// The reason why a job failed, which a backend cannot say in full: what the same scan here fails with.
    fn why(&self, error: StageError, row: usize, groups: Range<usize>) -> ScanError {
        let no_memory = ScanError::Memory(self.options.memory_bytes);
        match error {
            StageError::Job(JobError::DstTooShort | JobError::Device(NO_MEMORY)) => {
                return no_memory;
            }
            StageError::Job(JobError::Malformed | JobError::Device(_)) => {}
            error => return self.failed(error.to_string()),
        }
        let memory = Arc::new(Memory::new(self.options.memory_bytes));
        let rows = self.options.batch_rows;
        let mut scan = GroupScan::within(self.plan, self.segment, self.cache, rows, &memory);
        let first = groups.start;
        for group in groups {
            let row = if group == first { row } else { 0 };
            if let Err(reason) = scan.scan_behind(group, row) {
                return reason;
            }
        }
        self.failed(error.to_string())
    }

    fn failed(&self, why: String) -> ScanError {
        ScanError::Backend {
            backend: self.backend.name().to_owned(),
            why,
        }
    }

    /// Gives the aggregate.
    fn finish(self, form: AggregateForm) -> Result<ScanStats, ScanError> {
        let is_stopped = self.is_stopped();
        let End {
            mut stats,
            merged,
            error,
        } = self
            .end
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = error {
            return Err(error);
        }
        stats.stopped = is_stopped;
        if let Target::Aggregate(_) = &self.plan.target
            && !is_stopped
        {
            let (bytes, rows) = match form {
                AggregateForm::Final => {
                    let batch = merged.finish()?;
                    (ipc::batch_message(&batch)?, batch.num_rows())
                }
                AggregateForm::Partial => merged.to_bytes()?,
            };
            stats.stopped = (self.sink)(message(&bytes, rows as u64, self.slots)?).is_break();
        }
        Ok(stats)
    }
}

/// A message of bytes that lie elsewhere.
fn message(bytes: &[u8], rows: u64, home: Arc<Slots>) -> Result<Message, ScanError> {
    let len = bytes.len();
    let mut memory = match home.take(len) {
        Some(memory) => memory,
        None => Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })?,
    };
    memory[..len].copy_from_slice(bytes);
    Ok(Message {
        memory: Some(memory),
        place: 0..len,
        rows,
        home,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
