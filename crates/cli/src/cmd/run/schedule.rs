//! How long tests take, and how many runs of each fit a budget.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::boxes::{Test, repeats_of};
use crate::task::Cost;

/// Fewest runs of a test under a budget.
const REPEATS_MIN: u64 = 3;
/// Fewest runs that have an interval.
const REPEATS_OF_INTERVAL: u64 = 6;
/// Most runs of a test under a budget.
const REPEATS_MAX: u64 = 31;
/// Estimates before anything was timed may be off; the first tests say by how much, within these factors.
const FACTORS: std::ops::RangeInclusive<f64> = 0.2..=20.0;

/// The tests that are still to run, what they take, and the time that there is.
pub(super) struct Schedule {
    costs: Vec<Cost>,
    /// Runs of each test without a budget.
    asked: Vec<u64>,
    /// The tests that are still to run, in their order.
    left: Vec<usize>,
    budget: Option<Duration>,
    start: Instant,
    /// Estimated and real time of the tests that ran.
    estimated: Duration,
    real: Duration,
}

impl Schedule {
    /// All tests are to run, from now on, with their data in `data_dir`.
    pub(super) fn new(tests: &[Test], budget: Option<Duration>, data_dir: &Path) -> Self {
        let costs = tests.iter().map(|test| test.cost(data_dir)).collect();
        Self::of(costs, tests.iter().map(repeats_of).collect(), budget)
    }

    fn of(costs: Vec<Cost>, asked: Vec<u64>, budget: Option<Duration>) -> Self {
        Self {
            left: (0..costs.len()).collect(),
            costs,
            asked,
            budget,
            start: Instant::now(),
            estimated: Duration::ZERO,
            real: Duration::ZERO,
        }
    }

    /// Only these tests are to run, in this order.
    pub(super) fn leave(&mut self, left: &[usize]) {
        self.left = left.to_vec();
    }

    /// What a test takes.
    pub(super) fn cost(&self, at: usize) -> Cost {
        self.costs[at]
    }

    /// The tests that are still to run, each with its number of runs: the box's, or what the time that is left allows. All have as
    /// many as fit. Where these are too few for an interval, the first tests have enough for one while the others still have
    /// the fewest: a run more without an interval tells little.
    pub(super) fn plan(&self) -> Vec<(usize, u64)> {
        let Some(budget) = self.budget else {
            return self.left.iter().map(|&at| (at, self.asked[at])).collect();
        };
        let time = budget.saturating_sub(self.start.elapsed()).as_secs_f64() / self.factor();
        let each = |at: usize| self.costs[at].each_run.as_secs_f64();
        let once = self.left.iter().map(|&at| self.costs[at].once);
        let time = time - once.sum::<Duration>().as_secs_f64();
        let each_of_all: f64 = self.left.iter().map(|&at| each(at)).sum();
        let fitting = (time / each_of_all.max(1e-3)).max(0.0) as u64;
        if fitting >= REPEATS_OF_INTERVAL {
            let runs = fitting.min(REPEATS_MAX);
            return self.left.iter().map(|&at| (at, runs)).collect();
        }
        let mut spare = time - each_of_all * REPEATS_MIN as f64;
        let runs = |&at: &usize| {
            let more = each(at) * (REPEATS_OF_INTERVAL - REPEATS_MIN) as f64;
            if more > spare {
                return (at, REPEATS_MIN);
            }
            spare -= more;
            (at, REPEATS_OF_INTERVAL)
        };
        self.left.iter().map(runs).collect()
    }

    /// The time that a plan takes.
    pub(super) fn time(&self, plan: &[(usize, u64)]) -> Duration {
        let times = plan.iter().map(|&(at, runs)| self.costs[at].time(runs));
        times.sum::<Duration>().mul_f64(self.factor())
    }

    /// A test had so many runs, and took this long.
    pub(super) fn took(&mut self, at: usize, runs: u64, time: Duration) {
        self.give_up(at);
        self.estimated += self.costs[at].time(runs);
        self.real += time;
    }

    /// A test is not to run any more, and its time says nothing of the others': it failed, or its machine is away.
    pub(super) fn give_up(&mut self, at: usize) {
        self.left.retain(|&left| left != at);
    }

    /// How much longer tests take than they were said to.
    fn factor(&self) -> f64 {
        if self.estimated.is_zero() {
            return 1.0;
        }
        let factor = self.real.as_secs_f64() / self.estimated.as_secs_f64();
        factor.clamp(*FACTORS.start(), *FACTORS.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget so long that a test's own time is nothing of it.
    const LONG: u64 = 100_000;

    /// Tests of a run that takes this share of the budget, in thousandths.
    fn schedule(each_run: &[u64], budget: u64) -> Schedule {
        let cost = |&thousandths: &u64| Cost {
            each_run: Duration::from_secs(thousandths * LONG / 1000),
            ..Cost::default()
        };
        let costs = each_run.iter().map(cost).collect();
        let budget = Duration::from_secs(budget * LONG / 1000);
        Schedule::of(costs, vec![7; each_run.len()], Some(budget))
    }

    fn runs(schedule: &Schedule) -> Vec<u64> {
        schedule.plan().iter().map(|&(_, runs)| runs).collect()
    }

    #[test]
    fn all_tests_have_as_many_runs_as_fit() {
        assert_eq!(runs(&schedule(&[10; 4], 405)), [10; 4]);
        assert_eq!(runs(&schedule(&[10; 4], 100_000)), [31; 4]);
        assert_eq!(runs(&schedule(&[10; 4], 1)), [3; 4]);
    }

    #[test]
    fn where_an_interval_does_not_fit_for_all_it_fits_for_some() {
        // 3 runs of each take 120; 6 instead of 3 take 30 more.
        assert_eq!(runs(&schedule(&[10; 4], 185)), [6, 6, 3, 3]);
        // What is too long is left at the fewest, and a shorter one behind it has more.
        assert_eq!(runs(&schedule(&[30, 10], 155)), [3, 6]);
        let mut shuffled = schedule(&[10; 4], 185);
        shuffled.leave(&[3, 1, 0, 2]);
        assert_eq!(shuffled.plan(), [(3, 6), (1, 6), (0, 3), (2, 3)]);
    }

    #[test]
    fn tests_that_take_what_they_were_said_to_leave_the_rest_as_it_was() {
        let mut schedule = schedule(&[10; 4], 405);
        let time = schedule.cost(0).time(10);
        schedule.took(0, 10, time);
        assert_eq!(schedule.factor(), 1.0);
        // Twice as long: half as many runs.
        schedule.took(1, 10, 3 * time);
        assert_eq!(schedule.factor(), 2.0);
        // What gave no numbers says nothing.
        schedule.give_up(2);
        assert_eq!(schedule.factor(), 2.0);
        assert_eq!(schedule.plan().len(), 1);
        let plan = schedule.plan();
        assert_eq!(schedule.time(&plan), 2 * schedule.cost(3).time(plan[0].1));
    }

    #[test]
    fn without_a_budget_a_test_has_the_runs_of_its_box() {
        let costs = vec![Cost::default(); 2];
        let schedule = Schedule::of(costs, vec![7, 2], None);
        assert_eq!(schedule.plan(), [(0, 7), (1, 2)]);
    }
}
