//! One loop for every backend: closed (throughput, latency) and open (latency at an offered load).
//!
//! Each thread has its own queue and works in **segments**. A segment's jobs, each with a destination of its own, lie
//! ready before its clock starts; the clock stops when the last one is home; then every result is checked and the jobs are
//! laid ready again, off the clock. So every timed result is checked, no check is timed, and nothing is allocated while
//! time runs. The price: a segment starts and ends with an empty queue, which costs an engine of *n* lanes up to *n* job times
//! a segment; segments are therefore at least 64 times as long as the queue is deep, where memory allows.
//!
//! Threads start a segment together, and it ends for all when the first of them has handed in its last job. The rate
//! is what all of them did in the time from the first start to the last end, so it cannot exceed what they did at once:
//! a thread that checks lends its share of the engine to nobody whose clock runs.
//!
//! Throughput runs read the clock twice a segment. Latency runs read it for every burst, and for synchronous backends
//! submit one job at a time. Open-loop runs follow a seeded schedule of arrivals that does not wait for the backend,
//! and count latency from the time at which a job *should* have started; they keep each result and check it off the clock.
//!
//! Runs for the host's CPU time ([`Mode::HostCpu`]) do other work between polls that bring nothing, and say what the jobs took
//! of the cores.
//!
//! Time is the backend's own, and its clock says what moves it. On a model's virtual clock one thread works, and how long a segment, the warm-up and a run
//! are counts of jobs, never what the host's clock says: the same test gives the same numbers on any machine. Several threads
//! are refused there, because who submits first would be the host scheduler's choice.

mod fill;
mod host_cpu;
mod lane;
mod open;
mod team;

use std::any::Any;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use super::interference::{Interference, Watch};
use super::latency::Latencies;
use super::provenance::memory_available_bytes;
use crate::spec::{FNV_START, fnv1a64};
use crate::{
    Backend, Batch, Clock, ClockKind, Input, Items, JobError, Limits, Operator, OutputShape,
    SetupError, Unsupported, View, WallClock, Workload,
};
pub use host_cpu::CpuTime;
use lane::Lane;
use team::{Span, Team};

/// Bytes of memory that the destinations of all threads together may take, if the jobs in flight need no more.
pub const DST_BYTES_MAX: usize = 256 << 20;

/// The plan of a measurement: what is timed, for how long, on how many threads.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The quantity that is timed.
    pub mode: Mode,
    /// Threads, each with a queue of its own.
    pub threads: NonZeroU32,
    /// Jobs in flight on each queue.
    pub depth: NonZeroU32,
    /// How long one run takes. On a virtual clock a closed loop's run is one segment instead.
    pub seconds: Duration,
    /// How long each thread works before the first run. On a virtual clock: until it has seen each input.
    pub warm_up: Duration,
    /// The number of runs.
    pub repeat: u32,
    /// Cores for the threads, in order, used again from the start if there are fewer; empty: wherever the kernel likes.
    pub pin: Vec<u32>,
    /// The seed of the schedule of arrivals.
    pub seed: u64,
    /// How long a queue with jobs may stay silent before its device counts as wedged, for small jobs: each input byte of
    /// a job adds a microsecond. [`SILENCE`] unless you know better.
    pub silence: Duration,
    /// What inputs and outputs may take together; more is refused before anything is allocated. What
    /// [`memory_available_bytes`] says, unless you need some yourself.
    pub memory_bytes: u64,
}

impl Default for Plan {
    /// Throughput by one thread, one job at a time, in seven runs of 0.2 s after 0.1 s of warming up, wherever the kernel likes, in the memory
    /// that there is.
    fn default() -> Self {
        Self {
            mode: Mode::Throughput,
            threads: NonZeroU32::MIN,
            depth: NonZeroU32::MIN,
            seconds: Duration::from_millis(200),
            warm_up: Duration::from_millis(100),
            repeat: 7,
            pin: Vec::new(),
            seed: 1,
            silence: SILENCE,
            memory_bytes: memory_available_bytes(),
        }
    }
}

/// See [`Plan::silence`].
pub const SILENCE: Duration = Duration::from_secs(60);

/// The quantity that is timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// As many jobs as the queue takes; two readings of the clock a segment.
    Throughput,
    /// The same, and each job's time from submission to completion.
    Latency,
    /// As for throughput, and the host's CPU time that is spent on the jobs, not on waiting for them. Not on a virtual clock.
    HostCpu,
    /// Arrivals by a schedule, whatever the backend does; each job's time from its intended start.
    Open {
        /// Arrivals a second over all threads; the gaps are exponential.
        jobs_per_s: f64,
    },
}

/// What came of it. Every result behind these numbers was checked.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The quantity that was timed.
    pub mode: Mode,
    /// The runs that finished.
    pub runs: Vec<Run>,
    /// The number of runs that were asked for.
    pub runs_asked: u32,
    /// The number of threads that worked.
    pub threads: u32,
    /// The recorded name of the oracle: the workload's name.
    pub against: String,
    /// FNV-1a of the right output of every input, in order, where each item has only one.
    pub digest: Option<String>,
    /// Jobs between two readings of the clock.
    pub segment_jobs: u64,
    /// The other work of the machine meanwhile.
    pub interference: Interference,
    /// True if it was told to stop before the last run.
    pub interrupted: bool,
}

/// One run, over all threads.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The jobs, items and bytes that were handled, counted at each completion.
    pub counts: Counts,
    /// Items a second: what all threads did in the time that they were timed together.
    pub items_per_s: f64,
    /// Input bytes a second, likewise.
    pub bytes_per_s: f64,
    /// The latencies of latency and open-loop runs; empty in others.
    pub latencies: Latencies,
    /// The CPU time of runs that measure it; zero in others.
    pub cpu: CpuTime,
}

/// Counted where it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that came home, each checked.
    pub jobs: u64,
    /// Items in them.
    pub items: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Polls that brought nothing.
    pub polls_empty: u64,
    /// Open loop: jobs that were due before the end and had not been started.
    pub arrivals_unserved: u64,
}

/// The reason why there is no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The backend cannot do this here; a finding.
    Unsupported(Unsupported),
    /// It could not be set up.
    Setup(SetupError),
    /// A result was wrong, or a job failed.
    Wrong(String),
}

/// Runs the workload's spec on `backend` over `inputs`, as `plan` says, until done or `stop` is set.
///
/// # Errors
/// [`Broken`]; then nothing that was timed counts.
pub fn measure(
    backend: &dyn Backend,
    inputs: &[Input],
    workload: &dyn Workload,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<Measured, Broken> {
    let bench = Bench::new(backend, inputs, workload, plan, stop)?;
    let team = Team::new(plan.threads);
    thread::scope(|scope| {
        let (mut lanes, mut threads) = (Vec::new(), Vec::new());
        let mut refused = None;
        for number in 0..plan.threads.get() {
            let (order, orders) = channel();
            let (result, results) = channel();
            let (bench, team) = (&bench, &team);
            let serve = move || Lane::serve(number, bench, team, &orders, &result);
            let thread = thread::Builder::new().name(format!("dpb-lane-{number}"));
            match thread.spawn_scoped(scope, serve) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let reason = format!("{error} (number {} of {})", number + 1, plan.threads);
                    refused = Some(Broken::Setup(SetupError::NoThread { reason }));
                    break;
                }
            }
            lanes.push(Post { order, results });
        }
        let measured = match refused {
            Some(broken) => Err(broken),
            None => bench.lead(&lanes, &team),
        };
        // Without orders the threads end. Joined by hand, for a scope passes a panic on.
        drop(lanes);
        let panicked = threads.into_iter().filter_map(|thread| thread.join().err());
        match panicked.last() {
            Some(payload) => Err(Broken::Wrong(format!(
                "a thread panicked: {}",
                said(&*payload)
            ))),
            None => measured,
        }
    })
}

/// What all threads share; read-only but for what is verified.
struct Bench<'a> {
    backend: &'a dyn Backend,
    operator: Arc<dyn Operator>,
    shape: OutputShape,
    workload: &'a dyn Workload,
    plan: &'a Plan,
    /// Jobs in flight on each queue: one where latency has no meaning beyond.
    depth: NonZeroU32,
    stop: &'a AtomicBool,
    loads: Vec<Load>,
    /// The host's clock, whatever the backend's is: for how long to run, and when a device counts as wedged.
    wall: WallClock,
    /// True if only a model moves the clock.
    is_virtual: bool,
    /// Destinations of all threads together may take this much memory, and at least hold the jobs in flight.
    dst_bytes_max: usize,
    /// How long a queue may stay silent with these inputs.
    silence_max: Duration,
}

/// An input in memory that the backend can reach, and what is known to be right for it.
struct Load {
    view: View,
    items: Items,
    dst_bytes: usize,
    known: OnceLock<Known>,
}

/// What the workload vouched for, for all items.
struct Known {
    bytes: Vec<u8>,
    outcomes: Vec<Result<u32, JobError>>,
    /// True if each item's is the only one.
    is_only: bool,
}

/// The leader's ends of one thread's channels.
struct Post {
    order: Sender<Order>,
    results: Receiver<Result<Report, Broken>>,
}

/// What a thread is told.
#[derive(Clone, Copy)]
enum Order {
    WarmUp,
    Run,
}

/// What a thread says.
enum Report {
    /// Its queue is open.
    Ready,
    /// Jobs a segment will have.
    Warm(u64),
    /// What it counted, and when it was timed: a span a segment, none for a segment in which it did nothing.
    Ran(Box<Run>, Vec<Option<Span>>),
    /// Told to stop in the middle, or another thread is gone.
    Stopped,
}

impl<'a> Bench<'a> {
    fn new(
        backend: &'a dyn Backend,
        inputs: &[Input],
        workload: &'a dyn Workload,
        plan: &'a Plan,
        stop: &'a AtomicBool,
    ) -> Result<Self, Broken> {
        let spec = workload.spec();
        let limits = backend.limits(spec).map_err(Broken::Unsupported)?;
        if inputs.is_empty() {
            return Err(Broken::Wrong("there is no input".into()));
        }
        for input in inputs {
            let excess = excess(&limits, batch(input)?);
            if let Some(what) = excess {
                return Err(unsupported(format!("{} takes {what}", backend.name())));
            }
        }
        let clock = backend.clock().kind();
        let is_virtual = clock != ClockKind::Wall;
        if is_virtual && plan.threads.get() > 1 {
            return Err(unsupported(format!(
                "{} threads on a model's clock: the host's scheduler would decide who comes first; use one thread, and \
                 more depth for more jobs at once",
                plan.threads
            )));
        }
        if is_virtual && plan.mode == Mode::HostCpu {
            return Err(unsupported(
                "host CPU time of a model: its clock is not the host's".into(),
            ));
        }
        let operator = backend.prepare(spec)?;
        let stands_still = ClockKind::Virtual {
            moves_when_polled: false,
        };
        if matches!(plan.mode, Mode::Open { .. }) && clock == stands_still {
            return Err(unsupported(
                "open loop: this model's clock stands still between jobs, so none can arrive; give it a poll_ns, \
                 as in sim/poll_ns=50"
                    .into(),
            ));
        }
        let depth = match plan.mode {
            Mode::Throughput | Mode::HostCpu => plan.depth,
            _ if limits.synchronous => NonZeroU32::MIN,
            _ => plan.depth,
        };
        let dst_bytes_max = dst_bytes_max(plan, depth, &*operator, inputs)?;
        let longest = inputs.iter().map(|input| input.bytes.len()).max();
        let slowest = Duration::from_micros(longest.unwrap_or(0) as u64);
        let loads = inputs
            .iter()
            .map(|input| Load::new(backend, &*operator, input))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            backend,
            shape: operator.shape(),
            operator,
            workload,
            plan,
            depth,
            stop,
            loads,
            wall: WallClock::default(),
            is_virtual,
            dst_bytes_max,
            silence_max: plan.silence.saturating_add(slowest),
        })
    }

    /// How long ago `then_ns` was on the host's clock.
    fn since(&self, then_ns: u64) -> Duration {
        Duration::from_nanos(self.wall.now_ns() - then_ns)
    }

    /// Warm-up, then run after run, all threads together.
    fn lead(&self, lanes: &[Post], team: &Team) -> Result<Measured, Broken> {
        gather(lanes)?;
        let mut measured = Measured {
            mode: self.plan.mode,
            runs: Vec::new(),
            runs_asked: self.plan.repeat,
            threads: self.plan.threads.get(),
            against: self.workload.name().to_owned(),
            digest: None,
            segment_jobs: 0,
            interference: Interference::default(),
            interrupted: false,
        };
        for report in command(lanes, Order::WarmUp)? {
            match report {
                Report::Warm(jobs) => measured.segment_jobs = measured.segment_jobs.max(jobs),
                _ => measured.interrupted = true,
            }
        }
        for _ in 0..self.plan.repeat {
            if measured.interrupted {
                break;
            }
            team.call_on();
            let watch = Watch::start();
            let before_ns = host_cpu::process_ns();
            let reports = command(lanes, Order::Run)?;
            let process_ns = host_cpu::process_ns() - before_ns;
            let interference = watch.stop();
            match reports.into_iter().map(Report::into_run).collect() {
                Some(parts) => {
                    // Nobody can steal virtual time.
                    if !self.is_virtual {
                        measured.interference.add(&interference);
                    }
                    let mut run = Run::sum(parts);
                    run.cpu.others_ns = (process_ns as f64 - run.cpu.threads_ns).max(0.0);
                    measured.runs.push(run);
                }
                None => measured.interrupted = true,
            }
        }
        measured.digest = self.digest();
        Ok(measured)
    }

    /// Where every item has one right output: an encoder is free in what it writes, a refusal writes nothing.
    fn digest(&self) -> Option<String> {
        let mut hash = FNV_START;
        for load in &self.loads {
            let known = load.known.get().filter(|known| known.is_only)?;
            hash = fnv1a64(hash, &known.bytes);
        }
        Some(format!("fnv1a64:{hash:016x}"))
    }
}

impl Load {
    fn new(backend: &dyn Backend, operator: &dyn Operator, input: &Input) -> Result<Self, Broken> {
        let mut buf = backend.alloc(input.bytes.len())?;
        buf.copy_from_slice(&input.bytes);
        Ok(Self {
            view: buf.freeze(),
            items: input.items.clone(),
            dst_bytes: dst_bytes(input, operator)?,
            known: OnceLock::new(),
        })
    }
}

impl Report {
    fn into_run(self) -> Option<(Run, Vec<Option<Span>>)> {
        match self {
            Self::Ran(run, spans) => Some((*run, spans)),
            _ => None,
        }
    }
}

impl Run {
    /// All threads' counts, at the rate that their common time makes of them.
    fn sum(parts: Vec<(Self, Vec<Option<Span>>)>) -> Self {
        let mut sum = Self::default();
        let mut spans = Vec::new();
        for (part, timed) in parts {
            sum.counts.add(&part.counts);
            sum.latencies.add(&part.latencies);
            sum.cpu.add(&part.cpu);
            spans.push(timed);
        }
        let ns = team::common_ns(&spans).max(1);
        let per_s = |count: u64| count as f64 * 1e9 / ns as f64;
        sum.items_per_s = per_s(sum.counts.items);
        sum.bytes_per_s = per_s(sum.counts.bytes_in);
        sum
    }
}

impl Counts {
    /// Adds another count.
    pub fn add(&mut self, other: &Self) {
        let Self {
            jobs,
            items,
            bytes_in,
            bytes_out,
            polls_empty,
            arrivals_unserved,
        } = other;
        self.jobs += jobs;
        self.items += items;
        self.bytes_in += bytes_in;
        self.bytes_out += bytes_out;
        self.polls_empty += polls_empty;
        self.arrivals_unserved += arrivals_unserved;
    }
}

impl From<SetupError> for Broken {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Unsupported(why) => Self::Unsupported(why),
            error => Self::Setup(error),
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(why) => why.fmt(f),
            Self::Setup(error) => error.fmt(f),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Broken {}

fn batch(input: &Input) -> Result<Batch<'_>, Broken> {
    let batch = input.batch();
    batch.map_err(|error| Broken::Wrong(error.to_string()))
}

/// Bytes of a destination for `input`.
fn dst_bytes(input: &Input, operator: &dyn Operator) -> Result<usize, Broken> {
    let batch = batch(input)?;
    let slot_bytes = match (operator.shape(), input.slot_bytes) {
        (OutputShape::Fixed(bytes), _) | (OutputShape::Variable, Some(bytes)) => bytes,
        (OutputShape::Variable, None) => operator.dst_len(batch.longest()),
    };
    let dst_bytes = slot_bytes.checked_mul(batch.len());
    Ok(dst_bytes.ok_or(SetupError::OutOfMemory { len: usize::MAX })?)
}

/// What the destinations of all threads may take, if `plan` has memory for the least that they need.
fn dst_bytes_max(
    plan: &Plan,
    depth: NonZeroU32,
    operator: &dyn Operator,
    inputs: &[Input],
) -> Result<usize, Broken> {
    let (mut kept_bytes, mut longest) = (0u64, 0);
    for input in inputs {
        let dst_bytes = dst_bytes(input, operator)? as u64;
        // The input, and once it was seen, what is right for it.
        kept_bytes = kept_bytes.saturating_add(dst_bytes.saturating_add(input.bytes.len() as u64));
        longest = longest.max(dst_bytes);
    }
    let in_flight = u64::from(plan.threads.get()) * u64::from(depth.get());
    let needed_bytes = kept_bytes.saturating_add(in_flight.saturating_mul(longest));
    match plan.memory_bytes.checked_sub(kept_bytes) {
        Some(left) if needed_bytes <= plan.memory_bytes => {
            Ok(DST_BYTES_MAX.min(usize::try_from(left).unwrap_or(usize::MAX)))
        }
        _ => Err(Broken::Setup(SetupError::TooLittleMemory {
            needed_bytes,
            available_bytes: plan.memory_bytes,
        })),
    }
}

/// Which limit `batch` is beyond, and by how much.
fn excess(limits: &Limits, batch: Batch<'_>) -> Option<String> {
    let lengths = [
        (batch.bytes(), limits.input_bytes_max, "bytes in a job"),
        (batch.longest(), limits.item_bytes_max, "bytes in an item"),
        (batch.len(), limits.items_max, "items in a job"),
    ];
    let (is, max, what) = lengths.into_iter().find(|(is, max, _)| is > max)?;
    Some(format!("{max} {what} at most, and these are {is}"))
}

fn unsupported(reason: String) -> Broken {
    Broken::Unsupported(Unsupported { reason })
}

/// Tells all threads, then hears all of them.
fn command(lanes: &[Post], order: Order) -> Result<Vec<Report>, Broken> {
    for lane in lanes {
        // A thread that is gone says why in `gather`.
        let _ = lane.order.send(order);
    }
    gather(lanes)
}

/// Hears all threads; the first failure counts.
fn gather(lanes: &[Post]) -> Result<Vec<Report>, Broken> {
    let heard: Vec<_> = lanes.iter().map(|lane| lane.results.recv()).collect();
    heard
        .into_iter()
        .map(|result| result.unwrap_or_else(|_| Err(Broken::Wrong("a thread panicked".into()))))
        .collect()
}

/// What a panic said.
fn said(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("it did not say why")
}

#[cfg(test)]
mod tests;
