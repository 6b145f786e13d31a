//! TPC-H: schemas, generation into segments.

mod schema;

pub use schema::{TABLES, schema};
