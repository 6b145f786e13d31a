//! Tails: the recorded times of service, drawn one by one, through as many lanes as there are, on virtual time. No formula gives the tail of a
//! queue whose service is neither exponential nor constant.

use dpb_core::measure::latency::Latencies;
use dpb_core::random::SplitMix64;
use dpb_sim::system::Server;

/// Picoseconds of a nanosecond.
const PS: f64 = 1000.0;
/// Jobs that are not counted: the queue begins empty.
const WARM_SHARE: usize = 10;
/// A queue that is longer than this falls behind.
const WAITING_MAX: usize = 1 << 20;
/// Steps of [`highest_rate`]: a thousandth of the way.
const STEPS: usize = 10;

/// Times of service to draw from, in nanoseconds: as many of each as the histogram has, at the thousandths of its jobs.
#[derive(Clone, Debug)]
pub struct Services {
    sorted_ns: Vec<f64>,
}

/// A replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// Jobs that arrive a second, with exponential gaps.
    pub jobs_per_s: f64,
    /// Lanes that serve them.
    pub lanes: u64,
    /// Jobs.
    pub jobs: usize,
    /// The seed of gaps and services.
    pub seed: u64,
}

/// Times from arrival to end, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// The mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
    /// The 99.9th percentile.
    pub p999_ns: f64,
}

impl Services {
    /// The times in a record's histogram (`samples.latency_ns.hdr`).
    ///
    /// # Errors
    /// The error in it, in words.
    pub fn of_base64(text: &str) -> Result<Self, String> {
        const DRAWN: u32 = 1000;
        let latencies = Latencies::from_base64(text)?;
        if latencies.count() == 0 {
            return Err("a histogram of no jobs".to_owned());
        }
        let at = |part: u32| {
            let share = (f64::from(part) + 0.5) / f64::from(DRAWN);
            latencies.percentile_ns(share) as f64
        };
        let mut sorted_ns: Vec<f64> = (0..DRAWN).map(at).collect();
        // The longest thousandth counts by its own longest.
        if let Some(last) = sorted_ns.last_mut() {
            *last = latencies.percentile_ns(0.9995) as f64;
        }
        Ok(Self { sorted_ns })
    }

    /// Times as they are. `None` without times, and if one is not above zero.
    pub fn of_times(mut times_ns: Vec<f64>) -> Option<Self> {
        times_ns.sort_unstable_by(f64::total_cmp);
        let first = times_ns.first()?;
        let are_times = *first > 0.0 && times_ns.iter().all(|time| time.is_finite());
        are_times.then_some(Self {
            sorted_ns: times_ns,
        })
    }

    /// The same, each time multiplied.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let times = self.sorted_ns.iter().map(|time| time * factor);
        Self {
            sorted_ns: times.collect(),
        }
    }

    /// The median.
    pub fn median_ns(&self) -> f64 {
        self.sorted_ns[self.sorted_ns.len() / 2]
    }

    /// The mean.
    pub fn mean_ns(&self) -> f64 {
        self.sorted_ns.iter().sum::<f64>() / self.sorted_ns.len() as f64
    }
}

impl Replay {
    /// Replays. `None` if the lanes cannot keep up, or there is nothing to replay: a queue that grows has no percentiles.
    pub fn of(&self, services: &Services) -> Option<Tail> {
        let gap_ps = 1e9 / self.jobs_per_s * PS;
        let load = self.jobs_per_s * services.mean_ns() / 1e9 / self.lanes as f64;
        if !gap_ps.is_finite() || load.is_nan() || load >= 1.0 || self.lanes == 0 || self.jobs < 100
        {
            return None;
        }
        let mut random = SplitMix64::new(self.seed);
        let mut station = Server::new(usize::try_from(self.lanes).ok()?, WAITING_MAX);
        let (mut now_ps, mut times_ns) = (0.0, Vec::with_capacity(self.jobs));
        for job in 0..self.jobs {
            now_ps += random.exponential(gap_ps);
            let drawn = services.sorted_ns[random.below(services.sorted_ns.len())];
            let arrived_ps = now_ps as u64;
            let served = station.serve(arrived_ps, (drawn * PS) as u64)?;
            if job >= self.jobs / WARM_SHARE {
                times_ns.push((served.end_ps - arrived_ps) as f64 / PS);
            }
        }
        times_ns.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            times_ns[((times_ns.len() as f64 * share) as usize).min(times_ns.len() - 1)]
        };
        Some(Tail {
            mean_ns: times_ns.iter().sum::<f64>() / times_ns.len() as f64,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
        })
    }
}

/// The highest rate at which the 99th percentile is at most `limit_ns`, in jobs a second; zero if it is longer whatever the rate.
pub fn highest_rate(services: &Services, lanes: u64, limit_ns: f64, jobs: usize, seed: u64) -> f64 {
    let meets = |jobs_per_s: f64| {
        let replay = Replay {
            jobs_per_s,
            lanes,
            jobs,
            seed,
        };
        let tail = replay.of(services);
        tail.is_some_and(|tail| tail.p99_ns <= limit_ns)
    };
    let full = lanes as f64 * 1e9 / services.mean_ns();
    let (mut meets_at, mut fails_at) = (0.0, full);
    if !meets(full / 1000.0) {
        return 0.0;
    }
    for _ in 0..STEPS {
        let middle = f64::midpoint(meets_at, fails_at);
        match meets(middle) {
            true => meets_at = middle,
            false => fails_at = middle,
        }
    }
    meets_at
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: usize = 400_000;

    fn exponential(mean_ns: f64) -> Services {
        let mut random = SplitMix64::new(3);
        let times = (0..200_000).map(|_| random.exponential(mean_ns)).collect();
        Services::of_times(times).expect("times")
    }

    fn replay(jobs_per_s: f64, lanes: u64) -> Replay {
        Replay {
            jobs_per_s,
            lanes,
            jobs: JOBS,
            seed: 5,
        }
    }

    /// M/M/1: times in the system are exponential with mean 1/(μ − λ) (Kleinrock, Queueing Systems, volume 1, section 5.8).
    #[test]
    fn one_lane_and_exponential_service_is_the_textbook() {
        let tail = replay(0.5e6, 1)
            .of(&exponential(1000.0))
            .expect("it keeps up");
        let mean = 2000.0;
        assert!((tail.mean_ns / mean - 1.0).abs() < 0.05, "{tail:?}");
        let p99 = mean * 100f64.ln();
        assert!((tail.p99_ns / p99 - 1.0).abs() < 0.07, "{tail:?} {p99}");
        let p50 = mean * 2f64.ln();
        assert!((tail.p50_ns / p50 - 1.0).abs() < 0.05, "{tail:?} {p50}");
    }

    /// M/D/1: Pollaczek and Khinchine's mean, s + ρ·s/(2·(1 − ρ)).
    #[test]
    fn constant_service_waits_half_as_long() {
        let services = Services::of_times(vec![1000.0]).expect("a time");
        let tail = replay(0.7e6, 1).of(&services).expect("it keeps up");
        let mean = 1000.0 + 0.7 * 1000.0 / (2.0 * 0.3);
        assert!((tail.mean_ns / mean - 1.0).abs() < 0.03, "{tail:?} {mean}");
        assert_eq!(replay(1.01e6, 1).of(&services), None, "more than it serves");
        assert!(replay(1.9e6, 2).of(&services).is_some());
    }

    #[test]
    fn the_highest_rate_meets_the_limit() {
        let services = exponential(1000.0);
        // M/M/1: p99 = ln(100)/(μ − λ), so λ = μ − ln(100)/limit.
        let limit_ns = 20_000.0;
        let known = 1e6 - 100f64.ln() / limit_ns * 1e9;
        let found = highest_rate(&services, 1, limit_ns, JOBS, 1);
        assert!((found / known - 1.0).abs() < 0.03, "{found} {known}");
        assert_eq!(highest_rate(&services, 1, 10.0, JOBS, 1), 0.0);
    }

    #[test]
    fn a_histogram_is_drawn_from_as_it_is() {
        let mut latencies = Latencies::default();
        (1..=10_000u64).for_each(|ns| latencies.record(ns * 100));
        let services = Services::of_base64(&latencies.to_base64()).expect("our own");
        assert!((services.mean_ns() / 500_050.0 - 1.0).abs() < 0.01);
        assert!((services.median_ns() / 500_000.0 - 1.0).abs() < 0.01);
        assert!(Services::of_base64("AAAA").is_err());
        assert!(Services::of_base64(&Latencies::default().to_base64()).is_err());
        assert!(Services::of_times(vec![1.0, f64::NAN]).is_none());
        assert!(Services::of_times(vec![0.0]).is_none());
    }
}
