//! Eigenvalues and eigenvectors of a symmetric matrix, by Jacobi's rotations in cyclic order (Golub and Van Loan, *Matrix Computations*, 8.5). It is slow for
//! large matrices and exact for small ones: the vectors stay orthogonal to rounding.

/// Sweeps over all pairs after which the method has converged for any matrix of a few hundred columns; six are usual.
const SWEEPS_MAX: usize = 100;

/// Each eigenvalue with its eigenvector of length 1, in no order.
pub(super) fn symmetric(matrix: &[Vec<f64>]) -> Vec<(f64, Vec<f64>)> {
    let n = matrix.len();
    let mut a = matrix.to_vec();
    let unit = |i: usize| (0..n).map(|j| f64::from(u8::from(i == j))).collect();
    // Row `i` is eigenvector `i`.
    let mut vectors: Vec<Vec<f64>> = (0..n).map(unit).collect();
    let scale: f64 = a.iter().flatten().map(|value| value * value).sum();
    for _ in 0..SWEEPS_MAX {
        let off: f64 = (0..n)
            .flat_map(|i| (0..i).map(move |j| (i, j)))
            .map(|(i, j)| a[i][j] * a[i][j])
            .sum();
        // Squares: the rest is below the rounding of the largest parts.
        if off <= scale * f64::EPSILON.powi(2) {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut vectors, p, q);
            }
        }
    }
    let values = (0..n).map(|i| a[i][i]);
    values.zip(vectors).collect()
}

/// Turns the plane of `p` and `q` so that the matrix is zero there.
fn rotate(a: &mut [Vec<f64>], vectors: &mut [Vec<f64>], p: usize, q: usize) {
    if a[p][q] == 0.0 {
        return;
    }
    let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
    // The smaller root of t² + 2·theta·t − 1.
    let t = match theta.is_finite() {
        true => theta.signum() / (theta.abs() + theta.hypot(1.0)),
        false => 0.0,
    };
    let c = 1.0 / t.hypot(1.0);
    let s = t * c;
    for row in a.iter_mut() {
        let (at_p, at_q) = (row[p], row[q]);
        row[p] = c * at_p - s * at_q;
        row[q] = s * at_p + c * at_q;
    }
    turn_rows(a, p, q, c, s);
    turn_rows(vectors, p, q, c, s);
    (a[p][q], a[q][p]) = (0.0, 0.0);
}

fn turn_rows(rows: &mut [Vec<f64>], p: usize, q: usize, c: f64, s: f64) {
    let (head, tail) = rows.split_at_mut(q);
    for (at_p, at_q) in head[p].iter_mut().zip(&mut tail[0]) {
        (*at_p, *at_q) = (c * *at_p - s * *at_q, s * *at_p + c * *at_q);
    }
}
