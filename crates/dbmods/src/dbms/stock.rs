//! DuckDB over its own file, as everybody has it.

use std::path::{Path, PathBuf};

use super::answer::Answer;
use crate::duckdb::{Config, Connection, Database, Delivery, Error, Interrupt, Library};

/// DuckDB's settings for queries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Threads.
    pub threads: usize,
    /// Bytes of memory that DuckDB may hold; `None` for its own limit.
    pub memory_bytes_max: Option<u64>,
    /// The folder that DuckDB spills into.
    pub spill: PathBuf,
}

/// An open database, for one query at a time.
#[derive(Debug)]
pub struct Stock {
    connection: Connection,
}

impl Stock {
    /// Opens the file at `path` to be read only.
    ///
    /// # Errors
    /// If DuckDB does not open it.
    pub fn open(library: Library, path: &Path, settings: &Settings) -> Result<Self, Error> {
        let config = Config {
            threads: Some(settings.threads),
            memory_bytes_max: settings.memory_bytes_max,
            temp_dir: Some(settings.spill.clone()),
            read_only: true,
            ..Config::default()
        };
        let database = Database::open(library, Some(path), &config)?;
        Ok(Self {
            connection: database.connect()?,
        })
    }

    /// A handle that stops what runs.
    pub fn interrupt_handle(&self) -> Interrupt {
        self.connection.interrupt_handle()
    }

    /// Runs a query to its last row. `ended` is called then, before rows become text.
    ///
    /// # Errors
    /// DuckDB's words.
    pub fn run(&mut self, sql: &str, ended: impl FnOnce()) -> Result<Answer, String> {
        let rows = self
            .connection
            .query(sql, None, Delivery::Materialised)
            .map_err(|error| error.to_string())?;
        let batches = rows.collect::<Result<Vec<_>, _>>();
        let batches = batches.map_err(|error| error.to_string())?;
        ended();
        let mut answer = Answer::default();
        batches.iter().try_for_each(|batch| answer.add(batch))?;
        Ok(answer)
    }
}
