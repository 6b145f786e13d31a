//! The tables that an agent has: opened once, shared by its connections.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::duckdb::{Config, Connection, Database, Library};
use crate::pushdown::cache::Cache;
use crate::pushdown::segment::{Segment, SegmentError};
use crate::pushdown::wire::{FileFormat, Refusal, TableInfo, WireError};
use crate::tpch::{self, DataError};
use crate::tpch_baseline;

/// Segments, DuckDB databases and the cache of chunks, under one data directory.
pub(super) struct Shelf {
    data_dir: PathBuf,
    pub(super) cache: Cache,
    segments: Mutex<HashMap<Name, Arc<Segment>>>,
    databases: Mutex<HashMap<Name, Database>>,
}

/// A table of a data set: the scale factor's bits, and the table.
type Name = (u64, String);

/// A refusal with its words.
pub(super) fn refuse(refusal: Refusal, text: impl Into<String>) -> WireError {
    WireError::Refused {
        refusal,
        text: text.into(),
    }
}

impl Shelf {
    pub(super) fn new(data_dir: PathBuf, cache_bytes: u64) -> Self {
        Self {
            data_dir,
            cache: Cache::new(cache_bytes),
            segments: Mutex::default(),
            databases: Mutex::default(),
        }
    }

    /// All tables of a data set that are here.
    pub(super) fn tables(&self, sf: f64) -> Result<Vec<TableInfo>, WireError> {
        let mut tables = Vec::new();
        self.path(sf, tpch::TABLES[0], FileFormat::Segment)?;
        for entry in tpch::find(&self.data_dir, sf).tables {
            let table = entry.name.as_str();
            let segment = self.segment(sf, table)?;
            let bytes = |format| {
                let path = self.path(sf, table, format).ok()?;
                path.metadata().ok().map(|meta| meta.len())
            };
            tables.push(TableInfo {
                schema: segment.schema().clone(),
                rows: segment.rows(),
                segment_bytes: segment.file_bytes(),
                duckdb_bytes: bytes(FileFormat::DuckDb),
                parquet_bytes: bytes(FileFormat::Parquet),
            });
        }
        Ok(tables)
    }

    /// The table's segment.
    pub(super) fn segment(&self, sf: f64, table: &str) -> Result<Arc<Segment>, WireError> {
        let path = self.path(sf, table, FileFormat::Segment)?;
        let name = (sf.to_bits(), table.to_owned());
        let mut segments = lock(&self.segments);
        if let Some(segment) = segments.get(&name) {
            return Ok(Arc::clone(segment));
        }
        let opened = tpch::find(&self.data_dir, sf).open(table);
        let segment = Arc::new(opened.map_err(|error| match error {
            DataError::Missing { .. } => self.missing(sf, &path),
            DataError::Segment(error) => damaged(&error),
            other => refuse(Refusal::Unavailable, other.to_string()),
        })?);
        segments.insert(name, Arc::clone(&segment));
        Ok(segment)
    }

    /// A connection to DuckDB over the table's own file.
    pub(super) fn duckdb(
        &self,
        sf: f64,
        table: &str,
        threads: usize,
    ) -> Result<Connection, WireError> {
        let path = self.path(sf, table, FileFormat::DuckDb)?;
        let library =
            Library::find().map_err(|missing| refuse(Refusal::Unavailable, missing.to_string()))?;
        if !path.exists() {
            return Err(self.missing(sf, &path));
        }
        let name = (sf.to_bits(), table.to_owned());
        let broke = |e: crate::duckdb::Error| refuse(Refusal::Internal, e.to_string());
        let mut databases = lock(&self.databases);
        if !databases.contains_key(&name) {
            let config = Config {
                threads: Some(threads),
                memory_bytes_max: Some(self.cache.bytes_max()),
                temp_dir: Some(self.data_dir.join("tmp")),
                read_only: true,
            };
            let database = Database::open(library, Some(&path), &config).map_err(broke)?;
            databases.insert(name.clone(), database);
        }
        let mut connection = databases[&name].connect().map_err(broke)?;
        connection
            .execute(&format!("SET threads = {threads}"))
            .map_err(broke)?;
        Ok(connection)
    }

    /// One of the table's files, to be sent whole.
    pub(super) fn file(
        &self,
        sf: f64,
        table: &str,
        format: FileFormat,
    ) -> Result<(File, u64), WireError> {
        let path = self.path(sf, table, format)?;
        let opened = File::open(&path).and_then(|file| {
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        });
        opened.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => self.missing(sf, &path),
            _ => refuse(Refusal::Unavailable, format!("{}: {e}", path.display())),
        })
    }

    /// Drops a file from the page cache and what its engine holds of it.
    pub(super) fn make_cold(
        &self,
        sf: f64,
        table: &str,
        format: FileFormat,
    ) -> Result<(), WireError> {
        match format {
            FileFormat::Segment => {
                let segment = self.segment(sf, table)?;
                return segment.make_cold(&self.cache).map_err(|e| damaged(&e));
            }
            FileFormat::DuckDb => {
                lock(&self.databases).remove(&(sf.to_bits(), table.to_owned()));
            }
            FileFormat::Parquet => {}
        }
        let (file, _) = self.file(sf, table, format)?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(|e| {
            refuse(
                Refusal::Internal,
                format!("cannot drop the page cache: {e}"),
            )
        })
    }

    fn path(&self, sf: f64, table: &str, format: FileFormat) -> Result<PathBuf, WireError> {
        // The name becomes part of a path: only names that we know.
        if !tpch::TABLES.contains(&table) {
            let known = tpch::TABLES.join(", ");
            return Err(refuse(
                Refusal::Usage,
                format!("no table `{table}`; there are {known}"),
            ));
        }
        if !(sf.is_finite() && sf > 0.0) {
            return Err(refuse(
                Refusal::Usage,
                format!("{sf} is no scale factor; it is above 0"),
            ));
        }
        Ok(match format {
            FileFormat::Segment => {
                tpch::set_dir(&self.data_dir, sf).join(format!("{table}.dpbseg"))
            }
            FileFormat::DuckDb => tpch_baseline::duckdb_path(&self.data_dir, sf),
            FileFormat::Parquet => tpch_baseline::parquet_path(&self.data_dir, sf),
        })
    }

    fn missing(&self, sf: f64, path: &Path) -> WireError {
        refuse(
            Refusal::Unavailable,
            format!(
                "the agent has no {}: run `dpb data --sf {sf} --data-dir {}` on its machine",
                path.display(),
                self.data_dir.display()
            ),
        )
    }
}

pub(super) fn damaged(error: &SegmentError) -> WireError {
    refuse(Refusal::Damaged, error.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
