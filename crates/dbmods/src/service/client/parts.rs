//! One query over a table whose parts several agents have.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use arrow_array::RecordBatch;

use super::Client;
use super::error::ClientError;
use super::scanning::Scanned;
use crate::query::Output;
use crate::scan::Quota;
use crate::scan::operator::Merged;
use crate::schema::Schema;
use crate::service::protocol::ScanRequest;

/// Memory of the groups of an aggregate, of each agent's and of all together.
const GROUPS_BYTES_MAX: usize = 256 << 20;

/// Takes the rows of several agents, from a thread for each.
type PartSink<'a> = dyn Fn(&RecordBatch) -> ControlFlow<()> + Sync + 'a;

/// Asks all `clients` at once about their parts of a table of `schema`, and gives the rows of all to `sink`, in no order. An aggregate is
/// that of the whole table: what each agent has accumulated is added up, sums and counts for averages. The query's limit is one for
/// all together. When `sink` breaks, every scan is stopped. Says how each scan ended.
///
/// # Errors
/// [`ClientError`], of the first agent that failed: rows of others may have been given.
pub fn scan_parts(
    clients: &mut [Client],
    request: &ScanRequest,
    schema: &Schema,
    sink: &PartSink<'_>,
) -> Result<Vec<Scanned>, ClientError> {
    if let [client] = clients {
        return Ok(vec![
            client.scan(request.clone(), &mut |batch| sink(batch))?,
        ]);
    }
    match request.query.output {
        Output::Rows(_) => rows(clients, request, sink),
        Output::Aggregate(_) => aggregate(clients, request, schema, sink),
    }
}

fn rows(
    clients: &mut [Client],
    request: &ScanRequest,
    sink: &PartSink<'_>,
) -> Result<Vec<Scanned>, ClientError> {
    let quota = Quota::new(request.query.limit);
    let enough = AtomicBool::new(false);
    let give = |batch: &RecordBatch| {
        let wanted = quota.cut(batch.clone());
        let given = wanted.map_or(ControlFlow::Break(()), |batch| sink(&batch));
        if given.is_break() || quota.is_spent() {
            enough.store(true, Ordering::Relaxed);
        }
        given
    };
    let scan = |client: &mut Client| {
        let scanned = client.scan_until(request.clone(), &enough, &mut |batch| give(batch));
        // The rows of others are of no use any more.
        enough.fetch_or(scanned.is_err(), Ordering::Relaxed);
        scanned
    };
    all(clients, &scan).into_iter().collect()
}

fn aggregate(
    clients: &mut [Client],
    request: &ScanRequest,
    schema: &Schema,
    sink: &PartSink<'_>,
) -> Result<Vec<Scanned>, ClientError> {
    let merged = || Merged::of_query(schema, &request.query, GROUPS_BYTES_MAX);
    let whole = Mutex::new(merged().map_err(ClientError::Merge)?);
    let enough = AtomicBool::new(false);
    let scan = |client: &mut Client| {
        let mut ask = || {
            let mut part = merged().map_err(ClientError::Merge)?;
            let scanned = client.scan_partial_until(request.clone(), Some(&enough), &mut part)?;
            let mut whole = whole.lock().unwrap_or_else(PoisonError::into_inner);
            whole.merge(part).map_err(ClientError::Merge)?;
            Ok(scanned)
        };
        let scanned = ask();
        // The parts of others are of no use any more.
        enough.fetch_or(scanned.is_err(), Ordering::Relaxed);
        scanned
    };
    let ends: Vec<Scanned> = all(clients, &scan).into_iter().collect::<Result<_, _>>()?;
    let whole = whole.into_inner().unwrap_or_else(PoisonError::into_inner);
    let result = whole.finish().map_err(ClientError::Merge)?;
    if result.num_rows() > 0 {
        let _the_last_one = sink(&result);
    }
    Ok(ends)
}

/// Does the same with every client, each on a thread.
fn all<T: Send>(
    clients: &mut [Client],
    work: &(dyn Fn(&mut Client) -> Result<T, ClientError> + Sync),
) -> Vec<Result<T, ClientError>> {
    thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .map(|client| scope.spawn(move || work(client)))
            .collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(worked) => worked,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}
