//! Components against R and SciPy, hulls against brute force.

use proptest::prelude::*;

use super::bootstrap::Intervals;
use super::clusters::Dendrogram;
use super::coverage::Coverage;
use super::parallel::Chance;
use super::*;

fn iris() -> Observations {
    let rows = include_str!("testdata/iris.txt").lines();
    let rows = rows.filter(|line| !line.starts_with('#')).map(|line| {
        let words = line.split(' ').map(|word| word.parse().expect("a number"));
        words.collect::<Vec<f64>>()
    });
    let columns = ["sepal length", "sepal width", "petal length", "petal width"];
    let columns = columns.map(str::to_owned).to_vec();
    Observations::new(columns, rows.collect()).expect("whole rows")
}

fn assert_near(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!(
            (got - expected).abs() <= tolerance,
            "{got} is not {expected}"
        );
    }
}

/// R prints for `prcomp(iris[, 1:4], scale. = TRUE)` the deviations 1.7083611 0.9560494 0.3830886 0.1439265, and of PC1 the rotation 0.5210659 -0.2693474
/// 0.5804131 0.5648565. The digits beyond these are `numpy.linalg.eigh` of `numpy.corrcoef` (NumPy 2.4.6), with this module's signs.
#[test]
fn irises_have_the_published_components() {
    let found = Components::of(&iris()).expect("they vary");
    let deviations: Vec<f64> = found.eigenvalues.iter().map(|value| value.sqrt()).collect();
    assert_near(
        &deviations,
        &[1.7083611, 0.9560494, 0.3830886, 0.1439265],
        5e-8,
    );
    assert_near(
        &found.eigenvalues,
        &[
            2.918497816531996,
            0.9140304714680713,
            0.14675687557131506,
            0.02071483642861973,
        ],
        1e-12,
    );
    let loadings = [
        [
            0.5210659146701195,
            -0.26934744250594367,
            0.5804130957962945,
            0.5648565357793613,
        ],
        [
            0.3774176155645685,
            0.9232956595407145,
            0.02449160908558619,
            0.06694198696805806,
        ],
        [
            0.7195663527008164,
            -0.24438177951440027,
            -0.14212636933390396,
            -0.6342727371109224,
        ],
        [
            -0.26128627995245224,
            0.12350961958551901,
            0.801449246335988,
            -0.523597134566191,
        ],
    ];
    for (found, expected) in found.loadings.iter().zip(&loadings) {
        assert_near(found, expected, 1e-12);
    }
    let first = [
        -2.2571411756481212,
        0.478423832124897,
        0.12727962370642357,
        -0.02408750845872875,
    ];
    let last = [
        0.9574484884279922,
        -0.02425042698043037,
        -0.5264850330624447,
        0.16253352906363364,
    ];
    assert_near(&found.scores[0], &first, 1e-9);
    assert_near(&found.scores[149], &last, 1e-9);
    assert_near(&found.shares()[..1], &[0.7296244541329987], 1e-12);
    assert_eq!(found.kaiser(), 1);
}

#[test]
fn two_columns_have_one_plus_and_minus_their_correlation() {
    // By hand: the correlation of 1 2 3 4 with 1 3 2 4 is 0.8.
    let rows = [[1.0, 1.0], [2.0, 3.0], [3.0, 2.0], [4.0, 4.0]].map(|row| row.to_vec());
    let columns = ["a", "b"].map(str::to_owned).to_vec();
    let all = Observations::new(columns, rows.to_vec()).expect("whole rows");
    let found = Components::of(&all).expect("they vary");
    assert_near(&found.eigenvalues, &[1.8, 0.2], 1e-12);
    let half = 0.5_f64.sqrt();
    assert_near(&found.loadings[0], &[half, half], 1e-12);
    assert_near(&found.loadings[1], &[half, -half], 1e-12);
}

#[test]
fn what_has_no_components_is_refused_with_the_place() {
    let columns = || vec!["a".to_owned(), "b".to_owned()];
    let new = |rows: &[&[f64]]| {
        Observations::new(columns(), rows.iter().map(|row| row.to_vec()).collect())
    };
    assert_eq!(new(&[&[1.0]]), Err(NoComponents::Ragged { row: 0 }));
    let column = "b".to_owned();
    assert_eq!(
        new(&[&[1.0, 1.0], &[1.0, f64::NAN]]),
        Err(NoComponents::NotFinite { row: 1, column })
    );
    let few = new(&[&[1.0, 1.0], &[2.0, 3.0]]).expect("whole rows");
    assert_eq!(
        Components::of(&few),
        Err(NoComponents::TooFewRows { rows: 2 })
    );
    let flat = new(&[&[1.0, 0.1], &[2.0, 0.1], &[3.0, 0.1]]).expect("whole rows");
    assert_eq!(Components::of(&flat), Err(NoComponents::TooFewColumns));
}

#[test]
fn a_constant_column_is_named_and_changes_nothing() {
    let all = iris();
    let mut columns = all.columns().to_vec();
    columns.push("same".to_owned());
    let rows = all
        .rows()
        .iter()
        .map(|row| [row.as_slice(), &[0.1]].concat());
    let more = Observations::new(columns, rows.collect()).expect("whole rows");
    let (found, more) = (
        Components::of(&all).expect("they vary"),
        Components::of(&more).expect("they vary"),
    );
    assert_eq!(more.constant, ["same"]);
    assert_eq!(
        (found.loadings, found.eigenvalues),
        (more.loadings, more.eigenvalues)
    );
}

#[test]
fn logarithms_are_taken_of_named_columns_alone() {
    let columns = vec!["misses".to_owned(), "share".to_owned()];
    let all = Observations::new(columns, vec![vec![0.0, 0.5], vec![1.0, 0.5]]).expect("whole rows");
    let all = all.with_logarithms(|name| name == "misses");
    assert_eq!(all.rows(), [vec![0.0, 0.5], vec![2.0_f64.ln(), 0.5]]);
    assert_eq!(all.without("misses").rows(), [[0.5], [0.5]]);
}

/// Of 150 rows and 4 independent columns, the first eigenvalue by chance is about 1.2 (Horn's own table has 1.2 to 1.3 at such sizes); the irises' second
/// component is below what chance gives a second one, so one is retained.
#[test]
fn chance_has_eigenvalues_above_one_and_irises_one_component() {
    let chance = Chance::of(150, 4, 400, 1);
    assert!(chance.mean.is_sorted_by(|a, b| a > b), "{chance:?}");
    assert!((chance.mean.iter().sum::<f64>() - 4.0).abs() < 1e-9);
    assert!((1.1..1.3).contains(&chance.mean[0]), "{chance:?}");
    assert!(chance.p95[0] > chance.mean[0]);
    let found = Components::of(&iris()).expect("they vary");
    assert_eq!(chance.retained(&found.eigenvalues), 1);
    // What is itself chance retains nothing, nearly always.
    assert_eq!(chance.retained(&chance.mean), 0);
    // Fewer rows, larger eigenvalues: 22 rows of 7 columns have 57 % in four components by chance alone, and more.
    let few = Chance::of(22, 7, 400, 2);
    assert!(few.mean[..4].iter().sum::<f64>() / 7.0 > 0.57, "{few:?}");
}

#[test]
fn a_bootstrap_interval_is_about_as_wide_as_theory_says() {
    let all = iris();
    let found = Components::of(&all).expect("they vary");
    let intervals = Intervals::of(&all, &found, 500, 7);
    assert_eq!(intervals.draws, 500);
    let (low, high) = intervals.shares[0];
    assert!(low < 0.7296 && 0.7296 < high, "{low} {high}");
    // An eigenvalue's standard error is about l·√(2/n) for normal rows (Anderson 1963): 0.084 of its share, less as it is bounded by the columns.
    assert!((0.02..0.2).contains(&(high - low)), "{low} {high}");
    for (component, bounds) in found.loadings.iter().zip(&intervals.loadings) {
        for (loading, (low, high)) in component.iter().zip(bounds) {
            assert!(
                low - 0.05 <= *loading && *loading <= high + 0.05,
                "{low} {loading} {high}"
            );
        }
    }
    assert_eq!(
        intervals,
        Intervals::of(&all, &found, 500, 7),
        "a seed repeats it"
    );
}

/// `scipy.cluster.hierarchy.linkage(iris[::15], "ward")`, SciPy 1.17.1.
#[test]
fn irises_are_clustered_as_by_scipy() {
    let rows: Vec<Vec<f64>> = iris().rows().iter().step_by(15).cloned().collect();
    let tree = Dendrogram::of(&rows);
    let expected = [
        (2, 3, 0.24494897427831797, 2),
        (7, 9, 0.5477225575051662, 2),
        (0, 10, 0.6377042156569663, 3),
        (8, 11, 1.1747340124470722, 3),
        (5, 6, 1.1874342087037915, 2),
        (1, 12, 1.7785762095938806, 4),
        (4, 14, 1.8770544300401448, 3),
        (13, 16, 5.0129831437977135, 6),
        (15, 17, 9.277751164299818, 10),
    ];
    assert_eq!(tree.merges.len(), expected.len());
    for (merge, (left, right, distance, size)) in tree.merges.iter().zip(expected) {
        assert_eq!((merge.left, merge.right, merge.size), (left, right, size));
        assert!((merge.distance - distance).abs() < 1e-12, "{merge:?}");
    }
    assert_eq!(tree.order(), [1, 0, 2, 3, 8, 7, 9, 4, 5, 6]);
    // The first four rows are of one species.
    assert_eq!(tree.cut(2), [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
    assert_eq!(tree.cut(1), [0; 10]);
    assert_eq!(tree.cut(10).iter().max(), Some(&9));
    assert_eq!(Dendrogram::of(&[]).order(), [0; 0]);
    assert_eq!(Dendrogram::of(&[vec![1.0]]).order(), [0]);
}

/// In the hull if in some simplex of `d + 1` of the points (Carathéodory), by barycentric coordinates; `None` within rounding of a border.
fn by_brute_force(others: &[Vec<f64>], point: &[f64]) -> Option<bool> {
    let dimensions = point.len();
    let mut chosen: Vec<usize> = (0..=dimensions).collect();
    let mut is_inside = false;
    loop {
        if let Some(weights) = barycentric(others, &chosen, point) {
            let least = weights.iter().copied().fold(f64::INFINITY, f64::min);
            if least.abs() < 1e-6 {
                return None;
            }
            is_inside |= least > 0.0;
        }
        let moves = (0..=dimensions)
            .rev()
            .find(|&at| chosen[at] + dimensions + 1 - at < others.len());
        let Some(at) = moves else {
            return Some(is_inside);
        };
        chosen[at] += 1;
        for next in at + 1..=dimensions {
            chosen[next] = chosen[next - 1] + 1;
        }
    }
}

/// The weights of the chosen corners, by Gauss's elimination; `None` if they span too little.
fn barycentric(others: &[Vec<f64>], chosen: &[usize], point: &[f64]) -> Option<Vec<f64>> {
    let n = chosen.len();
    let coefficient = |row: usize, corner: &usize| {
        if row < point.len() {
            others[*corner][row]
        } else {
            1.0
        }
    };
    let mut rows: Vec<Vec<f64>> = (0..n)
        .map(|row| {
            let side = point.get(row).copied().unwrap_or(1.0);
            chosen
                .iter()
                .map(|corner| coefficient(row, corner))
                .chain([side])
                .collect()
        })
        .collect();
    for at in 0..n {
        let pivot = (at..n).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs()))?;
        rows.swap(at, pivot);
        if rows[at][at].abs() < 1e-6 {
            return None;
        }
        for other in (0..n).filter(|other| *other != at) {
            let factor = rows[other][at] / rows[at][at];
            let chosen = rows[at].clone();
            for (value, of_chosen) in rows[other].iter_mut().zip(chosen) {
                *value -= factor * of_chosen;
            }
        }
    }
    Some((0..n).map(|at| rows[at][n] / rows[at][at]).collect())
}

/// Points whose coordinates have steps of a half, so that many lie on lines and planes of others, and on each other.
fn points(
    dimensions: usize,
    count: impl Into<proptest::collection::SizeRange>,
) -> impl Strategy<Value = Vec<Vec<f64>>> {
    let coordinate = prop_oneof![(-6i32..6).prop_map(|step| f64::from(step) / 2.0), -3.0..3.0];
    prop::collection::vec(prop::collection::vec(coordinate, dimensions), count)
}

proptest! {
    #[test]
    fn a_hull_holds_what_a_simplex_of_its_points_holds(
        (others, point) in (2usize..5).prop_flat_map(|d| (points(d, d + 1..11), points(d, 1))),
    ) {
        if let Some(expected) = by_brute_force(&others, &point[0]) {
            prop_assert_eq!(hull::contains(&others, &point[0]), expected);
        }
    }

    #[test]
    fn a_mixture_lies_inside_and_what_is_past_a_point_does_not(
        others in (1usize..7).prop_flat_map(|d| points(d, 2..20)),
        weights in prop::collection::vec(0.001..1.0, 20),
    ) {
        let sum: f64 = weights[..others.len()].iter().sum();
        let mixture: Vec<f64> = (0..others[0].len())
            .map(|at| others.iter().zip(&weights).map(|(other, weight)| other[at] * weight / sum).sum())
            .collect();
        prop_assert!(hull::contains(&others, &mixture));
        for other in &others {
            prop_assert!(hull::contains(&others, other));
        }
        // Past the largest first coordinate nothing lies.
        let mut past = mixture;
        past[0] = others.iter().map(|other| other[0]).fold(f64::NEG_INFINITY, f64::max) + 1e-3;
        prop_assert!(!hull::contains(&others, &past));
    }

    #[test]
    fn eigenvectors_are_orthogonal_and_give_the_matrix_again(rows in points(5, 6..30)) {
        let matrix = correlation(&standardized(&rows));
        let (values, vectors) = principal(&matrix);
        for i in 0..5 {
            for j in 0..5 {
                let back: f64 = (0..5).map(|k| values[k] * vectors[k][i] * vectors[k][j]).sum();
                prop_assert!((back - matrix[i][j]).abs() < 1e-12);
                prop_assert!((dot(&vectors[i], &vectors[j]) - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
    }
}

#[test]
fn coverage_counts_points_among_others() {
    let square: Vec<Vec<f64>> = [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]]
        .map(|p| p.to_vec())
        .to_vec();
    let points: Vec<Vec<f64>> = [[1.0, 1.0], [4.0, 2.0], [5.0, 2.0], [9.0, 9.0]]
        .map(|p| p.to_vec())
        .to_vec();
    let coverage = Coverage::of(&square, &points, 99, 3).expect("two dimensions");
    assert_eq!((coverage.inside, coverage.points), (2, 4));
    assert_eq!(
        coverage
            .planes
            .iter()
            .map(|plane| plane.inside)
            .collect::<Vec<_>>(),
        [2]
    );
    assert_eq!(coverage.spacing, 4.0);
    assert_eq!(
        (coverage.nearest[2].at, coverage.nearest[2].is_inside),
        (1, false)
    );
    assert!((coverage.nearest[0].distance - 2.0_f64.sqrt()).abs() < 1e-12);
    assert_eq!(Coverage::of(&square, &[], 9, 0), None);
    assert_eq!(Coverage::of(&[vec![1.0]], &[vec![1.0]], 9, 0), None);
}

/// Under the hypothesis that both sets are alike, a p-value is below 5 % five times in a hundred at most; where they are apart, it is as small as deals allow.
#[test]
fn a_p_value_is_small_where_sets_are_apart_and_seldom_where_they_are_alike() {
    let mut random = dpb_core::random::SplitMix64::new(11);
    let mut cloud = |count: usize, shift: f64| -> Vec<Vec<f64>> {
        (0..count)
            .map(|_| vec![random.unit() + shift, random.unit()])
            .collect()
    };
    let (near, far) = (cloud(12, 0.0), cloud(8, 50.0));
    let apart = Coverage::of(&near, &far, 199, 5).expect("two dimensions");
    assert_eq!(apart.inside, 0);
    assert!(apart.p_value <= 0.05, "{apart:?}");
    let small = (0..100).filter(|&seed| {
        let (one, other) = (cloud(12, 0.0), cloud(8, 0.0));
        Coverage::of(&one, &other, 39, seed)
            .expect("two dimensions")
            .p_value
            <= 0.05
    });
    // Binomial with 5 %: above 12 of 100 with a probability of 0.1 %.
    let small = small.count();
    assert!(small <= 12, "{small}");
}
