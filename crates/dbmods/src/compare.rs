//! Ways to answer one query compared: first whether they agree, then how long each takes.

#[cfg(any(test, feature = "testing"))]
pub mod differential;
pub mod digest;
#[cfg(any(test, feature = "testing"))]
pub mod random;
pub mod tpch_predicates;
pub mod workload;

mod consumer;
mod error;
pub(crate) mod fetched_file;
mod reference;
mod run;
mod scheme;
mod side;
mod sweep;

pub use consumer::{Consumer, KEPT_BYTES_MAX, Kept};
pub use error::SchemeError;
pub use run::SchemeRun;
pub use scheme::Scheme;
pub use side::{SchemeSide, Test, fetch_shortage};
pub use sweep::{Contender, Question, SchemeResult, Sweep, SweepEnd, SweepEvent, TASK};
