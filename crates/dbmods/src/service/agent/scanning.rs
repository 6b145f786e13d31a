//! One scan at the agent: made ready, run by an engine into an outbox, while the connection's thread empties that.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::thread;

use arrow_array::RecordBatch;
use dpb_link::budget::Reserved;
use dpb_link::{Link, LinkError};

use super::bounds::{QUEUE_BATCHES, REQUEST_GROWTH, TERM_BYTES, TEXT_GROWTH, reserve_memory};
use super::halt::Halt;
use super::outbox::Outbox;
use super::refusals::{damaged, refuse};
use super::sending::{Conversed, Outgoing, send_batches, send_end};
use super::{PEER_LOOK, Shared, duckdb_pool, lock};
use crate::ends::Ends;
use crate::query::{Output, Query, sql};
use crate::scan::{self, Plan, ScanError, ScanOptions};
use crate::schema::Schema;
use crate::service::compact::COMPACTOR_BATCHES;
use crate::service::protocol::{self, DataSet, End, Engine, Refusal, ScanRequest, Tag};
use crate::service::usage;
use crate::table::segment::Segment;

/// Fewest rows of a batch.
const BATCH_ROWS_MIN: u32 = 64;
/// Batches that a scan has handed over and that are not sent: those of the queue, and the one that is being sent.
const KEPT_BATCHES: usize = QUEUE_BATCHES + 1;

/// Runs a scan and sends its batches as they come.
pub(super) fn scan_and_send(
    shared: &Shared,
    link: &mut Link,
    held: &mut Reserved<'_>,
    request: ScanRequest,
    is_compact: bool,
) -> Conversed {
    let scan = ReadyScan::new(shared, held, request, is_compact)?;
    let reserved = {
        let (least, wanted) = scan.memory_bytes();
        let gone = || shared.is_ending() || link.peer_gone();
        reserve_memory(&shared.budget, least, wanted, &gone)?
    };
    shared.slots.trim(shared.budget.left() as usize);
    let exchange = Exchange::new();
    // Rows may be for a person, who reads them page by page.
    link.set_may_pause(true)?;
    thread::scope(|scope| {
        let scanner = scope.spawn(|| {
            // Also when the scan panics: the sender must not wait for ever.
            let _finish = Finish(&exchange.outbox);
            scan.run(shared, reserved.bytes, &exchange);
            // This thread ends here, and its wait is known until then.
            usage::core_wait_s();
        });
        let sent = send_batches(
            shared,
            link,
            (scan.tag(), scan.plan.output_schema(), scan.is_compact),
            &exchange.outbox,
            &exchange.halt,
        );
        let ended = match sent {
            Ok(sent) => {
                link.set_may_pause(false)?;
                let end = lock(&exchange.outcome).take();
                send_end(link, sent, end, &|| shared.is_ending())
            }
            Err(error) => Err(error),
        };
        exchange.outbox.close();
        while ended.is_err() && !scanner.is_finished() {
            exchange.halt.now();
            shared.options.clock.sleep(PEER_LOOK);
        }
        // A scan's panic was told by the missing outcome.
        let _ = scanner.join();
        ended
    })
}

/// A scan that was asked for, made ready.
struct ReadyScan<'a> {
    data: DataSet,
    engine: Engine,
    query: Arc<Query>,
    segment: Arc<Segment>,
    plan: Arc<Plan>,
    threads: usize,
    batch_rows: usize,
    rows_expected: Option<u64>,
    is_partial: bool,
    is_compact: bool,
    /// Memory of the plan's tables.
    _tables: Reserved<'a>,
}

/// Between the thread that scans and the one that sends.
struct Exchange {
    halt: Halt,
    outbox: Outbox<Outgoing>,
    /// The end of the scan; nothing while it runs.
    outcome: Mutex<Option<Result<End, LinkError>>>,
}

impl Exchange {
    fn new() -> Self {
        Self {
            halt: Halt::default(),
            outbox: Outbox::new(QUEUE_BATCHES),
            outcome: Mutex::new(None),
        }
    }

    /// Tells how the scan ended. It is called before the engine tidies up, which nobody should wait for.
    fn end(&self, end: Result<End, LinkError>) {
        *lock(&self.outcome) = Some(end);
        self.outbox.finish();
    }
}

impl<'a> ReadyScan<'a> {
    /// Refuses what cannot be scanned. Of what was reserved for the request it keeps what its terms take.
    fn new(
        shared: &'a Shared,
        held: &mut Reserved<'_>,
        request: ScanRequest,
        is_compact: bool,
    ) -> Result<Self, LinkError> {
        let query = Arc::new(request.query);
        let segment = shared.catalog.segment(&request.data, &query.table)?;
        check_schema(segment.schema(), request.schema)?;
        let usage = |e: &dyn std::fmt::Display| refuse(Refusal::Usage, e.to_string());
        let is_ours = matches!(
            (&query.output, request.engine),
            (Output::Aggregate(_), Engine::Dpb)
        );
        if request.partial && !is_ours {
            return Err(usage(&"only an aggregate by our scan can be partial"));
        }
        let schema = segment.schema();
        let terms = query.count_terms(schema).map_err(|e| usage(&e))? as u64;
        let (plan, tables) =
            make_plan(shared, schema, &query, request.engine).map_err(|e| usage(&e))?;
        held.keep(held.bytes / REQUEST_GROWTH * TEXT_GROWTH + terms * TERM_BYTES);
        if request.threads == 0 {
            return Err(usage(&"a scan needs at least one thread"));
        }
        Ok(Self {
            data: request.data,
            engine: request.engine,
            query,
            segment,
            plan,
            threads: request.threads.min(shared.options.threads_max) as usize,
            batch_rows: request.batch_rows.max(BATCH_ROWS_MIN) as usize,
            rows_expected: request.rows_expected,
            is_partial: request.partial,
            is_compact,
            _tables: tables,
        })
    }

    /// The tag of what it puts out.
    fn tag(&self) -> Tag {
        match self.is_partial {
            true => Tag::Partial,
            false => Tag::Batch,
        }
    }

    /// Batches' worth of memory outside of the scan: those that it has handed over, and what makes one of them compact.
    fn kept_batches(&self) -> usize {
        match self.is_compact {
            true => KEPT_BATCHES + COMPACTOR_BATCHES,
            false => KEPT_BATCHES,
        }
    }

    /// The least memory that it needs, and the most that it can make use of.
    fn memory_bytes(&self) -> (u64, u64) {
        let Self {
            plan,
            segment,
            threads,
            batch_rows,
            ..
        } = self;
        let kept = self.kept_batches();
        match self.engine {
            Engine::Dpb => (
                plan.memory_bytes_min(segment, kept) as u64,
                plan.memory_bytes_max(segment, *threads, *batch_rows, kept) as u64,
            ),
            Engine::DuckDb => duckdb_pool::memory_bytes(plan.output_schema(), *batch_rows, kept),
        }
    }

    fn run(&self, shared: &Shared, memory_bytes: u64, exchange: &Exchange) {
        match self.engine {
            Engine::Dpb => self.run_ours(shared, memory_bytes, exchange),
            Engine::DuckDb => self.run_duckdb(shared, memory_bytes, exchange),
        }
    }

    fn run_ours(&self, shared: &Shared, memory_bytes: u64, exchange: &Exchange) {
        let granted = shared.threads.reserve_up_to(self.threads as u64);
        let threads = granted.bytes.max(1) as usize;
        let options = ScanOptions {
            threads,
            stop: &exchange.halt.stop,
            batch_rows: self.batch_rows,
            memory_bytes: memory_bytes as usize,
            sink_batches: self.kept_batches(),
            slots: Some(&shared.slots),
        };
        let (backend, cache) = (&*shared.options.backend, &shared.catalog.cache);
        let sink = |message| exchange.outbox.put(Outgoing::Message(message));
        let (plan, query, segment) = (&self.plan, &self.query, &self.segment);
        let scanned = match self.is_partial {
            true => plan.scan_partial_on(backend, query, segment, cache, &options, &sink),
            false => plan.scan_on(backend, query, segment, cache, &options, &sink),
        };
        // Before the client hears of the end: its next scan has all of them again.
        drop(granted);
        exchange.end(match scanned {
            Ok(stats) => Ok(ours(plan, segment.schema(), &stats, threads)),
            Err(error) => Err(scan_refusal(&error)),
        });
    }

    /// DuckDB's rows of the same query, in the same schema.
    fn run_duckdb(&self, shared: &Shared, memory_bytes: u64, exchange: &Exchange) {
        let output = self.plan.output_schema();
        let rows_ended = || {
            exchange.end(Ok(End {
                tuples_scanned: self.segment.rows(),
                threads: self.threads as u32,
                ..End::default()
            }));
        };
        let scan = duckdb_pool::Scan {
            sql: sql::query_to_sql(&self.query, self.segment.schema(), &self.query.table),
            output,
            table_rows: self.segment.rows(),
            // A text with a LIMIT of its own takes no second one.
            rows_expected: self.rows_expected.filter(|_| self.query.limit.is_none()),
            batch_rows: duckdb_pool::batch_rows(output, memory_bytes, self.kept_batches()),
        };
        let sink = |batch| exchange.outbox.put(Outgoing::Batch(batch));
        let of = (&self.data, &*self.query.table);
        let halt = &exchange.halt;
        let scanned = duckdb_scan(shared, of, self.threads, scan, halt, &sink, &rows_ended);
        if let Err(error) = scanned {
            exchange.end(Err(error));
        }
    }
}

/// Refuses a client whose table has other columns than the agent's.
fn check_schema(schema: &Schema, theirs: u64) -> Conversed {
    let ours = schema.fingerprint();
    if theirs == ours {
        return Ok(());
    }
    let text = format!(
        "the client's table {} is another one (schema {theirs:016x}) than the agent's ({ours:016x}): install the same dpb \
         on both sides",
        schema.table
    );
    Err(refuse(Refusal::Usage, text))
}

/// Makes a plan, and reserves what its tables take; DuckDB has no use for those. One at a time, so that what is needed only
/// meanwhile is needed once.
fn make_plan<'a>(
    shared: &'a Shared,
    schema: &Schema,
    query: &Query,
    engine: Engine,
) -> Result<(Arc<Plan>, Reserved<'a>), ScanError> {
    let _one = lock(&shared.planning);
    let wanted = match engine {
        Engine::Dpb => scan::TABLES_BYTES_MAX,
        Engine::DuckDb => 0,
    };
    let mut tables = shared.tables.reserve_up_to(wanted as u64);
    let plan = Plan::with_tables(schema, query, tables.bytes as usize)?;
    let plan = plan.with_clock(Arc::clone(&shared.options.clock));
    tables.keep(plan.table_bytes() as u64);
    Ok((Arc::new(plan), tables))
}

/// Says to the outbox that nothing more comes, however the scan ended.
struct Finish<'a, T>(&'a Outbox<T>);

impl<T> Drop for Finish<'_, T> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// Runs DuckDB's scan, and says when its rows have ended, which is before DuckDB has tidied up.
fn duckdb_scan(
    shared: &Shared,
    (data, table): (&DataSet, &str),
    threads: usize,
    scan: duckdb_pool::Scan<'_>,
    halt: &Halt,
    sink: &dyn Fn(RecordBatch) -> ControlFlow<()>,
    rows_ended: &dyn Fn(),
) -> Conversed {
    let mut lease = shared.catalog.duckdb(data, table, threads)?;
    *lock(&halt.duckdb) = Some(lease.connection.interrupt_handle());
    let pool = &shared.catalog.duckdb_pool;
    let scanned = pool.scan(&mut lease, scan, halt, sink, rows_ended);
    // It would keep the database open for longer than it is leased.
    *lock(&halt.duckdb) = None;
    scanned
}

fn ours(plan: &Plan, schema: &Schema, stats: &scan::ScanStats, threads: usize) -> End {
    let explain = format!("{}\n{}", plan.in_words(schema), stats.in_words());
    End {
        threads: threads as u32,
        tuples_scanned: stats.tuples_scanned,
        bytes_read: stats.bytes_read,
        blocks_scanned: stats.blocks_scanned,
        blocks_skipped: stats.blocks_skipped,
        explain: protocol::cut(&explain, protocol::EXPLAIN_BYTES_MAX).to_owned(),
        ..End::default()
    }
}

fn scan_refusal(error: &ScanError) -> LinkError {
    match error {
        ScanError::Segment(source) => damaged(source),
        error => {
            let refusal = match error.ends() {
                Ends::Usage => Refusal::Usage,
                Ends::Unavailable | Ends::Interrupted => Refusal::Unavailable,
                Ends::Broken => Refusal::Internal,
            };
            refuse(refusal, error.to_string())
        }
    }
}
