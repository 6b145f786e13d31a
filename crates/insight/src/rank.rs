//! What platforms are good at: the method of Liu et al. (*Performance Characteristics of the BlueField-2 SmartNIC*, section III), and what it lacks.
//!
//! They give each stressor a rank by the mean of its runs, a z-score among platforms, and a ratio to a reference platform; these are
//! kept, as they were computed. Beside them stand
//!
//! * ranks with ties: a platform is ahead of another only where an interval says so (Welch's, of the logarithms of the runs);
//! * geometric means of the ratios: they do not depend on the reference, and no single test decides them;
//! * the order without each platform in turn: z-scores, which measure a platform by the others, change with the company it is in.
//!
//! A larger value is a better one everywhere; who has times gives their inverse.

pub mod left_out;
mod student;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use student::Difference;

/// The probability that one of a platform's intervals against all others misses.
pub const MISS_MAX: f64 = 0.05;

/// The runs of one test on one platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The test's name.
    pub test: String,
    /// The classes of work that it belongs to.
    pub classes: Vec<String>,
    /// The platform's name.
    pub platform: String,
    /// The value of each run; more is better.
    pub runs: Vec<f64>,
}

/// The reason why there is no ranking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRanking {
    /// Fewer than two platforms were measured.
    OnePlatform,
    /// No measurement is of the platform that ratios should be held against.
    NoReference {
        /// The name that was asked for.
        name: String,
    },
    /// A run is no positive number.
    NotPositive {
        /// The test.
        test: String,
        /// The platform.
        platform: String,
    },
    /// One platform has a test twice.
    Twice {
        /// The test.
        test: String,
        /// The platform.
        platform: String,
    },
}

impl fmt::Display for NoRanking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnePlatform => f.write_str("a ranking needs tests of two platforms at least"),
            Self::NoReference { name } => write!(f, "no test is of the reference platform {name}"),
            Self::NotPositive { test, platform } => {
                write!(
                    f,
                    "{test} on {platform} has a run that is no positive number"
                )
            }
            Self::Twice { test, platform } => write!(f, "{test} is there twice for {platform}"),
        }
    }
}

impl std::error::Error for NoRanking {}

/// A rank, and the ranks that the intervals leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rank {
    /// The rank by the value alone, from 1; equal values share one.
    pub rank: usize,
    /// The rank if all platforms that are not surely ahead are behind.
    pub best: usize,
    /// The rank if all that are not surely behind are ahead.
    pub worst: usize,
}

impl fmt::Display for Rank {
    /// `3`, or `3 (2-5)` where it is not sure.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.best == self.worst {
            true => write!(f, "{}", self.rank),
            false => write!(f, "{} ({}-{})", self.rank, self.best, self.worst),
        }
    }
}

/// One test on one platform.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    /// The mean of the runs.
    pub mean: f64,
    /// The number of runs.
    pub runs: usize,
    /// The distance from the mean of all platforms' means, in their standard deviations (n − 1). `None` of one platform, or of equal ones.
    pub z_score: Option<f64>,
    /// The mean over that of the reference platform, if it has the test.
    pub ratio: Option<f64>,
    /// The rank among the platforms that have the test.
    pub rank: Rank,
}

/// One test on all platforms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// Its classes.
    pub classes: Vec<String>,
    /// By platform; `None` where it was not measured.
    pub places: Vec<Option<Place>>,
}

impl Test {
    /// True if every platform has it: only such tests can be averaged over.
    pub fn is_complete(&self) -> bool {
        self.places.iter().all(Option::is_some)
    }
}

/// A platform over all tests of a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// The mean of the z-scores, and their standard deviation.
    pub z_score: (f64, f64),
    /// The mean of the ratios to the reference, and their standard deviation: the paper's figure 9.
    pub ratio: (f64, f64),
    /// The geometric mean of the ratios.
    pub geometric: f64,
    /// Its 95 % interval over tests, as if they were drawn from many (Student's, of the logarithms).
    pub geometric_interval: Option<(f64, f64)>,
    /// The rank by the geometric mean. A platform is ahead of another where the interval of the mean difference of their logarithms, test by test, says so.
    pub rank: Rank,
    /// The rank by the mean z-score, as published.
    pub rank_by_z: usize,
}

/// The platforms over the tests of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Class {
    /// Its name; `None` for all tests.
    pub name: Option<String>,
    /// The number of tests that all platforms have.
    pub tests: usize,
    /// By platform.
    pub standings: Vec<Standing>,
}

/// Platforms, ranked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// The platforms, by name.
    pub platforms: Vec<String>,
    /// The number of the one that ratios are held against.
    pub reference: usize,
    /// The tests, by name.
    pub tests: Vec<Test>,
    /// All tests as one class, then each class by its name; none if no test is on all platforms.
    pub classes: Vec<Class>,
}

/// The runs of each test by platform, and its classes.
type Tests<'a> = BTreeMap<&'a str, (BTreeSet<&'a str>, Vec<Option<&'a [f64]>>)>;

impl Ranking {
    /// The ranking of all measurements; ratios are held against the platform `reference`, or against the first by name.
    ///
    /// # Errors
    /// If there is nothing to rank, or a measurement is none.
    pub fn of(measurements: &[Measurement], reference: Option<&str>) -> Result<Self, NoRanking> {
        let platforms: BTreeSet<&str> = measurements
            .iter()
            .map(|one| one.platform.as_str())
            .collect();
        let platforms: Vec<&str> = platforms.into_iter().collect();
        if platforms.len() < 2 {
            return Err(NoRanking::OnePlatform);
        }
        let reference = reference
            .map_or(Some(0), |name| {
                platforms.iter().position(|own| *own == name)
            })
            .ok_or_else(|| NoRanking::NoReference {
                name: reference.unwrap_or_default().to_owned(),
            })?;
        let tests = by_test(measurements, &platforms)?;
        let tests: Vec<Test> = tests
            .into_iter()
            .map(|(name, (classes, runs))| Test {
                name: name.to_owned(),
                classes: classes.into_iter().map(str::to_owned).collect(),
                places: places(&runs, reference),
            })
            .collect();
        Ok(Self {
            platforms: platforms.into_iter().map(str::to_owned).collect(),
            reference,
            classes: classes(&tests),
            tests,
        })
    }

    /// The platform's number.
    pub fn platform(&self, name: &str) -> Option<usize> {
        self.platforms.iter().position(|own| own == name)
    }

    /// The tests that all platforms have.
    pub fn complete(&self) -> impl Iterator<Item = &Test> {
        self.tests.iter().filter(|test| test.is_complete())
    }

    /// The tests in which a platform's rank is `best` or better, by rank and name, and those in which it is last: the paper's table III. Only tests count
    /// that all platforms have. Where few platforms make a test both, it is with the first.
    pub fn strengths(&self, platform: usize, best: usize) -> [Vec<(&Test, Rank)>; 2] {
        let ranked = self
            .complete()
            .filter_map(|test| Some((test, test.places[platform].as_ref()?.rank)));
        let mut ranked: Vec<(&Test, Rank)> = ranked.collect();
        ranked.sort_by_key(|(_, rank)| rank.rank);
        let last = self.platforms.len();
        let is_first = |(_, rank): &(&Test, Rank)| rank.rank <= best && rank.rank < last;
        let (first, others) = ranked.into_iter().partition::<Vec<_>, _>(is_first);
        let last = others.into_iter().filter(|(_, rank)| rank.rank == last);
        [first, last.collect()]
    }

    /// The tests in which a platform's rank differs from that in `before` by more than `steps`: the paper's table IV. Only tests count that all platforms have
    /// in both.
    pub fn moved(&self, before: &Self, platform: &str, steps: usize) -> Vec<Move> {
        let (Some(here), Some(there)) = (self.platform(platform), before.platform(platform)) else {
            return Vec::new();
        };
        let known: BTreeMap<&str, &Test> = before
            .complete()
            .map(|test| (test.name.as_str(), test))
            .collect();
        let moves = self.complete().filter_map(|test| {
            let after = test.places[here].as_ref()?.rank;
            let before = known.get(test.name.as_str())?.places[there].as_ref()?.rank;
            let is_far = after.rank.abs_diff(before.rank) > steps;
            is_far.then(|| Move {
                test: test.name.clone(),
                classes: test.classes.clone(),
                before,
                after,
            })
        });
        moves.collect()
    }
}

/// A test in which a platform's rank changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// The test.
    pub test: String,
    /// Its classes.
    pub classes: Vec<String>,
    /// The rank in the first ranking.
    pub before: Rank,
    /// The rank in the second one.
    pub after: Rank,
}

fn by_test<'a>(
    measurements: &'a [Measurement],
    platforms: &[&str],
) -> Result<Tests<'a>, NoRanking> {
    let mut tests: Tests<'a> = BTreeMap::new();
    for one in measurements {
        let named = || (one.test.clone(), one.platform.clone());
        let is_positive = |run: &f64| run.is_finite() && *run > 0.0;
        if one.runs.is_empty() || !one.runs.iter().all(is_positive) {
            let (test, platform) = named();
            return Err(NoRanking::NotPositive { test, platform });
        }
        let (classes, runs) = tests
            .entry(&one.test)
            .or_insert_with(|| (BTreeSet::new(), vec![None; platforms.len()]));
        classes.extend(one.classes.iter().map(String::as_str));
        // The list has every platform of the measurements.
        let at = platforms
            .iter()
            .position(|own| *own == one.platform)
            .unwrap_or_default();
        if runs[at].replace(&one.runs).is_some() {
            let (test, platform) = named();
            return Err(NoRanking::Twice { test, platform });
        }
    }
    Ok(tests)
}

fn places(runs: &[Option<&[f64]>], reference: usize) -> Vec<Option<Place>> {
    let means: Vec<Option<f64>> = runs.iter().map(|runs| runs.map(mean)).collect();
    let known: Vec<f64> = means.iter().flatten().copied().collect();
    let spread = Spread::of(&known);
    let logarithms: Vec<Option<Vec<f64>>> = runs
        .iter()
        .map(|runs| runs.map(|runs| runs.iter().map(|run| run.ln()).collect()))
        .collect();
    let miss = MISS_MAX / known.len().saturating_sub(1).max(1) as f64;
    let between = |one: usize, other: usize| {
        let (one, other) = (logarithms[one].as_ref()?, logarithms[other].as_ref()?);
        Difference::between(one, other)
    };
    let ranks = ranks(&means, miss, between);
    let place = |at: usize| {
        let mean = means[at]?;
        Some(Place {
            mean,
            runs: runs[at]?.len(),
            z_score: spread
                .deviation
                .map(|deviation| (mean - spread.mean) / deviation),
            ratio: means[reference].map(|reference| mean / reference),
            rank: ranks[at]?,
        })
    };
    (0..runs.len()).map(place).collect()
}

/// The rank of each value, the largest first. `between(i, j)` is j's lead over i; one that chance gives with a probability of `miss` or more is none.
fn ranks(
    values: &[Option<f64>],
    miss: f64,
    between: impl Fn(usize, usize) -> Option<Difference>,
) -> Vec<Option<Rank>> {
    let count = values.len();
    let (mut ahead, mut behind) = (vec![0; count], vec![0; count]);
    for other in 0..count {
        for one in 0..other {
            match between(one, other).filter(|lead| lead.p_value < miss) {
                Some(lead) if lead.mean > 0.0 => {
                    (ahead[one], behind[other]) = (ahead[one] + 1, behind[other] + 1)
                }
                Some(_) => (behind[one], ahead[other]) = (behind[one] + 1, ahead[other] + 1),
                None => {}
            }
        }
    }
    let known = values.iter().flatten().count();
    let rank = |at: usize| {
        let own = values[at]?;
        let larger = values
            .iter()
            .flatten()
            .filter(|value| **value > own)
            .count();
        let rank = 1 + larger;
        Some(Rank {
            rank,
            // Means and means of logarithms may differ in order where runs spread widely.
            best: rank.min(1 + ahead[at]),
            worst: rank.max(known - behind[at]),
        })
    };
    (0..count).map(rank).collect()
}

/// All tests, then each class.
fn classes(tests: &[Test]) -> Vec<Class> {
    let complete: Vec<&Test> = tests.iter().filter(|test| test.is_complete()).collect();
    if complete.is_empty() {
        return Vec::new();
    }
    let names: BTreeSet<&String> = complete.iter().flat_map(|test| &test.classes).collect();
    let all = Class {
        name: None,
        tests: complete.len(),
        standings: standings(&complete),
    };
    let of_class = |name: &String| {
        let own: Vec<&Test> = complete
            .iter()
            .copied()
            .filter(|test| test.classes.contains(name))
            .collect();
        Class {
            name: Some(name.clone()),
            tests: own.len(),
            standings: standings(&own),
        }
    };
    std::iter::once(all)
        .chain(names.into_iter().map(of_class))
        .collect()
}

/// Of tests that all platforms have, one at least.
fn standings(tests: &[&Test]) -> Vec<Standing> {
    let platforms = tests.first().map_or(0, |test| test.places.len());
    let of = |at: usize, figure: fn(&Place) -> f64| -> Vec<f64> {
        tests
            .iter()
            .filter_map(|test| test.places[at].as_ref().map(figure))
            .collect()
    };
    // Complete tests have a ratio; equal platforms have no z-score, and none is ahead.
    let z_scores: Vec<Spread> = (0..platforms)
        .map(|at| Spread::of(&of(at, |place| place.z_score.unwrap_or(0.0))))
        .collect();
    let logarithms: Vec<Vec<f64>> = (0..platforms)
        .map(|at| of(at, |place| place.ratio.unwrap_or(1.0).ln()))
        .collect();
    let means: Vec<Option<f64>> = logarithms.iter().map(|all| Some(mean(all))).collect();
    let miss = MISS_MAX / platforms.saturating_sub(1).max(1) as f64;
    let ranks = ranks(&means, miss, |one, other| {
        let differences = logarithms[other]
            .iter()
            .zip(&logarithms[one])
            .map(|(other, one)| other - one);
        Difference::of_pairs(&differences.collect::<Vec<_>>())
    });
    let by_z: Vec<f64> = z_scores.iter().map(|spread| spread.mean).collect();
    let standing = |at: usize| {
        let ratios = Spread::of(&of(at, |place| place.ratio.unwrap_or(1.0)));
        let interval = student::of_mean(&logarithms[at], MISS_MAX);
        Some(Standing {
            z_score: z_scores[at].pair(),
            ratio: ratios.pair(),
            geometric: means[at]?.exp(),
            geometric_interval: interval.map(|(low, high)| (low.exp(), high.exp())),
            rank: ranks[at]?,
            rank_by_z: 1 + by_z.iter().filter(|z| **z > by_z[at]).count(),
        })
    };
    (0..platforms).filter_map(standing).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A mean, and the standard deviation (n − 1) if it is more than zero.
struct Spread {
    mean: f64,
    deviation: Option<f64>,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let mean = mean(values);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (values.len() as f64 - 1.0)).sqrt();
        Self {
            mean,
            deviation: Some(deviation).filter(|deviation| *deviation > 0.0),
        }
    }

    fn pair(&self) -> (f64, f64) {
        (self.mean, self.deviation.unwrap_or(0.0))
    }
}

#[cfg(test)]
mod tests;
