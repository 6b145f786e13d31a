//! Tails: the recorded times of service, drawn one by one, through as many lanes as there are, on virtual time. No formula gives the tail of a
//! queue whose service is neither exponential nor constant.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
    /// Lanes that serve them; `None` for one for each job.
    pub lanes: Option<u64>,
    /// The way to the lanes and back.
    pub transfer: Transfer,
    /// Jobs.
    pub jobs: usize,
    /// The seed of gaps and services.
    pub seed: u64,
}

/// A link to the lanes and back, one queue in each direction: what a job needs of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// The time that a job occupies it, in nanoseconds.
    pub in_ns: f64,
    /// The time that its result does, in the other direction.
    pub out_ns: f64,
    /// The round trip of the first byte.
    pub round_trip_ns: f64,
}

impl Transfer {
    /// The time of one job alone.
    pub fn alone_ns(&self) -> f64 {
        self.in_ns + self.out_ns + self.round_trip_ns
    }

    /// The least time between two jobs: both directions carry at once.
    pub fn gap_ns(&self) -> f64 {
        self.in_ns.max(self.out_ns)
    }
}

/// Customers that each think, have a job done, and think again: cores that wait for what they offload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circle {
    /// Customers.
    pub customers: u64,
    /// The mean time between a result and the next job, in nanoseconds, exponential.
    pub think_ns: f64,
    /// Lanes that serve jobs.
    pub lanes: u64,
    /// Jobs.
    pub jobs: usize,
    /// The seed of pauses and services.
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
    /// The times in the histograms of records of one load (`samples.latency_ns.hdr`).
    ///
    /// # Errors
    /// The error in them, in words.
    pub fn of_base64(texts: &[String]) -> Result<Self, String> {
        const DRAWN: u32 = 1000;
        let mut latencies = Latencies::default();
        for text in texts {
            latencies.add(&Latencies::from_base64(text)?);
        }
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

    /// The times of jobs of several kinds, each with its share.
    pub fn mixed(kinds: &[(Self, f64)]) -> Self {
        const DRAWN: f64 = 10_000.0;
        let mut sorted_ns = Vec::new();
        for (kind, share) in kinds {
            let count = (share * DRAWN).round();
            let times = (0..count as usize).map(|at| {
                let place = (at as f64 + 0.5) / count * kind.sorted_ns.len() as f64;
                kind.sorted_ns[(place as usize).min(kind.sorted_ns.len() - 1)]
            });
            sorted_ns.extend(times);
        }
        sorted_ns.sort_unstable_by(f64::total_cmp);
        Self { sorted_ns }
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
    /// Replays. `None` if the lanes or the link cannot keep up, or there is nothing to replay: a queue that grows has no percentiles.
    pub fn of(&self, services: &Services) -> Option<Tail> {
        let gap_ps = 1e9 / self.jobs_per_s * PS;
        let load = self.jobs_per_s / self.full(services);
        if !gap_ps.is_finite() || load.is_nan() || load >= 1.0 || self.jobs < 100 {
            return None;
        }
        let mut random = SplitMix64::new(self.seed);
        let [mut way_in, mut way_out] = [(); 2].map(|()| Server::new(1, WAITING_MAX));
        let mut station = match self.lanes {
            Some(lanes) => Some(Server::new(usize::try_from(lanes).ok()?, WAITING_MAX)),
            None => None,
        };
        let [in_ps, out_ps, round_trip_ps] = [
            self.transfer.in_ns,
            self.transfer.out_ns,
            self.transfer.round_trip_ns,
        ]
        .map(|ns| (ns * PS) as u64);
        let (mut now_ps, mut done) = (0.0, Vec::with_capacity(self.jobs));
        for _ in 0..self.jobs {
            now_ps += random.exponential(gap_ps);
            let drawn = services.sorted_ns[random.below(services.sorted_ns.len())];
            let (arrived_ps, drawn_ps) = (now_ps as u64, (drawn * PS) as u64);
            let there_ps = way_in.serve(arrived_ps, in_ps)?.end_ps;
            let end_ps = match &mut station {
                Some(station) => station.serve(there_ps, drawn_ps)?.end_ps,
                None => there_ps + drawn_ps,
            };
            done.push((end_ps, arrived_ps));
        }
        let counted_ps = done[self.jobs / WARM_SHARE].1;
        // Results go back in the order in which they are there.
        done.sort_unstable();
        let mut times_ps = Vec::with_capacity(self.jobs);
        for (end_ps, arrived_ps) in done {
            let back_ps = way_out.serve(end_ps, out_ps)?.end_ps + round_trip_ps;
            if arrived_ps >= counted_ps {
                times_ps.push(back_ps - arrived_ps);
            }
        }
        let count = times_ps.len();
        let sum_ps: u128 = times_ps.iter().map(|&ps| u128::from(ps)).sum();
        let mut at = |share: f64| {
            let rank = ((count as f64 * share) as usize).min(count - 1);
            *times_ps.select_nth_unstable(rank).1 as f64 / PS
        };
        Some(Tail {
            mean_ns: sum_ps as f64 / PS / count as f64,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
        })
    }

    /// Jobs a second at which lanes or link are always busy; infinite where there is neither.
    fn full(&self, services: &Services) -> f64 {
        let by_lanes = match self.lanes {
            Some(lanes) => lanes as f64 * 1e9 / services.mean_ns(),
            None => f64::INFINITY,
        };
        by_lanes.min(1e9 / self.transfer.gap_ns())
    }

    /// The highest rate at which the 99th percentile is at most `limit_ns`, in jobs a second, whatever its own rate; zero if it is longer at any, infinite
    /// if there is none at which it is longer.
    pub fn highest_rate(&self, services: &Services, limit_ns: f64) -> f64 {
        let meets = |jobs_per_s: f64| {
            let tail = Self {
                jobs_per_s,
                ..*self
            }
            .of(services);
            tail.is_some_and(|tail| tail.p99_ns <= limit_ns)
        };
        let full = self.full(services);
        if full.is_infinite() {
            let rare = 1.0;
            return if meets(rare) { f64::INFINITY } else { 0.0 };
        }
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
}

impl Circle {
    /// The mean time that a job waits for a lane, in nanoseconds.
    pub fn waited_ns(&self, services: &Services) -> f64 {
        if self.lanes >= self.customers {
            return 0.0;
        }
        let mut random = SplitMix64::new(self.seed);
        let mut lanes = Server::new(self.lanes.max(1) as usize, WAITING_MAX);
        let think_ps = self.think_ns * PS;
        let pause_ps = |random: &mut SplitMix64| random.exponential(think_ps) as u64;
        let mut next: BinaryHeap<Reverse<u64>> = (0..self.customers)
            .map(|_| Reverse(pause_ps(&mut random)))
            .collect();
        let (mut waited_ps, mut counted) = (0.0, 0usize);
        for job in 0..self.jobs {
            let Some(Reverse(now_ps)) = next.pop() else {
                break;
            };
            let drawn = services.sorted_ns[random.below(services.sorted_ns.len())];
            let Some(served) = lanes.serve(now_ps, (drawn * PS) as u64) else {
                return f64::INFINITY;
            };
            if job >= self.jobs / WARM_SHARE {
                waited_ps += (served.begin_ps - now_ps) as f64;
                counted += 1;
            }
            next.push(Reverse(served.end_ps + pause_ps(&mut random)));
        }
        waited_ps / PS / counted.max(1) as f64
    }
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
            lanes: Some(lanes),
            transfer: Transfer::default(),
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

    /// A link is one queue in each direction, however many lanes are behind it: M/D/1 again, and the round trip is nobody's queue.
    #[test]
    fn lanes_share_their_link() {
        let services = Services::of_times(vec![10.0]).expect("a time");
        let by = |transfer: Transfer| {
            let replay = Replay {
                lanes: Some(16),
                transfer,
                ..replay(0.7e6, 1)
            };
            replay.of(&services)
        };
        let waited = 1000.0 + 0.7 * 1000.0 / (2.0 * 0.3);
        for (in_ns, out_ns) in [(1000.0, 0.0), (0.0, 1000.0)] {
            let transfer = Transfer {
                in_ns,
                out_ns,
                round_trip_ns: 5000.0,
            };
            let tail = by(transfer).expect("it keeps up");
            let mean = waited + 10.0 + 5000.0;
            assert!((tail.mean_ns / mean - 1.0).abs() < 0.03, "{tail:?} {mean}");
        }
        let too_slow = Transfer {
            out_ns: 1500.0,
            ..Transfer::default()
        };
        assert_eq!(by(too_slow), None);
    }

    /// M/M/1//K (Kleinrock, Queueing Systems, volume 1, section 3.8): of K customers with pauses Z and services S, both exponential, the lane is free with
    /// the probability 1/Σ K!/(K−n)!·(S/Z)ⁿ, and the rest follows by Little.
    #[test]
    fn who_waits_for_a_result_waits_for_a_lane() {
        let circle = Circle {
            customers: 5,
            think_ns: 4000.0,
            lanes: 1,
            jobs: JOBS,
            seed: 5,
        };
        let (mut sum, mut term) = (0.0, 1.0);
        for n in 0..=5 {
            sum += term;
            term *= f64::from(5 - n) * 0.25;
        }
        let jobs_per_ns = (1.0 - 1.0 / sum) / 1000.0;
        let known = 5.0 / jobs_per_ns - 4000.0 - 1000.0;
        let found = circle.waited_ns(&exponential(1000.0));
        assert!((found / known - 1.0).abs() < 0.03, "{found} {known}");
        let enough = Circle { lanes: 5, ..circle };
        assert_eq!(enough.waited_ns(&exponential(1000.0)), 0.0);
    }

    #[test]
    fn kinds_are_drawn_by_their_shares() {
        let [short, long] = [100.0, 1000.0].map(|ns| Services::of_times(vec![ns]).expect("a time"));
        let mixed = Services::mixed(&[(short, 0.75), (long, 0.25)]);
        assert!((mixed.mean_ns() - 325.0).abs() < 1e-9);
        assert_eq!(mixed.median_ns(), 100.0);
    }

    #[test]
    fn the_highest_rate_meets_the_limit() {
        let services = exponential(1000.0);
        // M/M/1: p99 = ln(100)/(μ − λ), so λ = μ − ln(100)/limit.
        let limit_ns = 20_000.0;
        let known = 1e6 - 100f64.ln() / limit_ns * 1e9;
        let found = replay(1.0, 1).highest_rate(&services, limit_ns);
        assert!((found / known - 1.0).abs() < 0.03, "{found} {known}");
        assert_eq!(replay(1.0, 1).highest_rate(&services, 10.0), 0.0);
        let endless = Replay {
            lanes: None,
            ..replay(1.0, 1)
        };
        assert_eq!(endless.highest_rate(&services, 10.0), 0.0);
        assert_eq!(endless.highest_rate(&services, limit_ns), f64::INFINITY);
    }

    #[test]
    fn a_histogram_is_drawn_from_as_it_is() {
        let mut latencies = Latencies::default();
        (1..=10_000u64).for_each(|ns| latencies.record(ns * 100));
        let services = Services::of_base64(&[latencies.to_base64()]).expect("our own");
        assert!((services.mean_ns() / 500_050.0 - 1.0).abs() < 0.01);
        assert!((services.median_ns() / 500_000.0 - 1.0).abs() < 0.01);
        assert!(Services::of_base64(&["AAAA".to_owned()]).is_err());
        assert!(Services::of_base64(&[Latencies::default().to_base64()]).is_err());
        assert!(Services::of_times(vec![1.0, f64::NAN]).is_none());
        assert!(Services::of_times(vec![0.0]).is_none());
    }
}
