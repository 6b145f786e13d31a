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
//! DIR/duckdb-v2.0.0/.sf1.lock               held by the maker
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

use serde::{Deserialize, Serialize};

use super::lineitem::{Lineitem, ORDERS, create_table};
use super::{Config, Connection, Database, Delivery, Error, Library};

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
const PARQUET: &str =
    "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION snappy, ROW_GROUP_SIZE 122880";

/// Where the peer's files lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// A DuckDB file with the table `lineitem`, checkpointed and closed.
    pub duckdb_path: PathBuf,
    /// Its bytes.
    pub duckdb_bytes: u64,
    /// The same rows in Parquet, written by DuckDB.
    pub parquet_path: PathBuf,
    /// Its bytes.
    pub parquet_bytes: u64,
    /// Rows of each.
    pub rows: u64,
    /// Whether this call made them; otherwise they were there.
    pub is_new: bool,
}

/// How far the making is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another process is making the same files.
    Waiting,
    /// Rows go into DuckDB's file.
    Loading {
        /// Rows so far.
        rows: u64,
        /// Rows in all, give or take a hundredth.
        rows_expected: u64,
    },
    /// DuckDB writes the Parquet file.
    WritingParquet,
}

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// Not a positive number, or more than the generator counts.
    #[error("scale factor {0} is not between 0.0001 and 100000")]
    ScaleFactor(f64),
    /// Not enough disk.
    #[error(
        "DuckDB's copy of scale factor {scale_factor} needs {} MB in {}, {} MB are free",
        needed_bytes / 1_000_000, dir.display(), free_bytes / 1_000_000
    )]
    NoSpace {
        /// What was asked for.
        scale_factor: f64,
        /// Where.
        dir: PathBuf,
        /// How much it takes.
        needed_bytes: u64,
        /// How much there is.
        free_bytes: u64,
    },
    /// A file could not be made, read or renamed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// DuckDB refused.
    #[error(transparent)]
    Duckdb(#[from] Error),
    /// DuckDB holds another number of rows than the generator made.
    #[error("the generator made {generated} rows, DuckDB holds {held}")]
    Rows {
        /// By the generator.
        generated: u64,
        /// In the table.
        held: u64,
    },
    /// `progress` asked for it. Nothing is left behind.
    #[error("stopped while making DuckDB's copy of the data")]
    Stopped,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    table: String,
    scale_factor: f64,
    rows: u64,
    duckdb_version: String,
    duckdb_bytes: u64,
    parquet_bytes: u64,
}

/// Makes the files for `scale_factor` under `dir`, or finds them made by the same version of DuckDB.
///
/// `progress` is called several times a second from the calling thread, and stops the work by answering `Break`. Two
/// processes that ask for the same files make them once. Takes about 5 s and 0.35 GB of disk at scale factor 1, and less
/// than 3 GB of memory at any.
///
/// # Errors
/// [`BaselineError`]; nothing half-made is left that a later call would use.
pub fn ensure(
    library: Library,
    dir: &Path,
    scale_factor: f64,
    threads: usize,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Baseline, BaselineError> {
    if !(0.0001..=100_000.0).contains(&scale_factor) {
        return Err(BaselineError::ScaleFactor(scale_factor));
    }
    let parent = dir.join(format!("duckdb-{}", library.version()));
    let home = parent.join(format!("sf{scale_factor}"));
    if let Some(found) = open(&home, library, scale_factor) {
        return Ok(found);
    }
    fs::create_dir_all(&parent).map_err(|source| at(&parent, source))?;
    let _lock = lock(&parent.join(format!(".sf{scale_factor}.lock")), progress)?;
    // Whoever held the lock before may have made them.
    if let Some(found) = open(&home, library, scale_factor) {
        return Ok(found);
    }
    let partial = parent.join(format!(".sf{scale_factor}.partial"));
    for stale in [&partial, &home] {
        remove(stale)?;
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
            remove(&partial)?;
            Err(why)
        }
    }
}

/// Finds the files for `scale_factor` under `dir`, if this version of DuckDB has made them; makes nothing.
pub fn find(library: Library, dir: &Path, scale_factor: f64) -> Option<Baseline> {
    let parent = dir.join(format!("duckdb-{}", library.version()));
    open(
        &parent.join(format!("sf{scale_factor}")),
        library,
        scale_factor,
    )
}

/// The files in `home`, if its manifest describes them.
fn open(home: &Path, library: Library, scale_factor: f64) -> Option<Baseline> {
    let text = fs::read_to_string(home.join("manifest.json")).ok()?;
    let manifest: Manifest = serde_json::from_str(&text).ok()?;
    let duckdb_path = home.join("lineitem.duckdb");
    let parquet_path = home.join("lineitem.parquet");
    let has = |path: &Path, bytes| fs::metadata(path).is_ok_and(|file| file.len() == bytes);
    let is_right = manifest.format == FORMAT
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
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), BaselineError> {
    let duckdb_path = partial.join("lineitem.duckdb");
    let parquet_path = partial.join("lineitem.parquet");
    let config = Config {
        threads: Some(threads.max(1)),
        memory_bytes_max: Some(MEMORY_BYTES),
        temp_dir: Some(partial.join("spill")),
        storage_version: Some(STORAGE_VERSION),
        ..Config::default()
    };
    let database = Database::open(library, Some(&duckdb_path), &config)?;
    let mut connection = database.connect()?;
    let generated = Arc::new(AtomicU64::new(0));
    let source = Lineitem::new(scale_factor, threads, Arc::clone(&generated));
    connection.register("dpb_lineitem", Box::new(source))?;
    let rows_expected = (scale_factor * ORDERS * 4.0) as u64;
    execute(&mut connection, &create_table("dpb_lineitem()"), || {
        progress(Progress::Loading {
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
    let quoted = parquet_path.display().to_string().replace('\'', "''");
    let copy = format!("CHECKPOINT; COPY lineitem TO '{quoted}' ({PARQUET})");
    execute(&mut connection, &copy, || {
        progress(Progress::WritingParquet)
    })?;
    // Closing is what writes the last of DuckDB's file and removes its log.
    drop((connection, database));
    remove(&partial.join("spill"))?;

    let manifest = Manifest {
        format: FORMAT,
        table: "lineitem".to_owned(),
        scale_factor,
        rows,
        duckdb_version: library.version().to_owned(),
        duckdb_bytes: len(&duckdb_path)?,
        parquet_bytes: len(&parquet_path)?,
    };
    let manifest_path = partial.join("manifest.json");
    let text = serde_json::to_string_pretty(&manifest).expect("plain data");
    fs::write(&manifest_path, text).map_err(|source| at(&manifest_path, source))?;
    [&parquet_path, &manifest_path]
        .into_iter()
        .try_for_each(|path| sync(path))
}

/// Runs `sql` on another thread, while `progress` is asked whether to go on.
fn execute(
    connection: &mut Connection,
    sql: &str,
    mut progress: impl FnMut() -> ControlFlow<()>,
) -> Result<(), BaselineError> {
    const TICK: Duration = Duration::from_millis(100);
    let interrupt = connection.interrupt_handle();
    let (finished, outcome) = sync_channel(1);
    let mut is_stopped = false;
    std::thread::scope(|scope| {
        scope.spawn(move || finished.send(connection.execute(sql)));
        loop {
            is_stopped |= progress().is_break();
            if is_stopped {
                // Again each time: one that comes before the statement has begun is forgotten by DuckDB.
                interrupt.interrupt();
            }
            match outcome.recv_timeout(TICK) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("it sends before it ends"),
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(_)) if is_stopped => return Err(BaselineError::Stopped),
                Ok(Err(why)) => return Err(why.into()),
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

/// Takes the lock, which goes with the process that holds it.
fn lock(
    path: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<File, BaselineError> {
    let file = File::create(path).map_err(|source| at(path, source))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) => {
                if progress(Progress::Waiting).is_break() {
                    return Err(BaselineError::Stopped);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(fs::TryLockError::Error(source)) => return Err(at(path, source)),
        }
    }
}

fn check_space(dir: &Path, scale_factor: f64) -> Result<(), BaselineError> {
    let disk = rustix::fs::statvfs(dir).map_err(|errno| at(dir, errno.into()))?;
    let free_bytes = disk.f_bavail * disk.f_frsize;
    let needed_bytes = (DISK_BYTES_AT_SF1 * scale_factor) as u64;
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
fn remove(path: &Path) -> Result<(), BaselineError> {
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
