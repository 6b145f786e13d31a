//! Jobs through a queue, with the queue's own promises checked at each step.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Completion, Job, Operator, Queue};

/// How long a queue may do nothing at all with jobs in flight.
const SILENCE: Duration = Duration::from_secs(60);

/// A queue, and the jobs that go through it.
pub(super) struct Course {
    queue: Box<dyn Queue>,
    depth: usize,
    ready: VecDeque<Job>,
    done: Vec<Completion>,
}

impl Course {
    pub(super) fn open(operator: &Arc<dyn Operator>, depth: u32) -> Result<Self, String> {
        let depth = NonZeroU32::new(depth).ok_or("depth 0")?;
        let queue = operator.clone().open(depth);
        Ok(Self {
            queue: queue.map_err(|e| format!("open, depth {depth}: {e}"))?,
            depth: depth.get() as usize,
            ready: VecDeque::new(),
            done: Vec::new(),
        })
    }

    /// One more job; its tag is its own.
    pub(super) fn add(&mut self, job: Job) {
        self.ready.push_back(job);
    }

    /// Sends everything through. Each job came home exactly once, with its tag.
    pub(super) fn finish(mut self) -> Result<Vec<Completion>, String> {
        let mut expected: Vec<u64> = self.ready.iter().map(|job| job.tag).collect();
        let mut progress = Instant::now();
        while self.done.len() < expected.len() {
            if self.step()? > 0 {
                progress = Instant::now();
            } else if progress.elapsed() > SILENCE {
                return Err(format!(
                    "{} jobs in flight and {} ready, but nothing happens",
                    self.queue.in_flight(),
                    self.ready.len()
                ));
            } else {
                std::thread::yield_now();
            }
        }
        if self.queue.poll(&mut self.done) != 0 || self.queue.in_flight() != 0 {
            return Err("all jobs are home, and more is said to be in flight".into());
        }
        let mut tags: Vec<u64> = self.done.iter().map(|c| c.job.tag).collect();
        tags.sort_unstable();
        expected.sort_unstable();
        if tags != expected {
            return Err(format!("tags {expected:?} went in, {tags:?} came home"));
        }
        Ok(self.done)
    }

    /// Submits and polls once; says how many jobs moved.
    fn step(&mut self) -> Result<usize, String> {
        let (ready, flying) = (self.ready.len(), self.queue.in_flight());
        let taken = self.queue.submit(&mut self.ready);
        let now = self.queue.in_flight();
        if ready - self.ready.len() != taken || now != flying + taken || now > self.depth {
            return Err(format!(
                "submit says {taken}; ready {ready} to {}, in flight {flying} to {now}",
                self.ready.len()
            ));
        }
        let home = self.done.len();
        let said = self.queue.poll(&mut self.done);
        let landed = self.queue.in_flight();
        if self.done.len() != home + said || landed + said != now {
            return Err(format!(
                "poll says {said}; home {home} to {}, in flight {now} to {landed}",
                self.done.len()
            ));
        }
        Ok(taken + said)
    }
}
