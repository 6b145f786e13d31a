//! What a run asks for, and why it may be refused.

use super::key::RECORDS_MAX;
use super::workload::{Distribution, Mix, Workload};

/// The requests of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// Shares of the kinds of requests.
    pub mix: Mix,
    /// How often each record is asked for.
    pub distribution: Distribution,
    /// Records that are loaded before the first request: numbers `0..records`.
    pub records: u64,
    /// Requests of all threads, about (YCSB's `operationcount`). The zipfian distribution spreads its popular records over the records that
    /// are loaded and twice those that so many requests insert, so that inserts do not move the popular ones. A mix without inserts does not use it.
    pub requests: u64,
    /// Records of a scan, at most. The lengths are uniform from 1.
    pub scan_rows_max: u32,
}

impl Spec {
    /// A core workload over `records` loaded records, for about `requests` requests of all threads. Scans take 1 to 100 records.
    pub const fn new(workload: Workload, records: u64, requests: u64) -> Self {
        Self {
            mix: workload.mix(),
            distribution: workload.distribution(),
            records,
            requests,
            scan_rows_max: 100,
        }
    }

    /// Records that YCSB expects to be inserted: twice the share of inserts among the requests.
    pub fn inserts_expected(&self) -> u64 {
        let weights: f64 = self.mix.weights().iter().sum();
        (self.requests as f64 * (self.mix.insert / weights) * 2.0) as u64
    }

    /// That a generator can draw these requests.
    ///
    /// # Errors
    ///
    /// Each [`SpecError`] that applies, the first.
    pub fn validate(&self) -> Result<(), SpecError> {
        let weights = self.mix.weights();
        let sum: f64 = weights.iter().sum();
        if weights
            .iter()
            .any(|weight| weight.is_nan() || *weight < 0.0)
            || !(sum > 0.0 && sum.is_finite())
        {
            return Err(SpecError::Mix(self.mix));
        }
        if self.records == 0 {
            return Err(SpecError::NoRecords);
        }
        if self.mix.scan > 0.0 && self.scan_rows_max == 0 {
            return Err(SpecError::NoRows);
        }
        let records = self.records.saturating_add(self.inserts_expected());
        if records > RECORDS_MAX {
            return Err(SpecError::TooManyRecords { records });
        }
        Ok(())
    }
}

/// Why requests cannot be drawn.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The shares do not make a mix.
    #[error("the shares {:?} of a mix must be 0 or more, finite, and one above 0", .0.weights())]
    Mix(Mix),
    /// There is nothing to ask for.
    #[error("there are no records; load at least one")]
    NoRecords,
    /// Scans would take nothing.
    #[error("scans take at most 0 records; let them take 1 or more")]
    NoRows,
    /// More records than are known to have distinct keys.
    #[error(
        "{records} records, counting twice the inserts that are expected; keys are known to differ among {RECORDS_MAX} records"
    )]
    TooManyRecords {
        /// Records that were asked for.
        records: u64,
    },
}
