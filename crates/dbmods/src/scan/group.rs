//! One row group at a time: which conjuncts it needs, and the loop over its blocks.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

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

/// What a thread scans with.
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

/// Takes a block's mask; says whether to go on.
pub(super) type Each<'f> =
    dyn FnMut(&mut Context, usize, &Mask) -> Result<ControlFlow<()>, ScanError> + 'f;

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

    /// Finds the rows of the row group that qualify, and calls `each` for every block that has some.
    pub(super) fn scan(
        &mut self,
        stats: &mut ScanStats,
        each: &mut Each<'_>,
    ) -> Result<(), ScanError> {
        let rows = self.context.rows();
        let plan = Arc::clone(&self.plan);
        let mut bounds = Vec::with_capacity(self.order.len());
        for &at in &self.order {
            match Bound::new(&mut self.context, &plan.conjuncts[at])? {
                Bound::Constant(true) => {}
                Bound::Constant(false) => {
                    stats.groups_skipped += 1;
                    stats.tuples_scanned += rows as u64;
                    stats.tuples_skipped += rows as u64;
                    stats.bytes_read += std::mem::take(&mut self.context.bytes_read);
                    return Ok(());
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
        for block in 0..rows.div_ceil(BLOCK_ROWS) {
            let block_rows = (rows - block * BLOCK_ROWS).min(BLOCK_ROWS);
            self.context.stamp += 1;
            stats.tuples_scanned += block_rows as u64;
            let mut mask = Mask::first(block_rows);
            match zones(&self.context, &bounds, block) {
                Some(false) => {
                    stats.blocks_skipped += 1;
                    stats.tuples_skipped += block_rows as u64;
                    continue;
                }
                Some(true) => stats.tuples_skipped += block_rows as u64,
                None => self.filter(&mut bounds, infallible, block, &mut mask, stats)?,
            }
            stats.blocks_scanned += 1;
            if mask.is_empty() {
                continue;
            }
            stats.rows_selected += plan.kernels.count(&mask) as u64;
            if each(&mut self.context, block, &mask)?.is_break() {
                break;
            }
        }
        stats.bytes_read += std::mem::take(&mut self.context.bytes_read);
        self.reorder();
        Ok(())
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
                let start = Instant::now();
                bound.test(&mut self.context, block, &all, &mut passed)?;
                let time_ns = start.elapsed().as_nanos() as u64;
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

/// What zone maps say about all conjuncts of a block.
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
