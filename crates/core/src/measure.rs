//! Measuring: one harness for every backend, and the record that each test leaves.
//!
//! METHODOLOGY.md says what is timed and what is not.

pub mod comparison;
pub mod crossover;
pub mod harness;
pub mod import;
pub mod interference;
pub mod latency;
pub mod provenance;
pub mod ranks;
pub mod record;
pub mod statistics;
pub mod store;
pub mod turns;

pub use crate::Evidence;
pub use crossover::{Crossing, Crossover};
pub use harness::{Mode, Plan};
pub use interference::{CoreWaits, Interference, Watch};
pub use provenance::{Build, Machine};
pub use record::{Check, Outcome, Provenance, Record, Samples, Value};
pub use statistics::{Ratio, Stability, Summary};
pub use store::{Durability, Reading, Store};
