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
//! hits to rows and the search for codes take about a quarter each; all sixteen columns at 1 % 2.8, two thirds of it in
//! asking for and reading survivors; Q1 4.2, a quarter of it masked sums.
//!
//! What helped, with the ratio seen when it came in: huge pages for chunks ([`super::arena`]; 1.2 for counts, 1.2 to 1.75 for all
//! columns at 1 %); counting masks with vector instructions instead of the baseline's (up to 1.5 for Q6); fewer rows a
//! batch, 16 K for 64 K, as buffers then come back from the allocator without page faults (1.25 at 10 %); comparing 32 offsets
//! at once to find a hit's row and testing a second word's codes on candidates alone (1.25 for LIKE); unpacking a block
//! whole from 40 survivors on, not 160 (1.2 at 10 %); asking 4 KiB ahead inside the compares (1.15 for a count); not touching
//! the next word of a packed value that does not go on there, and asking for survivors' lines a block before they are read
//! (1.15 each at 1 %).
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
use self::kernels::Kernels;
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
    /// Rows of a batch, about: a batch is handed over when the next block might not fit.
    pub batch_rows: usize,
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
    let plan = Plan::new(segment.schema(), query, kernels)?;
    let shared = Shared {
        plan: &plan,
        segment,
        cache,
        options,
        sink,
        next_group: AtomicUsize::new(0),
        done: AtomicBool::new(false),
        end: Mutex::new(End::default()),
    };
    let threads = options.threads.clamp(1, segment.groups().len().max(1));
    std::thread::scope(|scope| {
        for _ in 1..threads {
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
    if let Target::Aggregate(aggregation) = &plan.target
        && !stats.stopped
    {
        let batch = aggregation.finish(plan.output.clone(), end.partial)?;
        stats.stopped = sink(batch).is_break();
    }
    Ok(stats)
}

/// A query made ready for any row group.
#[derive(Debug)]
struct Plan {
    kernels: Kernels,
    output: SchemaRef,
    dag: Dag,
    conjuncts: Vec<Filter>,
    names: Vec<String>,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Rows(Vec<usize>),
    Aggregate(Aggregation),
}

impl Plan {
    fn new(schema: &Schema, query: &Query, kernels: Kernels) -> Result<Self, ScanError> {
        let mut dag = Dag::default();
        let filter = Filter::new(&mut dag, schema, &query.predicate)?;
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
        Ok(Self {
            kernels,
            output,
            names: conjuncts.iter().map(|one| one.describe(schema)).collect(),
            dag,
            conjuncts,
            target,
        })
    }
}

/// What all threads of a scan see.
struct Shared<'a> {
    plan: &'a Plan,
    segment: &'a Segment,
    cache: &'a Cache,
    options: &'a ScanOptions<'a>,
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
            Target::Aggregate(aggregation) => aggregation.merge(&mut end.partial, partial),
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
                    let mut group = aggregation.open();
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
