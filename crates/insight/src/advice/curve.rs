//! Lines between points, where both axes are logarithms: what is known without a model.

/// A point: where, along each axis, and how much.
pub type Knot<const N: usize> = ([u64; N], f64);

/// The value at `at`, on straight lines between points where all axes and the value are logarithms: along the first axis between the two values
/// that are next to it, or the first two or the last two of all if it lies outside; along the other axes likewise. `None` where an axis has
/// one value and another is asked for.
pub fn between<const N: usize>(knots: &[Knot<N>], at: [u64; N]) -> Option<f64> {
    let knots: Vec<&Knot<N>> = knots.iter().collect();
    along(&knots, at, 0).map(f64::exp)
}

/// The logarithm of the value, with the axes before `axis` done.
fn along<const N: usize>(knots: &[&Knot<N>], at: [u64; N], axis: usize) -> Option<f64> {
    if axis == N {
        let sum: f64 = knots.iter().map(|(_, value)| value.ln()).sum();
        return (!knots.is_empty()).then(|| sum / knots.len() as f64);
    }
    let of = |place: u64| {
        let here = knots.iter().filter(|(places, _)| places[axis] == place);
        let here: Vec<&Knot<N>> = here.copied().collect();
        along(&here, at, axis + 1)
    };
    if let Some(exact) = of(at[axis]) {
        return Some(exact);
    }
    let mut places: Vec<u64> = knots.iter().map(|(places, _)| places[axis]).collect();
    places.sort_unstable();
    places.dedup();
    // Where a place has no value for the axes behind it, its neighbours may.
    let known: Vec<(f64, f64)> = places
        .into_iter()
        .filter(|&place| place > 0)
        .filter_map(|place| Some(((place as f64).ln(), of(place)?)))
        .collect();
    let wanted = (at[axis].max(1) as f64).ln();
    let above = known.iter().position(|(place, _)| *place > wanted);
    let second = above
        .unwrap_or(known.len())
        .clamp(1, known.len().max(2) - 1);
    let (&(low, under), &(high, over)) = (known.get(second - 1)?, known.get(second)?);
    Some(under + (over - under) * (wanted - low) / (high - low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_law_is_a_straight_line() {
        // 3·x², on two axes the second of which does nothing.
        let law = |x: u64| 3.0 * (x * x) as f64;
        let knots: Vec<Knot<2>> = [1, 10, 1000].map(|x| ([x, 4], law(x))).into();
        for x in [1, 5, 10, 77, 1000, 4000] {
            let found = between(&knots, [x, 4]).expect("two points");
            assert!((found / law(x) - 1.0).abs() < 1e-9, "{x}: {found}");
        }
        assert_eq!(between(&knots, [5, 8]), None, "one value of the axis");
        assert_eq!(between::<2>(&[], [5, 8]), None);
    }

    #[test]
    fn two_axes_are_taken_one_after_the_other() {
        let law = |x: u64, y: u64| 2.0 * x as f64 * (y as f64).sqrt();
        let places = [(1, 4), (1, 64), (16, 4), (16, 64)];
        let mut knots: Vec<Knot<2>> = places.map(|(x, y)| ([x, y], law(x, y))).into();
        let found = between(&knots, [4, 16]).expect("a grid");
        assert!((found / law(4, 16) - 1.0).abs() < 1e-9, "{found}");
        // A grid with a hole: the law still holds where the other row is known.
        knots.pop();
        assert!(between(&knots, [1, 16]).is_some());
        assert_eq!(between(&knots, [16, 16]), None);
    }
}
