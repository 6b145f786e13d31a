//! Measuring: one harness for every backend, and the record that each test leaves.
//!
//! METHODOLOGY.md says what is timed and what is not.

pub mod record;

pub use record::{
    Check, Evidence, Outcome, Provenance, Record, Samples, Stability, Summary, Value,
};
