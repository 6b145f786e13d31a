//! The ways to answer one query from another machine's table, by their names and files.

use crate::service::protocol::FileFormat;

/// A way to answer a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// The paper's baseline, with DuckDB's own file.
    FetchDuckDb,
    /// The same with a Parquet file.
    FetchParquet,
    /// dpBento's pushdown.
    DuckDbAtDpu,
    /// Ours.
    Dpb,
}

impl Scheme {
    /// All of them, baseline first.
    pub const ALL: [Self; 4] = [
        Self::FetchDuckDb,
        Self::FetchParquet,
        Self::DuckDbAtDpu,
        Self::Dpb,
    ];

    /// The scheme's name on the command line and in records; both kinds of fetch are `fetch`.
    pub fn name(self) -> &'static str {
        match self {
            Self::FetchDuckDb | Self::FetchParquet => "fetch",
            Self::DuckDbAtDpu => "duckdb-at-dpu",
            Self::Dpb => "dpb",
        }
    }

    /// The file that it reads.
    pub fn format(self) -> FileFormat {
        match self {
            Self::FetchDuckDb | Self::DuckDbAtDpu => FileFormat::DuckDb,
            Self::FetchParquet => FileFormat::Parquet,
            Self::Dpb => FileFormat::Segment,
        }
    }

    /// The file's name in records.
    pub fn format_name(self) -> &'static str {
        match self.format() {
            FileFormat::DuckDb => "duckdb",
            FileFormat::Parquet => "parquet",
            FileFormat::Segment => "segment",
        }
    }

    /// The name in tables, different for all four.
    pub fn label(self) -> &'static str {
        match self {
            Self::FetchDuckDb => "fetch (duckdb file)",
            Self::FetchParquet => "fetch (parquet file)",
            other => other.name(),
        }
    }

    /// Returns true if it needs DuckDB on this side.
    pub fn needs_duckdb_here(self) -> bool {
        matches!(self, Self::FetchDuckDb | Self::FetchParquet)
    }
}
