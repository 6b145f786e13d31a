//! The verbs, one file each.

pub mod ab;
mod agent;
pub mod clean;
pub mod compare;
pub mod completions;
pub mod data;
pub mod dbms;
pub mod doctor;
pub mod import;
pub mod index;
pub mod list;
pub mod memory;
pub mod net;
pub mod op;
mod peer;
pub mod pushdown;
pub mod query;
pub mod rdma;
pub mod replay;
pub mod report;
pub mod run;
pub mod schema;
pub mod serve;
pub mod storage;
mod sweep;
pub mod tcp;
pub mod tied;
