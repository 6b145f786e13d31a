//! The unit of a scan: one row group, its batches or its share of an aggregate.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;

use super::ScanError;
use super::aggregate::{Aggregation, Partial};
use super::group::Worker;
use super::memory::Memory;
use super::plan::{Plan, Target};
use super::rows::{Rows, Sink};
use super::stats::ScanStats;
use crate::ipc;
use crate::table::cache::Cache;
use crate::table::segment::Segment;

/// Scans row groups of a segment, one after another, in whatever order its owner asks for. It is one thread's: it owns the
/// vectors that it computes with and the batch that it fills, and shares segment, cache and plan. A limit of rows is for its owner to
/// keep: it knows nothing of the rows of others.
///
/// ```no_run
/// use std::ops::ControlFlow;
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use dpb_dbmods::query::{Output, Query, sql};
/// use dpb_dbmods::scan::{GroupScan, Plan};
/// use dpb_dbmods::table::{Cache, Segment};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let segment = Arc::new(Segment::open(Path::new("lineitem.dpb"))?);
/// let query = Query {
///     table: "lineitem".to_owned(),
///     predicate: sql::parse_predicate(segment.schema(), "l_quantity < 2")?,
///     output: Output::Rows(vec![0, 4]),
///     limit: None,
/// };
/// let plan = Arc::new(Plan::new(segment.schema(), &query)?);
/// let cache = Arc::new(Cache::new(1 << 30));
/// let mut scan = GroupScan::new(&plan, &segment, &cache, 16 << 10);
/// let mut rows = 0;
/// for group in 0..segment.groups().len() {
///     scan.scan(group, &mut |batch| {
///         rows += batch.num_rows();
///         ControlFlow::Continue(())
///     })?;
/// }
/// scan.finish(&mut |last| {
///     rows += last.num_rows();
///     ControlFlow::Continue(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct GroupScan {
    worker: Worker,
    output: Collected,
    stats: ScanStats,
    /// Memory of batches that go to a function.
    memory: Vec<u8>,
    /// The useful length of that memory.
    batch_bytes: usize,
}

/// Most bytes of a batch that goes to a function, if it has more than one row.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// Decodes batches for a function.
struct ToFunction<'a> {
    give: &'a mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
    schema: &'a SchemaRef,
    memory: &'a mut Vec<u8>,
    batch_bytes: usize,
}

impl Sink for ToFunction<'_> {
    fn memory(&mut self) -> &mut [u8] {
        self.memory
    }

    fn filled(&mut self, bytes: usize, _rows: usize) -> Result<ControlFlow<()>, ScanError> {
        let message = Buffer::from(&self.memory[..bytes]);
        let batch = ipc::decode_batch(&message, self.schema);
        Ok((self.give)(batch.map_err(|_| {
            ScanError::Internal("a batch that cannot be decoded")
        })?))
    }

    fn grow(&mut self, bytes: usize) -> ControlFlow<()> {
        self.memory.resize(bytes.max(self.batch_bytes), 0);
        ControlFlow::Continue(())
    }
}

/// The rows or groups that were found, until they are handed over.
enum Collected {
    Rows(Box<Rows>),
    Groups {
        partial: Partial,
        memory: Arc<Memory>,
    },
}

impl GroupScan {
    /// Of `segment`, whose table is the plan's, in batches of at most `batch_rows` rows.
    pub fn new(
        plan: &Arc<Plan>,
        segment: &Arc<Segment>,
        cache: &Arc<Cache>,
        batch_rows: usize,
    ) -> Self {
        let memory = Arc::new(Memory::new(usize::MAX));
        Self::within(plan, segment, cache, batch_rows, &memory)
    }

    /// The same with groups that take from `memory`.
    pub(super) fn within(
        plan: &Arc<Plan>,
        segment: &Arc<Segment>,
        cache: &Arc<Cache>,
        batch_rows: usize,
        memory: &Arc<Memory>,
    ) -> Self {
        Self {
            stats: plan.new_stats(),
            output: match &plan.target {
                Target::Rows(columns) => {
                    let rows = Rows::new(segment.schema(), columns, &plan.output, batch_rows);
                    Collected::Rows(Box::new(
                        rows.expect("the plan was made with such a layout"),
                    ))
                }
                Target::Aggregate(_) => Collected::Groups {
                    partial: Partial::default(),
                    memory: Arc::clone(memory),
                },
            },
            memory: Vec::new(),
            batch_bytes: plan.batch_bytes(batch_rows).min(BATCH_BYTES_MAX),
            worker: Worker::new(Arc::clone(plan), Arc::clone(segment), Arc::clone(cache)),
        }
    }

    /// Scans row group `group`. Rows go to `give` as batches fill; the last batch stays here and takes the next row group's rows
    /// too, until [`GroupScan::finish`]. Of an aggregate nothing is given before that. Breaks if `give` did.
    ///
    /// # Errors
    /// If the row group is damaged, or the computation fails: batches may have been given then.
    ///
    /// # Panics
    /// If the segment has no such row group.
    pub fn scan(
        &mut self,
        group: usize,
        give: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ScanError> {
        Ok(
            match self.with_function(give, |scan, sink| scan.scan_from(group, 0, sink))? {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            },
        )
    }

    fn with_function<T>(
        &mut self,
        give: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
        run: impl FnOnce(&mut Self, &mut ToFunction<'_>) -> T,
    ) -> T {
        let (mut memory, schema) = (
            std::mem::take(&mut self.memory),
            Arc::clone(self.worker.plan().output_schema()),
        );
        let mut sink = ToFunction {
            give,
            schema: &schema,
            memory: &mut memory,
            batch_bytes: self.batch_bytes,
        };
        let result = run(self, &mut sink);
        self.memory = memory;
        result
    }

    /// The same from row `first` of the row group on, and nobody wants the rows.
    pub(super) fn scan_behind(&mut self, group: usize, first: usize) -> Result<(), ScanError> {
        let mut forget = |_| ControlFlow::Continue(());
        self.with_function(&mut forget, |scan, sink| scan.scan_from(group, first, sink))?;
        Ok(())
    }

    /// The same from row `first` of the row group on; gives the row before which `sink` broke.
    pub(super) fn scan_from(
        &mut self,
        group: usize,
        first: usize,
        sink: &mut dyn Sink,
    ) -> Result<Option<usize>, ScanError> {
        let (worker, stats) = (&mut self.worker, &mut self.stats);
        worker.open(group);
        match &mut self.output {
            Collected::Rows(rows) => {
                let stopped_at = worker.scan(first, stats, &mut |context, found| match found {
                    Some((block, mask)) => rows.append(context, block, mask, sink),
                    None => rows.end_group(context, sink),
                });
                stats.rows_selected += rows.take_count();
                stopped_at
            }
            Collected::Groups { partial, memory } => {
                let plan = Arc::clone(worker.plan());
                let Target::Aggregate(aggregation) = &plan.target else {
                    return Err(ScanError::Internal("groups without an aggregate"));
                };
                let mut table = aggregation.open(memory);
                let mut selected = 0;
                worker.scan(first, stats, &mut |context, found| {
                    if let Some((block, mask)) = found {
                        selected += plan.kernels.count(mask) as u64;
                        table.update(context, block, mask)?;
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
                stats.rows_selected += selected;
                table.close(worker.context(), partial)?;
                Ok(None)
            }
        }
    }

    /// Hands over what is left of the row groups that were scanned: the last rows, or the aggregate over these row groups, which
    /// is one batch. The next row group begins anew.
    ///
    /// # Errors
    /// If a number of the result is out of range.
    pub fn finish(
        &mut self,
        give: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ScanError> {
        let plan = Arc::clone(self.worker.plan());
        match self.take_partial() {
            Some((aggregation, partial)) => {
                let groups = aggregation.finish(plan.output.clone(), partial)?;
                Ok(give(plan.cut(groups)))
            }
            None => self.with_function(give, |scan, sink| scan.flush(sink)),
        }
    }

    /// The groups of an aggregate over row group `group` alone, as bytes.
    ///
    /// # Errors
    /// As [`GroupScan::scan`]; if a sum is out of range.
    pub(crate) fn partial_of(&mut self, group: usize) -> Result<Vec<u8>, ScanError> {
        self.scan_behind(group, 0)?;
        match self.take_partial() {
            Some((aggregation, partial)) => aggregation.to_bytes(&partial),
            None => Err(ScanError::Internal("rows are not merged")),
        }
    }

    /// Hands over the last rows.
    pub(super) fn flush(&mut self, sink: &mut dyn Sink) -> Result<ControlFlow<()>, ScanError> {
        match &mut self.output {
            Collected::Rows(rows) => rows.flush(sink),
            Collected::Groups { .. } => Ok(ControlFlow::Continue(())),
        }
    }

    /// Takes the groups of an aggregate; none of rows. Their memory is given back.
    pub(super) fn take_partial(&mut self) -> Option<(&Aggregation, Partial)> {
        match (&mut self.output, &self.worker.plan().target) {
            (Collected::Groups { partial, memory }, Target::Aggregate(aggregation)) => {
                let partial = std::mem::take(partial);
                aggregation.give_back(&partial, memory);
                Some((aggregation, partial))
            }
            _ => None,
        }
    }

    /// The counts since it was made.
    pub fn stats(&self) -> &ScanStats {
        &self.stats
    }

    /// The same, to be written down and set to zero.
    pub(super) fn stats_mut(&mut self) -> &mut ScanStats {
        &mut self.stats
    }
}

impl std::fmt::Debug for GroupScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupScan")
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
