//! Beside published tables, the results of R, and sums that are listed one by one.

use super::*;
use crate::random::SplitMix64;

#[test]
fn cuts_are_those_of_the_published_tables() {
    // Two-sided 5 %: Hollander, Wolfe and Chicken, tables of the signed-rank and the rank-sum test; the largest statistic that rejects.
    for (n, critical) in [
        (6, 0),
        (7, 2),
        (8, 3),
        (9, 5),
        (10, 8),
        (15, 25),
        (20, 52),
        (25, 89),
    ] {
        let cut = tail_cut(&signed_rank_distribution(n), 0.05);
        assert_eq!(cut, Some(critical), "{n}");
    }
    assert_eq!(tail_cut(&signed_rank_distribution(5), 0.05), None);
    for (m, n, critical) in [
        (4, 4, 0),
        (5, 5, 2),
        (5, 8, 6),
        (7, 7, 8),
        (10, 10, 23),
        (20, 20, 127),
    ] {
        let cut = tail_cut(&rank_sum_distribution(m, n), 0.05);
        assert_eq!(cut, Some(critical), "{m} and {n}");
        assert_eq!(tail_cut(&rank_sum_distribution(n, m), 0.05), cut);
    }
    assert_eq!(tail_cut(&rank_sum_distribution(3, 3), 0.05), None);
    // One order of 3,432 to either side.
    assert_eq!(
        tail_cut(&rank_sum_distribution(7, 7), 2.0 / 3432.0),
        Some(0)
    );
    assert_eq!(tail_cut(&rank_sum_distribution(7, 7), 1.9 / 3432.0), None);
}

#[test]
#[expect(clippy::approx_constant, reason = "a patient's score, not pi")]
fn estimates_and_intervals_are_those_of_r() {
    // `wilcox.test` of R, its own two examples, with `conf.int = TRUE`: depression before and after, and permeability at term and before.
    let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
    let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
    let differences: Vec<f64> = before.iter().zip(after).map(|(a, b)| a - b).collect();
    let shift = Shift::of_differences(&differences, 0.05).unwrap();
    let interval = shift.interval.unwrap();
    assert!((shift.estimate - 0.46).abs() < 1e-9, "{shift:?}");
    assert!(
        (interval.0 - 0.01).abs() < 1e-9 && (interval.1 - 0.786).abs() < 1e-9,
        "{shift:?}"
    );
    let early = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
    let term = [1.15, 0.88, 0.90, 0.74, 1.21];
    let shift = Shift::between(&term, &early, 0.05).unwrap();
    let interval = shift.interval.unwrap();
    assert!((shift.estimate - 0.305).abs() < 1e-9, "{shift:?}");
    assert!(
        (interval.0 + 0.15).abs() < 1e-9 && (interval.1 - 0.76).abs() < 1e-9,
        "{shift:?}"
    );
}

#[test]
fn the_middle_of_all_sums_is_found_without_listing_them() {
    let mut random = SplitMix64::new(3);
    for n in [1, 2, 3, 10, 101] {
        // Few different values: many ties.
        let values: Vec<f64> = (0..n).map(|_| random.below(9) as f64 - 4.0).collect();
        let mut sums: Vec<f64> = Vec::new();
        for (at, a) in values.iter().enumerate() {
            sums.extend(values[at..].iter().map(|b| f64::midpoint(*a, *b)));
        }
        sums.sort_unstable_by(f64::total_cmp);
        let middle = f64::midpoint(sums[(sums.len() - 1) / 2], sums[sums.len() / 2]);
        let shift = Shift::of_differences(&values, 0.05).unwrap();
        assert_eq!(shift.estimate, middle, "{values:?}");
        let other: Vec<f64> = values.iter().map(|value| value + 2.5).collect();
        assert_eq!(Shift::between(&values, &other, 0.05).unwrap().estimate, 2.5);
    }
    assert_eq!(Shift::of_differences(&[], 0.05), None);
    assert_eq!(Shift::between(&[], &[1.0], 0.05), None);
}

#[test]
fn distributions_of_many_values_are_as_good_as_normal() {
    for miss in [0.05, 0.01, 1e-4] {
        let n = EXACT_MAX as f64;
        let exact = tail_cut(&signed_rank_distribution(EXACT_MAX), miss).unwrap();
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let normal = normal_cut(n * (n + 1.0) / 4.0, deviation, miss).unwrap();
        // Far out, the normal distribution cuts off less: its interval is the wider one.
        assert!(normal <= exact + 1, "{miss}: {exact}, {normal}");
        assert!(
            exact.abs_diff(normal) * 20 < exact,
            "{miss}: {exact}, {normal}"
        );
    }
    assert!((normal_quantile(0.025) - 1.959_963_985).abs() < 1e-8);
}

#[test]
fn intervals_miss_as_seldom_as_they_say() {
    let mut random = SplitMix64::new(11);
    let (mut missed, mut missed_between) = (0, 0);
    let trials = 2000;
    for _ in 0..trials {
        // A skewed distribution; differences of two such spread alike to both sides.
        let mut draw = || -> Vec<f64> { (0..20).map(|_| random.exponential(1.0)).collect() };
        let (a, b) = (draw(), draw());
        let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        let holds_zero = |shift: Option<Shift>| {
            let (low, high) = shift.unwrap().interval.unwrap();
            low <= 0.0 && 0.0 <= high
        };
        missed += u32::from(!holds_zero(Shift::of_differences(&differences, 0.05)));
        missed_between += u32::from(!holds_zero(Shift::between(&a, &b, 0.05)));
    }
    for missed in [missed, missed_between] {
        let share = f64::from(missed) / f64::from(trials);
        assert!((0.03..0.065).contains(&share), "{share}");
    }
}
