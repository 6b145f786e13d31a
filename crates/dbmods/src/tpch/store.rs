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
//! disk. So a generation that was killed is redone, and what it left is removed by the next one, which holds the lock. A file
//! that is not what the manifest says is damaged: who reads it is told so, and [`ensure`] says so and makes it anew.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use dpb_core::Timer;
use serde::{Deserialize, Serialize};

use super::error::DataError;
use super::lock::{Lock, make_folder};
use super::rows::{GENERATOR, SCALE_FACTORS};
use super::{TABLES, generate, schema};
use crate::table::chunk::GROUP_ROWS;
use crate::table::segment::{Segment, SegmentError, VERSION, sync_parent, temporary_name};

const MANIFEST: &str = "manifest.json";
const LOCK: &str = ".lock";

/// The tables of one scale factor.
#[derive(Clone, Debug)]
pub struct TableSet {
    /// Their directory.
    pub dir: PathBuf,
    /// TPC-H's scale factor.
    pub scale_factor: f64,
    /// The tables that were made, in the order of [`TABLES`]; [`TableSet::open`] tells whether one is damaged.
    pub tables: Vec<TableFile>,
}

/// A table that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableFile {
    /// The table's name.
    pub name: String,
    /// The table's file, in the set's directory.
    pub file: String,
    /// The number of rows.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// CRC-32C of the whole file.
    pub crc32c: u32,
    /// Wall-clock seconds that it took to make.
    pub made_in_s: f64,
}

/// The contents of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    generator: String,
    segment_version: u32,
    scale_factor: f64,
    tables: BTreeMap<String, TableFile>,
}

/// A step of [`ensure`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// Another process makes tables of this scale factor; this one waits for it.
    Waiting,
    /// A table is there, but damaged; it is made anew.
    Damaged {
        /// The table.
        table: &'a str,
        /// The table's file, and the damage.
        what: &'a str,
    },
    /// Makes a table.
    Making {
        /// The table.
        table: &'a str,
        /// Rows written.
        rows: u64,
        /// Rows that it will have, about.
        rows_expected: u64,
    },
}

/// Hears what [`ensure`] does; breaks to give up.
pub type MakingProgress<'a> = &'a (dyn Fn(Step<'_>) -> ControlFlow<()> + Sync);

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

/// Finds these tables under `data_dir`, and makes those that are not there, or damaged in header or footer, with so many
/// threads, or one a CPU if those are fewer.
///
/// # Errors
/// [`DataError`]; nothing half made is left or found later.
pub fn ensure(
    data_dir: &Path,
    scale_factor: f64,
    tables: &[&str],
    threads: usize,
    clock: &dyn Timer,
    progress: MakingProgress<'_>,
) -> Result<TableSet, DataError> {
    check(scale_factor, tables, threads)?;
    let dir = set_dir(data_dir, scale_factor);
    let found = find(data_dir, scale_factor);
    let missing = found.missing(tables);
    if missing.is_empty() {
        return Ok(found);
    }
    let write = |path: &Path| {
        let path = path.to_owned();
        move |source| DataError::Write { path, source }
    };
    let missing = missing.iter().map(|(table, _)| *table);
    check_space(&dir, scale_factor, bytes_needed(scale_factor, missing))?;
    make_folder(&dir).map_err(write(&dir))?;
    let _lock = lock(&dir, clock, progress)?;
    remove_leftovers(&dir).map_err(write(&dir))?;
    // Another process may have made them meanwhile.
    let mut manifest = Manifest::read(&dir, scale_factor);
    let missing = manifest.table_set(dir.clone()).missing(tables);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    for (table, damage) in missing {
        if let Some(damage) = damage {
            let what = &damage.to_string();
            if progress(Step::Damaged { table, what }).is_break() {
                return Err(DataError::Interrupted);
            }
        }
        let started_ns = clock.now_ns();
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
            GROUP_ROWS,
            &dir.join(&file),
            threads.min(cpus),
            &report,
        )?;
        let entry = TableFile {
            name: table.to_owned(),
            file,
            rows: made.rows,
            bytes: made.bytes,
            crc32c: made.crc32c,
            made_in_s: clock.now_ns().saturating_sub(started_ns) as f64 / 1e9,
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
    let sets = files(data_dir)?.into_iter();
    let sets = sets.map(|(scale_factor, _)| find(data_dir, scale_factor));
    Ok(sets.filter(|set| !set.tables.is_empty()).collect())
}

/// The files that [`ensure`] made under `data_dir`, by scale factor: tables, manifests, locks, and what a killed process left half made.
///
/// # Errors
/// If the directory is there and cannot be read.
pub fn files(data_dir: &Path) -> Result<Vec<(f64, Vec<PathBuf>)>, DataError> {
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
            .and_then(|name| name.strip_prefix("sf")?.parse::<f64>().ok())
            .filter(|scale_factor| SCALE_FACTORS.contains(scale_factor))
            .filter(|&scale_factor| set_dir(data_dir, scale_factor) == entry.path());
        let own = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        let own = own.filter(|file| is_own(&file.file_name().to_string_lossy()));
        let own: Vec<PathBuf> = own.map(|file| file.path()).collect();
        sets.extend(scale_factor.filter(|_| !own.is_empty()).map(|sf| (sf, own)));
    }
    sets.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(sets)
}

/// Bytes of disk that [`ensure`] would take for what is missing or damaged, about; 0 if nothing is.
///
/// # Errors
/// If what is asked for makes no sense.
pub fn bytes_to_make(
    data_dir: &Path,
    scale_factor: f64,
    tables: &[&str],
) -> Result<u64, DataError> {
    check(scale_factor, tables, 1)?;
    let missing = find(data_dir, scale_factor).missing(tables);
    let missing = missing.iter().map(|(table, _)| *table);
    Ok(bytes_needed(scale_factor, missing))
}

/// The tables of a scale factor that were made; makes nothing.
pub fn find(data_dir: &Path, scale_factor: f64) -> TableSet {
    let dir = set_dir(data_dir, scale_factor);
    Manifest::read(&dir, scale_factor).table_set(dir)
}

/// Removes the tables of a scale factor, and what a killed generation left. Says how many bytes of tables that frees.
///
/// # Errors
/// If they cannot be removed.
pub fn remove(
    data_dir: &Path,
    scale_factor: f64,
    tables: &[&str],
    clock: &dyn Timer,
) -> Result<u64, DataError> {
    check(scale_factor, tables, 1)?;
    let dir = set_dir(data_dir, scale_factor);
    if !dir.exists() {
        return Ok(0);
    }
    let write = |source| DataError::Write {
        path: dir.clone(),
        source,
    };
    let lock = lock(&dir, clock, &|_| ControlFlow::Continue(()))?;
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
    pub fn table(&self, name: &str) -> Option<&TableFile> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The path of a table's file, whether it is there or not.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.dpbseg"))
    }

    /// Opens a table. Its chunks are verified when they are read.
    ///
    /// # Errors
    /// If it is not there, damaged in header or footer, or not what was made.
    pub fn open(&self, name: &str) -> Result<Segment, DataError> {
        let path = self.path(name);
        let Some(table) = self.table(name) else {
            return Err(DataError::Missing { path });
        };
        let segment = match Segment::open(&path) {
            Err(SegmentError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(DataError::Missing { path });
            }
            opened => opened.map_err(DataError::Segment)?,
        };
        let (bytes, rows) = (segment.file_bytes(), segment.rows());
        let is_its_own = Some(segment.schema()) == schema(name).as_ref();
        if is_its_own && (bytes, rows) == (table.bytes, table.rows) {
            return Ok(segment);
        }
        let what = format!(
            "{bytes} bytes with {rows} rows of {}, but {MANIFEST} says {} bytes with {} rows of {name}",
            segment.schema().table,
            table.bytes,
            table.rows
        );
        Err(DataError::Segment(SegmentError::File { path, what }))
    }

    /// Those of `tables` that cannot be opened, in the order of [`TABLES`], with the damage of those that are there.
    fn missing<'a>(&self, tables: &[&'a str]) -> Vec<(&'a str, Option<SegmentError>)> {
        let mut tables = tables.to_vec();
        tables.sort_by_key(|name| TABLES.iter().position(|table| table == name));
        tables.dedup();
        let missing = |table| match self.open(table) {
            Ok(_) => None,
            Err(DataError::Segment(damage)) => Some((table, Some(damage))),
            Err(_) => Some((table, None)),
        };
        tables.into_iter().filter_map(missing).collect()
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

    /// Writes all of it or nothing.
    fn write(&self, dir: &Path) -> io::Result<()> {
        let path = dir.join(MANIFEST);
        let temporary = temporary_name(&path);
        let text = serde_json::to_string_pretty(self).expect("a manifest is JSON");
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        write().inspect_err(|_| {
            // It may not even have been made.
            let _ = fs::remove_file(&temporary);
        })?;
        sync_parent(&path)
    }

    /// All that it names.
    fn table_set(&self, dir: PathBuf) -> TableSet {
        let tables = TABLES.iter().filter_map(|name| self.tables.get(*name));
        TableSet {
            scale_factor: self.scale_factor,
            tables: tables.cloned().collect(),
            dir,
        }
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

/// Rows of a table of TPC-H, about; 0 of another.
pub fn rows_expected(table: &str, scale_factor: f64) -> u64 {
    match table {
        "region" => 5,
        "nation" => 25,
        _ => (size_at_1(table).1 * scale_factor) as u64,
    }
}

/// Bytes that tables take as segments, about, and a little more.
pub(crate) fn bytes_needed<'a>(
    scale_factor: f64,
    tables: impl IntoIterator<Item = &'a str>,
) -> u64 {
    let bytes = |table| 1e5 + size_at_1(table).0 * scale_factor * 1.05;
    tables.into_iter().map(bytes).sum::<f64>() as u64
}

/// Refuses what the disk of `dir`, which need not be there yet, cannot hold.
///
/// # Errors
/// [`DataError::Space`] with the figures; [`DataError::Write`] if the operating system does not say what is free.
pub fn check_space(dir: &Path, scale_factor: f64, needed: u64) -> Result<(), DataError> {
    // Somebody may remove a folder between two looks at it, so the look that finds it is the one that counts.
    let is_gone = |space: &rustix::io::Result<_>| {
        matches!(
            space,
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR)
        )
    };
    let mut looks = dir.ancestors().map(|ancestor| {
        // The last ancestor of a relative path is empty and stands for the current folder.
        let is_here = ancestor.as_os_str().is_empty();
        rustix::fs::statvfs(if is_here { Path::new(".") } else { ancestor })
    });
    let space = looks
        .find(|space| !is_gone(space))
        .unwrap_or(Err(rustix::io::Errno::NOENT))
        .map_err(|error| DataError::Write {
            path: dir.to_owned(),
            source: error.into(),
        })?;
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
fn lock(dir: &Path, clock: &dyn Timer, progress: MakingProgress<'_>) -> Result<Lock, DataError> {
    let path = dir.join(LOCK);
    match Lock::take(&path, clock, || progress(Step::Waiting)) {
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
        if name.ends_with(".tmp") && is_own(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns true if a file of a set's directory has a name that [`ensure`] gives.
fn is_own(name: &str) -> bool {
    let is_whole = |name: &str| {
        name == MANIFEST
            || name
                .strip_suffix(".dpbseg")
                .is_some_and(|table| TABLES.contains(&table))
    };
    let half_made = || {
        let (name, process) = name
            .strip_prefix('.')?
            .strip_suffix(".tmp")?
            .rsplit_once('.')?;
        Some(is_whole(name) && process.parse::<u32>().is_ok())
    };
    name == LOCK || is_whole(name) || half_made() == Some(true)
}

#[cfg(test)]
mod tests;
