//! A scan in this process: of TPC-H's tables in the data folder, made if they are missing, or of a segment file.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use arrow_schema::SchemaRef;
use dpb_dbmods::query::Query;
use dpb_dbmods::scan::{self, Plan, ScanError, ScanOptions};
use dpb_dbmods::{Table, tpch};

use super::output::{Rows, is_over};
use super::{Args, not_understood};
use crate::Globals;
use crate::cmd::data::{self, Part, make_apart};
use crate::cmd::serve;
use crate::exit::Failure;

/// Rows of a batch, at most.
const BATCH_ROWS: usize = 16 << 10;
/// How often it is asked whether anybody wants the rows.
const LOOK: Duration = Duration::from_millis(20);

/// Scans with this process's threads. Gives the plan in words, once the rows are written.
pub(super) fn scan(
    args: &Args,
    name: &str,
    globals: &Globals,
    open: impl FnOnce(&SchemaRef) -> Result<Rows, Failure>,
) -> Result<Vec<String>, Failure> {
    let (table, query) = match &args.table {
        Some(path) => {
            let table = serve::given(path)?;
            let query = table.query(&args.statement);
            (table, query.map_err(|error| not_understood(&error))?)
        }
        None => made(args, name, globals)?,
    };
    let plan = Plan::new(table.schema(), &query).map_err(|error| failure(&error))?;
    let rows = open(plan.output_schema())?;
    let (segment, cache) = (table.segment(), table.cache());
    let stop = AtomicBool::new(false);
    let options = ScanOptions {
        threads: args.threads.map_or_else(cpus, |threads| threads as usize),
        stop: &stop,
        batch_rows: BATCH_ROWS,
        memory_bytes: usize::MAX,
        sink_batches: 0,
        slots: None,
    };
    let sink = |batch| match rows.write(&batch) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let scanned = watched(&stop, &is_over, || {
        scan::scan(segment, cache, &query, &options, &sink)
    });
    let stats = scanned.map_err(|error| failure(&error))?;
    rows.finish()?;
    Ok(vec![format!(
        "{}\n{}",
        plan.in_words(table.schema()),
        stats.in_words()
    )])
}

/// Works while another thread asks now and then whether anybody wants what comes, and sets `stop` if not.
fn watched<T>(
    stop: &AtomicBool,
    is_over: &(dyn Fn() -> bool + Sync),
    work: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        // Dropped when the work ends, also by a panic.
        let (_working, ended) = sync_channel::<()>(0);
        scope.spawn(move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                stop.fetch_or(is_over(), Ordering::Relaxed);
            }
        });
        work()
    })
}

/// A table of TPC-H, made if it is missing, and the query, which is read before anything is made.
fn made(args: &Args, name: &str, globals: &Globals) -> Result<(Table, Query), Failure> {
    let (data_dir, sf) = (
        args.data_dir.clone().unwrap_or_else(tpch::default_data_dir),
        args.sf.unwrap_or(1.0),
    );
    let name = name.to_ascii_lowercase();
    let schema = tpch::schema(&name).ok_or_else(|| {
        Failure::usage(format!(
            "no table `{}`; TPC-H's are {}, and --table FILE is one of your own",
            dpb_core::printable(&name, NAME_CHARS_MAX),
            tpch::TABLES.join(", ")
        ))
    })?;
    let query = Query::parse(&schema, &args.statement).map_err(|error| not_understood(&error))?;
    let missing = tpch::bytes_to_make(&data_dir, sf, &[&name]).map_err(data::failure)?;
    if missing > 0 {
        tpch::check_space(&data_dir, sf, missing).map_err(data::failure)?;
        make_apart(Part::Segment, None, &data_dir, (sf, &name), globals)?;
    }
    let segment = tpch::find(&data_dir, sf)
        .open(&name)
        .map_err(data::failure)?;
    Ok((Table::of(segment.into()), query))
}

/// Characters of a table's name that are shown.
const NAME_CHARS_MAX: usize = 100;

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How a scan that failed ends the process.
fn failure(error: &ScanError) -> Failure {
    Failure::that_ends(error.ends(), error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_ends_and_work_that_nobody_wants_is_told() {
        let stop = AtomicBool::new(false);
        let panicked = std::panic::catch_unwind(|| {
            watched(&stop, &|| false, || -> () { panic!("in the work") });
        });
        assert!(panicked.is_err() && !stop.load(Ordering::Relaxed));
        // Ends once the other thread has looked.
        watched(&stop, &|| true, || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        });
    }
}
