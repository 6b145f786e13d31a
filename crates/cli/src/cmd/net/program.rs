//! The programs by their names: `bridge`, `forward`, `nat44`, `encrypt`, `decrypt`, `firewall`, `app-recognition`, and several one behind another.
//!
//! [`ProgramFlags::program`] checks everything that a program needs and prepares its operators, once. [`Program::stages`] then gives the stages of a shard, on the thread
//! that drives them: a [`Program`] is cheap to clone and can be sent there.
//!
//! ```text
//! let setting = Setting::in_memory(2, shards, seed, clock);
//! let program = args.program.program(&[ProgramName::Nat44], &setting, globals)?;
//! let make = move || Ok(Box::new(Shard::new(name, ports, program.line(shard)?, program.burst(), WhenFull::Drop)) as Box<dyn Work>);
//! ```
//!
//! Each packet goes through the work of all programs that are named, then to its way out: by a router with `--routes`, else from each port to the other one.

mod backends;
mod flags;
mod key;
mod loops;
mod maker;
mod recognition;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use dpb_core::measure::{Evidence, Record, Value};
use dpb_core::{Clock, ClockKind, MadeOf, SetupError};
use dpb_net::flow::RssError;
use dpb_net::flow::nat::{Behaviour, Nat};
use dpb_net::flow::toeplitz::{SYMMETRIC_KEY, Toeplitz};
use dpb_net::pipeline::{Distributor, Line, Pool, Sharding, Stage};
use dpb_net::programs::esp::{Gateway, GatewaySharding};
use dpb_net::programs::firewall::{Firewall, Policy, Rules};
use dpb_net::programs::forward::{Addresses, Router, bridge};
use dpb_net::programs::nat44::{Counts, Nat44, NatSharding, Sides};

use crate::Globals;
use recognition::Recognition;

pub use flags::{
    CommonFlags, EspFlags, FirewallFlags, FlowFlags, NatFlags, ProgramFlags, RecognitionFlags,
    usual,
};
pub use loops::{Rings, loops};
pub use recognition::Found;

/// A program, by its name on command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgramName {
    /// Each packet from one port to the other, as it is
    Bridge,
    /// By the routes of --routes; without them as bridge
    Forward,
    /// Inside addresses behind the outside ones; port 0 is inside, the others are outside
    Nat44,
    /// ESP with AES-GCM: packets of port 0 are encrypted, those of other ports decrypted
    Encrypt,
    /// The other end of encrypt: packets of port 0 are decrypted, those of other ports encrypted
    Decrypt,
    /// The rules of --rules, and the flows that they let through
    Firewall,
    /// Packets hashed, compressed, sent back or dropped by what their flows are; the others pass as they are
    AppRecognition,
}

impl ProgramName {
    /// The name as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Forward => "forward",
            Self::Nat44 => "nat44",
            Self::Encrypt => "encrypt",
            Self::Decrypt => "decrypt",
            Self::Firewall => "firewall",
            Self::AppRecognition => "app-recognition",
        }
    }
}

/// The surroundings of a program.
#[derive(Clone)]
pub struct Setting {
    /// The Ethernet address of each port, by number: a router's frames come from there.
    pub addresses: Vec<[u8; 6]>,
    /// The shards among which packets are spread, by [`Program::spread`] or, where [`Program::must_be_spread`] is false, by any hash that keeps both directions of a flow
    /// together.
    pub shards: u16,
    /// What nobody outside should know: hashes of tables, ports of a NAT. A key is made of it where none is given.
    pub seed: u64,
    /// The time by which flows end.
    pub clock: Arc<dyn Clock>,
    /// Nanoseconds since 1970 at its start: IVs of the program's packets count from there, so that a key may be used by one process after another.
    pub epoch: u64,
}

impl Setting {
    /// `ports` ports in memory, with addresses that are made up. All packets are of one epoch: a run like it gives the same bytes.
    pub fn in_memory(ports: u16, shards: u16, seed: u64, clock: Arc<dyn Clock>) -> Self {
        Self {
            addresses: (0..ports).map(made_up_address).collect(),
            shards,
            seed,
            clock,
            epoch: 0,
        }
    }

    fn ports(&self) -> u16 {
        self.addresses.len() as u16
    }
}

/// The Ethernet address of a port that has none of its own: one that is locally administered.
pub fn made_up_address(port: u16) -> [u8; 6] {
    let [high, low] = port.to_be_bytes();
    [0x02, 0, 0, 0, high, low]
}

/// A program that is ready: its rules and routes are read, its operators prepared. A clone has the same.
#[derive(Clone)]
pub struct Program(Arc<Made>);

struct Made {
    names: Vec<ProgramName>,
    works: Vec<Work>,
    way: Way,
    setting: Setting,
    burst: usize,
    depth: usize,
    mtu: u16,
    /// Flags that change what it does, as records have them.
    parameters: Vec<(&'static str, Value)>,
    engines: Vec<UsedEngine>,
    /// The NATs that have been made.
    nats: Mutex<Vec<Arc<Counts>>>,
}

/// An operator on a backend.
struct UsedEngine {
    operator: String,
    backend: String,
    evidence: Evidence,
    made_of: MadeOf,
    clock: ClockKind,
    code: Option<String>,
}

/// What is done with a packet before it leaves.
enum Work {
    Nat44 {
        behaviour: Behaviour,
        addresses: Vec<u32>,
        sessions: usize,
        sides: Sides,
    },
    Gateway(Gateway),
    Firewall(Arc<Rules>, Policy),
    Recognition(Box<Recognition>),
}

/// The way out of a packet.
enum Way {
    /// To the next port, after the last the first.
    Bridge,
    Router(Router),
    /// A NAT has said it.
    Said,
}

/// Room in front of a frame that becomes longer, and behind it.
const ROOM_BYTES: usize = 128;
/// Frames that become longer at the same time, for each shard. A frame of other memory comes into this with a copy.
const FRAMES: u32 = 8192;

impl Program {
    /// The names of its programs, with commas between them.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.0.names.iter().map(|name| name.name()).collect();
        names.join(",")
    }

    /// Packets of a burst, at most.
    pub fn burst(&self) -> usize {
        self.0.burst
    }

    /// The stages of shard number `shard`. To be called on the thread that drives them, once for each shard.
    ///
    /// # Errors
    /// If an operator's queue cannot be opened, or there is no memory for a table.
    pub fn stages(&self, shard: usize) -> Result<Vec<Box<dyn Stage>>, SetupError> {
        let made = &*self.0;
        let mut stages: Vec<Box<dyn Stage>> = Vec::new();
        if matches!(made.way, Way::Router(_)) && !made.works.is_empty() {
            stages.push(Box::new(Router::check()));
        }
        for work in &made.works {
            stages.extend(made.work(work, shard)?);
        }
        match &made.way {
            Way::Bridge => {
                let ports = made.setting.ports();
                let ways = (0..ports).map(|port| (port + 1) % ports).collect();
                stages.push(Box::new(bridge(ways, Addresses::Kept)));
            }
            Way::Router(router) => stages.extend(router.stages()?),
            Way::Said => {}
        }
        Ok(stages)
    }

    /// The stages of shard number `shard` in a line, deep enough for all of its operators, whose stages are timed by the setting's clock.
    ///
    /// # Errors
    /// As [`Program::stages`].
    pub fn line(&self, shard: usize) -> Result<Line, SetupError> {
        let line = Line::new(self.name(), self.stages(shard)?, self.0.depth.max(2) * 2);
        Ok(line.timed_by(Arc::clone(&self.0.setting.clock)))
    }

    /// What says to which shard a packet belongs, for a dispatcher.
    ///
    /// # Errors
    /// If there are more shards than a table has entries.
    pub fn spread(&self) -> Result<Box<dyn Distributor>, SetupError> {
        let Made { works, setting, .. } = &*self.0;
        let toeplitz = Toeplitz::new(SYMMETRIC_KEY);
        for work in works {
            match work {
                Work::Nat44 {
                    addresses, sides, ..
                } => {
                    let (addresses, sides) = (addresses.clone(), sides.clone());
                    let sharding = NatSharding::new(toeplitz, setting.shards, addresses, sides);
                    let wrong = |error: RssError| SetupError::Parameter(error.to_string());
                    return Ok(Box::new(sharding.map_err(wrong)?));
                }
                Work::Gateway(gateway) => {
                    let sharding = GatewaySharding::new(toeplitz, setting.shards, gateway);
                    return Ok(Box::new(sharding));
                }
                Work::Firewall(..) | Work::Recognition(_) => {}
            }
        }
        Ok(Box::new(Sharding::new(toeplitz, setting.shards.into())))
    }

    /// True if packets have to be spread by [`Program::spread`]: a NAT of several shards chooses ports by that hash, and no hash of the kernel is known; packets of an
    /// association of ESP have to come to one shard.
    pub fn must_be_spread(&self) -> bool {
        let Made { works, setting, .. } = &*self.0;
        setting.shards > 1 && works.iter().any(Work::has_own_sharding)
    }

    /// The number of the port, behind all others, by which packets go from one shard to another: a [`Looped`](dpb_net::port::Looped) one. `None` if none do.
    pub fn crossing(&self) -> Option<u16> {
        self.0.works.iter().find_map(|work| match work {
            Work::Nat44 { sides, .. } => sides.crossing,
            _ => None,
        })
    }

    /// An operator's backend whose time is a model's, where there is one: it is not for packets of the world outside.
    pub fn modelled(&self) -> Option<&str> {
        let engines = self.0.engines.iter();
        let mut modelled = engines.filter(|engine| engine.clock != ClockKind::Wall);
        modelled.next().map(|engine| engine.backend.as_str())
    }

    /// The evidence that figures of it rest on, as far as its operators go: the first that is not measured, if there is one.
    pub fn evidence(&self) -> Evidence {
        let mut engines = self.0.engines.iter();
        let other = engines.find(|engine| engine.evidence != Evidence::Measured);
        other.map_or_else(Evidence::of_this_cpu, |engine| engine.evidence.clone())
    }

    /// The record with the program's parameters, and the backends and libraries of its operators.
    #[must_use]
    pub fn note(&self, record: Record) -> Record {
        let mut record = record.with("program", self.name());
        for (name, value) in &self.0.parameters {
            record = record.with(name, value.clone());
        }
        let on = |engine: &UsedEngine| format!("{} on {}", engine.operator, engine.backend);
        let stages: Vec<String> = self.0.engines.iter().map(on).collect();
        if !stages.is_empty() {
            record = record.with("backend", stages.join(", "));
        }
        for engine in &self.0.engines {
            record.provenance.made_of = Some(engine.made_of.clone());
            if let Some(code) = &engine.code {
                let libraries = &mut record.provenance.libraries;
                libraries.insert(on(engine), code.clone());
            }
        }
        record
    }

    /// Counts beside those of packets, by name, over all shards: sessions of a NAT, and what recognition has found out and done.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counts = Vec::new();
        let nats = self.0.nats.lock().unwrap_or_else(PoisonError::into_inner);
        if !nats.is_empty() {
            let sum = |of: fn(&Counts) -> u64| nats.iter().map(|counts| of(counts)).sum();
            counts.extend([
                ("nat_sessions", sum(Counts::sessions)),
                ("nat_mappings", sum(Counts::mappings)),
                ("nat_sessions_began", sum(Counts::began)),
                ("nat_hairpinned", sum(Counts::hairpinned)),
                ("nat_unsolicited", sum(Counts::unsolicited)),
                ("nat_icmp_errors", sum(Counts::errors)),
            ]);
        }
        counts.extend(self.recognitions().flat_map(Recognition::counts));
        counts
    }

    /// The flows that were recognised so far, the most frequent kinds first.
    pub fn found(&self) -> Vec<Found> {
        self.recognitions().flat_map(Recognition::found).collect()
    }

    /// Checks that its operators have done what verdicts on packets say, but for so many packets `in_flight`, and what they have given, as far as that was kept, by other code; says against
    /// what, if there was anything.
    ///
    /// # Errors
    /// The first count or output that is wrong, as a sentence.
    pub fn check(&self, in_flight: u64, globals: &Globals) -> Result<Option<String>, String> {
        let mut against = None;
        for recognition in self.recognitions() {
            let compared = recognition.check(in_flight, globals)?;
            against = Some(format!(
                "packets hashed and compressed, by their verdicts; {compared} outputs of operators, by RustCrypto's SHA-256 and by the portable decoder"
            ));
        }
        Ok(against)
    }

    fn recognitions(&self) -> impl Iterator<Item = &Recognition> {
        self.0.works.iter().filter_map(|work| match work {
            Work::Recognition(recognition) => Some(&**recognition),
            _ => None,
        })
    }
}

impl Work {
    /// True if it says which shard has which packets.
    fn has_own_sharding(&self) -> bool {
        matches!(self, Self::Nat44 { .. } | Self::Gateway(_))
    }
}

impl Made {
    fn work(&self, work: &Work, shard: usize) -> Result<Vec<Box<dyn Stage>>, SetupError> {
        let Setting {
            shards,
            seed,
            clock,
            ..
        } = &self.setting;
        let wrong = |why: String| SetupError::Parameter(why);
        // Of each shard another one.
        let seed = seed.wrapping_add((shard as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match work {
            Work::Nat44 {
                behaviour,
                addresses,
                sessions,
                sides,
            } => {
                let steering = NatSharding::steering(Toeplitz::new(SYMMETRIC_KEY), *shards);
                let steering = steering.map_err(|error| wrong(error.to_string()))?;
                let (behaviour, addresses) = (behaviour.clone(), addresses.clone());
                let nat = Nat::new(behaviour, addresses, *sessions, steering, shard, seed);
                let nat = nat.map_err(|error| wrong(error.to_string()))?;
                let stage = Nat44::new(nat, sides.clone(), Arc::clone(clock));
                let mut nats = self.nats.lock().unwrap_or_else(PoisonError::into_inner);
                nats.push(stage.counts());
                Ok(vec![Box::new(stage)])
            }
            Work::Gateway(gateway) => {
                let slot_bytes = (usize::from(self.mtu) + 2 * ROOM_BYTES).next_multiple_of(64);
                let len = slot_bytes * FRAMES as usize;
                let pool = Pool::new(FRAMES, slot_bytes, ROOM_BYTES);
                gateway.stages(shard, &pool.ok_or(SetupError::OutOfMemory { len })?)
            }
            Work::Firewall(rules, policy) => {
                let policy = Policy {
                    seed,
                    ..policy.clone()
                };
                let firewall = Firewall::new(Arc::clone(rules), policy, Arc::clone(clock));
                let firewall = firewall.map_err(|error| wrong(error.to_string()))?;
                Ok(vec![Box::new(firewall)])
            }
            Work::Recognition(recognition) => recognition.stages(seed, clock),
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({})", self.name())
    }
}
