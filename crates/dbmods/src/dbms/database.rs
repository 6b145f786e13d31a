//! DuckDB's file with all eight tables of TPC-H, made once of our segments and kept.
//!
//! ```text
//! DIR/dbms-duckdb-v2.0.0/sf1/tpch.duckdb
//!                           /manifest.json   what was made: rows, bytes, checksum, generator
//! ```
//!
//! A file whose length or checksum is not what the manifest says is damaged, and made anew. Rows are in the generator's order, as in our
//! segments, so that zone maps are as good for one as for the other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crc_fast::{CrcAlgorithm, Digest};
use dpb_core::Timer;
use serde::{Deserialize, Serialize};

use crate::Table;
use crate::duckdb::kept::{self, Found, MANIFEST, Making, Place, Refused};
use crate::duckdb::{Database, Error, Library};
use crate::table::Cache;
use crate::tpch::{DataError, GENERATOR, TABLES, TableSet};

/// Counted up when the file's layout or settings change, so that old ones are made anew.
const FORMAT: u32 = 1;
/// Disk for the file at scale factor 1, and a fifth to spare.
const DISK_BYTES_AT_SF1: f64 = 340e6;
/// Disk for an empty file's blocks.
const DISK_BYTES_LEAST: f64 = 4e6;
const FILE: &str = "tpch.duckdb";
/// Before the version, in the name of the folder of what it made.
const PARENT_PREFIX: &str = "dbms-duckdb-";

/// The database of a scale factor.
#[derive(Clone, Debug, PartialEq)]
pub struct TpchDatabase {
    /// Its file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
    /// Rows of each table.
    pub rows: BTreeMap<String, u64>,
    /// True if this call made it.
    pub is_new: bool,
}

/// The progress of [`ensure`].
#[derive(Clone, Debug, PartialEq)]
pub enum DatabaseStep<'a> {
    /// Another process is making the same file.
    Waiting,
    /// A file is there, and not as its manifest says.
    Damaged {
        /// The file, and the damage.
        what: &'a str,
    },
    /// DuckDB loads rows of a table.
    Loading {
        /// The table.
        table: &'a str,
        /// Rows that were loaded.
        rows: u64,
        /// Rows that it has.
        rows_all: u64,
    },
}

/// The reason why there is no database.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The disk has too little free space.
    #[error(
        "DuckDB's file of scale factor {scale_factor} needs {} MB in {}, {} MB are free",
        needed_bytes / 1_000_000, dir.display(), free_bytes / 1_000_000
    )]
    NoSpace {
        /// The scale factor.
        scale_factor: f64,
        /// The folder.
        dir: PathBuf,
        /// Bytes that it takes.
        needed_bytes: u64,
        /// Bytes that are free.
        free_bytes: u64,
    },
    /// A file could not be made, read or renamed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A segment cannot be read.
    #[error(transparent)]
    Segments(#[from] DataError),
    /// DuckDB refused a statement.
    #[error(transparent)]
    Duckdb(#[from] Error),
    /// DuckDB holds another number of rows than the segment.
    #[error("the segment of {table} has {rows} rows, DuckDB holds {held}")]
    Rows {
        /// The table.
        table: String,
        /// Rows of the segment.
        rows: u64,
        /// Rows in DuckDB's table.
        held: u64,
    },
    /// The progress callback gave up.
    #[error("interrupted; nothing half made is left")]
    Interrupted,
}

/// Hears what [`ensure`] does; breaks to give up.
pub type DatabaseProgress<'a> = &'a mut dyn FnMut(DatabaseStep<'_>) -> ControlFlow<()>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    generator: String,
    scale_factor: f64,
    duckdb_version: String,
    rows: BTreeMap<String, u64>,
    bytes: u64,
    crc32c: u32,
}

impl From<Refused> for DatabaseError {
    fn from(Refused { path, source }: Refused) -> Self {
        Self::Io { path, source }
    }
}

/// The place of a scale factor's file.
fn place(library: Library, dir: &Path, scale_factor: f64) -> Place {
    Place::new(dir, PARENT_PREFIX, library, format!("sf{scale_factor}"))
}

/// The scale factor of a file by its folder's name.
fn scale_factor_of(name: &str) -> Option<f64> {
    name.strip_prefix("sf")?.parse().ok()
}

/// Makes the database of `tables`, which are all eight of a scale factor, under `dir`, or finds it made by the same versions of
/// DuckDB and the generator. `clock` waits for another process that makes it.
///
/// # Errors
/// [`DatabaseError`]; nothing half made is left that a later call would use.
pub fn ensure(
    library: Library,
    dir: &Path,
    tables: &TableSet,
    threads: usize,
    clock: &dyn Timer,
    progress: DatabaseProgress<'_>,
) -> Result<TpchDatabase, DatabaseError> {
    let mut making = FileOf {
        library,
        tables,
        threads,
        progress,
    };
    let place = place(library, dir, tables.scale_factor);
    let (found, is_new) = place.ensure(&mut making, clock)?;
    Ok(TpchDatabase { is_new, ..found })
}

/// Bytes of disk that [`ensure`] would take, about; 0 if the file is there, whether it is damaged or not.
pub fn bytes_to_make(library: Library, dir: &Path, scale_factor: f64) -> u64 {
    let place = place(library, dir, scale_factor);
    match kept::manifest::<Manifest>(&place.home()) {
        Some(_) => 0,
        None => bytes_needed(scale_factor),
    }
}

/// Bytes of disk that the file of a scale factor takes, about.
pub fn bytes_needed(scale_factor: f64) -> u64 {
    (DISK_BYTES_AT_SF1 * scale_factor + DISK_BYTES_LEAST) as u64
}

/// The paths under `dir` of files that are whole or half made, and of their locks, with the scale factor, ordered by it.
pub fn paths(dir: &Path) -> Vec<(f64, PathBuf)> {
    kept::paths(dir, PARENT_PREFIX, scale_factor_of)
}

/// Removes the files of a scale factor that any version of DuckDB made, and what a killed process left of them.
///
/// # Errors
/// If they cannot be removed.
pub fn remove(dir: &Path, scale_factor: f64, clock: &dyn Timer) -> Result<(), DatabaseError> {
    let is_wanted = |name: &str| scale_factor_of(name) == Some(scale_factor);
    for place in kept::places(dir, PARENT_PREFIX, is_wanted) {
        place.remove(clock)?;
    }
    Ok(())
}

/// Bytes and CRC-32C of a file.
fn checksum(path: &Path) -> io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, digest.finalize() as u32)),
            read => {
                digest.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
}

/// The file of a scale factor that is looked for and made.
struct FileOf<'a> {
    library: Library,
    tables: &'a TableSet,
    threads: usize,
    progress: DatabaseProgress<'a>,
}

impl Making for FileOf<'_> {
    type Files = TpchDatabase;
    type Error = DatabaseError;

    fn look(&self, home: &Path) -> Result<Option<TpchDatabase>, String> {
        let Some(manifest) = kept::manifest::<Manifest>(home) else {
            return Ok(None);
        };
        let is_ours = manifest.format == FORMAT
            && manifest.generator == GENERATOR
            && manifest.scale_factor == self.tables.scale_factor
            && manifest.duckdb_version == self.library.version();
        if !is_ours {
            return Ok(None);
        }
        let path = home.join(FILE);
        let (bytes, crc32c) =
            checksum(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if (bytes, crc32c) != (manifest.bytes, manifest.crc32c) {
            return Err(format!(
                "{}: {bytes} bytes with the checksum {crc32c:08x}, but {MANIFEST} says {} bytes with {:08x}",
                path.display(),
                manifest.bytes,
                manifest.crc32c
            ));
        }
        Ok(Some(TpchDatabase {
            path,
            bytes,
            rows: manifest.rows,
            is_new: false,
        }))
    }

    fn hear(&mut self, found: Found<'_>) -> Result<(), DatabaseError> {
        let step = match found {
            Found::Maker => DatabaseStep::Waiting,
            Found::Damage(what) => DatabaseStep::Damaged { what },
        };
        match (self.progress)(step) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(DatabaseError::Interrupted),
        }
    }

    fn bytes_needed(&self) -> u64 {
        bytes_needed(self.tables.scale_factor)
    }

    fn no_space(&self, dir: &Path, needed_bytes: u64, free_bytes: u64) -> DatabaseError {
        DatabaseError::NoSpace {
            scale_factor: self.tables.scale_factor,
            dir: dir.to_owned(),
            needed_bytes,
            free_bytes,
        }
    }

    fn make(&mut self, partial: &Path) -> Result<(), DatabaseError> {
        let path = partial.join(FILE);
        let config = kept::making_config(partial, self.threads);
        let database = Database::open(self.library, Some(&path), &config)?;
        let mut connection = database.connect()?;
        let mut rows = BTreeMap::new();
        for table in TABLES {
            let segment = Arc::new(self.tables.open(table)?);
            let rows_all = segment.rows();
            // Read once, so nothing is kept.
            let segment = Table::of(segment).with_cache(Arc::new(Cache::new(0)));
            let handed = Arc::new(AtomicU64::new(0));
            let source = format!("dpb_{table}");
            connection.register_segment(&source, segment, Arc::clone(&handed))?;
            let sql = format!("CREATE TABLE {table} AS SELECT * FROM {source}()");
            let held = kept::execute(&mut connection, &sql, &mut || {
                (self.progress)(DatabaseStep::Loading {
                    table,
                    rows: handed.load(Relaxed),
                    rows_all,
                })
            })?;
            let held = held.ok_or(DatabaseError::Interrupted)?;
            if held != rows_all {
                return Err(DatabaseError::Rows {
                    table: table.to_owned(),
                    rows: rows_all,
                    held,
                });
            }
            rows.insert(table.to_owned(), rows_all);
        }
        connection.execute("CHECKPOINT")?;
        // Closing is what writes the last of DuckDB's file and removes its log.
        drop((connection, database));
        kept::remove_spill(partial)?;
        kept::sync(&path)?;
        let (bytes, crc32c) = checksum(&path).map_err(|source| Refused::at(&path, source))?;
        let manifest = Manifest {
            format: FORMAT,
            generator: GENERATOR.to_owned(),
            scale_factor: self.tables.scale_factor,
            duckdb_version: self.library.version().to_owned(),
            rows,
            bytes,
            crc32c,
        };
        Ok(kept::write_manifest(partial, &manifest)?)
    }
}

#[cfg(test)]
mod tests;
