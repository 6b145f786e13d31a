//! The load of a backend: jobs of what shape, and how many at once; and a point of it that was measured.

use dpb_core::measure::statistics::median;

/// The work that is asked of a backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Items of a job.
    pub batch: u64,
    /// Bytes of an item.
    pub size: u64,
    /// Jobs in flight on each queue.
    pub depth: u64,
    /// Threads, each with a queue.
    pub threads: u64,
}

impl Load {
    /// Bytes of a job.
    pub fn job_bytes(&self) -> f64 {
        self.batch as f64 * self.size as f64
    }

    /// Jobs in flight on all queues.
    pub fn in_flight(&self) -> u64 {
        self.depth.saturating_mul(self.threads)
    }

    /// The shape of its jobs.
    pub fn shape(&self) -> (u64, u64) {
        (self.batch, self.size)
    }

    /// The same jobs, one at a time.
    pub fn alone(self) -> Self {
        Self {
            depth: 1,
            threads: 1,
            ..self
        }
    }
}

/// A load that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The load.
    pub load: Load,
    /// Time by job in each run, in nanoseconds: the length of a run over the jobs that it did.
    pub runs_ns: Vec<f64>,
    /// The median of these.
    pub job_ns: f64,
    /// True if the times are a model's and no run differs from another: their one error is that they are whole nanoseconds.
    pub is_exact: bool,
    /// Jobs between two readings of the clock; the first begin and the last end with an empty queue.
    pub segment_jobs: u64,
    /// The host's CPU time of a job in nanoseconds, where it was measured: the median over runs.
    pub host_ns: Option<f64>,
    /// The same of each run.
    pub host_runs_ns: Vec<f64>,
    /// Bytes that an item's result has, where they were counted.
    pub bytes_out: Option<f64>,
    /// Times of single jobs, where they were measured: HDR's format in base64, one text for each record.
    pub latencies: Vec<String>,
    /// The ids of the records.
    pub ids: Vec<String>,
}

impl Point {
    /// Adds the runs of another point of the same load: both are one, and its figures are the medians of all runs. A round in which the machine was slow is then one
    /// of several.
    pub(super) fn add(&mut self, other: Self) {
        debug_assert_eq!(self.load, other.load);
        self.is_exact = self.is_exact && other.is_exact && self.job_ns == other.job_ns;
        self.runs_ns.extend(other.runs_ns);
        self.host_runs_ns.extend(other.host_runs_ns);
        self.job_ns = median(&self.runs_ns).unwrap_or(self.job_ns);
        self.host_ns = median(&self.host_runs_ns);
        self.segment_jobs = self.segment_jobs.min(other.segment_jobs);
        self.bytes_out = self.bytes_out.or(other.bytes_out);
        self.latencies.extend(other.latencies);
        self.ids.extend(other.ids);
    }
}
