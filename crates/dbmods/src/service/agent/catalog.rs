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
use crate::duckdb::spill::Spill;
use crate::duckdb::tpch_baseline::{self, Baseline};
use crate::service::protocol::{DataSet, FileFormat, Refusal, TableInfo};
use crate::table::cache::Cache;
use crate::table::segment::{Segment, open_regular};
use crate::tpch::{self, DataError, TableSet};

/// Tables that were given, and segments and DuckDB's files under one data directory, with one cache of chunks for all.
pub(super) struct Catalog {
    given: BTreeMap<String, Arc<Segment>>,
    data_dir: PathBuf,
    pub(super) cache: Arc<Cache>,
    segments: Mutex<HashMap<Name, Arc<Slot>>>,
    pub(super) duckdb_pool: DuckDbPool,
    /// Of the pool's databases, of which one is open at a time. Behind the pool, so that it goes after that.
    spill: Spill,
}

/// A segment, once it is open. Who opens one holds its own lock only, so that no slow file keeps others waiting.
type Slot = Mutex<Option<Arc<Segment>>>;

/// A run is not cold if more than one of so many pages stays in the page cache.
const PAGES_KEPT_SHARE: u64 = 100;

/// The place that a data set comes from.
#[derive(Clone, Copy)]
enum Origin {
    /// TPC-H's tables at this scale factor, in the data directory.
    Tpch(f64),
    /// The tables that were given.
    Given,
}

impl Catalog {
    pub(super) fn new(
        given: BTreeMap<String, Arc<Segment>>,
        data_dir: PathBuf,
        cache_bytes: u64,
        waiting: &Arc<AtomicUsize>,
        clock: &Arc<dyn Timer>,
    ) -> Self {
        let spill = Spill::new(&data_dir, "agent");
        Self {
            given,
            data_dir,
            spill,
            cache: Arc::new(Cache::new(cache_bytes)),
            segments: Mutex::default(),
            duckdb_pool: DuckDbPool::new(cache_bytes, waiting, clock),
        }
    }

    /// All tables of a data set, or of all data sets, with DuckDB's files of them if they are asked for. A table that is damaged is
    /// among them: who asks for its rows is told.
    pub(super) fn tables(
        &self,
        data: Option<&DataSet>,
        duckdb: bool,
    ) -> Result<Vec<TableInfo>, LinkError> {
        if let Some(data) = data {
            return Ok(match origin(data)? {
                Origin::Tpch(sf) => self.made_tables(data, &tpch::find(&self.data_dir, sf), duckdb),
                Origin::Given => self.given_tables().collect(),
            });
        }
        let sets = tpch::list(&self.data_dir)
            .map_err(|error| refuse(Refusal::Unavailable, error.to_string()))?;
        let mut tables: Vec<TableInfo> = self.given_tables().collect();
        for set in sets {
            let data = DataSet::tpch(set.scale_factor).expect("tables are made for such only");
            tables.extend(self.made_tables(&data, &set, duckdb));
        }
        Ok(tables)
    }

    /// The tables that were given.
    fn given_tables(&self) -> impl Iterator<Item = TableInfo> {
        self.given.values().map(|table| TableInfo {
            data: DataSet::given(),
            schema: table.schema().clone(),
            rows: table.rows(),
            segment_bytes: table.file_bytes(),
            duckdb_bytes: None,
            parquet_bytes: None,
        })
    }

    /// The tables of a scale factor.
    fn made_tables(&self, data: &DataSet, set: &TableSet, duckdb: bool) -> Vec<TableInfo> {
        let tables = set.tables.iter().map(|entry| {
            let baseline = match duckdb {
                true => self.baseline(data, &entry.name).ok(),
                false => None,
            };
            TableInfo {
                data: data.clone(),
                schema: tpch::schema(&entry.name).expect("a table set has tables of TPC-H"),
                rows: entry.rows,
                segment_bytes: entry.bytes,
                duckdb_bytes: baseline.as_ref().map(|(_, files)| files.duckdb_bytes),
                parquet_bytes: baseline.as_ref().map(|(_, files)| files.parquet_bytes),
            }
        });
        tables.collect()
    }

    /// The table's segment.
    pub(super) fn segment(&self, data: &DataSet, table: &str) -> Result<Arc<Segment>, LinkError> {
        match origin(data)? {
            Origin::Tpch(sf) => self.made(data, sf, table),
            Origin::Given => self.given.get(table).cloned().ok_or_else(|| {
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
    fn made(&self, data: &DataSet, sf: f64, table: &str) -> Result<Arc<Segment>, LinkError> {
        check_table(table)?;
        let name = (data.clone(), table.to_owned());
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
                    let what = format!("{table} at scale factor {sf}");
                    self.missing(sf, table, &what)
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
        data: &DataSet,
        table: &str,
        threads: usize,
    ) -> Result<Lease<'_>, LinkError> {
        let (library, files) = self.baseline(data, table)?;
        let spill = self.spill.folder().map_err(|error| {
            refuse(
                Refusal::Internal,
                format!("no folder for DuckDB to spill into: {error}"),
            )
        })?;
        let opening = Opening {
            duckdb: library,
            path: files.duckdb_path,
            temp_dir: spill.to_owned(),
        };
        let name = (data.clone(), table.to_owned());
        self.duckdb_pool.connect(&name, threads, opening)
    }

    /// One of the table's files, to be sent whole.
    pub(super) fn file(
        &self,
        data: &DataSet,
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
        data: &DataSet,
        table: &str,
        format: FileFormat,
    ) -> Result<(), LinkError> {
        if format == FileFormat::Segment {
            let segment = self.segment(data, table)?;
            segment.make_cold(&self.cache).map_err(|e| damaged(&e))?;
        }
        if format == FileFormat::DuckDb {
            // Open again, as our segment is: the next run pays for reading, not for opening.
            let name = (data.clone(), table.to_owned());
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
    fn baseline(&self, data: &DataSet, table: &str) -> Result<(Library, Baseline), LinkError> {
        let Origin::Tpch(sf) = origin(data)? else {
            let text = "DuckDB has files of TPC-H's tables only";
            return Err(refuse(Refusal::Usage, text));
        };
        check_table(table)?;
        let library =
            Library::find().map_err(|missing| refuse(Refusal::Unavailable, missing.to_string()))?;
        match tpch_baseline::find(library, &self.data_dir, sf, table) {
            Some(files) => Ok((library, files)),
            None => {
                let what = format!("DuckDB's file of {table} at scale factor {sf}");
                Err(self.missing(sf, table, &what))
            }
        }
    }

    fn missing(&self, sf: f64, table: &str, what: &str) -> LinkError {
        let dir = self.data_dir.display();
        refuse(
            Refusal::Unavailable,
            format!(
                "it has no {what} in {dir}: run `dpb pushdown --sf {sf} --table {table} --prepare --data-dir {dir}` on its machine \
                 once"
            ),
        )
    }
}

/// Where a data set comes from.
fn origin(data: &DataSet) -> Result<Origin, LinkError> {
    match data.scale_factor() {
        Some(sf) => Ok(Origin::Tpch(sf)),
        None if data.is_given() => Ok(Origin::Given),
        None => {
            let (least, most) = (tpch::SCALE_FACTORS.start(), tpch::SCALE_FACTORS.end());
            let given = DataSet::given();
            let text = format!(
                "no data set `{data}`; there are `{given}`, and `tpch-sfN` for TPC-H at a scale factor of {least} to {most}"
            );
            Err(refuse(Refusal::Usage, text))
        }
    }
}

/// Refuses what is no table of TPC-H. The name becomes part of a path: only names that we know.
fn check_table(table: &str) -> Result<(), LinkError> {
    if tpch::TABLES.contains(&table) {
        return Ok(());
    }
    let text = format!("no table `{table}`; there are {}", tpch::TABLES.join(", "));
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
        let tpch = |sf| DataSet::tpch(sf).unwrap();
        let slow = (tpch(0.001), "nation".to_owned());
        let slot = Arc::clone(lock(&catalog.segments).entry(slow).or_default());
        let opening = lock(&slot);
        assert_eq!(catalog.segment(&tpch(0.001), "region").unwrap().rows(), 5);
        drop(opening);
        // What is not there leaves nothing behind.
        assert!(catalog.segment(&tpch(0.001), "nation").is_err());
        assert!(catalog.segment(&tpch(0.002), "region").is_err());
        assert_eq!(lock(&catalog.segments).len(), 1);
    }
}
