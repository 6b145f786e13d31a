//! Why a scheme has no run.

use std::io;

use crate::compare::digest::UnknownType;
use crate::duckdb;
use crate::scan::ScanError;
use crate::service::client::ClientError;

/// The reason why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum SchemeError {
    /// The agent, or the connection to it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// DuckDB on this side.
    #[error(transparent)]
    DuckDb(#[from] duckdb::Error),
    /// No DuckDB on this side.
    #[error(transparent)]
    NoDuckDb(#[from] duckdb::Missing),
    /// The query makes no sense.
    #[error(transparent)]
    Query(#[from] ScanError),
    /// The rows' types.
    #[error(transparent)]
    Digest(#[from] UnknownType),
    /// What the agent says contradicts what it said before.
    #[error("what the agent says cannot be: {0}")]
    Disbelieved(String),
    /// The agent scanned with fewer threads than the run is to be of.
    #[error(
        "the agent had {had} of {asked} threads left: other scans hold them, or its --threads is lower"
    )]
    TooFewThreads {
        /// Threads that scanned.
        had: u32,
        /// Threads that were asked for.
        asked: u32,
    },
    /// More rows came to be kept than there is room for.
    #[error("rows of more than {} MB came to be compared", .0 / 1_000_000)]
    TooMuchToKeep(u64),
    /// The agent cannot make its file cold.
    #[error("the agent cannot read its file anew: {0}")]
    NotCold(String),
    /// The fetched file has no place here.
    #[error("no place for a fetched file: {0}")]
    Scratch(io::Error),
}
