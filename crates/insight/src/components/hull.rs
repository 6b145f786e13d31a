//! Membership of a point in the convex hull of others, in any number of dimensions: a mixture of them.
//!
//! It does if there are weights, none negative and one in sum, with which the others' mean is the point. That is a linear program's first phase (Dantzig's simplex,
//! with Bland's rule, by which it never goes in circles).

/// The distance from the hull, as a share of the points' spread, at which a point still counts as inside: rounding, and the points themselves.
const TOLERANCE: f64 = 1e-9;
/// A part smaller than this is taken for rounding, in a table whose parts are about 1. To divide by rounding would spoil the table; to pass
/// over a part that is none moves a weight, which is at most 1, by less than the tolerance.
const ZERO: f64 = TOLERANCE / 2.0;

/// True if `point` lies in the convex hull of `others`, its border included.
pub fn contains(others: &[Vec<f64>], point: &[f64]) -> bool {
    let spread = others.iter().flat_map(|other| other.iter().zip(point));
    let spread = spread.fold(0.0, |most: f64, (a, b)| most.max((a - b).abs()));
    if others.is_empty() {
        return false;
    }
    // Points that differ by rounding alone are one.
    let largest = point.iter().fold(0.0, |most: f64, at| most.max(at.abs()));
    if spread <= TOLERANCE * largest {
        return true;
    }
    // A row for each coordinate, relative to the point, and one for the weights' sum.
    let mut rows: Vec<Vec<f64>> = (0..point.len())
        .map(|at| {
            others
                .iter()
                .map(|other| (other[at] - point[at]) / spread)
                .collect()
        })
        .collect();
    rows.push(vec![1.0; others.len()]);
    let mut sums = vec![0.0; point.len()];
    sums.push(1.0);
    Simplex::new(rows, sums).residue() <= TOLERANCE
}

/// The first phase: artificial variables, one a row, are driven out as far as it goes.
struct Simplex {
    /// The table: a row each for the weights' coefficients.
    rows: Vec<Vec<f64>>,
    /// The right sides.
    sums: Vec<f64>,
    /// By row, the weight in it; `None` for the row's artificial variable.
    basis: Vec<Option<usize>>,
}

impl Simplex {
    fn new(rows: Vec<Vec<f64>>, sums: Vec<f64>) -> Self {
        let basis = vec![None; rows.len()];
        Self { rows, sums, basis }
    }

    /// The rest of the artificial variables: zero if there are such weights.
    fn residue(mut self) -> f64 {
        while let Some(column) = self.entering() {
            let Some(row) = self.leaving(column) else {
                // The sum of the weights is bounded, so some row always bounds them; only rounding leaves none.
                break;
            };
            self.pivot(row, column);
        }
        let left = self.basis.iter().zip(&self.sums);
        left.filter(|(basic, _)| basic.is_none())
            .map(|(_, sum)| sum.abs())
            .sum()
    }

    /// The first weight whose growth lessens the artificial variables.
    fn entering(&self) -> Option<usize> {
        let columns = self.rows.first().map_or(0, Vec::len);
        (0..columns).find(|&column| {
            let artificial = self.rows.iter().zip(&self.basis);
            let gain: f64 = artificial
                .filter(|(_, basic)| basic.is_none())
                .map(|(row, _)| row[column])
                .sum();
            gain > TOLERANCE / 10.0 && !self.basis.contains(&Some(column))
        })
    }

    /// The row that bounds the weight's growth first; of several that with the smallest variable.
    fn leaving(&self, column: usize) -> Option<usize> {
        let rows = (0..self.rows.len()).filter(|&row| self.rows[row][column] > ZERO);
        let weights = self.rows.first().map_or(0, Vec::len);
        // An artificial variable is numbered behind all weights.
        let variable = |row: usize| self.basis[row].unwrap_or(weights + row);
        let ratio = |row: usize| self.sums[row] / self.rows[row][column];
        rows.min_by(|&a, &b| {
            let order = ratio(a).total_cmp(&ratio(b));
            order.then(variable(a).cmp(&variable(b)))
        })
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let by = self.rows[row][column];
        self.rows[row].iter_mut().for_each(|part| *part /= by);
        self.sums[row] /= by;
        let (pivot, sum) = (self.rows[row].clone(), self.sums[row]);
        for other in (0..self.rows.len()).filter(|other| *other != row) {
            let factor = self.rows[other][column];
            if factor != 0.0 {
                let parts = self.rows[other].iter_mut().zip(&pivot);
                parts.for_each(|(part, pivot)| *part -= factor * pivot);
                self.sums[other] = (self.sums[other] - factor * sum).max(0.0);
            }
        }
        self.basis[row] = Some(column);
    }
}
