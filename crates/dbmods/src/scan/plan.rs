//! A query made ready: compiled conditions, what the output needs, and how much memory that takes.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use dpb_core::{Timer, WallClock};

use super::ScanError;
use super::aggregate::{self, Aggregation};
use super::bind::Bound;
use super::dag::Dag;
use super::filter::Filter;
use super::kernels::{self, Kernels, Lanes};
use super::layout::{Layout, TEXT_BYTES};
use super::output::Output as Given;
use super::rows;
use super::stats::{ConjunctStats, ScanStats};
use crate::query::{Output, Query};
use crate::schema::Schema;
use crate::table::segment::Segment;

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

/// A query made ready for any row group of a table.
#[derive(Debug)]
pub struct Plan {
    pub(super) kernels: &'static Kernels,
    /// The clock by which conjuncts are timed, and then ordered. Results do not depend on it.
    pub(super) clock: Arc<dyn Timer>,
    pub(super) output: SchemaRef,
    pub(super) dag: Arc<Dag>,
    pub(super) conjuncts: Vec<Filter>,
    /// The test of each conjunct, as text.
    pub(super) names: Vec<String>,
    pub(super) target: Target,
    /// Most rows, or groups, of the result.
    pub(super) limit: Option<u64>,
    /// The columns whose chunks it needs.
    columns: Vec<usize>,
    /// The memory that each thread computes with.
    thread_bytes: usize,
    /// The bytes of a row of a batch without its texts.
    row_bytes: usize,
    /// Texts of a row.
    row_texts: usize,
    /// Bytes of a batch's message besides its values, at most.
    pub(super) message_bytes: usize,
}

/// The use that is made of the rows that qualify.
#[derive(Debug)]
pub(super) enum Target {
    Rows(Vec<usize>),
    Aggregate(Aggregation),
}

/// The memory of the chunks that a scan uses at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    /// Bytes of each thread's chunks.
    pub(super) thread_bytes: usize,
    /// Bytes that the cache has room for.
    pub(super) room: usize,
}

/// The division of the memory that a scan has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) threads: usize,
    /// A job's slot.
    pub(super) slot_bytes: usize,
    /// Most rows of a batch.
    pub(super) batch_rows: usize,
    /// For the groups that all threads accumulate.
    pub(super) group_bytes: usize,
    /// For those of the result.
    pub(super) result_bytes: usize,
}

/// Most that the tables of a plan's text tests take.
pub const TABLES_BYTES_MAX: usize = 2 << 20;
/// Bytes that a thread keeps of a conjunct.
const SAMPLES_BYTES: usize = 128;
/// A slot of fewer bytes may be too short for a row of long texts.
const SLOT_BYTES_USEFUL: usize = 256 << 10;
/// Rows of a batch below which a scan rather has fewer threads.
const BATCH_ROWS_MIN: usize = 64;
/// A batch's buffers grow by doubling.
const BUFFER_SLACK: usize = 2;
/// The result of an aggregate takes as much as the groups of one thread; so do those that are added to it.
const RESULT: usize = 2;
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

    /// The same plan with conjuncts timed by `clock`, instead of the host's.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Timer>) -> Self {
        Self { clock, ..self }
    }

    /// The memory of its tables.
    pub fn table_bytes(&self) -> usize {
        self.conjuncts.iter().map(Filter::table_bytes).sum()
    }

    /// The result's schema, as [`output_schema`] gives it.
    pub fn output_schema(&self) -> &SchemaRef {
        &self.output
    }

    /// Most rows of the result, or groups of an aggregate; `None` for all.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// True if the result is an aggregate.
    pub fn is_aggregate(&self) -> bool {
        matches!(self.target, Target::Aggregate(_))
    }

    /// Nothing counted yet.
    pub(super) fn new_stats(&self) -> ScanStats {
        let conjunct = |text: &String| ConjunctStats {
            text: text.clone(),
            ..ConjunctStats::default()
        };
        ScanStats {
            conjuncts: self.names.iter().map(conjunct).collect(),
            ..ScanStats::default()
        }
    }

    /// An aggregate's result without the groups that are more than the query's limit.
    pub(super) fn cut(&self, groups: RecordBatch) -> RecordBatch {
        let limit = self.limit.unwrap_or(u64::MAX);
        match groups.num_rows() as u64 > limit {
            true => groups.slice(0, limit as usize),
            false => groups,
        }
    }

    /// The test of each conjunct of the predicate, as it was written.
    pub fn conjuncts(&self) -> &[String] {
        &self.names
    }

    /// What a scan takes at least, with one thread, small batches, few groups and no room in the cache: with less
    /// [`super::ScanOptions::memory_bytes`] it may fail.
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
                let batch = row_bytes.saturating_mul(batch_rows);
                let slot = self.batch_slot_bytes(batch);
                let batches = batch.saturating_mul(threads * BUFFER_SLACK);
                slot.saturating_mul(threads + sink_batches)
                    .saturating_add(batches)
            }
            Target::Aggregate(aggregation) => {
                let slot = self.partial_slot_bytes(aggregation.slot_bytes(groups));
                let groups = aggregation.groups_bytes(groups);
                let all = groups.saturating_mul(threads + RESULT);
                slot.saturating_mul(threads).saturating_add(all)
            }
        })
    }

    /// About what a batch of so many rows takes.
    pub(super) fn batch_bytes(&self, rows: usize) -> usize {
        let row_bytes = self.row_bytes + self.row_texts * TEXT_BYTES;
        row_bytes
            .saturating_mul(rows)
            .saturating_add(self.message_bytes)
    }

    /// A slot for a batch of so many bytes of values.
    fn batch_slot_bytes(&self, values: usize) -> usize {
        Given::head_bytes(self.names.len()) + self.message_bytes + values
    }

    /// A slot for a partial aggregate of so many bytes.
    fn partial_slot_bytes(&self, bytes: usize) -> usize {
        Given::head_bytes(self.names.len()) + bytes
    }

    /// The memory that threads take whatever they find: vectors, and chunks that the cache has no room for.
    fn fixed_bytes(&self, threads: usize, chunks: Chunks) -> usize {
        let beside = threads
            .saturating_mul(chunks.thread_bytes)
            .saturating_sub(chunks.room);
        threads
            .saturating_mul(self.thread_bytes)
            .saturating_add(beside)
    }

    /// The chunks of the row group that has most, and no room for any.
    pub(super) fn chunks(&self, segment: &Segment) -> Chunks {
        let groups = segment.groups().iter().map(|group| {
            let chunks = self.columns.iter().map(|&column| &group.chunks[column]);
            chunks.map(|chunk| chunk.len as usize).sum()
        });
        Chunks {
            thread_bytes: groups.max().unwrap_or(0),
            room: 0,
        }
    }

    /// The most threads, and the largest batches and groups, that `memory` bytes suffice for beside a sink that keeps `sink` batches.
    pub(super) fn shares(
        &self,
        threads: usize,
        chunks: Chunks,
        memory: usize,
        (batch_rows, sink): (usize, usize),
    ) -> Result<Shares, ScanError> {
        let least = |threads| self.memory_bytes(threads, chunks, BATCH_ROWS_MIN, GROUPS_MIN, sink);
        let threads = (1..=threads)
            .rev()
            .find(|&threads| least(threads) <= memory)
            .ok_or(ScanError::Memory(memory))?;
        let least = least(threads);
        // What is more than the least goes to all in the same proportion.
        let grown = |bytes: usize| {
            let (bytes, fixed) = (bytes as u128, self.fixed_bytes(threads, chunks) as u128);
            (bytes * (memory as u128 - fixed) / (least as u128 - fixed).max(1)) as usize
        };
        Ok(match &self.target {
            Target::Rows(_) => {
                let row_bytes = self.row_bytes + self.row_texts * TEXT_BYTES;
                let slot = |rows| self.batch_slot_bytes(row_bytes.saturating_mul(rows));
                let useful = slot(batch_rows).max(SLOT_BYTES_USEFUL);
                let slot_bytes = grown(slot(BATCH_ROWS_MIN)).min(useful);
                Shares {
                    threads,
                    slot_bytes,
                    // Room is made for so many.
                    batch_rows: batch_rows.min(slot_bytes / self.row_bytes.max(1)).max(1),
                    group_bytes: 0,
                    result_bytes: 0,
                }
            }
            Target::Aggregate(aggregation) => {
                let slot = |groups| self.partial_slot_bytes(aggregation.slot_bytes(groups));
                let useful = slot(aggregate::GROUPS_MAX).max(SLOT_BYTES_USEFUL);
                let groups = aggregation.groups_bytes(GROUPS_MIN);
                Shares {
                    threads,
                    slot_bytes: grown(slot(GROUPS_MIN)).min(useful),
                    batch_rows,
                    group_bytes: grown(groups * threads),
                    result_bytes: grown(groups),
                }
            }
        })
    }

    /// The same on this instruction set.
    pub(super) fn with_kernels(
        kernels: &'static Kernels,
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
        let tests: usize = conjuncts.iter().map(Bound::thread_bytes).sum();
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
        let message_bytes = match &target {
            Target::Rows(_) => Layout::new(&output)?.message_bytes(),
            Target::Aggregate(_) => 0,
        };
        Ok(Self {
            message_bytes,
            kernels,
            clock: Arc::new(WallClock::default()),
            output,
            thread_bytes,
            row_bytes,
            row_texts,
            names,
            dag: Arc::new(dag),
            conjuncts,
            target,
            limit: query.limit,
            columns,
        })
    }
}

/// A thread has a row group at a time.
pub(super) fn useful_threads(segment: &Segment, threads: usize) -> usize {
    threads.clamp(1, segment.groups().len().max(1))
}
