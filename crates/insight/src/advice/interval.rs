//! Intervals of predictions by jackknife+ (Barber, Candès, Ramdas, Tibshirani, "Predictive inference with the jackknife+", Annals of
//! Statistics 49, 2021), over folds: a fold is left out, the model is fitted to the rest, and each point of the fold says by how much it
//! was missed.

/// The share of new points that an interval is to hold.
pub const COVERAGE: f64 = 0.9;
/// Fewest folds that have an interval of [`COVERAGE`]: below, the rank that the method asks for lies beyond the last.
pub const FOLDS_MIN: usize = 9;

/// A number on a logarithmic scale with the interval that holds a new measurement of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The prediction.
    pub value: f64,
    /// The lower end; zero where nothing bounds it.
    pub low: f64,
    /// The upper end; infinite where nothing bounds it.
    pub high: f64,
}

impl Estimate {
    /// A number that is exact.
    pub fn exact(value: f64) -> Self {
        Self {
            value,
            low: value,
            high: value,
        }
    }

    /// True if the interval holds `value`. A billionth is rounding.
    pub fn holds(&self, value: f64) -> bool {
        self.low * (1.0 - 1e-9) <= value && value <= self.high * (1.0 + 1e-9)
    }

    /// The ratio of this to another that it does not depend on: their arms on the logarithmic scale add like the sides of a right angle (MOVER, Zou
    /// and Donner 2008). Values that are zero or infinite have no logarithm: of them the ends are divided, and where that says nothing it is open.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        let has_logarithm = |value: f64| value > 0.0 && value.is_finite();
        if !has_logarithm(self.value) || !has_logarithm(other.value) {
            let ratio = |one: f64, other: f64, unknown: f64| match one / other {
                ratio if ratio.is_nan() => unknown,
                ratio => ratio,
            };
            return Self {
                value: ratio(self.value, other.value, 1.0),
                low: ratio(self.low, other.high, 0.0),
                high: ratio(self.high, other.low, f64::INFINITY),
            };
        }
        let value = self.value / other.value;
        let arm = |of_self: f64, of_other: f64| of_self.ln().hypot(of_other.ln()).exp();
        Self {
            value,
            low: value / arm(self.value / self.low, other.high / other.value),
            high: value * arm(self.high / self.value, other.value / other.low),
        }
    }

    /// A number that rises with this one.
    #[must_use]
    pub fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        let (one, other) = (of(self.low), of(self.high));
        Self {
            value: of(self.value),
            low: one.min(other),
            high: one.max(other),
        }
    }

    /// The larger one of both: an end is the larger one of the ends.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        Self {
            value: self.value.max(other.value),
            low: self.low.max(other.low),
            high: self.high.max(other.high),
        }
    }

    /// The smaller one of both.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        Self {
            value: self.value.min(other.value),
            low: self.low.min(other.low),
            high: self.high.min(other.high),
        }
    }

    /// The same with arms that are longer by `spread`, differences of logarithms: of the lower one, and of the upper one.
    #[must_use]
    pub fn widened(&self, spread: [f64; 2]) -> Self {
        let arm = |ratio: f64, spread: f64| ratio.ln().hypot(spread).exp();
        Self {
            value: self.value,
            low: self.value / arm(self.value / self.low, spread[0]),
            high: self.value * arm(self.high / self.value, spread[1]),
        }
    }

    /// The interval's width as the logarithm of its ends' ratio.
    pub fn width(&self) -> f64 {
        match self.low < self.high {
            true => (self.high / self.low).ln(),
            false => 0.0,
        }
    }
}

/// The testimony of a point that was left out: what the model without its fold predicts for the new point, and by how much that model missed the
/// point itself, as logarithms. `None` if that model predicts nothing.
pub type Missed = Option<(f64, f64)>;

/// The interval around `value`: the ranks of jackknife+ among the predictions of the models, each less, and more, by what it missed.
pub fn jackknife_plus(value: f64, missed: &[Missed]) -> Estimate {
    let n = missed.len();
    let rank = ((n + 1) as f64 * COVERAGE).ceil() as usize;
    let ends = |sign: f64| {
        let ends = missed.iter().map(|one| match one {
            Some((predicted, error)) => sign * predicted + error.abs(),
            None => f64::INFINITY,
        });
        let mut ends: Vec<f64> = ends.collect();
        ends.sort_unstable_by(f64::total_cmp);
        ends.get(rank.saturating_sub(1))
            .copied()
            .unwrap_or(f64::INFINITY)
    };
    let low = (-ends(-1.0)).exp();
    let high = ends(1.0).exp();
    Estimate {
        value,
        low: low.min(value),
        high: high.max(value),
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::random::SplitMix64;

    use super::*;

    #[test]
    fn ranks_are_those_of_the_paper() {
        // n = 9 at 90 %: the ninth of nine, the largest; the smallest below.
        let missed: Vec<Missed> = (1..=9)
            .map(|at| Some((0.0, f64::from(at) / 10.0)))
            .collect();
        let found = jackknife_plus(1.0, &missed);
        assert!((found.high.ln() - 0.9).abs() < 1e-12 && (found.low.ln() + 0.9).abs() < 1e-12);
        // Nineteen: the eighteenth.
        let missed: Vec<Missed> = (1..=19).map(|at| Some((0.0, f64::from(at)))).collect();
        assert!((jackknife_plus(1.0, &missed).high.ln() - 18.0).abs() < 1e-9);
        let too_few = jackknife_plus(1.0, &missed[..8]);
        assert_eq!((too_few.low, too_few.high), (0.0, f64::INFINITY));
        let unknown = [&missed[..8], &[None]].concat();
        assert_eq!(jackknife_plus(1.0, &unknown).high, f64::INFINITY);
    }

    /// The mean of ten numbers as the model, another number of the same law as the new point: the interval must hold it in nine cases of ten or more.
    #[test]
    fn covers_what_it_promises() {
        let mut random = SplitMix64::new(11);
        let mut held = 0;
        let rounds = 2000;
        for _ in 0..rounds {
            let drawn: Vec<f64> = (0..12).map(|_| random.exponential(1.0)).collect();
            let (new, known) = drawn.split_first().expect("twelve");
            let sum: f64 = known.iter().sum();
            let missed: Vec<Missed> = known
                .iter()
                .map(|value| {
                    let without = (sum - value) / (known.len() - 1) as f64;
                    Some((without, value - without))
                })
                .collect();
            let mean = sum / known.len() as f64;
            held += usize::from(jackknife_plus(mean.exp(), &missed).holds(new.exp()));
        }
        // Guaranteed are 80 %, usual 90 %.
        assert!(held * 100 >= rounds * 88, "{held} of {rounds}");
    }

    #[test]
    fn a_ratio_joins_both_arms() {
        let one = Estimate {
            value: 2.0,
            low: 1.0,
            high: 4.0,
        };
        let ratio = one.over(&one);
        let arm = (2f64.ln() * 2f64.sqrt()).exp();
        assert!((ratio.value - 1.0).abs() < 1e-12);
        assert!((ratio.high - arm).abs() < 1e-9 && (ratio.low - 1.0 / arm).abs() < 1e-9);
        let exact = one.over(&Estimate::exact(2.0));
        assert!((exact.low - 0.5).abs() < 1e-12 && (exact.high - 2.0).abs() < 1e-12);
        let open = Estimate {
            low: 0.0,
            high: f64::INFINITY,
            ..one
        };
        assert_eq!(open.over(&one).high, f64::INFINITY);
        assert_eq!(open.over(&one).low, 0.0);
    }

    /// A queue that grows has an infinite time, and what costs nothing has none: a ratio with one of them holds its value, and has a width.
    #[test]
    fn a_ratio_of_what_is_infinite_or_nothing_is_open() {
        let endless = |low: f64| Estimate {
            value: f64::INFINITY,
            low,
            high: f64::INFINITY,
        };
        let free = Estimate {
            value: 0.0,
            low: 0.0,
            high: 5.0,
        };
        let known = Estimate {
            value: 2.0,
            low: 1.0,
            high: 4.0,
        };
        let all = [
            endless(3.0),
            endless(f64::INFINITY),
            free,
            Estimate::exact(0.0),
            known,
        ];
        for (one, other) in all.iter().flat_map(|one| all.map(|other| (one, other))) {
            let ratio = one.over(&other);
            assert!(
                ratio.low <= ratio.value && ratio.value <= ratio.high,
                "{ratio:?}"
            );
            assert!(ratio.low >= 0.0 && !ratio.width().is_nan(), "{ratio:?}");
        }
        let never = known.over(&endless(f64::INFINITY));
        assert_eq!((never.value, never.high), (0.0, 0.0));
        let perhaps = known.over(&endless(3.0));
        assert!(perhaps.value == 0.0 && perhaps.high > 1.0, "{perhaps:?}");
        let both = endless(3.0).over(&endless(3.0));
        assert_eq!((both.low, both.high), (0.0, f64::INFINITY));
    }
}
