//! From flags to a program: [`ProgramFlags::program`].

use std::fs;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, Mutex};

use clap::ValueEnum;
use dpb_core::measure::Value;
use dpb_core::spec::{AesGcm, Lpm};
use dpb_core::{Direction, IpFamily, Material, OpSpec, SetupError};
use dpb_net::flow::nat::{Behaviour, Filtering};
use dpb_net::programs::Engine;
use dpb_net::programs::esp::{Association, Gateway, Mode, Opening};
use dpb_net::programs::firewall::{Action, Policy, Rules};
use dpb_net::programs::forward::{NextHop, Router, Routes, Way as Ways};
use dpb_net::programs::nat44::Sides;

use super::flags::{FilteringName, ProgramFlags, TunnelEnds};
use super::key::Keying;
use super::{Made, Program, ProgramName, Setting, UsedEngine, Way, Work, made_up_address};
use crate::Globals;
use crate::exit::Failure;

/// Stands before a number of routes instead of a path.
const GENERATED: &str = "generated:";
/// Hops of routes that are generated, as `dpb op lpm4` has them.
const GENERATED_HOPS: u32 = 100;
/// Associations of each direction: shards that may share a key.
const ASSOCIATIONS: u32 = 128;

/// RFC 5737's, for documentation.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// A program that is being made.
pub(super) struct Maker<'a> {
    pub(super) flags: &'a ProgramFlags,
    pub(super) setting: &'a Setting,
    pub(super) globals: &'a Globals,
    depth: NonZeroU32,
    burst: usize,
    pub(super) mtu: u16,
    pub(super) parameters: Vec<(&'static str, Value)>,
    engines: Vec<UsedEngine>,
}

impl ProgramFlags {
    /// The programs of these names, one behind another, in `setting`.
    ///
    /// # Errors
    /// Exit 2 for flags that do not fit or files that cannot be read, exit 3 where a backend cannot do its operator here.
    pub fn program(
        &self,
        names: &[ProgramName],
        setting: &Setting,
        globals: &Globals,
    ) -> Result<Program, Failure> {
        let mut maker = self.maker(setting, globals)?;
        let is_routed = self.common.routes.is_some();
        let mut works = Vec::new();
        for name in names {
            works.extend(match name {
                ProgramName::Bridge | ProgramName::Forward => None,
                ProgramName::Nat44 => Some(maker.nat44(is_routed)?),
                ProgramName::Encrypt => Some(Work::Gateway(maker.gateway(true)?)),
                ProgramName::Decrypt => Some(Work::Gateway(maker.gateway(false)?)),
                ProgramName::Firewall => Some(maker.firewall()?),
                ProgramName::AppRecognition => {
                    Some(Work::Recognition(Box::new(maker.recognition()?)))
                }
            });
        }
        let own_shardings = works.iter().filter(|work| work.has_own_sharding());
        if setting.shards > 1 && own_shardings.count() > 1 {
            return Err(Failure::usage(
                "a NAT and ends of ESP each say which thread has which packets: one of them in a program of several threads",
            ));
        }
        let has_nat = names.contains(&ProgramName::Nat44);
        let way = match &self.common.routes {
            Some(routes) if names.contains(&ProgramName::Bridge) => {
                return Err(Failure::usage(format!(
                    "--routes {routes}: a bridge has none; take forward"
                )));
            }
            Some(routes) => Way::Router(maker.router(routes)?),
            None if has_nat => Way::Said,
            None => Way::Bridge,
        };
        maker.refuse_backends_of_nobody(names)?;
        let Maker {
            burst,
            depth,
            mtu,
            mut parameters,
            engines,
            ..
        } = maker;
        parameters.extend([
            ("burst", Value::from(self.common.burst)),
            ("mtu", Value::from(self.common.mtu)),
        ]);
        if !engines.is_empty() {
            parameters.push(("depth", self.common.depth.into()));
        }
        Ok(Program(Arc::new(Made {
            names: names.to_vec(),
            works,
            way,
            setting: setting.clone(),
            burst,
            depth: depth.get() as usize,
            mtu,
            parameters,
            engines,
            nats: Mutex::default(),
        })))
    }

    fn maker<'a>(
        &'a self,
        setting: &'a Setting,
        globals: &'a Globals,
    ) -> Result<Maker<'a>, Failure> {
        let mtu = u16::try_from(self.common.mtu).ok().filter(|mtu| *mtu >= 68);
        let mtu = mtu.ok_or_else(|| {
            Failure::usage(format!(
                "--mtu {}: an IP packet has 68 to 65535 bytes",
                self.common.mtu
            ))
        })?;
        if self.common.burst > 4096 {
            return Err(Failure::usage(format!(
                "--burst {}: 4096 at most",
                self.common.burst
            )));
        }
        let depth = u32::try_from(self.common.depth)
            .ok()
            .and_then(NonZeroU32::new);
        Ok(Maker {
            flags: self,
            setting,
            globals,
            depth: depth.expect("the parser gives counts from 1 to 2^32 - 1"),
            burst: self.common.burst as usize,
            mtu,
            parameters: Vec::new(),
            engines: Vec::new(),
        })
    }
}

impl Maker<'_> {
    /// An operator on the backend that is asked for.
    pub(super) fn engine(&mut self, spec: &OpSpec) -> Result<Engine, Failure> {
        let name = self.flags.common.backend.of(spec.name());
        let opened = self.globals.families.open(name);
        let backend = opened
            .map_err(|why| Failure::usage(format!("--backend: {why} (see `dpb list backends`)")))?;
        let properties = backend.properties();
        self.engines.push(UsedEngine {
            operator: spec.name().to_owned(),
            backend: name.to_owned(),
            evidence: properties.evidence,
            made_of: properties.made_of,
            clock: backend.clock().kind(),
            code: backend.code(spec),
        });
        let engine = Engine::new(backend.into(), spec, self.depth, self.burst);
        engine.map_err(|error| {
            let why = format!("--backend {name}: {}: {error}", spec.name());
            match error {
                SetupError::Unsupported(_) => Failure::unavailable(why),
                SetupError::TooDeep { .. } => Failure::usage(format!("{why}; lower --depth")),
                _ => Failure::check(why),
            }
        })
    }

    /// A backend that no stage uses, or one for an operator that none uses, is a slip.
    fn refuse_backends_of_nobody(&self, names: &[ProgramName]) -> Result<(), Failure> {
        let backends = &self.flags.common.backend;
        let used: Vec<&str> = (self.engines.iter())
            .map(|engine| engine.operator.as_str())
            .collect();
        let shown = match used.is_empty() {
            true => "none".to_owned(),
            false => used.join(", "),
        };
        if let Some(of) = backends.operators().find(|of| !used.contains(of)) {
            return Err(Failure::usage(format!(
                "--backend {of}=…: no stage of this program uses {of}; used are: {shown}"
            )));
        }
        let is_used = |name: &str| self.engines.iter().any(|engine| engine.backend == name);
        let Some(name) = backends.asked().filter(|name| !is_used(name)) else {
            return Ok(());
        };
        let programs: Vec<&str> = names.iter().map(|name| name.name()).collect();
        let programs = programs.join(",");
        Err(Failure::usage(match used.is_empty() {
            true => format!(
                "--backend {name}: {programs} has no operator that could run there; with --routes forward, nat44 and firewall have lpm4 and lpm6"
            ),
            false => format!(
                "--backend {name}: each operator of {programs} has a backend of its own: {shown}"
            ),
        }))
    }

    fn nat44(&mut self, is_routed: bool) -> Result<Work, Failure> {
        let flags = self.flags;
        let ports = self.setting.ports();
        if ports < 2 {
            return Err(Failure::usage(
                "a NAT has two ports: the first is inside, the others are outside",
            ));
        }
        let addresses: Vec<Ipv4Addr> = match flags.nat.outside.is_empty() {
            true => vec![OUTSIDE],
            false => flags.nat.outside.clone(),
        };
        let shown: Vec<String> = addresses.iter().map(Ipv4Addr::to_string).collect();
        self.parameters.extend([
            ("outside", Value::from(shown.join(","))),
            ("flows", Value::from(flags.flows.flows)),
            ("keep_ports", Value::from(flags.nat.keep_ports)),
            ("filtering", Value::from(word(flags.nat.filtering))),
        ]);
        let filtering = match flags.nat.filtering {
            FilteringName::EndpointIndependent => Filtering::EndpointIndependent,
            FilteringName::AddressAndPortDependent => Filtering::AddressAndPortDependent,
        };
        Ok(Work::Nat44 {
            behaviour: Behaviour {
                filtering,
                keeps_ports: flags.nat.keep_ports,
                ..Behaviour::default()
            },
            addresses: addresses.iter().map(|address| address.to_bits()).collect(),
            sessions: flags.flows.flows as usize,
            sides: Sides::new(ports, 1, !is_routed, self.setting.shards > 1),
        })
    }

    /// The end of an encrypted connection whose plain side is port 0, or all other ports.
    fn gateway(&mut self, is_plain_first: bool) -> Result<Gateway, Failure> {
        let flags = self.flags;
        if u32::from(self.setting.shards) > ASSOCIATIONS {
            return Err(Failure::usage(format!(
                "{} threads: one key is for {ASSOCIATIONS} at most",
                self.setting.shards
            )));
        }
        let spi = u32::try_from(flags.esp.spi).ok();
        let spi = spi.filter(|spi| *spi >= 256 && spi.checked_add(2 * ASSOCIATIONS).is_some());
        let spi = spi.ok_or_else(|| {
            Failure::usage(format!(
                "--spi {}: a number from 256 to {}",
                flags.esp.spi,
                u32::MAX - 2 * ASSOCIATIONS
            ))
        })?;
        let keying = match &flags.esp.key {
            Some(path) => Keying::of(path)?,
            None => Keying::made(self.setting.seed),
        };
        let first = Association {
            spi,
            salt: keying.salt,
            mode: match flags.esp.tunnel {
                None => Mode::Transport,
                Some(TunnelEnds(tunnel)) => Mode::Tunnel(tunnel),
            },
        };
        // Even ones from the end that is plain first, odd ones back.
        let of = |is_sent: bool| {
            let is_odd = u32::from(is_sent != is_plain_first);
            let numbers = (0..ASSOCIATIONS).map(|shard| 2 * shard + is_odd);
            numbers.map(|number| first.numbered(number)).collect()
        };
        let (sends, receives) = (of(true), of(false));
        let spec = |direction| {
            OpSpec::from(AesGcm {
                direction,
                aad_bytes: 8,
                key: Material::secret(keying.key.clone()),
            })
        };
        let (seals, opens) = (
            self.engine(&spec(Direction::Encrypt))?,
            self.engine(&spec(Direction::Decrypt))?,
        );
        self.parameters.extend([
            ("key_bits", Value::from(keying.key.len() as u64 * 8)),
            (
                "key",
                if flags.esp.key.is_some() {
                    "file"
                } else {
                    "made"
                }
                .into(),
            ),
            ("spi", flags.esp.spi.into()),
            (
                "mode",
                if flags.esp.tunnel.is_some() {
                    "tunnel"
                } else {
                    "transport"
                }
                .into(),
            ),
        ]);
        Ok(Gateway {
            plain: (0..self.setting.ports())
                .map(|port| (port == 0) == is_plain_first)
                .collect(),
            sends,
            receives,
            seals,
            opens,
            mtu: self.mtu,
            opening: Opening {
                mtu: self.mtu,
                ..Opening::default()
            },
            epoch: self.setting.epoch,
            lets_arp_pass: true,
        })
    }

    fn firewall(&mut self) -> Result<Work, Failure> {
        let rules = match &self.flags.firewall.rules {
            Some(path) => {
                let wrong = |why: String| format!("--rules {}: {why}", path.display());
                let rules = Rules::read(&text_of("--rules", path)?);
                rules.map_err(|error| Failure::usage(wrong(error.to_string())))?
            }
            None => Rules::new(Vec::new(), Action::Allow),
        };
        self.parameters.extend([
            ("rules", Value::from(rules.list().len() as u64)),
            ("flows", Value::from(self.flags.flows.flows)),
        ]);
        let policy = Policy {
            flows: self.flags.flows.flows as usize,
            // Neighbours have to find each other; a router drops what is not IP.
            others: Action::Allow,
            ..Policy::default()
        };
        Ok(Work::Firewall(Arc::new(rules), policy))
    }

    fn router(&mut self, routes: &str) -> Result<Router, Failure> {
        let list = match routes.strip_prefix(GENERATED) {
            Some(count) => self.generated(count)?,
            None => {
                let text = text_of("--routes", Path::new(routes))?;
                let list = Routes::read(&text, &self.setting.addresses, self.mtu);
                list.map_err(|error| Failure::usage(format!("--routes {routes}: {error}")))?
            }
        };
        let lines = |list: &str| list.lines().count() as u64;
        let count = lines(&list.v4) + lines(&list.v6);
        self.parameters.push(("routes", Value::from(count)));
        let mut engine = |family, list: String| {
            let routes = Material::public(list.into_bytes());
            self.engine(&OpSpec::from(Lpm { family, routes })).map(Some)
        };
        let v4 = match list.v4.is_empty() {
            true => None,
            false => engine(IpFamily::V4, list.v4)?,
        };
        let v6 = match list.v6.is_empty() {
            true => None,
            false => engine(IpFamily::V6, list.v6)?,
        };
        Ok(Router {
            hops: list.hops.into(),
            way: Ways::Routes { v4, v6 },
        })
    }

    /// So many routes of each family as `lpm4` and `lpm6` generate them, and one for all other addresses. All lead to the last port.
    fn generated(&self, count: &str) -> Result<Routes, Failure> {
        let list = |operator: &str, rest: &str| {
            let wrong = |error| Failure::usage(format!("--routes {GENERATED}{count}: {error}"));
            let entry = self.globals.operators.find(operator);
            let entry = entry.expect("dpb has lpm4 and lpm6");
            let spec = entry.spec(&format!("routes={GENERATED}{count}"));
            let spec = spec.map_err(wrong)?;
            let routes = spec.get::<Lpm>().map(|lpm| lpm.routes.bytes().to_vec());
            let list = String::from_utf8(routes.unwrap_or_default()).unwrap_or_default();
            let has_rest = list.lines().any(|line| line.starts_with(rest));
            Ok::<_, Failure>(match has_rest {
                true => list,
                false => format!("{list}{rest} 0\n"),
            })
        };
        let port = self.setting.ports() - 1;
        let hop = |number: u32| {
            let [.., a, b] = number.to_be_bytes();
            NextHop {
                egress: port,
                destination: [0x02, 0, 0, 1, a, b],
                source: (self.setting.addresses.get(usize::from(port)).copied())
                    .unwrap_or_else(|| made_up_address(port)),
                mtu: self.mtu,
            }
        };
        Ok(Routes {
            hops: (0..GENERATED_HOPS).map(hop).collect(),
            v4: list("lpm4", "0.0.0.0/0")?,
            v6: list("lpm6", "::/0")?,
        })
    }
}

fn word(name: impl ValueEnum) -> String {
    let value = name.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn text_of(flag: &str, path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{flag} {}: {error}", path.display())))
}
