//! The chi-square tests.

/// A right distribution is refused by one test in so many.
pub(super) const SIGNIFICANCE: f64 = 1e-6;
/// Bins with less than this expected are merged with their neighbours.
const EXPECTED_MIN: f64 = 10.0;

/// The chance that counts of these probabilities, which may be weights, are as far from what is expected or farther (Pearson).
pub(super) fn chi_square(counts: &[u64], weights: &[f64]) -> f64 {
    assert_eq!(counts.len(), weights.len(), "a weight for each count");
    let drawn = counts.iter().sum::<u64>() as f64;
    let all: f64 = weights.iter().sum();
    let impossible = counts
        .iter()
        .zip(weights)
        .any(|(count, weight)| *weight == 0.0 && *count > 0);
    if impossible {
        return 0.0;
    }
    let expected = weights.iter().map(|weight| weight / all * drawn);
    let bins = merged(
        counts.iter().map(|count| *count as f64).zip(expected),
        |(_, expected)| expected,
    );
    let sum: f64 = bins
        .iter()
        .map(|(count, expected)| (count - expected).powi(2) / expected)
        .sum();
    upper_tail(bins.len() - 1, sum)
}

/// The chance that two samples of one distribution differ so much or more.
pub(super) fn chi_square_of_two(first: &[u64], second: &[u64]) -> f64 {
    let len = first.len().max(second.len());
    let at = |counts: &[u64], bin: usize| counts.get(bin).copied().unwrap_or(0) as f64;
    let total = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
    let pairs = (0..len).map(|bin| (at(first, bin), at(second, bin)));
    let ratio = (total(first) / total(second)).sqrt();
    let bins = merged(pairs, |(first, second)| first + second);
    let sum: f64 = (bins.iter())
        .map(|(first, second)| (first / ratio - second * ratio).powi(2) / (first + second))
        .sum();
    upper_tail(bins.len() - 1, sum)
}

/// Neighbouring bins together, until each has enough of what `of` says.
fn merged(
    bins: impl Iterator<Item = (f64, f64)>,
    of: impl Fn((f64, f64)) -> f64,
) -> Vec<(f64, f64)> {
    let mut merged: Vec<(f64, f64)> = Vec::new();
    for bin in bins {
        match merged.last_mut() {
            Some(last) if of(*last) < EXPECTED_MIN => *last = (last.0 + bin.0, last.1 + bin.1),
            _ => merged.push(bin),
        }
    }
    match merged[..] {
        [.., before, last] if of(last) < EXPECTED_MIN => {
            merged.truncate(merged.len() - 2);
            merged.push((before.0 + last.0, before.1 + last.1));
        }
        _ => (),
    }
    assert!(merged.len() > 1, "one bin tells nothing");
    merged
}

/// The chance that a chi-square number of so many degrees of freedom is `sum` or more: the regularised upper incomplete gamma function, by its
/// series below its mean and by its continued fraction above (Abramowitz and Stegun 6.5.29 and 6.5.31).
fn upper_tail(freedom: usize, sum: f64) -> f64 {
    let (a, x) = (freedom as f64 / 2.0, sum / 2.0);
    if x <= 0.0 {
        return 1.0;
    }
    let scale = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut series, mut n) = (1.0 / a, 1.0 / a, a);
        while term > series * 1e-16 {
            n += 1.0;
            term *= x / n;
            series += term;
        }
        return 1.0 - series * scale;
    }
    // From the innermost fraction outwards.
    let fraction = (1..3000).rev().map(f64::from).fold(0.0, |inner, i| {
        i * (i - a) / (x + 2.0 * i + 1.0 - a - inner)
    });
    scale / (x + 1.0 - a - fraction)
}

/// The logarithm of the gamma function by Stirling's series, from 10 on.
fn ln_gamma(a: f64) -> f64 {
    let mut product = 1.0;
    let mut z = a;
    while z < 10.0 {
        product *= z;
        z += 1.0;
    }
    let series = 1.0 / (12.0 * z) - 1.0 / (360.0 * z.powi(3)) + 1.0 / (1260.0 * z.powi(5));
    (z - 0.5) * z.ln() - z + (std::f64::consts::TAU).ln() / 2.0 + series - f64::ln(product)
}

#[test]
fn tails_are_those_of_the_tables() {
    // NIST/SEMATECH, e-Handbook of Statistical Methods, 1.3.6.7.4.
    for (freedom, sum, tail) in [
        (1, 3.841, 0.05),
        (1, 10.828, 0.001),
        (4, 18.467, 0.001),
        (10, 18.307, 0.05),
        (10, 29.588, 0.001),
        (100, 124.342, 0.05),
        (100, 149.449, 0.001),
        (100, 77.929, 0.95),
    ] {
        let computed = upper_tail(freedom, sum);
        assert!(
            (computed / tail - 1.0).abs() < 0.002,
            "{freedom} {sum}: {computed}"
        );
    }
    // Two degrees are an exponential, at any depth.
    let (computed, exact) = (upper_tail(2, 60.0), (-30.0f64).exp());
    assert!((computed / exact - 1.0).abs() < 1e-9, "{computed} {exact}");
}

#[test]
fn counts_that_are_off_are_refused() {
    assert!(chi_square(&[5_020, 4_980], &[1.0, 1.0]) > 0.1);
    assert!(chi_square(&[5_400, 4_600], &[1.0, 1.0]) < SIGNIFICANCE);
    assert_eq!(chi_square(&[500, 499, 1], &[1.0, 1.0, 0.0]), 0.0);
    assert!(chi_square_of_two(&[5_000, 5_000], &[2_000, 2_020]) > 0.1);
    assert!(chi_square_of_two(&[5_000, 5_000], &[2_000, 2_400]) < SIGNIFICANCE);
}
