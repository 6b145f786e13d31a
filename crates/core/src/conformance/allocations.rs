//! Queues that compute inside `submit` allocate nothing once they are warm.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use super::input::Layout;
use super::{Bench, JobInput, Wrong};

/// Jobs that warm a queue: one over each of the two inputs.
const WARMING: usize = 2;
/// As many jobs are made as would fill a queue of this depth twice.
const DEPTH: u32 = 3;

impl Bench<'_> {
    /// One job after another through a queue, at all lengths: only the first ones may allocate, by the count that `allocations` reads.
    pub(super) fn allocations(&mut self, allocations: fn() -> u64) -> Result<(), Wrong> {
        if !self.limits.synchronous {
            let (name, spec) = (self.backend.name(), self.spec);
            let note = format!("{name} {spec:?}: allocations outside of `submit` and `poll`");
            self.coverage.skipped.push(note);
            return Ok(());
        }
        for &item_len in self.extent.item_lengths {
            for layout in [Layout::Fixed, Layout::Offsets, Layout::Scattered] {
                let case = format!("allocations, items of about {item_len} bytes ({layout:?})");
                let at = |what| (case.clone(), what);
                let batch = self.extent.batches[1];
                let good = self.inputs([1, 2], layout, item_len, batch).map_err(at)?;
                // Spoiling changes lengths, which are one here.
                let spoiled = match layout {
                    Layout::Fixed => None,
                    _ => Some(good.each_ref().map(|good| good.spoiled(self.workload, 1))),
                };
                for mut inputs in std::iter::once(good).chain(spoiled) {
                    self.warm_queue(&mut inputs, allocations).map_err(at)?;
                }
            }
        }
        Ok(())
    }

    fn warm_queue(
        &mut self,
        inputs: &mut [JobInput; 2],
        allocations: fn() -> u64,
    ) -> Result<(), String> {
        if self.is_beyond(inputs, 1) {
            return Ok(());
        }
        let opened = self.operator.clone().open(NonZeroU32::MIN);
        let mut queue = opened.map_err(|e| format!("open: {e}"))?;
        let jobs = self.jobs(inputs, DEPTH)?;
        let mut ready = VecDeque::with_capacity(1);
        let mut done = Vec::with_capacity(jobs.len());
        for (number, job) in jobs.into_iter().enumerate() {
            ready.push_back(job);
            let before = allocations();
            queue.submit(&mut ready);
            queue.poll(&mut done);
            let made = allocations() - before;
            if number >= WARMING && made > 0 {
                return Err(format!(
                    "`submit` and `poll` of job {number} made {made} allocations"
                ));
            }
        }
        self.judge(done, inputs)
    }
}
