//! How long tests take, and how many runs of each fit a budget.

use std::time::{Duration, Instant};

use crate::boxes::{Test, repeats_of};
use crate::task::Cost;

/// Fewest runs of a test under a budget: what an interval needs.
const REPEATS_MIN: u64 = 3;
/// Most runs of a test under a budget.
const REPEATS_MAX: u64 = 31;
/// Estimates before anything was timed may be off; the first tests say by how much, within these factors.
const FACTORS: std::ops::RangeInclusive<f64> = 0.2..=20.0;

/// The tests that are still to run, what they take, and the time that there is.
pub(super) struct Schedule {
    costs: Vec<Cost>,
    /// Which tests are still to run.
    is_left: Vec<bool>,
    budget: Option<Duration>,
    start: Instant,
    /// Estimated and real time of the tests that ran.
    estimated: Duration,
    real: Duration,
}

impl Schedule {
    /// All tests are to run, from now on.
    pub(super) fn new(tests: &[Test], budget: Option<Duration>) -> Self {
        Self {
            costs: tests.iter().map(Test::cost).collect(),
            is_left: vec![true; tests.len()],
            budget,
            start: Instant::now(),
            estimated: Duration::ZERO,
            real: Duration::ZERO,
        }
    }

    /// Only these tests are to run.
    pub(super) fn leave(&mut self, left: &[usize]) {
        self.is_left.fill(false);
        left.iter().for_each(|&at| self.is_left[at] = true);
    }

    /// What a test takes.
    pub(super) fn cost(&self, at: usize) -> Cost {
        self.costs[at]
    }

    /// How many runs a test has: the box's number, or as many as the time that is left allows for all tests alike.
    pub(super) fn repeats(&self, test: &Test) -> u64 {
        let Some(budget) = self.budget else {
            return repeats_of(test);
        };
        let left = budget.saturating_sub(self.start.elapsed()).as_secs_f64() / self.factor();
        let (once, each) = self.sums();
        let fitting = (left - once) / each.max(1e-3);
        (fitting.max(0.0) as u64).clamp(REPEATS_MIN, REPEATS_MAX)
    }

    /// Time for what is left.
    pub(super) fn left(&self, tests: &[Test]) -> Duration {
        let left = (0..tests.len()).filter(|&at| self.is_left[at]);
        let time = left.map(|at| self.costs[at].time(self.repeats(&tests[at])));
        time.sum::<Duration>().mul_f64(self.factor())
    }

    /// A test ran, and took this long.
    pub(super) fn took(&mut self, at: usize, time: Duration) {
        self.is_left[at] = false;
        self.estimated += self.costs[at].time(REPEATS_MIN);
        self.real += time;
    }

    /// How much longer tests take than they were said to.
    fn factor(&self) -> f64 {
        if self.estimated.is_zero() {
            return 1.0;
        }
        let factor = self.real.as_secs_f64() / self.estimated.as_secs_f64();
        factor.clamp(*FACTORS.start(), *FACTORS.end())
    }

    /// Seconds of what is left: those that do not depend on the number of runs, and those of one run of each test.
    fn sums(&self) -> (f64, f64) {
        let left = self
            .costs
            .iter()
            .zip(&self.is_left)
            .filter(|(_, left)| **left);
        left.fold((0.0, 0.0), |(once, each), (cost, _)| {
            (
                once + cost.once.as_secs_f64(),
                each + cost.each_run.as_secs_f64(),
            )
        })
    }
}

/// `40 s`, `12 min`, `3.5 h`.
pub(super) fn short_time(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
