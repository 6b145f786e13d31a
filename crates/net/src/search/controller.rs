//! Which trial is next, and when there are enough.
//!
//! Each goal is approached in steps (`Goal::with_steps_left`), all goals in a step before the next: coarse bounds cost few seconds, and
//! fine ones are then searched close to the end. Loads are those of a grid, so trials of one goal serve the others. RFC 9971 leaves all of
//! this to who implements it, but for how a load is classified and what comes out.

use std::collections::BTreeMap;

use super::grid::Grid;
use super::{
    Bound, Goal, GoalError, Measurer, Trial, TrialInput, classify, conditional_throughput,
};

/// What a search keeps to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Packets a second of the lowest trial: above 0, at least a packet in the shortest trial.
    pub load_min: f64,
    /// Packets a second of the highest, which the generator can offer.
    pub load_max: f64,
    /// Seconds of trials after which the search ends with what it has.
    pub duration_max_s: f64,
    /// The coarse steps in front of each goal.
    pub steps: u32,
    /// So many trials that say nothing, one after another, end the search.
    pub invalid_max: u32,
}

impl Settings {
    /// Loads from `load_min` to `load_max`; an hour at most, two coarse steps, three trials in vain.
    pub const fn between(load_min: f64, load_max: f64) -> Self {
        Self {
            load_min,
            load_max,
            duration_max_s: 3600.0,
            steps: 2,
            invalid_max: 3,
        }
    }
}

/// Why a search has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum SearchError<E> {
    /// There is no goal, or a limit makes no sense.
    #[error("{0}")]
    Settings(&'static str),
    /// A goal is none.
    #[error(transparent)]
    Goal(#[from] GoalError),
    /// No trial at this load said anything.
    #[error("no trial at {load:.0} packets a second was valid, of {tried} one after another")]
    Invalid {
        /// Packets a second.
        load: f64,
        /// The trials in vain.
        tried: u32,
    },
    /// A trial's loss or duration is no such.
    #[error(
        "a trial at {load:.0} packets a second gave a loss ratio of {loss_ratio} and {effective_s} s"
    )]
    Output {
        /// Packets a second.
        load: f64,
        /// Not in 0 to 1, or
        loss_ratio: f64,
        /// not above 0.
        effective_s: f64,
    },
    /// What the measurer said.
    #[error("a trial could not be done")]
    Measurer(#[source] E),
}

/// Why there are not two bounds, or why they lie too far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Irregular {
    /// The highest load upholds the goal: the system does more than was asked.
    NoUpper,
    /// The lowest load fails the goal.
    NoLower,
    /// The time was over.
    OutOfTime,
}

/// What was found for a goal (RFC 9971, "Goal Result").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// The relevant lower bound: the highest load below `upper` that upholds the goal, packets a second.
    pub lower: Option<f64>,
    /// The relevant upper bound: the lowest load that fails it.
    pub upper: Option<f64>,
    /// The conditional throughput at `lower`: packets a second that can be counted on. This is the figure to report.
    pub throughput: Option<f64>,
    /// `None` if the result is regular: both bounds, no further apart than the goal's width.
    pub irregular: Option<Irregular>,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Of each goal, in their order.
    pub results: Vec<GoalResult>,
    /// All trials that counted, in their order.
    pub trials: Vec<Trial>,
    /// The first trial, at the highest load: it warms the system up, and says where to begin.
    pub warm_up: Trial,
    /// Trials that said nothing.
    pub invalid: u64,
    /// Seconds that all trials count for.
    pub duration_s: f64,
}

/// Searches for all `goals` at once.
///
/// # Errors
/// [`SearchError`].
pub fn search<M: Measurer>(
    goals: &[Goal],
    settings: &Settings,
    measurer: &mut M,
) -> Result<Outcome, SearchError<M::Error>> {
    let Settings {
        load_min, load_max, ..
    } = *settings;
    for goal in goals {
        goal.check()?;
    }
    let finest = goals.iter().map(|goal| goal.width).reduce(f64::min);
    let finest = finest.ok_or(SearchError::Settings("there is no goal to search for"))?;
    if !(load_min > 0.0 && load_min < load_max && load_max.is_finite()) {
        return Err(SearchError::Settings(
            "the lowest load must be above 0 and below the highest",
        ));
    }
    let shortest = goals
        .iter()
        .map(|goal| goal.initial_trial_s.min(goal.final_trial_s));
    let warm_up_s = shortest.fold(f64::INFINITY, f64::min);
    let mut search = Search {
        grid: Grid::new(load_min, load_max, finest),
        settings,
        measurer,
        at: BTreeMap::new(),
        trials: Vec::new(),
        invalid: 0,
        duration_s: 0.0,
    };
    let warm_up = search.trial(search.grid.last(), warm_up_s)?;
    search.all(goals, warm_up.forwarding_rate())?;
    Ok(Outcome {
        results: goals.iter().map(|goal| search.result(goal)).collect(),
        trials: search.trials,
        warm_up,
        invalid: search.invalid,
        duration_s: search.duration_s,
    })
}

/// With more the coarsest bounds would lie further apart than any two loads.
const STEPS_MAX: u32 = 16;

struct Search<'a, M> {
    grid: Grid,
    settings: &'a Settings,
    measurer: &'a mut M,
    /// The trials at each load of the grid.
    at: BTreeMap<u32, Vec<Trial>>,
    trials: Vec<Trial>,
    invalid: u64,
    duration_s: f64,
}

/// The relevant bounds of a goal.
#[derive(Clone, Copy, Default)]
struct Bounds {
    lower: Option<u32>,
    upper: Option<u32>,
}

impl<M: Measurer> Search<'_, M> {
    /// Approaches all goals. A trial for one may take a bound from another, so goals are gone through until none needs more.
    fn all(&mut self, goals: &[Goal], rate: f64) -> Result<(), SearchError<M::Error>> {
        let mut order: Vec<usize> = (0..goals.len()).collect();
        // The strictest first: its loads are the lowest, and what fails at a low load speaks against all higher ones.
        order.sort_by(|a, b| goals[*a].loss_ratio.total_cmp(&goals[*b].loss_ratio));
        let steps = self.settings.steps.min(STEPS_MAX);
        // What the step before found; at first, what the system forwarded when it was offered the most.
        let start = self.grid.at_most(rate);
        let mut found = vec![
            Bounds {
                lower: Some(start),
                upper: None
            };
            goals.len()
        ];
        for left in (0..=steps).rev() {
            for &i in &order {
                found[i] = self.reach(&goals[i].with_steps_left(left, steps), found[i])?;
            }
        }
        loop {
            let trials = self.trials.len();
            for &i in &order {
                found[i] = self.reach(&goals[i], found[i])?;
            }
            if self.trials.len() == trials {
                return Ok(());
            }
        }
    }

    /// Measures until the bounds of `target` are close enough, or cannot be. `before`: bounds of a coarser target, to begin with.
    fn reach(&mut self, target: &Goal, before: Bounds) -> Result<Bounds, SearchError<M::Error>> {
        let (width, last) = (self.grid.steps(target.width), self.grid.last());
        // How far the next load lies beyond the only bound that there is; twice as far each time.
        let mut stride = width;
        loop {
            let bounds = self.bounds(target);
            // A bound of the coarser target is tried first, as long as it is not known what it is to this one.
            let is_open = |at: &u32| {
                !self
                    .at
                    .get(at)
                    .is_some_and(|trials| classify(trials, target) != Bound::Undecided)
            };
            let hint = |at: Option<u32>, low: u32, high: u32| {
                at.filter(|at| (low..=high).contains(at)).filter(is_open)
            };
            let next = match (bounds.lower, bounds.upper) {
                (Some(lower), Some(upper)) if upper - lower <= width => return Ok(bounds),
                (Some(lower), Some(upper)) => lower + (upper - lower) / 2,
                (Some(lower), None) if lower == last => return Ok(bounds),
                (None, Some(0)) => return Ok(bounds),
                (Some(lower), None) => hint(before.upper, lower + 1, last).unwrap_or_else(|| {
                    let next = lower.saturating_add(stride).min(last);
                    stride = stride.saturating_mul(2);
                    next
                }),
                (None, Some(upper)) => hint(before.lower, 0, upper - 1).unwrap_or_else(|| {
                    let next = upper.saturating_sub(stride);
                    stride = stride.saturating_mul(2);
                    next
                }),
                // In the middle first: then one of the two coarser bounds is enough.
                (None, None) => match (before.lower, before.upper) {
                    (Some(lower), Some(upper)) if upper > lower + width => {
                        lower + (upper - lower) / 2
                    }
                    (lower, upper) => lower.or(upper).unwrap_or(last),
                },
            };
            if !self.decide(next, target)? {
                return Ok(self.bounds(target));
            }
        }
    }

    /// Does trials at a load until it is a bound of `target`. False if the time is over.
    fn decide(&mut self, at: u32, target: &Goal) -> Result<bool, SearchError<M::Error>> {
        loop {
            let trials = self.at.get(&at).map_or(&[][..], Vec::as_slice);
            if classify(trials, target) != Bound::Undecided {
                return Ok(true);
            }
            if self.duration_s >= self.settings.duration_max_s {
                return Ok(false);
            }
            let trial = self.trial(at, target.final_trial_s)?;
            self.at.entry(at).or_default().push(trial);
            self.trials.push(trial);
        }
    }

    /// Does one trial, again if it says nothing.
    fn trial(&mut self, at: u32, duration_s: f64) -> Result<Trial, SearchError<M::Error>> {
        let load = self.grid.load(at);
        let input = TrialInput { load, duration_s };
        let tries = self.settings.invalid_max.max(1);
        for _ in 0..tries {
            let output = self
                .measurer
                .measure(input)
                .map_err(SearchError::Measurer)?;
            let Some(output) = output else {
                self.invalid += 1;
                continue;
            };
            let (loss_ratio, effective_s) = (output.loss_ratio, output.effective_s);
            let is_time = effective_s > 0.0 && effective_s.is_finite();
            if !(is_time && (0.0..=1.0).contains(&loss_ratio)) {
                return Err(SearchError::Output {
                    load,
                    loss_ratio,
                    effective_s,
                });
            }
            self.duration_s += effective_s;
            return Ok(Trial { input, output });
        }
        Err(SearchError::Invalid { load, tried: tries })
    }

    /// The smallest load that fails `target`, and the largest below it that upholds it.
    fn bounds(&self, target: &Goal) -> Bounds {
        let mut bounds = Bounds::default();
        for (at, trials) in &self.at {
            match classify(trials, target) {
                Bound::Lower => bounds.lower = Some(*at),
                Bound::Upper => {
                    bounds.upper = Some(*at);
                    break;
                }
                Bound::Undecided => {}
            }
        }
        bounds
    }

    fn result(&self, goal: &Goal) -> GoalResult {
        let bounds = self.bounds(goal);
        let irregular = match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) if upper - lower <= self.grid.steps(goal.width) => None,
            (Some(lower), None) if lower == self.grid.last() => Some(Irregular::NoUpper),
            (None, Some(0)) => Some(Irregular::NoLower),
            _ => Some(Irregular::OutOfTime),
        };
        let throughput = bounds.lower.map(|at| {
            let load = self.grid.load(at);
            conditional_throughput(load, &self.at[&at], goal)
        });
        GoalResult {
            goal: *goal,
            lower: bounds.lower.map(|at| self.grid.load(at)),
            upper: bounds.upper.map(|at| self.grid.load(at)),
            throughput,
            irregular,
        }
    }
}
