//! The highest packet rate of a system that does no other work: what Liu et al. hold a rate against.

use super::{Load, Patience};
use crate::search::{
    Goal, GoalResult, Irregular, SearchError, Settings, TrialInput, TrialOutput, search,
};

/// The highest packet rate that a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HighestRate {
    /// What the search found, packets a second.
    pub found: GoalResult,
    /// The highest rate at which the generator was in time: no trial offered more.
    pub offered_max: f64,
    /// Trials that said nothing, those in which the generator's own highest rate was looked for with them.
    pub invalid: u64,
    /// Trials that counted.
    pub trials: u64,
}

impl HighestRate {
    /// Packets a second; `None` if the system does not even uphold the goal at the lowest rate that was tried.
    pub fn packets_per_s(&self) -> Option<f64> {
        self.found.lower
    }

    /// True if the system forwards all that the generator can offer: its highest rate is at least so high.
    pub fn is_generators(&self) -> bool {
        self.found.irregular == Some(Irregular::NoUpper)
    }
}

/// From one rate to the next, while the generator is late.
const LESS: f64 = 0.7;
/// Rates are looked for from this part of the highest.
const PART_MIN: f64 = 1e-3;
/// A generator that is late at fewer packets a second than this is on a machine that does something else.
const RATE_MIN: f64 = 1000.0;
/// Times that a search begins anew at a lower rate, since its highest one was too much for the generator after all.
const BEGINNINGS: u32 = 8;

/// Searches for the highest packet rate of a system without other work, at `rate_max` packets a second at most.
///
/// A generator has a highest rate of its own, beyond which its trials are invalid. It is looked for first, with trials as short as the goal's shortest: rates
/// go down from `rate_max` until one is valid.
///
/// # Errors
/// [`SearchError`]; [`SearchError::Invalid`] if the generator is late at every rate.
pub fn highest_rate<E>(
    goal: &Goal,
    rate_max: f64,
    patience: &Patience,
    trial: &mut impl FnMut(Load) -> Result<Option<TrialOutput>, E>,
) -> Result<HighestRate, SearchError<E>> {
    let mut at_rate = |input: TrialInput| {
        trial(Load {
            packets_per_s: input.load,
            work_ns_per_packet: 0.0,
            duration_s: input.duration_s,
        })
    };
    let mut rate = rate_max;
    let mut invalid = 0;
    let duration_s = goal.initial_trial_s.min(goal.final_trial_s);
    let mut late = SearchError::Settings("the highest rate is above 0");
    for _ in 0..BEGINNINGS {
        // So often, as a machine that does something else now and then is not slow for that.
        let mut tries = 0;
        while rate.is_finite() && rate >= RATE_MIN.min(rate_max) && rate > 0.0 {
            let input = TrialInput {
                load: rate,
                duration_s,
            };
            if at_rate(input).map_err(SearchError::Measurer)?.is_some() {
                break;
            }
            invalid += 1;
            tries += 1;
            if tries >= patience.invalid_max.max(1) {
                late = SearchError::Invalid {
                    load: rate,
                    tried: tries,
                };
                (rate, tries) = (rate * LESS, 0);
            }
        }
        if !(rate.is_finite() && rate >= RATE_MIN.min(rate_max) && rate > 0.0) {
            return Err(late);
        }
        let settings = patience.of(Settings::between(rate * PART_MIN, rate));
        match search(std::slice::from_ref(goal), &settings, &mut at_rate) {
            Err(SearchError::Invalid { load, tried }) => {
                invalid += u64::from(tried);
                late = SearchError::Invalid { load, tried };
                rate *= LESS;
            }
            Err(error) => return Err(error),
            Ok(outcome) => {
                return Ok(HighestRate {
                    found: outcome.results[0],
                    offered_max: rate,
                    invalid: invalid + outcome.invalid,
                    trials: outcome.trials.len() as u64,
                });
            }
        }
    }
    Err(late)
}
