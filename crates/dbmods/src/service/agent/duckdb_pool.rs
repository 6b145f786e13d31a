//! DuckDB at the agent: a scan over its own file, and a bound on what it holds.
//!
//! It has one database open at a time, with one number of threads: who asks for another waits until nobody uses this one.
//! So its buffers take what one database may: as much as our cache, or [`DUCKDB_BYTES_MIN`]. A result that it finishes before
//! it hands over a row lies beside them and is no part of DuckDB's own bound: half as much is kept for those. Room is taken
//! for the rows that the client expects, and a `LIMIT` ends the result where the room does (it took no time that could be told
//! from noise). A result that finds no room is streamed.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use dpb_core::Timer;
use dpb_link::LinkError;
use dpb_link::budget::{Budget, RESERVE_PATIENCE, Waiting};

use super::halt::Halt;
use super::refusals::refuse;
use super::{DUCKDB_BYTES_MIN, lock};
use crate::duckdb::{
    BATCH_ROWS, CHUNK_ROWS, Config, Connection, Database, Delivery, Error, Library,
};
use crate::service::protocol::{DataSet, Refusal};

/// What is reserved at least for a result that is finished first, so that its bound is far from the rows that are expected:
/// DuckDB plans otherwise for a bound of few rows.
const RESULT_BYTES_MIN: u64 = 32 << 20;
/// What DuckDB computes ahead of who takes a streamed result (its `streaming_buffer_size`), beside its buffers.
const STREAM_BYTES: u64 = 1 << 20;
/// Bytes of a text value, for the estimate of a row's size.
const TEXT_BYTES: u64 = 32;

/// A table of a data set.
pub(super) type Name = (DataSet, String);

/// DuckDB, and who uses it.
pub(super) struct DuckDbPool {
    bytes_max: u64,
    waiting: Arc<AtomicUsize>,
    results: Budget,
    leases: Mutex<Leases>,
    left: Condvar,
}

#[derive(Default)]
struct Leases {
    open: Option<Open>,
    taken: usize,
}

/// The database that is open.
struct Open {
    name: Name,
    threads: usize,
    database: Database,
}

/// A connection that keeps its database open.
pub(super) struct Lease<'a> {
    // Dropped first.
    pub(super) connection: Connection,
    _held: Held<'a>,
}

struct Held<'a>(&'a DuckDbPool);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        lock(&self.0.leases).taken -= 1;
        self.0.left.notify_all();
    }
}

/// The way to open a database.
pub(super) struct Opening {
    pub(super) duckdb: Library,
    pub(super) path: PathBuf,
    pub(super) temp_dir: PathBuf,
}

/// A query of DuckDB's.
pub(super) struct Scan<'a> {
    pub(super) sql: String,
    pub(super) output: &'a SchemaRef,
    pub(super) table_rows: u64,
    pub(super) rows_expected: Option<u64>,
    pub(super) batch_rows: usize,
}

impl DuckDbPool {
    pub(super) fn new(
        cache_bytes: u64,
        waiting: &Arc<AtomicUsize>,
        clock: &Arc<dyn Timer>,
    ) -> Self {
        let bytes_max = cache_bytes.max(DUCKDB_BYTES_MIN);
        Self {
            bytes_max,
            waiting: Arc::clone(waiting),
            results: Budget::new(bytes_max / 2, waiting, clock),
            leases: Mutex::default(),
            left: Condvar::new(),
        }
    }

    /// A connection to the database of this name with so many threads, opened if another one is open or none.
    pub(super) fn connect(
        &self,
        name: &Name,
        threads: usize,
        opening: Opening,
    ) -> Result<Lease<'_>, LinkError> {
        let broke = |e: Error| refuse(Refusal::Internal, e.to_string());
        let is_it = |open: &Open| open.name == *name && open.threads == threads;
        let mut leases = self.wait_while(|leases| {
            leases.taken > 0 && leases.open.as_ref().is_some_and(|open| !is_it(open))
        })?;
        leases.open.take_if(|open| !is_it(open));
        let database = match &leases.open {
            Some(open) => open.database.clone(),
            None => {
                let config = Config {
                    threads: Some(threads),
                    memory_bytes_max: Some(self.bytes_max),
                    temp_dir: Some(opening.temp_dir),
                    read_only: true,
                    // As our own scan: rows come as they are found.
                    any_order: true,
                    ..Config::default()
                };
                let opened = Database::open(opening.duckdb, Some(&opening.path), &config);
                let database = opened.map_err(broke)?;
                database.require_base_table(&name.1).map_err(broke)?;
                database
            }
        };
        let connection = database.connect().map_err(broke)?;
        leases.open = Some(Open {
            name: name.clone(),
            threads,
            database,
        });
        leases.taken += 1;
        Ok(Lease {
            connection,
            _held: Held(self),
        })
    }

    /// Closes the database of this name, once nobody uses it; says how many threads it had, if it was open.
    pub(super) fn close(&self, name: &Name) -> Result<Option<usize>, LinkError> {
        let is_it = |open: &mut Open| open.name == *name;
        let mut leases = self.wait_while(|leases| leases.taken > 0)?;
        Ok(leases.open.take_if(is_it).map(|open| open.threads))
    }

    fn wait_while(
        &self,
        is_taken: impl Fn(&Leases) -> bool,
    ) -> Result<MutexGuard<'_, Leases>, LinkError> {
        let leases = lock(&self.leases);
        if !is_taken(&leases) {
            return Ok(leases);
        }
        let _waiting = Waiting::new(&self.waiting);
        let (leases, waited) = self
            .left
            .wait_timeout_while(leases, RESERVE_PATIENCE, |leases| is_taken(leases))
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if waited.timed_out() {
            return Err(refuse(
                Refusal::Busy,
                "DuckDB works here for others, on another data set or with another number of threads; try again later",
            ));
        }
        Ok(leases)
    }

    /// Runs a scan until `sink` breaks or `halt` says so. Says when its rows have ended, which is before DuckDB has tidied up.
    pub(super) fn scan(
        &self,
        lease: &mut Lease<'_>,
        mut scan: Scan<'_>,
        halt: &Halt,
        sink: &dyn Fn(RecordBatch) -> ControlFlow<()>,
        rows_ended: &dyn Fn(),
    ) -> Result<(), LinkError> {
        let broke = |e: Error| refuse(Refusal::Internal, e.to_string());
        let row_bytes = row_bytes(scan.output);
        let finished = match (
            Delivery::of(scan.rows_expected, scan.table_rows),
            scan.rows_expected,
        ) {
            // One row more tells a result that was cut.
            (Delivery::Materialised, Some(rows)) => {
                let bytes = row_bytes.saturating_mul(rows.saturating_add(1));
                self.results.reserve_now(bytes.max(RESULT_BYTES_MIN))
            }
            _ => None,
        };
        let delivery = match finished {
            Some(_) => Delivery::Materialised,
            None => Delivery::Streamed,
        };
        let rows_max = finished.as_ref().map(|reserved| reserved.bytes / row_bytes);
        let rows_max = rows_max.filter(|&rows_max| rows_max < scan.table_rows);
        if let Some(rows_max) = rows_max {
            scan.sql += &format!(" LIMIT {rows_max}");
        }
        let mut rows = lease
            .connection
            .query(&scan.sql, Some(Arc::clone(scan.output)), delivery)
            .map_err(broke)?
            .batches_of(scan.batch_rows);
        let mut rows_given = 0;
        for batch in &mut rows {
            let batch = batch.map_err(broke)?;
            rows_given += batch.num_rows() as u64;
            if halt.is_set() || sink(batch).is_break() {
                break;
            }
        }
        if rows_max.is_some_and(|rows_max| rows_given >= rows_max) {
            return Err(refuse(
                Refusal::Usage,
                format!(
                    "the result has more than the {} rows that the client expected",
                    scan.rows_expected.unwrap_or_default()
                ),
            ));
        }
        // The result is dropped after this.
        rows_ended();
        Ok(())
    }
}

/// Memory that a scan takes at least, and with batches of at most so many rows: those that the queue and the sender keep, one
/// that is gathered or waits for the queue, and what DuckDB streams ahead. Chunks are not split, so a batch may have up to a
/// chunk more.
pub(super) fn memory_bytes(
    output: &SchemaRef,
    batch_rows: usize,
    kept_batches: usize,
) -> (u64, u64) {
    let row = row_bytes(output) * (kept_batches as u64 + 1);
    let bytes = |rows: usize| STREAM_BYTES + row * (rows + CHUNK_ROWS) as u64;
    (bytes(1), bytes(batch_rows.min(BATCH_ROWS)))
}

/// Rows of the batches for which so much memory, at least the least, suffices.
pub(super) fn batch_rows(output: &SchemaRef, bytes: u64, kept_batches: usize) -> usize {
    let row = row_bytes(output) * (kept_batches as u64 + 1);
    (bytes.saturating_sub(STREAM_BYTES) / row).saturating_sub(CHUNK_ROWS as u64) as usize
}

/// Bytes of a row of the result: no less than it takes, in DuckDB's layout or Arrow's, for texts of up to 32 bytes on average.
fn row_bytes(output: &SchemaRef) -> u64 {
    let fields = output.fields().iter();
    let widths = fields.map(|field| match field.data_type() {
        DataType::Utf8 => 4 + TEXT_BYTES,
        ty => ty.primitive_width().unwrap_or(size_of::<u128>()) as u64,
    });
    widths.sum::<u64>().max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::bounds::reserve_memory;
    use super::*;
    use crate::query::{Output, Predicate, Query};
    use crate::scan;
    use crate::service::agent::{QUEUE_BATCHES, SCAN_BYTES_MAX, SCANS_BYTES_MAX};
    use crate::tpch;

    fn wall() -> Arc<dyn Timer> {
        Arc::new(dpb_core::WallClock::default())
    }

    #[test]
    fn who_finds_a_connection_free_is_not_counted_as_waiting() {
        let waiting = Arc::default();
        let peer = DuckDbPool::new(0, &waiting, &wall());
        let counted = Mutex::new(Vec::new());
        for looks in [1, 3] {
            let leases = peer.wait_while(|_| {
                let mut counted = lock(&counted);
                counted.push(waiting.load(Ordering::Relaxed));
                counted.len() < looks
            });
            drop(leases.unwrap());
        }
        assert_eq!(*lock(&counted), [0, 0, 1]);
        assert_eq!(waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_scan_alone_gets_whole_batches_and_many_get_small_ones() {
        let query = Query {
            table: "lineitem".to_owned(),
            predicate: Predicate::Constant(Some(true)),
            output: Output::Rows((0..16).collect()),
            limit: None,
        };
        let output = scan::output_schema(&tpch::schema("lineitem").unwrap(), &query).unwrap();
        let kept = QUEUE_BATCHES + 1;
        for asked in [1, 1000, BATCH_ROWS] {
            let (least, wanted) = memory_bytes(&output, asked, kept);
            assert!(least <= wanted && wanted <= SCAN_BYTES_MAX);
            assert_eq!(batch_rows(&output, wanted, kept), asked);
            assert_eq!(batch_rows(&output, least, kept), 1);
        }
        let (least, wanted) = memory_bytes(&output, usize::MAX, kept);
        assert_eq!(batch_rows(&output, wanted, kept), BATCH_ROWS);
        let budget = Budget::new(SCANS_BYTES_MAX, &Arc::default(), &wall());
        let mut given = Vec::new();
        while given.len() < 12 {
            given.push(reserve_memory(&budget, least, wanted, &|| false).unwrap());
        }
        assert_eq!(batch_rows(&output, given[0].bytes, kept), BATCH_ROWS);
        assert!((1..CHUNK_ROWS).contains(&batch_rows(&output, given[11].bytes, kept)));
        assert!(budget.reserve_now(SCANS_BYTES_MAX).is_none());
        drop(given);
        assert!(budget.reserve_now(SCANS_BYTES_MAX).is_some());
    }
}
