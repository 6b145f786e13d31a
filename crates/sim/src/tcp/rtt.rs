//! The retransmission timer's length: RFC 6298, with the weights of RFC 7323 where each acknowledgement gives a sample.

/// The estimate of round trip times, in integers of picoseconds.
#[derive(Clone, Debug)]
pub(super) struct RoundTrips {
    smoothed_ps: Option<u64>,
    variation_ps: u64,
    granularity_ps: u64,
    minimum_ps: u64,
    maximum_ps: u64,
    timeout_ps: u64,
    doublings: u32,
    samples: u64,
}

impl RoundTrips {
    /// No sample yet: the timer is `initial_ps`. The clock that gives samples has ticks of `granularity_ps`.
    pub(super) fn new(
        initial_ps: u64,
        minimum_ps: u64,
        maximum_ps: u64,
        granularity_ps: u64,
    ) -> Self {
        Self {
            smoothed_ps: None,
            variation_ps: 0,
            granularity_ps,
            minimum_ps,
            maximum_ps,
            timeout_ps: initial_ps,
            doublings: 0,
            samples: 0,
        }
    }

    /// Takes a sample, one of `per_round_trip` that are expected in each round trip (RFC 7323, appendix G), and forgets backoff.
    pub(super) fn sample(&mut self, sample_ps: u64, per_round_trip: u64) {
        let share = per_round_trip.max(1);
        match self.smoothed_ps {
            None => {
                self.smoothed_ps = Some(sample_ps);
                self.variation_ps = sample_ps / 2;
            }
            Some(smoothed) => {
                let error = smoothed.abs_diff(sample_ps);
                self.variation_ps = toward(self.variation_ps, error, 4 * share);
                self.smoothed_ps = Some(toward(smoothed, sample_ps, 8 * share));
            }
        }
        self.samples += 1;
        self.doublings = 0;
        let smoothed = self.smoothed_ps.unwrap_or(sample_ps);
        let spread = self.granularity_ps.max(4 * self.variation_ps);
        self.timeout_ps = (smoothed + spread).clamp(self.minimum_ps, self.maximum_ps);
    }

    /// Doubles the timer, as it expired.
    pub(super) fn back_off(&mut self) {
        self.doublings += 1;
    }

    /// Sets the timer where the handshake needed a retransmission and gave no sample (RFC 6298, rule 5.7).
    pub(super) fn start_data_after_lost_syn(&mut self) {
        if self.smoothed_ps.is_none() {
            self.timeout_ps = self.timeout_ps.max(3_000_000_000_000).min(self.maximum_ps);
            self.doublings = 0;
        }
    }

    /// The timer's length with backoff.
    pub(super) fn timeout_ps(&self) -> u64 {
        let doubled = u128::from(self.timeout_ps) << self.doublings.min(40);
        doubled.min(u128::from(self.maximum_ps)) as u64
    }

    /// The smoothed round trip time.
    pub(super) fn smoothed_ps(&self) -> Option<u64> {
        self.smoothed_ps
    }

    /// The number of samples.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }
}

/// `old` moved by a `parts`-th of its distance to `new`, rounded towards `new` so that it arrives.
fn toward(old: u64, new: u64, parts: u64) -> u64 {
    let step = old.abs_diff(new).div_ceil(parts);
    if new >= old { old + step } else { old - step }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000;

    fn round_trips() -> RoundTrips {
        RoundTrips::new(1000 * MS, MS, 120_000 * MS, 1)
    }

    #[test]
    fn follows_rfc_6298_section_2() {
        let mut trips = round_trips();
        assert_eq!(trips.timeout_ps(), 1000 * MS);
        trips.sample(100 * MS, 1);
        // SRTT = R, RTTVAR = R / 2, RTO = SRTT + 4 RTTVAR.
        assert_eq!(trips.timeout_ps(), 300 * MS);
        trips.sample(180 * MS, 1);
        // RTTVAR = 3/4 50 + 1/4 80 = 57.5; SRTT = 7/8 100 + 1/8 180 = 110; RTO = 110 + 230.
        assert_eq!(trips.smoothed_ps(), Some(110 * MS));
        assert_eq!(trips.timeout_ps(), 340 * MS);
    }

    #[test]
    fn doubles_up_to_the_maximum_and_a_sample_ends_it() {
        let mut trips = round_trips();
        trips.sample(100 * MS, 1);
        for expected in [600, 1200, 2400] {
            trips.back_off();
            assert_eq!(trips.timeout_ps(), expected * MS);
        }
        for _ in 0..100 {
            trips.back_off();
        }
        assert_eq!(trips.timeout_ps(), 120_000 * MS);
        trips.sample(100 * MS, 1);
        assert!(trips.timeout_ps() < 300 * MS);
    }

    #[test]
    fn converges_on_a_constant_and_never_falls_below_the_minimum() {
        let mut trips = round_trips();
        for _ in 0..10_000 {
            trips.sample(10 * MS, 1);
        }
        assert_eq!(trips.smoothed_ps(), Some(10 * MS));
        assert!(trips.timeout_ps() <= 10 * MS + 4);
        for _ in 0..10_000 {
            trips.sample(MS / 1000, 1);
        }
        assert_eq!(trips.timeout_ps(), MS);
    }

    #[test]
    fn many_samples_a_round_trip_weigh_as_one() {
        let (mut one, mut many) = (round_trips(), round_trips());
        one.sample(100 * MS, 1);
        many.sample(100 * MS, 10);
        one.sample(200 * MS, 1);
        for _ in 0..10 {
            many.sample(200 * MS, 10);
        }
        let (one, many) = (one.smoothed_ps().unwrap(), many.smoothed_ps().unwrap());
        assert!(one.abs_diff(many) < MS, "{one} and {many}");
    }
}
