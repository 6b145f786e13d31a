//! Times at which something arrives that nobody answers to: an open loop.

use dpb_core::random::SplitMix64;

use crate::kernel::SECOND_PS;

/// The gaps between arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// All the same.
    Constant,
    /// Exponentially distributed: arrivals that know nothing of each other (a Poisson process).
    Poisson,
}

impl Gaps {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Constant, Self::Poisson];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
        }
    }
}

/// A rate of arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Arrivals a second.
    pub per_s: f64,
    /// The gaps between them.
    pub gaps: Gaps,
}

/// The times of arrivals, one after another.
#[derive(Clone, Debug)]
pub struct Arrivals {
    rate: Rate,
    start_ps: u64,
    number: u64,
    next_ps: u64,
    random: SplitMix64,
}

impl Arrivals {
    /// Arrivals from this time on. Constant ones begin then, others a gap later.
    pub fn new(rate: Rate, start_ps: u64, seed: u64) -> Self {
        let mut arrivals = Self {
            rate,
            start_ps,
            number: 0,
            next_ps: start_ps,
            random: SplitMix64::new(seed),
        };
        if rate.gaps == Gaps::Poisson {
            arrivals.advance();
        }
        arrivals
    }

    /// The time of the next arrival, in picoseconds.
    pub fn next_ps(&self) -> u64 {
        self.next_ps
    }

    /// Goes on to the arrival behind it.
    pub fn advance(&mut self) {
        self.number += 1;
        let mean_ps = SECOND_PS as f64 / self.rate.per_s;
        self.next_ps = match self.rate.gaps {
            // From the start each time, so that roundings do not add up.
            Gaps::Constant => self.start_ps + (self.number as f64 * mean_ps).round() as u64,
            Gaps::Poisson => self.next_ps + exponential_ps(&mut self.random, mean_ps),
        };
    }
}

/// A time that is exponentially distributed with this mean, in picoseconds; the same on every machine, as its logarithm is computed in software.
pub fn exponential_ps(random: &mut SplitMix64, mean_ps: f64) -> u64 {
    (-libm::log(random.unit()) * mean_ps).round() as u64
}

/// Sizes of messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All the same.
    Fixed(u32),
    /// One of several, by weights.
    Weighted(Vec<(u32, f64)>),
}

impl Sizes {
    /// The next size.
    pub fn draw(&self, random: &mut SplitMix64) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Weighted(choices) => {
                let total: f64 = choices.iter().map(|(_, weight)| weight).sum();
                let mut left = random.unit() * total;
                let last = choices.last().map_or(0, |&(bytes, _)| bytes);
                let found = choices.iter().find(|(_, weight)| {
                    left -= weight;
                    left <= 0.0
                });
                found.map_or(last, |&(bytes, _)| bytes)
            }
        }
    }

    /// The longest.
    pub fn longest(&self) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Weighted(choices) => choices.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0),
        }
    }

    /// The shortest.
    pub fn shortest(&self) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Weighted(choices) => choices.iter().map(|&(bytes, _)| bytes).min().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps_ps(gaps: Gaps, count: usize) -> Vec<u64> {
        let rate = Rate { per_s: 3e6, gaps };
        let mut arrivals = Arrivals::new(rate, 1000, 9);
        let mut last_ps = 1000;
        (0..count)
            .map(|_| {
                let gap_ps = arrivals.next_ps() - last_ps;
                last_ps = arrivals.next_ps();
                arrivals.advance();
                gap_ps
            })
            .collect()
    }

    #[test]
    fn constant_arrivals_keep_the_rate_for_ever() {
        let gaps = gaps_ps(Gaps::Constant, 3_000_001);
        assert_eq!(gaps[0], 0);
        assert_eq!(gaps.iter().sum::<u64>(), SECOND_PS);
        assert!(gaps[1..].iter().all(|gap| gap.abs_diff(333_333) <= 1));
    }

    #[test]
    fn poisson_arrivals_have_the_moments_of_their_law() {
        let count = 200_000;
        let gaps = gaps_ps(Gaps::Poisson, count);
        let mean = gaps.iter().sum::<u64>() as f64 / count as f64;
        let square = gaps.iter().map(|&it| (it as f64).powi(2)).sum::<f64>() / count as f64;
        let expected = 1e12 / 3e6;
        // Five standard errors; an exponential law's deviation is its mean, and its second moment twice the square of that.
        let error = 5.0 / (count as f64).sqrt();
        assert!((mean / expected - 1.0).abs() < error, "{mean}");
        assert!((square / (2.0 * expected * expected) - 1.0).abs() < 20f64.sqrt() * error);
    }

    #[test]
    fn sizes_come_by_their_weights() {
        let sizes = Sizes::Weighted(vec![(22, 7.0), (548, 4.0), (1472, 1.0)]);
        let mut random = SplitMix64::new(3);
        let drawn: Vec<u32> = (0..120_000).map(|_| sizes.draw(&mut random)).collect();
        for (bytes, expected) in [(22, 70_000.0), (548, 40_000.0), (1472, 10_000.0)] {
            let count = drawn.iter().filter(|&&it| it == bytes).count() as f64;
            assert!(
                (count - expected).abs() < 5.0 * f64::sqrt(expected),
                "{count}"
            );
        }
        assert_eq!((sizes.shortest(), sizes.longest()), (22, 1472));
    }
}
