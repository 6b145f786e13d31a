//! Ranks by hand, and what must not change them. The paper's own tables are checked by a test of `dpb`, as its files are not kept here.

use proptest::prelude::*;

use super::left_out;
use super::*;

fn one(test: &str, classes: &[&str], platform: &str, runs: &[f64]) -> Measurement {
    Measurement {
        test: test.to_owned(),
        classes: classes.iter().map(|&class| class.to_owned()).collect(),
        platform: platform.to_owned(),
        runs: runs.to_vec(),
    }
}

fn three() -> Vec<Measurement> {
    vec![
        one("branch", &["CPU"], "a", &[99.0, 100.0, 101.0, 100.0, 100.0]),
        one(
            "branch",
            &["CPU"],
            "b",
            &[199.0, 200.0, 201.0, 200.0, 200.0],
        ),
        one(
            "branch",
            &["CPU"],
            "c",
            &[202.0, 198.0, 203.0, 199.0, 203.0],
        ),
        one("fifo", &["OS", "PIPE_IO"], "a", &[30.0, 30.1, 29.9]),
        one("fifo", &["OS", "PIPE_IO"], "b", &[10.0, 10.1, 9.9]),
        one("fifo", &["OS", "PIPE_IO"], "c", &[20.0, 20.1, 19.9]),
        one("rdrand", &["CPU"], "b", &[5.0]),
        one("rdrand", &["CPU"], "c", &[6.0]),
    ]
}

#[test]
fn ranks_scores_and_ratios_are_those_of_hand() {
    let ranking = Ranking::of(&three(), Some("a")).expect("three platforms");
    assert_eq!(ranking.platforms, ["a", "b", "c"]);
    let place = |test: usize, platform: usize| {
        ranking.tests[test].places[platform]
            .as_ref()
            .expect("measured")
    };
    // branch: means 100, 200, 201; their mean 167, deviation √((67² + 33² + 34²)/2).
    let deviation = ((67.0_f64.powi(2) + 33.0_f64.powi(2) + 34.0_f64.powi(2)) / 2.0).sqrt();
    assert_eq!(place(0, 2).mean, 201.0);
    assert!((place(0, 0).z_score.expect("they differ") + 67.0 / deviation).abs() < 1e-12);
    assert_eq!(place(0, 1).ratio, Some(2.0));
    // b and c differ by less than their runs do: both may be first.
    let rank = |rank, best, worst| Rank { rank, best, worst };
    assert_eq!(place(0, 0).rank, rank(3, 3, 3));
    assert_eq!(place(0, 1).rank, rank(2, 1, 2));
    assert_eq!(place(0, 2).rank.to_string(), "1 (1-2)");
    assert_eq!(place(1, 2).rank.to_string(), "2");
    // Without runs there is no interval, and without the reference no ratio.
    assert_eq!(place(2, 2).rank, rank(1, 1, 2));
    assert_eq!(
        (place(2, 2).ratio, ranking.tests[2].is_complete()),
        (None, false)
    );
}

#[test]
fn classes_average_over_tests_that_all_have() {
    let ranking = Ranking::of(&three(), Some("a")).expect("three platforms");
    let names: Vec<Option<&str>> = ranking
        .classes
        .iter()
        .map(|class| class.name.as_deref())
        .collect();
    assert_eq!(names, [None, Some("CPU"), Some("OS"), Some("PIPE_IO")]);
    assert_eq!((ranking.classes[0].tests, ranking.classes[1].tests), (2, 1));
    let all = &ranking.classes[0].standings;
    assert_eq!(all[0].geometric, 1.0);
    assert!((all[1].geometric - (2.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    assert!((all[1].ratio.0 - (2.0 + 1.0 / 3.0) / 2.0).abs() < 1e-12);
    // Two tests say little: every order is open, and c leads.
    assert_eq!(
        all.iter()
            .map(|s| (s.rank.rank, s.rank.best, s.rank.worst))
            .collect::<Vec<_>>(),
        [(2, 1, 3), (3, 1, 3), (1, 1, 3)]
    );
}

#[test]
fn strengths_are_first_ranks_and_weaknesses_last_ones() {
    let ranking = Ranking::of(&three(), None).expect("three platforms");
    let names = |list: &[(&Test, Rank)]| {
        list.iter()
            .map(|(test, _)| test.name.clone())
            .collect::<Vec<_>>()
    };
    let [first, last] = ranking.strengths(0, 1);
    assert_eq!(
        (names(&first), names(&last)),
        (vec!["fifo".to_owned()], vec!["branch".to_owned()])
    );
    // Rank 3 of 3 is last, not among the best ten.
    let [first, last] = ranking.strengths(1, 10);
    assert_eq!(
        (names(&first), names(&last)),
        (vec!["branch".to_owned()], vec!["fifo".to_owned()])
    );
}

#[test]
fn moves_are_ranks_that_changed_by_more_than_the_steps() {
    let before = Ranking::of(&three(), None).expect("three platforms");
    let mut later = three();
    for one in &mut later {
        if one.test == "fifo" && one.platform == "a" {
            one.runs = vec![1.0, 1.0, 1.0];
        }
    }
    let after = Ranking::of(&later, None).expect("three platforms");
    let moved = after.moved(&before, "a", 1);
    assert_eq!(moved.len(), 1);
    assert_eq!(
        (
            moved[0].test.as_str(),
            moved[0].before.rank,
            moved[0].after.rank
        ),
        ("fifo", 1, 3)
    );
    assert_eq!(after.moved(&before, "a", 2), []);
    assert_eq!(after.moved(&before, "nobody", 0), []);
}

/// b is ahead of a by the mean z-score while d spreads the first test, and behind without it; by geometric means it never is.
#[test]
fn z_scores_depend_on_the_company_and_geometric_means_do_not() {
    let mut all = Vec::new();
    for (platform, x, y) in [
        ("a", 1.0, 1.1),
        ("b", 2.0, 0.9),
        ("c", 1.5, 1.0),
        ("d", 1.6, 100.0),
    ] {
        all.push(one("x", &[], platform, &[x]));
        all.push(one("y", &[], platform, &[y]));
    }
    let ranking = Ranking::of(&all, None).expect("four platforms");
    let left = left_out::each(&all, &ranking).expect("three are left");
    assert_eq!(left.len(), 4);
    assert_eq!((left[3].platform.as_str(), left[3].tests), ("d", 2));
    assert!(!left[3].swapped_by_z.is_empty(), "{left:?}");
    assert!(
        left.iter().all(|one| one.swapped_by_geometric.is_empty()),
        "{left:?}"
    );
}

#[test]
fn what_cannot_be_ranked_is_refused_by_name() {
    let refused = |all: &[Measurement], reference| {
        Ranking::of(all, reference)
            .expect_err("refused")
            .to_string()
    };
    assert_eq!(
        refused(&three()[..1], None),
        "a ranking needs tests of two platforms at least"
    );
    assert_eq!(
        refused(&three(), Some("d")),
        "no test is of the reference platform d"
    );
    let zero = [one("x", &[], "a", &[0.0]), one("x", &[], "b", &[1.0])];
    assert_eq!(
        refused(&zero, None),
        "x on a has a run that is no positive number"
    );
    let twice = [
        one("x", &[], "a", &[1.0]),
        one("x", &[], "b", &[1.0]),
        one("x", &[], "a", &[2.0]),
    ];
    assert_eq!(refused(&twice, None), "x is there twice for a");
}

proptest! {
    /// A test in other units, or another reference, changes no rank; and a rank lies in its interval.
    #[test]
    fn units_and_references_change_no_rank(
        values in prop::collection::vec(prop::collection::vec(prop::collection::vec(0.5..2.0, 3), 4), 2..7),
        unit in 1e-6..1e6,
    ) {
        let build = |unit: f64| {
            let mut all = Vec::new();
            for (test, platforms) in values.iter().enumerate() {
                for (platform, runs) in platforms.iter().enumerate() {
                    let runs: Vec<f64> = runs.iter().map(|run: &f64| run * if test == 0 { unit } else { 1.0 }).collect();
                    all.push(one(&format!("t{test}"), &["CLASS"], &format!("p{platform}"), &runs));
                }
            }
            all
        };
        let plain = Ranking::of(&build(1.0), None).expect("four platforms");
        let scaled = Ranking::of(&build(unit), Some("p2")).expect("four platforms");
        for (plain, scaled) in plain.tests.iter().zip(&scaled.tests) {
            for (plain, scaled) in plain.places.iter().flatten().zip(scaled.places.iter().flatten()) {
                prop_assert_eq!(plain.rank, scaled.rank);
                prop_assert!(plain.rank.best <= plain.rank.rank && plain.rank.rank <= plain.rank.worst);
            }
        }
        for (plain, scaled) in plain.classes.iter().zip(&scaled.classes) {
            for (plain, scaled) in plain.standings.iter().zip(&scaled.standings) {
                prop_assert_eq!(plain.rank, scaled.rank);
            }
        }
    }
}
