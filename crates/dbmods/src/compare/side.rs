//! This side of a scheme: each of the three ways to answer one query from another machine's table, run once and counted.
//!
//! | scheme | what crosses the link | who filters |
//! |---|---|---|
//! | `fetch` | the table's file, whole (DuckDB's own, or Parquet) | DuckDB on this side |
//! | `duckdb-at-dpu` | rows that qualify | DuckDB in the agent |
//! | `dpb` | rows that qualify | our scan in the agent |
//!
//! A run's time starts with the request and ends when the last row is here as an Arrow batch. For `fetch` that includes
//! opening the file, since the table must cross first; the file lands in memory (never on this side's disk), in pages that
//! earlier runs have touched already. `duckdb-at-dpu` finds its database attached and its threads started. DuckDB hands its
//! rows over in the way that is faster for their number, see [`Delivery::of`], and in any order, as our scan does.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use dpb_link::bulk::Transport;

use super::consumer::Consumer;
use super::error::SchemeError;
use super::fetched_file::FetchedFile;
use super::run::{SchemeRun, Tally};
use super::scheme::Scheme;
use crate::duckdb::{Config, Database, Delivery, Library};
use crate::query::Query;
use crate::query::sql;
use crate::scan;
use crate::service::client::{Client, ClientError};
use crate::service::protocol::{DataSet, Engine, FileFormat, Refusal, ScanRequest, TableInfo};
use crate::service::usage;
use crate::tpch;

/// Memory that DuckDB needs beside a fetched file to filter it.
const FETCH_WORK_BYTES: u64 = 256 << 20;

/// One test: the same for all schemes.
#[derive(Clone, Debug)]
pub struct Test {
    /// The data set.
    pub data: DataSet,
    /// The query.
    pub query: Query,
    /// Threads that scan, on whichever side.
    pub threads: u32,
    /// Rows per batch.
    pub batch_rows: u32,
    /// True if the file is dropped from the agent's page cache before the run.
    pub cold: bool,
    /// Rows that an earlier run returned, if there was one.
    pub rows_expected: Option<u64>,
}

/// This side of one scheme: its connection, and for `fetch` the place where the file lands.
#[derive(Debug)]
pub struct SchemeSide {
    scheme: Scheme,
    client: Client,
    table: TableInfo,
    fetched: Option<FetchedFile>,
}

impl SchemeSide {
    /// Takes a connection over for `scheme`.
    pub fn new(scheme: Scheme, client: Client, table: TableInfo) -> Self {
        Self {
            scheme,
            client,
            table,
            fetched: None,
        }
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The connection to the agent.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The transport of its large bodies.
    pub fn transport(&self) -> &Transport {
        self.client.transport()
    }

    /// The backend that scans for it; none where DuckDB does.
    pub fn backend(&self) -> Option<&str> {
        matches!(self.scheme, Scheme::Dpb).then(|| self.client.agent().backend.as_str())
    }

    /// The stand-in for hardware that a run uses: its transport's, or the agent's.
    pub fn emulated_by(&self) -> Option<&str> {
        let transport = self.client.transport().emulated_by();
        transport.or(self.client.agent().emulated_by.as_deref())
    }

    /// The table.
    pub fn table(&self) -> &TableInfo {
        &self.table
    }

    /// The version of the DuckDB that answers, by the side of the link that it is on; nothing for our own scan.
    pub fn libraries(&self) -> BTreeMap<String, String> {
        let (place, version) = match self.scheme {
            Scheme::Dpb => return BTreeMap::new(),
            Scheme::DuckDbAtDpu => ("duckdb at the agent", self.client.agent().duckdb.clone()),
            Scheme::FetchDuckDb | Scheme::FetchParquet => (
                "duckdb here",
                Library::find()
                    .map(|library| library.version().to_owned())
                    .map_err(|missing| missing.to_string()),
            ),
        };
        let found = version.into_iter();
        found.map(|version| (place.to_owned(), version)).collect()
    }

    /// Runs the test once.
    ///
    /// # Errors
    /// [`SchemeError`].
    pub fn run(&mut self, test: &Test, consumer: &mut Consumer) -> Result<SchemeRun, SchemeError> {
        if test.cold {
            self.make_cold(test)?;
        }
        self.client.usage(true)?;
        // The reply above tells of the time before the reset; this one is the start.
        let agent_before = self.client.usage(false)?;
        let here_before = usage::of_this_process(true);
        let wire_before = self.client.bytes();
        let bulk_before = self.client.bulk_bytes();
        let mut run = match self.scheme {
            Scheme::FetchDuckDb | Scheme::FetchParquet => self.fetch(test, consumer)?,
            Scheme::DuckDbAtDpu => self.scan(Engine::DuckDb, test, consumer)?,
            Scheme::Dpb => self.scan(Engine::Dpb, test, consumer)?,
        };
        let wire = self.client.bytes();
        let here = usage::of_this_process(false);
        let agent = self.client.usage(false)?;
        run.wire_bytes = (wire.0 - wire_before.0, wire.1 - wire_before.1);
        run.bulk_bytes = self.client.bulk_bytes() - bulk_before;
        run.count_agent(&agent_before, &agent)?;
        // Memory that has no address here: the kernel does not count it as this process's.
        let fetched_bytes = match &self.fetched {
            Some(fetched) => fetched.bytes().map_err(SchemeError::Scratch)?,
            None => 0,
        };
        run.client_cpu_s = here.cpu_s - here_before.cpu_s;
        run.client_peak_bytes = here.peak_bytes + fetched_bytes;
        run.client_added_bytes = here.peak_over(&here_before) + fetched_bytes;
        Ok(run)
    }

    fn make_cold(&mut self, test: &Test) -> Result<(), SchemeError> {
        let (table, format) = (&test.query.table, self.scheme.format());
        match self.client.make_cold(&test.data, table, format) {
            Err(ClientError::Refused {
                refusal: Refusal::Unavailable,
                text,
                ..
            }) => Err(SchemeError::NotCold(text)),
            told => Ok(told?),
        }
    }

    fn scan(
        &mut self,
        engine: Engine,
        test: &Test,
        consumer: &mut Consumer,
    ) -> Result<SchemeRun, SchemeError> {
        let request = ScanRequest {
            data: test.data.clone(),
            // Ours, for which the query was written, and not the one that the agent has told.
            schema: tpch::schema(&test.query.table).map_or(0, |schema| schema.fingerprint()),
            engine,
            query: test.query.clone(),
            threads: test.threads,
            batch_rows: test.batch_rows,
            rows_expected: test.rows_expected,
            partial: false,
        };
        let mut tally = Tally::new(consumer, self.client.clock());
        let scanned = self.client.scan(request, &mut |batch| tally.take(batch))?;
        tally.rows_ended();
        let mut run = tally.finish()?;
        if scanned.end.tuples_scanned != self.table.rows {
            let text = format!(
                "it looked at {} of its {} rows",
                scanned.end.tuples_scanned, self.table.rows
            );
            return Err(SchemeError::Disbelieved(text));
        }
        if scanned.end.threads < test.threads {
            return Err(SchemeError::TooFewThreads {
                had: scanned.end.threads,
                asked: test.threads,
            });
        }
        run.first_batch_s = scanned.first_batch.as_secs_f64();
        run.tuples_scanned = scanned.end.tuples_scanned;
        run.blocks = (scanned.end.blocks_scanned, scanned.end.blocks_skipped);
        run.explain = scanned.end.explain;
        Ok(run)
    }

    fn fetch(&mut self, test: &Test, consumer: &mut Consumer) -> Result<SchemeRun, SchemeError> {
        let library = Library::find()?;
        let schema = scan::output_schema(&self.table.schema, &test.query)?;
        let mut fetched = match self.fetched.take() {
            Some(fetched) => fetched,
            None => FetchedFile::new().map_err(SchemeError::Scratch)?,
        };
        let mut tally = Tally::new(consumer, self.client.clock());
        let file = fetched.rewound().map_err(SchemeError::Scratch)?;
        let (table, format) = (&test.query.table, self.scheme.format());
        let bytes_max = self.table.file_bytes(format);
        let bytes = self
            .client
            .fetch(&test.data, table, format, bytes_max, file)?;
        fetched.cut(bytes).map_err(SchemeError::Scratch)?;
        let transfer_s = tally.elapsed_s();
        self.filter_here(library, test, &fetched, &schema, &mut tally)?;
        self.fetched = Some(fetched);
        let mut run = tally.finish()?;
        run.transfer_s = Some(transfer_s);
        run.tuples_scanned = self.table.rows;
        Ok(run)
    }

    /// DuckDB over the file that was fetched.
    fn filter_here(
        &self,
        library: Library,
        test: &Test,
        fetched: &FetchedFile,
        schema: &SchemaRef,
        tally: &mut Tally<'_>,
    ) -> Result<(), SchemeError> {
        let path = fetched.path();
        let mut config = Config {
            threads: Some(test.threads as usize),
            any_order: true,
            ..Config::default()
        };
        let (database, from) = match self.scheme.format() {
            FileFormat::Parquet => {
                let from = format!("read_parquet('{}')", path.display());
                config.allowed_paths = vec![path];
                (Database::open(library, None, &config)?, from)
            }
            _ => {
                config.read_only = true;
                let database = Database::open(library, Some(&path), &config)?;
                (database, test.query.table.clone())
            }
        };
        let text = sql::query_to_sql(&test.query, &self.table.schema, &from);
        let mut connection = database.connect()?;
        if self.scheme.format() == FileFormat::DuckDb {
            let began_ns = tally.now_ns();
            database.require_base_table(&from)?;
            // Asked for our sake, not by the scheme.
            tally.leave_out(began_ns);
        }
        let delivery = Delivery::of(test.rows_expected, self.table.rows);
        let interrupt = connection.interrupt_handle();
        let filter = || {
            let mut rows = connection.query(&text, Some(Arc::clone(schema)), delivery)?;
            for batch in &mut rows {
                if tally.take(&batch?).is_break() {
                    break;
                }
            }
            // Before DuckDB tidies up: its result, connection and database are dropped after this.
            tally.rows_ended();
            Ok(())
        };
        interrupt.watch(self.client.interrupted(), filter)
    }
}

/// The reason why `fetch` cannot run with so much memory available here, if it cannot: both files stay in memory between runs.
pub fn fetch_shortage(table: &TableInfo, available_bytes: Option<u64>) -> Option<String> {
    let [duckdb, parquet] =
        [FileFormat::DuckDb, FileFormat::Parquet].map(|format| table.file_bytes(format));
    let needed = duckdb
        .saturating_add(parquet)
        .saturating_add(FETCH_WORK_BYTES);
    let available = available_bytes.filter(|&available| available < needed)?;
    let mb = |bytes: u64| bytes.div_ceil(1_000_000);
    Some(format!(
        "fetch needs {} MB of memory here, for DuckDB's file ({} MB), the Parquet file ({} MB) and DuckDB's work, and {} MB \
         are available",
        mb(needed),
        mb(duckdb),
        mb(parquet),
        mb(available)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_do_not_fit_this_memory_are_not_fetched() {
        let table = TableInfo {
            data: DataSet::tpch(10.0).unwrap(),
            schema: tpch::schema("lineitem").unwrap(),
            rows: 59_986_052,
            segment_bytes: 2_000_000_000,
            duckdb_bytes: Some(1_700_000_000),
            parquet_bytes: Some(1_300_000_000),
        };
        let needed = 3_000_000_000 + FETCH_WORK_BYTES;
        assert_eq!(fetch_shortage(&table, Some(needed)), None);
        assert_eq!(fetch_shortage(&table, None), None);
        let told = fetch_shortage(&table, Some(needed - 1)).unwrap();
        for figure in ["3269 MB", "1700 MB", "1300 MB"] {
            assert!(told.contains(figure), "{told}");
        }
        // What an agent says, no one has checked.
        let endless = TableInfo {
            parquet_bytes: Some(u64::MAX),
            ..table
        };
        assert!(fetch_shortage(&endless, Some(1 << 60)).is_some());
    }
}
