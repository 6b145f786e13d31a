//! `dpb net headroom`: how many cores a system has free for other work while it forwards packets at a given rate.

mod find;
mod kind;
mod link;
mod namespaces;
mod record;
mod rig;
mod show;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use dpb_core::measure::comparison::Better;
use dpb_core::measure::provenance::allowed_cpus;
use dpb_core::measure::{Outcome, Record, Watch};
use dpb_core::{Clock, WallClock};
use dpb_net::headroom::Patience;
use dpb_net::search::Goal;
use dpb_net::traffic::{FCS_BYTES, FRAME_BYTES_MAX, FRAME_BYTES_MIN};

use self::find::{Finding, NoNumber, Question, Rate};
use self::kind::{Kind, Maker};
use self::link::LinkName;
use self::namespaces::Topology;
use self::record::{Measured, fill_counts, judged};
use self::rig::{Broken, Rig};
use super::bench;
use crate::args::{self, List};
use crate::cmd::sweep::{OUTPUT, Results};
use crate::exit::Failure;
use crate::output::{self, Progress};
use crate::report::published;
use crate::task::{Cost, Metric, Task, View, axis, charted, flags, listed, recorded_by_name};
use crate::{Globals, interrupt};

const SYSTEM: &str = "The system";
const WORK: &str = "The injected work";
const SEARCH: &str = "The search";

/// The task: headroom.
pub const TASK: Task = Task {
    name: "net headroom",
    summary: "cores that a system has free while it forwards packets, by injected work",
    example: "dpb net headroom --kind arithmetic,memory,crc32c --part 0.5",
    apart: &["out"],
    prepare: None,
    shared_file: None,
    view: VIEW,
    check,
    cost,
    recorded: recorded_by_name,
    published: Some(|| published::of_task("net headroom")),
    server_end: None,
};

const VIEW: View = View {
    lead: &[
        "kind", "link", "topology", "size", "threads", "rate", "part",
    ],
    series: &["kind", "link", "topology"],
    sweeps: &[
        axis("rate", "packets per second", output::short),
        axis("part", "part of the highest rate", output::percent),
        axis(
            "size",
            "bytes of a frame with its check sequence",
            output::bytes,
        ),
        axis("threads", "threads", output::number),
    ],
    fixed: &["goal"],
    metrics: &[
        Metric {
            better: Some(Better::More),
            ..charted("cores_free", "cores free", show::cores)
        },
        Metric {
            better: Some(Better::More),
            ..charted(
                "headroom_by_rate",
                "1 - R/Rmax, the papers' headroom",
                show::cores,
            )
        },
        charted(
            "bytes_per_s_max",
            "bytes of frames per second, highest",
            output::short,
        ),
        Metric {
            better: Some(Better::More),
            ..listed("cores_free_at_most", "cores free, at most", show::cores)
        },
        Metric {
            better: Some(Better::More),
            ..listed(
                "cores_free_part",
                "part of the cores that is free",
                show::cores,
            )
        },
        listed("packets_per_s", "packets per second", output::short),
        listed(
            "packets_per_s_max",
            "packets per second, highest",
            output::short,
        ),
        Metric {
            better: Some(Better::More),
            ..listed(
                "work_ns_per_packet",
                "injected work of a packet",
                output::short_ns,
            )
        },
        listed("ns_per_unit", "a unit of work alone", output::short_ns),
        Metric {
            better: Some(Better::More),
            ..listed(
                "units_per_packet",
                "units of work of a packet",
                output::short,
            )
        },
    ],
    base: None,
};

/// Measure how many cores a system has free for other work while it forwards packets.
///
/// A generator offers packets at a fixed rate, and the system, threads of this program, forwards them. It does work for each packet besides. MLRsearch (RFC 9971)
/// looks for the most work with which it still loses no more packets than the goal allows; that work, as the time that it takes on a core alone, is what was
/// free. Beside it stands what papers call headroom, 1 - R/Rmax, of the highest rate that is found first.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Links:\n  memory     ports in memory: nothing but the program takes time\n  \
        af-packet  raw sockets on pairs of virtual interfaces (veth)\n  \
        af-xdp     AF_XDP on such pairs; needs root. The kernel's work on packets that come is then done by the generator's core\n  \
        kernel     the system has UDP sockets: packets pass the kernel's network stack, as with Liu et al.'s kernel path\n  \
        dpdk       DPDK's af_packet driver on such pairs\n\
        Pairs are made in network namespaces of this process's own, without root where the kernel allows that. They stand in for a card, so such numbers are \
        `emulated`.\n\
        Topologies, as BlueField's modes in Liu et al., section II:\n  \
        separated  two namespaces, network and dpu: the system is a host of its own, and answers each packet where it came from\n  \
        embedded   three namespaces, host, dpu and network: the host sends, packets pass the system's cores, the network receives. In memory: two pairs of ports\n\
        The generator has one core and the system's threads have others, as far as there are any.\n\
        Examples:\n  dpb net headroom\n  \
        dpb net headroom --kind arithmetic,memory,aes-gcm:bits=256 --size 64,1518 --part 0.25,0.5,0.75\n  \
        dpb net headroom --link af-packet,kernel --topology separated,embedded --rate 50k\n  \
        dpb net headroom --goal ndr --seconds 1 --sum 21 --width 0.5% --rate 1M   (FD.io CSIT's NDR)"
)]
pub struct Args {
    /// Kinds of work: arithmetic (steps that wait for each other), memory (reads of cache lines that wait for each other), or operators, as crc32c or aes-gcm:bits=256
    #[arg(long, value_name = "NAMES", help_heading = WORK, value_parser = kind::names, default_value = "arithmetic,memory,crc32c")]
    kind: List<String>,
    /// Bytes that the memory kind walks through
    #[arg(long, value_name = "SIZE", help_heading = WORK, value_parser = args::size, default_value = "32MiB")]
    buffer: u64,
    /// Bytes of an operator's item
    #[arg(long, value_name = "SIZE", help_heading = WORK, value_parser = args::size, default_value = "1KiB")]
    item: u64,
    /// The backend of an operator (see `dpb list`)
    #[arg(long, value_name = "NAME", help_heading = WORK, default_value = "cpu/best")]
    backend: String,
    /// Bytes of a frame on the wire, with its check sequence: 64 is Ethernet's shortest
    #[arg(long, value_name = "SIZES", help_heading = SYSTEM, value_parser = args::sizes, default_value = "64,1518")]
    size: List<u64>,
    /// Packets a second [default: half of the highest rate, see --part]
    #[arg(long, value_name = "RATES", help_heading = SYSTEM, value_parser = args::rates, conflicts_with = "part")]
    rate: Option<List<f64>>,
    /// The same as a part of the highest rate, which is found first
    #[arg(long, value_name = "SHARES", help_heading = SYSTEM, value_parser = args::fractions)]
    part: Option<List<f64>>,
    /// Threads of the system; packets go to one of them by their flow
    #[arg(long, value_name = "COUNTS", help_heading = SYSTEM, value_parser = args::thread_counts, default_value = "1")]
    threads: List<u64>,
    /// How packets come to the system and leave it
    #[arg(long, help_heading = SYSTEM, value_enum, value_delimiter = ',', default_value = "memory")]
    link: Vec<LinkName>,
    /// Where the system stands
    #[arg(long, help_heading = SYSTEM, value_enum, value_delimiter = ',', default_value = "separated")]
    topology: Vec<Topology>,
    /// Packets that may wait in memory for a thread of the system: so many it may be behind without a loss
    #[arg(long, value_name = "COUNT", help_heading = SYSTEM, value_parser = args::count, default_value = "256")]
    queue: u64,
    /// What is to be upheld: pdr allows 0.5 % of the packets to be lost, ndr none
    #[arg(long, help_heading = SEARCH, value_enum, default_value = "pdr")]
    goal: GoalName,
    /// The part of the packets that may be lost, instead of the goal's
    #[arg(long, value_name = "SHARE", help_heading = SEARCH, value_parser = args::share)]
    loss: Option<f64>,
    /// The part of the trials, by their time, that may lose more
    #[arg(long, value_name = "SHARE", help_heading = SEARCH, value_parser = args::share, default_value = "50%")]
    exceed: f64,
    /// How long a trial takes
    #[arg(long, value_name = "TIME", help_heading = SEARCH, value_parser = args::duration, default_value = "0.2")]
    seconds: Duration,
    /// How long the trials that decide about an amount of work or a rate take together
    #[arg(long, value_name = "TIME", help_heading = SEARCH, value_parser = args::duration, default_value = "2s")]
    sum: Duration,
    /// How far apart the two bounds may be at the end
    #[arg(long, value_name = "SHARE", help_heading = SEARCH, value_parser = args::share, default_value = "1%")]
    width: f64,
    /// A search ends after so much time of trials with the bounds that it has
    #[arg(long, value_name = "TIME", help_heading = SEARCH, value_parser = args::duration, default_value = "2m")]
    limit: Duration,
    /// How late a packet may be offered. If more packets are later than are due in this time, the generator was late and the trial is invalid; CSIT's is 10us
    #[arg(long, value_name = "TIME", help_heading = SEARCH, value_parser = args::duration, default_value = "10us")]
    tolerance: Duration,
    /// So many invalid trials one after another, and there is no number
    #[arg(long, value_name = "COUNT", help_heading = SEARCH, value_parser = args::count, default_value = "5")]
    tries: u64,
    /// The rate at which the search for the highest begins [default: 16M in memory, 2M elsewhere]
    #[arg(long, value_name = "RATE", help_heading = SEARCH, value_parser = args::rate)]
    rate_max: Option<f64>,
    /// Searches for each kind and rate; below 6 a number has no 95 % interval
    #[arg(long, value_name = "COUNT", help_heading = SEARCH, value_parser = args::count, default_value = "1")]
    repeat: u64,
    /// Pin the generator to the first of these cores, and the system's threads to the others, in order [default: the last core that this process may use, and those
    /// before it]
    #[arg(long, value_name = "NUMBERS", help_heading = SYSTEM, value_parser = args::numbers)]
    pin: Option<List<u64>>,
    /// Seed of the traffic, of walks and of items
    #[arg(long, value_name = "NUMBER", help_heading = SYSTEM, default_value = "1")]
    seed: u64,
    /// Append the records to this file, in a folder that is there
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    out: Option<PathBuf>,
}

/// The goals that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GoalName {
    /// The partial drop rate: 0.5 % may be lost
    Pdr,
    /// The non-drop rate: nothing may be lost
    Ndr,
}

/// One system that is asked at all rates, with all kinds of work.
#[derive(Clone, Copy, Debug)]
struct Group {
    size: u64,
    threads: u32,
    link: LinkName,
    topology: Topology,
}

/// The cores of a group.
#[derive(Clone, Debug, Default)]
struct Cores {
    tester: Vec<u32>,
    system: Vec<u32>,
}

fn check(matches: &ArgMatches, globals: &Globals) -> Result<(), Failure> {
    let args: Args = flags(matches)?;
    args.check()?;
    args.kinds(globals).map(drop)
}

/// A search tries about a dozen loads, for half of the goal's sum of time each; each group has one for its highest rate.
fn cost(matches: &ArgMatches) -> Cost {
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let groups = args.groups();
    let search = (8 * args.sum).min(args.limit);
    let each = args.rates().len() * args.kind.0.len();
    let threads = args.threads.iter().copied().max().unwrap_or(1);
    Cost {
        once: groups.len() as u32 * search,
        each_run: (groups.len() * each) as u32 * search,
        memory_bytes: args.buffer.saturating_mul(threads + 1),
        disk_bytes: 0,
    }
}

/// Runs every combination.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    args.check()?;
    let kinds = args.kinds(globals)?;
    let has_wires = args.link.iter().any(|link| link.has_wires());
    let no_wires = (has_wires && !namespaces::is_inside()).then(namespaces::enter);
    let groups = args.groups();
    let most = args.threads.iter().copied().max().unwrap_or(1) + 1;
    let cores = allowed_cpus().len() as u64;
    if most > cores {
        output::note(&format!(
            "a generator and {} threads of the system share {cores} cores: what is free then says little",
            most - 1
        ));
    }
    let mut results = Results::to(args.out.as_deref(), globals)?;
    let each = args.rates().len() * kinds.len();
    let progress = Progress::of_task((groups.len() * each) as u64, globals);
    let mut kept = Ok(());
    for group in &groups {
        if interrupt::is_set() || kept.is_err() {
            break;
        }
        progress.set(results.records.len() as u64, &group.to_string());
        let absent = no_wires.clone().filter(|_| group.link.has_wires());
        args.measure(group, &kinds, absent, globals, &mut |record| {
            if kept.is_ok() {
                kept = results.keep(record);
            }
            progress.set(results.records.len() as u64, &group.to_string());
        });
    }
    drop(progress);
    results.print(show::for_people, show::for_machines)?;
    kept?;
    results.judge(groups.len() * each)
}

impl Args {
    /// Refuses what makes no sense.
    fn check(&self) -> Result<(), Failure> {
        let (least, most) = (FRAME_BYTES_MIN + FCS_BYTES, FRAME_BYTES_MAX + FCS_BYTES);
        let is_frame = |size: &&u64| (least as u64..=most as u64).contains(*size);
        if let Some(size) = self.size.iter().find(|size| !is_frame(size)) {
            return Err(Failure::usage(format!(
                "--size {size}: a frame has from {least} to {most} bytes, with its check sequence"
            )));
        }
        if self.buffer < 128 {
            return Err(Failure::usage(
                "--buffer: a walk goes through 128 bytes at least",
            ));
        }
        let goal = self.goal();
        goal.check()
            .map_err(|error| Failure::usage(error.to_string()))?;
        // In a shorter trial one packet is more than what the goal allows.
        const PACKETS_MIN: f64 = 200.0;
        let rates = self.rate.iter().flat_map(List::iter);
        if let Some(rate) = rates
            .copied()
            .find(|rate| rate * self.seconds.as_secs_f64() < PACKETS_MIN)
        {
            return Err(Failure::usage(format!(
                "--rate {rate}: a trial of {} s has fewer than {PACKETS_MIN} packets; take longer --seconds",
                self.seconds.as_secs_f64()
            )));
        }
        let cpus = allowed_cpus();
        let pins = self.pin.iter().flat_map(List::iter);
        let is_foreign =
            |core: &&u64| !cpus.is_empty() && !cpus.iter().any(|&cpu| u64::from(cpu) == **core);
        match pins.clone().find(is_foreign) {
            Some(core) => Err(Failure::usage(format!(
                "--pin {core}: this process may not use such a core; it may use {cpus:?}"
            ))),
            None => Ok(()),
        }
    }

    fn kinds(&self, globals: &Globals) -> Result<Vec<Kind>, Failure> {
        self.kind
            .iter()
            .map(|text| Kind::of(text, globals))
            .collect()
    }

    fn rates(&self) -> Vec<Rate> {
        match (&self.rate, &self.part) {
            (Some(rates), _) => rates.iter().copied().map(Rate::Of).collect(),
            (None, Some(parts)) => parts.iter().copied().map(Rate::Part).collect(),
            (None, None) => vec![Rate::Part(0.5)],
        }
    }

    fn goal(&self) -> Goal {
        let base = match self.goal {
            GoalName::Pdr => Goal::PDR,
            GoalName::Ndr => Goal::NDR,
        };
        let seconds = self.seconds.as_secs_f64();
        Goal {
            loss_ratio: self.loss.unwrap_or(base.loss_ratio),
            exceed_ratio: self.exceed,
            final_trial_s: seconds,
            duration_sum_s: self.sum.as_secs_f64().max(seconds),
            initial_trial_s: seconds,
            width: self.width,
        }
    }

    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for &link in &self.link {
            for &topology in &self.topology {
                for &threads in &self.threads {
                    groups.extend(self.size.iter().map(|&size| Group {
                        size,
                        threads: threads as u32,
                        link,
                        topology,
                    }));
                }
            }
        }
        groups
    }

    /// The generator has the last core, the system's threads those before it: the first ones have the machine's interrupts, as a rule. A machine with one core has it
    /// for both.
    fn cores(&self, threads: u32) -> Cores {
        let pins: Vec<u32> = match &self.pin {
            Some(pins) => pins.iter().map(|&core| core as u32).collect(),
            None => allowed_cpus().into_iter().rev().collect(),
        };
        let Some((first, rest)) = pins.split_first() else {
            return Cores::default();
        };
        let rest = if rest.is_empty() { &pins } else { rest };
        let system = rest.iter().take(threads as usize).copied().collect();
        Cores {
            tester: vec![*first],
            system,
        }
    }

    /// All tests of a group, each as one record whatever comes of it.
    fn measure(
        &self,
        group: &Group,
        kinds: &[Kind],
        absent: Option<String>,
        globals: &Globals,
        keep: &mut (dyn FnMut(Record) + Send),
    ) {
        let rates = self.rates();
        let sizes = kind::Sizes {
            buffer: self.buffer,
            item: self.item,
            backend: &self.backend,
            seed: self.seed,
        };
        // A kind that there is not here keeps none of the others from being measured.
        let mut ready = Vec::new();
        for kind in kinds {
            match Maker::new(kind, sizes, globals) {
                Ok(maker) => ready.push((kind, maker)),
                Err(why) => {
                    let why = match why {
                        kind::NoWork::Absent(why) => Broken::Absent(why),
                        kind::NoWork::Wrong(why) => Broken::Wrong(why),
                    };
                    for rate in &rates {
                        let record = self.record(group, kind, *rate);
                        keep(record.without_numbers(outcome_of(&why)));
                    }
                }
            }
        }
        let mut left: Vec<(Rate, &Kind)> = Vec::new();
        for rate in rates.into_iter().rev() {
            left.extend(ready.iter().rev().map(|(kind, _)| (rate, *kind)));
        }
        if left.is_empty() {
            return;
        }
        // On a thread of its own, which is pinned and may visit namespaces.
        let measured = || match absent {
            Some(why) => Err(Broken::Absent(why)),
            None => self.ask(group, &ready, &mut |record| {
                left.pop();
                keep(record);
            }),
        };
        let ended = thread::scope(|scope| scope.spawn(measured).join());
        let panicked = |_| Err(Broken::Wrong("the measurement panicked".to_owned()));
        let Err(why) = ended.unwrap_or_else(panicked) else {
            return;
        };
        if why == Broken::Interrupted {
            return;
        }
        for (rate, kind) in left.into_iter().rev() {
            let record = self.record(group, kind, rate);
            keep(record.without_numbers(outcome_of(&why)));
        }
    }

    /// Builds the system of a group and asks it everything.
    fn ask(
        &self,
        group: &Group,
        kinds: &[(&Kind, Maker)],
        keep: &mut dyn FnMut(Record),
    ) -> Result<(), Broken> {
        let cores = self.cores(group.threads);
        bench::pin(&cores.tester).map_err(Broken::Absent)?;
        let link = link::Plan {
            link: group.link,
            topology: group.topology,
            threads: group.threads,
            size: group.frame_bytes(),
            queue: self.queue as usize,
            system_cores: cores.system.clone(),
            tester_cores: cores.tester.clone(),
        };
        let link = link.open().map_err(Broken::Absent)?;
        let is_steered = link.is_steered;
        let plan = rig::Plan {
            link: group.link,
            size: group.frame_bytes(),
            threads: group.threads,
            makers: kinds.iter().map(|(_, maker)| maker.clone()).collect(),
            has_own_cores: cores.are_own(group.threads),
            system_cores: cores.system.clone(),
            settle: group.link.settle(),
            tolerance: self.tolerance,
            seed: self.seed,
        };
        let clock: Arc<dyn Clock> = Arc::new(WallClock::default());
        let rig = Rig::new(&plan, link, clock)?;
        let speeds = rig.speeds.clone();
        let question = Question {
            goal: self.goal(),
            patience: Patience {
                duration_max_s: self.limit.as_secs_f64(),
                invalid_max: self.tries as u32,
            },
            rate_max: self.rate_max.unwrap_or(group.link.rate_max()),
            rates: self.rates(),
            kinds: kinds.len(),
            cores: cores.count(group.threads),
            repeat: self.repeat as usize,
        };
        let rig = RefCell::new(rig);
        let mut watch = Watch::start();
        question.answer(
            |kind, load| rig.borrow_mut().trial(kind, load),
            |Finding {
                 kind,
                 rate,
                 headroom,
             }| {
                let interference = std::mem::replace(&mut watch, Watch::start()).stop();
                let (of_kind, maker) = &kinds[kind];
                let mut record = self.record(group, of_kind, rate);
                record.provenance.pinned = [&cores.tester[..], &cores.system].concat();
                if let Some(is_steered) = is_steered {
                    let is_steered = u64::from(is_steered);
                    (record.counts).insert("kernel_receives_on_system".to_owned(), is_steered);
                }
                if let Some(prepared) = maker.operator() {
                    record = record.with("injected", prepared.spec.as_str());
                }
                let counts = rig.borrow_mut().take_counts();
                fill_counts(&mut record, &counts);
                keep(match headroom {
                    Err(NoNumber::Failed(reason)) => {
                        record.without_numbers(Outcome::Failed { reason })
                    }
                    Err(NoNumber::Unsupported(why)) => {
                        let rig = rig.borrow();
                        let reason = match rig.last_invalid() {
                            Some(invalid) => format!("{why} (the last invalid trial: {invalid})"),
                            None => why,
                        };
                        record.without_numbers(Outcome::Unsupported { reason })
                    }
                    Ok(found) => {
                        let workers = group.threads + 1;
                        let measured = Measured {
                            found: &found,
                            speed: speeds[kind],
                            cores: question.cores,
                            frame_bytes: group.frame_bytes(),
                        };
                        measured.fill(&mut record, self.repeat as usize);
                        judged(&mut record, &found, workers, &interference);
                        record
                    }
                });
            },
        )
    }

    fn record(&self, group: &Group, kind: &Kind, rate: Rate) -> Record {
        let goal = self.goal();
        let record = Record::new(TASK.name, group.link.evidence(), self.seed)
            .with("kind", kind.name())
            .with("link", group.link.name())
            .with("topology", group.topology.name())
            .with("size", group.size)
            .with("threads", u64::from(group.threads))
            .with("queue", self.queue)
            .with("goal", self.goal.name())
            .with("loss", goal.loss_ratio)
            .with("exceed", goal.exceed_ratio)
            .with("seconds", goal.final_trial_s)
            .with("sum", self.sum.as_secs_f64())
            .with("width", goal.width)
            .with("limit", self.limit.as_secs_f64())
            .with("tolerance", self.tolerance.as_secs_f64())
            .with("tries", self.tries)
            .with("repeat", self.repeat);
        let record = match rate {
            Rate::Of(rate) => record.with("rate", rate),
            Rate::Part(part) => record.with("part", part),
        };
        let record = match self.rate_max {
            Some(max) => record.with("rate_max", max),
            None => record,
        };
        match kind {
            Kind::Arithmetic => record,
            Kind::Memory => record.with("buffer", self.buffer),
            Kind::Operator { .. } => record
                .with("item", self.item)
                .with("backend", self.backend.as_str()),
        }
    }
}

impl GoalName {
    fn name(self) -> &'static str {
        match self {
            Self::Pdr => "pdr",
            Self::Ndr => "ndr",
        }
    }
}

impl Group {
    /// Bytes of a frame in a buffer, which has no check sequence.
    fn frame_bytes(&self) -> usize {
        self.size as usize - FCS_BYTES
    }
}

impl Cores {
    /// Cores that do the system's work: threads that share one have one together.
    fn count(&self, threads: u32) -> u32 {
        match self.system.len() as u32 {
            // Not pinned: the kernel gives each one.
            0 => threads,
            cores => cores.min(threads),
        }
    }

    /// True if no two threads share a core, the generator's with them.
    fn are_own(&self, threads: u32) -> bool {
        let has_tester = self.tester.iter().any(|core| self.system.contains(core));
        !has_tester && self.system.len() == threads as usize
    }
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            size,
            threads,
            link,
            topology,
        } = self;
        let (link, topology) = (link.name(), topology.name());
        write!(f, "{link} {topology}, {size} B, {threads} threads")
    }
}

fn outcome_of(why: &Broken) -> Outcome {
    let reason = why.to_string();
    match why {
        Broken::Absent(_) => Outcome::Unsupported { reason },
        Broken::Wrong(_) => Outcome::Failed { reason },
        Broken::Interrupted => Outcome::Interrupted,
    }
}

#[cfg(test)]
mod tests;
