//! Micro-benchmark of storage: requests to one file or block device, so many in flight, each one's time kept (dpBento, "storage").
//!
//! The data are dpb's own: each unit of the file says where it lies, which write it is of, and a checksum. So a read that brings another
//! block, an old one or a damaged one is found, and writes are read back.

mod engine;
mod job;
mod space;
mod stamp;
mod target;

use std::fmt;
use std::sync::atomic::AtomicBool;

use dpb_core::Clock;
use dpb_core::measure::Interference;
use dpb_core::measure::latency::Latencies;

use crate::crew::{self, Broken, Runs, Series, Timed};
use job::{Job, Part};
pub use space::available_bytes;
pub use stamp::unit_bytes;
pub use target::{Laying, Target, TargetError};

/// One test of a [`Target`].
#[derive(Clone, Debug)]
pub struct Plan {
    /// How requests reach the kernel.
    pub engine: Engine,
    /// Where they go.
    pub pattern: Pattern,
    /// What they are.
    pub access: Access,
    /// Bytes of a request.
    pub block: u64,
    /// Requests in flight of each job.
    pub depth: u32,
    /// Threads, each with its own equal part of the target.
    pub jobs: u32,
    /// Whether the page cache is passed by (`O_DIRECT`).
    pub direct: bool,
    /// When writes must be on the device.
    pub sync: Fsync,
    /// Whether buffers and file are registered with io_uring.
    pub registered: bool,
    /// Whether every unit of every read is checked, and every block that was written is read back.
    pub verify: bool,
    /// For how long, how often, on which cores.
    pub runs: Runs,
    /// The seed of places and contents.
    pub seed: u64,
}

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// io_uring.
    IoUring,
    /// The kernel's older asynchronous calls (`io_submit(2)`), which the library libaio wraps.
    Libaio,
    /// `pread(2)` and `pwrite(2)`: one request at a time.
    Sync,
}

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// To a block that is drawn.
    Random,
    /// To one block after the other.
    Sequential,
}

/// What requests are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Either, drawn for each request.
    Mixed {
        /// The part of them that reads.
        read_share: f64,
    },
}

/// When writes must be on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// When the kernel likes.
    Never,
    /// At the end of each run, on the clock (`fsync(2)`).
    End,
    /// After so many writes of a job (`fsync(2)`, with nothing else of the job in flight).
    Every(u32),
}

/// What came of it.
#[derive(Debug)]
pub struct Measured {
    /// The runs that finished.
    pub runs: Vec<Run>,
    /// Blocks that were compared with what they must hold.
    pub compared: u64,
    /// What else happened meanwhile.
    pub interference: Interference,
    /// Whether it was told to stop before the last run.
    pub interrupted: bool,
}

/// One run, over all jobs.
#[derive(Debug)]
pub struct Run {
    /// Requests that were completed, and their bytes.
    pub handled: Handled,
    /// Requests a second: what all jobs did from the first start to the last end.
    pub items_per_s: f64,
    /// Bytes a second, likewise.
    pub bytes_per_s: f64,
    /// From submission to completion, of reads.
    pub reads: Latencies,
    /// The same of writes.
    pub writes: Latencies,
    /// The time of calls of `fsync(2)`.
    pub syncs: Latencies,
    /// The sum of all requests' times, in nanoseconds.
    pub latency_ns: u64,
    /// CPU time of the whole process, the kernel's workers for it among them, in nanoseconds.
    pub cpu_ns: u64,
}

/// What was handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Calls of `fsync(2)`.
    pub syncs: u64,
}

impl Handled {
    /// Requests of both kinds.
    pub fn items(&self) -> u64 {
        self.reads + self.writes
    }

    /// Bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }

    fn add(&mut self, other: &Self) {
        let Self {
            reads,
            writes,
            bytes_read,
            bytes_written,
            syncs,
        } = other;
        self.reads += reads;
        self.writes += writes;
        self.bytes_read += bytes_read;
        self.bytes_written += bytes_written;
        self.syncs += syncs;
    }
}

impl Access {
    /// Whether anything is written.
    pub fn writes(self) -> bool {
        self != Self::Read
    }

    /// Whether anything is read.
    pub fn reads(self) -> bool {
        self != Self::Write
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IoUring => "io_uring",
            Self::Libaio => "libaio",
            Self::Sync => "sync",
        })
    }
}

/// Most bytes of a request.
pub const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// Whether requests can have so many bytes: sectors, and not more than the most.
pub fn is_block(bytes: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(512) && bytes <= BLOCK_BYTES_MAX
}

/// Does what the plan says to `target`, until done or `stop` is set.
///
/// # Errors
/// [`Broken`]; then nothing that was timed counts.
pub fn measure(
    plan: &Plan,
    target: &Target,
    clock: &dyn Clock,
    stop: &AtomicBool,
) -> Result<Measured, Broken> {
    check(plan, target).map_err(Broken::Unsupported)?;
    let jobs = (0..plan.jobs).map(|number| Job::new(plan, target, number, clock, stop));
    let series = crew::run(jobs.collect(), &plan.runs, clock, stop)?;
    Ok(Measured::of(series))
}

/// What cannot be done, before anything is.
fn check(plan: &Plan, target: &Target) -> Result<(), String> {
    let (block, depth) = (plan.block, u64::from(plan.depth));
    let blocks = target.bytes() / u64::from(plan.jobs) / block.max(1);
    if plan.engine == Engine::Sync && depth > 1 {
        return Err(format!(
            "the engine sync has one request in flight, not {depth}; take more jobs, or io_uring"
        ));
    }
    if plan.registered && plan.engine != Engine::IoUring {
        return Err(format!(
            "only io_uring registers buffers and files, {} does not",
            plan.engine
        ));
    }
    if !is_block(block) {
        return Err(format!(
            "blocks of {block} bytes: they are multiples of 512, {BLOCK_BYTES_MAX} at most"
        ));
    }
    if blocks < depth {
        return Err(format!(
            "each of {} jobs has {blocks} blocks of {block} bytes, too few for {depth} in flight; take a larger file",
            plan.jobs
        ));
    }
    if plan.access.writes() && !target.may_write() {
        return Err(format!("{} may only be read", target.path().display()));
    }
    target.admits(block, plan.direct)
}

impl Measured {
    fn of(series: Series<Part>) -> Self {
        Self {
            runs: series.runs.into_iter().map(Run::of).collect(),
            compared: series.compared,
            interference: series.interference,
            interrupted: series.interrupted,
        }
    }
}

impl Run {
    fn of(timed: Timed<Part>) -> Self {
        let mut all = Part::default();
        for (part, _) in &timed.parts {
            all.add(part);
        }
        Self {
            items_per_s: timed.per_s(all.handled.items()),
            bytes_per_s: timed.per_s(all.handled.bytes()),
            handled: all.handled,
            reads: all.reads,
            writes: all.writes,
            syncs: all.syncs,
            latency_ns: all.latency_ns,
            cpu_ns: timed.cpu_ns,
        }
    }

    /// The times of reads and writes together.
    pub fn all(&self) -> Latencies {
        let mut all = self.reads.clone();
        all.add(&self.writes);
        all
    }
}

#[cfg(test)]
mod tests;
