//! Times of single jobs, in an HDR histogram (three significant digits, up to an hour).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// The longest time that is told apart, in nanoseconds.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds. Recording allocates nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds as the crate wants them"))
    }
}

impl Latencies {
    /// Counts one job. Zero counts as one nanosecond, more than an hour as an hour.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Self) {
        self.0
            .add(&other.0)
            .expect("all have the same bounds and precision");
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// The number of jobs.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that `share` (0.99 for p99) of the jobs did not exceed. Zero if there were none.
    pub fn percentile_ns(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// The longest.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// HDR's own format (V2, compressed), in base64, as records keep it.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .expect("a vector takes everything");
        STANDARD.encode(bytes)
    }

    /// Reads what [`Latencies::to_base64`] wrote.
    ///
    /// # Errors
    /// What is wrong with `text`.
    pub fn from_base64(text: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
        let read: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| format!("{error:?}"))?;
        let mut latencies = Self::default();
        latencies
            .0
            .add(&read)
            .map_err(|error| format!("{error:?}"))?;
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_keep_three_digits_through_base64() {
        let mut latencies = Latencies::default();
        (1..=100_000).for_each(|ns| latencies.record(ns * 1000));
        let back = Latencies::from_base64(&latencies.to_base64()).expect("our own");
        assert_eq!(back, latencies);
        assert_eq!(back.count(), 100_000);
        for (share, exact) in [(0.5, 5e7), (0.99, 9.9e7), (1.0, 1e8)] {
            let found = back.percentile_ns(share) as f64;
            assert!((found / exact - 1.0).abs() < 0.001, "{share}: {found}");
        }
        assert!(Latencies::from_base64("AAAA").is_err());
        assert!(Latencies::from_base64("not base64").is_err());
    }

    #[test]
    fn extremes_are_kept() {
        let mut latencies = Latencies::default();
        latencies.record(0);
        latencies.record(u64::MAX);
        assert_eq!(latencies.count(), 2);
        assert!(latencies.max_ns() >= LONGEST_NS);
    }
}
