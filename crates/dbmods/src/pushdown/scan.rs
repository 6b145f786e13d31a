//! The scan: which rows qualify, decided on packed data, and only their values unpacked.
//!
//! ```text
//! Query ─filter─▶ conjuncts ─per row group: bind─▶ sets of packed values, code automata, vector compares
//!                                  zone maps      │
//!                 block by block: mask of 1,024 ◀─┘ ─▶ rows.rs: survivors to Arrow │ aggregate.rs: partial aggregates
//! ```
//!
//! Threads take row groups from a counter. What a thread needs is allocated once; a block allocates nothing. The sink may
//! block: that is the backpressure, and a thread then holds one batch.
//!
//! # Where the time goes
//!
//! Of a hot scan on one core of a Sapphire Rapids guest that others used too (scale factor 1, AVX-512), in nanoseconds a row: a
//! count over one column of 18 bits 0.12; Q6's predicate 0.2; LIKE with two words 5, of which the automaton, the mapping of
//! hits to rows and the search for codes take about a quarter each; all sixteen columns at 1 % 2.2 (1.8 at scale factor
//! 0.02, which is mostly in caches: the rest is waiting for memory), two thirds of it in asking for and reading survivors; at 10 % 6.8, a
//! third of it decoding texts, a quarter unpacking; Q1 4.2, a quarter of it masked sums.
//!
//! What helped, with the ratio seen when it came in: huge pages for chunks ([`super::arena`]; 1.2 for counts, 1.2 to 1.75 for all
//! columns at 1 %); counting masks with vector instructions instead of the baseline's (up to 1.5 for Q6); fewer rows a
//! batch, 16 K for 64 K, as buffers then come back from the allocator without page faults (1.25 at 10 %); comparing 32 offsets
//! at once to find a hit's row and testing a second word's codes on candidates alone (1.25 for LIKE); unpacking a block
//! whole from 40 survivors on, not 160 (1.2 at 10 %); asking 4 KiB ahead inside the compares (1.15 for a count); not touching
//! the next word of a packed value that does not go on there, and asking for survivors' lines a block before they are read
//! (1.15 each at 1 %); computing where sixteen survivors lie at once and gathering them (1.08 at 1 %); using a
//! batch's buffers again once they are free (1.08 at 1 %); decoding eight codes at once and picking from unpacked blocks by
//! gathers (1.09 at 10 %, 1.28 for all rows).
//!
//! What was tried and lost: asking for a column's whole next block at once (no gain: the wait moves there); mapping both words'
//! hits to rows; finding an aggregate's group by hashing in every block (5 % of a count).

mod aggregate;
mod automaton;
mod bind;
mod codes;
mod dag;
mod filter;
mod group;
mod intset;
mod kernels;
mod rows;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use self::aggregate::{Aggregation, Partial};
use self::dag::Dag;
use self::filter::Filter;
use self::group::Worker;
use self::kernels::{Kernels, Lanes};
use self::rows::Rows;
use super::cache::Cache;
use super::query::{Output, Query};
use super::schema::Schema;
use super::segment::{Segment, SegmentError};

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

/// What a scan did, counted where it was done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScanStats {
    /// Rows whose answer was found, block by block; a row group that zone maps decide counts with all its rows.
    pub tuples_scanned: u64,
    /// Of these, rows that zone maps decided: no value of theirs was looked at for the predicate.
    pub tuples_skipped: u64,
    /// Rows that qualify.
    pub rows_selected: u64,
    /// Blocks looked at.
    pub blocks_scanned: u64,
    /// Blocks that zone maps excluded, in row groups that were not.
    pub blocks_skipped: u64,
    /// Row groups that zone maps excluded.
    pub groups_skipped: u64,
    /// Bytes of the chunks that were opened, from the cache or the file.
    pub bytes_read: u64,
    /// Whether the scan ended early, by [`ScanOptions::stop`] or by the sink.
    pub stopped: bool,
    /// The predicate's parts, in the order in which they were written.
    pub conjuncts: Vec<ConjunctStats>,
}

/// One conjunct of the predicate, as far as it was sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConjunctStats {
    /// What it tests.
    pub text: String,
    /// Blocks on which it was timed.
    pub blocks_sampled: u64,
    /// Rows in these blocks.
    pub rows_sampled: u64,
    /// Of them, rows that passed.
    pub rows_passed: u64,
    /// Time spent on them, nanoseconds.
    pub time_ns: u64,
}

/// Why a scan failed.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The segment is unreadable or damaged.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The query names a column that the table has not.
    #[error("no column {0} in the table")]
    NoSuchColumn(usize),
    /// Types do not fit.
    #[error("{0}")]
    Type(String),
    /// An exact number has more digits than can be computed with.
    #[error("a number is out of range")]
    Overflow,
    /// It would take more memory than [`ScanOptions::memory_bytes`].
    #[error("the scan needs more than the {0} bytes of memory that it may take")]
    Memory(usize),
    /// More groups than an aggregate may have.
    #[error("more than {0} groups; group by columns of few values")]
    TooManyGroups(usize),
    /// Arrow refused what was built.
    #[error("arrow: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// A rule of this module was broken.
    #[error("internal: {0}")]
    Internal(&'static str),
}

/// The Arrow schema of the result, the same for every way of computing it.
///
/// INTEGER Int32, BIGINT Int64, DECIMAL(p,s) Decimal64(p,s), DATE Date32, TEXT Utf8. Aggregates: count Int64, sum
/// Decimal128(38,s), avg Float64, min and max the column's type (of a number that is computed:
/// Decimal128(38,s)). Only aggregates are nullable: over no rows they are NULL, but for count.
///
/// # Errors
/// If a column does not exist or a function does not take its argument.
pub fn output_schema(schema: &Schema, query: &Query) -> Result<SchemaRef, ScanError> {
    match &query.output {
        Output::Rows(columns) => rows::output_schema(schema, columns),
        Output::Aggregate(aggregate) => {
            Aggregation::new(&mut Dag::default(), schema, aggregate)?.output_schema(schema)
        }
    }
}

/// Scans a segment; gives batches of [`output_schema`] to `sink`, from several threads, in no order.
///
/// # Errors
/// If the query does not fit the table, or the segment is damaged: then rows of other row groups may have been given.
pub fn scan(
    segment: &Segment,
    cache: &Cache,
    query: &Query,
    options: &ScanOptions<'_>,
    sink: &(dyn Fn(RecordBatch) -> ControlFlow<()> + Sync),
) -> Result<ScanStats, ScanError> {
    scan_with(Kernels::detect(), segment, cache, query, options, sink)
}

/// [`scan`] with this instruction set.
fn scan_with(
    kernels: Kernels,
    segment: &Segment,
    cache: &Cache,
    query: &Query,
    options: &ScanOptions<'_>,
    sink: &(dyn Fn(RecordBatch) -> ControlFlow<()> + Sync),
) -> Result<ScanStats, ScanError> {
    Plan::with_kernels(kernels, segment.schema(), query, TABLES_BYTES_MAX)?
        .scan(segment, cache, options, sink)
}

/// A query made ready for any row group of a table.
#[derive(Debug)]
pub struct Plan {
    kernels: Kernels,
    output: SchemaRef,
    dag: Dag,
    conjuncts: Vec<Filter>,
    names: Vec<String>,
    target: Target,
    /// Whose chunks it needs.
    columns: Vec<usize>,
    /// What each thread computes with.
    thread_bytes: usize,
    /// What a row of a batch takes without its texts.
    row_bytes: usize,
    /// Texts of a row.
    row_texts: usize,
}

#[derive(Debug)]
enum Target {
    Rows(Vec<usize>),
    Aggregate(Aggregation),
}

/// What the chunks that a scan uses at once take.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    /// Of each thread.
    thread_bytes: usize,
    /// What the cache has room for.
    room: usize,
}

/// How a scan divides the memory that it has.
#[derive(Clone, Copy, Debug)]
struct Shares {
    threads: usize,
    /// Most bytes of a batch.
    batch_bytes: usize,
    /// For groups.
    group_bytes: usize,
}

/// Most that the tables of a plan's text tests take.
pub const TABLES_BYTES_MAX: usize = 2 << 20;
/// What a thread keeps of a conjunct.
const SAMPLES_BYTES: usize = 128;
/// Rows of a batch below which a scan rather has fewer threads.
const BATCH_ROWS_MIN: usize = 64;
/// Bytes of a text, in estimates.
const TEXT_BYTES: usize = 32;
/// A batch's buffers grow by doubling.
const BUFFER_SLACK: usize = 2;
/// The result of an aggregate takes as much as the groups of one thread.
const RESULT: usize = 1;
/// Groups below which a scan rather has fewer threads.
const GROUPS_MIN: usize = 64;

impl Plan {
    /// Compiles `query` for tables of `schema`.
    ///
    /// # Errors
    /// If the query does not fit the table.
    pub fn new(schema: &Schema, query: &Query) -> Result<Self, ScanError> {
        Self::with_tables(schema, query, TABLES_BYTES_MAX)
    }

    /// The same with tables of text tests that take so much at most; a test without one is slower.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn with_tables(
        schema: &Schema,
        query: &Query,
        table_bytes_max: usize,
    ) -> Result<Self, ScanError> {
        Self::with_kernels(Kernels::detect(), schema, query, table_bytes_max)
    }

    /// What its tables take.
    pub fn table_bytes(&self) -> usize {
        self.conjuncts.iter().map(Filter::table_bytes).sum()
    }

    /// The result's schema, as [`output_schema`] gives it.
    pub fn output_schema(&self) -> &SchemaRef {
        &self.output
    }

    /// What a scan takes at least, with one thread, small batches, few groups and no room in the cache: with less
    /// [`ScanOptions::memory_bytes`] it may fail.
    pub fn memory_bytes_min(&self, segment: &Segment, sink_batches: usize) -> usize {
        let chunks = self.chunks(segment);
        self.memory_bytes(1, chunks, BATCH_ROWS_MIN, GROUPS_MIN, sink_batches)
    }

    /// What a scan can make use of at most, with so many threads and batches of so many rows.
    pub fn memory_bytes_max(
        &self,
        segment: &Segment,
        threads: usize,
        batch_rows: usize,
        sink_batches: usize,
    ) -> usize {
        let threads = useful_threads(segment, threads);
        let chunks = self.chunks(segment);
        self.memory_bytes(
            threads,
            chunks,
            batch_rows,
            aggregate::GROUPS_MAX,
            sink_batches,
        )
    }

    fn memory_bytes(
        &self,
        threads: usize,
        chunks: Chunks,
        batch_rows: usize,
        groups: usize,
        sink_batches: usize,
    ) -> usize {
        let fixed = self.fixed_bytes(threads, chunks);
        fixed.saturating_add(match &self.target {
            Target::Rows(_) => {
                let row_bytes = self.row_bytes + self.row_texts * TEXT_BYTES;
                let batches = Self::batches(threads, sink_batches) * BUFFER_SLACK;
                row_bytes.saturating_mul(batch_rows).saturating_mul(batches)
            }
            Target::Aggregate(aggregation) => aggregation
                .groups_bytes(groups)
                .saturating_mul(threads + RESULT),
        })
    }

    /// What threads take whatever they find: vectors, and chunks that the cache has no room for.
    fn fixed_bytes(&self, threads: usize, chunks: Chunks) -> usize {
        let beside = threads
            .saturating_mul(chunks.thread_bytes)
            .saturating_sub(chunks.room);
        threads
            .saturating_mul(self.thread_bytes)
            .saturating_add(beside)
    }

    /// Those of the row group that has most, and no room for any.
    fn chunks(&self, segment: &Segment) -> Chunks {
        let groups = segment.groups().iter().map(|group| {
            let chunks = self.columns.iter().map(|&column| &group.chunks[column]);
            chunks.map(|chunk| chunk.len as usize).sum()
        });
        Chunks {
            thread_bytes: groups.max().unwrap_or(0),
            room: 0,
        }
    }

    /// Each thread fills one batch and may wait to hand over another.
    fn batches(threads: usize, sink_batches: usize) -> usize {
        2 * threads + sink_batches
    }

    fn shares(
        &self,
        threads: usize,
        chunks: Chunks,
        options: &ScanOptions<'_>,
    ) -> Result<Shares, ScanError> {
        let (memory, sink) = (options.memory_bytes, options.sink_batches);
        let least = |threads| self.memory_bytes(threads, chunks, BATCH_ROWS_MIN, GROUPS_MIN, sink);
        let threads = (1..=threads)
            .rev()
            .find(|&threads| least(threads) <= memory)
            .ok_or(ScanError::Memory(memory))?;
        let left = memory - self.fixed_bytes(threads, chunks);
        Ok(Shares {
            threads,
            batch_bytes: left / (Self::batches(threads, sink) * BUFFER_SLACK),
            group_bytes: left / (threads + RESULT) * threads,
        })
    }

    /// Scans a segment of the plan's table; gives batches to `sink`, from several threads, in no order.
    ///
    /// # Errors
    /// If the segment is damaged or memory does not suffice: then rows of other row groups may have been given.
    pub fn scan(
        &self,
        segment: &Segment,
        cache: &Cache,
        options: &ScanOptions<'_>,
        sink: &(dyn Fn(RecordBatch) -> ControlFlow<()> + Sync),
    ) -> Result<ScanStats, ScanError> {
        let threads = useful_threads(segment, options.threads);
        let mut chunks = self.chunks(segment);
        let room = cache.room(threads.saturating_mul(chunks.thread_bytes) as u64);
        chunks.room = room.bytes() as usize;
        let shares = self.shares(threads, chunks, options)?;
        let shared = Shared {
            plan: self,
            segment,
            cache,
            options,
            batch_bytes: shares.batch_bytes,
            group_memory: Memory::new(shares.group_bytes),
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

    fn with_kernels(
        kernels: Kernels,
        schema: &Schema,
        query: &Query,
        table_bytes_max: usize,
    ) -> Result<Self, ScanError> {
        let mut dag = Dag::default();
        let filter = Filter::new(&mut dag, schema, &query.predicate, table_bytes_max)?;
        let (target, output) = match &query.output {
            Output::Rows(columns) => (
                Target::Rows(columns.iter().map(|&column| column as usize).collect()),
                rows::output_schema(schema, columns)?,
            ),
            Output::Aggregate(aggregate) => {
                let aggregation = Aggregation::new(&mut dag, schema, aggregate)?;
                let output = aggregation.output_schema(schema)?;
                (Target::Aggregate(aggregation), output)
            }
        };
        let conjuncts = filter.into_conjuncts();
        let mut columns: Vec<usize> = dag.columns().collect();
        conjuncts.iter().for_each(|one| one.columns(&mut columns));
        match &target {
            Target::Rows(output) => columns.extend(output),
            Target::Aggregate(aggregation) => aggregation.columns(&mut columns),
        }
        columns.sort_unstable();
        columns.dedup();
        let vectors = (schema.columns.len() + dag.nodes().len()) * size_of::<kernels::Numbers>();
        let tests: usize = conjuncts.iter().map(Filter::thread_bytes).sum();
        let names: Vec<String> = conjuncts.iter().map(|one| one.describe(schema)).collect();
        // Each thread's samples of a conjunct, under its name.
        let samples = names.iter().map(|name| name.len() + SAMPLES_BYTES);
        let mut thread_bytes = vectors + tests + samples.sum::<usize>() + size_of::<Lanes>();
        let (mut row_bytes, mut row_texts) = (0, 0);
        match &target {
            Target::Rows(columns) => {
                for &column in columns {
                    let (bytes, texts) = rows::row_bytes(schema.columns[column].ty);
                    row_bytes += bytes;
                    row_texts += texts;
                }
                thread_bytes += rows::THREAD_BYTES + row_texts * rows::TEXT_THREAD_BYTES;
            }
            Target::Aggregate(aggregation) => thread_bytes += aggregation.thread_bytes(),
        }
        Ok(Self {
            kernels,
            output,
            thread_bytes,
            row_bytes,
            row_texts,
            names,
            dag,
            conjuncts,
            target,
            columns,
        })
    }
}

/// A thread has a row group at a time.
fn useful_threads(segment: &Segment, threads: usize) -> usize {
    threads.clamp(1, segment.groups().len().max(1))
}

/// What all threads of a scan see.
struct Shared<'a> {
    plan: &'a Plan,
    segment: &'a Segment,
    cache: &'a Cache,
    options: &'a ScanOptions<'a>,
    batch_bytes: usize,
    group_memory: Memory,
    sink: &'a (dyn Fn(RecordBatch) -> ControlFlow<()> + Sync),
    next_group: AtomicUsize,
    done: AtomicBool,
    end: Mutex<End>,
}

/// Memory that threads take from in small pieces.
struct Memory {
    bytes: usize,
    left: AtomicUsize,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        Self {
            bytes,
            left: AtomicUsize::new(bytes),
        }
    }

    fn take(&self, bytes: usize) -> Result<(), ScanError> {
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes)
            })
            .map(|_| ())
            .map_err(|_| ScanError::Memory(self.bytes))
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
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
        let mut stats = ScanStats {
            conjuncts: self
                .plan
                .names
                .iter()
                .map(|text| ConjunctStats {
                    text: text.clone(),
                    ..ConjunctStats::default()
                })
                .collect(),
            ..ScanStats::default()
        };
        let mut partial = Partial::default();
        let result = self.scan_groups(&mut stats, &mut partial);
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

    fn scan_groups(&self, stats: &mut ScanStats, partial: &mut Partial) -> Result<(), ScanError> {
        let mut worker = Worker::new(self.plan, self.segment, self.cache);
        let mut rows = match &self.plan.target {
            Target::Rows(columns) => Some(Rows::new(
                self.segment.schema(),
                columns,
                self.plan.output.clone(),
                self.options.batch_rows,
                self.batch_bytes,
            )),
            Target::Aggregate(_) => None,
        };
        while !self.is_stopped() {
            let group = self.next_group.fetch_add(1, Ordering::Relaxed);
            if group >= self.segment.groups().len() {
                break;
            }
            worker.open(group);
            match (&mut rows, &self.plan.target) {
                (Some(rows), _) => {
                    worker.scan(stats, &mut |context, block, mask| {
                        if self.is_stopped() {
                            return Ok(ControlFlow::Break(()));
                        }
                        rows.append(context, block, mask, &mut |batch| self.give(batch))
                    })?;
                    if !self.is_stopped() {
                        let _flow =
                            rows.end_group(worker.context(), &mut |batch| self.give(batch))?;
                    }
                }
                (None, Target::Aggregate(aggregation)) => {
                    let mut group = aggregation.open(&self.group_memory);
                    worker.scan(stats, &mut |context, block, mask| {
                        if self.is_stopped() {
                            return Ok(ControlFlow::Break(()));
                        }
                        group.update(context, block, mask)?;
                        Ok(ControlFlow::Continue(()))
                    })?;
                    group.close(worker.context(), partial)?;
                }
                (None, Target::Rows(_)) => {
                    return Err(ScanError::Internal("rows without a builder"));
                }
            }
        }
        if let Some(rows) = &mut rows
            && !self.is_stopped()
        {
            let _last = rows.flush(&mut |batch| self.give(batch))?;
        }
        stats.stopped = self.is_stopped();
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

impl ScanStats {
    fn add(&mut self, other: Self) {
        self.tuples_scanned += other.tuples_scanned;
        self.tuples_skipped += other.tuples_skipped;
        self.rows_selected += other.rows_selected;
        self.blocks_scanned += other.blocks_scanned;
        self.blocks_skipped += other.blocks_skipped;
        self.groups_skipped += other.groups_skipped;
        self.bytes_read += other.bytes_read;
        self.stopped |= other.stopped;
        if self.conjuncts.is_empty() {
            self.conjuncts = other.conjuncts;
        } else {
            for (one, other) in self.conjuncts.iter_mut().zip(other.conjuncts) {
                one.blocks_sampled += other.blocks_sampled;
                one.rows_sampled += other.rows_sampled;
                one.rows_passed += other.rows_passed;
                one.time_ns += other.time_ns;
            }
        }
    }
}
