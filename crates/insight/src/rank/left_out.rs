//! The order of platforms without each of them in turn.
//!
//! A z-score measures a platform by the mean and the spread of all. One that is far ahead makes the others' differences small, in some tests and not in others, so
//! leaving it out can change who of two others is ahead by the mean z-score. The order by geometric means of the same tests cannot change so; it changes where the
//! platform that is left out was the one without some tests, as these then count.

use serde::Serialize;

use super::{Measurement, NoRanking, Ranking};

/// The order without one platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The platform that was left out.
    pub platform: String,
    /// The number of tests that all others have.
    pub tests: usize,
    /// The pairs of others whose order by the mean z-score is another one then.
    pub swapped_by_z: Vec<(String, String)>,
    /// The pairs whose order by the geometric mean is another one.
    pub swapped_by_geometric: Vec<(String, String)>,
}

/// The order without each platform of the ranking, which is the one of `measurements`. Of two platforms nothing is left to order.
///
/// # Errors
/// If the measurements give no ranking.
pub fn each(measurements: &[Measurement], ranking: &Ranking) -> Result<Vec<LeftOut>, NoRanking> {
    if ranking.platforms.len() < 3 {
        return Ok(Vec::new());
    }
    let without = |platform: &String| {
        let others = measurements.iter().filter(|one| one.platform != *platform);
        let others: Vec<Measurement> = others.cloned().collect();
        let fewer = Ranking::of(&others, None)?;
        Ok(LeftOut {
            platform: platform.clone(),
            tests: fewer.classes.first().map_or(0, |all| all.tests),
            swapped_by_z: swapped(ranking, &fewer, |standing| standing.z_score.0),
            swapped_by_geometric: swapped(ranking, &fewer, |standing| standing.geometric),
        })
    };
    ranking.platforms.iter().map(without).collect()
}

/// The pairs that are in another order in `fewer` than in `all`, by this figure over all tests.
fn swapped(
    all: &Ranking,
    fewer: &Ranking,
    figure: fn(&super::Standing) -> f64,
) -> Vec<(String, String)> {
    let figures = |ranking: &Ranking| -> Option<Vec<(String, f64)>> {
        let standings = ranking.classes.first()?.standings.iter();
        Some(
            ranking
                .platforms
                .iter()
                .cloned()
                .zip(standings.map(figure))
                .collect(),
        )
    };
    let (Some(all), Some(fewer)) = (figures(all), figures(fewer)) else {
        return Vec::new();
    };
    let before = |name: &str| {
        all.iter()
            .find(|(own, _)| own == name)
            .map(|(_, figure)| *figure)
    };
    let mut pairs = Vec::new();
    for (at, (one, now_one)) in fewer.iter().enumerate() {
        for (other, now_other) in &fewer[at + 1..] {
            let (Some(was_one), Some(was_other)) = (before(one), before(other)) else {
                continue;
            };
            if (was_one > was_other) != (now_one > now_other) {
                pairs.push((one.clone(), other.clone()));
            }
        }
    }
    pairs
}
