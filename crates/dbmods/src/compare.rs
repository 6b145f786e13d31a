//! Ways to answer one query compared: first whether they agree, then how long each takes.

pub mod differential;
pub mod digest;
pub mod random;
pub mod reference;
pub mod schemes;
pub mod task;
pub mod tpch_predicates;
pub mod workload;
