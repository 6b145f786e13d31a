//! Database modules: predicate pushdown now; index and whole-DBMS modules meet the same seam later.

pub mod duckdb;
pub mod pushdown;
pub mod tpch;
