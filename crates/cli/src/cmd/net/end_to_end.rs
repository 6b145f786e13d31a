//! Parts that `flow-table` and `app-recognition` share: the load, a program between ports in memory, the time of its threads, trials, and records of them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dpb_core::measure::{Interference, Outcome as Ended, Record, Watch};
use dpb_core::{Clock, PacketPort};
use dpb_net::pipeline::{Account, Live, Work};
use dpb_net::traffic::{Schedule, Traffic};
use dpb_net::trial::{self, Between, Drops, Hosted, Outcome, Plan, Pool, SystemUnderTest};
use rustix::time::{ClockId, clock_gettime};

use super::bench::{self, Counted, OfRuns, Pinned};
use super::traffic::LOAD;
use crate::args::{self, List};
use crate::cmd::sweep::{self, RunFlags};
use crate::interrupt;

/// The load that is offered.
#[derive(Debug, clap::Args)]
pub(super) struct LoadFlags {
    /// The time from one packet that is due to the next, whatever became of those before [default: of flow-table 20us,10us,5us,2us,1us; of
    /// app-recognition ten times as long]
    #[arg(long, value_name = "TIMES", help_heading = LOAD, value_parser = args::durations)]
    interval: Option<List<Duration>>,
    /// Packets a second that are due, instead of the time between two
    #[arg(long, value_name = "RATES", help_heading = LOAD, value_parser = args::rates, conflicts_with = "interval")]
    rate: Option<List<f64>>,
    /// How late a packet may be offered. A trial has no number if more packets are later than are due in so long: its generator was late [default: 10us; 1ms
    /// where the program works on the generator's core]
    #[arg(long, value_name = "TIME", help_heading = LOAD, value_parser = args::duration)]
    tolerance: Option<Duration>,
    /// Packets that a port in memory holds for the other end
    #[arg(long, value_name = "COUNT", help_heading = LOAD, value_parser = args::count, default_value = "1024")]
    queue: u64,
}

/// Times between packets, where none are given, in microseconds.
pub(super) const INTERVALS_US: [u64; 5] = [20, 10, 5, 2, 1];

/// Packets that are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    Interval(Duration),
    Rate(f64),
}

impl LoadFlags {
    /// The loads that are asked for; without any the usual intervals, each so many times as long.
    pub(super) fn loads(&self, times: u64) -> Vec<Load> {
        let usual = INTERVALS_US.map(|us| Duration::from_micros(us * times));
        match (&self.rate, &self.interval) {
            (Some(rates), _) => rates.iter().map(|rate| Load::Rate(*rate)).collect(),
            (None, Some(intervals)) => intervals.iter().copied().map(Load::Interval).collect(),
            (None, None) => usual.map(Load::Interval).into(),
        }
    }

    pub(super) fn queue(&self) -> usize {
        self.queue as usize
    }

    /// For a program that works on the generator's core, or elsewhere.
    pub(super) fn tolerance(&self, shares_core: bool) -> Duration {
        let usual = Duration::from_micros(if shares_core { 1000 } else { 10 });
        self.tolerance.unwrap_or(usual)
    }
}

impl Load {
    pub(super) fn packets_per_s(self) -> f64 {
        match self {
            Self::Interval(interval) => 1.0 / interval.as_secs_f64(),
            Self::Rate(rate) => rate,
        }
    }

    pub(super) fn note(self, record: Record) -> Record {
        match self {
            Self::Interval(interval) => record.with("interval", interval.as_secs_f64()),
            Self::Rate(rate) => record.with("rate", rate),
        }
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Interval(interval) => write!(f, "every {interval:?}"),
            Self::Rate(rate) => write!(f, "{} packets/s", crate::output::short(*rate)),
        }
    }
}

/// The time that a loop spent, as of its last account.
#[derive(Debug, Default)]
pub(super) struct Meter {
    busy_ns: AtomicU64,
    cpu_ns: AtomicU64,
}

/// The times that a meter has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// In turns that moved something.
    pub(super) busy_ns: u64,
    /// By the thread that drives it, looks that found nothing included.
    pub(super) cpu_ns: u64,
}

impl Meter {
    pub(super) fn read(&self) -> Spent {
        Spent {
            busy_ns: self.busy_ns.load(Ordering::Relaxed),
            cpu_ns: self.cpu_ns.load(Ordering::Relaxed),
        }
    }
}

/// A loop with a meter.
pub(super) struct Metered {
    work: Box<dyn Work>,
    clock: Arc<dyn Clock>,
    meter: Arc<Meter>,
    busy_ns: u64,
}

impl Metered {
    pub(super) fn new(work: Box<dyn Work>, clock: Arc<dyn Clock>, meter: Arc<Meter>) -> Self {
        Self {
            work,
            clock,
            meter,
            busy_ns: 0,
        }
    }
}

impl Work for Metered {
    fn turn(&mut self) -> io::Result<usize> {
        let began_ns = self.clock.now_ns();
        let moved = self.work.turn()?;
        if moved > 0 {
            self.busy_ns += self.clock.now_ns().saturating_sub(began_ns);
        }
        Ok(moved)
    }

    fn close(&mut self) {
        self.work.close();
    }

    fn is_done(&self) -> bool {
        self.work.is_done()
    }

    fn live(&self, live: &Live) {
        self.work.live(live);
    }

    /// Asked on the thread that drives the loop.
    fn account(&self) -> Account {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        let cpu_ns = cpu.tv_sec.cast_unsigned() * 1_000_000_000 + cpu.tv_nsec.cast_unsigned();
        self.meter.cpu_ns.store(cpu_ns, Ordering::Relaxed);
        self.meter.busy_ns.store(self.busy_ns, Ordering::Relaxed);
        self.work.account()
    }
}

/// Systems that are one together: the sides of a program on several threads.
pub(super) struct Sides(pub(super) Vec<Hosted>);

impl SystemUnderTest for Sides {
    fn turn(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(Hosted::turn)
    }

    fn is_idle(&mut self) -> io::Result<bool> {
        let mut is_idle = true;
        for side in &mut self.0 {
            is_idle &= side.is_idle()?;
        }
        Ok(is_idle)
    }

    fn drops(&mut self) -> io::Result<Drops> {
        let mut all = Drops {
            reasons: Vec::new(),
            are_complete: true,
        };
        for side in &mut self.0 {
            let drops = side.drops()?;
            all.are_complete &= drops.are_complete;
            all.reasons.extend(drops.reasons);
        }
        Ok(all)
    }
}

/// A system between two ports.
pub(super) struct Lab<'a, S> {
    pub(super) clock: &'a dyn Clock,
    pub(super) from: Box<dyn PacketPort>,
    pub(super) to: Box<dyn PacketPort>,
    pub(super) system: S,
    pub(super) plan: Plan,
    pub(super) pool: Pool,
    /// The generator's.
    pub(super) core: Option<u32>,
}

/// One trial.
#[derive(Debug)]
pub(super) struct Run {
    /// Its place among all trials of the test, that to warm up being 0.
    pub(super) at: usize,
    pub(super) outcome: Outcome,
    /// The times that each meter counted in `metered_ns`.
    pub(super) spent: Vec<Spent>,
    /// The time between two looks at the meters: of the trial, and of what it waits for before and behind.
    pub(super) metered_ns: u64,
    /// For so long packets were due.
    pub(super) duration_s: f64,
}

/// All trials of a test.
#[derive(Default)]
pub(super) struct Runs {
    pub(super) runs: Vec<Run>,
    /// Trials that have no number: the one that warmed up, and invalid ones. The program has seen their packets, too.
    pub(super) others: Vec<Run>,
    pub(super) interference: Interference,
    pub(super) counted: Counted,
    pub(super) is_interrupted: bool,
}

/// So often a trial is done again whose generator was late.
const TRIES: usize = 3;

impl<'a, S: SystemUnderTest> Lab<'a, S> {
    /// The trials that `flags` ask for, behind one that warms up, on the generator's core. `begin` is told of each trial before it starts, with its number
    /// and its duration in nanoseconds, and gives its traffic.
    ///
    /// # Errors
    /// The reason why the test broke, as a sentence: nothing of it counts then.
    pub(super) fn runs(
        &mut self,
        flags: &RunFlags,
        load: Load,
        meters: &[Arc<Meter>],
        mut begin: impl FnMut(&mut S, u64, u64) -> Result<Arc<dyn Traffic>, String>,
    ) -> Result<Runs, String> {
        let _pinned = Pinned::on(self.core)?;
        self.plan.schedule = Schedule::constant(load.packets_per_s());
        let nanoseconds = |duration: Duration| duration.as_nanos() as u64;
        let mut at = 0;
        let first = self.trial(at, nanoseconds(flags.warm_up()), meters, &mut begin)?;
        let mut runs = Runs {
            others: vec![first],
            ..Runs::default()
        };
        let watch = Watch::start();
        for _ in 0..flags.repeat() {
            for _ in 0..TRIES {
                if interrupt::is_set() {
                    runs.is_interrupted = true;
                    break;
                }
                at += 1;
                let run = self.trial(at, nanoseconds(flags.seconds()), meters, &mut begin)?;
                let invalid = bench::invalid(&run.outcome);
                let is_valid = invalid.is_none();
                runs.counted.add(&run.outcome, invalid);
                if is_valid {
                    runs.runs.push(run);
                    break;
                }
                runs.others.push(run);
            }
        }
        runs.interference = watch.stop();
        Ok(runs)
    }

    fn trial(
        &mut self,
        at: usize,
        duration_ns: u64,
        meters: &[Arc<Meter>],
        begin: &mut impl FnMut(&mut S, u64, u64) -> Result<Arc<dyn Traffic>, String>,
    ) -> Result<Run, String> {
        self.plan.duration_ns = duration_ns;
        self.plan.trial += 1;
        let traffic = begin(&mut self.system, self.plan.trial, duration_ns)?;
        // Asks loops for their accounts, and those write to their meters. The trial's end asks again.
        let idle = self.system.is_idle();
        idle.map_err(|error| bench::said(&error))?;
        let metered_from_ns = self.clock.now_ns();
        let before: Vec<Spent> = meters.iter().map(|meter| meter.read()).collect();
        let mut between = Between {
            from: &mut *self.from,
            to: &mut *self.to,
            system: &mut self.system,
        };
        let outcome = trial::run(
            &self.plan,
            &*traffic,
            self.clock,
            &mut self.pool,
            &mut between,
        );
        let outcome = outcome.map_err(|error| bench::said(&error))?;
        let metered_ns = self.clock.now_ns() - metered_from_ns;
        let spent = meters.iter().zip(before).map(|(meter, before)| {
            let now = meter.read();
            Spent {
                busy_ns: now.busy_ns - before.busy_ns,
                cpu_ns: now.cpu_ns - before.cpu_ns,
            }
        });
        Ok(Run {
            at,
            spent: spent.collect(),
            metered_ns,
            duration_s: duration_ns as f64 / 1e9,
            outcome,
        })
    }
}

impl Runs {
    /// The record with what the trials found, or with the reason why they have no number.
    pub(super) fn fill(self, mut record: Record, asked: usize, threads: u64) -> (Record, Self) {
        if self.runs.is_empty() {
            let ended = match self.is_interrupted {
                true => Ended::Interrupted,
                false => Ended::Unsupported {
                    reason: format!("no trial is valid: {}", self.counted.why_invalid()),
                },
            };
            return (record.without_numbers(ended), self);
        }
        let mut of_runs = OfRuns::default();
        for run in &self.runs {
            of_runs.add(&run.outcome, run.duration_s);
        }
        let rates = of_runs.sample(&mut record);
        self.counted.note(&mut record);
        sweep::conclude(
            &mut record,
            &rates,
            asked,
            threads,
            &self.interference,
            self.is_interrupted,
        );
        (record, self)
    }
}
