//! From values to places on an axis.

/// An axis, logarithmic or not.
#[derive(Debug)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    /// The place of `low`.
    pub(super) from: f64,
    /// The place of `high`.
    pub(super) to: f64,
    pub(super) log: bool,
}

impl Scale {
    /// Over all values: logarithmic if they are positive and span a factor of eight; else from zero, or for `tight` from
    /// the lowest.
    pub(super) fn over(values: impl Iterator<Item = f64>, from: f64, to: f64, tight: bool) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let log = low > 0.0 && high / low >= 8.0;
        match (tight, log) {
            (true, _) => {}
            (false, true) => (low, high) = (low / 1.3, high * 1.3),
            (false, false) => {
                (low, high) = (low.min(0.0), if high > 0.0 { high * 1.08 } else { 1.0 })
            }
        }
        if low == high {
            high = low + 1.0;
        }
        Self {
            low,
            high,
            from,
            to,
            log,
        }
    }

    /// Over all values of bars, from 0 to 1: where they span a factor of thirty and `may_be_log`, logarithmic from the power of ten below the least.
    pub(super) fn of_lengths(values: impl Iterator<Item = f64>, may_be_log: bool) -> Self {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            least = least.min(value);
            most = most.max(value);
        }
        let log = may_be_log && most / least >= 30.0;
        let low = match log {
            true => 10f64.powf((least / 1.5).log10().floor()),
            false => 0.0,
        };
        let high = if most > low { most } else { low + 1.0 };
        Self {
            low,
            high,
            from: 0.0,
            to: 1.0,
            log,
        }
    }

    /// The place of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + share * (self.to - self.from)
    }

    /// Round numbers inside.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let inside = |value: &f64| (self.low..=self.high * 1.000_001).contains(value);
        if self.log {
            let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let steps: &[f64] = match self.high / self.low {
                span if span > 2000.0 => &[1.0],
                span if span > 50.0 => &[1.0, 3.0],
                _ => &[1.0, 2.0, 5.0],
            };
            let all =
                decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
            return all.filter(inside).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|step| step * power);
        let step = step.clone().find(|step| *step >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        (first..first + 8)
            .map(|at| at as f64 * step)
            .filter(inside)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_put_ends_at_ends_and_ticks_inside() {
        for values in [
            [1.0, 1000.0],
            [0.0, 7.0],
            [5.0, 5.0],
            [0.001, 0.1],
            [-3.0, 4.0],
        ] {
            let scale = Scale::over(values.into_iter(), 10.0, 110.0, true);
            assert_eq!(scale.at(scale.low), 10.0);
            assert!((scale.at(scale.high) - 110.0).abs() < 1e-9);
            assert!(!scale.ticks().is_empty(), "{values:?}");
            for tick in scale.ticks() {
                assert!(
                    (9.9..=110.1).contains(&scale.at(tick)),
                    "{values:?}: {tick}"
                );
            }
        }
    }

    #[test]
    fn nothing_finite_is_no_panic() {
        let scale = Scale::over([f64::NAN, f64::INFINITY].into_iter(), 0.0, 1.0, false);
        assert!(scale.at(0.5).is_finite());
        let lengths = Scale::of_lengths([f64::NAN, 0.0].into_iter(), true);
        assert_eq!((lengths.at(0.0), lengths.log), (0.0, false));
    }

    #[test]
    fn lengths_start_at_zero_unless_they_span_much() {
        let even = Scale::of_lengths([10.0, 20.0].into_iter(), true);
        assert_eq!((even.at(10.0), even.at(20.0)), (0.5, 1.0));
        let wide = Scale::of_lengths([20.0, 2000.0].into_iter(), true);
        assert_eq!((wide.low, wide.at(2000.0)), (10.0, 1.0));
        assert!(!Scale::of_lengths([20.0, 2000.0].into_iter(), false).log);
    }
}
