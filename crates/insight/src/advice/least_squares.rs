//! Least squares with parameters that are not negative: few of them, by trying every set of those that are not zero.

/// Most parameters that [`fit`] takes: it tries 2 to their number sets.
pub const PARAMETERS_MAX: usize = 6;
/// Columns that depend on each other to this share of their length are one.
const PIVOT_MIN: f64 = 1e-9;

/// An equation: the coefficients of the parameters, the value that they are to give, and how exactly.
#[derive(Clone, Debug)]
pub struct Equation<const N: usize> {
    /// The factor of each parameter.
    pub coefficients: [f64; N],
    /// The value.
    pub value: f64,
    /// The size of an error that counts as one: the value itself for relative errors, 1 for absolute ones.
    pub scale: f64,
}

/// Parameters, and the sum of the squared errors that they leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted<const N: usize> {
    /// The parameters; none is negative.
    pub parameters: [f64; N],
    /// The sum of `((predicted − value) / scale)²`.
    pub squares: f64,
}

/// The parameters, none negative, whose predictions have the least sum of squared errors. The minimum under such bounds is the
/// minimum without bounds over the parameters that are not zero (Lawson and Hanson, Solving Least Squares Problems, chapter 23), so the
/// least of all sets is exact. Of sets that do equally well the one of fewest parameters is taken. `None` without equations, or if one
/// is no number.
pub fn fit<const N: usize>(equations: &[Equation<N>]) -> Option<Fitted<N>> {
    const { assert!(N <= PARAMETERS_MAX) };
    let is_number = |equation: &Equation<N>| {
        let finite = equation
            .coefficients
            .iter()
            .all(|factor| factor.is_finite());
        finite && equation.value.is_finite() && equation.scale.is_normal()
    };
    if equations.is_empty() || !equations.iter().all(is_number) {
        return None;
    }
    let rows: Vec<[f64; N]> = equations
        .iter()
        .map(|equation| equation.coefficients.map(|factor| factor / equation.scale))
        .collect();
    let right: Vec<f64> = equations
        .iter()
        .map(|equation| equation.value / equation.scale)
        .collect();
    let mut best = Fitted {
        parameters: [0.0; N],
        squares: right.iter().map(|value| value * value).sum(),
    };
    let mut sets: Vec<u32> = (1..1u32 << N).collect();
    sets.sort_by_key(|set| set.count_ones());
    for set in sets {
        let Some(parameters) = solve(&rows, &right, set) else {
            continue;
        };
        let squares = squares(&rows, &right, &parameters);
        // A hair less is rounding, and no reason for another parameter.
        if squares < best.squares * (1.0 - 1e-9) - 1e-24 {
            best = Fitted {
                parameters,
                squares,
            };
        }
    }
    Some(best)
}

fn squares<const N: usize>(rows: &[[f64; N]], right: &[f64], parameters: &[f64; N]) -> f64 {
    let error = |(row, right): (&[f64; N], &f64)| {
        let predicted: f64 = row.iter().zip(parameters).map(|(a, b)| a * b).sum();
        (predicted - right).powi(2)
    };
    rows.iter().zip(right).map(error).sum()
}

/// The least squares over the parameters in `set`, by orthogonalisation (modified Gram and Schmidt). `None` if they depend on each other, or one
/// would be negative.
fn solve<const N: usize>(rows: &[[f64; N]], values: &[f64], set: u32) -> Option<[f64; N]> {
    let members: Vec<usize> = (0..N).filter(|at| set & (1 << at) != 0).collect();
    if members.len() > rows.len() {
        return None;
    }
    let column = |at: usize| rows.iter().map(|row| row[at]).collect::<Vec<f64>>();
    let mut columns: Vec<Vec<f64>> = members.iter().map(|&at| column(at)).collect();
    let count = columns.len();
    let mut upper = vec![vec![0.0; count]; count];
    let mut right = vec![0.0; count];
    let mut rest = values.to_vec();
    for at in 0..count {
        let whole = norm(&column(members[at]));
        let length = norm(&columns[at]);
        if length.is_nan() || length <= PIVOT_MIN * whole {
            return None;
        }
        upper[at][at] = length;
        columns[at].iter_mut().for_each(|value| *value /= length);
        let (done, later) = columns.split_at_mut(at + 1);
        let unit = &done[at];
        for (next, column) in later.iter_mut().enumerate() {
            upper[at][at + 1 + next] = take_out(column, unit);
        }
        right[at] = take_out(&mut rest, unit);
    }
    let mut parameters = [0.0; N];
    let mut solved = vec![0.0; count];
    for at in (0..count).rev() {
        let known: f64 = (at + 1..count)
            .map(|next| upper[at][next] * solved[next])
            .sum();
        solved[at] = (right[at] - known) / upper[at][at];
        if !solved[at].is_finite() || solved[at] < 0.0 {
            return None;
        }
        parameters[members[at]] = solved[at];
    }
    Some(parameters)
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Takes out of `values` what lies along `unit`, and says how much it was.
fn take_out(values: &mut [f64], unit: &[f64]) -> f64 {
    let along: f64 = values.iter().zip(unit).map(|(a, b)| a * b).sum();
    values
        .iter_mut()
        .zip(unit)
        .for_each(|(value, unit)| *value -= along * unit);
    along
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equation<const N: usize>(coefficients: [f64; N], value: f64) -> Equation<N> {
        Equation {
            coefficients,
            value,
            scale: value,
        }
    }

    #[test]
    fn absolute_errors_weigh_all_alike() {
        let points = [(1.0, 4.2), (2.0, 4.9), (3.0, 6.3), (7.0, 9.1), (9.0, 12.2)];
        let n = points.len() as f64;
        let sum = |of: fn(f64, f64) -> f64| -> f64 { points.iter().map(|&(x, y)| of(x, y)).sum() };
        let (sx, sy, sxx, sxy) = (
            sum(|x, _| x),
            sum(|_, y| y),
            sum(|x, _| x * x),
            sum(|x, y| x * y),
        );
        // The regression line of textbooks.
        let slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
        let rows = points.map(|(x, y)| Equation {
            scale: 1.0,
            ..equation([1.0, x], y)
        });
        let fitted = fit(&rows).expect("a fit");
        assert!(
            (fitted.parameters[1] - slope).abs() < 1e-9,
            "{fitted:?} {slope}"
        );
        assert!((fitted.parameters[0] - (sy - slope * sx) / n).abs() < 1e-9);
    }

    #[test]
    fn finds_the_line_that_was_drawn() {
        let rows: Vec<_> = [1.0, 2.0, 5.0, 9.0]
            .map(|x| equation([1.0, x], 3.0 + 0.5 * x))
            .into();
        let fitted = fit(&rows).expect("a fit");
        assert!((fitted.parameters[0] - 3.0).abs() < 1e-9, "{fitted:?}");
        assert!((fitted.parameters[1] - 0.5).abs() < 1e-9, "{fitted:?}");
        assert!(fitted.squares < 1e-18);
    }

    /// Weighted least squares by the normal equations, from textbooks: y = a + b·x with weights 1/y².
    #[test]
    fn agrees_with_the_formula_of_weighted_regression() {
        let points = [(1.0, 4.2), (2.0, 4.9), (3.0, 6.3), (7.0, 9.1), (9.0, 12.2)];
        let weighed = |of: fn(f64, f64) -> f64| -> f64 {
            points.iter().map(|&(x, y)| of(x, y) / (y * y)).sum()
        };
        let (w, wx, wy) = (weighed(|_, _| 1.0), weighed(|x, _| x), weighed(|_, y| y));
        let (wxx, wxy) = (weighed(|x, _| x * x), weighed(|x, y| x * y));
        let b = (w * wxy - wx * wy) / (w * wxx - wx * wx);
        let a = (wy - b * wx) / w;
        let rows: Vec<_> = points.map(|(x, y)| equation([1.0, x], y)).into();
        let fitted = fit(&rows).expect("a fit");
        assert!((fitted.parameters[0] - a).abs() < 1e-9, "{fitted:?} {a}");
        assert!((fitted.parameters[1] - b).abs() < 1e-9, "{fitted:?} {b}");
    }

    #[test]
    fn nothing_is_negative() {
        // Falls with x: without a bound the slope would be -1.
        let rows: Vec<_> = [1.0, 2.0, 3.0].map(|x| equation([1.0, x], 10.0 - x)).into();
        let fitted = fit(&rows).expect("a fit");
        assert_eq!(fitted.parameters[1], 0.0);
        // Then the best constant of relative errors: sum 1/y over sum 1/y².
        let (first, second): (f64, f64) = [9.0, 8.0, 7.0]
            .iter()
            .fold((0.0, 0.0), |(a, b), y| (a + 1.0 / y, b + 1.0 / (y * y)));
        assert!((fitted.parameters[0] - first / second).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_told_apart_is_one_parameter() {
        let rows: Vec<_> = [1.0, 2.0, 5.0]
            .map(|x| equation([1.0, 16.0, x], 3.0 + 0.5 * x))
            .into();
        let fitted = fit(&rows).expect("a fit");
        assert!((fitted.parameters[0] - 3.0).abs() < 1e-9 && fitted.parameters[1] == 0.0);
        assert_eq!(fit::<2>(&[]), None);
        assert_eq!(fit(&[equation([1.0, f64::NAN], 1.0)]), None);
        assert_eq!(fit(&[equation([1.0, 1.0], 0.0)]), None);
    }
}
