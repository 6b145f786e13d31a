//! How far loadings and shares of variance depend on which rows there happen to be: a bootstrap over rows.
//!
//! Rows are drawn with replacement, and their components found again. A drawn component is matched with that of all rows which it is most parallel to, and
//! turned to its side, as order and sign have no meaning (Milan and Whittaker 1995). Intervals are of percentiles: few rows make them too narrow, so
//! they are a lower bound on the doubt.

use dpb_core::random::SplitMix64;

use super::{
    Components, Observations, correlation, dot, principal, quantile, shares, standardized,
};

/// Intervals that hold 95 % of the bootstrap's draws, ends inclusive.
#[derive(Clone, Debug, PartialEq)]
pub struct Intervals {
    /// By component, of its share of all variance.
    pub shares: Vec<(f64, f64)>,
    /// By component and column, of its loadings.
    pub loadings: Vec<Vec<(f64, f64)>>,
    /// The number of draws.
    pub draws: usize,
}

impl Intervals {
    /// The intervals of `components`, which are those of `observations`, from `draws` draws of rows.
    ///
    /// # Panics
    /// If there is no draw.
    pub fn of(
        observations: &Observations,
        components: &Components,
        draws: usize,
        seed: u64,
    ) -> Self {
        assert!(draws >= 1, "no draw");
        let varying = observations.kept(|name| components.columns.iter().any(|own| own == name));
        let rows = varying.rows();
        let columns = components.columns.len();
        let mut random = SplitMix64::new(seed);
        let mut all_shares = vec![Vec::with_capacity(draws); columns];
        let mut all_loadings = vec![vec![Vec::with_capacity(draws); columns]; columns];
        for _ in 0..draws {
            let drawn: Vec<Vec<f64>> = (0..rows.len())
                .map(|_| rows[random.below(rows.len())].clone())
                .collect();
            let (eigenvalues, axes) = principal(&correlation(&standardized(&drawn)));
            // A row drawn again and again has no spread, and no shares.
            if eigenvalues.iter().sum::<f64>() <= 0.0 {
                continue;
            }
            for (all, share) in all_shares.iter_mut().zip(shares(&eigenvalues)) {
                all.push(share);
            }
            for (axis, all) in matched(&components.loadings, axes)
                .into_iter()
                .zip(&mut all_loadings)
            {
                for (all, loading) in all.iter_mut().zip(axis) {
                    all.push(loading);
                }
            }
        }
        let middle = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            match all.is_empty() {
                true => (f64::NAN, f64::NAN),
                false => (quantile(&all, 0.025), quantile(&all, 0.975)),
            }
        };
        Self {
            draws: all_shares.first().map_or(0, Vec::len),
            shares: all_shares.into_iter().map(middle).collect(),
            loadings: all_loadings
                .into_iter()
                .map(|all| all.into_iter().map(middle).collect())
                .collect(),
        }
    }
}

/// The drawn axes in the order of the `known` ones: the most parallel pair first, then the most parallel of what is left.
fn matched(known: &[Vec<f64>], drawn: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for (at, axis) in known.iter().enumerate() {
        for (from, other) in drawn.iter().enumerate() {
            pairs.push((dot(axis, other), at, from));
        }
    }
    pairs.sort_by(|(a, ..), (b, ..)| b.abs().total_cmp(&a.abs()));
    let mut places: Vec<Option<Vec<f64>>> = vec![None; known.len()];
    let mut taken = vec![false; drawn.len()];
    for (cosine, at, from) in pairs {
        if places[at].is_none() && !taken[from] {
            taken[from] = true;
            let side = if cosine < 0.0 { -1.0 } else { 1.0 };
            places[at] = Some(drawn[from].iter().map(|part| part * side).collect());
        }
    }
    places.into_iter().map(Option::unwrap_or_default).collect()
}
