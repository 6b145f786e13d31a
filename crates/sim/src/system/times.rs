//! Times of service: so much for each job and byte, or as a machine was measured.

use dpb_core::random::SplitMix64;

/// The longest time of a job, in picoseconds: a second. Sums of those that wait for each other are times, too.
pub const JOB_PS_MAX: u64 = 1_000_000_000_000;
/// The longest time of a byte of a job, in picoseconds. The bytes of a frame take no longer than a job.
pub const BYTE_PS_MAX: u64 = 100_000_000;

/// The times that a server takes, by the bytes of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Times {
    /// A time for each job, and one for each byte of it, in picoseconds.
    Linear {
        /// Time for each job.
        job_ps: u64,
        /// Time for each byte.
        byte_ps: u64,
    },
    /// As was measured at some sizes.
    Measured(Measured),
}

/// Times that were measured at some sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// By size.
    points: Vec<Point>,
}

/// The times that were measured at a size.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The size, in bytes.
    pub bytes: u64,
    /// Times in picoseconds that are equally likely, in ascending order; one alone if the time is always the same.
    pub times_ps: Vec<f64>,
}

/// The reason why there are no times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoTimes(pub String);

impl Times {
    /// The same for each job.
    pub const fn constant(job_ps: u64) -> Self {
        Self::Linear { job_ps, byte_ps: 0 }
    }

    /// The time of a job of so many bytes; where times vary, the next of those that the random numbers give.
    pub fn cost_ps(&self, bytes: u64, random: &mut SplitMix64) -> u64 {
        match self {
            Self::Linear { job_ps, byte_ps } => job_ps + bytes * byte_ps,
            Self::Measured(measured) => measured.cost_ps(bytes, random),
        }
    }
}

impl Measured {
    /// Times at these sizes.
    ///
    /// # Errors
    /// [`NoTimes`] if there is none, if two are of one size, or if a time is no positive number.
    pub fn new(mut points: Vec<Point>) -> Result<Self, NoTimes> {
        points.sort_by_key(|point| point.bytes);
        if points.is_empty() {
            return Err(NoTimes("no time was measured".to_owned()));
        }
        for pair in points.windows(2) {
            if pair[0].bytes == pair[1].bytes {
                let bytes = pair[0].bytes;
                return Err(NoTimes(format!("there are two times of {bytes} bytes")));
            }
        }
        for Point { bytes, times_ps } in &points {
            let is_time = |&ps: &f64| ps.is_finite() && ps > 0.0 && ps < 1e18;
            let is_ascending = times_ps.is_sorted();
            if times_ps.is_empty() || !times_ps.iter().all(is_time) || !is_ascending {
                return Err(NoTimes(format!("the time of {bytes} bytes is no time")));
            }
        }
        Ok(Self { points })
    }

    /// The times, by size.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Between two sizes a time is on the straight line of logarithms; beyond the measured ones it goes on in proportion to the last line above the largest
    /// size, and stays as it is below the smallest. None is longer than [`JOB_PS_MAX`].
    fn cost_ps(&self, bytes: u64, random: &mut SplitMix64) -> u64 {
        let is_drawn = self.points.iter().any(|it| it.times_ps.len() > 1);
        let share = if is_drawn { random.unit() } else { 1.0 };
        let at = |point: &Point| {
            let count = point.times_ps.len();
            let number = (share * count as f64).ceil() as usize;
            point.times_ps[number.clamp(1, count) - 1]
        };
        let behind = self.points.partition_point(|point| point.bytes < bytes);
        let ps = match (behind, self.points.get(behind)) {
            (0, _) => at(&self.points[0]),
            (_, Some(point)) if point.bytes == bytes => at(point),
            (_, _) if self.points.len() == 1 => at(&self.points[0]),
            (behind, _) => {
                let upper = behind.min(self.points.len() - 1);
                let (low, high) = (&self.points[upper - 1], &self.points[upper]);
                let log = |value: f64| libm::log(value);
                let [x0, x1, x] = [low.bytes, high.bytes, bytes].map(|it| log(it.max(1) as f64));
                let [y0, y1] = [low, high].map(|point| log(at(point)));
                match x1 > x0 {
                    true => libm::exp(y0 + (y1 - y0) * (x - x0) / (x1 - x0)),
                    false => at(high),
                }
            }
        };
        ps.round().clamp(1.0, JOB_PS_MAX as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(points: &[(u64, f64)]) -> Measured {
        let points = points.iter().map(|&(bytes, ps)| Point {
            bytes,
            times_ps: vec![ps],
        });
        Measured::new(points.collect()).expect("times")
    }

    #[test]
    fn times_between_sizes_are_powers() {
        // Of a time that grows as the square root, each is met: log-log interpolation is exact for powers.
        let measured = fixed(&[(100, 1e6), (10_000, 1e7), (40_000, 2e7)]);
        let mut random = SplitMix64::new(1);
        for (bytes, expected) in [
            (100, 1_000_000),
            (400, 2_000_000),
            (2500, 5_000_000),
            (10_000, 10_000_000),
            (40_000, 20_000_000),
            (160_000, 40_000_000),
            (1, 1_000_000),
        ] {
            let ps = measured.cost_ps(bytes, &mut random);
            assert!(ps.abs_diff(expected) <= 1, "{bytes}: {ps}");
        }
    }

    #[test]
    fn no_time_is_longer_than_a_second() {
        // A line so steep that the next size would take longer than there is time.
        let measured = fixed(&[(64, 1e6), (65, 1e11)]);
        assert_eq!(measured.cost_ps(9000, &mut SplitMix64::new(1)), JOB_PS_MAX);
    }

    #[test]
    fn drawn_times_are_distributed_as_measured() {
        let times_ps: Vec<f64> = (1..=100).map(|it| f64::from(it) * 1000.0).collect();
        let point = |bytes, times_ps: &[f64]| Point {
            bytes,
            times_ps: times_ps.to_vec(),
        };
        let doubled: Vec<f64> = times_ps.iter().map(|it| it * 2.0).collect();
        let measured = Measured::new(vec![point(64, &times_ps), point(256, &doubled)]);
        let measured = measured.expect("times");
        for (bytes, factor) in [(64, 1.0), (128, 2f64.sqrt()), (256, 2.0)] {
            let mut random = SplitMix64::new(5);
            let mut drawn: Vec<u64> = (0..20_000)
                .map(|_| measured.cost_ps(bytes, &mut random))
                .collect();
            drawn.sort_unstable();
            for share in [0.1, 0.5, 0.9, 0.99] {
                let found = drawn[(share * 20_000.0) as usize] as f64;
                let expected = share * 100_000.0 * factor;
                // Five standard errors of a quantile of a uniform distribution, and a step.
                let error = 5.0 * (share * (1.0 - share) / 20_000.0f64).sqrt() * 1e5 + 1000.0;
                assert!(
                    (found - expected).abs() < error * factor,
                    "{bytes}, {share}: {found}, {expected}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let refused = |points: &[(u64, f64)]| {
            let points = points.iter().map(|&(bytes, ps)| Point {
                bytes,
                times_ps: vec![ps],
            });
            Measured::new(points.collect()).is_err()
        };
        assert!(refused(&[]));
        assert!(refused(&[(1, 0.0)]));
        assert!(refused(&[(1, f64::NAN)]));
        assert!(refused(&[(1, 5.0), (1, 6.0)]));
        assert!(!refused(&[(1, 5.0), (2, 4.0)]));
    }
}
