//! One scan: its threads fill an outbox, its connection's thread empties it.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;

use super::budget::Reserved;
use super::halt::Halt;
use super::outbox::{Outbox, Taken};
use super::refusals::{damaged, refuse};
use super::{
    BATCH_ROWS_MIN, CORE_WAIT_LOOK, Conversed, PEER_LOOK, QUEUE_BATCHES, REQUEST_GROWTH, Shared,
    TERM_BYTES, TEXT_GROWTH, carried, duckdb_pool, ending, lock, settle,
};
use crate::ipc::Encoder;
use crate::query::{Query, sql};
use crate::scan::{self, Message, Plan, ScanError, ScanOptions};
use crate::schema::Schema;
use crate::service::link::{Link, between};
use crate::service::protocol::{self, End, Engine, Refusal, ScanRequest, Tag, WireError};
use crate::service::usage;

/// How long an agent that scans is silent before it shows a sign of life. Clients wait several times as long.
const SIGN_OF_LIFE: Duration = match cfg!(test) {
    false => Duration::from_secs(5),
    true => Duration::from_millis(30),
};

/// Runs a scan and sends its batches as they come.
pub(super) fn scan_and_send(
    shared: &Shared,
    link: &mut Link,
    held: &mut Reserved<'_>,
    request: ScanRequest,
) -> Conversed {
    let query = Arc::new(request.query);
    let segment = shared.catalog.segment(request.sf, &query.table)?;
    let schema = segment.schema();
    let fingerprint = schema.fingerprint();
    if request.schema != fingerprint {
        let text = format!(
            "the client's table {} is another one (schema {:016x}) than the agent's ({fingerprint:016x}): install the same dpb \
             on both sides",
            schema.table, request.schema
        );
        return Err(refuse(Refusal::Usage, text));
    }
    let usage = |e: &dyn std::fmt::Display| refuse(Refusal::Usage, e.to_string());
    let terms = query.count_terms(schema).map_err(|e| usage(&e))? as u64;
    let (plan, _tables) =
        make_plan(shared, schema, &query, request.engine).map_err(|e| usage(&e))?;
    held.keep(held.bytes / REQUEST_GROWTH * TEXT_GROWTH + terms * TERM_BYTES);
    let output = plan.output_schema();
    if request.threads == 0 {
        return Err(refuse(Refusal::Usage, "a scan needs at least one thread"));
    }
    let threads = request.threads.min(shared.options.threads_max) as usize;
    let batch_rows = request.batch_rows.max(BATCH_ROWS_MIN) as usize;
    // The queue and the one that is being sent.
    let kept_batches = QUEUE_BATCHES + 1;
    let (least, wanted) = match request.engine {
        Engine::Dpb => (
            plan.memory_bytes_min(&segment, kept_batches) as u64,
            plan.memory_bytes_max(&segment, threads, batch_rows, kept_batches) as u64,
        ),
        Engine::DuckDb => duckdb_pool::memory_bytes(output, batch_rows, kept_batches),
    };
    let gone = || shared.is_ending() || link.peer_gone();
    let reserved = shared.budget.reserve_for_scan(least, wanted, &gone)?;
    shared.slots.trim(shared.budget.left() as usize);

    let halt = Halt::default();
    let outbox = Outbox::new(QUEUE_BATCHES);
    let outcome = Mutex::new(None);
    // Called before the engine tidies up, which is nobody's waiting time.
    let ended = |end: Result<End, WireError>| {
        *lock(&outcome) = Some(end);
        outbox.finish();
    };
    thread::scope(|scope| {
        let scanner = scope.spawn(|| {
            // Also when the scan panics: the sender must not wait for ever.
            let _finish = Finish(&outbox);
            match request.engine {
                Engine::Dpb => {
                    let granted = shared.threads.reserve_up_to(threads as u64);
                    let threads = granted.bytes.max(1) as usize;
                    let options = ScanOptions {
                        threads,
                        stop: &halt.stop,
                        batch_rows,
                        memory_bytes: reserved.bytes as usize,
                        sink_batches: kept_batches,
                        slots: Some(&shared.slots),
                    };
                    let (backend, cache) = (&*shared.options.backend, &shared.catalog.cache);
                    let sink = |message| outbox.put(Outgoing::Message(message));
                    let scanned = plan.scan_on(backend, &query, &segment, cache, &options, &sink);
                    // Before the client hears of the end: its next scan has all of them again.
                    drop(granted);
                    ended(match scanned {
                        Ok(stats) => Ok(ours(&stats, threads)),
                        Err(error) => Err(scan_refusal(&error)),
                    });
                }
                Engine::DuckDb => {
                    let rows_ended = || {
                        ended(Ok(End {
                            tuples_scanned: segment.rows(),
                            threads: threads as u32,
                            ..End::default()
                        }));
                    };
                    let scan = duckdb_pool::Scan {
                        sql: sql::query_to_sql(&query, schema, &query.table),
                        output,
                        table_rows: segment.rows(),
                        rows_expected: request.rows_expected,
                        batch_rows: duckdb_pool::batch_rows(output, reserved.bytes, kept_batches),
                    };
                    let sink = |batch| outbox.put(Outgoing::Batch(batch));
                    let of = (request.sf, &*query.table);
                    let scanned = duckdb_scan(shared, of, threads, scan, &halt, &sink, &rows_ended);
                    if let Err(error) = scanned {
                        ended(Err(error));
                    }
                }
            }
            // This thread ends here, and its wait is known until then.
            usage::core_wait_s();
        });
        let sent = send_batches(shared, link, output, &outbox, &halt);
        let ended = match sent {
            Ok(sent) => {
                let end = lock(&outcome).take();
                send_end(link, sent, end, &|| shared.is_ending())
            }
            Err(error) => Err(error),
        };
        outbox.close();
        while ended.is_err() && !scanner.is_finished() {
            halt.now();
            shared.options.clock.sleep(PEER_LOOK);
        }
        // A scan's panic was told by the missing outcome.
        let _ = scanner.join();
        ended
    })
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
    tables.keep(plan.table_bytes() as u64);
    Ok((Arc::new(plan), tables))
}

/// Tells how the scan ended, once all its rows are sent.
fn send_end(
    link: &mut Link,
    sent: Sent,
    end: Option<Result<End, WireError>>,
    stop: &dyn Fn() -> bool,
) -> Conversed {
    let end = end.unwrap_or_else(|| Err(refuse(Refusal::Internal, "the scan panicked")));
    let end = match end {
        Ok(end) => end,
        Err(_) if sent.stopped => End::default(),
        Err(error) => return Err(error),
    };
    let end = End {
        rows: sent.rows,
        batches: sent.batches,
        stopped: sent.stopped,
        ..end
    };
    settle(link, stop)?;
    link.send(Tag::End, &protocol::encode(&end))
}

/// Says to the outbox that nothing more comes, however the scan ended.
struct Finish<'a, T>(&'a Outbox<T>);

impl<T> Drop for Finish<'_, T> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// What an engine puts out to be sent.
#[derive(Debug)]
enum Outgoing {
    /// A batch to be encoded.
    Batch(RecordBatch),
    /// One that was.
    Message(Message),
}

/// What a sender counted.
#[derive(Default)]
struct Sent {
    rows: u64,
    batches: u64,
    stopped: bool,
}

/// Sends the schema, then batches until the outbox has finished, the client asks to stop, or it is gone.
fn send_batches(
    shared: &Shared,
    link: &mut Link,
    schema: &SchemaRef,
    outbox: &Outbox<Outgoing>,
    halt: &Halt,
) -> Result<Sent, WireError> {
    let broke =
        |e: arrow_schema::ArrowError| refuse(Refusal::Internal, format!("cannot encode: {e}"));
    let empty = RecordBatch::new_empty(Arc::clone(schema));
    let (mut encoder, schema) = Encoder::new(schema).map_err(broke)?;
    let stop = || shared.is_ending();
    let mut sent = Sent::default();
    let clock = &*shared.options.clock;
    let mut looked_ns = clock.now_ns();
    send_parts(link, Tag::Schema, &[&schema], schema.len(), &stop)?;
    let mut spoke_ns = clock.now_ns();
    loop {
        let mut taken = outbox.take(PEER_LOOK);
        if matches!(taken, Taken::Nothing) && between(spoke_ns, clock.now_ns()) >= SIGN_OF_LIFE {
            taken = Taken::Item(Outgoing::Batch(empty.clone()));
        }
        if between(looked_ns, clock.now_ns()) >= CORE_WAIT_LOOK {
            usage::core_wait_s();
            looked_ns = clock.now_ns();
        }
        if let Some(header) = link.interjection()? {
            if header.tag != Tag::Stop {
                return Err(WireError::OutOfPlace(header.tag));
            }
            outbox.close();
            sent.stopped = true;
        }
        if sent.stopped {
            halt.now();
        }
        match taken {
            Taken::Item(item) if !sent.stopped => {
                sent.rows += match item {
                    Outgoing::Batch(batch) => {
                        let encoded = encoder.encode(&batch).map_err(broke)?;
                        let parts: Vec<&[u8]> =
                            encoded.parts.iter().map(Buffer::as_slice).collect();
                        send_parts(link, Tag::Batch, &parts, encoded.len, &stop)?;
                        batch.num_rows() as u64
                    }
                    Outgoing::Message(message) => {
                        let bytes = message.bytes();
                        send_parts(link, Tag::Batch, &[bytes], bytes.len(), &stop)?;
                        message.rows()
                    }
                };
                sent.batches += 1;
                spoke_ns = clock.now_ns();
            }
            Taken::Item(_) | Taken::Nothing => {
                if shared.is_ending() {
                    return Err(ending());
                }
            }
            Taken::Finished => return Ok(sent),
        }
    }
}

fn send_parts(
    link: &mut Link,
    tag: Tag,
    parts: &[&[u8]],
    len: usize,
    stop: &dyn Fn() -> bool,
) -> Conversed {
    carried(link.send_frame(tag, parts, len, stop)?)
}

/// DuckDB's rows of the same query, in the same schema. Says when they have ended, which is before DuckDB has tidied up.
fn duckdb_scan(
    shared: &Shared,
    (sf, table): (f64, &str),
    threads: usize,
    scan: duckdb_pool::Scan<'_>,
    halt: &Halt,
    sink: &dyn Fn(RecordBatch) -> ControlFlow<()>,
    rows_ended: &dyn Fn(),
) -> Conversed {
    let mut lease = shared.catalog.duckdb(sf, table, threads)?;
    *lock(&halt.duckdb) = Some(lease.connection.interrupt_handle());
    let pool = &shared.catalog.duckdb_pool;
    let scanned = pool.scan(&mut lease, scan, halt, sink, rows_ended);
    // It would keep the database open for longer than it is leased.
    *lock(&halt.duckdb) = None;
    scanned
}

fn ours(stats: &scan::ScanStats, threads: usize) -> End {
    End {
        threads: threads as u32,
        tuples_scanned: stats.tuples_scanned,
        bytes_read: stats.bytes_read,
        blocks_scanned: stats.blocks_scanned,
        blocks_skipped: stats.blocks_skipped,
        explain: protocol::cut(&explanation(stats), protocol::EXPLAIN_BYTES_MAX).to_owned(),
        ..End::default()
    }
}

/// What the scan found out about the predicate's parts, one line each.
fn explanation(stats: &scan::ScanStats) -> String {
    let lines = stats.conjuncts.iter().map(|part| {
        let rows = part.rows_sampled.max(1) as f64;
        format!(
            "{}: {:.4} of {} sampled rows pass, {:.3} ns a row",
            part.text,
            part.rows_passed as f64 / rows,
            part.rows_sampled,
            part.time_ns as f64 / rows
        )
    });
    let zones = format!(
        "zone maps decided {} of {} rows ({} row groups, {} more blocks left out)",
        stats.tuples_skipped, stats.tuples_scanned, stats.groups_skipped, stats.blocks_skipped
    );
    lines.chain([zones]).collect::<Vec<_>>().join("\n")
}

fn scan_refusal(error: &ScanError) -> WireError {
    match error {
        ScanError::Segment(source) => damaged(source),
        ScanError::Setup(_) => refuse(Refusal::Unavailable, error.to_string()),
        ScanError::Backend { .. } | ScanError::Malformed(_) | ScanError::Internal(_) => {
            refuse(Refusal::Internal, error.to_string())
        }
        other => refuse(Refusal::Usage, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use arrow_schema::{DataType, Field, Schema};
    use dpb_core::WallClock;

    use super::super::{Agent, AgentOptions};
    use super::*;
    use crate::scan::operator::OwnCores;

    #[test]
    fn a_scan_that_finds_nothing_for_long_shows_signs_of_life() {
        let agent = Agent::bind(AgentOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            data_dir: "/nowhere".into(),
            cache_bytes: 0,
            token: None,
            threads_max: 1,
            connections_max: 1,
            cold: false,
            backend: Arc::new(OwnCores::default()),
            say: |_| (),
            clock: Arc::new(WallClock::default()),
            handshake_patience: Duration::from_secs(5),
            idle_patience: None,
            bulk: Err("not tried here".into()),
        })
        .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut near = Link::new(near, 0, Arc::new(WallClock::default())).unwrap();
        let mut far = Link::new(
            listener.accept().unwrap().0,
            0,
            Arc::new(WallClock::default()),
        )
        .unwrap();
        let schema: SchemaRef =
            Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let (outbox, halt) = (Outbox::new(1), Halt::default());
        thread::scope(|scope| {
            let sending =
                scope.spawn(|| send_batches(&agent.shared, &mut near, &schema, &outbox, &halt));
            for tag in [Tag::Schema, Tag::Batch, Tag::Batch] {
                let header = far.receive_header().unwrap().unwrap();
                assert_eq!(header.tag, tag);
                let body = far.receive_body(header).unwrap();
                if tag == Tag::Batch {
                    let batch = crate::ipc::decode_batch(&Buffer::from(&body[..]), &schema);
                    assert_eq!(batch.unwrap().num_rows(), 0);
                }
            }
            outbox.finish();
            let sent = sending.join().unwrap().unwrap();
            assert!(sent.rows == 0 && sent.batches >= 2);
        });
    }
}
