//! The unit of a scan: one row group, its batches or its share of an aggregate.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::aggregate::Partial;
use super::group::Worker;
use super::memory::Memory;
use super::plan::{Plan, Target};
use super::rows::{Give, Rows};
use super::stats::ScanStats;
use super::{ConjunctStats, ScanError};
use crate::table::cache::Cache;
use crate::table::segment::Segment;

/// Scans row groups of a segment, one after another, in whatever order its owner asks for. It is one thread's: it owns the
/// vectors that it computes with and the batch that it fills, and shares segment, cache and plan.
///
/// ```no_run
/// use std::ops::ControlFlow;
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use dpb_dbmods::query::{Output, Query, sql};
/// use dpb_dbmods::scan::{GroupScan, Plan};
/// use dpb_dbmods::table::cache::Cache;
/// use dpb_dbmods::table::segment::Segment;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let segment = Arc::new(Segment::open(Path::new("lineitem.dpb"))?);
/// let query = Query {
///     table: "lineitem".to_owned(),
///     predicate: sql::parse_predicate(segment.schema(), "l_quantity < 2")?,
///     output: Output::Rows(vec![0, 4]),
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
}

/// What comes of rows that qualify, until it is handed over.
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
        Self::within(plan, segment, cache, (batch_rows, usize::MAX), memory)
    }

    /// The same in batches of at most so many rows and bytes, and with groups that take from `memory`.
    pub(super) fn within(
        plan: &Arc<Plan>,
        segment: &Arc<Segment>,
        cache: &Arc<Cache>,
        (batch_rows, batch_bytes): (usize, usize),
        memory: Arc<Memory>,
    ) -> Self {
        let conjunct = |text: &String| ConjunctStats {
            text: text.clone(),
            ..ConjunctStats::default()
        };
        Self {
            stats: ScanStats {
                conjuncts: plan.names.iter().map(conjunct).collect(),
                ..ScanStats::default()
            },
            output: match &plan.target {
                Target::Rows(columns) => Collected::Rows(Box::new(Rows::new(
                    segment.schema(),
                    columns,
                    plan.output.clone(),
                    batch_rows,
                    batch_bytes,
                ))),
                Target::Aggregate(_) => Collected::Groups {
                    partial: Partial::default(),
                    memory,
                },
            },
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
        self.scan_until(&|| false, group, give)
    }

    /// The same, ended at the next block once `is_stopped`.
    pub(super) fn scan_until(
        &mut self,
        is_stopped: &dyn Fn() -> bool,
        group: usize,
        give: &mut Give<'_>,
    ) -> Result<ControlFlow<()>, ScanError> {
        let (worker, stats) = (&mut self.worker, &mut self.stats);
        worker.open(group);
        let mut flow = ControlFlow::Continue(());
        match &mut self.output {
            Collected::Rows(rows) => {
                worker.scan(stats, &mut |context, block, mask| {
                    flow = match is_stopped() {
                        true => ControlFlow::Break(()),
                        false => rows.append(context, block, mask, give)?,
                    };
                    Ok(flow)
                })?;
                if flow.is_continue() && !is_stopped() {
                    flow = rows.end_group(worker.context(), give)?;
                }
            }
            Collected::Groups { partial, memory } => {
                let plan = Arc::clone(worker.plan());
                let Target::Aggregate(aggregation) = &plan.target else {
                    return Err(ScanError::Internal("groups without an aggregate"));
                };
                let mut table = aggregation.open(memory);
                worker.scan(stats, &mut |context, block, mask| {
                    flow = match is_stopped() {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(table.update(context, block, mask)?),
                    };
                    Ok(flow)
                })?;
                table.close(worker.context(), partial)?;
            }
        }
        Ok(flow)
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
        match (&mut self.output, &plan.target) {
            (Collected::Rows(rows), _) => rows.flush(give),
            (Collected::Groups { partial, .. }, Target::Aggregate(aggregation)) => {
                let partial = std::mem::take(partial);
                Ok(give(aggregation.finish(plan.output.clone(), partial)?))
            }
            (Collected::Groups { .. }, Target::Rows(_)) => {
                Err(ScanError::Internal("groups without an aggregate"))
            }
        }
    }

    /// What was counted since it was made.
    pub fn stats(&self) -> &ScanStats {
        &self.stats
    }

    /// What it has counted, and the groups of an aggregate that nobody has been given.
    pub(super) fn into_parts(self) -> (ScanStats, Partial) {
        let partial = match self.output {
            Collected::Rows(_) => Partial::default(),
            Collected::Groups { partial, .. } => partial,
        };
        (self.stats, partial)
    }
}

impl std::fmt::Debug for GroupScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupScan")
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
