//! The peer's own copies of the data: tables in DuckDB's storage and in Parquet, each made once and kept.
//!
//! Both come from the generator itself, never from our segments, so that a comparison also checks our encoder. Rows are in
//! the generator's order, so that zone maps are as good for DuckDB as they are for us.
//!
//! ```text
//! DIR/duckdb-v2.0.0/sf1-orders/orders.duckdb     made by this version of DuckDB, because older ones cannot read newer files
//!                             /orders.parquet
//!                             /manifest.json
//! DIR/duckdb-v2.0.0/.sf1-orders.partial/         being made; renamed when whole, wiped when found without its maker
//! DIR/duckdb-v2.0.0/.sf1-orders.lock             held by the maker, or by who removes them
//! ```
//!
//! A folder `sf1` was made by an older dpb, which had lineitem alone: it is listed and removed, and not used.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use dpb_core::{Timer, WallClock};
use serde::{Deserialize, Serialize};

use super::generated;
use super::{Config, Connection, Database, Delivery, Error, Library, literal};
use crate::tpch::lock::Lock;
use crate::tpch::{self, GENERATOR};

/// Counted up when the files' layout or settings change, so that old ones are made anew.
const FORMAT: u32 = 2;

/// Memory for DuckDB while it makes the files, beside the generator's 300 MB of text.
const MEMORY_BYTES: u64 = 2 << 30;

/// Disk for both files in bytes of the table's segment. Of lineitem at scale factor 1 they take 170 and 164 MB, and the segment 172 MB;
/// a fifth is to spare.
const DISK_IN_SEGMENTS: f64 = 2.3;
/// Disk for what both files hold beside rows, bytes.
const DISK_BYTES_BESIDE: u64 = 1 << 20;
/// The table of folders that an older dpb made, whose names have none.
const LINEITEM: &str = "lineitem";

/// DuckDB's storage format. The one of 1.0 keeps text in FSST; from 1.3 on it is DICT_FSST, which made the file 7 %
/// larger, all 16 columns at 1 % 2.2 times slower, LIKE 1.2 times slower and nothing faster (DuckDB 2.0.0, scale factor 1).
const STORAGE_VERSION: &str = "v1.0.0";

/// As large as DuckDB's own row groups. Snappy scanned 5 to 20 % faster than zstd, whose file is 16 % smaller.
/// No second file takes part, because one only is allowed.
const PARQUET: &str = "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION snappy, ROW_GROUP_SIZE 122880, \
                       USE_TMP_FILE false";

const MANIFEST: &str = "manifest.json";

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
    let parent = parent(library, dir);
    let copy = CopyOf {
        scale_factor,
        table,
    };
    let home = copy.home(&parent);
    if let Some(found) = copy.open(&home, library) {
        return Ok(found);
    }
    fs::create_dir_all(&parent).map_err(|source| at(&parent, source))?;
    let _lock = copy.lock(&parent, clock, || progress(BaselineStep::Waiting))?;
    // Whoever held the lock before may have made them.
    if let Some(found) = copy.open(&home, library) {
        return Ok(found);
    }
    let partial = copy.partial(&parent);
    for stale in [&partial, &home] {
        remove_folder(stale)?;
    }
    copy.check_space(&parent)?;
    fs::create_dir(&partial).map_err(|source| at(&partial, source))?;
    let made = copy
        .make(library, &partial, threads, progress)
        .and_then(|()| {
            fs::rename(&partial, &home).map_err(|source| at(&home, source))?;
            sync(&parent)?;
            let unreadable = || io::Error::other("was just made and cannot be read");
            copy.open(&home, library)
                .ok_or_else(|| at(&home, unreadable()))
        });
    match made {
        Ok(made) => Ok(Baseline {
            is_new: true,
            ..made
        }),
        Err(why) => {
            remove_folder(&partial)?;
            Err(why)
        }
    }
}

/// Finds the files of `table` at `scale_factor` under `dir`, if these versions of DuckDB and the generator have made them; makes
/// nothing.
pub fn find(library: Library, dir: &Path, scale_factor: f64, table: &str) -> Option<Baseline> {
    let copy = CopyOf {
        scale_factor,
        table,
    };
    copy.open(&copy.home(&parent(library, dir)), library)
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
    let parent = parent(library, dir);
    let path = copy.lock_path(&parent);
    if path.exists() {
        // It gives up before it would wait.
        let lock = Lock::take(&path, &WallClock::default(), || ControlFlow::Break(()));
        if let Some(lock) = lock.map_err(|source| at(&path, source))? {
            remove_folder(&copy.partial(&parent))?;
            lock.remove().map_err(|source| at(&path, source))?;
        }
    }
    // Stays if it holds another copy.
    let _ = fs::remove_dir(&parent);
    Ok(())
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
    for (parent, version) in parents(dir) {
        for (home, name) in entries(&parent) {
            let copy = CopyOf::named(&name);
            kept.extend(copy.map(|copy| Kept {
                rows: Manifest::read(&home).map(|manifest| manifest.rows),
                bytes: bytes_under(&home),
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
    let mut paths = Vec::new();
    for (parent, _) in parents(dir) {
        for (path, name) in entries(&parent) {
            let copy = CopyOf::named(shown_name(&name));
            let scale_factor = copy.map(|copy| copy.scale_factor);
            paths.extend(scale_factor.map(|scale_factor| (scale_factor, path)));
        }
    }
    paths.sort_by(|a: &(f64, _), b| a.0.total_cmp(&b.0));
    paths
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
    let mut freed = 0;
    for (parent, _) in parents(dir) {
        let mut names: Vec<String> = entries(&parent)
            .map(|(_, name)| shown_name(&name).to_owned())
            .filter(|name| {
                CopyOf::named(name).is_some_and(|copy| {
                    copy.scale_factor == scale_factor && tables.contains(&copy.table)
                })
            })
            .collect();
        names.sort();
        names.dedup();
        for name in names {
            let lock_path = lock_path(&parent, &name);
            let lock = lock(&lock_path, clock, || ())?;
            for folder in [parent.join(&name), partial(&parent, &name)] {
                freed += bytes_under(&folder);
                remove_folder(&folder)?;
            }
            lock.remove().map_err(|source| at(&lock_path, source))?;
        }
        // Stays if it holds another copy.
        let _ = fs::remove_dir(&parent);
    }
    Ok(freed)
}

/// A copy of a table.
#[derive(Clone, Copy)]
struct CopyOf<'a> {
    scale_factor: f64,
    table: &'a str,
}

/// The folder where this version of DuckDB keeps what it made.
fn parent(library: Library, dir: &Path) -> PathBuf {
    dir.join(format!("{PARENT_PREFIX}{}", library.version()))
}

/// The folder in which the copy of this name is made.
fn partial(parent: &Path, name: &str) -> PathBuf {
    parent.join(format!(".{name}.partial"))
}

fn lock_path(parent: &Path, name: &str) -> PathBuf {
    parent.join(format!(".{name}.lock"))
}

/// The name of a copy, of its own folder, the one in which it is made, or its lock.
fn shown_name(name: &str) -> &str {
    let hidden = name.strip_prefix('.');
    let half_made = hidden.and_then(|name| {
        name.strip_suffix(".partial")
            .or_else(|| name.strip_suffix(".lock"))
    });
    half_made.unwrap_or(name)
}

/// The place of a table in the order in which tables are listed.
fn table_number(table: &str) -> Option<usize> {
    tpch::TABLES.iter().position(|one| *one == table)
}

/// The folders of all versions of DuckDB, and these.
fn parents(dir: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    entries(dir).filter_map(|(path, name)| {
        let version = name.strip_prefix(PARENT_PREFIX)?.to_owned();
        Some((path, version))
    })
}

/// The entries of a folder, with names; nothing if it cannot be read.
fn entries(dir: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
}

/// Bytes of all files in a folder and below; 0 if it is not there.
fn bytes_under(dir: &Path) -> u64 {
    let bytes = |(path, _): (PathBuf, _)| match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_dir() => bytes_under(&path),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries(dir).map(bytes).sum()
}

impl Manifest {
    fn read(home: &Path) -> Option<Self> {
        let text = fs::read_to_string(home.join(MANIFEST)).ok()?;
        serde_json::from_str(&text).ok()
    }
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

    fn home(self, parent: &Path) -> PathBuf {
        parent.join(self.name())
    }

    fn partial(self, parent: &Path) -> PathBuf {
        partial(parent, &self.name())
    }

    fn lock_path(self, parent: &Path) -> PathBuf {
        lock_path(parent, &self.name())
    }

    fn lock(
        self,
        parent: &Path,
        clock: &dyn Timer,
        wait: impl FnMut(),
    ) -> Result<Lock, BaselineError> {
        lock(&self.lock_path(parent), clock, wait)
    }

    /// The files in `home`, if its manifest describes them.
    fn open(self, home: &Path, library: Library) -> Option<Baseline> {
        let manifest = Manifest::read(home)?;
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

    /// Makes all files in `partial`.
    fn make(
        self,
        library: Library,
        partial: &Path,
        threads: usize,
        progress: &mut dyn FnMut(BaselineStep),
    ) -> Result<(), BaselineError> {
        let Self {
            scale_factor,
            table,
        } = self;
        let [duckdb_path, parquet_path] = self.files(partial);
        let config = Config {
            threads: Some(threads.max(1)),
            memory_bytes_max: Some(MEMORY_BYTES),
            temp_dir: Some(partial.join("spill")),
            storage_version: Some(STORAGE_VERSION),
            allowed_paths: vec![parquet_path.clone()],
            ..Config::default()
        };
        let database = Database::open(library, Some(&duckdb_path), &config)?;
        let mut connection = database.connect()?;
        let generated = Arc::new(AtomicU64::new(0));
        let source = generated::table(table, scale_factor, threads, Arc::clone(&generated))
            .ok_or_else(|| BaselineError::Table(table.to_owned()))?;
        connection.register("dpb_rows", source)?;
        let rows_expected = tpch::rows_expected(table, scale_factor);
        let create = format!("CREATE TABLE {table} AS SELECT * FROM dpb_rows()");
        execute(&mut connection, &create, || {
            progress(BaselineStep::Loading {
                rows: generated.load(Relaxed),
                rows_expected,
            })
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
        execute(&mut connection, &copy, || {
            progress(BaselineStep::WritingParquet)
        })?;
        // Closing is what writes the last of DuckDB's file and removes its log.
        drop((connection, database));
        remove_folder(&partial.join("spill"))?;

        let manifest = Manifest {
            format: FORMAT,
            generator: GENERATOR.to_owned(),
            table: table.to_owned(),
            scale_factor,
            rows,
            duckdb_version: library.version().to_owned(),
            duckdb_bytes: len(&duckdb_path)?,
            parquet_bytes: len(&parquet_path)?,
        };
        let manifest_path = partial.join(MANIFEST);
        let text = serde_json::to_string_pretty(&manifest).expect("plain data");
        fs::write(&manifest_path, text).map_err(|source| at(&manifest_path, source))?;
        [&parquet_path, &manifest_path]
            .into_iter()
            .try_for_each(|path| sync(path))
    }

    fn check_space(self, dir: &Path) -> Result<(), BaselineError> {
        let disk = rustix::fs::statvfs(dir).map_err(|errno| at(dir, errno.into()))?;
        let free_bytes = disk.f_bavail * disk.f_frsize;
        let needed_bytes = bytes_needed(self.scale_factor, self.table);
        if needed_bytes > free_bytes {
            return Err(BaselineError::NoSpace {
                table: self.table.to_owned(),
                scale_factor: self.scale_factor,
                dir: dir.to_owned(),
                needed_bytes,
                free_bytes,
            });
        }
        Ok(())
    }
}

/// Runs `sql` on another thread, while `progress` is called.
fn execute(
    connection: &mut Connection,
    sql: &str,
    mut progress: impl FnMut(),
) -> Result<(), BaselineError> {
    const TICK: Duration = Duration::from_millis(100);
    let (finished, outcome) = sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || finished.send(connection.execute(sql)));
        loop {
            progress();
            match outcome.recv_timeout(TICK) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("it sends before it ends"),
                Ok(done) => return Ok(done.map(drop)?),
            }
        }
    })
}

fn count(connection: &mut Connection, table: &str) -> Result<u64, BaselineError> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    let sql = format!("SELECT count(*) FROM {table}");
    let mut rows = connection.query(&sql, None, Delivery::Streamed)?;
    let batch = rows.next().expect("an aggregate has a row")?;
    Ok(batch.column(0).as_primitive::<Int64Type>().value(0) as u64)
}

/// Takes the lock on a copy's files, and calls `wait` while another process has it.
fn lock(path: &Path, clock: &dyn Timer, mut wait: impl FnMut()) -> Result<Lock, BaselineError> {
    let taken = Lock::take(path, clock, || {
        wait();
        ControlFlow::Continue(())
    });
    let taken = taken.map_err(|source| at(path, source))?;
    Ok(taken.expect("it waits as long as it must"))
}

fn bytes_needed(scale_factor: f64, table: &str) -> u64 {
    let segment_bytes = tpch::bytes_needed(scale_factor, [table]) as f64;
    (DISK_IN_SEGMENTS * segment_bytes) as u64 + DISK_BYTES_BESIDE
}

/// Removes a folder and all in it, if it is there.
fn remove_folder(path: &Path) -> Result<(), BaselineError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(at(path, source)),
        _ => Ok(()),
    }
}

fn len(path: &Path) -> Result<u64, BaselineError> {
    fs::metadata(path)
        .map(|file| file.len())
        .map_err(|source| at(path, source))
}

fn sync(path: &Path) -> Result<(), BaselineError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|source| at(path, source))
}

fn at(path: &Path, source: io::Error) -> BaselineError {
    BaselineError::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
