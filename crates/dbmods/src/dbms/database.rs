//! DuckDB's file with all eight tables of TPC-H, made once of our segments and kept.
//!
//! ```text
//! DIR/dbms-duckdb-v2.0.0/sf1/tpch.duckdb     made by this version of DuckDB, because older ones cannot read newer files
//!                           /manifest.json   what was made: rows, bytes, checksum, generator
//! DIR/dbms-duckdb-v2.0.0/.sf1.partial/       being made; renamed when whole, wiped when found without its maker
//! DIR/dbms-duckdb-v2.0.0/.sf1.lock           held by the maker, or by who removes them
//! ```
//!
//! A file whose length or checksum is not what the manifest says is damaged, and made anew. Rows are in the generator's order, as in our
//! segments, so that zone maps are as good for one as for the other.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use crc_fast::{CrcAlgorithm, Digest};
use dpb_core::Timer;
use serde::{Deserialize, Serialize};

use crate::Table;
use crate::duckdb::{Config, Connection, Database, Error, Library};
use crate::table::Cache;
use crate::tpch::lock::Lock;
use crate::tpch::{DataError, GENERATOR, TABLES, TableSet};

/// Counted up when the file's layout or settings change, so that old ones are made anew.
const FORMAT: u32 = 1;
/// Memory for DuckDB while it makes the file.
const MEMORY_BYTES: u64 = 2 << 30;
/// Disk for the file at scale factor 1, and a fifth to spare.
const DISK_BYTES_AT_SF1: f64 = 340e6;
/// Disk for an empty file's blocks.
const DISK_BYTES_LEAST: f64 = 4e6;
/// DuckDB's storage format, as of the pushdown's copies; see [`crate::duckdb::tpch_baseline`].
const STORAGE_VERSION: &str = "v1.0.0";
const FILE: &str = "tpch.duckdb";
const MANIFEST: &str = "manifest.json";
/// Before the version, in the name of the folder of what it made.
const PARENT_PREFIX: &str = "dbms-duckdb-";
/// Between two reports of what was loaded.
const TICK: Duration = Duration::from_millis(100);

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

/// The place of a scale factor's file and of what is beside it.
struct Place {
    parent: PathBuf,
    home: PathBuf,
    partial: PathBuf,
    lock: PathBuf,
}

impl Place {
    fn of(library: Library, dir: &Path, scale_factor: f64) -> Self {
        let parent = dir.join(format!("{PARENT_PREFIX}{}", library.version()));
        Self::in_parent(parent, scale_factor)
    }

    fn in_parent(parent: PathBuf, scale_factor: f64) -> Self {
        Self {
            home: parent.join(format!("sf{scale_factor}")),
            partial: parent.join(format!(".sf{scale_factor}.partial")),
            lock: parent.join(format!(".sf{scale_factor}.lock")),
            parent,
        }
    }
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
    let sf = tables.scale_factor;
    let place = Place::of(library, dir, sf);
    if let Ok(Some(found)) = look(&place, library, sf) {
        return Ok(found);
    }
    fs::create_dir_all(&place.parent).map_err(|source| at(&place.parent, source))?;
    let lock = Lock::take(&place.lock, clock, || progress(DatabaseStep::Waiting));
    let lock = lock.map_err(|source| at(&place.lock, source))?;
    let _lock = lock.ok_or(DatabaseError::Interrupted)?;
    // Whoever held the lock before may have made it.
    match look(&place, library, sf) {
        Ok(Some(found)) => return Ok(found),
        Ok(None) => {}
        Err(damage) => {
            if progress(DatabaseStep::Damaged { what: &damage }).is_break() {
                return Err(DatabaseError::Interrupted);
            }
        }
    }
    for stale in [&place.partial, &place.home] {
        remove_folder(stale)?;
    }
    check_space(&place.parent, sf)?;
    fs::create_dir(&place.partial).map_err(|source| at(&place.partial, source))?;
    let made = make(library, &place.partial, tables, threads, progress).and_then(|()| {
        fs::rename(&place.partial, &place.home).map_err(|source| at(&place.home, source))?;
        sync(&place.parent)?;
        let unreadable = || {
            at(
                &place.home,
                io::Error::other("was just made and cannot be read"),
            )
        };
        look(&place, library, sf)
            .ok()
            .flatten()
            .ok_or_else(unreadable)
    });
    match made {
        Ok(made) => Ok(TpchDatabase {
            is_new: true,
            ..made
        }),
        Err(why) => {
            remove_folder(&place.partial)?;
            Err(why)
        }
    }
}

/// Bytes of disk that [`ensure`] would take, about; 0 if the file is there, whether it is damaged or not.
pub fn bytes_to_make(library: Library, dir: &Path, scale_factor: f64) -> u64 {
    let place = Place::of(library, dir, scale_factor);
    match Manifest::read(&place.home) {
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
    let mut paths = Vec::new();
    for parent in parents(dir) {
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

/// Removes the files of a scale factor that any version of DuckDB made, and what a killed process left of them.
///
/// # Errors
/// If they cannot be removed.
pub fn remove(dir: &Path, scale_factor: f64, clock: &dyn Timer) -> Result<(), DatabaseError> {
    for parent in parents(dir) {
        let place = Place::in_parent(parent, scale_factor);
        let all = [&place.home, &place.partial, &place.lock];
        if !all.iter().any(|path| path.exists()) {
            continue;
        }
        let lock = Lock::take(&place.lock, clock, || ControlFlow::Continue(()));
        let lock = lock.map_err(|source| at(&place.lock, source))?;
        remove_folder(&place.home)?;
        remove_folder(&place.partial)?;
        if let Some(lock) = lock {
            lock.remove().map_err(|source| at(&place.lock, source))?;
        }
        // Stays if it holds another scale factor.
        let _ = fs::remove_dir(&place.parent);
    }
    Ok(())
}

/// The folders of all versions of DuckDB.
fn parents(dir: &Path) -> impl Iterator<Item = PathBuf> {
    entries(dir).filter_map(|(path, name)| name.starts_with(PARENT_PREFIX).then_some(path))
}

/// The entries of a folder, with names; nothing if it cannot be read.
fn entries(dir: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
}

impl Manifest {
    fn read(home: &Path) -> Option<Self> {
        let text = fs::read_to_string(home.join(MANIFEST)).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// The database, if it is there and of these versions; what is wrong with one that is damaged.
fn look(
    place: &Place,
    library: Library,
    scale_factor: f64,
) -> Result<Option<TpchDatabase>, String> {
    let Some(manifest) = Manifest::read(&place.home) else {
        return Ok(None);
    };
    let is_ours = manifest.format == FORMAT
        && manifest.generator == GENERATOR
        && manifest.scale_factor == scale_factor
        && manifest.duckdb_version == library.version();
    if !is_ours {
        return Ok(None);
    }
    let path = place.home.join(FILE);
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

/// Makes the file and its manifest in `partial`.
fn make(
    library: Library,
    partial: &Path,
    tables: &TableSet,
    threads: usize,
    progress: DatabaseProgress<'_>,
) -> Result<(), DatabaseError> {
    let path = partial.join(FILE);
    let config = Config {
        threads: Some(threads.max(1)),
        memory_bytes_max: Some(MEMORY_BYTES),
        temp_dir: Some(partial.join("spill")),
        storage_version: Some(STORAGE_VERSION),
        ..Config::default()
    };
    let database = Database::open(library, Some(&path), &config)?;
    let mut connection = database.connect()?;
    let mut rows = BTreeMap::new();
    for table in TABLES {
        let segment = Arc::new(tables.open(table)?);
        let rows_all = segment.rows();
        // Read once, so nothing is kept.
        let segment = Table::of(segment).with_cache(Arc::new(Cache::new(0)));
        let handed = Arc::new(AtomicU64::new(0));
        let source = format!("dpb_{table}");
        connection.register_segment(&source, segment, Arc::clone(&handed))?;
        let sql = format!("CREATE TABLE {table} AS SELECT * FROM {source}()");
        let held = execute(&mut connection, &sql, &mut || {
            progress(DatabaseStep::Loading {
                table,
                rows: handed.load(Relaxed),
                rows_all,
            })
        })?;
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
    remove_folder(&partial.join("spill"))?;
    sync(&path)?;
    let (bytes, crc32c) = checksum(&path).map_err(|source| at(&path, source))?;
    let manifest = Manifest {
        format: FORMAT,
        generator: GENERATOR.to_owned(),
        scale_factor: tables.scale_factor,
        duckdb_version: library.version().to_owned(),
        rows,
        bytes,
        crc32c,
    };
    let manifest_path = partial.join(MANIFEST);
    let text = serde_json::to_string_pretty(&manifest).expect("plain data");
    fs::write(&manifest_path, text).map_err(|source| at(&manifest_path, source))?;
    sync(&manifest_path)
}

/// Runs `sql` on another thread while `progress` is called, which may have it stopped; says how many rows it changed.
fn execute(
    connection: &mut Connection,
    sql: &str,
    progress: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<u64, DatabaseError> {
    let interrupt = connection.interrupt_handle();
    let (finished, outcome) = sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || finished.send(connection.execute(sql)));
        let mut is_stopped = false;
        loop {
            if is_stopped || progress().is_break() {
                is_stopped = true;
                // Again each time: one that comes before the statement has begun is forgotten by DuckDB.
                interrupt.interrupt();
            }
            match outcome.recv_timeout(TICK) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("it sends before it ends"),
                Ok(_) if is_stopped => return Err(DatabaseError::Interrupted),
                Ok(done) => return Ok(done?),
            }
        }
    })
}

fn check_space(dir: &Path, scale_factor: f64) -> Result<(), DatabaseError> {
    let disk = rustix::fs::statvfs(dir).map_err(|errno| at(dir, errno.into()))?;
    let free_bytes = disk.f_bavail * disk.f_frsize;
    let needed_bytes = bytes_needed(scale_factor);
    match needed_bytes > free_bytes {
        true => Err(DatabaseError::NoSpace {
            scale_factor,
            dir: dir.to_owned(),
            needed_bytes,
            free_bytes,
        }),
        false => Ok(()),
    }
}

/// Removes a folder and all in it, if it is there.
fn remove_folder(path: &Path) -> Result<(), DatabaseError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(at(path, source)),
        _ => Ok(()),
    }
}

fn sync(path: &Path) -> Result<(), DatabaseError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|source| at(path, source))
}

fn at(path: &Path, source: io::Error) -> DatabaseError {
    DatabaseError::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
