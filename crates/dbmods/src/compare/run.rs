//! One run of a scheme: its time and counts.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use dpb_core::Clock;
use dpb_core::measure::{Interference, Watch};

use super::consumer::Consumer;
use super::error::SchemeError;
use crate::service::protocol::Usage;

/// The time and the counts of one run.
#[derive(Clone, Debug, Default)]
pub struct SchemeRun {
    /// Rows that were looked at.
    pub tuples_scanned: u64,
    /// Rows that came back.
    pub rows: u64,
    /// Bytes of Arrow buffers that came back.
    pub result_bytes: u64,
    /// Seconds from the request to the last row.
    pub elapsed_s: f64,
    /// Seconds from the request to the first batch.
    pub first_batch_s: f64,
    /// For `fetch`: until the file was here, seconds.
    pub transfer_s: Option<f64>,
    /// Bytes to the agent and from it, counted where this side sends and receives them.
    pub wire_bytes: (u64, u64),
    /// Bytes from the agent that came past TCP.
    pub bulk_bytes: u64,
    /// CPU time of the agent's process, seconds.
    pub agent_cpu_s: f64,
    /// CPU time of this process, seconds.
    pub client_cpu_s: f64,
    /// Most memory of the agent's process, bytes.
    pub agent_peak_bytes: u64,
    /// The part of that memory that came on top of what the process held when the run began.
    pub agent_added_bytes: u64,
    /// Most memory of this process, bytes, a fetched file included.
    pub client_peak_bytes: u64,
    /// How much of it came on top of what the process held when the run began: it holds what earlier runs, and other
    /// schemes, left in it. A fetched file counts whole.
    pub client_added_bytes: u64,
    /// The disturbances of this process while the time ran, and the time that the agent's threads waited for a core.
    pub interference: Interference,
    /// Blocks scanned and skipped, where the engine says.
    pub blocks: (u64, u64),
    /// The engine's plan, where it says.
    pub explain: String,
}

impl SchemeRun {
    /// Takes in what the agent's process has used between two of its answers.
    pub(super) fn count_agent(&mut self, before: &Usage, after: &Usage) -> Result<(), SchemeError> {
        self.agent_cpu_s = after.cpu_s - before.cpu_s;
        let wait_s = after.core_wait_s.zip(before.core_wait_s);
        let wait_s = wait_s.map(|(after_s, before_s)| after_s - before_s);
        if self.agent_cpu_s < 0.0 || wait_s.is_some_and(|wait_s| wait_s < 0.0) {
            let text = "its process has used less CPU time, or waited less for a core, than before";
            return Err(SchemeError::Disbelieved(text.to_owned()));
        }
        // A side that does not say leaves the sum unknown.
        self.interference.core_wait_s = self
            .interference
            .core_wait_s
            .zip(wait_s)
            .map(|(here_s, agent_s)| here_s + agent_s);
        self.agent_peak_bytes = after.peak_bytes;
        self.agent_added_bytes = after.peak_over(before);
        Ok(())
    }
}

/// Counts what comes back.
pub(super) struct Tally<'a> {
    watch: Watch,
    clock: Arc<dyn Clock>,
    started_ns: u64,
    run: SchemeRun,
    consumer: &'a mut Consumer,
    failed: Option<SchemeError>,
}

impl<'a> Tally<'a> {
    pub(super) fn new(consumer: &'a mut Consumer, clock: Arc<dyn Clock>) -> Self {
        Self {
            watch: Watch::start(),
            started_ns: clock.now_ns(),
            clock,
            run: SchemeRun::default(),
            consumer,
            failed: None,
        }
    }

    pub(super) fn take(&mut self, batch: &RecordBatch) -> ControlFlow<()> {
        if self.run.rows == 0 {
            self.run.first_batch_s = self.elapsed_s();
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

    /// Seconds since the run began.
    pub(super) fn elapsed_s(&self) -> f64 {
        self.clock.now_ns().saturating_sub(self.started_ns) as f64 / 1e9
    }

    /// The time on the clock that runs are measured by, in nanoseconds.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Leaves out of the run's time what has passed since `since_ns`.
    pub(super) fn leave_out(&mut self, since_ns: u64) {
        self.started_ns += self.clock.now_ns().saturating_sub(since_ns);
    }

    /// Stops the clock, then the watch: while the threads that worked for these rows are still there to be asked.
    pub(super) fn rows_ended(&mut self) {
        self.run.elapsed_s = self.elapsed_s();
        self.run.interference = self.watch.stop();
    }

    /// The counts, once the clock has been stopped.
    pub(super) fn finish(mut self) -> Result<SchemeRun, SchemeError> {
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
