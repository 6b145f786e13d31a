//! Against R, against distributions whose median is known, and by hand.

use super::*;
use crate::random::SplitMix64;

/// Michelson's speed of light, 1879, first twenty runs (km/s over 299,000), as R ships them in `morley`.
const MICHELSON: [f64; 20] = [
    850.0, 740.0, 900.0, 1070.0, 930.0, 850.0, 950.0, 980.0, 980.0, 880.0, 1000.0, 980.0, 930.0,
    650.0, 760.0, 810.0, 1000.0, 1000.0, 960.0, 960.0,
];

#[test]
fn agrees_with_r_on_michelsons_runs() {
    // R 4: median(x) = 940; sd(x)/mean(x) = 104.9260/909 = 0.1154301.
    assert_eq!(median(&MICHELSON), Some(940.0));
    let cv = cv(&MICHELSON).expect("twenty values");
    assert!((cv - 0.115_430_1).abs() < 1e-6, "{cv}");
}

#[test]
fn variation_does_not_depend_on_the_unit() {
    let usual = cv(&MICHELSON).expect("twenty values");
    // Sums and squares of the former are beyond any number, squares of the latter are zero.
    for unit in [1.5e305, 1e-300] {
        let scaled = cv(&MICHELSON.map(|value| value * unit)).expect("twenty values");
        assert!((usual - scaled).abs() < 1e-12, "{usual} {scaled}");
    }
    let wide = cv(&[f64::MAX, f64::MAX / 2.0, 5e-324]).expect("three values");
    assert!((wide - 1.0).abs() < 1e-12, "{wide}");
}

#[test]
fn intervals_begin_and_end_where_the_tables_say() {
    // From tables of the binomial with one half: what two tails of 5 % together leave to cut off each end.
    let expected = [
        (5, None),
        (6, Some(0)),
        (8, Some(0)),
        (9, Some(1)),
        (12, Some(2)),
        (15, Some(3)),
        (20, Some(5)),
        (25, Some(7)),
        (100, Some(39)),
    ];
    for (n, cut) in expected {
        assert_eq!(super::cut(n, MISS_MAX), cut, "{n} values");
    }
    // So many that 2^-n is zero: as the normal approximation has it.
    let cut = super::cut(10_000, MISS_MAX).expect("many");
    assert!((4899..=4902).contains(&cut), "{cut}");
    assert_eq!(median_ci95(&MICHELSON), Some((850.0, 980.0)));
}

/// The share of `trials` in which `n` values' interval covers the true median of what `draw` draws.
fn coverage(n: usize, median: f64, mut draw: impl FnMut() -> f64) -> f64 {
    let trials = 2000;
    let covered = (0..trials).filter(|_| {
        let values: Vec<f64> = (0..n).map(|_| draw()).collect();
        let (low, high) = median_ci95(&values).expect("enough values");
        (low..=high).contains(&median)
    });
    covered.count() as f64 / f64::from(trials)
}

#[test]
fn the_interval_covers_the_true_median_at_least_as_often_as_it_says() {
    let mut random = SplitMix64::new(3);
    for n in [6, 7, 8, 9, 10, 15, 40] {
        let share = coverage(n, std::f64::consts::LN_2, || random.exponential(1.0));
        // Three standard deviations below 95 %; at nine values the truth is 96.1 %.
        assert!(share >= 0.935, "{n} values: {share}");
    }
    let wide = coverage(40, std::f64::consts::LN_2, || random.exponential(1.0));
    assert!(wide < 0.99, "no wider than need be: {wide}");
}

#[test]
fn equal_sides_are_rarely_told_apart_and_different_ones_are() {
    let mut random = SplitMix64::new(5);
    let mut side = |n: usize, scale: f64| -> Vec<f64> {
        (0..n)
            .map(|_| scale * (1.0 + 0.1 * random.exponential(1.0)))
            .collect()
    };
    let trials = 1000;
    for n in [6, 7, 9, 15] {
        let mut decided = |over: f64| {
            let pairs = (0..trials).map(|_| Ratio::of(&side(n, over), &side(n, 1.0)));
            let decided = pairs.filter(|ratio| ratio.expect("values").is_decided());
            decided.count() as f64 / f64::from(trials)
        };
        let (wrongly, rightly) = (decided(1.0), decided(2.0));
        assert!(wrongly <= 0.05, "{n} values: {wrongly}");
        assert!(rightly >= 0.95, "{n} values: {rightly}");
    }
}

#[test]
fn few_values_have_no_interval_and_no_verdict_of_stable() {
    assert_eq!(median(&[]), None);
    assert_eq!(summarize(&[]), None);
    assert_eq!(median_ci95(&[]), None);
    let five = summarize(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("a median");
    assert_eq!((five.ci95_low, five.ci95_high), (None, None));
    assert_eq!(cv(&[1.0]), None);
    assert_eq!(cv(&[-1.0, 1.0]), None);
    assert_eq!(cv(&[0.0, 0.0]), None);
    let verdict = judge(&[1.0, 1.0], 5, 1, &Interference::default());
    assert!(!verdict.stable);
    assert_eq!(verdict.reasons[0], "2 of 5 runs");
}

#[test]
fn outliers_and_drift_are_found_and_noise_is_not() {
    assert_eq!(outliers(&[100.0, 101.0, 99.0, 100.5, 70.0, 100.2]), [4]);
    assert!(outliers(&[100.0, 100.0, 100.0, 100.0, 101.0]).is_empty());
    let rising: Vec<f64> = (0..8).map(|run| 100.0 + 2.0 * f64::from(run)).collect();
    let share = drift(&rising).expect("a trend");
    assert!((share - 14.0 / 107.0).abs() < 1e-9, "{share}");
    assert_eq!(drift(&[100.0, 100.1, 100.2, 100.3, 100.4, 100.5]), None);
    assert_eq!(drift(&MICHELSON), None);
    // By hand: S = 10 of five gives z = 9 / sqrt(50 / 3) = 2.20; S = 8 gives 1.71.
    assert!(drift(&[1.0, 2.0, 3.0, 4.0, 5.0]).is_some());
    assert_eq!(drift(&[1.0, 2.0, 3.0, 5.0, 4.0]), None);
}

#[test]
fn interference_is_a_reason() {
    let quiet = Interference {
        wall_s: 1.0,
        core_wait_s: Some(0.01),
        context_switches_involuntary: Some(5),
        steal_s: Some(0.0),
    };
    let runs = [1.0, 1.01, 0.99, 1.0, 1.0];
    assert!(judge(&runs, 5, 1, &quiet).stable);
    let busy = Interference {
        core_wait_s: Some(0.5),
        steal_s: Some(0.3),
        ..quiet
    };
    assert_eq!(judge(&runs, 5, 1, &busy).reasons.len(), 2);
}

#[test]
fn a_ratio_is_decided_only_if_its_interval_leaves_one_side() {
    let slow = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95];
    let fast = slow.map(|value| 2.0 * value);
    let ratio = Ratio::of(&fast, &slow).expect("both have values");
    assert_eq!(ratio.median, 2.0);
    assert!(ratio.is_decided());
    // By hand: both sides lie between 0.9 and 1.1 of their median.
    let (low, high) = ratio.ci95.expect("six values each");
    let arm = (1.0_f64 / 0.9).ln().hypot(1.1_f64.ln()).exp();
    assert!((low - 2.0 / arm).abs() < 1e-12 && (high - 2.0 * arm).abs() < 1e-12);
    assert!(!Ratio::of(&slow, &slow).expect("values").is_decided());
    assert_eq!(Ratio::of(&slow, &[0.0]), None);
    let few = Ratio::of(&fast, &slow[..5]).expect("values");
    assert_eq!((few.ci95, few.is_decided()), (None, false));
    let mut with_zero = slow;
    with_zero[0] = 0.0;
    assert_eq!(Ratio::of(&with_zero, &slow).expect("values").ci95, None);
}
