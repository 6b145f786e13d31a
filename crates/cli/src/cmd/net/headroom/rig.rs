//! A system under test in this process, and trials of it: packets come by a link, are forwarded, and work is done for each.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use dpb_core::{Clock, PacketPort};
use dpb_net::headroom::{Dial, Injected, Load, Speed, Work};
use dpb_net::pipeline::{self, Idle, Line, Make, Settings, Shard, Stage, WhenFull};
use dpb_net::programs::forward::{Addresses, bridge};
use dpb_net::search::TrialOutput;
use dpb_net::traffic::{Flows, Generator, Profile, Schedule, Sizes};
use dpb_net::trial::{self, Between, Drops, Hosted, Pool, SystemUnderTest, TrialError};

use super::kind::{Chosen, Maker};
use super::link::{Link, LinkName, Report};
use super::namespaces::{UDP_PORT, Wires};
use crate::cmd::net::bench::{self, Counted, pin};
use crate::interrupt;

/// Packets that the system receives at once.
const BURST: usize = 32;
/// Bursts of its line.
const DEPTH: usize = 4;
/// Flows of the traffic, all of which live.
const FLOWS: u64 = 1000;
/// The least time of a run of a kind of work alone.
const ALONE_NS: u64 = 2_000_000;

/// Why no trial can be done any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Somebody wants it to end.
    Interrupted,
    /// There is no such system here.
    Absent(String),
    /// A check failed, or the system broke.
    Wrong(String),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Absent(why) | Self::Wrong(why) => f.write_str(why),
        }
    }
}

/// The counts of trials with work since the last look.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) packets: Counted,
    /// Units of work, those of trials that say nothing included.
    pub(super) units: u64,
}

/// How a rig is built.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) link: LinkName,
    /// Bytes of a frame.
    pub(super) size: usize,
    pub(super) threads: u32,
    pub(super) makers: Vec<Maker>,
    pub(super) system_cores: Vec<u32>,
    pub(super) has_own_cores: bool,
    pub(super) settle: Duration,
    /// How late packets may be offered.
    pub(super) tolerance: Duration,
    pub(super) seed: u64,
}

/// The generator and the system between its ports.
pub(super) struct Rig {
    from: Box<dyn PacketPort>,
    to: Box<dyn PacketPort>,
    system: System,
    generator: Generator,
    clock: Arc<dyn Clock>,
    pool: Pool,
    dial: Dial,
    selector: Arc<AtomicUsize>,
    /// How fast each kind of work is alone.
    pub(super) speeds: Vec<Speed>,
    settle: Duration,
    tolerance: Duration,
    threads: u32,
    seed: u64,
    trial: u64,
    counts: Counts,
    /// What was wrong with the last trial that says nothing.
    last_invalid: Option<String>,
    /// Last: sockets are closed before their namespaces go.
    _wires: Option<Wires>,
}

/// The system's threads, and all that counts what it dropped.
struct System {
    hosted: Hosted,
    reports: Vec<Report>,
    told: u64,
    dropped: Option<Arc<AtomicU64>>,
    dropped_told: u64,
    is_counted: bool,
}

impl Rig {
    /// Takes the speed of each kind of work alone, then starts the system.
    ///
    /// # Errors
    /// [`Broken`].
    pub(super) fn new(plan: &Plan, link: Link, clock: Arc<dyn Clock>) -> Result<Self, Broken> {
        let speeds = speeds(plan, &*clock)?;
        let Link {
            from,
            to,
            shards,
            ways,
            is_answered,
            reports,
            dropped,
            is_counted,
            wires,
            ..
        } = link;
        let (dial, selector) = (Dial::default(), Arc::<AtomicUsize>::default());
        let addresses = match is_answered {
            true => Addresses::Swapped,
            false => Addresses::Kept,
        };
        let loops = (0_u64..).zip(shards).map(|(i, ports)| {
            let (makers, dial) = (plan.makers.clone(), dial.clone());
            let (selector, ways, seed) = (Arc::clone(&selector), ways.clone(), plan.seed + i);
            let make: Make = Box::new(move || {
                let works = makers.iter().map(|maker| maker.make(seed));
                let works = works.collect::<Result<_, _>>()?;
                let work = Injected::new(Box::new(Chosen { works, selector }), &dial);
                let stages: Vec<Box<dyn Stage>> = vec![
                    Box::new(bridge(ways, addresses)),
                    Box::new(work.into_stage()),
                ];
                let line = Line::new("line", stages, DEPTH);
                let shard = Shard::new("shard", ports, line, BURST, WhenFull::Hold);
                Ok(Box::new(shard))
            });
            (format!("system-{i}"), make)
        });
        let settings = Settings {
            cores: plan.system_cores.clone(),
            // A thread that spins on a core which it shares takes it from whoever has work.
            idle: match plan.has_own_cores {
                true => Idle::Spin,
                false => Idle::Yield,
            },
            clock: Arc::clone(&clock),
            patience: Duration::from_secs(10),
        };
        let hosted = Hosted::threads(loops.collect(), &settings);
        let hosted = hosted.map_err(|error| Broken::Absent(error.to_string()))?;
        Ok(Self {
            from,
            to,
            system: System {
                hosted,
                reports,
                told: 0,
                dropped,
                dropped_told: 0,
                is_counted,
            },
            generator: Generator::new(&profile(plan))
                .map_err(|error| Broken::Absent(error.to_string()))?,
            clock,
            pool: Pool::default(),
            dial,
            selector,
            speeds,
            settle: plan.settle,
            tolerance: plan.tolerance,
            threads: plan.threads,
            seed: plan.seed,
            trial: 0,
            counts: Counts::default(),
            last_invalid: None,
            _wires: wires,
        })
    }

    /// One trial: `None` if it says nothing, since the generator was late or lost packets that had come back.
    ///
    /// # Errors
    /// [`Broken`]: also if packets do not add up, or work that packets asked for was not done.
    pub(super) fn trial(&mut self, kind: usize, load: Load) -> Result<Option<TrialOutput>, Broken> {
        if interrupt::is_set() {
            return Err(Broken::Interrupted);
        }
        let units = self.speeds[kind].units(load.work_ns_per_packet);
        self.selector.store(kind, Ordering::Relaxed);
        self.dial.set(units);
        let schedule = Schedule::constant(load.packets_per_s);
        self.trial += 1;
        let plan = trial::Plan {
            settle_ns: self.settle.as_nanos() as u64,
            tolerance_ns: self.tolerance.as_nanos() as u64,
            trial: self.trial,
            ..trial::Plan::new(schedule, (load.duration_s * 1e9) as u64, self.seed)
        };
        let (before, done_before) = (self.received()?, self.dial.done());
        let lost_before = self.to.stats().receive_lost.total();
        let mut between = Between {
            from: &mut *self.from,
            to: &mut *self.to,
            system: &mut self.system,
        };
        let ran = trial::run(
            &plan,
            &self.generator,
            &*self.clock,
            &mut self.pool,
            &mut between,
        );
        let outcome = ran.map_err(|error| self.broken(&error))?;
        let done = self.dial.done() - done_before;
        let (after, in_flight) = self.looked()?;
        if let Some(fault) = self.dial.fault() {
            return Err(Broken::Wrong(fault.to_string()));
        }
        let lost_here = self.to.stats().receive_lost.total() - lost_before;
        let invalid = bench::invalid(&outcome);
        let invalid = invalid.or_else(|| {
            (lost_here > 0).then(|| {
                format!(
                    "{lost_here} packets had come back and were lost by the generator's own port"
                )
            })
        });
        let invalid = invalid.or_else(|| {
            (in_flight > 0)
                .then(|| format!("the system still had {in_flight} packets long after its end"))
        });
        let is_valid = invalid.is_none();
        if !is_valid {
            self.last_invalid.clone_from(&invalid);
        }
        // Those of the search for the highest rate, in which nobody works, are no kind's.
        if load.work_ns_per_packet > 0.0 {
            self.counts.packets.add(&outcome, invalid);
            self.counts.units += done;
        }
        if !is_valid {
            return Ok(None);
        }
        self.check_work(done, units, after - before)?;
        Ok(Some(TrialOutput {
            loss_ratio: outcome.balance.loss_ratio(),
            effective_s: load.duration_s,
        }))
    }

    /// Every packet that the system received had its work done: but for the part of a unit that each thread may owe.
    fn check_work(&self, done: u64, units: f64, packets: u64) -> Result<(), Broken> {
        let asked = units * packets as f64;
        let wrong = (done as f64 - asked).abs();
        // A rounded sum of so many parts.
        let allowed = f64::from(self.threads) + 1e-9 * asked;
        match wrong <= allowed {
            true => Ok(()),
            false => Err(Broken::Wrong(format!(
                "the system received {packets} packets with {units} units of work each, and did {done} units"
            ))),
        }
    }

    /// What was wrong with the last trial that says nothing, if there was one.
    pub(super) fn last_invalid(&self) -> Option<&str> {
        self.last_invalid.as_deref()
    }

    /// What trials with work have counted since the last look.
    pub(super) fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    fn received(&self) -> Result<u64, Broken> {
        Ok(self.looked()?.0)
    }

    /// Packets that the system has received, and those of them that it still has.
    fn looked(&self) -> Result<(u64, u64), Broken> {
        let accounts = self.system.hosted.accounts();
        let accounts = accounts.map_err(|error| Broken::Wrong(error.to_string()))?;
        let received = accounts.iter().map(|it| it.received.packets).sum();
        Ok((
            received,
            accounts.iter().map(pipeline::Account::in_flight).sum(),
        ))
    }

    fn broken(&self, error: &TrialError) -> Broken {
        if let Some(fault) = self.dial.fault() {
            return Broken::Wrong(fault.to_string());
        }
        let said = bench::said(error);
        match error {
            TrialError::TooLong { .. } | TrialError::Memory(_) | TrialError::Traffic(_) => {
                Broken::Absent(said)
            }
            _ => Broken::Wrong(said),
        }
    }
}

/// UDP over IPv4, a thousand flows, the same length always.
fn profile(plan: &Plan) -> Profile {
    let mut profile = Profile {
        sizes: Sizes::Fixed(plan.size),
        flows: Flows::endless(FLOWS),
        ..Profile::new(plan.seed)
    };
    if plan.link == LinkName::Kernel {
        profile.ports = vec![UDP_PORT];
    }
    profile
}

/// Each kind of work alone, on a core of the system's.
fn speeds(plan: &Plan, clock: &dyn Clock) -> Result<Vec<Speed>, Broken> {
    let core: Vec<u32> = plan.system_cores.first().copied().into_iter().collect();
    let alone = || {
        pin(&core).map_err(Broken::Absent)?;
        let each = plan.makers.iter().map(|maker| {
            let work = maker.make(plan.seed);
            let mut work: Box<dyn Work> =
                work.map_err(|error| Broken::Absent(error.to_string()))?;
            let speed = Speed::alone(&mut *work, clock, ALONE_NS);
            speed.map_err(|error| Broken::Wrong(error.to_string()))
        });
        each.collect()
    };
    let ended = thread::scope(|scope| scope.spawn(alone).join());
    ended.unwrap_or_else(|_| Err(Broken::Wrong("the injected work panicked".to_owned())))
}

impl SystemUnderTest for System {
    fn turn(&mut self) -> io::Result<()> {
        self.hosted.turn()
    }

    fn is_idle(&mut self) -> io::Result<bool> {
        self.hosted.is_idle()
    }

    fn drops(&mut self) -> io::Result<Drops> {
        self.reports.iter().for_each(Report::ask);
        // Asks each thread, which has looked at its ports when it answers.
        let mut drops = self.hosted.drops()?;
        let lost = self.reports.iter().map(|report| {
            let stats = report.stats();
            stats.receive_lost.total() + stats.send_lost.total()
        });
        let lost: u64 = lost.sum();
        let dropped = self.dropped.as_ref();
        let dropped = dropped.map_or(0, |dropped| dropped.load(Ordering::Relaxed));
        for (reason, now, told) in [
            ("the system's port", lost, &mut self.told),
            ("queue full", dropped, &mut self.dropped_told),
        ] {
            let packets = now - std::mem::replace(told, now);
            if packets > 0 {
                drops.reasons.push((reason.to_owned(), packets));
            }
        }
        drops.are_complete &= self.is_counted;
        Ok(drops)
    }
}
