//! The tables that an agent has: opened once, shared by its connections.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use dpb_core::Timer;
use dpb_link::LinkError;

use super::duckdb_pool::{DuckDbPool, Lease, Name, Opening};
use super::lock;
use super::refusals::{damaged, refuse};
use super::residency::Pages;
use crate::duckdb::Library;
use crate::duckdb::tpch_baseline::{self, Baseline};
use crate::service::protocol::{DataSet, FileFormat, Refusal, TableInfo};
use crate::table::cache::Cache;
use crate::table::segment::{Segment, open_regular};
use crate::tpch::{self, DataError};

/// Tables that were given, and segments and DuckDB's files under one data directory, with one cache of chunks for all.
pub(super) struct Catalog {
    given: BTreeMap<String, Arc<Segment>>,
    data_dir: PathBuf,
    pub(super) cache: Arc<Cache>,
    segments: Mutex<HashMap<Name, Arc<Slot>>>,
    pub(super) duckdb_pool: DuckDbPool,
}

/// A segment, once it is open. Who opens one holds its own lock only, so that no slow file keeps others waiting.
type Slot = Mutex<Option<Arc<Segment>>>;

/// A run is not cold if more than one of so many pages stays in the page cache.
const PAGES_KEPT_SHARE: u64 = 100;
/// The table that DuckDB's files hold.
const TABLE: &str = "lineitem";

impl Catalog {
    pub(super) fn new(
        given: BTreeMap<String, Arc<Segment>>,
        data_dir: PathBuf,
        cache_bytes: u64,
        waiting: &Arc<AtomicUsize>,
        clock: &Arc<dyn Timer>,
    ) -> Self {
        Self {
            given,
            data_dir,
            cache: Arc::new(Cache::new(cache_bytes)),
            segments: Mutex::default(),
            duckdb_pool: DuckDbPool::new(cache_bytes, waiting, clock),
        }
    }

    /// All tables of a data set that were made here, with DuckDB's files of them if they are asked for. One that is damaged is
    /// among them: who asks for its rows is told.
    pub(super) fn tables(&self, data: DataSet, duckdb: bool) -> Result<Vec<TableInfo>, LinkError> {
        let DataSet::Tpch(sf) = data else {
            return Ok(self.given.values().map(|table| info(table)).collect());
        };
        check_sf(sf)?;
        let mut tables = Vec::new();
        for entry in tpch::find(&self.data_dir, sf).tables {
            let baseline = match duckdb {
                true => self.baseline(data, &entry.name).ok(),
                false => None,
            };
            tables.push(TableInfo {
                schema: tpch::schema(&entry.name).expect("a table set has tables of TPC-H"),
                rows: entry.rows,
                segment_bytes: entry.bytes,
                duckdb_bytes: baseline.as_ref().map(|(_, files)| files.duckdb_bytes),
                parquet_bytes: baseline.as_ref().map(|(_, files)| files.parquet_bytes),
            });
        }
        Ok(tables)
    }

    /// The table's segment.
    pub(super) fn segment(&self, data: DataSet, table: &str) -> Result<Arc<Segment>, LinkError> {
        match data {
            DataSet::Tpch(sf) => self.made(sf, table),
            DataSet::Given => self.given.get(table).cloned().ok_or_else(|| {
                let names: Vec<&str> = self.given.keys().map(String::as_str).collect();
                let text = match names.is_empty() {
                    true => "it was given no tables of its own".to_owned(),
                    false => format!("no table `{table}`; there are {}", names.join(", ")),
                };
                refuse(Refusal::Usage, text)
            }),
        }
    }

    /// The segment of a table of TPC-H.
    fn made(&self, sf: f64, table: &str) -> Result<Arc<Segment>, LinkError> {
        check_sf(sf)?;
        // The name becomes part of a path: only names that we know.
        if !tpch::TABLES.contains(&table) {
            let text = format!("no table `{table}`; there are {}", tpch::TABLES.join(", "));
            return Err(refuse(Refusal::Usage, text));
        }
        let name = (sf.to_bits(), table.to_owned());
        let slot = Arc::clone(lock(&self.segments).entry(name.clone()).or_default());
        let mut place = lock(&slot);
        if let Some(segment) = &*place {
            return Ok(Arc::clone(segment));
        }
        let opened = tpch::find(&self.data_dir, sf).open(table);
        let segment = opened.map_err(|error| {
            // There is no end of scale factors that have no table.
            lock(&self.segments).remove(&name);
            match error {
                DataError::Missing { .. } => {
                    self.missing(sf, &format!("{table} at scale factor {sf}"))
                }
                DataError::Segment(error) => damaged(&error),
                other => refuse(Refusal::Unavailable, other.to_string()),
            }
        })?;
        Ok(Arc::clone(place.insert(Arc::new(segment))))
    }

    /// A connection to DuckDB over the table's own file.
    pub(super) fn duckdb(
        &self,
        data: DataSet,
        table: &str,
        threads: usize,
    ) -> Result<Lease<'_>, LinkError> {
        let (library, files) = self.baseline(data, table)?;
        let opening = Opening {
            duckdb: library,
            path: files.duckdb_path,
            temp_dir: self.data_dir.join("tmp"),
        };
        let name = (tpch_only(data)?.to_bits(), table.to_owned());
        self.duckdb_pool.connect(&name, threads, opening)
    }

    /// One of the table's files, to be sent whole.
    pub(super) fn file(
        &self,
        data: DataSet,
        table: &str,
        format: FileFormat,
    ) -> Result<(File, u64), LinkError> {
        let path = match format {
            FileFormat::Segment => self.segment(data, table)?.path().to_owned(),
            FileFormat::DuckDb => self.baseline(data, table)?.1.duckdb_path,
            FileFormat::Parquet => self.baseline(data, table)?.1.parquet_path,
        };
        let opened = open_regular(&path).and_then(|file| {
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        });
        opened.map_err(|e| refuse(Refusal::Unavailable, format!("{}: {e}", path.display())))
    }

    /// Drops a file from the page cache and what its engine holds of it; refuses if much of it stays in the page cache.
    pub(super) fn make_cold(
        &self,
        data: DataSet,
        table: &str,
        format: FileFormat,
    ) -> Result<(), LinkError> {
        if format == FileFormat::Segment {
            let segment = self.segment(data, table)?;
            segment.make_cold(&self.cache).map_err(|e| damaged(&e))?;
        }
        if format == FileFormat::DuckDb {
            // Open again, as our segment is: the next run pays for reading, not for opening.
            let name = (tpch_only(data)?.to_bits(), table.to_owned());
            if let Some(threads) = self.duckdb_pool.close(&name)? {
                self.duckdb(data, table, threads)?;
            }
        }
        let (file, _) = self.file(data, table, format)?;
        // Pages that are not written yet cannot be dropped. If they cannot be written, they are counted below.
        let _unwritten = file.sync_data();
        let broke = |e: std::io::Error| {
            let text = format!("cannot drop the page cache: {e}");
            refuse(Refusal::Internal, text)
        };
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(|e| broke(e.into()))?;
        let Pages { all, cached } = Pages::of(&file).map_err(broke)?;
        if cached * PAGES_KEPT_SHARE > all {
            let dir = self.data_dir.display();
            let text = format!(
                "{cached} of {all} pages of its {table} file stay in memory, so no run can be cold: {dir} may be in memory \
                 itself (tmpfs), another process may use the file, or it may belong to another user; choose another \
                 --data-dir, or run without --cold"
            );
            return Err(refuse(Refusal::Unavailable, text));
        }
        Ok(())
    }

    /// DuckDB, and its files of the table.
    fn baseline(&self, data: DataSet, table: &str) -> Result<(Library, Baseline), LinkError> {
        let sf = tpch_only(data)?;
        check_sf(sf)?;
        let library =
            Library::find().map_err(|missing| refuse(Refusal::Unavailable, missing.to_string()))?;
        if table != TABLE {
            let text = format!("DuckDB's files hold {} only", TABLE);
            return Err(refuse(Refusal::Usage, text));
        }
        match tpch_baseline::find(library, &self.data_dir, sf) {
            Some(files) => Ok((library, files)),
            None => Err(self.missing(sf, &format!("DuckDB's file at scale factor {sf}"))),
        }
    }

    fn missing(&self, sf: f64, what: &str) -> LinkError {
        let dir = self.data_dir.display();
        refuse(
            Refusal::Unavailable,
            format!(
                "it has no {what} in {dir}: run `dpb pushdown --sf {sf} --data-dir {dir}` on its machine once"
            ),
        )
    }
}

/// The description of a table that was given.
fn info(segment: &Segment) -> TableInfo {
    TableInfo {
        schema: segment.schema().clone(),
        rows: segment.rows(),
        segment_bytes: segment.file_bytes(),
        duckdb_bytes: None,
        parquet_bytes: None,
    }
}

/// The scale factor of the tables that DuckDB's files hold.
fn tpch_only(data: DataSet) -> Result<f64, LinkError> {
    match data {
        DataSet::Tpch(sf) => Ok(sf),
        DataSet::Given => {
            let text = format!("DuckDB's files hold TPC-H's {TABLE} only");
            Err(refuse(Refusal::Usage, text))
        }
    }
}

fn check_sf(sf: f64) -> Result<(), LinkError> {
    if tpch::SCALE_FACTORS.contains(&sf) {
        return Ok(());
    }
    let (least, most) = (tpch::SCALE_FACTORS.start(), tpch::SCALE_FACTORS.end());
    let text = format!("{sf} is no scale factor; it is {least} to {most}");
    Err(refuse(Refusal::Usage, text))
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    #[test]
    fn a_table_that_is_being_opened_keeps_no_other_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let going = |_: tpch::Step<'_>| ControlFlow::Continue(());
        tpch::ensure(
            dir.path(),
            0.001,
            &["region"],
            1,
            &dpb_core::WallClock::default(),
            &going,
        )
        .unwrap();
        let clock: Arc<dyn Timer> = Arc::new(dpb_core::WallClock::default());
        let catalog = Catalog::new(
            BTreeMap::new(),
            dir.path().to_owned(),
            0,
            &Arc::default(),
            &clock,
        );
        let slow = (0.001f64.to_bits(), "nation".to_owned());
        let slot = Arc::clone(lock(&catalog.segments).entry(slow).or_default());
        let opening = lock(&slot);
        assert_eq!(catalog.segment(0.001.into(), "region").unwrap().rows(), 5);
        drop(opening);
        // What is not there leaves nothing behind.
        assert!(catalog.segment(0.001.into(), "nation").is_err());
        assert!(catalog.segment(0.002.into(), "region").is_err());
        assert_eq!(lock(&catalog.segments).len(), 1);
    }
}
