//! What the verbs that run a program on ports share: flags, threads, and how it ends.
//!
//! With one thread a loop has all ports. With more, each thread has its own end of every port where the ports can be shared so that both directions of a flow come to one
//! thread: AF_PACKET's fanout does that. Where they cannot, one more thread receives, spreads packets by a hash and sends what comes back.

mod show;
mod watched;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use dpb_core::measure::provenance::allowed_cpus;
use dpb_core::measure::{Durability, Outcome, Record};
use dpb_core::{Clock, Evidence, PacketPort, SetupError, Timer, WallClock};
use dpb_net::pipeline::{
    Account, Idle, Make, Settings, Shard, WhenFull, Work, Workers, WorkersError,
};
use dpb_net::port::ethernet_address;

use super::ports::PortName;
use super::program::{Program, ProgramFlags, ProgramName, Rings, Setting, loops, made_up_address};
use crate::args::{self, List};
use crate::exit::Failure;
use crate::output;
use crate::{Globals, interrupt};
use watched::{Watched, Watcher};

const RUN: &str = "The run";

/// The flags of such a verb: those of its program, `F`, and how it runs.
#[derive(Debug, clap::Args)]
pub struct Args<F: clap::Args> {
    /// A port, twice at least; the first is number 0
    #[arg(long = "port", value_name = "PORT", help_heading = RUN, required = true)]
    ports: Vec<PortName>,
    #[command(flatten)]
    flags: F,
    /// Threads that work on packets, each on flows of its own
    #[arg(long, value_name = "COUNT", help_heading = RUN, default_value = "1", value_parser = args::threads)]
    threads: u64,
    /// Run for so long at most [default: until an interrupt]. With captures alone the end of all of them is the run's
    #[arg(long, value_name = "TIME", help_heading = RUN, value_parser = args::duration)]
    seconds: Option<Duration>,
    /// Pin the threads to these cores, in order
    #[arg(long, value_name = "NUMBERS", help_heading = RUN, value_parser = args::numbers)]
    pin: Option<List<u64>>,
    /// A thread without packets looks again at once, lets other threads have its core, or sleeps for 50 microseconds
    #[arg(long, help_heading = RUN, value_enum, default_value = "yield")]
    idle: IdleName,
    /// What is done with packets for which a port or a thread has no room: they are dropped and counted, or nothing is received until there is room [default: drop; with captures
    /// alone, hold]
    #[arg(long, help_heading = RUN, value_enum)]
    when_full: Option<WhenFullName>,
    /// Seed of hashes and of outside ports, which nobody outside should know, and of a key that is no secret [default: drawn]
    #[arg(long, value_name = "NUMBER", help_heading = RUN)]
    seed: Option<u64>,
    /// Append the record to this file, in a folder that is there
    #[arg(long, value_name = "FILE", help_heading = RUN)]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IdleName {
    Spin,
    Yield,
    Sleep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WhenFullName {
    Drop,
    Hold,
}

/// The flags of one program.
pub trait Flags: clap::Args {
    /// The program.
    const PROGRAM: ProgramName;

    /// The words of its verb, by which records name it.
    fn verb() -> String {
        format!("net {}", Self::PROGRAM.name())
    }

    /// As flags of any program.
    fn into_flags(self) -> ProgramFlags;
}

/// So often the end is looked for, and counts for progress.
const LOOK: Duration = Duration::from_millis(20);
/// Time for packets to leave, after the end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bursts of a ring between threads, at most.
const RING_BURSTS: usize = 64;

/// Runs the program until its time is over, or an interrupt.
pub fn run<F: Flags>(args: Args<F>, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    let name = F::verb();
    let pins = args.check()?;
    let clock = Arc::new(WallClock::default());
    let mut record = Record::new(&name, Evidence::of_this_cpu(), 0);
    let run = Run {
        threads: args.threads as usize,
        seed: args.seed.unwrap_or_else(|| drawn(&record)),
        has_seed: args.seed.is_some(),
        epoch: epoch()?,
        ports: args.ports,
        seconds: args.seconds,
        pins,
        idle: args.idle.idle(),
        when_full: args.when_full.map(WhenFullName::when_full),
        clock,
    };
    let setting = run.setting()?;
    let flags = args.flags.into_flags();
    run.warn(F::PROGRAM, &flags)?;
    let program = flags.program(&[F::PROGRAM], &setting, globals)?;
    if let Some(backend) = program.modelled() {
        return Err(Failure::usage(format!(
            "--backend {backend}: a model has a time of its own, and packets of ports do not wait for it; `dpb op` measures with it"
        )));
    }
    let mut store = match &args.out {
        Some(path) => Some(output::open_records(path, Durability::Machine)?),
        None => None,
    };
    record.evidence = evidence(&program, &run.ports);
    let ended = run.run(&name, &program, globals)?;
    run.warn_of_lost(&ended);
    let record = show::record(record, &run, &program, &ended, globals);
    if let Some(store) = &mut store {
        store.append(&record).map_err(anyhow::Error::from)?;
    }
    show::print(&record, &program, &ended, globals.format())?;
    match &record.outcome {
        Outcome::Failed { reason } => Err(Failure::check(format!("{name}: {reason}"))),
        Outcome::Interrupted => Err(Failure::interrupted(format!(
            "{name}: interrupted before its end"
        ))),
        _ => Ok(()),
    }
}

/// How a program runs.
struct Run {
    ports: Vec<PortName>,
    threads: usize,
    seconds: Option<Duration>,
    pins: Vec<u32>,
    idle: Idle,
    when_full: Option<WhenFull>,
    seed: u64,
    has_seed: bool,
    epoch: u64,
    clock: Arc<WallClock>,
}

/// What there is at the end of a run.
struct Ended {
    accounts: Vec<Account>,
    /// Of each port that was opened, with its name.
    ports: Vec<Watcher>,
    /// The port between shards, which is the last one of the dispatcher's, if there was one.
    crossing: Option<Watcher>,
    elapsed_ns: u64,
    is_interrupted: bool,
    spread: Spreading,
}

/// How packets came to several threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spreading {
    /// There was one thread.
    None,
    /// By the ports.
    Ports,
    /// By a thread that received for the others.
    Dispatcher,
}

impl<F: clap::Args> Args<F> {
    /// Refuses what cannot be; gives the cores.
    fn check(&self) -> Result<Vec<u32>, Failure> {
        if self.ports.len() < 2 {
            return Err(Failure::usage(
                "--port: a program has two ports at least; give the flag twice",
            ));
        }
        if let Some(twice) =
            (1..self.ports.len()).find(|i| self.ports[..*i].contains(&self.ports[*i]))
        {
            return Err(Failure::usage(format!(
                "--port {}: a port is named once",
                self.ports[twice]
            )));
        }
        if self.threads > dpb_net::pipeline::rss::TABLE_ENTRIES as u64 {
            return Err(Failure::usage(format!(
                "--threads {}: flows are spread over {} at most",
                self.threads,
                dpb_net::pipeline::rss::TABLE_ENTRIES
            )));
        }
        let pins: Vec<u32> = self
            .pin
            .iter()
            .flat_map(List::iter)
            .map(|core| *core as u32)
            .collect();
        let cpus = allowed_cpus();
        let is_foreign = |core: &&u32| !cpus.is_empty() && !cpus.contains(core);
        match pins.iter().find(is_foreign) {
            Some(core) => Err(Failure::usage(format!(
                "--pin {core}: this process may not use such a core; it may use {cpus:?}"
            ))),
            None => Ok(pins),
        }
    }
}

impl Run {
    fn setting(&self) -> Result<Setting, Failure> {
        let address = |(number, port): (u16, &PortName)| match port.interface() {
            Some(interface) => ethernet_address(interface)
                .map_err(|error| Failure::unavailable(format!("port {port}: {error}"))),
            None => Ok(made_up_address(number)),
        };
        let addresses: Result<_, _> = (0..).zip(&self.ports).map(address).collect();
        Ok(Setting {
            addresses: addresses?,
            shards: self.threads as u16,
            seed: self.seed,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            epoch: self.epoch,
        })
    }

    /// Says what will not go as one may think.
    fn warn(&self, program: ProgramName, flags: &ProgramFlags) -> Result<(), Failure> {
        let cores = allowed_cpus().len().max(1);
        if self.threads > cores {
            output::note(&format!(
                "{} threads share {cores} cores: one waits for another",
                self.threads
            ));
        }
        let is_esp = matches!(program, ProgramName::Encrypt | ProgramName::Decrypt);
        match (&flags.esp.key, self.has_seed) {
            (None, false) if is_esp => {
                return Err(Failure::usage(
                    "both ends need one key: give them the same --key FILE, or the same --seed for a key that is no secret",
                ));
            }
            (None, true) if is_esp => output::note(
                "the key is made of --seed: whoever knows the seed reads what is encrypted",
            ),
            _ => {}
        }
        if program == ProgramName::Firewall && flags.firewall.rules.is_none() {
            output::note("without --rules everything is allowed");
        }
        Ok(())
    }

    /// Says that captures had packets that are none.
    fn warn_of_lost(&self, ended: &Ended) {
        for (name, port) in self.ports.iter().zip(&ended.ports) {
            let lost = port.sum(|stats| stats.receive_lost.malformed);
            if lost > 0 && matches!(name, PortName::Capture { .. }) {
                output::note(&format!(
                    "{name}: {lost} packets were cut when they were captured, or are no Ethernet frames, and are lost; capture without a snap length (tcpdump -s 0)"
                ));
            }
        }
    }

    fn has_captures_alone(&self) -> bool {
        let is_capture = |port: &PortName| matches!(port, PortName::Capture { .. });
        self.ports.iter().all(is_capture)
    }

    fn when_full(&self) -> WhenFull {
        // A file waits, a wire does not.
        let usual = match self.has_captures_alone() {
            true => WhenFull::Hold,
            false => WhenFull::Drop,
        };
        self.when_full.unwrap_or(usual)
    }

    /// True if the threads share the ports by the ports' own hash.
    fn are_shared(&self, program: &Program) -> bool {
        let is_fanout = |port: &PortName| matches!(port, PortName::AfPacket(_));
        !program.must_be_spread() && self.ports.iter().all(is_fanout)
    }

    fn run(&self, name: &str, program: &Program, globals: &Globals) -> Result<Ended, Failure> {
        let spread = match self.threads {
            1 => Spreading::None,
            _ if self.are_shared(program) => Spreading::Ports,
            _ => Spreading::Dispatcher,
        };
        let (mut watchers, mut crossing) = (Vec::new(), None);
        let loops = match spread {
            Spreading::Dispatcher => self.dispatched(program, &mut watchers, &mut crossing)?,
            _ => self.shards(program, &mut watchers)?,
        };
        let settings = Settings {
            cores: self.pins.clone(),
            idle: self.idle,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            patience: PATIENCE,
        };
        let workers = Workers::start(loops, &settings).map_err(|error| failed(name, &error))?;
        if !globals.quiet {
            let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
            output::note(&format!("dpb {name}: running on {}", ports.join(" and ")));
        }
        let start_ns = self.clock.now_ns();
        let is_interrupted = self.wait(&workers, globals);
        let elapsed_ns = self.clock.now_ns() - start_ns;
        let accounts = workers.stop().map_err(|error| failed(name, &error))?;
        Ok(Ended {
            accounts,
            ports: watchers,
            crossing,
            elapsed_ns,
            is_interrupted,
            spread,
        })
    }

    /// Opens every port for `shards`, shard by shard.
    fn open(
        &self,
        shards: usize,
        watchers: &mut Vec<Watcher>,
    ) -> Result<Vec<Vec<Box<dyn PacketPort>>>, Failure> {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let mut of_shard: Vec<Vec<Box<dyn PacketPort>>> = (0..shards).map(|_| Vec::new()).collect();
        for port in &self.ports {
            let opened = port.open_shards(shards as u32, &clock)?;
            let watcher = Watcher::new(port.to_string());
            for (shard, port) in of_shard.iter_mut().zip(opened) {
                shard.push(Box::new(Watched::new(port, watcher.clone())));
            }
            watchers.push(watcher);
        }
        Ok(of_shard)
    }

    /// A loop for each thread, with ports of its own.
    fn shards(
        &self,
        program: &Program,
        watchers: &mut Vec<Watcher>,
    ) -> Result<Vec<(String, Make)>, Failure> {
        let when_full = self.when_full();
        let loops = self.open(self.threads, watchers)?.into_iter().enumerate();
        let make = |(shard, ports): (usize, Vec<Box<dyn PacketPort>>)| {
            let (name, program) = (format!("shard {shard}"), program.clone());
            let called = name.clone();
            let make: Make = Box::new(move || {
                let (line, burst) = (program.line(shard)?, program.burst());
                let shard = Shard::new(called, ports, line, burst, when_full);
                Ok(Box::new(shard) as Box<dyn Work>)
            });
            (name, make)
        };
        Ok(loops.map(make).collect())
    }

    /// A loop that receives for the others, and those.
    fn dispatched(
        &self,
        program: &Program,
        watchers: &mut Vec<Watcher>,
        crossing: &mut Option<Watcher>,
    ) -> Result<Vec<(String, Make)>, Failure> {
        let ports = self.open(1, watchers)?.remove(0);
        let rings = Rings {
            bursts: RING_BURSTS,
            when_full: self.when_full(),
        };
        let watched = |looped| -> Box<dyn PacketPort> {
            let watcher = Watcher::new("crossing".to_owned());
            *crossing = Some(watcher.clone());
            Box::new(Watched::new(looped, watcher))
        };
        Ok(loops(program, ports, self.threads, rings, watched))
    }

    /// Waits for the end; true if an interrupt came before a time that was asked for, or before the end of captures.
    fn wait(&self, workers: &Workers, globals: &Globals) -> bool {
        let start_ns = self.clock.now_ns();
        let progress = show::Progress::new(globals.quiet);
        loop {
            self.clock.sleep(LOOK);
            let elapsed = Duration::from_nanos(self.clock.now_ns() - start_ns);
            if interrupt::is_set() {
                return self.seconds.is_some() || self.has_captures_alone();
            }
            // Loops end when nothing more can come, too.
            let is_over = self.seconds.is_some_and(|time| elapsed >= time);
            if is_over || workers.has_ended() {
                return false;
            }
            progress.show(elapsed, &show::Counts::of(workers));
        }
    }
}

impl IdleName {
    fn idle(self) -> Idle {
        match self {
            Self::Spin => Idle::Spin,
            Self::Yield => Idle::Yield,
            Self::Sleep => Idle::Sleep,
        }
    }
}

impl WhenFullName {
    fn when_full(self) -> WhenFull {
        match self {
            Self::Drop => WhenFull::Drop,
            Self::Hold => WhenFull::Hold,
        }
    }
}

impl Spreading {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ports => "ports",
            Self::Dispatcher => "dispatcher",
        }
    }
}

/// The number from which the IVs of a process count, so that a key is used for none of them twice: nanoseconds since 1970.
fn epoch() -> Result<u64, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_err(|_| Failure::unavailable("the clock of this machine stands before 1970"));
    Ok(now?.as_nanos() as u64)
}

/// The evidence of figures of a program on these ports.
fn evidence(program: &Program, ports: &[PortName]) -> Evidence {
    let mut stand_ins = Vec::new();
    let of_ports = ports.iter().map(PortName::evidence);
    for evidence in of_ports.chain([program.evidence()]) {
        match evidence {
            Evidence::Measured => {}
            Evidence::Emulated { by } if stand_ins.contains(&by) => {}
            Evidence::Emulated { by } => stand_ins.push(by),
            other => return other,
        }
    }
    match stand_ins.is_empty() {
        true => Evidence::Measured,
        false => Evidence::Emulated {
            by: stand_ins.join(" and "),
        },
    }
}

/// A seed that nobody outside knows while the program runs: the part of the record's name that is drawn.
fn drawn(record: &Record) -> u64 {
    let digits = record.id.rsplit('-').next().unwrap_or_default();
    u64::from_str_radix(digits, 16).expect("a record's name ends in a number that was drawn")
}

/// Loops that did not start, or did not end well.
fn failed(name: &str, error: &WorkersError) -> Failure {
    let why = format!("{name}: {error}");
    match error {
        WorkersError::Setup {
            error: SetupError::Unsupported(_) | SetupError::OutOfMemory { .. },
            ..
        } => Failure::unavailable(why),
        WorkersError::Setup { .. } => Failure::usage(why),
        _ => Failure::check(why),
    }
}
