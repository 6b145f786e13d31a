//! DuckDB, the peer: loaded at run time, so that nothing foreign is linked.
//!
//! [`Library::find`] → [`Database::open`] → [`Database::connect`] → [`Connection::execute`] and [`Connection::query`], whose
//! rows come as Arrow batches. Absence is a finding: [`Missing`] says what to do.
//!
//! Rows are converted straight from DuckDB's vectors, one copy a column, because DuckDB is what dpb is compared with, and
//! a slow binding would flatter dpb. [`Delivery`] has the choice that matters for speed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

mod abi;
mod convert;
mod find;
mod generated;
pub(crate) mod kept;
mod layout;
mod raw;
mod segment_source;
mod source;
pub mod spill;
mod sys;
#[cfg(test)]
pub(crate) mod tests;
pub mod tpch_baseline;
pub mod v2;

pub use convert::{BATCH_ROWS, CHUNK_ROWS};
pub use find::{Library, Missing, cache_dir};

/// The interval at which [`Interrupt::watch`] asks whether to stop.
pub const STOP_LOOK: Duration = Duration::from_millis(100);

/// A failure of DuckDB, with DuckDB's own text where it gives one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A database could not be opened or connected to.
    #[error("DuckDB cannot open {database}: {reason}")]
    Open {
        /// The database's path, or the words that it is in memory.
        database: String,
        /// DuckDB's text.
        reason: String,
    },
    /// A statement failed, when it started or while its rows were fetched.
    #[error("DuckDB: {reason} (in: {sql})")]
    Statement {
        /// The statement, shortened if it is long.
        sql: String,
        /// DuckDB's text.
        reason: String,
    },
    /// A statement was stopped by [`Interrupt::interrupt`].
    #[error("DuckDB was interrupted (in: {sql})")]
    Interrupted {
        /// The statement, shortened if it is long.
        sql: String,
    },
    /// A result does not become the schema that was asked for.
    #[error("DuckDB's result does not fit: {reason} (in: {sql})")]
    Shape {
        /// The statement, shortened if it is long.
        sql: String,
        /// The column, and the reason.
        reason: String,
    },
}

/// How a database is opened. The default: all cores, DuckDB's own memory limit, for reading and writing.
///
/// DuckDB reaches no file but the database's own, its spill and [`Config::allowed_paths`], whatever a statement or the
/// database itself asks for, and no statement can change that: a file may come from a machine that is not trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Worker threads, the calling one included.
    pub threads: Option<usize>,
    /// Bytes of memory that DuckDB may hold. Beyond them DuckDB spills or fails.
    pub memory_bytes_max: Option<u64>,
    /// The folder that DuckDB spills into. Without one, DuckDB spills beside the database's file.
    pub temp_dir: Option<PathBuf>,
    /// True if the file is only read. Several processes may then share it.
    pub read_only: bool,
    /// True if rows may come in any order: DuckDB's threads then need not wait for each other, and streaming on two
    /// threads took a quarter less CPU (16 columns at 10 %). Leave it false where the order of rows counts.
    pub any_order: bool,
    /// Storage format of a file that is made, such as `v1.0.0`; DuckDB's default if none.
    pub storage_version: Option<&'static str>,
    /// Files outside the database that statements may read and write, exactly as statements name them.
    pub allowed_paths: Vec<PathBuf>,
}

/// The way in which DuckDB computes a query's rows and hands them over.
///
/// Neither is always the faster. DuckDB 2.0.0, `lineitem` at scale factor 1, all 16 columns of 1 %, 10 %, 100 % of the rows, CPU
/// milliseconds: streamed 134, 218, 812, materialised 101, 202, 1000 on one thread; streamed 173, 269, 1074, materialised
/// 117, 229, 1097 on two with `any_order`. For what a person would compare with, take the faster that fits the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// DuckDB computes rows as they are fetched. It holds about a megabyte of rows back, so memory stays bounded whatever the result's
    /// size, and the first batch comes early. A DuckDB that no longer has the function for it materialises.
    Streamed,
    /// DuckDB computes all rows before it hands over the first. Memory grows with the result.
    Materialised,
}

/// Most rows that DuckDB finishes before it hands over the first: about 1.4 GB of lineitem.
const MATERIALISED_ROWS_MAX: u64 = 10_000_000;

impl Delivery {
    /// The faster one for a result of so many rows, if that is known, from a table of `table_rows`.
    ///
    /// With 1 % and 10 % of lineitem's rows (all columns, scale factor 1, DuckDB 2.0.0, a busy machine) a result that is
    /// finished first took 15 to 20 % less time than a streamed one on one thread, and 35 to 48 % less on two, because
    /// streaming keeps DuckDB's threads from working ahead. Of all rows, streaming took a third less on one thread, and its
    /// memory is bounded.
    pub fn of(rows_expected: Option<u64>, table_rows: u64) -> Self {
        match rows_expected {
            Some(rows) if rows <= (table_rows / 4).min(MATERIALISED_ROWS_MAX) => Self::Materialised,
            _ => Self::Streamed,
        }
    }
}

/// An open database. Connections keep it open.
#[derive(Clone)]
pub struct Database {
    raw: Arc<raw::Database>,
    name: Arc<str>,
}

/// A connection: one statement at a time.
pub struct Connection {
    raw: Arc<raw::Connection>,
}

/// Stops what runs on a connection, from any thread.
#[derive(Clone)]
pub struct Interrupt {
    connection: Arc<raw::Connection>,
}

/// The rows of a query, batch by batch; each batch but the last has at least [`BATCH_ROWS`] rows, or as many as
/// [`Rows::batches_of`] says, and less than a chunk ([`CHUNK_ROWS`]) more; none is empty.
///
/// Ends after the first error.
pub struct Rows<'c> {
    result: raw::QueryResult,
    assembler: convert::Assembler,
    schema: SchemaRef,
    sql: String,
    done: bool,
    _connection: std::marker::PhantomData<&'c mut Connection>,
}

impl Database {
    /// Opens the database at `path`, made if it is missing and not `read_only`; without a path, a new one in memory.
    ///
    /// # Errors
    /// [`Error::Open`]: not a database, a newer format, locked by another process, no permission.
    pub fn open(library: Library, path: Option<&Path>, config: &Config) -> Result<Self, Error> {
        let name: Arc<str> = path.map_or("a database in memory".into(), |path| {
            path.display().to_string().into()
        });
        let refused = |reason| Error::Open {
            database: name.to_string(),
            reason,
        };
        let path = match path.map(Path::to_str) {
            Some(None) => return Err(refused("its path is not UTF-8".to_owned())),
            Some(Some(path)) => Some(path),
            None => None,
        };
        let raw = raw::Database::open(library.api(), path, &config.options()).map_err(refused)?;
        let database = Self {
            raw: Arc::new(raw),
            name,
        };
        if !config.allowed_paths.is_empty() {
            // DuckDB takes these in this order only, and options have none.
            let paths: Vec<String> = config
                .allowed_paths
                .iter()
                .map(|path| literal(path.display()))
                .collect();
            database.connect()?.execute(&format!(
                "SET allowed_paths = [{}]; SET enable_external_access = false; SET lock_configuration = true",
                paths.join(", ")
            ))?;
        }
        Ok(database)
    }

    /// Checks that `name` is a table with rows of its own, in a database that holds nothing which is evaluated when the table is
    /// read: the table as a view, over who knows what, or macros, which may bear a function's name.
    ///
    /// # Errors
    /// [`Error::Open`] if it is not, and as [`Connection::query`].
    pub fn require_base_table(&self, name: &str) -> Result<(), Error> {
        // By names that no file redefines.
        let sql = format!(
            "SELECT 1 FROM system.main.duckdb_tables() WHERE schema_name = 'main' AND table_name = {} AND NOT internal \
             AND NOT EXISTS (FROM system.main.duckdb_views() WHERE NOT internal) \
             AND NOT EXISTS (FROM system.main.duckdb_functions() WHERE NOT internal)",
            literal(name)
        );
        let mut connection = self.connect()?;
        let mut rows = connection.query(&sql, None, Delivery::Materialised)?;
        match rows.next().transpose()? {
            Some(found) if found.num_rows() == 1 => Ok(()),
            _ => Err(Error::Open {
                database: self.name.to_string(),
                reason: format!(
                    "it does not hold {name} as a table by itself; views and macros are not run"
                ),
            }),
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// [`Error::Open`] if DuckDB gives none.
    pub fn connect(&self) -> Result<Connection, Error> {
        let raw = raw::Connection::open(&self.raw).map_err(|reason| Error::Open {
            database: self.name.to_string(),
            reason,
        })?;
        Ok(Connection { raw: Arc::new(raw) })
    }
}

impl Config {
    /// DuckDB's options. Extensions are never fetched.
    fn options(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![
            ("autoinstall_known_extensions", "false".to_owned()),
            ("autoload_known_extensions", "false".to_owned()),
        ];
        if let Some(threads) = self.threads {
            options.push(("threads", threads.to_string()));
        }
        if let Some(bytes) = self.memory_bytes_max {
            options.push(("memory_limit", format!("{bytes}B")));
        }
        if let Some(dir) = &self.temp_dir {
            options.push(("temp_directory", dir.display().to_string()));
        }
        if let Some(version) = self.storage_version {
            options.push(("storage_compatibility_version", version.to_owned()));
        }
        if self.any_order {
            options.push(("preserve_insertion_order", "false".to_owned()));
        }
        if self.read_only {
            options.push(("access_mode", "READ_ONLY".to_owned()));
        }
        if self.allowed_paths.is_empty() {
            options.push(("enable_external_access", "false".to_owned()));
            options.push(("lock_configuration", "true".to_owned()));
        }
        options
    }
}

impl Connection {
    /// Runs one or more statements, drops their rows and returns the number of rows that the last statement changed.
    ///
    /// # Errors
    /// [`Error::Statement`] or [`Error::Interrupted`].
    pub fn execute(&mut self, sql: &str) -> Result<u64, Error> {
        let mut result = raw::QueryResult::materialised(&self.raw, sql)
            .map_err(|reason| Error::refused(sql, reason))?;
        Ok(result.rows_changed())
    }

    /// Runs a query whose rows become batches of `schema`, or of the schema that fits DuckDB's types if there is none.
    ///
    /// Integers and decimals widen without loss, columns that the schema calls not nullable are checked, and a 128-bit
    /// value that does not fit the 64 bits asked for is an error.
    ///
    /// # Errors
    /// As [`Connection::execute`], and [`Error::Shape`] if the columns are not what the schema says. A streamed query
    /// may fail later, while its rows are fetched.
    pub fn query(
        &mut self,
        sql: &str,
        schema: Option<SchemaRef>,
        delivery: Delivery,
    ) -> Result<Rows<'_>, Error> {
        let mut result = match delivery {
            Delivery::Streamed => raw::QueryResult::streamed(&self.raw, sql),
            Delivery::Materialised => raw::QueryResult::materialised(&self.raw, sql),
        }
        .map_err(|reason| Error::refused(sql, reason))?;
        let columns = result.columns();
        let misfit = |reason| Error::Shape {
            sql: shortened(sql),
            reason,
        };
        let schema = match schema {
            Some(schema) => schema,
            None => Arc::new(convert::inferred(&columns).map_err(misfit)?),
        };
        let assembler = convert::Assembler::new(Arc::clone(&schema), &columns).map_err(misfit)?;
        Ok(Rows {
            result,
            assembler,
            schema,
            sql: shortened(sql),
            done: false,
            _connection: std::marker::PhantomData,
        })
    }

    /// Makes `source` callable in SQL as `name()`, in this database for as long as it is open.
    fn register(&mut self, name: &str, source: Box<dyn source::Source>) -> Result<(), Error> {
        source::register(&self.raw, name, source).map_err(|reason| Error::refused(name, reason))
    }

    /// Makes the rows of a table of TPC-H, in their order, callable in SQL as `name()`. `handed` counts those that were handed over.
    ///
    /// # Errors
    /// [`Error::Statement`] if DuckDB takes no such function.
    pub(crate) fn register_segment(
        &mut self,
        name: &str,
        table: crate::Table,
        handed: Arc<AtomicU64>,
    ) -> Result<(), Error> {
        let source = segment_source::SegmentSource::new(table, handed);
        self.register(name, Box::new(source))
    }

    /// Returns a handle that stops what runs on this connection.
    pub fn interrupt_handle(&self) -> Interrupt {
        Interrupt {
            connection: Arc::clone(&self.raw),
        }
    }
}

impl Interrupt {
    /// Stops the statement that is running, if there is one. The statement ends with [`Error::Interrupted`].
    pub fn interrupt(&self) {
        self.connection.interrupt();
    }

    /// Does `work` on this thread. Another thread asks `stop` every [`STOP_LOOK`], and stops what runs once it answers true.
    pub fn watch<T>(&self, stop: impl Fn() -> bool + Send, work: impl FnOnce() -> T) -> T {
        let (working, ended) = sync_channel::<()>(0);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while ended.recv_timeout(STOP_LOOK) == Err(RecvTimeoutError::Timeout) {
                    if stop() {
                        // Again each time: one that comes before the statement has begun is forgotten by DuckDB.
                        self.interrupt();
                    }
                }
            });
            // Dropped when the work ends, also by a panic.
            let _working = working;
            work()
        })
    }
}

impl Rows<'_> {
    /// Returns the same rows in batches of at least `rows` rows; the last batch may have fewer.
    pub fn batches_of(mut self, rows: usize) -> Self {
        self.assembler.set_batch_rows(rows);
        self
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch; `None` at the end.
    fn advance(&mut self) -> Result<Option<RecordBatch>, Error> {
        let misfit = |sql: &str, reason| Error::Shape {
            sql: sql.to_owned(),
            reason,
        };
        while !self.assembler.is_full() {
            let Some(chunk) = self.result.fetch() else {
                if let Some(reason) = self.result.error() {
                    return Err(Error::refused(&self.sql, reason));
                }
                self.done = true;
                break;
            };
            self.assembler
                .push(&chunk)
                .map_err(|reason| misfit(&self.sql, reason))?;
        }
        if self.assembler.rows() == 0 {
            return Ok(None);
        }
        let batch = self
            .assembler
            .finish()
            .map_err(|reason| misfit(&self.sql, reason))?;
        Ok(Some(batch))
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.advance().transpose();
        self.done |= !matches!(item, Some(Ok(_)));
        item
    }
}

impl Error {
    fn refused(sql: &str, reason: String) -> Self {
        let sql = shortened(sql);
        if reason.starts_with("INTERRUPT") {
            Self::Interrupted { sql }
        } else {
            Self::Statement { sql, reason }
        }
    }
}

/// A text as a constant in SQL.
pub(crate) fn literal(text: impl fmt::Display) -> String {
    format!("'{}'", text.to_string().replace('\'', "''"))
}

/// Enough of a statement to recognise it.
fn shortened(sql: &str) -> String {
    const CHARS: usize = 200;
    match sql.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &sql[..end]),
        None => sql.to_owned(),
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.name)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupt")
    }
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows({})", self.sql)
    }
}
