//! Two sides measured in turns until their ratio is known well enough: a comparison that may stop at any look without fooling itself.
//!
//! Whoever looks at a 5 % test after each pair and stops at the first rejection finds a difference between a thing and itself sooner or later
//! (Johari, Pekelis and Walsh 2017, "Always valid inference"). Here the looks share what may go wrong: the `k`-th has `6 / (π² k²)` of it, and all
//! together have no more than the whole, whenever the comparison stops. Looks lie ever further apart, so their number grows with the
//! logarithm of the pairs.
//!
//! A pair is one measurement of each side, one right behind the other, in an order that was drawn: what the machine does meanwhile meets both.
//! If the sides do not differ, the logarithm of a pair's ratio is as often positive as negative and spreads alike to both, which is all
//! that the signed-rank test asks for.

use super::ranks::Shift;

/// The probability that a comparison of a thing with itself finds a difference.
pub const MISS_MAX: f64 = 0.01;
/// Pairs before the first look.
const FIRST_LOOK: usize = 10;
/// Looks lie apart by this factor.
const NEXT_LOOK: f64 = 1.25;

/// A comparison of `b` with `a`, as its pairs come in.
#[derive(Clone, Debug)]
pub struct Turns {
    /// Logarithms of the pairs' ratios.
    ratios_ln: Vec<f64>,
    /// A ratio this near to 1 is no difference: 0.01 for 1 %.
    margin: f64,
    looks: u32,
    next_look: usize,
    estimate: Option<Estimate>,
    verdict: Verdict,
}

/// The ratio of `b` to `a`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The middle of the pairs' ratios (Hodges and Lehmann, on the logarithmic scale).
    pub ratio: f64,
    /// The interval of the ratio, at a confidence of 1 - [`MISS_MAX`] over all looks.
    pub interval: (f64, f64),
}

/// The finding of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `b` has less.
    Less,
    /// `b` has more.
    More,
    /// They differ by no more than the margin.
    Same,
    /// The interval holds 1 and is wider than the margin.
    TooClose,
}

impl Turns {
    /// A comparison without pairs.
    pub fn new(margin: f64) -> Self {
        Self {
            ratios_ln: Vec::new(),
            margin,
            looks: 0,
            next_look: FIRST_LOOK,
            estimate: None,
            verdict: Verdict::TooClose,
        }
    }

    /// Adds a pair. Both values are above zero.
    pub fn push(&mut self, a: f64, b: f64) {
        self.ratios_ln.push((b / a).ln());
    }

    /// Pairs so far.
    pub fn pairs(&self) -> usize {
        self.ratios_ln.len()
    }

    /// Looks, if it is time to; whether the comparison is decided.
    pub fn look(&mut self) -> bool {
        if self.pairs() >= self.next_look {
            self.next_look = (self.pairs() as f64 * NEXT_LOOK).ceil() as usize;
            self.look_now();
        }
        self.verdict != Verdict::TooClose
    }

    /// The finding; a comparison that no look has decided yet gets a last one.
    pub fn finish(mut self) -> (Verdict, Option<Estimate>) {
        if self.verdict == Verdict::TooClose {
            self.look_now();
        }
        (self.verdict, self.estimate)
    }

    /// The ratio as the last look found it; `None` before the first one that had pairs enough.
    pub fn estimate(&self) -> Option<Estimate> {
        self.estimate
    }

    fn look_now(&mut self) {
        self.looks += 1;
        let of_look = 6.0 / (std::f64::consts::PI * f64::from(self.looks)).powi(2);
        let shift = Shift::of_differences(&self.ratios_ln, MISS_MAX * of_look);
        if let Some(Shift {
            estimate,
            interval: Some((low, high)),
        }) = shift
        {
            self.estimate = Some(Estimate {
                ratio: estimate.exp(),
                interval: (low.exp(), high.exp()),
            });
        }
        if let Some(estimate) = self.estimate {
            self.verdict = estimate.verdict(self.margin);
        }
    }
}

impl Estimate {
    /// The verdict of the ratio, if one within `margin` of 1 is no difference.
    pub fn verdict(&self, margin: f64) -> Verdict {
        let (low, high) = self.interval;
        let is_within = low * (1.0 + margin) >= 1.0 && high <= 1.0 + margin;
        match () {
            () if is_within => Verdict::Same,
            () if high < 1.0 => Verdict::Less,
            () if low > 1.0 => Verdict::More,
            () => Verdict::TooClose,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// Compares a thing with itself or with one that takes `factor` times as long, for at most so many pairs, while the machine's speed
    /// wanders and single runs are disturbed.
    fn compare(random: &mut SplitMix64, factor: f64, pairs_max: usize) -> Verdict {
        let mut turns = Turns::new(0.01);
        let mut speed = 1.0;
        while turns.pairs() < pairs_max {
            speed *= 1.0 + 0.02 * (random.unit() - 0.5);
            let mut run = |work: f64| {
                let disturbed = if random.unit() < 0.1 {
                    random.exponential(0.5)
                } else {
                    0.0
                };
                work * speed * (1.0 + random.exponential(0.02) + disturbed)
            };
            turns.push(run(1.0), run(factor));
            if turns.look() {
                break;
            }
        }
        turns.finish().0
    }

    #[test]
    fn a_thing_beside_itself_differs_no_more_often_than_said() {
        let mut random = SplitMix64::new(5);
        let found: Vec<Verdict> = (0..400).map(|_| compare(&mut random, 1.0, 1000)).collect();
        let wrong = found
            .iter()
            .filter(|&&found| matches!(found, Verdict::Less | Verdict::More));
        // Twelve or more of 400 come by chance once in 2,000 times, were it 1 %.
        assert!(wrong.count() < 12);
        let same = found
            .iter()
            .filter(|&&found| found == Verdict::Same)
            .count();
        assert!(same > 380, "{same}");
    }

    #[test]
    fn three_in_a_hundred_are_found() {
        let mut random = SplitMix64::new(6);
        for _ in 0..100 {
            assert_eq!(compare(&mut random, 1.03, 1000), Verdict::More);
            assert_eq!(compare(&mut random, 1.0 / 1.03, 1000), Verdict::Less);
        }
    }

    #[test]
    fn few_pairs_decide_nothing() {
        let mut turns = Turns::new(0.01);
        for _ in 0..7 {
            turns.push(1.0, 2.0);
            assert!(!turns.look());
        }
        assert_eq!(turns.finish(), (Verdict::TooClose, None));
    }

    #[test]
    fn a_difference_within_the_margin_is_none() {
        let within = |low, high| {
            Estimate {
                ratio: 1.0,
                interval: (low, high),
            }
            .verdict(0.01)
        };
        assert_eq!(within(1.001, 1.009), Verdict::Same);
        assert_eq!(within(0.995, 1.005), Verdict::Same);
        assert_eq!(within(1.001, 1.02), Verdict::More);
        assert_eq!(within(0.9, 0.95), Verdict::Less);
        assert_eq!(within(0.98, 1.005), Verdict::TooClose);
    }
}
