//! Tables on disk: made once, then found.
//!
//! ```text
//! DATA_DIR/tpch/sf1/lineitem.dpbseg   one segment a table
//!                   manifest.json     what is there: rows, bytes, checksum, generator
//!                   .lock             held while tables are made
//!                   .lineitem.dpbseg.4711.tmp   a table in the making
//! ```
//!
//! A table counts only once the manifest names it, and the manifest is written after the table's file has its name and is on
//! disk. So a generation that was killed is redone, and what it left is removed by the next one, which holds the lock.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::rows::GENERATOR;
use super::lock::Lock;
use super::{TABLES, generate};
use crate::pushdown::segment::{Segment, SegmentError, VERSION, sync_parent, temporary_name};

/// Scale factors that can be asked for.
pub const SCALE_FACTORS: std::ops::RangeInclusive<f64> = 0.001..=10_000.0;

const MANIFEST: &str = "manifest.json";

/// The tables of one scale factor.
#[derive(Clone, Debug)]
pub struct TableSet {
    /// Their directory.
    pub dir: PathBuf,
    /// TPC-H's scale factor.
    pub scale_factor: f64,
    /// Those that are there, in the order of [`TABLES`].
    pub tables: Vec<Table>,
}

/// A table that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its file, in the set's directory.
    pub file: String,
    /// Its rows.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// CRC-32C of the whole file.
    pub crc32c: u32,
    /// Wall-clock seconds that it took to make.
    pub made_in_s: f64,
}

/// What `manifest.json` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    generator: String,
    segment_version: u32,
    scale_factor: f64,
    tables: BTreeMap<String, Table>,
}

/// What [`ensure`] does now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// Another process makes tables of this scale factor; this one waits for it.
    Waiting,
    /// Makes a table.
    Making {
        /// Which.
        table: &'a str,
        /// Rows written.
        rows: u64,
        /// Rows that it will have, about.
        rows_expected: u64,
    },
}

/// Hears what [`ensure`] does; breaks to give up.
pub type Progress<'a> = &'a (dyn Fn(Step<'_>) -> ControlFlow<()> + Sync);

/// Why there are no tables.
#[derive(Debug)]
pub enum DataError {
    /// What was asked for makes no sense.
    Usage(String),
    /// The disk is too small.
    Space {
        /// TPC-H's scale factor.
        scale_factor: f64,
        /// Where.
        dir: PathBuf,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A directory or a file cannot be written.
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A table is there, but damaged.
    Segment(SegmentError),
    /// A table is not there.
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// The progress callback gave up.
    Interrupted,
}

/// `$DPB_DATA_DIR`, else `$XDG_DATA_HOME/dpb`, else `~/.local/share/dpb`; without a home, `dpb-data` here.
pub fn default_data_dir() -> PathBuf {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    variable("DPB_DATA_DIR")
        .or_else(|| variable("XDG_DATA_HOME").map(|dir| dir.join("dpb")))
        .or_else(|| variable("HOME").map(|dir| dir.join(".local/share/dpb")))
        .unwrap_or_else(|| PathBuf::from("dpb-data"))
}

/// The directory of a scale factor's tables.
pub fn set_dir(data_dir: &Path, scale_factor: f64) -> PathBuf {
    data_dir.join("tpch").join(format!("sf{scale_factor}"))
}

/// Finds these tables under `data_dir`, and makes those that are not there with so many threads, or one a CPU if those are
/// fewer.
///
/// # Errors
/// [`DataError`]; nothing half made is left or found later.
pub fn ensure(
    data_dir: &Path,
    scale_factor: f64,
    tables: &[&str],
    threads: usize,
    progress: Progress<'_>,
) -> Result<TableSet, DataError> {
    check(scale_factor, tables, threads)?;
    let dir = set_dir(data_dir, scale_factor);
    let mut manifest = Manifest::read(&dir, scale_factor);
    if manifest.missing(&dir, tables).is_empty() {
        return Ok(manifest.table_set(dir));
    }
    let write = |path: &Path| {
        let path = path.to_owned();
        move |source| DataError::Write { path, source }
    };
    check_space(&dir, scale_factor, &manifest.missing(&dir, tables))?;
    fs::create_dir_all(&dir).map_err(write(&dir))?;
    let _lock = lock(&dir, progress)?;
    remove_leftovers(&dir).map_err(write(&dir))?;
    // Another process may have made them meanwhile.
    manifest = Manifest::read(&dir, scale_factor);
    let missing = manifest.missing(&dir, tables);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    for table in missing {
        let started = Instant::now();
        let file = format!("{table}.dpbseg");
        let rows_expected = rows_expected(table, scale_factor);
        let report = |rows| {
            progress(Step::Making {
                table,
                rows,
                rows_expected,
            })
        };
        if report(0).is_break() {
            return Err(DataError::Interrupted);
        }
        let made = generate::generate(
            table,
            scale_factor,
            &dir.join(&file),
            threads.min(cpus),
            &report,
        )?;
        let entry = Table {
            name: table.to_owned(),
            file,
            rows: made.rows,
            bytes: made.bytes,
            crc32c: made.crc32c,
            made_in_s: started.elapsed().as_secs_f64(),
        };
        manifest.tables.insert(table.to_owned(), entry);
        manifest.write(&dir).map_err(write(&dir.join(MANIFEST)))?;
    }
    Ok(manifest.table_set(dir))
}

/// The tables of every scale factor under `data_dir`, by scale factor.
///
/// # Errors
/// If the directory is there and cannot be read.
pub fn list(data_dir: &Path) -> Result<Vec<TableSet>, DataError> {
    let root = data_dir.join("tpch");
    let entries = match fs::read_dir(&root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(DataError::Write { path: root, source }),
    };
    let mut sets = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let scale_factor = name
            .to_str()
            .and_then(|name| name.strip_prefix("sf")?.parse::<f64>().ok());
        if let Some(scale_factor) = scale_factor {
            let set = find(data_dir, scale_factor);
            if !set.tables.is_empty() {
                sets.push(set);
            }
        }
    }
    sets.sort_by(|a, b| a.scale_factor.total_cmp(&b.scale_factor));
    Ok(sets)
}

/// The tables of a scale factor that are there; makes nothing.
pub fn find(data_dir: &Path, scale_factor: f64) -> TableSet {
    let dir = set_dir(data_dir, scale_factor);
    Manifest::read(&dir, scale_factor).table_set(dir)
}

/// Removes the tables of a scale factor, and what a killed generation left. Says how many bytes of tables that frees.
///
/// # Errors
/// If they cannot be removed.
pub fn remove(data_dir: &Path, scale_factor: f64, tables: &[&str]) -> Result<u64, DataError> {
    check(scale_factor, tables, 1)?;
    let dir = set_dir(data_dir, scale_factor);
    if !dir.exists() {
        return Ok(0);
    }
    let write = |source| DataError::Write {
        path: dir.clone(),
        source,
    };
    let lock = lock(&dir, &|_| ControlFlow::Continue(()))?;
    remove_leftovers(&dir).map_err(write)?;
    let mut manifest = Manifest::read(&dir, scale_factor);
    let mut freed = 0;
    for table in tables {
        // The manifest forgets the table first, so that a kill in between leaves a file that nobody believes.
        if manifest.tables.remove(*table).is_some() {
            manifest.write(&dir).map_err(write)?;
        }
        let path = dir.join(format!("{table}.dpbseg"));
        freed += fs::metadata(&path).map_or(0, |metadata| metadata.len());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(write(error)),
            _ => {}
        }
    }
    if manifest.tables.is_empty() {
        let _ = fs::remove_file(dir.join(MANIFEST));
        let _ = lock.remove();
        // Stays if somebody else keeps something in it.
        let _ = fs::remove_dir(&dir);
    }
    Ok(freed)
}

impl TableSet {
    /// A table of the set.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Where a table's file is, or would be.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.dpbseg"))
    }

    /// Opens a table.
    ///
    /// # Errors
    /// If it is not there or damaged in header or footer.
    pub fn open(&self, name: &str) -> Result<Segment, DataError> {
        match self.table(name) {
            Some(_) => Segment::open(&self.path(name)).map_err(DataError::Segment),
            None => Err(DataError::Missing {
                path: self.path(name),
            }),
        }
    }
}

impl Manifest {
    /// What the manifest says, or an empty one: if there is none, it cannot be read, or it is of another generator, scale
    /// factor or version.
    fn read(dir: &Path, scale_factor: f64) -> Self {
        let empty = Self {
            generator: GENERATOR.to_owned(),
            segment_version: VERSION,
            scale_factor,
            tables: BTreeMap::new(),
        };
        let read = fs::read(dir.join(MANIFEST)).ok();
        let manifest: Option<Self> = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let fits = |manifest: &Self| {
            manifest.generator == empty.generator
                && manifest.segment_version == empty.segment_version
                && manifest.scale_factor == empty.scale_factor
        };
        manifest.filter(fits).unwrap_or(empty)
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        let path = dir.join(MANIFEST);
        let temporary = temporary_name(&path);
        let mut file = File::create(&temporary)?;
        let text = serde_json::to_string_pretty(self).expect("a manifest is JSON");
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        sync_parent(&path)
    }

    /// Those of `tables` that are not there, in the order of [`TABLES`].
    fn missing<'a>(&self, dir: &Path, tables: &[&'a str]) -> Vec<&'a str> {
        let there = |name: &str| {
            self.tables
                .get(name)
                .is_some_and(|table| table.is_there(dir))
        };
        let place = |name: &&str| TABLES.iter().position(|table| table == name);
        let mut missing: Vec<&str> = tables
            .iter()
            .copied()
            .filter(|table| !there(table))
            .collect();
        missing.sort_by_key(place);
        missing.dedup();
        missing
    }

    fn table_set(&self, dir: PathBuf) -> TableSet {
        let tables = TABLES.iter().filter_map(|name| self.tables.get(*name));
        TableSet {
            scale_factor: self.scale_factor,
            tables: tables
                .filter(|table| table.is_there(&dir))
                .cloned()
                .collect(),
            dir,
        }
    }
}

impl Table {
    /// Whether the file is there, whole, and a segment of these rows. Its chunks are verified when they are read.
    fn is_there(&self, dir: &Path) -> bool {
        Segment::open(&dir.join(&self.file))
            .is_ok_and(|segment| segment.rows() == self.rows && segment.file_bytes() == self.bytes)
    }
}

fn check(scale_factor: f64, tables: &[&str], threads: usize) -> Result<(), DataError> {
    if !SCALE_FACTORS.contains(&scale_factor) {
        return Err(DataError::Usage(format!(
            "scale factor {scale_factor}: TPC-H data can be made for {} to {}",
            SCALE_FACTORS.start(),
            SCALE_FACTORS.end()
        )));
    }
    if let Some(table) = tables.iter().find(|table| !TABLES.contains(table)) {
        let names = TABLES.join(", ");
        return Err(DataError::Usage(format!(
            "TPC-H has no table `{table}`; its tables are {names}"
        )));
    }
    if threads == 0 {
        return Err(DataError::Usage(
            "0 threads make no data; ask for at least 1".to_owned(),
        ));
    }
    Ok(())
}

/// Bytes and rows of a table at scale factor 1, measured; small tables are allowed for by a constant.
fn size_at_1(table: &str) -> (f64, f64) {
    match table {
        "supplier" => (0.7e6, 10e3),
        "customer" => (11e6, 150e3),
        "part" => (6e6, 200e3),
        "partsupp" => (37e6, 800e3),
        "orders" => (44e6, 1.5e6),
        "lineitem" => (172e6, 6.001e6),
        _ => (0.0, 0.0),
    }
}

fn rows_expected(table: &str, scale_factor: f64) -> u64 {
    match table {
        "region" => 5,
        "nation" => 25,
        _ => (size_at_1(table).1 * scale_factor) as u64,
    }
}

/// Bytes that tables take, about, and a little more.
fn bytes_needed(scale_factor: f64, tables: &[&str]) -> u64 {
    let bytes = |table: &&str| 1e5 + size_at_1(table).0 * scale_factor * 1.05;
    tables.iter().map(bytes).sum::<f64>() as u64
}

/// Refuses what the disk cannot hold.
fn check_space(dir: &Path, scale_factor: f64, tables: &[&str]) -> Result<(), DataError> {
    let there = dir
        .ancestors()
        .find(|ancestor| ancestor.exists())
        .unwrap_or(Path::new("."));
    let space = rustix::fs::statvfs(there).map_err(|error| DataError::Write {
        path: dir.to_owned(),
        source: error.into(),
    })?;
    let needed = bytes_needed(scale_factor, tables);
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if needed > free {
        return Err(DataError::Space {
            scale_factor,
            dir: dir.to_owned(),
            needed,
            free,
        });
    }
    Ok(())
}

/// Waits until no other process makes tables here.
fn lock(dir: &Path, progress: Progress<'_>) -> Result<Lock, DataError> {
    let path = dir.join(".lock");
    match Lock::take(&path, || progress(Step::Waiting)) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(DataError::Interrupted),
        Err(source) => Err(DataError::Write { path, source }),
    }
}

/// Removes temporary files. Whoever made them is dead, for the lock is ours.
fn remove_leftovers(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with(".tmp") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) => f.write_str(what),
            Self::Space {
                scale_factor,
                dir,
                needed,
                free,
            } => {
                let dir = dir.display();
                let (needed, free) = (bytes(*needed), bytes(*free));
                write!(
                    f,
                    "--sf {scale_factor} needs {needed} in {dir}, {free} free"
                )
            }
            Self::Write { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Segment(error) => error.fmt(f),
            Self::Missing { path } => {
                write!(f, "{} is not there; `dpb data` makes it", path.display())
            }
            Self::Interrupted => f.write_str("interrupted; what was finished is kept"),
        }
    }
}

impl std::error::Error for DataError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Write { source, .. } => Some(source),
            Self::Segment(source) => Some(source),
            _ => None,
        }
    }
}

/// Bytes for a person, in powers of 1000.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{:.0} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests;
