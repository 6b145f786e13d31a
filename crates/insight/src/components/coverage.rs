//! Coverage as a number: how much of what programs do lies among what operators do.
//!
//! A program is covered in a plane of two components, or in all that are retained, if its point is a mixture of the operators' points. How much
//! that says is a matter of chance too: where names are dealt out at random, some points lie inside as well.

use dpb_core::random::SplitMix64;

use super::hull;

/// The coverage of one set of points by another.
#[derive(Clone, Debug, PartialEq)]
pub struct Coverage {
    /// The number of dimensions: components that are retained.
    pub dimensions: usize,
    /// The number of points that might be covered.
    pub points: usize,
    /// Points inside the hull in all dimensions at once.
    pub inside: usize,
    /// By plane of two components.
    pub planes: Vec<Plane>,
    /// By point, its nearest neighbour among those that cover.
    pub nearest: Vec<Neighbour>,
    /// The median distance from a covering point to the next one: the measure for the distances above.
    pub spacing: f64,
    /// The probability that points as far outside, or further, come of chance: the share of random deals with no larger a mean share inside over all planes.
    pub p_value: f64,
    /// The number of random deals.
    pub deals: usize,
}

/// The coverage in the plane of two components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plane {
    /// The first component, counted from zero.
    pub x: usize,
    /// The second one.
    pub y: usize,
    /// The number of points inside.
    pub inside: usize,
}

/// The nearest neighbour of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// Its number among the covering points.
    pub at: usize,
    /// The distance to it.
    pub distance: f64,
    /// True if the point lies inside the hull, in all dimensions.
    pub is_inside: bool,
}

impl Coverage {
    /// The coverage of `points` by `covering`, both with as many coordinates; `deals` random deals of both sets give the p-value. `None` if a set
    /// is empty, or there are fewer than two dimensions.
    pub fn of(covering: &[Vec<f64>], points: &[Vec<f64>], deals: usize, seed: u64) -> Option<Self> {
        let dimensions = covering.first()?.len();
        if points.is_empty() || dimensions < 2 {
            return None;
        }
        let planes = planes(dimensions).map(|(x, y)| Plane {
            x,
            y,
            inside: inside_plane(covering, points, x, y),
        });
        let planes: Vec<Plane> = planes.collect();
        let observed = planes.iter().map(|plane| plane.inside).sum();
        let nearest: Vec<Neighbour> = points
            .iter()
            .map(|point| neighbour(covering, point))
            .collect();
        Some(Self {
            dimensions,
            points: points.len(),
            inside: nearest.iter().filter(|near| near.is_inside).count(),
            planes,
            nearest,
            spacing: spacing(covering),
            p_value: p_value(covering, points, observed, deals, seed),
            deals,
        })
    }
}

fn planes(dimensions: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..dimensions).flat_map(move |x| (x + 1..dimensions).map(move |y| (x, y)))
}

fn inside_plane(covering: &[Vec<f64>], points: &[Vec<f64>], x: usize, y: usize) -> usize {
    let flat = |point: &Vec<f64>| vec![point[x], point[y]];
    let covering: Vec<Vec<f64>> = covering.iter().map(flat).collect();
    points
        .iter()
        .filter(|point| hull::contains(&covering, &flat(point)))
        .count()
}

fn neighbour(covering: &[Vec<f64>], point: &[f64]) -> Neighbour {
    let distances = covering.iter().map(|other| distance(other, point));
    let nearest = distances
        .enumerate()
        .min_by(|(_, a), (_, b)| a.total_cmp(b));
    let (at, distance) = nearest.unwrap_or((0, f64::INFINITY));
    Neighbour {
        at,
        distance,
        is_inside: hull::contains(covering, point),
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| (a - b).powi(2));
    squares.sum::<f64>().sqrt()
}

/// The median over points of the distance to the next other one; zero of a single point.
fn spacing(points: &[Vec<f64>]) -> f64 {
    let to_next = points.iter().enumerate().map(|(at, point)| {
        let others = points.iter().enumerate().filter(|(other, _)| *other != at);
        others
            .map(|(_, other)| distance(point, other))
            .fold(f64::INFINITY, f64::min)
    });
    let finite: Vec<f64> = to_next.filter(|distance| distance.is_finite()).collect();
    dpb_core::measure::statistics::median(&finite).unwrap_or(0.0)
}

/// The share of random deals, the real one included, in which no more points lie inside, summed over planes.
fn p_value(
    covering: &[Vec<f64>],
    points: &[Vec<f64>],
    observed: usize,
    deals: usize,
    seed: u64,
) -> f64 {
    let mut all: Vec<Vec<f64>> = covering.iter().chain(points).cloned().collect();
    let dimensions = all.first().map_or(0, Vec::len);
    let mut random = SplitMix64::new(seed);
    let as_few = (0..deals).filter(|_| {
        // Fisher and Yates.
        for at in (1..all.len()).rev() {
            all.swap(at, random.below(at + 1));
        }
        let (dealt, rest) = all.split_at(covering.len());
        let inside: usize = planes(dimensions)
            .map(|(x, y)| inside_plane(dealt, rest, x, y))
            .sum();
        inside <= observed
    });
    let as_few = as_few.count();
    (as_few + 1) as f64 / (deals + 1) as f64
}
