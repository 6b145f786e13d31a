//! A whole database system: DuckDB under TPC-H's 22 queries, alone and with its scans pushed to an agent.
//!
//! ```text
//! segments ──database──▶ a DuckDB file ──stock──────┐
//!     │                                             ├──▶ Answer ──answers──▶ right, or the first row that differs
//!     └──source (here, or an agent)──▶ pushed ──────┘
//! ```
//!
//! * [`queries`]: the texts, the tables and the order of each query.
//! * [`answer`], [`answers`]: what comes back, as text; the answers that are known, and how two are compared.
//! * [`database`]: the file with all eight tables, made once from the segments.
//! * [`page_cache`]: a file dropped from it, and whether that came about.
//! * [`stock`]: DuckDB over its own file; [`fetch`]: over files that cross a link first.
//! * [`pushed`]: DuckDB over tables that a [`source`] scans, by [`filters`] that both understand.
//! * [`session`]: queries in a process of their own, asked line by line; what each run took.

pub mod answer;
pub mod answers;
pub mod database;
pub mod fetch;
pub mod filters;
pub mod page_cache;
pub mod pushed;
pub mod queries;
pub mod session;
pub mod source;
pub mod stock;
