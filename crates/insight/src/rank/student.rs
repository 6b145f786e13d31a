//! Intervals of means by Student's t, for so few runs that ranks alone leave no interval: of five values a side, corrected for a dozen
//! comparisons, the rank-sum test has none. They assume that the values, here logarithms of runs, are about normal.

/// The interval of the mean of `values`, which it misses with a probability of `miss`. `None` below two values.
pub(super) fn of_mean(values: &[f64], miss: f64) -> Option<(f64, f64)> {
    let (mean, variance) = moments(values)?;
    let n = values.len() as f64;
    Some(around(mean, variance / n, n - 1.0, miss))
}

/// The interval of the mean of `to` less that of `from`, by Welch's test, whose degrees of freedom are Satterthwaite's. `None` if a side has fewer than
/// two values.
pub(super) fn welch(from: &[f64], to: &[f64], miss: f64) -> Option<(f64, f64)> {
    let ((mean_from, variance_from), (mean_to, variance_to)) = (moments(from)?, moments(to)?);
    let (m, n) = (from.len() as f64, to.len() as f64);
    let (a, b) = (variance_from / m, variance_to / n);
    let freedom = (a + b).powi(2) / (a * a / (m - 1.0) + b * b / (n - 1.0));
    Some(around(mean_to - mean_from, a + b, freedom, miss))
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

    /// `scipy.stats.ttest_ind(…, equal_var=False).confidence_interval(0.95)` of the same logarithms.
    #[test]
    fn welchs_interval_is_scipys() {
        let a = [10.1, 10.3, 9.9, 10.2, 10.0_f64].map(f64::ln);
        let b = [11.0, 11.4, 10.7, 11.9, 11.2_f64].map(f64::ln);
        let (low, high) = welch(&a, &b, 0.05).expect("five values a side");
        assert!((low - 0.057747936099785596).abs() < 1e-9, "{low}");
        assert!((high - 0.15505912733125235).abs() < 1e-9, "{high}");
        assert_eq!(welch(&a[..1], &b, 0.05), None);
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0], 0.05), Some((1.0, 1.0)));
    }
}
