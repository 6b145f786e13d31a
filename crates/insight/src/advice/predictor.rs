//! Predictions for loads between points: two predictors, the one that misses left-out points by less, and its interval.

use std::collections::BTreeSet;

use dpb_core::measure::statistics::{median, median_ci95};

use super::curve::{self, Knot};
use super::interval::{Estimate, FOLDS_MIN, Missed, jackknife_plus};
use super::least_squares::{self, Equation};
use super::load::{Load, Point};
use super::service::Service;

/// Times are whole nanoseconds: no interval is narrower than one on either side.
const RESOLUTION_NS: f64 = 1.0;

/// The quantity that is predicted, by job, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Time in a closed loop: with one job in flight the time of a job.
    Time,
    /// The host's CPU time.
    HostTime,
}

/// A way to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part by job, one by item, one by byte, and lanes.
    Affine,
    /// Straight lines between points, all axes being logarithms.
    Lines,
}

impl Kind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Affine => "affine in jobs, items and bytes",
            Self::Lines => "lines between points on logarithmic axes",
        }
    }
}

/// A predictor that was fitted.
#[derive(Clone, Debug)]
enum Fitted {
    Time(Service),
    Host([f64; 3]),
    Lines(Vec<Knot<3>>),
}

/// Points without one shape of jobs, and what the model of the others says of it.
#[derive(Clone, Debug)]
struct Fold {
    /// Items of a job, and bytes of an item.
    shape: (u64, u64),
    model: Option<Fitted>,
    points: Vec<LeftOut>,
}

/// A point that its model does not know.
#[derive(Clone, Copy, Debug)]
struct LeftOut {
    load: Load,
    /// What was measured.
    value: f64,
    /// By how much the model misses it, as a difference of logarithms; `None` if it predicts nothing.
    error: Option<f64>,
}

impl Fold {
    /// The points at a queue, or all.
    fn points(&self, queue: Option<(u64, u64)>) -> impl Iterator<Item = &LeftOut> {
        let points = self.points.iter();
        points.filter(move |point| queue.is_none_or(|queue| queue == queue_of(&point.load)))
    }

    /// The logarithm of what the model says of a load.
    fn predicted(&self, load: &Load) -> Option<f64> {
        Some(self.model.as_ref()?.of(load)?.ln())
    }
}

/// Jobs in flight of a thread, and threads.
fn queue_of(load: &Load) -> (u64, u64) {
    (load.depth, load.threads)
}

/// The queue of a load, if each fold has a point there: then these points alone say how far the model is off there.
fn known_queue<'a>(mut folds: impl Iterator<Item = &'a Fold>, load: &Load) -> Option<(u64, u64)> {
    let queue = queue_of(load);
    folds
        .all(|fold| fold.points(Some(queue)).next().is_some())
        .then_some(queue)
}

/// Points, and what follows from them.
#[derive(Clone, Debug)]
pub struct Predictor {
    kind: Kind,
    fitted: Fitted,
    folds: Vec<Fold>,
    /// Differences of logarithms below and above.
    spread: [f64; 2],
    /// Points whose runs say no more than that they lie around zero: bytes of a job, and the longest run.
    around_zero: Vec<(f64, f64)>,
    range: Range,
    shapes: Vec<(u64, u64)>,
    /// The median relative error on left-out points of either kind, the affine one first; `None` for one that could not predict them all.
    pub errors: [Option<f64>; 2],
}

/// The loads that points lie around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Smallest and largest item.
    pub size: (u64, u64),
    /// Fewest and most items.
    pub batch: (u64, u64),
    /// Fewest and most jobs in flight.
    pub in_flight: (u64, u64),
}

/// The reason why there is no prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silent {
    /// Too few shapes of jobs for an interval.
    TooFew {
        /// The number of them.
        shapes: usize,
    },
    /// Neither predictor fits.
    NoFit,
    /// Outside of what was measured.
    Outside(String),
}

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooFew { shapes } => write!(
                f,
                "{shapes} shapes of jobs (size and batch) were measured, and an interval needs {FOLDS_MIN}"
            ),
            Self::NoFit => f.write_str("neither predictor fits the points"),
            Self::Outside(what) => write!(f, "{what} lies outside of what was measured"),
        }
    }
}

impl Range {
    /// The range of these points. `None` without points.
    pub fn of(points: &[Point]) -> Option<Self> {
        let ends = |of: fn(&Load) -> u64| {
            let values = points.iter().map(|point| of(&point.load));
            Some((values.clone().min()?, values.max()?))
        };
        Some(Self {
            size: ends(|load| load.size)?,
            batch: ends(|load| load.batch)?,
            in_flight: ends(Load::in_flight)?,
        })
    }
}

impl Predictor {
    /// Fits both predictors to `points`, each once more without each shape of jobs, and keeps the one that misses left-out points by less.
    ///
    /// # Errors
    /// [`Silent`].
    pub fn new(points: &[Point], quantity: Quantity) -> Result<Self, Silent> {
        let value = |point: &Point| value(point, quantity);
        let known: Vec<&Point> = points
            .iter()
            .filter(|point| value(point).is_some())
            .collect();
        let shapes: BTreeSet<(u64, u64)> = known.iter().map(|point| point.load.shape()).collect();
        if shapes.len() < FOLDS_MIN {
            return Err(Silent::TooFew {
                shapes: shapes.len(),
            });
        }
        let fold = |kind: Kind, shape: (u64, u64)| {
            let (out, rest): (Vec<&Point>, Vec<&Point>) =
                known.iter().partition(|point| point.load.shape() == shape);
            let model = Fitted::new(&rest, kind, quantity, &value);
            let points = out.iter().filter_map(|point| {
                let value = value(point)?;
                let predicted = model.as_ref().and_then(|model| model.of(&point.load));
                Some(LeftOut {
                    load: point.load,
                    value,
                    error: predicted.map(|predicted| (value / predicted).ln()),
                })
            });
            Fold {
                shape,
                points: points.collect(),
                model,
            }
        };
        let folds = [Kind::Affine, Kind::Lines].map(|kind| {
            let folds = shapes.iter().map(|&shape| fold(kind, shape));
            folds.collect::<Vec<Fold>>()
        });
        let errors = [mean_error(&folds[0]), mean_error(&folds[1])];
        let [affine, lines] = folds;
        let (kind, folds) = match errors {
            [Some((_, affine_squares)), Some((_, lines_squares))]
                if lines_squares < affine_squares =>
            {
                (Kind::Lines, lines)
            }
            [None, Some(_)] => (Kind::Lines, lines),
            [None, None] => return Err(Silent::NoFit),
            _ => (Kind::Affine, affine),
        };
        let all: Vec<Point> = known.iter().map(|&point| point.clone()).collect();
        Ok(Self {
            kind,
            fitted: Fitted::new(&known, kind, quantity, &value).ok_or(Silent::NoFit)?,
            folds,
            spread: spread(&known, quantity),
            around_zero: match quantity {
                Quantity::Time => Vec::new(),
                Quantity::HostTime => known.iter().filter_map(|it| around_zero(it)).collect(),
            },
            range: Range::of(&all).ok_or(Silent::NoFit)?,
            shapes: shapes.into_iter().collect(),
            errors: errors.map(|error| error.map(|(median, _)| median)),
        })
    }

    /// The predictor that was chosen.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The fitted service, if that was chosen.
    pub fn service(&self) -> Option<&Service> {
        match &self.fitted {
            Fitted::Time(service) => Some(service),
            _ => None,
        }
    }

    /// The loads that it answers for.
    pub fn range(&self) -> Range {
        self.range
    }

    /// A load lies between points if there are jobs of no more items and no more bytes by item, of no more and no less, and so on: one in each
    /// quarter around it.
    fn admit(&self, load: &Load) -> Result<(), Silent> {
        let (batch, size) = load.shape();
        let quarters = [(true, true), (true, false), (false, true), (false, false)];
        let is_beside = |is: u64, of: u64, is_above: bool| match is_above {
            true => is >= of,
            false => is <= of,
        };
        let is_inside = quarters.iter().all(|&(more_items, more_bytes)| {
            let mut shapes = self.shapes.iter();
            shapes.any(|&(items, bytes)| {
                is_beside(items, batch, more_items) && is_beside(bytes, size, more_bytes)
            })
        });
        if !is_inside {
            return Err(Silent::Outside(format!("{batch} items of {size} B")));
        }
        let (least, most) = self.range.in_flight;
        match (least..=most).contains(&load.in_flight()) {
            true => Ok(()),
            false => Err(Silent::Outside(format!(
                "{} jobs in flight ({least} to {most})",
                load.in_flight()
            ))),
        }
    }

    /// The smallest difference that can be told at a load. Times are counted in nanoseconds. CPU time that lies around zero scatters by more the longer a
    /// job is, so what is known of jobs up to the next larger one counts.
    fn resolution_ns(&self, load: &Load) -> f64 {
        let bytes = self
            .shapes
            .iter()
            .map(|(items, size)| *items as f64 * *size as f64);
        let larger = bytes.filter(|&bytes| bytes >= load.job_bytes());
        let next = larger.fold(f64::INFINITY, f64::min);
        let around_zero = self.around_zero.iter().filter(|(bytes, _)| *bytes <= next);
        around_zero
            .map(|(_, longest)| *longest)
            .fold(RESOLUTION_NS, f64::max)
    }

    /// The quantity at a load, with its interval.
    ///
    /// # Errors
    /// A load outside of what was measured.
    pub fn at(&self, load: &Load) -> Result<Estimate, Silent> {
        self.admit(load)?;
        let value = self.fitted.of(load).ok_or(Silent::NoFit)?;
        let mut missed: Vec<Missed> = Vec::new();
        let queue = known_queue(self.folds.iter(), load);
        for fold in &self.folds {
            let predicted = fold.predicted(load);
            let points = fold.points(queue);
            missed.extend(points.map(|point| Some((predicted?, point.error?))));
        }
        let estimate = jackknife_plus(value, &missed).widened(self.spread);
        let resolution_ns = self.resolution_ns(load);
        Ok(Estimate {
            low: (estimate.low - resolution_ns).max(0.0),
            high: estimate.high + resolution_ns,
            ..estimate
        })
    }
}

/// The ratio of a quantity on two sides, and how it was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The ratio.
    pub ratio: Estimate,
    /// True if it lies on lines between measured ratios; else it is the ratio of what both sides' predictors say.
    pub is_on_lines: bool,
    /// The median relative error on left-out ratios of the predictors, and of the lines; `None` for what could not predict them all.
    pub errors: [Option<f64>; 2],
}

impl Predictor {
    /// The ratio of this quantity to another side's, each at a load of its own. Each shape of jobs that both sides measured is left out of both: what both
    /// then miss alike, such as a curve that neither model has, or the machine's pace at the time, is no error of their ratio. Points scatter as much as a new
    /// measurement will, and this is in what was missed. Beside the ratio of both models stand straight lines between the measured ratios, all axes being
    /// logarithms; the one that misses left-out ratios by less is used.
    ///
    /// # Errors
    /// A load outside of what was measured, or too few shapes that both sides measured.
    pub fn over(&self, load: &Load, other: &Self, other_load: &Load) -> Result<Gain, Silent> {
        let (one, another) = (self.at(load)?, other.at(other_load)?);
        let both = self.folds.iter().filter_map(|fold| {
            let other = other.folds.iter().find(|other| other.shape == fold.shape)?;
            Some((fold, other))
        });
        let both: Vec<(&Fold, &Fold)> = both.collect();
        if both.len() < FOLDS_MIN {
            return Err(Silent::TooFew { shapes: both.len() });
        }
        let queues = [
            known_queue(both.iter().map(|(fold, _)| *fold), load),
            known_queue(both.iter().map(|(_, fold)| *fold), other_load),
        ];
        let by_models = Some(Tried {
            value: one.value / another.value,
            missed: missed_by_models(&both, queues, [load, other_load]),
        });
        let by_lines = by_lines_between(&both, queues, other_load);
        let squares = |tried: &Option<Tried>| errors_of(tried.iter().flat_map(Tried::errors));
        let found = [squares(&by_models), squares(&by_lines)];
        let is_on_lines = match found {
            [Some((_, models)), Some((_, lines))] => lines < models,
            [None, Some(_)] => true,
            _ => false,
        };
        let tried = match is_on_lines {
            true => by_lines,
            false => by_models,
        };
        let Tried { value, missed } = tried.ok_or(Silent::NoFit)?;
        let ratio = jackknife_plus(value, &missed);
        let least =
            |predictor: &Self, load: &Load, value: f64| predictor.resolution_ns(load) / value;
        let (step, other_step) = (
            least(self, load, one.value),
            least(other, other_load, another.value),
        );
        let ratio = Estimate {
            low: ratio.low * (1.0 - step).max(0.0) / (1.0 + other_step),
            high: match other_step < 1.0 {
                true => ratio.high * (1.0 + step) / (1.0 - other_step),
                false => f64::INFINITY,
            },
            ..ratio
        };
        Ok(Gain {
            ratio,
            is_on_lines,
            errors: found.map(|error| error.map(|(median, _)| median)),
        })
    }
}

/// A way to a ratio: what it says, and how far it is off at left-out shapes.
struct Tried {
    value: f64,
    missed: Vec<Missed>,
}

impl Tried {
    fn errors(&self) -> impl Iterator<Item = Option<f64>> {
        self.missed.iter().map(|one| one.map(|(_, error)| error))
    }
}

/// What the ratio of both sides' models misses of each left-out pair of points.
fn missed_by_models(
    both: &[(&Fold, &Fold)],
    queues: [Option<(u64, u64)>; 2],
    loads: [&Load; 2],
) -> Vec<Missed> {
    let mut missed = Vec::new();
    for (fold, other) in both {
        let predicted = fold.predicted(loads[0]).zip(other.predicted(loads[1]));
        for point in fold.points(queues[0]) {
            missed.extend(other.points(queues[1]).map(|other_point| {
                let (one, another) = predicted?;
                Some((one - another, point.error? - other_point.error?))
            }));
        }
    }
    missed
}

/// The ratio on lines between measured ratios, and what lines without a shape miss of its ratios. `None` where this side was not measured at the queue that is asked
/// about: of queues only the other side's jobs in flight are an axis.
fn by_lines_between(
    both: &[(&Fold, &Fold)],
    queues: [Option<(u64, u64)>; 2],
    other_load: &Load,
) -> Option<Tried> {
    let queue = Some(queues[0]?);
    let place = |load: &Load| [load.in_flight(), load.batch, load.size];
    let ratios = |(fold, other): &(&Fold, &Fold), of_other: Option<(u64, u64)>| {
        let other: Vec<LeftOut> = other.points(of_other).copied().collect();
        let own = fold.points(queue);
        let knots = own.flat_map(move |own| {
            let other = other.clone().into_iter();
            other.map(move |other| (place(&other.load), own.value / other.value))
        });
        knots.collect::<Vec<Knot<3>>>()
    };
    let all: Vec<Vec<Knot<3>>> = both.iter().map(|fold| ratios(fold, None)).collect();
    let mut missed: Vec<Missed> = Vec::new();
    for (left_out, fold) in both.iter().enumerate() {
        let rest = all.iter().enumerate().filter(|(at, _)| *at != left_out);
        let rest: Vec<Knot<3>> = rest.flat_map(|(_, knots)| knots).copied().collect();
        let predicted = curve::between(&rest, place(other_load));
        missed.extend(ratios(fold, queues[1]).into_iter().map(|(place, ratio)| {
            let here = curve::between(&rest, place)?;
            Some((predicted?.ln(), (ratio / here).ln()))
        }));
    }
    let value = curve::between(&all.concat(), place(other_load))?;
    Some(Tried { value, missed })
}

impl Fitted {
    fn new(
        points: &[&Point],
        kind: Kind,
        quantity: Quantity,
        value: &dyn Fn(&Point) -> Option<f64>,
    ) -> Option<Self> {
        match (kind, quantity) {
            (Kind::Affine, Quantity::Time) => Service::fit(points).map(Self::Time),
            (Kind::Affine, Quantity::HostTime) => {
                let equation = |point: &&Point| {
                    let value = value(point)?;
                    Some(Equation {
                        coefficients: [1.0, point.load.batch as f64, point.load.job_bytes()],
                        value,
                        scale: value,
                    })
                };
                let equations: Vec<Equation<3>> = points.iter().filter_map(equation).collect();
                least_squares::fit(&equations).map(|fitted| Self::Host(fitted.parameters))
            }
            (Kind::Lines, _) => {
                let knots = points.iter().filter_map(|point| {
                    let load = &point.load;
                    Some(([load.in_flight(), load.batch, load.size], value(point)?))
                });
                Some(Self::Lines(knots.collect()))
            }
        }
    }

    fn of(&self, load: &Load) -> Option<f64> {
        let value = match self {
            Self::Time(service) => service.closed_loop_ns(load).0,
            Self::Host([job, item, byte]) => {
                job + item * load.batch as f64 + byte * load.job_bytes()
            }
            Self::Lines(knots) => curve::between(knots, [load.in_flight(), load.batch, load.size])?,
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

/// A point's value; nothing below what can be told.
fn value(point: &Point, quantity: Quantity) -> Option<f64> {
    match quantity {
        Quantity::Time => Some(point.job_ns),
        Quantity::HostTime => {
            let least = around_zero(point).map_or(RESOLUTION_NS, |(_, longest)| longest);
            point.host_ns.map(|ns| ns.max(least))
        }
    }
}

/// Bytes of a point's job, and the longest of its runs of CPU time, where these reach to zero or below. CPU time is a difference of two measured ones: nothing
/// smaller than such runs are is known.
fn around_zero(point: &Point) -> Option<(f64, f64)> {
    let (low, high) = ends(&point.host_runs_ns)?;
    (low <= 0.0).then(|| (point.load.job_bytes(), high.max(-low).max(RESOLUTION_NS)))
}

/// The median relative error and the mean squared one of left-out points; `None` if one could not be predicted.
fn mean_error(folds: &[Fold]) -> Option<(f64, f64)> {
    let points = folds.iter().flat_map(|fold| &fold.points);
    errors_of(points.map(|point| point.error))
}

/// The median relative error and the mean squared one of differences of logarithms; `None` if one of them is not known.
fn errors_of(errors: impl Iterator<Item = Option<f64>>) -> Option<(f64, f64)> {
    let errors: Vec<f64> = errors.collect::<Option<_>>()?;
    let squares: f64 = errors.iter().map(|error| error * error).sum();
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs().exp_m1()).collect();
    Some((median(&sizes)?, squares / errors.len() as f64))
}

/// The spread of runs: how far the interval of their median reaches below and above it, as differences of logarithms, each the median over loads. Of fewer runs than
/// have an interval it is their range; a single run has none.
fn spread(points: &[&Point], quantity: Quantity) -> [f64; 2] {
    let arms = points.iter().filter_map(|point| {
        let runs = match quantity {
            Quantity::Time => &point.runs_ns,
            Quantity::HostTime => &point.host_runs_ns,
        };
        let ((low, high), middle) = (ends(runs)?, median(runs)?);
        (runs.len() > 1 && low > 0.0).then(|| [(middle / low).ln(), (high / middle).ln()])
    });
    let arms: Vec<[f64; 2]> = arms.collect();
    [0, 1].map(|end| {
        let of_end: Vec<f64> = arms.iter().map(|arms| arms[end]).collect();
        median(&of_end).unwrap_or(0.0)
    })
}

/// The interval of the median of runs; of too few to have one their range. `None` of nothing.
fn ends(runs: &[f64]) -> Option<(f64, f64)> {
    let range = || {
        let low = runs.iter().copied().min_by(f64::total_cmp)?;
        let high = runs.iter().copied().max_by(f64::total_cmp)?;
        Some((low, high))
    };
    median_ci95(runs).or_else(range)
}
