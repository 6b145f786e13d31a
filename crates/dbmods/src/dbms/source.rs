//! The sides that scan tables for DuckDB: this process over its own segments, or an agent across a link.
//!
//! A scan runs on a thread of its own, which hands its batches on through a queue that holds a few: DuckDB's threads take them as they
//! need them. What each scan did is noted when it ends.

mod agent;
mod here;
mod pace;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::duckdb::v2::PushedScan;
use crate::query::Query;
use crate::schema::Schema;

pub use agent::{AgentError, AgentSource};
pub use here::OwnSource;
pub use pace::Pace;

/// Batches that wait for a thread of DuckDB.
const BATCHES_AHEAD: usize = 8;

/// Somebody who scans.
pub trait Source: Send + Sync + 'static {
    /// Its tables, with their rows.
    fn tables(&self) -> Vec<(Schema, u64)>;

    /// Threads of one scan.
    fn threads(&self) -> usize;

    /// Runs a scan to its end, on the calling thread and on others, and gives its batches to `queue`.
    ///
    /// # Errors
    /// The failure, in words. A queue that nobody reads any more ends the scan and is no error.
    fn scan(&self, schema: &Schema, query: Query, queue: &Queue) -> Result<ScanCounts, String>;
}

/// The counts of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanCounts {
    /// Rows that were looked at.
    pub rows_scanned: u64,
    /// Rows that were handed over.
    pub rows_sent: u64,
    /// Bytes that came over the link; 0 without one.
    pub link_bytes: u64,
}

/// The place where the batches of a scan go.
#[derive(Clone, Debug)]
pub struct Queue(SyncSender<Result<RecordBatch, String>>);

impl Queue {
    /// Waits until there is room; false if nobody reads any more.
    pub fn put(&self, batch: RecordBatch) -> bool {
        self.0.send(Ok(batch)).is_ok()
    }
}

/// A scan that runs on a thread of its own. Dropped, it ends, and is noted before.
pub(super) struct Flow {
    batches: Option<Mutex<Receiver<Result<RecordBatch, String>>>>,
    thread: Option<JoinHandle<()>>,
    /// True once the scan has come to its end.
    is_whole: Arc<AtomicBool>,
}

impl Flow {
    /// Starts a scan. `ended` hears of its counts when it has ended without an error.
    pub(super) fn start(
        source: &Arc<dyn Source>,
        schema: Schema,
        query: Query,
        ended: impl FnOnce(ScanCounts) + Send + 'static,
    ) -> Result<Self, String> {
        let (sender, batches) = sync_channel(BATCHES_AHEAD);
        let source = Arc::clone(source);
        let is_whole = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_whole);
        let thread = std::thread::Builder::new().name("scan".to_owned());
        let thread = thread.spawn(move || {
            let queue = Queue(sender);
            match source.scan(&schema, query, &queue) {
                Ok(counts) => {
                    ended(counts);
                    told.store(true, Ordering::Release);
                }
                // Nobody reads any more if it was told to end.
                Err(why) => drop(queue.0.send(Err(why))),
            }
        });
        Ok(Self {
            batches: Some(Mutex::new(batches)),
            thread: Some(thread.map_err(|error| format!("no thread for a scan: {error}"))?),
            is_whole,
        })
    }
}

impl PushedScan for Flow {
    fn next(&self) -> Result<Option<RecordBatch>, String> {
        let Some(batches) = &self.batches else {
            return Ok(None);
        };
        let batches = batches.lock().unwrap_or_else(PoisonError::into_inner);
        match batches.recv() {
            Ok(batch) => batch.map(Some),
            Err(_) if self.is_whole.load(Ordering::Acquire) => Ok(None),
            Err(_) => Err("a scan broke before its end".to_owned()),
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        // The scan then finds that nobody reads any more.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // A scan that panicked has said so on stderr, and whoever read it had an error.
            let _ = thread.join();
        }
    }
}
