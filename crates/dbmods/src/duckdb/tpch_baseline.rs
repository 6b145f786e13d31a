//! The peer's own copy of the data: `lineitem` in DuckDB's storage and in Parquet, made once and kept.
//!
//! Both come from the generator itself, never from our segments, so that a comparison also checks our encoder. Rows are in
//! the generator's order, so that zone maps are as good for DuckDB as they are for us.
//!
//! ```text
//! DIR/duckdb-v2.0.0/sf1/lineitem.duckdb     made by this version of DuckDB, because older ones cannot read newer files
//!                      /lineitem.parquet
//!                      /manifest.json
//! DIR/duckdb-v2.0.0/.sf1.partial/           being made; renamed when whole, wiped when found without its maker
//! DIR/duckdb-v2.0.0/.sf1.lock               held by the maker, or by who removes them
//! ```

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

use super::lineitem::{Lineitem, ORDERS, create_table};
use super::{Config, Connection, Database, Delivery, Error, Library, literal};
use crate::tpch::GENERATOR;
use crate::tpch::lock::Lock;

/// Counted up when the files' layout or settings change, so that old ones are made anew.
const FORMAT: u32 = 1;

/// Memory for DuckDB while it makes the files, beside the generator's 300 MB of text.
const MEMORY_BYTES: u64 = 2 << 30;

/// Disk for both files at scale factor 1: 170 and 164 MB, and a fifth to spare.
const DISK_BYTES_AT_SF1: f64 = 400e6;

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

/// The files of DuckDB's copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// The path of a DuckDB file with the table `lineitem`, checkpointed and closed.
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
    /// The disk has too little free space.
    #[error(
        "DuckDB's copy of scale factor {scale_factor} needs {} MB in {}, {} MB are free",
        needed_bytes / 1_000_000, dir.display(), free_bytes / 1_000_000
    )]
    NoSpace {
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

/// Makes the files for `scale_factor` under `dir`, or finds them made by the same versions of DuckDB and the generator.
///
/// `progress` is called several times a second from the calling thread. Two processes that ask for the same files make
/// them once. The work takes about 5 s and 0.35 GB of disk at scale factor 1, and less than 3 GB of memory at any.
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
    threads: usize,
    clock: &dyn Timer,
    progress: &mut dyn FnMut(BaselineStep),
) -> Result<Baseline, BaselineError> {
    if !(0.0001..=100_000.0).contains(&scale_factor) {
        return Err(BaselineError::ScaleFactor(scale_factor));
    }
    let parent = parent(library, dir);
    let home = home(&parent, scale_factor);
    if let Some(found) = open(&home, library, scale_factor) {
        return Ok(found);
    }
    fs::create_dir_all(&parent).map_err(|source| at(&parent, source))?;
    let _lock = lock(&parent, scale_factor, clock, || {
        progress(BaselineStep::Waiting)
    })?;
    // Whoever held the lock before may have made them.
    if let Some(found) = open(&home, library, scale_factor) {
        return Ok(found);
    }
    let partial = partial(&parent, scale_factor);
    for stale in [&partial, &home] {
        remove_folder(stale)?;
    }
    check_space(&parent, scale_factor)?;
    fs::create_dir(&partial).map_err(|source| at(&partial, source))?;
    let made = make(library, &partial, scale_factor, threads, progress).and_then(|()| {
        fs::rename(&partial, &home).map_err(|source| at(&home, source))?;
        sync(&parent)?;
        let unreadable = || io::Error::other("was just made and cannot be read");
        open(&home, library, scale_factor).ok_or_else(|| at(&home, unreadable()))
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

/// Finds the files for `scale_factor` under `dir`, if these versions of DuckDB and the generator have made them; makes
/// nothing.
pub fn find(library: Library, dir: &Path, scale_factor: f64) -> Option<Baseline> {
    let home = home(&parent(library, dir), scale_factor);
    open(&home, library, scale_factor)
}

/// Removes what an [`ensure`] left whose process was killed, unless another process makes the same files now.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_unfinished(
    library: Library,
    dir: &Path,
    scale_factor: f64,
) -> Result<(), BaselineError> {
    let parent = parent(library, dir);
    let path = lock_path(&parent, scale_factor);
    if path.exists() {
        // It gives up before it would wait.
        let lock = Lock::take(&path, &WallClock::default(), || ControlFlow::Break(()));
        if let Some(lock) = lock.map_err(|source| at(&path, source))? {
            remove_folder(&partial(&parent, scale_factor))?;
            lock.remove().map_err(|source| at(&path, source))?;
        }
    }
    // Stays if it holds another scale factor.
    let _ = fs::remove_dir(&parent);
    Ok(())
}

/// Estimates the bytes of disk that [`ensure`] would take; 0 if the files are there.
pub fn bytes_to_make(library: Library, dir: &Path, scale_factor: f64) -> u64 {
    match find(library, dir, scale_factor) {
        Some(_) => 0,
        None => bytes_needed(scale_factor),
    }
}

/// Lists the copies of every scale factor and version under `dir`, ordered by both.
pub fn list(dir: &Path) -> Vec<Kept> {
    let mut kept = Vec::new();
    for (parent, version) in parents(dir) {
        for (home, name) in entries(&parent) {
            let scale_factor = name.strip_prefix("sf").and_then(|sf| sf.parse().ok());
            kept.extend(scale_factor.map(|scale_factor| Kept {
                rows: Manifest::read(&home).map(|manifest| manifest.rows),
                bytes: bytes_under(&home),
                dir: home,
                duckdb_version: version.clone(),
                scale_factor,
            }));
        }
    }
    kept.sort_by(|a, b| {
        let versions = || a.duckdb_version.cmp(&b.duckdb_version);
        a.scale_factor
            .total_cmp(&b.scale_factor)
            .then_with(versions)
    });
    kept
}

/// The paths under `dir` of copies that are whole or half made, and of their locks, with the scale factor, ordered by it.
pub fn paths(dir: &Path) -> Vec<(f64, PathBuf)> {
    let mut paths = Vec::new();
    for (parent, _) in parents(dir) {
        for (path, name) in entries(&parent) {
            let hidden = name.strip_prefix('.');
            let half_made = hidden.and_then(|name| {
                name.strip_suffix(".partial")
                    .or_else(|| name.strip_suffix(".lock"))
            });
            let name = half_made.unwrap_or(&name);
            let scale_factor = name.strip_prefix("sf").and_then(|sf| sf.parse().ok());
            paths.extend(scale_factor.map(|scale_factor| (scale_factor, path)));
        }
    }
    paths.sort_by(|a: &(f64, _), b| a.0.total_cmp(&b.0));
    paths
}

/// Removes the copies of a scale factor that any version of DuckDB made, and what a killed process left of them. Says how
/// many bytes that frees.
///
/// # Errors
/// If they cannot be removed.
pub fn remove(dir: &Path, scale_factor: f64, clock: &dyn Timer) -> Result<u64, BaselineError> {
    let mut freed = 0;
    for (parent, _) in parents(dir) {
        let folders = [home(&parent, scale_factor), partial(&parent, scale_factor)];
        let lock_path = lock_path(&parent, scale_factor);
        if !folders.iter().chain([&lock_path]).any(|path| path.exists()) {
            continue;
        }
        let lock = lock(&parent, scale_factor, clock, || ())?;
        for folder in &folders {
            freed += bytes_under(folder);
            remove_folder(folder)?;
        }
        lock.remove().map_err(|source| at(&lock_path, source))?;
        // Stays if it holds another scale factor.
        let _ = fs::remove_dir(&parent);
    }
    Ok(freed)
}

/// The folder where this version of DuckDB keeps what it made.
fn parent(library: Library, dir: &Path) -> PathBuf {
    dir.join(format!("{PARENT_PREFIX}{}", library.version()))
}

fn home(parent: &Path, scale_factor: f64) -> PathBuf {
    parent.join(format!("sf{scale_factor}"))
}

fn partial(parent: &Path, scale_factor: f64) -> PathBuf {
    parent.join(format!(".sf{scale_factor}.partial"))
}

fn lock_path(parent: &Path, scale_factor: f64) -> PathBuf {
    parent.join(format!(".sf{scale_factor}.lock"))
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

/// The files in `home`, if its manifest describes them.
fn open(home: &Path, library: Library, scale_factor: f64) -> Option<Baseline> {
    let manifest = Manifest::read(home)?;
    let duckdb_path = home.join("lineitem.duckdb");
    let parquet_path = home.join("lineitem.parquet");
    let has = |path: &Path, bytes| fs::metadata(path).is_ok_and(|file| file.len() == bytes);
    let is_right = manifest.format == FORMAT
        && manifest.generator == GENERATOR
        && manifest.scale_factor == scale_factor
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

/// Makes all files in `partial`.
fn make(
    library: Library,
    partial: &Path,
    scale_factor: f64,
    threads: usize,
    progress: &mut dyn FnMut(BaselineStep),
) -> Result<(), BaselineError> {
    let duckdb_path = partial.join("lineitem.duckdb");
    let parquet_path = partial.join("lineitem.parquet");
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
    let source = Lineitem::new(scale_factor, threads, Arc::clone(&generated));
    connection.register("dpb_lineitem", Box::new(source))?;
    let rows_expected = (scale_factor * ORDERS * 4.0) as u64;
    execute(&mut connection, &create_table("dpb_lineitem()"), || {
        progress(BaselineStep::Loading {
            rows: generated.load(Relaxed),
            rows_expected,
        })
    })?;
    let rows = count(&mut connection)?;
    if rows != generated.load(Relaxed) {
        return Err(BaselineError::Rows {
            generated: generated.load(Relaxed),
            held: rows,
        });
    }
    let quoted = literal(parquet_path.display());
    let copy = format!("CHECKPOINT; COPY lineitem TO {quoted} ({PARQUET})");
    execute(&mut connection, &copy, || {
        progress(BaselineStep::WritingParquet)
    })?;
    // Closing is what writes the last of DuckDB's file and removes its log.
    drop((connection, database));
    remove_folder(&partial.join("spill"))?;

    let manifest = Manifest {
        format: FORMAT,
        generator: GENERATOR.to_owned(),
        table: "lineitem".to_owned(),
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

fn count(connection: &mut Connection) -> Result<u64, BaselineError> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    let mut rows = connection.query("SELECT count(*) FROM lineitem", None, Delivery::Streamed)?;
    let batch = rows.next().expect("an aggregate has a row")?;
    Ok(batch.column(0).as_primitive::<Int64Type>().value(0) as u64)
}

/// Takes the lock on a scale factor's files, and calls `wait` while another process has it.
fn lock(
    parent: &Path,
    scale_factor: f64,
    clock: &dyn Timer,
    mut wait: impl FnMut(),
) -> Result<Lock, BaselineError> {
    let path = lock_path(parent, scale_factor);
    let taken = Lock::take(&path, clock, || {
        wait();
        ControlFlow::Continue(())
    });
    let taken = taken.map_err(|source| at(&path, source))?;
    Ok(taken.expect("it waits as long as it must"))
}

fn bytes_needed(scale_factor: f64) -> u64 {
    (DISK_BYTES_AT_SF1 * scale_factor) as u64
}

fn check_space(dir: &Path, scale_factor: f64) -> Result<(), BaselineError> {
    let disk = rustix::fs::statvfs(dir).map_err(|errno| at(dir, errno.into()))?;
    let free_bytes = disk.f_bavail * disk.f_frsize;
    let needed_bytes = bytes_needed(scale_factor);
    if needed_bytes > free_bytes {
        return Err(BaselineError::NoSpace {
            scale_factor,
            dir: dir.to_owned(),
            needed_bytes,
            free_bytes,
        });
    }
    Ok(())
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
