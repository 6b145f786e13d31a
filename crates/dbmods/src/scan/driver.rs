//! The driver of a scan: threads that take row groups from a counter, within bounds of memory.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;

use super::aggregate::Partial;
use super::error::ScanError;
use super::group_scan::GroupScan;
use super::memory::Memory;
use super::plan::{Plan, Target, useful_threads};
use super::stats::ScanStats;
use crate::query::Query;
use crate::table::cache::Cache;
use crate::table::segment::Segment;

/// How to scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanOptions<'a> {
    /// Threads, at least 1.
    pub threads: usize,
    /// Set from outside to end the scan at the next block.
    pub stop: &'a AtomicBool,
    /// Rows of a batch, at most.
    pub batch_rows: usize,
    /// What the scan may take beside the cache, bytes: what its threads compute with, the chunks that they use and the cache has
    /// no room for, the batches that they fill or wait to hand over, [`ScanOptions::sink_batches`], groups. It runs with fewer
    /// threads and smaller batches to keep to it.
    pub memory_bytes: usize,
    /// Batches that the sink keeps after it has returned, at most.
    pub sink_batches: usize,
}

/// Scans a segment; gives batches of [`super::output_schema`] to `sink`, from several threads, in no order.
///
/// # Errors
/// If the query does not fit the table, or the segment is damaged: then rows of other row groups may have been given.
pub fn scan(
    segment: &Arc<Segment>,
    cache: &Arc<Cache>,
    query: &Query,
    options: &ScanOptions<'_>,
    sink: &(dyn Fn(RecordBatch) -> ControlFlow<()> + Sync),
) -> Result<ScanStats, ScanError> {
    Arc::new(Plan::new(segment.schema(), query)?).scan(segment, cache, options, sink)
}

impl Plan {
    /// Scans a segment of the plan's table; gives batches to `sink`, from several threads, in no order.
    ///
    /// # Errors
    /// If the segment is damaged or memory does not suffice: then rows of other row groups may have been given.
    pub fn scan(
        self: &Arc<Self>,
        segment: &Arc<Segment>,
        cache: &Arc<Cache>,
        options: &ScanOptions<'_>,
        sink: &(dyn Fn(RecordBatch) -> ControlFlow<()> + Sync),
    ) -> Result<ScanStats, ScanError> {
        let threads = useful_threads(segment, options.threads);
        let mut chunks = self.chunks(segment);
        let room = cache.room(threads.saturating_mul(chunks.thread_bytes) as u64);
        chunks.room = room.bytes() as usize;
        let shares = self.shares(threads, chunks, options.memory_bytes, options.sink_batches)?;
        let shared = Shared {
            plan: self,
            segment,
            cache,
            options,
            batch_bytes: shares.batch_bytes,
            group_memory: Arc::new(Memory::new(shares.group_bytes)),
            sink,
            next_group: AtomicUsize::new(0),
            done: AtomicBool::new(false),
            end: Mutex::new(End::default()),
        };
        std::thread::scope(|scope| {
            for _ in 1..shares.threads {
                let worker = std::thread::Builder::new().spawn_scoped(scope, || shared.work());
                // Row groups come from a counter: with fewer threads than asked for, the others take them all.
                if worker.is_err() {
                    break;
                }
            }
            shared.work();
        });
        let end = shared
            .end
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = end.error {
            return Err(error);
        }
        let mut stats = end.stats;
        if let Target::Aggregate(aggregation) = &self.target
            && !stats.stopped
        {
            let batch = aggregation.finish(self.output.clone(), end.partial)?;
            stats.stopped = sink(batch).is_break();
        }
        Ok(stats)
    }
}

/// What all threads of a scan see.
struct Shared<'a> {
    plan: &'a Arc<Plan>,
    segment: &'a Arc<Segment>,
    cache: &'a Arc<Cache>,
    options: &'a ScanOptions<'a>,
    batch_bytes: usize,
    group_memory: Arc<Memory>,
    sink: &'a (dyn Fn(RecordBatch) -> ControlFlow<()> + Sync),
    next_group: AtomicUsize,
    done: AtomicBool,
    end: Mutex<End>,
}

/// What threads leave when they end.
#[derive(Default)]
struct End {
    stats: ScanStats,
    partial: Partial,
    error: Option<ScanError>,
}

impl Shared<'_> {
    fn work(&self) {
        let batch = (self.options.batch_rows, self.batch_bytes);
        let memory = Arc::clone(&self.group_memory);
        let mut scan = GroupScan::within(self.plan, self.segment, self.cache, batch, memory);
        let result = self.scan_groups(&mut scan);
        let (mut stats, partial) = scan.into_parts();
        stats.stopped = self.is_stopped();
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.stats.add(stats);
        let result = result.and_then(|()| match &self.plan.target {
            Target::Aggregate(aggregation) => {
                aggregation.merge(&mut end.partial, partial, &self.group_memory)
            }
            Target::Rows(_) => Ok(()),
        });
        if let Err(error) = result {
            self.done.store(true, Ordering::Relaxed);
            end.error.get_or_insert(error);
        }
    }

    fn scan_groups(&self, scan: &mut GroupScan) -> Result<(), ScanError> {
        let is_stopped = || self.is_stopped();
        let mut give = |batch| self.give(batch);
        while !self.is_stopped() {
            let group = self.next_group.fetch_add(1, Ordering::Relaxed);
            if group >= self.segment.groups().len() {
                break;
            }
            let _flow = scan.scan_until(&is_stopped, group, &mut give)?;
        }
        // Groups are merged with those of the other threads first.
        if matches!(self.plan.target, Target::Rows(_)) && !self.is_stopped() {
            let _last = scan.finish(&mut give)?;
        }
        Ok(())
    }

    fn give(&self, batch: RecordBatch) -> ControlFlow<()> {
        let flow = (self.sink)(batch);
        if flow.is_break() {
            self.done.store(true, Ordering::Relaxed);
        }
        flow
    }

    fn is_stopped(&self) -> bool {
        self.done.load(Ordering::Relaxed) || self.options.stop.load(Ordering::Relaxed)
    }
}
