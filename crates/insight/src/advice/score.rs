//! The score of predictions that were measured afterwards: on held-out points alone, beside rules that look at nothing.

use super::decision::Verdict;
use super::interval::Estimate;

/// Items at least so large go to the device, by the third of the dumb rules: the default of QATzip's threshold.
pub const RULE_BYTES: u64 = 1024;

/// A prediction and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The test in a few words.
    pub name: String,
    /// The prediction.
    pub predicted: Estimate,
    /// The measured value.
    pub measured: f64,
}

/// A decision and the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The test in a few words.
    pub name: String,
    /// Bytes of an item.
    pub size: u64,
    /// The decision.
    pub verdict: Verdict,
    /// The measured gain with its interval; the truth is undecided where that holds 1.
    pub truth: Estimate,
}

/// The score.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Predictions.
    pub held: usize,
    /// Those whose interval holds what was measured.
    pub covered: usize,
    /// The median relative error; `None` of nothing.
    pub median_error: Option<f64>,
    /// The largest difference between prediction and measurement.
    pub worst_off: f64,
    /// Decisions about tests whose truth is known.
    pub decisions: usize,
    /// Those of them that were said: move or stay.
    pub spoken: usize,
    /// Those of these that were right.
    pub right: usize,
    /// Tests in which the measured interval holds 1: nobody is right or wrong there.
    pub ties: usize,
    /// The share of the same decisions that each dumb rule gets right: always, never, from [`RULE_BYTES`].
    pub rules: [usize; 3],
    /// The points outside of their intervals, and wrong decisions.
    pub misses: Vec<String>,
}

/// Names of the dumb rules.
pub const RULES: [&str; 3] = ["always", "never", "from 1024 B"];

impl Score {
    /// The score of these predictions and decisions.
    pub fn of(held: &[Held], decided: &[Decided]) -> Self {
        let mut misses = Vec::new();
        let mut errors: Vec<f64> = Vec::new();
        let (mut covered, mut worst_off) = (0, 0.0f64);
        for one in held {
            errors.push((one.predicted.value / one.measured - 1.0).abs());
            worst_off = worst_off.max((one.predicted.value - one.measured).abs());
            match one.predicted.holds(one.measured) {
                true => covered += 1,
                false => misses.push(format!(
                    "{}: predicted {:.1} ({:.1} to {:.1}), measured {:.1}",
                    one.name,
                    one.predicted.value,
                    one.predicted.low,
                    one.predicted.high,
                    one.measured
                )),
            }
        }
        let mut score = Self {
            held: held.len(),
            covered,
            median_error: dpb_core::measure::statistics::median(&errors),
            worst_off,
            decisions: 0,
            spoken: 0,
            right: 0,
            ties: 0,
            rules: [0; 3],
            misses,
        };
        for one in decided {
            score.judge(one);
        }
        score
    }

    fn judge(&mut self, one: &Decided) {
        let truth = Verdict::of(&one.truth);
        if truth == Verdict::TooClose {
            self.ties += 1;
            return;
        }
        self.decisions += 1;
        let by_rule = [
            Verdict::Move,
            Verdict::Stay,
            if one.size >= RULE_BYTES {
                Verdict::Move
            } else {
                Verdict::Stay
            },
        ];
        for (right, rule) in self.rules.iter_mut().zip(by_rule) {
            *right += usize::from(rule == truth);
        }
        if one.verdict == Verdict::TooClose {
            return;
        }
        self.spoken += 1;
        match one.verdict == truth {
            true => self.right += 1,
            false => self.misses.push(format!(
                "{}: said {}, and the measured gain is {:.3}",
                one.name,
                one.verdict.name(),
                one.truth.value
            )),
        }
    }

    /// Adds another score; medians of medians are none, so the error goes.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.held += other.held;
        self.covered += other.covered;
        self.median_error = None;
        self.worst_off = self.worst_off.max(other.worst_off);
        self.decisions += other.decisions;
        self.spoken += other.spoken;
        self.right += other.right;
        self.ties += other.ties;
        for (sum, more) in self.rules.iter_mut().zip(other.rules) {
            *sum += more;
        }
        self.misses.extend(other.misses);
        self
    }

    /// The share of predictions whose interval held; `None` of none.
    pub fn coverage(&self) -> Option<f64> {
        share(self.covered, self.held)
    }

    /// The share of spoken decisions that were right.
    pub fn accuracy(&self) -> Option<f64> {
        share(self.right, self.spoken)
    }

    /// The share of decisions that were too close to call.
    pub fn abstention(&self) -> Option<f64> {
        share(self.decisions - self.spoken, self.decisions)
    }

    /// The share of the same decisions that each rule has right.
    pub fn rule_accuracy(&self) -> [Option<f64>; 3] {
        self.rules.map(|right| share(right, self.decisions))
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(low: f64, value: f64, high: f64) -> Estimate {
        Estimate { value, low, high }
    }

    fn decided(size: u64, verdict: Verdict, truth: Estimate) -> Decided {
        Decided {
            name: format!("{size} B"),
            size,
            verdict,
            truth,
        }
    }

    #[test]
    fn scores_what_was_said_and_lists_what_was_missed() {
        let held = |measured| Held {
            name: "test".to_owned(),
            predicted: estimate(90.0, 100.0, 110.0),
            measured,
        };
        let (wins, loses, tie) = (
            estimate(1.5, 2.0, 2.5),
            estimate(0.4, 0.5, 0.6),
            estimate(0.9, 1.0, 1.1),
        );
        let decisions = [
            decided(64, Verdict::Stay, loses),
            decided(4096, Verdict::Move, wins),
            decided(8192, Verdict::Move, loses),
            decided(512, Verdict::TooClose, wins),
            decided(700, Verdict::Move, tie),
        ];
        let score = Score::of(&[held(100.0), held(105.0), held(125.0)], &decisions);
        assert_eq!((score.held, score.covered), (3, 2));
        // Errors are 0, 100/105 − 1, 100/125 − 1.
        assert!((score.median_error.expect("errors") - (1.0 - 100.0 / 105.0)).abs() < 1e-12);
        assert_eq!(
            (score.decisions, score.spoken, score.right, score.ties),
            (4, 3, 2, 1)
        );
        // Truths: stay, move, stay, move.
        assert_eq!(score.rules, [2, 2, 2]);
        assert_eq!(score.misses.len(), 2, "{:?}", score.misses);
        assert_eq!(score.abstention(), Some(0.25));
        let both = score.clone().and(score);
        assert_eq!((both.held, both.right, both.rules[0]), (6, 4, 4));
    }
}
