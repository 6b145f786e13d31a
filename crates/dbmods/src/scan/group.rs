//! One row group at a time: which conjuncts it needs, and the loop over its blocks.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::bind::Bound;
use super::context::Context;
use super::kernels::Mask;
use super::plan::Plan;
use super::{ScanError, ScanStats};
use crate::table::cache::Cache;
use crate::table::chunk::BLOCK_ROWS;
use crate::table::segment::Segment;

/// Blocks whose conjuncts are all timed at a scan's start.
const SAMPLE_FIRST: u64 = 4;
/// After that, one in so many.
const SAMPLE_EVERY: u64 = 64;

/// The state with which a thread scans.
pub(super) struct Worker {
    plan: Arc<Plan>,
    context: Context,
    /// Conjuncts as positions, the one worth testing first in front.
    order: Vec<usize>,
    costs: Vec<Cost>,
    blocks_seen: u64,
}

/// A conjunct's samples, older ones fading.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    rows: f64,
    passed: f64,
    time_ns: f64,
}

/// Takes a block's mask, and nothing once the row group is done. Breaks with the first row that it does not want yet.
pub(super) type Each<'f> =
    dyn FnMut(&mut Context, Option<(usize, &Mask)>) -> Result<ControlFlow<usize>, ScanError> + 'f;

impl Worker {
    pub(super) fn new(plan: Arc<Plan>, segment: Arc<Segment>, cache: Arc<Cache>) -> Self {
        Self {
            order: (0..plan.conjuncts.len()).collect(),
            costs: vec![Cost::default(); plan.conjuncts.len()],
            blocks_seen: 0,
            context: Context::new(plan.kernels, Arc::clone(&plan.dag), segment, cache),
            plan,
        }
    }

    /// The query.
    pub(super) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Goes to row group `group`.
    pub(super) fn open(&mut self, group: usize) {
        self.context.open(group);
    }

    /// The row group that was scanned last.
    pub(super) fn context(&mut self) -> &mut Context {
        &mut self.context
    }

    /// Finds the rows of the row group that qualify, from row `first` on, and calls `each` for every block that has some, and at
    /// the end. Gives the row that `each` broke at: what lies behind it counts as not scanned.
    pub(super) fn scan(
        &mut self,
        first: usize,
        stats: &mut ScanStats,
        each: &mut Each<'_>,
    ) -> Result<Option<usize>, ScanError> {
        let rows = self.context.rows();
        let plan = Arc::clone(&self.plan);
        let mut bounds = Vec::with_capacity(self.order.len());
        for &at in &self.order {
            match Bound::new(&mut self.context, &plan.conjuncts[at])? {
                Bound::Constant(true) => {}
                Bound::Constant(false) => {
                    stats.groups_skipped += 1;
                    stats.tuples_scanned += (rows - first) as u64;
                    stats.tuples_skipped += (rows - first) as u64;
                    stats.bytes_read += std::mem::take(&mut self.context.bytes_read);
                    return Ok(None);
                }
                bound => bounds.push((at, bound)),
            }
        }
        // A conjunct that may fail sees only rows that all others pass, whatever times were measured: else it would depend
        // on them whether the scan fails.
        let (mut bounds, mut fallible): (Vec<_>, Vec<_>) = bounds
            .into_iter()
            .partition(|(_, bound)| !bound.may_overflow(&self.context));
        fallible.sort_by_key(|(at, _)| *at);
        let infallible = bounds.len();
        bounds.append(&mut fallible);
        let mut next = first;
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue() && next < rows {
            let block = next / BLOCK_ROWS;
            let (start, end) = (block * BLOCK_ROWS, rows.min((block + 1) * BLOCK_ROWS));
            let (skipped, block_rows) = (next - start, (end - next) as u64);
            // One whose first rows were taken earlier was counted then.
            let is_new = u64::from(skipped == 0);
            next = end;
            self.context.stamp += 1;
            stats.tuples_scanned += block_rows;
            let mut mask = Mask::first(end - start);
            if skipped > 0 {
                mask.and_not(&Mask::first(skipped));
            }
            match zones(&self.context, &bounds, block) {
                Some(false) => {
                    stats.blocks_skipped += is_new;
                    stats.tuples_skipped += block_rows;
                    continue;
                }
                Some(true) => stats.tuples_skipped += block_rows,
                None => self.filter(&mut bounds, infallible, block, &mut mask, stats)?,
            }
            stats.blocks_scanned += is_new;
            if !mask.is_empty() {
                flow = each(&mut self.context, Some((block, &mask)))?;
            }
        }
        if flow.is_continue() {
            flow = each(&mut self.context, None)?;
        }
        let stopped_at = flow.break_value();
        if let Some(row) = stopped_at {
            self.uncount(&bounds, row..next, stats);
        }
        stats.bytes_read += std::mem::take(&mut self.context.bytes_read);
        self.reorder();
        Ok(stopped_at)
    }

    /// Takes back what was counted of `rows`, and of the blocks that begin among them.
    fn uncount(&self, bounds: &[(usize, Bound<'_>)], rows: Range<usize>, stats: &mut ScanStats) {
        let mut start = rows.start;
        while start < rows.end {
            let block = start / BLOCK_ROWS;
            let end = rows.end.min((block + 1) * BLOCK_ROWS);
            let (rows, begins) = ((end - start) as u64, start == block * BLOCK_ROWS);
            let zone = zones(&self.context, bounds, block);
            stats.tuples_scanned -= rows;
            stats.tuples_skipped -= if zone.is_some() { rows } else { 0 };
            match zone {
                Some(false) => stats.blocks_skipped -= u64::from(begins),
                _ => stats.blocks_scanned -= u64::from(begins),
            }
            start = end;
        }
    }

    /// Narrows `mask` to the rows that pass all conjuncts, of which the first `infallible` can come in any order.
    fn filter(
        &mut self,
        bounds: &mut [(usize, Bound<'_>)],
        infallible: usize,
        block: usize,
        mask: &mut Mask,
        stats: &mut ScanStats,
    ) -> Result<(), ScanError> {
        let mut passed = Mask::NONE;
        self.blocks_seen += 1;
        let mut rest = bounds;
        let sampled = infallible > 1
            && (self.blocks_seen <= SAMPLE_FIRST || self.blocks_seen.is_multiple_of(SAMPLE_EVERY));
        if sampled {
            let all = *mask;
            let kernels = self.plan.kernels;
            let rows = kernels.count(&all);
            let (timed, untimed) = rest.split_at_mut(infallible);
            rest = untimed;
            for (at, bound) in timed {
                let start_ns = self.plan.clock.now_ns();
                bound.test(&mut self.context, block, &all, &mut passed)?;
                let time_ns = self.plan.clock.now_ns().saturating_sub(start_ns);
                passed.and(&all);
                mask.and(&passed);
                let rows_passed = kernels.count(&passed);
                self.costs[*at].add(rows, rows_passed, time_ns);
                let conjunct = &mut stats.conjuncts[*at];
                conjunct.blocks_sampled += 1;
                conjunct.rows_sampled += rows as u64;
                conjunct.rows_passed += rows_passed as u64;
                conjunct.time_ns += time_ns;
            }
        }
        for (_, bound) in rest {
            if mask.is_empty() {
                break;
            }
            bound.test(&mut self.context, block, mask, &mut passed)?;
            mask.and(&passed);
        }
        Ok(())
    }

    /// Least cost for each row that it removes first.
    fn reorder(&mut self) {
        let costs = &self.costs;
        self.order
            .sort_by(|&a, &b| costs[a].rank().total_cmp(&costs[b].rank()));
    }
}

impl Cost {
    fn add(&mut self, rows: usize, passed: usize, time_ns: u64) {
        const FADE: f64 = 0.9;
        self.rows = self.rows * FADE + rows as f64;
        self.passed = self.passed * FADE + passed as f64;
        self.time_ns = self.time_ns * FADE + time_ns as f64;
    }

    fn rank(&self) -> f64 {
        if self.rows == 0.0 {
            return 0.0;
        }
        self.time_ns / (self.rows - self.passed).max(self.rows * 1e-6)
    }
}

/// The answer of the zone maps for all conjuncts of a block.
fn zones(context: &Context, bounds: &[(usize, Bound<'_>)], block: usize) -> Option<bool> {
    let mut all = Some(true);
    for (_, bound) in bounds {
        match bound.zone(context, block) {
            Some(true) => {}
            Some(false) => return Some(false),
            None => all = None,
        }
    }
    all
}
