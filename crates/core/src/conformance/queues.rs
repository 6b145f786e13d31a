//! Queues beside each other, and queues that are dropped with jobs in flight.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;

use super::drive::CheckedQueue;
use super::input::Layout;
use super::{Bench, Wrong};
use crate::buf::Ledger;
use crate::{Completion, Items, Job, SetupError, Unsupported};

/// Why two queues did not get to their end.
enum Stop {
    /// A finding: this backend has one.
    OneQueueOnly(Unsupported),
    Wrong(String),
}

impl From<SetupError> for Stop {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Unsupported(why) => Self::OneQueueOnly(why),
            other => Self::Wrong(format!("the second queue: {other}")),
        }
    }
}

impl Bench<'_> {
    /// Two queues into one operator keep apart, driven in turns by one thread and each by its own.
    pub(super) fn two_queues(&mut self) -> Result<(), Wrong> {
        let depths = self.extent.depths;
        let depth = depths[depths.len() - 2].min(self.limits.depth_max.get());
        let inputs = [[1, 2], [3, 4]].map(|seeds| {
            let inputs = self.inputs(seeds, Layout::Offsets, 64, 3);
            inputs.map_err(|what| ("two queues".to_string(), what))
        });
        let [first, second] = inputs;
        let mut inputs = [first?, second?];
        if self.is_beyond(&inputs[0], depth) || self.is_beyond(&inputs[1], depth) {
            return Ok(());
        }
        for (case, is_at_once) in [
            ("two queues on one thread", false),
            ("two queues on two threads", true),
        ] {
            let at = |what| (case.to_string(), what);
            for _ in 0..self.extent.rounds {
                let [first, second] = &inputs;
                let jobs = [self.jobs(first, depth), self.jobs(second, depth)];
                let [first, second] = jobs.map(|jobs| jobs.map_err(at));
                let jobs = [first?, second?];
                let driven = match is_at_once {
                    false => self.in_turns(jobs, depth),
                    true => self.at_once(jobs, depth),
                };
                let done = match driven {
                    Ok(done) => done,
                    Err(Stop::OneQueueOnly(why)) => {
                        let name = self.backend.name();
                        let note = format!("{name} {:?}: {case}: {why}", self.spec);
                        self.coverage.skipped.push(note);
                        break;
                    }
                    Err(Stop::Wrong(what)) => return Err(at(what)),
                };
                for (done, inputs) in done.into_iter().zip(&mut inputs) {
                    self.judge(done, inputs).map_err(at)?;
                }
            }
        }
        Ok(())
    }

    fn in_turns(&self, jobs: [Vec<Job>; 2], depth: u32) -> Result<[Vec<Completion>; 2], Stop> {
        let open = || CheckedQueue::open(&self.operator, &self.limits, depth);
        let mut both = [open()?, open()?];
        for (checked, jobs) in both.iter_mut().zip(jobs) {
            jobs.into_iter().for_each(|job| checked.add(job));
        }
        let [first, second] = both;
        first.finish_both(second).map_err(Stop::Wrong)
    }

    fn at_once(&self, jobs: [Vec<Job>; 2], depth: u32) -> Result<[Vec<Completion>; 2], Stop> {
        let (operator, limits) = (&self.operator, &self.limits);
        // Both are open before one starts.
        let start = Barrier::new(2);
        let drive = |jobs: Vec<Job>| {
            let open = || CheckedQueue::open(operator, limits, depth);
            // The other thread waits, whatever becomes of this one.
            let checked = catch_unwind(AssertUnwindSafe(open));
            start.wait();
            let mut checked = checked.map_err(|_| Stop::Wrong("`open` panicked".into()))??;
            jobs.into_iter().for_each(|job| checked.add(job));
            checked.finish().map_err(Stop::Wrong)
        };
        thread::scope(|scope| {
            let [first, second] = jobs;
            let other = thread::Builder::new()
                .spawn_scoped(scope, || drive(second))
                .map_err(|e| Stop::Wrong(format!("cannot start a thread: {e}")))?;
            let first = drive(first);
            let panicked = |_| Err(Stop::Wrong("panicked".into()));
            Ok([first?, other.join().unwrap_or_else(panicked)?])
        })
    }

    /// Queues dropped at once, half polled, and with everything finished: every buffer is home when `drop` returns.
    pub(super) fn busy_drop(&mut self) -> Result<(), Wrong> {
        for depth in self
            .extent
            .depths
            .iter()
            .filter_map(|&depth| NonZeroU32::new(depth))
        {
            for polls in [0, 1, 50] {
                let at = |what| (format!("dropped after {polls} polls, depth {depth}"), what);
                self.dropped_after(depth, polls).map_err(at)?;
            }
        }
        Ok(())
    }

    fn dropped_after(&mut self, depth: NonZeroU32, polls: usize) -> Result<(), String> {
        let depth = self.limits.depth_max.min(depth);
        let ledger = Ledger::default();
        let zeroed = |len| {
            let mut buf = self.alloc(len)?;
            ledger.enter(&mut buf);
            Ok::<_, String>(buf)
        };
        let item_len = if cfg!(miri) { 4 } else { 64 };
        let slot = self.slot_of(item_len);
        let mut ready = VecDeque::new();
        for tag in 0..2 * u64::from(depth.get()) {
            let (src, dst) = (zeroed(3 * item_len)?, zeroed(3 * slot)?);
            let items = Items::fixed(item_len as u32, 3);
            ready.push_back(Job::new(tag, src, items, dst, self.operator.shape()));
        }
        let mut done = Vec::new();
        let opened = self.operator.clone().open(depth);
        let mut queue = opened.map_err(|e| format!("open: {e}"))?;
        let mut taken = queue.submit(&mut ready);
        for _ in 0..polls {
            queue.poll(&mut done);
            taken += queue.submit(&mut ready);
        }
        drop(queue);
        let mine = 2 * (ready.len() + done.len());
        let out = ledger.outstanding();
        if out != mine {
            return Err(format!(
                "{taken} jobs taken, {} came home; {mine} buffers are here, {out} are not released",
                done.len()
            ));
        }
        Ok(())
    }
}
