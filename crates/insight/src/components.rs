//! Principal components of the correlation matrix: which figures vary together, and along how many directions the rows differ.
//!
//! Each column is made a z-score (mean 0, standard deviation 1 with n − 1), so a figure's unit has no weight. The components are the eigenvectors of the
//! correlation matrix, the largest eigenvalue first (Jolliffe, *Principal Component Analysis*, 2nd ed., 2.3). An eigenvector's sign has no meaning; here its
//! largest loading is positive, so that two runs over the same rows give the same picture.

pub mod bootstrap;
pub mod clusters;
pub mod coverage;
mod eigen;
pub mod hull;
pub mod parallel;

use std::fmt;

/// Two loadings this near to each other are alike when the sign is chosen.
const SIGN_TOLERANCE: f64 = 1e-9;
/// The share of a column's largest value below which its spread is rounding, and the column constant.
const CONSTANT_SHARE: f64 = 1e-12;

/// Rows of figures, each with a value for every column.
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    columns: Vec<String>,
    rows: Vec<Vec<f64>>,
}

/// The reason why rows have no components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoComponents {
    /// A row has more or fewer values than there are columns.
    Ragged {
        /// The row, counted from zero.
        row: usize,
    },
    /// A value is infinite or no number.
    NotFinite {
        /// The row, counted from zero.
        row: usize,
        /// The column's name.
        column: String,
    },
    /// There are fewer than three rows: two points lie on one line whatever they are.
    TooFewRows {
        /// The number of rows.
        rows: usize,
    },
    /// Fewer than two columns vary.
    TooFewColumns,
}

impl fmt::Display for NoComponents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ragged { row } => write!(f, "row {row} has not one value for each column"),
            Self::NotFinite { row, column } => {
                write!(f, "row {row} has no finite number in {column}")
            }
            Self::TooFewRows { rows } => {
                write!(f, "{rows} rows; components need three at least")
            }
            Self::TooFewColumns => f.write_str("fewer than two columns vary"),
        }
    }
}

impl std::error::Error for NoComponents {}

impl Observations {
    /// The rows under these columns.
    ///
    /// # Errors
    /// If a row has not one finite value for each column.
    pub fn new(columns: Vec<String>, rows: Vec<Vec<f64>>) -> Result<Self, NoComponents> {
        for (row, values) in rows.iter().enumerate() {
            if values.len() != columns.len() {
                return Err(NoComponents::Ragged { row });
            }
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                let column = columns[at].clone();
                return Err(NoComponents::NotFinite { row, column });
            }
        }
        Ok(Self { columns, rows })
    }

    /// The columns' names.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<f64>] {
        &self.rows
    }

    /// The same rows without a column: of shares that sum to one, each is what the others leave, so some correlation among them is arithmetic.
    #[must_use]
    pub fn without(&self, column: &str) -> Self {
        self.kept(|name| name != column)
    }

    /// The same rows, with ln(1 + value) in the columns that `is_skewed` names: rates of misses spread over decades and have zeros.
    #[must_use]
    pub fn with_logarithms(mut self, is_skewed: impl Fn(&str) -> bool) -> Self {
        for row in &mut self.rows {
            for (name, value) in self.columns.iter().zip(row) {
                if is_skewed(name) {
                    *value = value.max(0.0).ln_1p();
                }
            }
        }
        self
    }

    fn kept(&self, is_kept: impl Fn(&str) -> bool) -> Self {
        let keep: Vec<bool> = self.columns.iter().map(|name| is_kept(name)).collect();
        let columns = self.columns.iter().zip(&keep).filter(|(_, keep)| **keep);
        let rows = self.rows.iter().map(|row| {
            let values = row.iter().zip(&keep).filter(|(_, keep)| **keep);
            values.map(|(value, _)| *value).collect()
        });
        Self {
            columns: columns.map(|(name, _)| name.clone()).collect(),
            rows: rows.collect(),
        }
    }
}

/// The principal components of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Components {
    /// The columns that vary, in their order.
    pub columns: Vec<String>,
    /// Columns that are the same in all rows: they say nothing of a difference, and have no z-score.
    pub constant: Vec<String>,
    /// The eigenvalues of the correlation matrix, the largest first. They sum to the number of columns.
    pub eigenvalues: Vec<f64>,
    /// Each component's loadings, one a column: an eigenvector of length 1.
    pub loadings: Vec<Vec<f64>>,
    /// Each row's place, one coordinate a component.
    pub scores: Vec<Vec<f64>>,
}

impl Components {
    /// The components of all rows.
    ///
    /// # Errors
    /// If there are fewer than three rows, or fewer than two columns vary.
    pub fn of(observations: &Observations) -> Result<Self, NoComponents> {
        let rows = observations.rows.len();
        if rows < 3 {
            return Err(NoComponents::TooFewRows { rows });
        }
        let moments = Moments::of(&observations.rows);
        let named = observations.columns.iter().zip(&moments.deviations);
        let (constant, columns): (Vec<_>, Vec<_>) =
            named.partition(|(_, deviation)| **deviation == 0.0);
        let names = |list: Vec<(&String, &f64)>| -> Vec<String> {
            list.into_iter().map(|(name, _)| name.clone()).collect()
        };
        let (constant, columns) = (names(constant), names(columns));
        if columns.len() < 2 {
            return Err(NoComponents::TooFewColumns);
        }
        let varying = observations.kept(|name| columns.iter().any(|column| column == name));
        let standard = standardized(&varying.rows);
        let (eigenvalues, loadings) = principal(&correlation(&standard));
        let score = |row: &Vec<f64>| loadings.iter().map(|axis| dot(axis, row)).collect();
        let scores = standard.iter().map(score).collect();
        Ok(Self {
            columns,
            constant,
            eigenvalues,
            loadings,
            scores,
        })
    }

    /// The share of all variance that each component has.
    pub fn shares(&self) -> Vec<f64> {
        shares(&self.eigenvalues)
    }

    /// The number of components with an eigenvalue of at least 1: each carries as much as a column by itself (Kaiser 1960).
    pub fn kaiser(&self) -> usize {
        self.eigenvalues
            .iter()
            .filter(|&&value| value >= 1.0)
            .count()
    }

    /// Each row's place along the first `dimensions` components.
    pub fn places(&self, dimensions: usize) -> Vec<Vec<f64>> {
        let first = |row: &Vec<f64>| row.iter().take(dimensions).copied().collect();
        self.scores.iter().map(first).collect()
    }
}

/// Mean and standard deviation (n − 1) of each column; a deviation that is rounding is zero.
struct Moments {
    means: Vec<f64>,
    deviations: Vec<f64>,
}

impl Moments {
    fn of(rows: &[Vec<f64>]) -> Self {
        let columns = rows.first().map_or(0, Vec::len);
        let n = rows.len() as f64;
        let mean = |at: usize| rows.iter().map(|row| row[at]).sum::<f64>() / n;
        let means: Vec<f64> = (0..columns).map(mean).collect();
        let deviation = |at: usize| {
            let squares: f64 = rows.iter().map(|row| (row[at] - means[at]).powi(2)).sum();
            let deviation = (squares / (n - 1.0)).sqrt();
            let largest = rows
                .iter()
                .fold(0.0, |most: f64, row| most.max(row[at].abs()));
            match deviation <= largest * CONSTANT_SHARE {
                true => 0.0,
                false => deviation,
            }
        };
        let deviations = (0..columns).map(deviation).collect();
        Self { means, deviations }
    }
}

/// The rows as z-scores; a constant column is zero.
fn standardized(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let moments = Moments::of(rows);
    let standard = |row: &Vec<f64>| {
        let scales = moments.means.iter().zip(&moments.deviations);
        let values = row.iter().zip(scales);
        let score = |(value, (mean, deviation)): (&f64, (&f64, &f64))| match *deviation == 0.0 {
            true => 0.0,
            false => (value - mean) / deviation,
        };
        values.map(score).collect()
    };
    rows.iter().map(standard).collect()
}

/// The correlation matrix of z-scores.
fn correlation(standard: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let columns = standard.first().map_or(0, Vec::len);
    let n = standard.len() as f64;
    let cell = |i: usize, j: usize| {
        let products = standard.iter().map(|row| row[i] * row[j]);
        products.sum::<f64>() / (n - 1.0)
    };
    let row = |i| (0..columns).map(|j| cell(i, j)).collect();
    (0..columns).map(row).collect()
}

/// Eigenvalues, the largest first, and their eigenvectors with fixed signs.
fn principal(correlation: &[Vec<f64>]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let mut pairs = eigen::symmetric(correlation);
    pairs.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let signed = pairs
        .into_iter()
        .map(|(value, vector)| (value, with_sign(vector)));
    signed.unzip()
}

/// The vector or its opposite: the first of its largest parts is positive.
fn with_sign(vector: Vec<f64>) -> Vec<f64> {
    let largest = vector
        .iter()
        .fold(0.0, |most: f64, part| most.max(part.abs()));
    let leading = vector
        .iter()
        .find(|part| part.abs() >= largest - SIGN_TOLERANCE);
    match leading.is_some_and(|part| *part < 0.0) {
        true => vector.into_iter().map(|part| -part).collect(),
        false => vector,
    }
}

fn shares(eigenvalues: &[f64]) -> Vec<f64> {
    let sum: f64 = eigenvalues.iter().sum();
    eigenvalues.iter().map(|value| value / sum).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The value below which this share of sorted values lies, between two by their distance (Hyndman and Fan's type 7, as R's default).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

#[cfg(test)]
mod tests;
