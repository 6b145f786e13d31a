//! What all trials at one load say together.

use super::{Goal, Trial};

/// What a load is to a goal (RFC 9971, "Load Classification").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Its trials uphold the goal, whatever the missing ones would show.
    Lower,
    /// Its trials fail the goal, whatever the missing ones would show.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Seconds of trials at a load, by what they are to a goal.
struct Sums {
    full_low: f64,
    full_high: f64,
    short_low: f64,
    short_high: f64,
}

impl Sums {
    fn of(trials: &[Trial], goal: &Goal) -> Self {
        let mut sums = Self {
            full_low: 0.0,
            full_high: 0.0,
            short_low: 0.0,
            short_high: 0.0,
        };
        for Trial { input, output } in trials {
            let is_full = input.duration_s >= goal.final_trial_s;
            let is_high = output.loss_ratio > goal.loss_ratio;
            *match (is_full, is_high) {
                (true, false) => &mut sums.full_low,
                (true, true) => &mut sums.full_high,
                (false, false) => &mut sums.short_low,
                (false, true) => &mut sums.short_high,
            } += output.effective_s;
        }
        sums
    }
}

/// What the load at which all of `trials` were done is to `goal` (RFC 9971, appendix A).
///
/// Short trials speak against a load only as far as there are more of the lossy ones than the goal allows beside the others.
pub fn classify(trials: &[Trial], goal: &Goal) -> Bound {
    let sums = Sums::of(trials, goal);
    let allowed = goal.exceed_ratio / (1.0 - goal.exceed_ratio);
    let excess = (sums.short_high - sums.short_low * allowed).max(0.0);
    let high = sums.full_high + excess;
    let whole = (sums.full_low + high).max(goal.duration_sum_s);
    let may_be_high = whole * goal.exceed_ratio;
    if whole - sums.full_low <= may_be_high {
        Bound::Lower
    } else if high > may_be_high {
        Bound::Upper
    } else {
        Bound::Undecided
    }
}

/// The rate that can be counted on at `load`, a lower bound of `goal` with these trials (RFC 9971, appendix B): the load less the loss of the worst
/// trial that the goal does not allow to exceed. Trials that are missing count as if all were lost.
pub fn conditional_throughput(load: f64, trials: &[Trial], goal: &Goal) -> f64 {
    let is_full = |trial: &&Trial| trial.input.duration_s >= goal.final_trial_s;
    let mut full: Vec<&Trial> = trials.iter().filter(is_full).collect();
    full.sort_by(|a, b| a.output.loss_ratio.total_cmp(&b.output.loss_ratio));
    let full_s: f64 = full.iter().map(|trial| trial.output.effective_s).sum();
    let mut remaining = full_s.max(goal.duration_sum_s) * (1.0 - goal.exceed_ratio);
    let mut loss_ratio = 1.0;
    for (i, trial) in full.iter().enumerate() {
        if i > 0 && remaining <= 0.0 {
            break;
        }
        loss_ratio = trial.output.loss_ratio;
        remaining -= trial.output.effective_s;
    }
    if remaining > 0.0 {
        loss_ratio = 1.0;
    }
    load * (1.0 - loss_ratio)
}
