//! The open loop: arrivals come when they come, and results are kept and checked off the clock.

use std::collections::VecDeque;

use super::lane::{Lane, Waiting};
use super::team::Span;
use super::{Broken, Counts, Report};
use crate::Job;

impl Lane<'_> {
    /// Jobs arrive at exponential gaps; one that finds the queue full waits, and its clock runs from its arrival. At the end
    /// what is in flight is awaited; arrivals that were due and never started count with the time they had waited by
    /// then, a lower bound, so that an overload shows in the percentiles.
    ///
    /// Each job has a destination that no later job reuses before its result was checked. Where memory holds too few for the
    /// run, the schedule stands still whenever all are used: what is in flight is awaited, checked, and the schedule goes on.
    pub(super) fn run_open(&mut self, jobs_per_s: f64) -> Result<Report, Broken> {
        self.counts = Counts::default();
        self.latencies.clear();
        let clock = self.bench.backend.clock();
        let gap_ns = 1e9 * f64::from(self.bench.plan.threads.get()) / jobs_per_s;
        let depth = self.bench.depth.get() as usize;
        let mut intended_ns = vec![0u64; self.idle.len()];
        let mut staged: VecDeque<Job> = VecDeque::with_capacity(depth);
        let mut waiting = Waiting::default();
        let first_ns = clock.now_ns();
        // Moves on by the time that checks take.
        let mut started_ns = first_ns;
        let end_ns = self.bench.plan.seconds.as_nanos() as u64;
        let mut due_ns = self.random.exponential(gap_ns);
        loop {
            let now_ns = clock.now_ns() - started_ns;
            let is_over = now_ns >= end_ns || self.is_stopped();
            while !is_over
                && due_ns <= now_ns as f64
                && self.queue.in_flight() + staged.len() < depth
                && let Some(job) = self.idle.pop_front()
            {
                intended_ns[job.tag as usize] = due_ns as u64;
                staged.push_back(job);
                due_ns += self.random.exponential(gap_ns);
            }
            self.queue.submit(&mut staged);
            let home = self.queue.poll(&mut self.done);
            if home > 0 {
                // Here, because an empty queue is not waited for below: the silence would go on at the next job.
                waiting = Waiting::default();
                let home_ns = clock.now_ns() - started_ns;
                for completion in &self.done[self.done.len() - home..] {
                    let waited_ns = home_ns - intended_ns[completion.job.tag as usize];
                    self.latencies.record(waited_ns);
                }
            }
            if self.queue.in_flight() == 0 && staged.is_empty() {
                if is_over {
                    break;
                }
                if self.idle.is_empty() {
                    let stopped_ns = clock.now_ns();
                    self.check_done()?;
                    started_ns += clock.now_ns() - stopped_ns;
                }
                // Nothing to poll for: an empty poll here says nothing about the backend.
                std::hint::spin_loop();
            } else {
                self.wait_if_empty(home, staged.len(), &mut waiting)?;
                if self.is_given_up {
                    break;
                }
            }
        }
        let ended_ns = clock.now_ns() - started_ns;
        self.check_done()?;
        if self.is_stopped() {
            return Ok(Report::Stopped);
        }
        while due_ns < end_ns as f64 {
            self.counts.arrivals_unserved += 1;
            self.latencies.record(ended_ns - due_ns as u64);
            due_ns += self.random.exponential(gap_ns);
        }
        let span = Span {
            start_ns: first_ns,
            end_ns: first_ns + ended_ns,
        };
        Ok(self.report(vec![Some(span)]))
    }
}
