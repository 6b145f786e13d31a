//! The verbs, one file each.

pub mod ab;
pub mod compare;
pub mod completions;
pub mod data;
pub mod doctor;
pub mod import;
pub mod list;
pub mod op;
pub mod pushdown;
pub mod rdma;
pub mod report;
pub mod schema;
pub mod serve;
