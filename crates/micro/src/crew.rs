//! Threads that start together, run after run: the frame of each micro-benchmark.
//!
//! A thread prepares its own memory on its own core, warms up, and then does run after run. Threads start a run together; each works
//! until the time is up. A rate is what all of them did over the time from the first start to the last end. What a run leaves is
//! checked when all clocks have stopped.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use dpb_core::Clock;
use dpb_core::measure::{Interference, Watch};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Why there is no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// This machine cannot do it, and what a person can do about it: a finding.
    Unsupported(String),
    /// A check failed, or the work broke on the way.
    Wrong(String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(why) | Self::Wrong(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Broken {}

/// The number of runs, their length, and where threads run.
#[derive(Clone, Debug)]
pub struct Runs {
    /// How long one run takes.
    pub seconds: Duration,
    /// How long each thread works before the first run.
    pub warm_up: Duration,
    /// The number of runs.
    pub repeat: u32,
    /// Cores for the threads, in order, used again from the start if there are fewer; empty: wherever the kernel likes.
    pub pin: Vec<u32>,
}

impl Default for Runs {
    /// Seven short runs, anywhere.
    fn default() -> Self {
        Self {
            seconds: Duration::from_millis(200),
            warm_up: Duration::from_millis(50),
            repeat: 7,
            pin: Vec::new(),
        }
    }
}

/// What all runs gave, by thread, and what else happened meanwhile.
#[derive(Debug)]
pub(crate) struct Series<P> {
    pub(crate) runs: Vec<Timed<P>>,
    /// What else happened on the cores during the runs.
    pub(crate) interference: Interference,
    /// The number of results that were compared with what is right.
    pub(crate) compared: u64,
    /// Whether it was told to stop before the last run.
    pub(crate) interrupted: bool,
}

/// One run.
#[derive(Debug)]
pub(crate) struct Timed<P> {
    /// What each thread did, and the nanoseconds that it took.
    pub(crate) parts: Vec<(P, u64)>,
    /// From the first start to the last end.
    pub(crate) ns: u64,
    /// CPU time of all threads of the process, in nanoseconds.
    pub(crate) cpu_ns: u64,
}

/// One thread's work.
pub(crate) trait Member: Send {
    /// What one run of one thread gives.
    type Part: Send;

    /// Takes and fills memory, on the thread that will use it. Off the clock.
    fn prepare(&mut self) -> Result<(), Broken>;

    /// Works until the clock says `until_ns`, or until told to stop. On the clock.
    fn work(&mut self, until_ns: u64) -> Result<Self::Part, Broken>;

    /// Checks what the last run left; the number of results compared. Off the clock.
    fn check(&mut self) -> Result<u64, Broken>;
}

#[derive(Clone, Copy)]
enum Order {
    Prepare,
    Work { round: usize, ns: u64 },
    Check,
}

enum Report<P> {
    Prepared,
    Worked {
        part: P,
        start_ns: u64,
        end_ns: u64,
    },
    Checked(u64),
    /// Another thread is gone.
    Alone,
}

/// The leader's ends of one thread's channels.
struct Post<P> {
    order: Sender<Order>,
    reports: Receiver<Result<Report<P>, Broken>>,
}

/// Where threads wait for each other.
struct Line {
    members: usize,
    arrived: AtomicUsize,
    is_broken: AtomicBool,
}

impl Line {
    /// Waits until all have come to this round, spinning, because a wake-up would start some late. `false` if one never will.
    fn wait(&self, round: usize) -> bool {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while self.arrived.load(Ordering::Acquire) < round * self.members {
            if self.is_broken.load(Ordering::Acquire) {
                return false;
            }
            thread::yield_now();
        }
        true
    }
}

/// Tells the others when its thread is gone, in whatever way.
struct Presence<'a>(&'a Line);

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        self.0.is_broken.store(true, Ordering::Release);
    }
}

/// Has `members` prepare, warm up and do run after run, a thread each, until done or `stop` is set.
pub(crate) fn run<M: Member>(
    members: Vec<M>,
    runs: &Runs,
    clock: &dyn Clock,
    stop: &AtomicBool,
) -> Result<Series<M::Part>, Broken> {
    let line = Line {
        members: members.len(),
        arrived: AtomicUsize::new(0),
        is_broken: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let (mut posts, mut threads) = (Vec::new(), Vec::new());
        let mut refused = None;
        let count = members.len();
        for (number, member) in members.into_iter().enumerate() {
            let (order, orders) = channel();
            let (report, reports) = channel();
            let core = runs.pin.get(number % runs.pin.len().max(1)).copied();
            let line = &line;
            let serve = move || serve(member, core, line, clock, &orders, &report);
            let name = format!("dpb-micro-{number}");
            match thread::Builder::new().name(name).spawn_scoped(scope, serve) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let which = number + 1;
                    let why = format!("cannot start thread {which} of {count}: {error}");
                    refused = Some(Broken::Unsupported(why));
                    break;
                }
            }
            posts.push(Post { order, reports });
        }
        let series = match refused {
            Some(broken) => Err(broken),
            None => lead(&posts, runs, stop),
        };
        // Without orders the threads end. Joined by hand, for a scope passes a panic on.
        drop(posts);
        let panics = threads.into_iter().map(|thread| thread.join());
        match panics.filter(Result::is_err).count() {
            0 => series,
            _ => Err(Broken::Wrong("a measuring thread panicked".into())),
        }
    })
}

fn serve<M: Member>(
    mut member: M,
    core: Option<u32>,
    line: &Line,
    clock: &dyn Clock,
    orders: &Receiver<Order>,
    report: &Sender<Result<Report<M::Part>, Broken>>,
) {
    let _presence = Presence(line);
    for order in orders {
        let said = match order {
            Order::Prepare => core
                .map_or(Ok(()), pin)
                .and_then(|()| member.prepare())
                .map(|()| Report::Prepared),
            Order::Work { round, .. } if !line.wait(round) => Ok(Report::Alone),
            Order::Work { ns, .. } => {
                let start_ns = clock.now_ns();
                let part = member.work(start_ns.saturating_add(ns));
                let end_ns = clock.now_ns();
                part.map(|part| Report::Worked {
                    part,
                    start_ns,
                    end_ns,
                })
            }
            Order::Check => member.check().map(Report::Checked),
        };
        if report.send(said).is_err() {
            return;
        }
    }
}

fn lead<P>(posts: &[Post<P>], runs: &Runs, stop: &AtomicBool) -> Result<Series<P>, Broken> {
    let is_stopped = || stop.load(Ordering::Relaxed);
    let mut series = Series {
        runs: Vec::new(),
        interference: Interference::default(),
        compared: 0,
        interrupted: false,
    };
    command(posts, Order::Prepare)?;
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let times = std::iter::once(ns(runs.warm_up))
        .chain(std::iter::repeat_n(ns(runs.seconds), runs.repeat as usize));
    for (round, ns) in (1..).zip(times) {
        let is_warm_up = round == 1;
        if is_stopped() {
            series.interrupted = true;
            break;
        }
        let (watch, cpu_before_ns) = (Watch::start(), cpu_ns());
        let reports = command(posts, Order::Work { round, ns })?;
        let cpu_ns = cpu_ns() - cpu_before_ns;
        let interference = watch.stop();
        // What a run cut short left is right or wrong all the same.
        let checked = command(posts, Order::Check)?;
        let is_cut = is_stopped();
        series.interrupted |= is_cut;
        if is_warm_up || is_cut {
            continue;
        }
        series.compared += checked.iter().map(Report::compared).sum::<u64>();
        series.interference.add(&interference);
        series.runs.push(Timed::of(reports, cpu_ns)?);
    }
    Ok(series)
}

impl<P> Report<P> {
    fn compared(&self) -> u64 {
        match self {
            Self::Checked(compared) => *compared,
            _ => 0,
        }
    }
}

impl<P> Timed<P> {
    fn of(reports: Vec<Report<P>>, cpu_ns: u64) -> Result<Self, Broken> {
        let (mut parts, mut first_ns, mut last_ns) = (Vec::new(), u64::MAX, 0);
        for report in reports {
            let Report::Worked {
                part,
                start_ns,
                end_ns,
            } = report
            else {
                return Err(Broken::Wrong("a measuring thread is gone".into()));
            };
            (first_ns, last_ns) = (first_ns.min(start_ns), last_ns.max(end_ns));
            parts.push((part, end_ns - start_ns));
        }
        Ok(Self {
            parts,
            ns: last_ns.saturating_sub(first_ns).max(1),
            cpu_ns,
        })
    }

    /// So many things a second, over all threads.
    pub(crate) fn per_s(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.ns as f64
    }
}

/// Tells all threads, then hears all of them; the first failure counts.
fn command<P>(posts: &[Post<P>], order: Order) -> Result<Vec<Report<P>>, Broken> {
    for post in posts {
        // A thread that is gone is noticed below.
        let _ = post.order.send(order);
    }
    let heard: Vec<_> = posts.iter().map(|post| post.reports.recv()).collect();
    let gone = || Err(Broken::Wrong("a measuring thread panicked".into()));
    heard
        .into_iter()
        .map(|report| report.unwrap_or_else(|_| gone()))
        .collect()
}

/// Keeps this thread on one core.
fn pin(core: u32) -> Result<(), Broken> {
    let mut cores = CpuSet::new();
    if core as usize >= CpuSet::MAX_CPU {
        return Err(Broken::Unsupported(format!("there is no core {core}")));
    }
    cores.set(core as usize);
    sched_setaffinity(None, &cores).map_err(|error| {
        Broken::Unsupported(format!("cannot pin a thread to core {core}: {error}"))
    })
}

/// CPU time of all threads of this process; the kernel's own for its requests (io_uring's workers) among them.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpb_core::clock::WallClock;

    struct Counter<'a> {
        clock: &'a WallClock,
        fails_at: Option<u32>,
        runs: u32,
        together: &'a AtomicUsize,
    }

    impl Member for Counter<'_> {
        type Part = u64;

        fn prepare(&mut self) -> Result<(), Broken> {
            Ok(())
        }

        fn work(&mut self, until_ns: u64) -> Result<u64, Broken> {
            self.together.fetch_add(1, Ordering::SeqCst);
            self.runs += 1;
            let mut count = 0;
            while self.clock.now_ns() < until_ns {
                count += 1;
            }
            Ok(count)
        }

        fn check(&mut self) -> Result<u64, Broken> {
            match self.fails_at {
                Some(run) if run == self.runs => Err(Broken::Wrong("as told".into())),
                _ => Ok(1),
            }
        }
    }

    fn counted(threads: usize, fails_at: Option<u32>) -> (Result<Series<u64>, Broken>, usize) {
        let (clock, together) = (WallClock::default(), AtomicUsize::new(0));
        let member = |_| Counter {
            clock: &clock,
            fails_at,
            runs: 0,
            together: &together,
        };
        let runs = Runs {
            seconds: Duration::from_millis(2),
            warm_up: Duration::from_millis(1),
            repeat: 3,
            pin: Vec::new(),
        };
        let members = (0..threads).map(member).collect();
        let series = run(members, &runs, &clock, &AtomicBool::new(false));
        (series, together.load(Ordering::SeqCst))
    }

    #[test]
    fn every_thread_does_every_run_and_a_failed_check_ends_it() {
        let (series, worked) = counted(3, None);
        let series = series.expect("done");
        assert_eq!((series.runs.len(), worked), (3, 3 * 4));
        // The warm-up's check does not count.
        assert_eq!(series.compared, 3 * 3);
        for run in &series.runs {
            assert_eq!(run.parts.len(), 3);
            assert!(run.parts.iter().all(|(_, ns)| *ns <= run.ns));
        }
        let (series, worked) = counted(2, Some(2));
        assert_eq!(series.err(), Some(Broken::Wrong("as told".into())));
        assert_eq!(worked, 2 * 2);
    }

    #[test]
    fn a_core_that_is_not_there_is_a_finding() {
        assert!(matches!(pin(u32::MAX), Err(Broken::Unsupported(_))));
    }
}
