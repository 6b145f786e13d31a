//! Lateness of events: counts of times by their size, exact to a sixteenth.

/// A histogram of times in nanoseconds. Each power of two is cut into sixteen, so that a quantile is at most a sixteenth too large.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    counts: Vec<u64>,
    count: u64,
    max_ns: u64,
}

/// Steps of each power of two.
const STEPS: u32 = 16;

impl Lateness {
    /// Counts a time.
    pub fn add(&mut self, ns: u64) {
        let place = place(ns);
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Counts all that another has counted.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (own, more) in self.counts.iter_mut().zip(&other.counts) {
            *own += more;
        }
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The number of times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest time, in nanoseconds; 0 if there is none.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The least time, in nanoseconds and up to its step, that this share of all times does not exceed; `None` if there is none.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let place = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(last_of(place).min(self.max_ns))
    }
}

/// The step that a time is counted in.
fn place(ns: u64) -> usize {
    let bits = STEPS.trailing_zeros();
    if ns < u64::from(STEPS) {
        return ns as usize;
    }
    let shift = ns.ilog2() - bits;
    ((shift * STEPS) as u64 + (ns >> shift)) as usize
}

/// The longest time of a step.
fn last_of(place: usize) -> u64 {
    let steps = STEPS as usize;
    if place < 2 * steps {
        return place as u64;
    }
    let shift = place / steps - 1;
    let first = (place % steps + steps) as u64;
    (((u128::from(first) + 1) << shift) - 1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use dpb_core::random::SplitMix64;

    use super::*;

    #[test]
    fn every_time_lies_in_its_step() {
        let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for ns in edges.chain([u64::MAX]) {
            let place = place(ns);
            assert!(ns <= last_of(place), "{ns}");
            assert!(place == 0 || ns > last_of(place - 1), "{ns}");
            assert!(last_of(place) - ns <= ns / 16, "{ns}");
        }
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list() {
        let mut random = SplitMix64::new(1);
        let mut times: Vec<u64> = (0..5000).map(|_| random.next_u64() >> 40).collect();
        let mut lateness = [Lateness::default(), Lateness::default()];
        for (number, &ns) in times.iter().enumerate() {
            lateness[number % 2].add(ns);
        }
        let [mut all, more] = lateness;
        all.merge(&more);
        times.sort_unstable();
        assert_eq!((all.count(), all.max_ns()), (5000, times[4999]));
        for (share, rank) in [(0.5, 2500), (0.99, 4950), (0.999, 4995), (1.0, 5000)] {
            let (found, exact) = (all.quantile_ns(share).expect("some"), times[rank - 1]);
            assert!(found >= exact && found <= exact + exact / 16, "{share}");
        }
        assert_eq!(Lateness::default().quantile_ns(0.5), None);
    }
}
