//! When packets are due, whatever became of those before them: the open loop.
//!
//! A sender that waits for its system sends less when the system is slow, and measures the latency of a load that it did not offer. So departures are
//! fixed beforehand, and what a late packet waited counts as its latency.

use dpb_core::Clock;
use dpb_core::measure::latency::Latencies;
use dpb_core::random::SplitMix64;

use super::TrafficError;

/// A process of departures, of which the mean rate is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// The same gap always.
    Constant {
        /// The rate.
        packets_per_s: f64,
    },
    /// Exponential gaps: senders that know nothing of each other.
    Poisson {
        /// The mean rate.
        packets_per_s: f64,
        /// Determines the gaps.
        seed: u64,
    },
    /// Bursts at a higher rate, and silence between them.
    Bursts {
        /// The mean rate, silence included.
        packets_per_s: f64,
        /// Packets of a burst.
        burst: u64,
        /// The rate inside a burst; infinite for packets that are all due at once.
        peak_packets_per_s: f64,
    },
}

/// A nanosecond, in the fixed point that gaps are kept in: rates are exact to one part in 2^32 of a nanosecond a packet.
const ONE_NS: f64 = (1u64 << 32) as f64;
/// Packets a second above which two are due in the same nanosecond everywhere.
const RATE_MAX: f64 = 1e9;

impl Schedule {
    /// A constant rate.
    pub const fn constant(packets_per_s: f64) -> Self {
        Self::Constant { packets_per_s }
    }

    /// The mean rate.
    pub fn packets_per_s(&self) -> f64 {
        match *self {
            Self::Constant { packets_per_s }
            | Self::Poisson { packets_per_s, .. }
            | Self::Bursts { packets_per_s, .. } => packets_per_s,
        }
    }

    /// The same process at another mean rate. Bursts keep their peak, or take the mean if it is above.
    #[must_use]
    pub fn at(self, rate: f64) -> Self {
        match self {
            Self::Constant { .. } => Self::constant(rate),
            Self::Poisson { seed, .. } => Self::Poisson {
                packets_per_s: rate,
                seed,
            },
            Self::Bursts {
                burst,
                peak_packets_per_s,
                ..
            } => Self::Bursts {
                packets_per_s: rate,
                burst,
                peak_packets_per_s: peak_packets_per_s.max(rate),
            },
        }
    }

    /// The departures, in nanoseconds from a start, the first at zero but for Poisson's.
    ///
    /// # Errors
    /// [`TrafficError::Schedule`].
    pub fn departures(&self) -> Result<Departures, TrafficError> {
        let packets_per_s = self.packets_per_s();
        let wrong = |burst| TrafficError::Schedule {
            packets_per_s,
            burst,
        };
        if !(packets_per_s > 0.0 && packets_per_s <= RATE_MAX) {
            return Err(wrong(1));
        }
        let gap = 1e9 / packets_per_s * ONE_NS;
        let process = match *self {
            Self::Constant { .. } => Process::Periodic {
                burst: 1,
                period: gap as u128,
                gap: 0,
            },
            Self::Poisson { seed, .. } => Process::Poisson {
                random: SplitMix64::new(seed),
                mean_ns: 1e9 / packets_per_s,
                at_ns: 0.0,
            },
            Self::Bursts {
                burst,
                peak_packets_per_s,
                ..
            } => {
                if burst == 0 || peak_packets_per_s.is_nan() || peak_packets_per_s < packets_per_s {
                    return Err(wrong(burst));
                }
                Process::Periodic {
                    burst,
                    period: (gap * burst as f64) as u128,
                    gap: (1e9 / peak_packets_per_s * ONE_NS) as u128,
                }
            }
        };
        Ok(Departures { process, next: 0 })
    }
}

/// Departures one after another, in nanoseconds from a start. They never end.
#[derive(Clone, Debug)]
pub struct Departures {
    process: Process,
    next: u64,
}

#[derive(Clone, Debug)]
enum Process {
    Periodic {
        burst: u64,
        /// From the start of a burst to the next one's, and from a packet to the next one in a burst, in 2^-32 ns.
        period: u128,
        gap: u128,
    },
    Poisson {
        random: SplitMix64,
        mean_ns: f64,
        at_ns: f64,
    },
}

impl Iterator for Departures {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let i = self.next;
        self.next += 1;
        Some(match &mut self.process {
            Process::Periodic { burst, period, gap } => {
                let (which, within) = match *burst {
                    1 => (i, 0),
                    burst => (i / burst, i % burst),
                };
                ((u128::from(which) * *period + u128::from(within) * *gap) >> 32) as u64
            }
            Process::Poisson {
                random,
                mean_ns,
                at_ns,
            } => {
                *at_ns += random.exponential(*mean_ns);
                *at_ns as u64
            }
        })
    }
}

/// Tells a sender that polls which packets are due, and keeps how late it asked.
///
/// The lateness of packets is the error of the schedule: that of the sender itself, before any system had a part in it.
#[derive(Debug)]
pub struct Pacer<D = Departures> {
    departures: D,
    next_ns: u64,
    /// Departures from here on are not part of it.
    end_ns: u64,
    start_ns: u64,
    errors: Latencies,
    late: u64,
    tolerance_ns: u64,
}

impl<D: Iterator<Item = u64>> Pacer<D> {
    /// Packets of `departures`, which do not go back, that are due before `duration_ns`, counted from `start_ns` of a clock. A packet that is asked for more than
    /// `tolerance_ns` after its departure counts as late.
    pub fn new(mut departures: D, start_ns: u64, duration_ns: u64, tolerance_ns: u64) -> Self {
        let next_ns = departures.next().unwrap_or(u64::MAX);
        Self {
            departures,
            next_ns,
            end_ns: duration_ns,
            start_ns,
            errors: Latencies::default(),
            late: 0,
            tolerance_ns,
        }
    }

    /// When the next packet is due, in nanoseconds from the start, without taking it; `None` after the last one.
    #[inline]
    pub fn peek_ns(&self) -> Option<u64> {
        (self.next_ns < self.end_ns).then_some(self.next_ns)
    }

    /// True if it is at its end, and there were more departures.
    pub fn is_cut(&self) -> bool {
        (self.end_ns..u64::MAX).contains(&self.next_ns)
    }

    /// Takes the next packet's departure, in nanoseconds from the start, due or not: to make its frame ahead of time.
    #[inline]
    pub fn take(&mut self) -> Option<u64> {
        let due_ns = self.peek_ns()?;
        self.next_ns = self.departures.next().unwrap_or(u64::MAX);
        Some(due_ns)
    }

    /// Nanoseconds from the start; zero before it.
    #[inline]
    pub fn elapsed_ns(&self, clock: &dyn Clock) -> u64 {
        clock.now_ns().saturating_sub(self.start_ns)
    }

    /// Says that a packet that was due at `due_ns` is offered to a port at `now_ns`, both from the start. It is not offered before.
    #[inline]
    pub fn offered(&mut self, due_ns: u64, now_ns: u64) {
        let late_ns = now_ns.saturating_sub(due_ns);
        self.errors.record(late_ns);
        self.late += u64::from(late_ns > self.tolerance_ns);
    }

    /// How long after their departures packets were offered.
    pub fn errors(&self) -> &Latencies {
        &self.errors
    }

    /// Packets that were late.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// What was kept.
    pub fn into_errors(self) -> Latencies {
        self.errors
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::VirtualClock;

    use super::*;

    fn first(schedule: Schedule, n: usize) -> Vec<u64> {
        schedule.departures().expect("a schedule").take(n).collect()
    }

    #[test]
    fn constant_rates_do_not_drift() {
        assert_eq!(first(Schedule::constant(1e6), 4), [0, 1000, 2000, 3000]);
        // 14.88 Mpps: 67.2 ns. After a billion packets the error is below a nanosecond.
        let rate = 1e10 / 672.0;
        let mut departures = Schedule::constant(rate).departures().expect("a schedule");
        departures.next = 1_000_000_000;
        let at = departures.next().expect("never ends") as f64;
        assert!((at - 67.2e9).abs() < 2.0, "{at}");
    }

    #[test]
    fn bursts_keep_the_mean() {
        let bursts = Schedule::Bursts {
            packets_per_s: 1e6,
            burst: 4,
            peak_packets_per_s: 1e7,
        };
        assert_eq!(
            first(bursts, 9),
            [0, 100, 200, 300, 4000, 4100, 4200, 4300, 8000]
        );
        let at_once = Schedule::Bursts {
            packets_per_s: 1e6,
            burst: 2,
            peak_packets_per_s: f64::INFINITY,
        };
        assert_eq!(first(at_once, 4), [0, 0, 2000, 2000]);
        assert_eq!(bursts.at(2e6).packets_per_s(), 2e6);
    }

    /// Means, and the share of gaps above the mean, which is 1/e; both within four of their spreads.
    #[test]
    fn poisson_gaps_are_exponential() {
        let n = 100_000;
        let poisson = Schedule::Poisson {
            packets_per_s: 1e6,
            seed: 5,
        };
        let at = first(poisson, n);
        let mean = at[n - 1] as f64 / n as f64;
        assert!(
            (mean - 1000.0).abs() < 4.0 * 1000.0 / (n as f64).sqrt(),
            "{mean}"
        );
        let long = at
            .windows(2)
            .filter(|pair| pair[1] - pair[0] >= 1000)
            .count();
        let share = long as f64 / n as f64;
        let spread = (0.368 * 0.632 / n as f64).sqrt();
        assert!((share - (-1f64).exp()).abs() < 4.0 * spread, "{share}");
        assert_eq!(at, first(poisson, n));
    }

    #[test]
    fn schedules_that_are_none() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Schedule::constant(rate).departures().is_err());
        }
        for (burst, peak_packets_per_s) in [(0, 1e7), (4, 1e5), (4, f64::NAN)] {
            let bursts = Schedule::Bursts {
                packets_per_s: 1e6,
                burst,
                peak_packets_per_s,
            };
            assert!(bursts.departures().is_err());
        }
    }

    #[test]
    fn a_pacer_says_how_late_it_is() {
        let clock = VirtualClock::new(false);
        clock.advance_to(500);
        let departures = Schedule::constant(1e6).departures().expect("a schedule");
        let mut pacer = Pacer::new(departures, 1000, 4000, 1500);
        assert_eq!(pacer.elapsed_ns(&clock), 0);
        clock.advance_to(4000);
        let mut taken = Vec::new();
        while let Some(due_ns) = pacer.take() {
            pacer.offered(due_ns, pacer.elapsed_ns(&clock));
            taken.push(due_ns);
        }
        // Due at 0, 1000, 2000 and 3000, asked for at 3000.
        assert_eq!(taken, [0, 1000, 2000, 3000]);
        assert_eq!((pacer.late(), pacer.errors().count()), (2, 4));
        assert!((3000..3010).contains(&pacer.errors().max_ns()));
    }
}
