//! The peer's own copies of the data: tables in DuckDB's storage and in Parquet, each made once and kept.
//!
//! Both come from the generator itself, never from our segments, so that a comparison also checks our encoder. Rows are in
//! the generator's order, so that zone maps are as good for DuckDB as they are for us.
//!
//! ```text
//! DIR/duckdb-v2.0.0/sf1-orders/orders.duckdb
//!                             /orders.parquet
//!                             /manifest.json
//! ```
//!
//! A folder `sf1` was made by an older dpb, which had lineitem alone: it is listed and removed, and not used.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use dpb_core::{Timer, WallClock};
use serde::{Deserialize, Serialize};

use super::generated;
use super::kept::{self, Found, Making, Place, Refused};
use super::{Config, Connection, Database, Delivery, Error, Library, literal};
use crate::tpch::{self, GENERATOR};

/// Counted up when the files' layout or settings change, so that old ones are made anew.
const FORMAT: u32 = 2;

/// Disk for both files in bytes of the table's segment. Of lineitem at scale factor 1 they take 170 and 164 MB, and the segment 172 MB;
/// a fifth is to spare.
const DISK_IN_SEGMENTS: f64 = 2.3;
/// Disk for what both files hold beside rows, bytes.
const DISK_BYTES_BESIDE: u64 = 1 << 20;
/// The table of folders that an older dpb made, whose names have none.
const LINEITEM: &str = "lineitem";

/// As large as DuckDB's own row groups. Snappy scanned 5 to 20 % faster than zstd, whose file is 16 % smaller.
/// No second file takes part, because one only is allowed.
const PARQUET: &str = "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION snappy, ROW_GROUP_SIZE 122880, \
                       USE_TMP_FILE false";

/// Before the version, in the name of the folder of what it made.
const PARENT_PREFIX: &str = "duckdb-";

/// The files of DuckDB's copy of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// The path of a DuckDB file with the table alone, checkpointed and closed.
    pub duckdb_path: PathBuf,
    /// The size of the DuckDB file in bytes.
    pub duckdb_bytes: u64,
    /// The path of a Parquet file with the same rows, written by DuckDB.
    pub parquet_path: PathBuf,
    /// The size of the Parquet file in bytes.
    pub parquet_bytes: u64,
    /// The number of rows in each file.
    pub rows: u64,
    /// True if this call made the files, false if they were there before.
    pub is_new: bool,
}

/// A copy on disk. Any version of DuckDB may have made the copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The folder of the copy.
    pub dir: PathBuf,
    /// The version of DuckDB that made the copy, such as `v2.0.0`.
    pub duckdb_version: String,
    /// TPC-H's scale factor.
    pub scale_factor: f64,
    /// The table.
    pub table: String,
    /// The number of rows, if the manifest can be read.
    pub rows: Option<u64>,
    /// The size of all files in bytes.
    pub bytes: u64,
}

/// The progress of [`ensure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaselineStep {
    /// Another process is making the same files.
    Waiting,
    /// DuckDB loads rows into its file.
    Loading {
        /// The number of rows loaded so far.
        rows: u64,
        /// The number of rows in the end, to within a hundredth.
        rows_expected: u64,
    },
    /// DuckDB writes the Parquet file.
    WritingParquet,
}

/// The reason why there are no files.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// The scale factor is not a positive number, or larger than the generator's counters allow.
    #[error("scale factor {0} is not between 0.0001 and 100000")]
    ScaleFactor(f64),
    /// TPC-H has no such table.
    #[error("TPC-H has no table `{0}`; its tables are {tables}", tables = tpch::TABLES.join(", "))]
    Table(String),
    /// The disk has too little free space.
    #[error(
        "DuckDB's copy of {table} at scale factor {scale_factor} needs {} MB in {}, {} MB are free",
        needed_bytes / 1_000_000, dir.display(), free_bytes / 1_000_000
    )]
    NoSpace {
        /// The table.
        table: String,
        /// The scale factor that was asked for.
        scale_factor: f64,
        /// The folder for the files.
        dir: PathBuf,
        /// The bytes that the files take.
        needed_bytes: u64,
        /// The bytes that are free.
        free_bytes: u64,
    },
    /// A file could not be made, read or renamed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// DuckDB refused a statement.
    #[error(transparent)]
    Duckdb(#[from] Error),
    /// DuckDB holds another number of rows than the generator made.
    #[error("the generator made {generated} rows, DuckDB holds {held}")]
    Rows {
        /// The number of rows that the generator made.
        generated: u64,
        /// The number of rows in DuckDB's table.
        held: u64,
    },
}

impl From<Refused> for BaselineError {
    fn from(Refused { path, source }: Refused) -> Self {
        Self::Io { path, source }
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    generator: String,
    table: String,
    scale_factor: f64,
    rows: u64,
    duckdb_version: String,
    duckdb_bytes: u64,
    parquet_bytes: u64,
}

/// Makes the files of `table` at `scale_factor` under `dir`, or finds them made by the same versions of DuckDB and the generator.
///
/// `progress` is called several times a second from the calling thread. Two processes that ask for the same files make
/// them once. The work takes about 5 s and 0.35 GB of disk for lineitem at scale factor 1, and less than 3 GB of memory at any.
///
/// Only the end of the process stops the work, because DuckDB may wait for itself for ever where its copy into Parquet is
/// interrupted. Whoever kills the process then calls [`remove_unfinished`].
///
/// # Errors
/// [`BaselineError`]; nothing half-made is left that a later call would use.
pub fn ensure(
    library: Library,
    dir: &Path,
    scale_factor: f64,
    table: &str,
    threads: usize,
    clock: &dyn Timer,
    progress: &mut dyn FnMut(BaselineStep),
) -> Result<Baseline, BaselineError> {
    if !(0.0001..=100_000.0).contains(&scale_factor) {
        return Err(BaselineError::ScaleFactor(scale_factor));
    }
    if !tpch::TABLES.contains(&table) {
        return Err(BaselineError::Table(table.to_owned()));
    }
    let copy = CopyOf {
        scale_factor,
        table,
    };
    let mut making = FilesOf {
        copy,
        library,
        threads,
        progress,
    };
    let (found, is_new) = copy.place(library, dir).ensure(&mut making, clock)?;
    Ok(Baseline { is_new, ..found })
}

/// Finds the files of `table` at `scale_factor` under `dir`, if these versions of DuckDB and the generator have made them; makes
/// nothing.
pub fn find(library: Library, dir: &Path, scale_factor: f64, table: &str) -> Option<Baseline> {
    let copy = CopyOf {
        scale_factor,
        table,
    };
    copy.open(&copy.place(library, dir).home(), library)
}

/// Removes what an [`ensure`] left whose process was killed, unless another process makes the same files now.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_unfinished(
    library: Library,
    dir: &Path,
    scale_factor: f64,
    table: &str,
) -> Result<(), BaselineError> {
    let copy = CopyOf {
        scale_factor,
        table,
    };
    let place = copy.place(library, dir);
    Ok(place.remove_unfinished(&WallClock::default())?)
}

/// Estimates the bytes of disk that [`ensure`] would take; 0 if the files are there.
pub fn bytes_to_make(library: Library, dir: &Path, scale_factor: f64, table: &str) -> u64 {
    match find(library, dir, scale_factor, table) {
        Some(_) => 0,
        None => bytes_needed(scale_factor, table),
    }
}

/// Lists the copies of every scale factor, table and version under `dir`, ordered by these.
pub fn list(dir: &Path) -> Vec<Kept> {
    let mut kept = Vec::new();
    for (parent, version) in kept::parents(dir, PARENT_PREFIX) {
        for (home, name) in kept::entries(&parent) {
            let copy = CopyOf::named(&name);
            kept.extend(copy.map(|copy| Kept {
                rows: kept::manifest(&home).map(|manifest: Manifest| manifest.rows),
                bytes: kept::bytes_under(&home),
                dir: home,
                duckdb_version: version.clone(),
                scale_factor: copy.scale_factor,
                table: copy.table.to_owned(),
            }));
        }
    }
    kept.sort_by(|a, b| {
        let others = |one: &Kept| (table_number(&one.table), one.duckdb_version.clone());
        a.scale_factor
            .total_cmp(&b.scale_factor)
            .then_with(|| others(a).cmp(&others(b)))
    });
    kept
}

/// The paths under `dir` of copies that are whole or half made, and of their locks, with the scale factor, ordered by it.
pub fn paths(dir: &Path) -> Vec<(f64, PathBuf)> {
    let scale_factor = |name: &str| CopyOf::named(name).map(|copy| copy.scale_factor);
    kept::paths(dir, PARENT_PREFIX, scale_factor)
}

/// Removes the copies of these tables at a scale factor that any version of DuckDB made, and what a killed process left of them. Says
/// how many bytes that frees.
///
/// # Errors
/// If they cannot be removed.
pub fn remove(
    dir: &Path,
    scale_factor: f64,
    tables: &[&str],
    clock: &dyn Timer,
) -> Result<u64, BaselineError> {
    let is_wanted = |name: &str| {
        let copy = CopyOf::named(name);
        copy.is_some_and(|copy| copy.scale_factor == scale_factor && tables.contains(&copy.table))
    };
    let mut freed = 0;
    for place in kept::places(dir, PARENT_PREFIX, is_wanted) {
        freed += place.remove(clock)?;
    }
    Ok(freed)
}

/// A copy of a table.
#[derive(Clone, Copy)]
struct CopyOf<'a> {
    scale_factor: f64,
    table: &'a str,
}

/// The place of a table in the order in which tables are listed.
fn table_number(table: &str) -> Option<usize> {
    tpch::TABLES.iter().position(|one| *one == table)
}

impl<'a> CopyOf<'a> {
    /// The copy whose folder has this name.
    fn named(name: &'a str) -> Option<Self> {
        let name = name.strip_prefix("sf")?;
        let (scale_factor, table) = name.split_once('-').unwrap_or((name, LINEITEM));
        Some(Self {
            scale_factor: scale_factor.parse().ok()?,
            table: table_number(table).map(|_| table)?,
        })
    }

    fn name(self) -> String {
        format!("sf{}-{}", self.scale_factor, self.table)
    }

    fn place(self, library: Library, dir: &Path) -> Place {
        Place::new(dir, PARENT_PREFIX, library, self.name())
    }

    /// The files in `home`, if its manifest describes them.
    fn open(self, home: &Path, library: Library) -> Option<Baseline> {
        let manifest: Manifest = kept::manifest(home)?;
        let [duckdb_path, parquet_path] = self.files(home);
        let has = |path: &Path, bytes| fs::metadata(path).is_ok_and(|file| file.len() == bytes);
        let is_right = manifest.format == FORMAT
            && manifest.generator == GENERATOR
            && manifest.table == self.table
            && manifest.scale_factor == self.scale_factor
            && manifest.duckdb_version == library.version()
            && has(&duckdb_path, manifest.duckdb_bytes)
            && has(&parquet_path, manifest.parquet_bytes);
        is_right.then_some(Baseline {
            duckdb_path,
            duckdb_bytes: manifest.duckdb_bytes,
            parquet_path,
            parquet_bytes: manifest.parquet_bytes,
            rows: manifest.rows,
            is_new: false,
        })
    }

    /// DuckDB's file in a folder, and the Parquet file.
    fn files(self, folder: &Path) -> [PathBuf; 2] {
        ["duckdb", "parquet"].map(|format| folder.join(format!("{}.{format}", self.table)))
    }
}

/// The files of a copy that are looked for and made.
struct FilesOf<'a> {
    copy: CopyOf<'a>,
    library: Library,
    threads: usize,
    progress: &'a mut dyn FnMut(BaselineStep),
}

impl Making for FilesOf<'_> {
    type Files = Baseline;
    type Error = BaselineError;

    fn look(&self, home: &Path) -> Result<Option<Baseline>, String> {
        Ok(self.copy.open(home, self.library))
    }

    fn hear(&mut self, found: Found<'_>) -> Result<(), BaselineError> {
        if let Found::Maker = found {
            (self.progress)(BaselineStep::Waiting);
        }
        Ok(())
    }

    fn bytes_needed(&self) -> u64 {
        bytes_needed(self.copy.scale_factor, self.copy.table)
    }

    fn no_space(&self, dir: &Path, needed_bytes: u64, free_bytes: u64) -> BaselineError {
        BaselineError::NoSpace {
            table: self.copy.table.to_owned(),
            scale_factor: self.copy.scale_factor,
            dir: dir.to_owned(),
            needed_bytes,
            free_bytes,
        }
    }

    fn make(&mut self, partial: &Path) -> Result<(), BaselineError> {
        let CopyOf {
            scale_factor,
            table,
        } = self.copy;
        let [duckdb_path, parquet_path] = self.copy.files(partial);
        let config = Config {
            allowed_paths: vec![parquet_path.clone()],
            ..kept::making_config(partial, self.threads)
        };
        let database = Database::open(self.library, Some(&duckdb_path), &config)?;
        let mut connection = database.connect()?;
        let generated = Arc::new(AtomicU64::new(0));
        let source = generated::table(table, scale_factor, self.threads, Arc::clone(&generated))
            .ok_or_else(|| BaselineError::Table(table.to_owned()))?;
        connection.register("dpb_rows", source)?;
        let rows_expected = tpch::rows_expected(table, scale_factor);
        let create = format!("CREATE TABLE {table} AS SELECT * FROM dpb_rows()");
        self.execute(&mut connection, &create, &|| BaselineStep::Loading {
            rows: generated.load(Relaxed),
            rows_expected,
        })?;
        let rows = count(&mut connection, table)?;
        if rows != generated.load(Relaxed) {
            return Err(BaselineError::Rows {
                generated: generated.load(Relaxed),
                held: rows,
            });
        }
        let quoted = literal(parquet_path.display());
        let copy = format!("CHECKPOINT; COPY {table} TO {quoted} ({PARQUET})");
        self.execute(&mut connection, &copy, &|| BaselineStep::WritingParquet)?;
        // Closing is what writes the last of DuckDB's file and removes its log.
        drop((connection, database));
        kept::remove_spill(partial)?;
        kept::sync(&parquet_path)?;
        let manifest = Manifest {
            format: FORMAT,
            generator: GENERATOR.to_owned(),
            table: table.to_owned(),
            scale_factor,
            rows,
            duckdb_version: self.library.version().to_owned(),
            duckdb_bytes: len(&duckdb_path)?,
            parquet_bytes: len(&parquet_path)?,
        };
        Ok(kept::write_manifest(partial, &manifest)?)
    }
}

impl FilesOf<'_> {
    /// Runs `sql` to its end, while progress is told.
    fn execute(
        &mut self,
        connection: &mut Connection,
        sql: &str,
        step: &dyn Fn() -> BaselineStep,
    ) -> Result<(), BaselineError> {
        kept::execute(connection, sql, &mut || {
            (self.progress)(step());
            ControlFlow::Continue(())
        })?;
        Ok(())
    }
}

fn count(connection: &mut Connection, table: &str) -> Result<u64, BaselineError> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    let sql = format!("SELECT count(*) FROM {table}");
    let mut rows = connection.query(&sql, None, Delivery::Streamed)?;
    let batch = rows.next().expect("an aggregate has a row")?;
    Ok(batch.column(0).as_primitive::<Int64Type>().value(0) as u64)
}

fn bytes_needed(scale_factor: f64, table: &str) -> u64 {
    let segment_bytes = tpch::bytes_needed(scale_factor, [table]) as f64;
    (DISK_IN_SEGMENTS * segment_bytes) as u64 + DISK_BYTES_BESIDE
}

fn len(path: &Path) -> Result<u64, Refused> {
    fs::metadata(path)
        .map(|file| file.len())
        .map_err(|source| Refused::at(path, source))
}

#[cfg(test)]
mod tests;
