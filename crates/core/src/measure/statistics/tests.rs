//! Against R, against distributions whose median is known, and by hand.

use super::*;

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
fn the_interval_covers_the_true_median_about_as_often_as_it_says() {
    let mut random = SplitMix64::new(3);
    let trials = 400;
    let covered = (0..trials)
        .filter(|&trial| {
            let values: Vec<f64> = (0..15).map(|_| random.exponential(1.0)).collect();
            let (low, high) = bootstrap_ci95(&values, trial).expect("fifteen values");
            (low..=high).contains(&std::f64::consts::LN_2)
        })
        .count();
    let share = covered as f64 / trials as f64;
    assert!((0.90..=0.99).contains(&share), "{share}");
}

#[test]
fn few_values_have_no_interval_and_no_verdict_of_stable() {
    assert_eq!(median(&[]), None);
    assert_eq!(summarize(&[], 1), None);
    assert_eq!(bootstrap_ci95(&[1.0, 2.0], 1), None);
    assert_eq!(cv(&[1.0]), None);
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
    let slow = [1.0, 1.1, 0.9, 1.0, 1.05];
    let fast = [2.0, 2.1, 1.9, 2.0, 2.05];
    let ratio = Ratio::of(&fast, &slow, 1).expect("both have values");
    assert_eq!(ratio.median, 2.0);
    assert!(ratio.is_decided());
    assert!(!Ratio::of(&slow, &slow, 1).expect("values").is_decided());
    assert_eq!(Ratio::of(&slow, &[0.0], 1), None);
    assert_eq!(Ratio::of(&slow, &[2.0], 1).expect("a value").ci95, None);
}
