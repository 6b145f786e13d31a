//! One run of a router under YCSB's requests: threads that start together, and what both sides used.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use dpb_core::Timer;
use dpb_core::measure::{Interference, Watch};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::drive::{self, Driven, Load, Records};
use super::router::mover::{MoveError, Moved, Mover};
use super::router::{Lane, Router, Work};

/// The time between two steps of an adaptive split.
const ADAPT: Duration = Duration::from_millis(50);
/// The time between two looks at whether the run was interrupted.
const LOOK: Duration = Duration::from_millis(20);

/// How a run is made.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// Threads of the host's side.
    pub threads: u32,
    /// Cores of these threads, in order, used again from the start if there are fewer; empty for any.
    pub pin: Vec<u32>,
    /// How each thread hands requests in.
    pub load: Load,
    /// How long they go on.
    pub seconds: Duration,
    /// Seed of the requests.
    pub seed: u64,
    /// Threads of the DPU's side, if the boundary follows the measured rates.
    pub adapt_to: Option<u32>,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// What all threads did.
    pub driven: Driven,
    /// From the first request to the last answer, nanoseconds.
    pub elapsed_ns: u64,
    /// Processor time of this process, nanoseconds, the DPU's side not in it.
    pub host_cpu_ns: u64,
    /// Processor time of the DPU's process, nanoseconds; `None` without one.
    pub dpu_cpu_ns: Option<u64>,
    /// The requests by sides.
    pub work: Work,
    /// What an adaptive split moved.
    pub moved: Moved,
    /// Disturbance of the threads.
    pub interference: Interference,
}

/// Runs threads over a router until the time is up, or `interrupted` says so.
///
/// # Errors
/// Why there is no result: a thread found no session, a core is not there, a move failed. A wrong answer is in [`Driven::wrong`].
pub fn run(
    router: &Arc<Router>,
    records: &Records,
    plan: &RunPlan,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<RunResult, String> {
    let clock = Arc::clone(&router.options().clock);
    let stop = AtomicBool::new(false);
    let barrier = Barrier::new(plan.threads as usize + 1);
    let (cpu_before, dpu_before, work_before) = (cpu_ns(), dpu_cpu_ns(router), router.work());
    let (ended, interference, moved) = thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let (clock, stop, barrier) = (&clock, &stop, &barrier);
                scope.spawn(move || one_thread(router, records, plan, thread, clock, stop, barrier))
            })
            .collect();
        barrier.wait();
        let watch = Watch::start();
        let moved = wait(router, plan, interrupted);
        let interference = watch.stop();
        stop.store(true, Ordering::Relaxed);
        let ended: Vec<_> = threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("a thread of the run panicked".to_owned()))
            })
            .collect();
        (ended, interference, moved)
    });
    let mut driven = Driven::default();
    let (mut first_ns, mut last_ns) = (u64::MAX, 0);
    for thread in ended {
        let (of_thread, from_ns, to_ns) = thread?;
        driven.add(of_thread);
        (first_ns, last_ns) = (first_ns.min(from_ns), last_ns.max(to_ns));
    }
    let dpu_after = dpu_cpu_ns(router);
    Ok(RunResult {
        driven,
        elapsed_ns: last_ns.saturating_sub(first_ns).max(1),
        host_cpu_ns: cpu_ns() - cpu_before,
        dpu_cpu_ns: dpu_before
            .zip(dpu_after)
            .map(|(before, after)| after.saturating_sub(before)),
        work: router.work().since(&work_before),
        moved: moved?,
        interference,
    })
}

fn one_thread(
    router: &Arc<Router>,
    records: &Records,
    plan: &RunPlan,
    thread: u32,
    clock: &Arc<dyn Timer>,
    stop: &AtomicBool,
    barrier: &Barrier,
) -> Result<(Driven, u64, u64), String> {
    let made =
        pin(&plan.pin, thread).and_then(|()| Lane::new(router).map_err(|error| error.to_string()));
    // Whoever failed lets the others go on, too.
    barrier.wait();
    let mut lane = made?;
    let from_ns = clock.now_ns();
    let driven = drive::drive(
        records, plan.load, plan.seed, thread, &mut lane, clock, stop,
    );
    let driven = driven.map_err(|error| error.to_string())?;
    Ok((driven, from_ns, clock.now_ns()))
}

/// Waits until the time is up; the boundary follows the rates meanwhile, if it should.
fn wait(
    router: &Arc<Router>,
    plan: &RunPlan,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Moved, String> {
    let clock = &router.options().clock;
    let end_ns = clock.now_ns() + plan.seconds.as_nanos() as u64;
    let mut mover = match plan.adapt_to {
        Some(_) => Some(Mover::new(router).map_err(|error| error.to_string())?),
        None => None,
    };
    let is_over = || interrupted() || clock.now_ns() >= end_ns;
    while !is_over() {
        let left = Duration::from_nanos(end_ns.saturating_sub(clock.now_ns()));
        match (&mut mover, plan.adapt_to) {
            (Some(mover), Some(dpu_threads)) => {
                clock.sleep(left.min(ADAPT));
                match mover.adapt(plan.threads, dpu_threads, &is_over) {
                    Ok(_) | Err(MoveError::Stopped | MoveError::Gone) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
            _ => clock.sleep(left.min(LOOK)),
        }
    }
    Ok(mover.map_or_else(Moved::default, |mover| mover.moved()))
}

/// Processor time of this process, nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn dpu_cpu_ns(router: &Router) -> Option<u64> {
    router.dpu_usage()?.ok().map(|usage| usage.cpu_ns)
}

/// Pins this thread to its core.
fn pin(cores: &[u32], thread: u32) -> Result<(), String> {
    if cores.is_empty() {
        return Ok(());
    }
    let core = cores[thread as usize % cores.len()];
    let mut set = CpuSet::new();
    set.set(core as usize);
    sched_setaffinity(None, &set).map_err(|error| format!("core {core}: {error}"))
}
