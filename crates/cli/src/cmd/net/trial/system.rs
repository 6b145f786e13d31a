//! The system under test: a program of dpb between two ports in memory, or whatever lies between two ports of this machine.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use clap::ValueEnum;
use dpb_core::measure::Record;
use dpb_core::port::PortStats;
use dpb_core::{Clock, Evidence, PacketPort};
use dpb_net::pipeline::WhenFull;
use dpb_net::port::pair_of;
use dpb_net::trial::{Drops, Foreign, Hosted, SystemUnderTest};
use dpb_net::wire::{self, Wire};

use super::super::bench::{Place, host};
use super::super::ports::PortName;
use super::super::program::{
    CommonFlags, EspFlags, FirewallFlags, FlowFlags, NatFlags, Program, ProgramFlags, ProgramName,
    Rings, Setting, loops, usual,
};
use super::super::traffic::word;
use crate::Globals;
use crate::args::{self, List};
use crate::exit::Failure;

const SYSTEM: &str = "The system under test";

/// Bursts that a ring to another core holds.
const DEPTH: usize = 8;

/// Flags that say what is under test.
#[derive(Debug, clap::Args)]
pub(in crate::cmd::net) struct SystemFlags {
    /// A program of dpb between two ports in memory: bridge, forward, nat44, encrypt, decrypt, firewall; or several one behind another,
    /// as encrypt,decrypt (what is encrypted alone nobody recognises)
    #[arg(long, value_name = "NAMES", help_heading = SYSTEM, default_value = "bridge")]
    program: Programs,
    /// Where the program runs
    #[arg(long, help_heading = SYSTEM, value_enum, value_delimiter = ',', default_value = "threads")]
    place: Vec<Place>,
    /// Threads of the program; with several, one more spreads flows over them
    #[arg(long, value_name = "COUNTS", help_heading = SYSTEM, value_parser = args::thread_counts, default_value = "1")]
    threads: List<u64>,
    /// Packets that a port in memory holds: what comes while it is full is refused, and counts as lost
    #[arg(long, value_name = "COUNT", help_heading = SYSTEM, value_parser = args::count, default_value = "1024")]
    queue: u64,
    /// Plant faults on the way to the program: loss=1%,duplicates=0.1%,reordering=0.2%,corruption=0.01%. The record is emulated then
    #[arg(long, value_name = "TEXT", help_heading = SYSTEM)]
    faults: Option<Faults>,
    /// Instead of a program: the port that packets are sent to, as af-packet:eth0
    #[arg(long, value_name = "PORT", help_heading = SYSTEM, requires = "to", conflicts_with_all = ["program", "place", "threads", "faults", "queue"])]
    from: Option<PortName>,
    /// The port at which they arrive
    #[arg(long, value_name = "PORT", help_heading = SYSTEM, requires = "from")]
    to: Option<PortName>,
    /// Flows that each thread's firewall or NAT knows at most
    #[arg(long, value_name = "COUNT", help_heading = SYSTEM, value_parser = args::count, default_value = "65536")]
    program_flows: u64,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    esp: EspFlags,
    #[command(flatten)]
    nat: NatFlags,
    #[command(flatten)]
    firewall: FirewallFlags,
}

/// Programs one behind another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Programs(Vec<ProgramName>);

/// Planted faults, in parts of a million.
#[derive(Clone, Debug, PartialEq)]
struct Faults {
    text: String,
    plan: wire::Plan,
}

/// One system to be tested.
#[derive(Clone, Copy, Debug)]
pub(in crate::cmd::net) enum Choice<'a> {
    /// A program in memory.
    Program {
        flags: &'a SystemFlags,
        place: Place,
        threads: u64,
    },
    /// Whatever lies between two ports.
    Ports {
        from: &'a PortName,
        to: &'a PortName,
    },
}

/// Two ports and what lies between them, ready for trials.
pub(in crate::cmd::net) struct Bench {
    pub(in crate::cmd::net) from: Box<dyn PacketPort>,
    pub(in crate::cmd::net) to: Box<dyn PacketPort>,
    pub(in crate::cmd::net) system: Box<dyn SystemUnderTest>,
    /// The program, if it is one of dpb's.
    program: Option<Program>,
    /// The wire with planted faults, if there is one.
    wire: Option<Wire>,
    /// What both ports had counted at the start.
    before: [PortStats; 2],
}

impl Bench {
    fn new(
        mut from: Box<dyn PacketPort>,
        mut to: Box<dyn PacketPort>,
        system: Box<dyn SystemUnderTest>,
    ) -> Self {
        let before = [from.stats(), to.stats()];
        Self {
            from,
            to,
            system,
            program: None,
            wire: None,
            before,
        }
    }

    /// The record with the program's parameters and backends, and what its figures rest on.
    pub(in crate::cmd::net) fn note(&self, record: Record) -> Record {
        let Some(program) = &self.program else {
            return record;
        };
        // What a program calls its flows is the size of its table: `program_flows` here, beside the flows of the traffic.
        let own = record.parameters.clone();
        let mut record = program.note(record);
        record.parameters.extend(own);
        let evidence = program.evidence();
        if evidence != Evidence::Measured && record.evidence == Evidence::Measured {
            record.evidence = evidence;
        }
        record
    }

    /// Adds what ports say that they lost themselves, counts of the program beside those of packets, and the faults that were planted: of all trials, that to warm up included.
    pub(in crate::cmd::net) fn note_counts(&mut self, record: &mut Record) {
        let now = [self.from.stats(), self.to.stats()];
        let [from, to] = std::array::from_fn(|i| now[i].since(&self.before[i]));
        for (name, lost) in [
            ("from_port_lost", from.send_lost.total()),
            ("to_port_lost", to.receive_lost.total()),
        ] {
            if lost > 0 {
                record.counts.insert(name.to_owned(), lost);
            }
        }
        for (name, count) in self.counts() {
            record.counts.insert(name.to_owned(), count);
        }
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counts = self.program.as_ref().map_or_else(Vec::new, Program::counts);
        if let Some(wire) = &self.wire {
            let [there, _] = wire.planted();
            counts.extend([
                ("planted_lost", there.lost),
                ("planted_duplicated", there.duplicated),
                ("planted_corrupted", there.corrupted),
                ("planted_reordered", there.reordered),
            ]);
        }
        counts
    }
}

impl SystemFlags {
    /// True if something else than a program of dpb is under test.
    pub(in crate::cmd::net) fn is_elsewhere(&self) -> bool {
        self.from.is_some()
    }

    /// True if this is one of the programs.
    pub(in crate::cmd::net) fn has(&self, name: ProgramName) -> bool {
        self.program.0.contains(&name)
    }

    /// True if a firewall has rules.
    pub(in crate::cmd::net) fn has_rules(&self) -> bool {
        self.firewall.rules.is_some()
    }

    /// The program, for so many threads.
    fn program(
        &self,
        threads: u64,
        clock: &Arc<dyn Clock>,
        seed: u64,
        globals: &Globals,
    ) -> Result<Program, Failure> {
        let flags = ProgramFlags {
            common: self.common.clone(),
            esp: self.esp.clone(),
            nat: self.nat.clone(),
            firewall: self.firewall.clone(),
            flows: FlowFlags {
                flows: self.program_flows,
            },
            recognition: usual(),
        };
        let shards = u16::try_from(threads).unwrap_or(u16::MAX);
        let setting = Setting::in_memory(2, shards, seed, Arc::clone(clock));
        let program = flags.program(&self.program.0, &setting, globals)?;
        match program.modelled() {
            Some(backend) => Err(Failure::usage(format!(
                "--backend {backend}: a model has a time of its own, and packets do not wait for it; `dpb op` measures with it"
            ))),
            None => Ok(program),
        }
    }

    /// Each system that is asked for. On the trial's thread there is one, whatever the threads.
    pub(in crate::cmd::net) fn each(&self) -> Vec<Choice<'_>> {
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            return vec![Choice::Ports { from, to }];
        }
        let mut all = Vec::new();
        for &place in &self.place {
            let program = |threads| Choice::Program {
                flags: self,
                place,
                threads,
            };
            match place {
                Place::Threads => all.extend(self.threads.iter().map(|&n| program(n))),
                Place::Inline => all.push(program(1)),
            }
        }
        all
    }
}

impl Choice<'_> {
    /// Threads at work beside that of the trial.
    pub(in crate::cmd::net) fn threads(self) -> u64 {
        match self {
            Self::Program {
                place: Place::Threads,
                threads,
                ..
            } => threads + u64::from(threads > 1),
            _ => 0,
        }
    }

    /// Packets that wait in the port of a program in memory, at most; of other systems nobody knows.
    pub(in crate::cmd::net) fn queue(self) -> u64 {
        match self {
            Self::Program { flags, .. } => flags.queue,
            Self::Ports { .. } => 0,
        }
    }

    /// What its figures rest on.
    pub(in crate::cmd::net) fn evidence(self) -> Evidence {
        match self {
            Self::Program { flags, .. } if flags.faults.is_some() => Evidence::Emulated {
                by: "a wire with planted faults".to_owned(),
            },
            Self::Program { .. } => Evidence::of_this_cpu(),
            Self::Ports { from, to } => match from.evidence() {
                Evidence::Measured => to.evidence(),
                other => other,
            },
        }
    }

    /// The record with its parameters.
    pub(in crate::cmd::net) fn note(self, record: Record) -> Record {
        match self {
            Self::Program {
                flags,
                place,
                threads,
            } => {
                let mut record = record
                    .with("link", "memory")
                    .with("place", word(place))
                    .with("threads", threads)
                    .with("queue", flags.queue);
                let knows_flows = [ProgramName::Nat44, ProgramName::Firewall];
                if flags
                    .program
                    .0
                    .iter()
                    .any(|name| knows_flows.contains(name))
                {
                    record = record.with("program_flows", flags.program_flows);
                }
                match &flags.faults {
                    Some(faults) => record.with("faults", faults.text.as_str()),
                    None => record,
                }
            }
            Self::Ports { from, to } => record
                .with("link", from.kind())
                .with("from", from.to_string())
                .with("to", to.to_string()),
        }
    }

    /// Opens it. What the program knows of flows ends by `flow_clock`. Its threads stay on `cores`, if there are any.
    ///
    /// # Errors
    /// Exit 3 with the reason.
    pub(in crate::cmd::net) fn open(
        self,
        clock: &Arc<dyn Clock>,
        flow_clock: &Arc<dyn Clock>,
        cores: &[u32],
        seed: u64,
        globals: &Globals,
    ) -> Result<Bench, Failure> {
        let (flags, place, threads) = match self {
            Self::Program {
                flags,
                place,
                threads,
            } => (flags, place, threads),
            Self::Ports { from, to } => {
                let (from, to) = (from.open(clock)?, to.open(clock)?);
                return Ok(Bench::new(from, to, Box::new(Foreign)));
            }
        };
        let program = flags.program(threads, flow_clock, seed, globals)?;
        let queue = flags.queue as usize;
        let [output, to] = pair_of(queue);
        let (from, input, wire): (Box<dyn PacketPort>, Box<dyn PacketPort>, _) = match &flags.faults
        {
            None => {
                let [from, input] = pair_of(queue);
                (Box::new(from), Box::new(input), None)
            }
            Some(faults) => {
                let there = wire::Plan {
                    seed,
                    packets_max: queue,
                    ..faults.plan.clone()
                };
                let plans = [there, wire::Plan::default()];
                let (wire, [from, input]) = Wire::new(Arc::clone(clock), plans);
                (Box::new(from), Box::new(input), Some(wire))
            }
        };
        let rings = Rings {
            bursts: DEPTH,
            when_full: WhenFull::Hold,
        };
        let ports = vec![input, Box::new(output) as Box<dyn PacketPort>];
        let loops = loops(&program, ports, threads as usize, rings, |looped| {
            Box::new(looped)
        });
        let hosted = host(loops, place, cores, clock);
        let hosted = hosted.map_err(Failure::unavailable)?;
        let system: Box<dyn SystemUnderTest> = match wire.clone() {
            None => Box::new(hosted),
            Some(wire) => Box::new(Faulty {
                hosted,
                wire,
                told: 0,
                corrupts: (flags.faults.as_ref()).is_some_and(|it| it.plan.corrupt_ppm > 0),
            }),
        };
        Ok(Bench {
            program: Some(program),
            wire,
            ..Bench::new(from, Box::new(to), system)
        })
    }
}

/// A program behind a wire that loses packets, and counts them.
struct Faulty {
    hosted: Hosted,
    wire: Wire,
    told: u64,
    corrupts: bool,
}

impl SystemUnderTest for Faulty {
    fn turn(&mut self) -> io::Result<()> {
        self.hosted.turn()
    }

    fn is_idle(&mut self) -> io::Result<bool> {
        let [there, _] = self.wire.planted();
        Ok(there.waiting == 0 && self.hosted.is_idle()?)
    }

    fn drops(&mut self) -> io::Result<Drops> {
        let [there, _] = self.wire.planted();
        let mut drops = self.hosted.drops()?;
        let lost = there.lost - self.told;
        self.told = there.lost;
        if lost > 0 {
            drops.reasons.push(("planted loss".to_owned(), lost));
        }
        // A stamp whose mark is damaged is a stranger's: nobody can tell that it is the packet that is missing.
        drops.are_complete &= !self.corrupts;
        Ok(drops)
    }
}

impl FromStr for Programs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |name: &str| {
            <ProgramName as ValueEnum>::from_str(name.trim(), false).map_err(|_| {
                format!(
                    "`{name}` is no program; there are bridge, forward, nat44, encrypt, decrypt and firewall"
                )
            })
        };
        text.split(',').map(one).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|name| name.name()).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = wire::Plan::default();
        for part in text.split(',') {
            let (name, share) = part.split_once('=').unwrap_or((part, ""));
            let ppm = (args::share(share)? * 1e6).round() as u32;
            *match name.trim() {
                "loss" => &mut plan.loss_ppm,
                "duplicates" => &mut plan.duplicate_ppm,
                "reordering" => &mut plan.reorder_ppm,
                "corruption" => &mut plan.corrupt_ppm,
                other => {
                    return Err(format!(
                        "`{other}` is none of loss, duplicates, reordering, corruption"
                    ));
                }
            } = ppm;
        }
        Ok(Self {
            text: text.to_owned(),
            plan,
        })
    }
}

impl fmt::Display for Choice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program {
                flags,
                place,
                threads,
            } => write!(f, "{}, {}, {threads} threads", flags.program, word(*place)),
            Self::Ports { from, to } => write!(f, "{from} to {to}"),
        }
    }
}
