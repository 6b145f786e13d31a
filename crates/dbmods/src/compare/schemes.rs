//! The three ways to answer one query from another machine's table, each run once and counted.
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
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use dpb_core::measure::{Interference, Watch};
use rustix::fs::MemfdFlags;

use crate::compare::digest::{Digest, UnknownType};
use crate::duckdb::{self, Config, Database, Delivery, Library};
use crate::query::Query;
use crate::query::sql;
use crate::scan::{self, ScanError};
use crate::service::bulk::Transport;
use crate::service::client::{Client, ClientError};
use crate::service::protocol::{Engine, FileFormat, Refusal, ScanRequest, TableInfo};
use crate::service::usage;
use crate::tpch;

/// Most memory for rows that are kept to be compared: a result that is longer is not one that a person reads.
pub const KEPT_BYTES_MAX: u64 = 1 << 30;

/// What DuckDB is left at least to filter a fetched file with.
const FETCH_WORK_BYTES: u64 = 256 << 20;

/// A way to answer a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// The paper's baseline, with DuckDB's own file.
    FetchDuckDb,
    /// The same with a Parquet file.
    FetchParquet,
    /// dpBento's pushdown.
    DuckDbAtDpu,
    /// Ours.
    Dpb,
}

impl Scheme {
    /// All of them, baseline first.
    pub const ALL: [Self; 4] = [
        Self::FetchDuckDb,
        Self::FetchParquet,
        Self::DuckDbAtDpu,
        Self::Dpb,
    ];

    /// The scheme's name on the command line and in records; both kinds of fetch are `fetch`.
    pub fn name(self) -> &'static str {
        match self {
            Self::FetchDuckDb | Self::FetchParquet => "fetch",
            Self::DuckDbAtDpu => "duckdb-at-dpu",
            Self::Dpb => "dpb",
        }
    }

    /// The file that it reads.
    pub fn format(self) -> FileFormat {
        match self {
            Self::FetchDuckDb | Self::DuckDbAtDpu => FileFormat::DuckDb,
            Self::FetchParquet => FileFormat::Parquet,
            Self::Dpb => FileFormat::Segment,
        }
    }

    /// The file's name in records.
    pub fn format_name(self) -> &'static str {
        match self.format() {
            FileFormat::DuckDb => "duckdb",
            FileFormat::Parquet => "parquet",
            FileFormat::Segment => "segment",
        }
    }

    /// The name in tables, different for all four.
    pub fn label(self) -> &'static str {
        match self {
            Self::FetchDuckDb => "fetch (duckdb file)",
            Self::FetchParquet => "fetch (parquet file)",
            other => other.name(),
        }
    }

    /// Whether it needs DuckDB on this side.
    pub fn needs_duckdb_here(self) -> bool {
        matches!(self, Self::FetchDuckDb | Self::FetchParquet)
    }
}

/// One test: the same for all schemes.
#[derive(Clone, Debug)]
pub struct Test {
    /// Scale factor.
    pub sf: f64,
    /// What is asked.
    pub query: Query,
    /// Threads that scan, on whichever side.
    pub threads: u32,
    /// Rows per batch.
    pub batch_rows: u32,
    /// Whether the file is dropped from the agent's page cache before the run.
    pub cold: bool,
    /// Rows that an earlier run returned, if there was one.
    pub rows_expected: Option<u64>,
}

/// What one run took.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Rows that were looked at.
    pub tuples_scanned: u64,
    /// Rows that came back.
    pub rows: u64,
    /// Bytes of Arrow buffers that came back.
    pub result_bytes: u64,
    /// From the request to the last row, seconds.
    pub elapsed_s: f64,
    /// From the request to the first batch, seconds.
    pub first_batch_s: f64,
    /// For `fetch`: until the file was here, seconds.
    pub transfer_s: Option<f64>,
    /// Bytes to the agent and from it, counted where this side sends and receives them.
    pub wire_bytes: (u64, u64),
    /// Those from it that came past TCP.
    pub bulk_bytes: u64,
    /// CPU time of the agent's process, seconds.
    pub agent_cpu_s: f64,
    /// CPU time of this process, seconds.
    pub client_cpu_s: f64,
    /// Most memory of the agent's process, bytes.
    pub agent_peak_bytes: u64,
    /// How much of it came on top of what the process held when the run began.
    pub agent_added_bytes: u64,
    /// Most memory of this process, bytes, a fetched file included.
    pub client_peak_bytes: u64,
    /// How much of it came on top of what the process held when the run began: it holds what earlier runs, and other
    /// schemes, left in it. A fetched file counts whole.
    pub client_added_bytes: u64,
    /// What disturbed this process while the time ran, and how long the agent's threads waited for a core.
    pub interference: Interference,
    /// Blocks scanned and skipped, where the engine says.
    pub blocks: (u64, u64),
    /// The engine's plan, where it says.
    pub explain: String,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum SchemeError {
    /// The agent, or the connection to it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// DuckDB on this side.
    #[error(transparent)]
    DuckDb(#[from] duckdb::Error),
    /// No DuckDB on this side.
    #[error(transparent)]
    NoDuckDb(#[from] duckdb::Missing),
    /// The query makes no sense.
    #[error(transparent)]
    Query(#[from] ScanError),
    /// The rows' types.
    #[error(transparent)]
    Digest(#[from] UnknownType),
    /// What the agent says contradicts what it said before.
    #[error("what the agent says cannot be: {0}")]
    Disbelieved(String),
    /// The agent scanned with fewer threads than the run is to be of.
    #[error(
        "the agent had {had} of {asked} threads left: other scans hold them, or its --threads is lower"
    )]
    TooFewThreads {
        /// Threads that scanned.
        had: u32,
        /// Threads that were asked for.
        asked: u32,
    },
    /// More rows came to be kept than there is room for.
    #[error("rows of more than {} MB came to be compared", .0 / 1_000_000)]
    TooMuchToKeep(u64),
    /// The agent cannot make its file cold.
    #[error("the agent cannot read its file anew: {0}")]
    NotCold(String),
    /// The fetched file has no place here.
    #[error("no place for a fetched file: {0}")]
    Scratch(io::Error),
}

/// What happens to the rows that come back.
#[derive(Debug)]
pub enum Consumer {
    /// They are counted.
    Count,
    /// They are digested.
    Digest(Digest),
    /// They are kept.
    Keep(Kept),
}

/// Rows that are kept, in bounded memory.
#[derive(Debug)]
pub struct Kept {
    /// The rows.
    pub batches: Vec<RecordBatch>,
    bytes_left: u64,
    bytes_max: u64,
}

impl Kept {
    /// Nothing yet, in so much memory at most.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            batches: Vec::new(),
            bytes_left: bytes_max,
            bytes_max,
        }
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<(), SchemeError> {
        let left = self.bytes_left.checked_sub(held_bytes(batch));
        self.bytes_left = left.ok_or(SchemeError::TooMuchToKeep(self.bytes_max))?;
        self.batches.push(batch.clone());
        Ok(())
    }
}

/// Memory that a batch keeps: whole allocations, however little of them is its own, and each once.
fn held_bytes(batch: &RecordBatch) -> u64 {
    let mut held = BTreeMap::new();
    for column in batch.columns() {
        let data = column.to_data();
        let validity = data.nulls().map(|nulls| nulls.buffer());
        for buffer in data.buffers().iter().chain(validity) {
            held.insert(buffer.data_ptr(), buffer.capacity() as u64);
        }
    }
    held.values().sum()
}

impl Consumer {
    /// Keeps rows, in [`KEPT_BYTES_MAX`].
    pub fn keep() -> Self {
        Self::Keep(Kept::new(KEPT_BYTES_MAX))
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<(), SchemeError> {
        match self {
            Self::Count => Ok(()),
            Self::Digest(digest) => Ok(digest.update(batch)?),
            Self::Keep(kept) => kept.take(batch),
        }
    }
}

/// This side of one scheme: its connection, and for `fetch` the place where the file lands.
#[derive(Debug)]
pub struct Side {
    scheme: Scheme,
    client: Client,
    table: TableInfo,
    scratch: Option<Scratch>,
}

impl Side {
    /// Takes a connection over for `scheme`.
    pub fn new(scheme: Scheme, client: Client, table: TableInfo) -> Self {
        Self {
            scheme,
            client,
            table,
            scratch: None,
        }
    }

    /// Its scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Its connection.
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

    /// What stands in for hardware that a run uses: its transport's, or the agent's.
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
    pub fn run(&mut self, test: &Test, consumer: &mut Consumer) -> Result<Run, SchemeError> {
        if test.cold {
            let (table, format) = (&test.query.table, self.scheme.format());
            match self.client.make_cold(test.sf, table, format) {
                Err(ClientError::Refused {
                    refusal: Refusal::Unavailable,
                    text,
                    ..
                }) => return Err(SchemeError::NotCold(text)),
                told => told?,
            }
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
        run.agent_cpu_s = agent.cpu_s - agent_before.cpu_s;
        let agent_wait_s = agent.core_wait_s.zip(agent_before.core_wait_s);
        let agent_wait_s = agent_wait_s.map(|(after_s, before_s)| after_s - before_s);
        if run.agent_cpu_s < 0.0 || agent_wait_s.is_some_and(|wait_s| wait_s < 0.0) {
            let text = "its process has used less CPU time, or waited less for a core, than before";
            return Err(SchemeError::Disbelieved(text.to_owned()));
        }
        // A side that does not say leaves the sum unknown.
        run.interference.core_wait_s = run
            .interference
            .core_wait_s
            .zip(agent_wait_s)
            .map(|(here_s, agent_s)| here_s + agent_s);
        run.client_cpu_s = here.cpu_s - here_before.cpu_s;
        run.agent_peak_bytes = agent.peak_bytes;
        run.agent_added_bytes = agent.peak_over(&agent_before);
        // Memory that has no address here: the kernel does not count it as this process's.
        let fetched_bytes = match &self.scratch {
            Some(scratch) => scratch.bytes().map_err(SchemeError::Scratch)?,
            None => 0,
        };
        run.client_peak_bytes = here.peak_bytes + fetched_bytes;
        run.client_added_bytes = here.peak_over(&here_before) + fetched_bytes;
        Ok(run)
    }

    fn scan(
        &mut self,
        engine: Engine,
        test: &Test,
        consumer: &mut Consumer,
    ) -> Result<Run, SchemeError> {
        let request = ScanRequest {
            data: test.sf.into(),
            // Ours, for which the query was written, and not the one that the agent has told.
            schema: tpch::schema(&test.query.table).map_or(0, |schema| schema.fingerprint()),
            engine,
            query: test.query.clone(),
            threads: test.threads,
            batch_rows: test.batch_rows,
            rows_expected: test.rows_expected,
            partial: false,
        };
        let mut tally = Tally::new(consumer);
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

    fn fetch(&mut self, test: &Test, consumer: &mut Consumer) -> Result<Run, SchemeError> {
        let library = Library::find()?;
        let schema = scan::output_schema(&self.table.schema, &test.query)?;
        let mut scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => Scratch::new().map_err(SchemeError::Scratch)?,
        };
        let mut tally = Tally::new(consumer);
        let file = scratch.rewound().map_err(SchemeError::Scratch)?;
        let (table, format) = (&test.query.table, self.scheme.format());
        let bytes =
            self.client
                .fetch(test.sf, table, format, self.table.file_bytes(format), file)?;
        scratch.cut(bytes).map_err(SchemeError::Scratch)?;
        let transfer_s = tally.started.elapsed().as_secs_f64();
        self.filter_here(library, test, &scratch, &schema, &mut tally)?;
        self.scratch = Some(scratch);
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
        scratch: &Scratch,
        schema: &SchemaRef,
        tally: &mut Tally<'_>,
    ) -> Result<(), SchemeError> {
        let path = scratch.path();
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
            let began = Instant::now();
            database.require_base_table(&from)?;
            // Asked for our sake, not by the scheme.
            tally.started += began.elapsed();
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

/// Why `fetch` cannot run with so much memory available here, if it cannot: both files stay in memory between runs.
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

/// Counts what comes back.
struct Tally<'a> {
    watch: Watch,
    started: Instant,
    run: Run,
    consumer: &'a mut Consumer,
    failed: Option<SchemeError>,
}

impl<'a> Tally<'a> {
    fn new(consumer: &'a mut Consumer) -> Self {
        Self {
            watch: Watch::start(),
            started: Instant::now(),
            run: Run::default(),
            consumer,
            failed: None,
        }
    }

    fn take(&mut self, batch: &RecordBatch) -> ControlFlow<()> {
        if self.run.rows == 0 {
            self.run.first_batch_s = self.started.elapsed().as_secs_f64();
        }
        self.run.rows += batch.num_rows() as u64;
        self.run.result_bytes += batch_bytes(batch);
        match self.consumer.take(batch) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Stops the clock, then the watch: while the threads that worked for these rows are still there to be asked.
    fn rows_ended(&mut self) {
        self.run.elapsed_s = self.started.elapsed().as_secs_f64();
        self.run.interference = self.watch.stop();
    }

    /// What was counted, once the clock has been stopped.
    fn finish(mut self) -> Result<Run, SchemeError> {
        if self.run.rows == 0 {
            self.run.first_batch_s = self.run.elapsed_s;
        }
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.run),
        }
    }
}

/// Bytes that a batch's values take, whoever holds them.
fn batch_bytes(batch: &RecordBatch) -> u64 {
    let columns = batch.columns().iter();
    columns
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0) as u64)
        .sum()
}

/// Where a fetched file lands: a file in memory without a name, gone with this process however it ends. It is written
/// over and over, so that its pages are there from the second run on.
#[derive(Debug)]
struct Scratch {
    file: File,
}

impl Scratch {
    fn new() -> io::Result<Self> {
        let fd: OwnedFd = rustix::fs::memfd_create("dpb-fetch", MemfdFlags::CLOEXEC)?;
        Ok(Self { file: fd.into() })
    }

    fn rewound(&mut self) -> io::Result<&mut File> {
        self.file.seek(SeekFrom::Start(0))?;
        Ok(&mut self.file)
    }

    /// Bytes of memory that the file takes.
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.file.flush()?;
        self.file.set_len(bytes)
    }

    /// A path that this process can open it by.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_do_not_fit_this_memory_are_not_fetched() {
        let table = TableInfo {
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

    #[test]
    fn rows_are_kept_in_bounded_memory_that_is_counted_whole() {
        let column: arrow_array::ArrayRef =
            Arc::new(arrow_array::Int64Array::from_iter_values(0..1024));
        let whole = RecordBatch::try_from_iter([("a", column.clone()), ("b", column)]).unwrap();
        // Two columns share their memory, and a slice holds all of it.
        assert_eq!(held_bytes(&whole), 8192);
        assert_eq!(held_bytes(&whole.slice(3, 1)), 8192);
        let mut consumer = Consumer::Keep(Kept::new(3 * 8192));
        for _ in 0..3 {
            consumer.take(&whole.slice(5, 1)).unwrap();
        }
        let full = consumer.take(&whole.slice(5, 1));
        assert!(
            matches!(full, Err(SchemeError::TooMuchToKeep(_))),
            "{full:?}"
        );
    }
}
