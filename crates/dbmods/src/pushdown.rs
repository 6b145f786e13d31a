//! Predicate pushdown (dpBento, "predicate pushdown"): scan where the data is, ship what qualifies.
//!
//! ```text
//! SQL text ──sql──▶ Query (query.rs) ──wire──▶ serve ──scan──▶ Arrow batches ──wire──▶ client
//!                                               │
//!                          segment file ─ cache ┘
//! ```

pub mod arena;
pub mod bulk;
pub mod cache;
pub mod chunk;
pub mod client;
pub mod date;
pub mod differential;
pub mod digest;
pub mod encode;
pub mod eval;
pub mod link;
pub mod pack;
pub mod query;
pub mod random;
pub mod reference;
pub mod scan;
pub mod schema;
pub mod schemes;
pub mod segment;
pub mod selectivity;
pub mod serve;
pub mod sql;
pub mod task;
mod text;
pub mod tpch_predicates;
pub mod usage;
pub mod wire;
