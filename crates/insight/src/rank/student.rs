//! Intervals of means by Student's t, for so few runs that ranks alone leave no interval: of five values a side, corrected for a dozen
//! comparisons, the rank-sum test has none. They assume that the values, here logarithms of runs, are about normal.

/// The interval of the mean of `values`, which it misses with a probability of `miss`. `None` below two values.
pub(super) fn of_mean(values: &[f64], miss: f64) -> Option<(f64, f64)> {
    let (mean, variance) = moments(values)?;
    let n = values.len() as f64;
    Some(around(mean, variance / n, n - 1.0, miss))
}

/// A difference of means, and the probability of so large a one, to either side, if there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    /// The difference.
    pub(super) mean: f64,
    /// The p-value of both sides.
    pub(super) p_value: f64,
}

impl Difference {
    /// The mean of `to` less that of `from`, by Welch's test, whose degrees of freedom are Satterthwaite's. `None` if a side has fewer than two
    /// values.
    pub(super) fn between(from: &[f64], to: &[f64]) -> Option<Self> {
        let ((mean_from, variance_from), (mean_to, variance_to)) = (moments(from)?, moments(to)?);
        let (m, n) = (from.len() as f64, to.len() as f64);
        let (a, b) = (variance_from / m, variance_to / n);
        let freedom = (a + b).powi(2) / (a * a / (m - 1.0) + b * b / (n - 1.0));
        Some(Self::of(mean_to - mean_from, a + b, freedom))
    }

    /// The mean of values that were paired and subtracted. `None` below two values.
    pub(super) fn of_pairs(differences: &[f64]) -> Option<Self> {
        let (mean, variance) = moments(differences)?;
        let n = differences.len() as f64;
        Some(Self::of(mean, variance / n, n - 1.0))
    }

    fn of(mean: f64, variance: f64, freedom: f64) -> Self {
        // Of values that do not vary at all the difference is known.
        let p_value = match (variance == 0.0, mean == 0.0) {
            (true, true) => 1.0,
            (true, false) => 0.0,
            (false, _) => 2.0 * tail(mean.abs() / variance.sqrt(), freedom),
        };
        Self { mean, p_value }
    }
}

fn around(middle: f64, variance: f64, freedom: f64, miss: f64) -> (f64, f64) {
    // Of values that do not vary at all the mean is known.
    let half = match variance == 0.0 {
        true => 0.0,
        false => quantile(1.0 - miss / 2.0, freedom) * variance.sqrt(),
    };
    (middle - half, middle + half)
}

/// Mean and variance (n − 1).
fn moments(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, squares / (n - 1.0)))
}

/// The value below which a t-distributed number lies with a probability of `share`, above one half, by bisection.
fn quantile(share: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while tail(high, freedom) > 1.0 - share && high < f64::MAX / 4.0 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        match tail(middle, freedom) > 1.0 - share {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// The probability that a t-distributed number lies above `t`, not below zero.
fn tail(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t)) / 2.0
}

/// The regularized incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8), evaluated after Lentz.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    // The fraction converges fast below this point; above it the other tail does.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    if x <= 0.0 {
        return 0.0;
    }
    let logarithm =
        libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * (-x).ln_1p();
    logarithm.exp() / (a * fraction(a, b, x))
}

/// 1 + d₁/(1 + d₂/(1 + …)).
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TERMS_MAX: u32 = 10_000;
    // Stands in for a zero in the denominator.
    const TINY: f64 = 1e-300;
    let nonzero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut value, mut c, mut d) = (1.0, 1.0, 0.0);
    for term in 1..=TERMS_MAX {
        let m = f64::from(term / 2);
        let part = match term % 2 {
            0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        d = 1.0 / nonzero(1.0 + part * d);
        c = nonzero(1.0 + part / c);
        value *= c * d;
        if (c * d - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scipy.stats.t.ppf`, SciPy 1.17.1; the first and the fifth are in every printed table (2.776, 4.303).
    #[test]
    fn quantiles_are_those_of_tables() {
        for (share, freedom, expected) in [
            (0.975, 4.0, 2.7764451051977934),
            (0.9995, 7.3, 5.283211758939497),
            (0.995, 1.0, 63.656741162871526),
            (0.95, 30.0, 1.697260886593957),
            (0.975, 2.0, 4.302652729749462),
            (0.9999, 12.5, 5.183021023760722),
        ] {
            let found = quantile(share, freedom);
            assert!(
                (found / expected - 1.0).abs() < 1e-10,
                "{share} {freedom}: {found}"
            );
        }
    }

    /// `scipy.stats.ttest_ind(…, equal_var=False)` of the same logarithms: t = 5.5555, 5.2054 degrees of freedom.
    #[test]
    fn welchs_test_is_scipys() {
        let a = [10.1, 10.3, 9.9, 10.2, 10.0_f64].map(f64::ln);
        let b = [11.0, 11.4, 10.7, 11.9, 11.2_f64].map(f64::ln);
        let found = Difference::between(&a, &b).expect("five values a side");
        assert!(
            (found.p_value - 0.002285790880503802).abs() < 1e-12,
            "{found:?}"
        );
        // The middle of SciPy's interval.
        let middle = f64::midpoint(0.057747936099785596, 0.15505912733125235);
        assert!((found.mean - middle).abs() < 1e-12, "{found:?}");
        assert_eq!(Difference::between(&a[..1], &b), None);
        let same = Difference::between(&[1.0, 1.0], &[2.0, 2.0]).expect("two values a side");
        assert_eq!((same.mean, same.p_value), (1.0, 0.0));
    }

    /// Four differences of mean 2.5 and deviation √(5/3): t = 3.8730 of 3 degrees of freedom, between the table's 3.182 (5 %) and 5.841 (1 %).
    #[test]
    fn pairs_are_judged_by_their_differences() {
        let found = Difference::of_pairs(&[1.0, 2.0, 3.0, 4.0]).expect("four");
        assert_eq!(found.mean, 2.5);
        assert!(found.p_value > 0.01 && found.p_value < 0.05, "{found:?}");
        let (low, high) = of_mean(&[1.0, 2.0, 3.0, 4.0], found.p_value).expect("four");
        // At its own p-value the interval ends at zero.
        assert!(
            low.abs() < 1e-9 && (high - 5.0).abs() < 1e-9,
            "{low} {high}"
        );
    }
}
