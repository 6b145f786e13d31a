//! What is searched for.

/// A goal of a search (RFC 9971, "Search Goal").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The loss above which a trial speaks against its load: from 0, below 1.
    pub loss_ratio: f64,
    /// The part of the trials, by their seconds, that may lose more: from 0, below 1.
    pub exceed_ratio: f64,
    /// Seconds of a trial that counts in full.
    pub final_trial_s: f64,
    /// Seconds of such trials that decide about a load.
    pub duration_sum_s: f64,
    /// Seconds of the shortest trial while the search is still far from its end.
    pub initial_trial_s: f64,
    /// The distance of the two bounds at the end, as a part of the upper one.
    pub width: f64,
}

/// What is wrong with a goal.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum GoalError {
    /// A ratio is not in its range.
    #[error("{what} is {value}, and must be at least 0 and below 1")]
    Ratio {
        /// Which.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// A duration or the width is not positive.
    #[error("{what} is {value}, and must be above 0")]
    NotPositive {
        /// Which.
        what: &'static str,
        /// Its value.
        value: f64,
    },
}

impl Goal {
    /// The non-drop rate as FD.io's CSIT searches it: trials of a second, no loss in half of them, bounds within 0.5 %.
    pub const NDR: Self = Self {
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        final_trial_s: 1.0,
        duration_sum_s: 21.0,
        initial_trial_s: 1.0,
        width: 0.005,
    };
    /// The partial-drop rate, as there: a loss of 0.5 %.
    pub const PDR: Self = Self {
        loss_ratio: 0.005,
        ..Self::NDR
    };
    /// RFC 2544's throughput, unconditionally compliant: a trial of 60 s without any loss (RFC 9971, "MLRsearch Compliant with RFC 2544").
    pub const RFC2544: Self = Self {
        loss_ratio: 0.0,
        exceed_ratio: 0.0,
        final_trial_s: 60.0,
        duration_sum_s: 60.0,
        initial_trial_s: 1.0,
        width: 0.005,
    };
    /// ETSI TST009's binary search with loss verification, each lossy trial once more (RFC 9971, "MLRsearch Compliant with TST009").
    pub const TST009: Self = Self {
        duration_sum_s: 120.0,
        exceed_ratio: 0.5,
        ..Self::RFC2544
    };

    /// Refuses values outside their ranges.
    ///
    /// # Errors
    /// [`GoalError`] with the first.
    pub fn check(&self) -> Result<(), GoalError> {
        let ratios = [
            ("the loss ratio", self.loss_ratio),
            ("the exceed ratio", self.exceed_ratio),
            ("the width", self.width),
        ];
        for (what, value) in ratios {
            if !(0.0..1.0).contains(&value) {
                return Err(GoalError::Ratio { what, value });
            }
        }
        let positive = [
            ("the width", self.width),
            ("the final trial's duration", self.final_trial_s),
            ("the sum of durations", self.duration_sum_s),
            ("the initial trial's duration", self.initial_trial_s),
        ];
        for (what, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(GoalError::NotPositive { what, value });
            }
        }
        Ok(())
    }

    /// The goal with `left` of `steps` steps to go: the more, the fewer and shorter its trials, and the further apart its bounds. With none
    /// left it is the goal itself.
    pub(super) fn with_steps_left(self, left: u32, steps: u32) -> Self {
        if left == 0 {
            return self;
        }
        // Geometric, from a single initial trial to the goal's own.
        let part = f64::from(left) / f64::from(steps);
        let initial_s = self.initial_trial_s.min(self.final_trial_s);
        let between = |last: f64| last * (initial_s / last).powf(part);
        let final_trial_s = between(self.final_trial_s);
        Self {
            final_trial_s,
            duration_sum_s: between(self.duration_sum_s).max(final_trial_s),
            width: 1.0 - (1.0 - self.width).powi(1 << left),
            ..self
        }
    }
}
