//! A query made ready: compiled conditions, what the output needs, and how much memory that takes.

use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::ScanError;
use super::aggregate::{self, Aggregation};
use super::bind::Bound;
use super::dag::Dag;
use super::filter::Filter;
use super::kernels::{self, Kernels, Lanes};
use super::rows;
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
    pub(super) output: SchemaRef,
    pub(super) dag: Arc<Dag>,
    pub(super) conjuncts: Vec<Filter>,
    /// What each conjunct tests, as text.
    pub(super) names: Vec<String>,
    pub(super) target: Target,
    /// Whose chunks it needs.
    columns: Vec<usize>,
    /// What each thread computes with.
    thread_bytes: usize,
    /// What a row of a batch takes without its texts.
    row_bytes: usize,
    /// Texts of a row.
    row_texts: usize,
}

/// What is made of the rows that qualify.
#[derive(Debug)]
pub(super) enum Target {
    Rows(Vec<usize>),
    Aggregate(Aggregation),
}

/// What the chunks that a scan uses at once take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    /// Of each thread.
    pub(super) thread_bytes: usize,
    /// What the cache has room for.
    pub(super) room: usize,
}

/// How a scan divides the memory that it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) threads: usize,
    /// Most bytes of a batch.
    pub(super) batch_bytes: usize,
    /// For groups.
    pub(super) group_bytes: usize,
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

    /// Each thread fills one batch and may wait to hand over another.
    fn batches(threads: usize, sink_batches: usize) -> usize {
        2 * threads + sink_batches
    }

    /// The most threads, and the largest batches and groups, that `memory` bytes suffice for beside a sink that keeps `sink` batches.
    pub(super) fn shares(
        &self,
        threads: usize,
        chunks: Chunks,
        memory: usize,
        sink: usize,
    ) -> Result<Shares, ScanError> {
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
        Ok(Self {
            kernels,
            output,
            thread_bytes,
            row_bytes,
            row_texts,
            names,
            dag: Arc::new(dag),
            conjuncts,
            target,
            columns,
        })
    }
}

/// A thread has a row group at a time.
pub(super) fn useful_threads(segment: &Segment, threads: usize) -> usize {
    threads.clamp(1, segment.groups().len().max(1))
}
