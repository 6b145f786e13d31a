//! Database modules: predicate pushdown now; index and whole-DBMS modules meet the same seam later.
//!
//! Predicate pushdown (dpBento, "predicate pushdown") scans where the data is and ships what qualifies. The modules stand in
//! the order in which data passes them; each uses only those before it.
//!
//! ```text
//! SQL text ──query──▶ Query ──service──▶ agent ──scan──▶ Arrow batches ──service──▶ client ──compare──▶ a record
//!                                          │
//!                       segment ──table────┘
//! ```
//!
//! * [`schema`], [`query`]: tables, types and the IR of a query; SQL to it and back; the reference evaluator.
//! * [`ipc`]: record batches as messages.
//! * [`table`]: the file format, byte by byte, and verified chunks in memory.
//! * [`scan`]: predicates on packed data, late materialisation, aggregates.
//! * [`service`]: the protocol, the agent, its client, and the link between them.
//! * [`compare`]: ways to answer one query, checked against each other, then timed.
//! * [`tpch`] fills tables; [`duckdb`] is the peer, loaded at run time.

pub mod compare;
pub mod duckdb;
pub mod ipc;
pub mod query;
pub mod scan;
pub mod schema;
pub mod service;
pub mod table;
pub mod tpch;
