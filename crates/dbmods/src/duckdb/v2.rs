//! DuckDB through version 2 of its C API: tables of ours that are offered the filters of a query.
//!
//! [`Instance::open`] is a database in memory, [`Instance::register`] makes a [`PushedTable`] callable in SQL, and [`Instance::query`]
//! runs a statement. While DuckDB plans it, each use of a table is offered its filters as [`Expression`]s, and takes those that it can
//! evaluate; DuckDB evaluates the others. When the scan begins, it is told the columns that are left.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::find::Library;
use crate::query::Predicate;
use crate::schema::Schema;

mod expression;
mod function;
mod raw;
mod sys;
#[cfg(test)]
pub(crate) mod tests;

pub use expression::{Comparison, Expression, Type, Value};

/// The versions of DuckDB whose header was compared with the declarations here: its makers call the functions unstable, and any other version may change
/// them, a number of a filter among them.
pub(crate) const VERSIONS: [&str; 1] = ["v2.0.0"];

/// Refuses a DuckDB of another version.
///
/// # Errors
/// A sentence that names the version, and those that are known.
pub fn check_version(version: &str) -> Result<(), String> {
    match VERSIONS.contains(&version) {
        true => Ok(()),
        false => Err(format!(
            "DuckDB {version} may have other functions for filters than dpb knows; it takes DuckDB {} (`cargo xtask setup`)",
            VERSIONS.join(", ")
        )),
    }
}

/// A table that is not DuckDB's.
pub trait PushedTable: Send + Sync + 'static {
    /// Its name and columns.
    fn schema(&self) -> &Schema;

    /// Hears that a statement uses it once more, and numbers the use.
    fn used(&self) -> Use;

    /// Answers a filter whose columns are positions in its schema.
    fn offered(&self, filter: &Expression) -> Offered;

    /// Begins the scan of a use: of these columns, by position, and of no rows that the filters drop.
    ///
    /// # Errors
    /// A sentence that DuckDB passes on.
    fn scan(
        &self,
        number: usize,
        columns: &[u32],
        filters: Vec<Pushed>,
    ) -> Result<Box<dyn PushedScan>, String>;

    /// Threads that ask a scan for rows, at most.
    fn threads_max(&self) -> usize;
}

/// A use of a table in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The number by which the scan of the use is told from others of the table.
    pub number: usize,
    /// The rows that DuckDB's planner reckons with, before it has seen a filter.
    pub rows_expected: u64,
}

/// A scan that runs.
pub trait PushedScan: Send + Sync {
    /// The next rows, of the columns that were asked for in their order; `None` at the end. Several threads ask.
    ///
    /// # Errors
    /// A sentence that DuckDB passes on.
    fn next(&self) -> Result<Option<RecordBatch>, String>;
}

/// A filter that a table has taken, wholly or in part.
#[derive(Clone, Debug, PartialEq)]
pub struct Pushed {
    /// The predicate by which it drops rows.
    pub predicate: Predicate,
    /// True if DuckDB does not evaluate the filter any more.
    pub is_whole: bool,
}

/// A table's answer to a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Offered {
    /// It gives no row that the filter drops.
    Taken(Predicate),
    /// It drops some of the rows that the filter drops, and none else; DuckDB evaluates the filter.
    InPart(Predicate),
    /// DuckDB evaluates the filter.
    Refused,
}

/// A database in memory, for tables that are not in it.
#[derive(Debug)]
pub struct Instance {
    raw: raw::Connection,
}

impl Instance {
    /// Opens one with so many threads. DuckDB reaches no file but its spill, in this folder.
    ///
    /// # Errors
    /// If this DuckDB is of another version, or refuses.
    pub fn open(
        library: Library,
        threads: usize,
        memory_bytes_max: Option<u64>,
        spill: &Path,
    ) -> Result<Self, String> {
        check_version(library.version())?;
        let api = raw::api(library)?;
        let mut options = vec![
            ("autoinstall_known_extensions", "false".to_owned()),
            ("autoload_known_extensions", "false".to_owned()),
            ("threads", threads.to_string()),
            ("temp_directory", spill.display().to_string()),
            ("enable_external_access", "false".to_owned()),
        ];
        if let Some(bytes) = memory_bytes_max {
            options.push(("memory_limit", format!("{bytes}B")));
        }
        let instance = raw::Instance::open(api, &options)?;
        Ok(Self {
            raw: raw::Connection::open(&Arc::new(instance))?,
        })
    }

    /// Makes a table known under its name.
    ///
    /// # Errors
    /// DuckDB's words.
    pub fn register(&mut self, table: Arc<dyn PushedTable>) -> Result<(), String> {
        let name = table.schema().table.clone();
        let function = format!("dpb_{name}");
        function::register(&self.raw, &function, table)?;
        self.query(&format!("CREATE VIEW {name} AS SELECT * FROM {function}()"))
            .map(drop)
    }

    /// Runs one statement to its last row.
    ///
    /// # Errors
    /// DuckDB's words, or those of a table.
    pub fn query(&mut self, sql: &str) -> Result<Chunks, String> {
        self.raw.query(sql)
    }
}

/// The rows of a query, computed.
#[derive(Debug, Default)]
pub struct Chunks {
    chunks: Vec<raw::Chunk>,
}

impl Chunks {
    /// Calls `take` with each row, in order.
    ///
    /// # Errors
    /// DuckDB's words, or the type of a value that dpb does not read.
    pub fn rows(&self, take: &mut dyn FnMut(Vec<Value>)) -> Result<(), String> {
        self.chunks.iter().try_for_each(|chunk| chunk.rows(take))
    }
}
