//! `dpb net app-recognition`: packets hashed, compressed or sent back by what their flows are; on the host, or with a part of it on the side of a DPU. DPUBench's
//! second end-to-end program.

pub(super) mod operators;
mod program;
pub(super) mod right;
mod show;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use dpb_core::measure::{Evidence, Outcome, Record};
use dpb_core::{Backend, Executor, OpSpec};
use dpb_net::flow::Timeouts;
use dpb_net::programs::Engine;
use dpb_net::programs::app_recognition::{Policy, RuleEngine, Settings};
use dpb_net::recognition::{self, Applications};
use dpb_net::traffic::application::{Application, Applications as Said};
use dpb_net::traffic::{
    Generator, Profile, Replay, Rewrite, Schedule, Start, Traffic, TrafficError,
};

use super::bench::cores;
use super::end_to_end::{Load, LoadFlags};
use super::traffic::{Chosen, TRAFFIC, TrafficFlags, captured, word};
use crate::args::{self, List};
use crate::cmd::sweep::{Results, RunFlags};
use crate::exit::Failure;
use crate::output::Progress;
use crate::report::published;
use crate::task::{Cost, Parameter, Task, flags, recorded_by_name};
use crate::{Globals, interrupt};

use operators::{Compression, Specs};

const PROGRAM: &str = "The program";

/// The task: application recognition, on the host and on the side of a DPU.
pub const TASK: Task = Task {
    name: "net app-recognition",
    summary: "packets hashed, compressed or sent back by the application of their flow",
    example: "dpb net app-recognition --size 512 --interval 100us",
    apart: &["out"],
    prepare: None,
    shared_file: None,
    view: show::VIEW,
    check,
    cost,
    recorded,
    published: Some(published::app_recognition),
    server_end: None,
};

/// What flows say where nothing else is asked for: today's mix, and some flows that only rules know.
const PRIVATE_WEIGHT: f64 = 4.0;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Figures 15 and 16 of DPUBench: the server's CPU time and the latency, the program on the server or with its recognition on a DPU. All links are memory, and \
                  both sides are cores of this machine: the host's, which also sends and receives, and another one as the DPU's.\n\
                  --size is that of packets without a message of their conversation: at least 76 bytes, over IPv6 96.\n\
                  Sides:\n  host     everything on the host's core\n  \
                  dpu      flows are recognised on the other core; packets are hashed and compressed on the host's\n  \
                  dpu-all  everything on the other core\n\
                  A policy has lines KIND=ACTION; a kind is a protocol (tls, quic, http, dns, …), an application (youtube, …), rule, undecided or other; an action is hash, \
                  compress, back, drop or pass; back and pass are one here.\n\
                  Examples:\n  dpb net app-recognition\n  \
                  dpb net app-recognition --size 64,512,1518 --interval 200us,50us --compression lz4\n  \
                  dpb net app-recognition --policy tls=hash,youtube=drop,http=compress\n  \
                  dpb net app-recognition --capture in.pcapng --rate 20k --rules my.rules"
)]
pub struct Args {
    #[command(flatten)]
    traffic: TrafficFlags,
    /// Play this capture instead, over and over, with other addresses each time
    #[arg(long, value_name = "FILE", help_heading = TRAFFIC)]
    capture: Option<PathBuf>,
    #[command(flatten)]
    load: LoadFlags,
    /// The sides to compare, each with records of its own: host, dpu, dpu-all
    #[arg(long, value_name = "NAMES", help_heading = PROGRAM, value_parser = args::words, default_value = "host,dpu")]
    side: List<String>,
    /// What is done with packets, by what their flows are
    #[arg(long, value_name = "TEXT", help_heading = PROGRAM, default_value = "tls=hash,http=compress,dns=back,quic=back,rule=compress,other=back")]
    policy: String,
    /// The operator that compresses payloads
    #[arg(long, help_heading = PROGRAM, value_enum, default_value = "deflate")]
    compression: Compression,
    /// Regular expressions for flows that no reader knows, as Hyperscan's tools have them [default: a few of dpb's own]
    #[arg(long, value_name = "FILE", help_heading = PROGRAM)]
    rules: Option<PathBuf>,
    /// The backends that hash, compress and match rules, by names of `dpb list backends`; no model
    #[arg(long, value_name = "NAMES", help_heading = PROGRAM, value_parser = crate::backends::names, default_value = "cpu/best")]
    backend: List<String>,
    /// Flows that the program has room for
    #[arg(long, value_name = "COUNT", help_heading = PROGRAM, value_parser = args::count, default_value = "65536")]
    capacity: u64,
    /// A flow without a packet for so long ends
    #[arg(long, value_name = "TIME", help_heading = PROGRAM, value_parser = args::duration, default_value = "30")]
    timeout: Duration,
    #[command(flatten)]
    runs: RunFlags,
}

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Host,
    Dpu,
    DpuAll,
}

impl Side {
    const ALL: [Self; 3] = [Self::Host, Self::Dpu, Self::DpuAll];

    fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Dpu => "dpu",
            Self::DpuAll => "dpu-all",
        }
    }
}

/// One test: a value for every parameter but the side, which are all measured.
#[derive(Clone, Copy, Debug)]
struct Test<'a> {
    chosen: Chosen<'a>,
    load: Load,
    backend: &'a str,
}

/// The operators of a program, on one backend.
#[derive(Clone, Debug)]
struct Engines {
    hash: Engine,
    compress: Engine,
    rules: RuleEngine,
    compression: Compression,
    evidence: Evidence,
    /// True if the backend works on threads of its own, whose time no meter counts.
    has_own_threads: bool,
}

fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    flags::<Args>(matches)?.check()
}

fn recorded(parameter: &Parameter, record: &Record) -> Option<String> {
    recorded_by_name(parameter, record)
}

fn cost(matches: &ArgMatches) -> Cost {
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let tests = (args.tests().len() * args.side.0.len()) as u32;
    Cost {
        once: tests * (args.runs.warm_up() + Duration::from_millis(500)),
        each_run: tests * (args.runs.seconds() + Duration::from_millis(300)),
        memory_bytes: 512 << 20,
        disk_bytes: 0,
    }
}

/// Runs every combination.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    args.check()?;
    let sides = args.sides()?;
    let replay = args.replay()?;
    let tests = args.tests();
    args.runs.say_sharing(2);
    let mut results = Results::new(&args.runs, globals)?;
    let asked = tests.len() * sides.len();
    let progress = Progress::of_task(asked as u64, globals);
    for (at, test) in tests.iter().enumerate() {
        let mut host: Option<Record> = None;
        for (nth, side) in sides.iter().enumerate() {
            if interrupt::is_set() {
                break;
            }
            progress.set(
                (at * sides.len() + nth) as u64,
                &format!("{test}, {}", side.name()),
            );
            let mut record = args.measure(test, *side, replay.clone(), globals);
            match (side, &host) {
                (Side::Host, _) => host = Some(record.clone()),
                (_, Some(host)) => note_saved(&mut record, host),
                (_, None) => {}
            }
            results.keep(record)?;
        }
    }
    drop(progress);
    results.print(show::for_people, show::for_machines)?;
    results.judge(asked)
}

/// What a side saves of the host's figures, run by run.
fn note_saved(record: &mut Record, host: &Record) {
    for (saved, figure) in [
        ("server_cpu_saved", "server_cpu_share"),
        ("latency_saved", "latency_ns_p50"),
    ] {
        if let (Some(host), Some(own)) = (host.samples.get(figure), record.samples.get(figure)) {
            let pairs = own.values.iter().zip(&host.values);
            let each = pairs.filter(|(_, host)| **host > 0.0);
            let each: Vec<f64> = each.map(|(own, host)| 1.0 - own / host).collect();
            record.sample(saved, each);
        }
    }
}

impl Args {
    fn sides(&self) -> Result<Vec<Side>, Failure> {
        let side = |name: &String| {
            let known = Side::ALL.into_iter().find(|side| side.name() == name);
            known.ok_or_else(|| {
                Failure::usage(format!(
                    "--side {name}: there is no such side; there are host, dpu, dpu-all"
                ))
            })
        };
        self.side.iter().map(side).collect()
    }

    fn tests(&self) -> Vec<Test<'_>> {
        let mut tests = Vec::new();
        for chosen in self.traffic.each() {
            for load in self.load.loads(10) {
                tests.extend(self.backend.iter().map(|backend| Test {
                    chosen,
                    load,
                    backend,
                }));
            }
        }
        tests
    }

    fn check(&self) -> Result<(), Failure> {
        self.sides()?;
        self.policy()?;
        for chosen in self
            .traffic
            .each()
            .into_iter()
            .filter(|_| self.capture.is_none())
        {
            self.generator(chosen, 0)
                .map_err(|why| Failure::usage(format!("--size {}: {why}", chosen.size)))?;
        }
        for load in self.load.loads(10) {
            let schedule = Schedule::constant(load.packets_per_s());
            (schedule.departures()).map_err(|error| Failure::usage(error.to_string()))?;
        }
        self.runs.check()
    }

    fn policy(&self) -> Result<Policy, Failure> {
        let policy = Policy::read(&self.policy, &Applications::built_in());
        policy.map_err(|why| Failure::usage(format!("--policy {}: {why}", self.policy)))
    }

    /// The packets of the capture, if there is one.
    fn replay(&self) -> Result<Option<Arc<Replay>>, Failure> {
        let Some(path) = &self.capture else {
            return Ok(None);
        };
        let rewrite = Rewrite::Addresses {
            seed: self.runs.seed,
            v4_bits: 24,
            v6_bits: 32,
        };
        Ok(Some(Arc::new(captured(path, rewrite)?)))
    }

    /// The traffic of a trial. Each trial has other clients and other conversations, so that no flow comes twice; and flows begin with their first packet.
    fn profile(&self, chosen: Chosen<'_>, trial: u64) -> Profile {
        let mut profile = self
            .traffic
            .profile(self.runs.seed.wrapping_add(trial), chosen);
        profile.flows.start = Start::Cold;
        let clients = 1 << profile.addresses.client_bits;
        let shift = (trial % 64) as u32;
        profile.addresses.clients_v4 = (profile.addresses.clients_v4).wrapping_add(shift * clients);
        profile.addresses.clients_v6 += u128::from(trial % 64) << 48;
        let said = profile.applications.get_or_insert_with(|| {
            let mut said = Said::today();
            said.shares.push((Application::Private, PRIVATE_WEIGHT));
            said
        });
        said.conversations = said.conversations.min(32);
        profile
    }

    /// What flows say, as a flag has it.
    fn said(&self, chosen: Chosen<'_>) -> String {
        let said = self.profile(chosen, 0).applications;
        let shares = said.map(|said| said.shares).unwrap_or_default();
        let each = shares
            .iter()
            .map(|(application, weight)| format!("{}={weight}", application.name()));
        each.collect::<Vec<_>>().join(",")
    }

    fn settings(&self, policy: Policy) -> Settings {
        let ms = u32::try_from(self.timeout.as_millis())
            .unwrap_or(u32::MAX)
            .max(1);
        Settings {
            flows: self.capacity as usize,
            timeouts: Timeouts {
                datagrams_ms: ms,
                icmp_ms: ms,
                established_ms: ms,
                transitory_ms: ms,
                closed_ms: ms,
                turn_ms: (ms / 10).clamp(1, 1000),
            },
            seed: self.runs.seed,
            recognizer: recognition::Settings {
                seed: self.runs.seed,
                ..recognition::Settings::default()
            },
            policy,
            applications: Applications::built_in(),
        }
    }

    /// The operators, ready. `Err` has the outcome of a test that cannot have them.
    fn engines(&self, name: &str, globals: &Globals) -> Result<Engines, Outcome> {
        let unsupported = |reason: String| Outcome::Unsupported { reason };
        let backend = globals.families.open(name);
        let backend: Arc<dyn Backend> = backend.map_err(|why| unsupported(why.to_string()))?.into();
        let properties = backend.properties();
        if matches!(properties.evidence, Evidence::Simulated { .. }) {
            return Err(unsupported(format!(
                "{name} is a model, whose time is virtual; packets come by the clock of this machine"
            )));
        }
        let specs = Specs::new(self.rules.as_deref(), self.compression, globals.operators);
        let specs = specs.map_err(unsupported)?;
        let engine = |spec: &OpSpec| {
            let engine = Engine::new(Arc::clone(&backend), spec, program::DEPTH, program::BURST);
            engine.map_err(|why| unsupported(format!("{spec} on {name}: {why}")))
        };
        let rules = RuleEngine::new(engine(&specs.rules)?);
        Ok(Engines {
            hash: engine(&specs.hash)?,
            compress: engine(&specs.compress)?,
            rules: rules.map_err(|why| unsupported(why.to_string()))?,
            compression: self.compression,
            evidence: properties.evidence,
            has_own_threads: matches!(properties.made_of.executor, Executor::Workers { .. }),
        })
    }

    fn record(&self, test: &Test<'_>, side: Side, evidence: Evidence) -> Record {
        let record = self.traffic.note(
            Record::new(TASK.name, evidence, self.runs.seed),
            test.chosen,
        );
        let record = record
            .with("side", side.name())
            .with("policy", self.policy.as_str())
            .with("compression", word(self.compression))
            .with("backend", test.backend)
            .with("capacity", self.capacity)
            .with("timeout", self.timeout.as_secs_f64())
            .with("tolerance", self.load.tolerance(true).as_secs_f64())
            .with("queue", self.load.queue() as u64)
            .with("link", "memory");
        let record = match &self.capture {
            Some(path) => record.with("capture", path.display().to_string()),
            None => record.with("application", self.said(test.chosen)),
        };
        let record = match &self.rules {
            Some(path) => record.with("rules", path.display().to_string()),
            None => record,
        };
        let mut record = self.runs.note(test.load.note(record));
        record.provenance.pinned = self.cores();
        record
    }

    /// The cores of the host and of the DPU.
    fn cores(&self) -> Vec<u32> {
        cores(self.runs.pins(), 2)
    }

    /// One side of a test, as one record whatever comes of it.
    fn measure(
        &self,
        test: &Test<'_>,
        side: Side,
        replay: Option<Arc<Replay>>,
        globals: &Globals,
    ) -> Record {
        let engines = match self.engines(test.backend, globals) {
            Ok(engines) => engines,
            Err(outcome) => {
                let record = self.record(test, side, Evidence::of_this_cpu());
                return record.without_numbers(outcome);
            }
        };
        let mut record = self.record(test, side, engines.evidence.clone());
        for engine in [&engines.hash, &engines.compress] {
            if let Some(code) = engine.backend.code(engine.operator.spec()) {
                let libraries = &mut record.provenance.libraries;
                libraries.insert(engine.operator.spec().name().to_owned(), code);
            }
        }
        let measured =
            program::measure(self, test, side, &engines, replay, record.clone(), globals);
        measured.unwrap_or_else(|reason| record.without_numbers(Outcome::Failed { reason }))
    }

    /// Frames without a message are as long as headers and stamp need, where they are asked to be shorter.
    fn generator(&self, chosen: Chosen<'_>, trial: u64) -> Result<Generator, String> {
        let mut profile = self.profile(chosen, trial);
        loop {
            match Generator::new(&profile) {
                Err(TrafficError::TooShort { needed, .. }) => {
                    profile.sizes = profile.sizes.at_least(needed);
                }
                made => return made.map_err(|error| error.to_string()),
            }
        }
    }
}

/// The traffic of a trial, and who made it.
#[derive(Clone)]
enum Offered {
    Made(Arc<Generator>),
    Played(Arc<Replay>),
}

impl Offered {
    fn traffic(&self) -> Arc<dyn Traffic> {
        match self {
            Self::Made(generator) => Arc::clone(generator) as Arc<dyn Traffic>,
            Self::Played(replay) => Arc::clone(replay) as Arc<dyn Traffic>,
        }
    }
}

impl std::fmt::Display for Test<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (size, flows) = (self.chosen.size, self.chosen.flows);
        write!(
            f,
            "{size} B, {flows} flows, {}, {}",
            self.load, self.backend
        )
    }
}
