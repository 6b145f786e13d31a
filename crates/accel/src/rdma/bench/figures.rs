//! What was measured, as it was seen: each sample, each stamp.

/// Times of single requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Samples in nanoseconds, in the order in which they were taken; of a ping-pong half of the way there and back.
    pub samples_ns: Vec<f64>,
}

/// All samples in a few figures, in nanoseconds. Quantiles are samples: the lowest that so large a part is not above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The lowest.
    pub min_ns: f64,
    /// The mean of all samples.
    pub mean_ns: f64,
    /// The standard deviation of all samples, as of a population.
    pub deviation_ns: f64,
    /// Half are not above.
    pub p50_ns: f64,
    /// 99 % are not above.
    pub p99_ns: f64,
    /// 99.9 % are not above.
    pub p999_ns: f64,
    /// The highest.
    pub max_ns: f64,
}

impl Latency {
    /// Latencies from the stamps before each post: the time between two stamps is that of `ways` ways.
    pub(super) fn between(stamps_ns: &[u64], ways: f64) -> Self {
        let samples_ns = stamps_ns
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 / ways);
        Self {
            samples_ns: samples_ns.collect(),
        }
    }

    /// Lowest first.
    pub(super) fn sorted_ns(&self) -> Vec<f64> {
        let mut sorted = self.samples_ns.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// All samples in a few figures; `None` if there are none.
    pub fn summary(&self) -> Option<Summary> {
        let sorted = self.sorted_ns();
        let count = sorted.len();
        let quantile = |part: f64| {
            let rank = (part * count as f64).ceil() as usize;
            sorted.get(rank.max(1) - 1).copied()
        };
        let mean_ns = sorted.iter().sum::<f64>() / count as f64;
        let squares = sorted.iter().map(|sample| (sample - mean_ns).powi(2));
        Some(Summary {
            min_ns: *sorted.first()?,
            mean_ns,
            deviation_ns: (squares.sum::<f64>() / count as f64).sqrt(),
            p50_ns: quantile(0.5)?,
            p99_ns: quantile(0.99)?,
            p999_ns: quantile(0.999)?,
            max_ns: *sorted.last()?,
        })
    }
}

/// The times at which requests were posted, and at which how many were seen done.
#[derive(Clone, Debug, PartialEq)]
pub struct Bandwidth {
    /// Bytes of a message.
    pub size_bytes: u32,
    /// The time of each message's post in order, or of the first alone, in nanoseconds of one clock.
    pub posted_ns: Vec<u64>,
    /// Messages done so far, and when that was seen; of received ones not the first, which starts the clock.
    pub completed_ns: Vec<(u64, u64)>,
}

impl Bandwidth {
    /// Messages done.
    pub fn messages(&self) -> u64 {
        self.completed_ns.last().map_or(0, |&(count, _)| count)
    }

    /// Messages a second, from the first post to the last completion. `None` if no time passed.
    pub fn messages_per_s(&self) -> Option<f64> {
        let (&first, &(count, last)) = (self.posted_ns.first()?, self.completed_ns.last()?);
        rate(count, first, last)
    }

    /// Bytes a second, likewise.
    pub fn bytes_per_s(&self) -> Option<f64> {
        Some(self.messages_per_s()? * f64::from(self.size_bytes))
    }

    /// Messages a second between the post and the completion where it is highest: what perftest calls peak. Messages have to
    /// be posted one by one for this; where only the first is known, it is the rate overall.
    ///
    /// The highest of all quotients (count) / (time) is found by raising a rate until no pair exceeds it (Dinkelbach 1967),
    /// each step in one pass, rather than by looking at all pairs.
    pub fn peak_messages_per_s(&self) -> Option<f64> {
        let mut best = self.messages_per_s()?;
        if self.posted_ns.len() == 1 {
            return Some(best);
        }
        while let Some(higher) = self.exceeding(best) {
            best = higher;
        }
        Some(best)
    }

    /// The rate of the pair that exceeds `per_s` by most messages, if one does.
    fn exceeding(&self, per_s: f64) -> Option<f64> {
        let per_ns = per_s / 1e9;
        let start = *self.posted_ns.first()?;
        let surplus = |count: u64, at: u64| count as f64 - per_ns * (at - start) as f64;
        let mut posted = self.posted_ns.iter().zip(0_u64..).peekable();
        let mut lowest = (f64::INFINITY, 0, start);
        let mut most = (1e-9, None);
        for &(count, at) in &self.completed_ns {
            while let Some((&post, number)) = posted.next_if(|&(_, number)| number < count) {
                let level = surplus(number, post.max(start));
                if level < lowest.0 {
                    lowest = (level, number, post);
                }
            }
            let gain = surplus(count, at) - lowest.0;
            if gain > most.0 {
                most = (gain, rate(count - lowest.1, lowest.2, at));
            }
        }
        most.1.filter(|&higher| higher > per_s)
    }
}

fn rate(count: u64, from_ns: u64, to_ns: u64) -> Option<f64> {
    let ns = to_ns.checked_sub(from_ns).filter(|&ns| ns > 0)?;
    Some(count as f64 * 1e9 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpb_core::random::SplitMix64;

    #[test]
    fn no_sample_is_left_out() {
        let samples_ns = (1..=1000).rev().map(f64::from).collect();
        let summary = Latency { samples_ns }.summary().expect("samples");
        assert_eq!((summary.min_ns, summary.max_ns), (1.0, 1000.0));
        assert_eq!((summary.p50_ns, summary.p99_ns), (500.0, 990.0));
        assert_eq!((summary.p999_ns, summary.mean_ns), (999.0, 500.5));
        assert!((summary.deviation_ns - 288.675).abs() < 1e-3);
        let one = Latency {
            samples_ns: vec![7.0],
        };
        let one = one.summary().expect("a sample");
        assert_eq!((one.min_ns, one.p999_ns, one.deviation_ns), (7.0, 7.0, 0.0));
        assert_eq!(Latency { samples_ns: vec![] }.summary(), None);
    }

    #[test]
    fn the_peak_is_that_of_all_pairs() {
        let mut random = SplitMix64::new(5);
        for run in 0..200 {
            let mut now = 1000;
            let mut step = |most| {
                now += 1 + random.below(most) as u64;
                now
            };
            let (mut posted_ns, mut completed_ns) = (Vec::new(), Vec::new());
            let every = 1 + run % 4;
            for message in 1..=60 {
                posted_ns.push(step(50));
                if message % every == 0 || message == 60 {
                    completed_ns.push((message, step(900)));
                }
            }
            let measured = Bandwidth {
                size_bytes: 64,
                posted_ns: posted_ns.clone(),
                completed_ns: completed_ns.clone(),
            };
            let pairs = completed_ns.iter().flat_map(|&(count, at)| {
                let earlier = posted_ns.iter().zip(0..).take(count as usize);
                earlier.filter_map(move |(&post, number)| rate(count - number, post, at))
            });
            let highest = pairs.fold(0.0, f64::max);
            let peak = measured.peak_messages_per_s().expect("time passed");
            assert!((peak / highest - 1.0).abs() < 1e-9, "{peak} {highest}");
        }
    }
}
