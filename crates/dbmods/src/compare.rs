//! Ways to answer one query compared: first whether they agree, then how long each takes.

#[cfg(any(test, feature = "testing"))]
pub mod differential;
pub mod digest;
#[cfg(any(test, feature = "testing"))]
pub mod random;
mod reference;
pub mod schemes;
pub mod task;
pub mod tpch_predicates;
pub mod workload;
