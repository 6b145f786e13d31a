//! The time that a backend takes for jobs, fitted to points: what a job costs a lane, how many lanes there are, what a submission
//! costs the host; and the closed loop that follows from these.

use super::least_squares::{self, Equation};
use super::load::{Load, Point};

/// Most numbers of lanes that are tried one by one.
pub(super) const LANES_MAX: u64 = 64;
/// Rounds in which points may change from one bound to another.
const ROUNDS_MAX: usize = 12;
/// The number of jobs of a segment for each that is in flight, by the harness, where memory allows.
const SEGMENT_DEPTHS: u64 = 64;

/// A fitted backend. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// A lane's time for a job.
    pub job_ns: f64,
    /// A lane's time for an item.
    pub item_ns: f64,
    /// A lane's time for a byte.
    pub byte_ns: f64,
    /// The host's time for a submission: descriptors and doorbell.
    pub doorbell_ns: f64,
    /// Jobs that are served at a time; `None` if there was no point at which they were all busy.
    pub lanes: Option<u64>,
    /// The time that a byte takes on what all lanes share, a link for one; zero where nothing of the kind was found.
    pub shared_byte_ns: f64,
    /// The sum of squared errors that the fit leaves: relative ones, or of a model's exact times those in nanoseconds.
    pub squares: f64,
}

/// The bounds of a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// All lanes are busy: k/t.
    Lanes,
    /// Too few jobs are in flight: D/(t + h₀).
    InFlight,
    /// The path that all lanes share carries no more bytes: B/(b·g).
    Bytes,
    /// The submitting threads do no more: n/h.
    Host,
}

impl Bound {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lanes => "its lanes are busy (k/t)",
            Self::InFlight => "jobs in flight (D/(t + h0))",
            Self::Bytes => "bytes on what its lanes share (B/(b g))",
            Self::Host => "the submitting threads (n/h)",
        }
    }
}

/// The number of times that a load's equation has the service and the doorbell in it, for a time by job.
#[derive(Clone, Copy, Debug)]
struct Factors {
    bound: Bound,
    service: f64,
    doorbell: f64,
    shared: f64,
}

impl Service {
    /// Fits the time by job of `points`. For each number of lanes that the depths allow, each point is first taken to be limited by what its
    /// depth suggests, then by what the fit says, until that does not change; the number of lanes with the least error stays. `None` of points
    /// to which nothing can be fitted.
    pub fn fit(points: &[&Point]) -> Option<Self> {
        let deepest = points.iter().map(|point| point.load.in_flight()).max()?;
        let mut best: Option<Self> = None;
        let numbers = (1..deepest.min(LANES_MAX + 1)).map(Some);
        // Last, because equally good: lanes that were never all busy are not known.
        for lanes in numbers.chain([None]) {
            for has_shared in [false, true] {
                let Some(fitted) = Self::with_lanes(points, lanes, has_shared) else {
                    continue;
                };
                // A bound that all lanes share must pay for itself.
                let needed = if has_shared { 0.5 } else { 1.0 };
                if best.is_none_or(|best| fitted.squares < best.squares * needed * (1.0 - 1e-6)) {
                    best = Some(fitted);
                }
            }
        }
        best
    }

    fn with_lanes(points: &[&Point], lanes: Option<u64>, has_shared: bool) -> Option<Self> {
        let is_exact = points.iter().all(|point| point.is_exact);
        let mut fitted: Option<Self> = None;
        for _ in 0..ROUNDS_MAX {
            let equations: Vec<Equation<5>> = points
                .iter()
                .map(|point| {
                    let factors = match &fitted {
                        Some(fitted) => fitted.factors(&point.load, point.segment_jobs),
                        None => first_guess(lanes, point, has_shared),
                    };
                    let service = factors.service;
                    let load = &point.load;
                    let mut coefficients = [
                        service,
                        service * load.batch as f64,
                        service * load.job_bytes(),
                        factors.doorbell,
                        factors.shared * load.job_bytes(),
                    ];
                    if !has_shared {
                        coefficients[4] = 0.0;
                    }
                    Equation {
                        coefficients,
                        value: point.job_ns,
                        scale: scale(point, is_exact),
                    }
                })
                .collect();
            let least = least_squares::fit(&equations)?;
            let [job_ns, item_ns, byte_ns, doorbell_ns, shared_byte_ns] = least.parameters;
            let mut next = Self {
                job_ns,
                item_ns,
                byte_ns,
                doorbell_ns,
                lanes,
                shared_byte_ns,
                squares: 0.0,
            };
            next.squares = next.squares_of(points);
            match fitted {
                Some(before) if next.squares >= before.squares * (1.0 - 1e-9) => return fitted,
                _ => fitted = Some(next),
            }
        }
        fitted
    }

    fn squares_of(&self, points: &[&Point]) -> f64 {
        let is_exact = points.iter().all(|point| point.is_exact);
        let error = |point: &&Point| {
            let predicted = self.time_by_job(&point.load, point.segment_jobs);
            ((predicted - point.job_ns) / scale(point, is_exact)).powi(2)
        };
        points.iter().map(error).sum()
    }

    /// A lane's time for a job of this shape.
    pub fn service_ns(&self, load: &Load) -> f64 {
        self.job_ns + self.item_ns * load.batch as f64 + self.byte_ns * load.job_bytes()
    }

    /// The time of one job alone, from its submission to its result.
    pub fn alone_ns(&self, load: &Load) -> f64 {
        self.doorbell_ns
            + self
                .service_ns(load)
                .max(self.shared_byte_ns * load.job_bytes())
    }

    /// The time by job of a closed loop, and what limits it.
    pub fn closed_loop_ns(&self, load: &Load) -> (f64, Bound) {
        let segment = SEGMENT_DEPTHS.saturating_mul(load.in_flight());
        let factors = self.factors(load, segment);
        (self.time(&factors, load), factors.bound)
    }

    /// The time by job in segments of so many jobs.
    pub fn time_by_job(&self, load: &Load, segment_jobs: u64) -> f64 {
        self.time(&self.factors(load, segment_jobs), load)
    }

    fn time(&self, factors: &Factors, load: &Load) -> f64 {
        factors.service * self.service_ns(load)
            + factors.doorbell * self.doorbell_ns
            + factors.shared * self.shared_byte_ns * load.job_bytes()
    }

    /// The bound that takes the longest.
    fn factors(&self, load: &Load, segment_jobs: u64) -> Factors {
        let bounds = bounds(self.lanes, load, segment_jobs);
        let longest = bounds
            .into_iter()
            .flatten()
            .max_by(|a, b| self.time(a, load).total_cmp(&self.time(b, load)));
        longest.expect("jobs in flight are always a bound")
    }
}

/// All bounds of a load. A segment's jobs go in rounds: a round has as many as are in flight, or as there are lanes.
fn bounds(lanes: Option<u64>, load: &Load, segment_jobs: u64) -> [Option<Factors>; 3] {
    let segment = segment_jobs.max(1) as f64;
    let rounds = |at_once: u64| (segment / at_once.max(1) as f64).ceil() / segment;
    let in_flight = load.in_flight();
    let lanes = lanes.filter(|&lanes| lanes < in_flight);
    [
        lanes.map(|lanes| Factors {
            bound: Bound::Lanes,
            service: rounds(lanes),
            doorbell: 1.0 / segment,
            shared: 0.0,
        }),
        Some(Factors {
            bound: Bound::InFlight,
            service: rounds(in_flight),
            doorbell: rounds(in_flight),
            shared: 0.0,
        }),
        Some(Factors {
            bound: Bound::Bytes,
            service: 0.0,
            doorbell: 0.0,
            shared: 1.0,
        }),
    ]
}

/// The error that counts as one: a nanosecond of exact times, of others the time itself, because they scatter by a share of it.
fn scale(point: &Point, is_exact: bool) -> f64 {
    match is_exact {
        true => 1.0,
        false => point.job_ns,
    }
}

/// Before anything is fitted: lanes limit a load of more jobs than lanes, and what lanes share the largest jobs of the deepest loads.
fn first_guess(lanes: Option<u64>, point: &Point, has_shared: bool) -> Factors {
    let [by_lanes, by_flight, by_bytes] = bounds(lanes, &point.load, point.segment_jobs);
    let is_large = point.load.job_bytes() > 65_536.0 && point.load.in_flight() > 1;
    match (by_bytes, by_lanes) {
        (Some(by_bytes), _) if has_shared && is_large => by_bytes,
        (_, Some(by_lanes)) => by_lanes,
        _ => by_flight.expect("jobs in flight are always a bound"),
    }
}
