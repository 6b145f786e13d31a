//! Horn's parallel analysis: how large eigenvalues are where nothing varies together (Horn 1965).
//!
//! Random figures, as many rows and columns as there are, have eigenvalues above 1 too, the more the fewer rows: a component counts if its
//! eigenvalue is above the 95th percentile of those by chance (Glorfeld 1995), and so were all before it.

use dpb_core::random::SplitMix64;

use super::{correlation, principal, quantile, standardized};

/// The share of random eigenvalues that a component's must exceed.
const PERCENTILE: f64 = 0.95;

/// The eigenvalues of random rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Chance {
    /// By component, the mean over all draws.
    pub mean: Vec<f64>,
    /// By component, the 95th percentile.
    pub p95: Vec<f64>,
}

impl Chance {
    /// The eigenvalues of `draws` tables of this shape, of independent normal figures from `seed`.
    ///
    /// # Panics
    /// If there are fewer than two rows, no column or no draw.
    pub fn of(rows: usize, columns: usize, draws: usize, seed: u64) -> Self {
        assert!(rows >= 2 && columns >= 1 && draws >= 1, "an empty table");
        let mut random = SplitMix64::new(seed);
        let mut by_component = vec![Vec::with_capacity(draws); columns];
        for _ in 0..draws {
            let row = |random: &mut SplitMix64| (0..columns).map(|_| normal(random)).collect();
            let table: Vec<Vec<f64>> = (0..rows).map(|_| row(&mut random)).collect();
            let (eigenvalues, _) = principal(&correlation(&standardized(&table)));
            for (all, value) in by_component.iter_mut().zip(eigenvalues) {
                all.push(value);
            }
        }
        let mut chance = Self {
            mean: Vec::new(),
            p95: Vec::new(),
        };
        for mut all in by_component {
            all.sort_by(f64::total_cmp);
            chance.mean.push(all.iter().sum::<f64>() / draws as f64);
            chance.p95.push(quantile(&all, PERCENTILE));
        }
        chance
    }

    /// The number of components, from the first on, whose eigenvalues are more than chance.
    pub fn retained(&self, eigenvalues: &[f64]) -> usize {
        let pairs = eigenvalues.iter().zip(&self.p95);
        pairs.take_while(|(value, chance)| value > chance).count()
    }
}

/// Normally distributed, mean 0, deviation 1 (Box and Muller).
fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * random.unit().ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}
