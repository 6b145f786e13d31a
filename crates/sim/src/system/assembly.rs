//! A described system, put together and run.

pub mod report;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use dpb_core::random::SplitMix64;
use dpb_core::{Operator, SetupError};

use super::card::{self, Card, CardModel};
use super::datagrams::{ServiceModel, SourceModel};
use super::description::{Description, DigestText, HostText, PCIE_PS};
use super::headers::Address;
use super::host::{self, Host, Listening, Opening};
use super::journey::Place;
use super::message::Message;
use super::protect::Protection;
use super::refusal::{DescriptionError, picoseconds, refuse};
use super::sources::{WAITING, check_payload, rate};
use super::switch::Switch;
use super::trace::{Trace, Track};
use super::watch::Watch;
use super::wire::{Wire, WireModel};
use crate::kernel::{ComponentId, Kernel, MILLISECOND_PS, Plan, RunError, SECOND_PS};

/// Prepares an operator by its name: the digests of a system.
pub type Prepare<'a> = &'a dyn Fn(&str) -> Result<Arc<dyn Operator>, SetupError>;

/// A system that can run.
#[allow(missing_debug_implementations)] // operators are anything
pub struct System {
    kernel: Kernel<Message>,
    hosts: Vec<(String, ComponentId, ComponentId)>,
    switches: Vec<(String, ComponentId, Vec<String>)>,
    limit_ps: u64,
}

/// One end of a link.
struct End {
    part: usize,
    port: usize,
}

/// A part that links end at.
#[derive(Clone, Copy)]
enum Part {
    Host(usize),
    Switch(usize),
}

impl System {
    /// Puts a system together. The seed determines faults; the threads are those of the kernel, which change no result.
    ///
    /// # Errors
    /// What is wrong with the description, or why an operator is not to be had.
    pub fn assemble(
        description: &Description,
        prepare: Prepare<'_>,
        seed: u64,
        threads: usize,
    ) -> Result<Self, DescriptionError> {
        let names = names(description)?;
        let links = links(description, &names)?;
        let mut plan = Plan::new();
        let wire =
            |model: WireModel, part: &str, port: usize| Wire::new(model, seed_of(seed, part, port));
        let mut ends: Vec<(ComponentId, Vec<usize>)> = Vec::new();
        let mut hosts = Vec::new();
        for (number, text) in description.host.iter().enumerate() {
            let [(_, link)] = links.of(number)[..] else {
                return refuse(format!(
                    "host `{}` has one link, not {}",
                    text.name,
                    links.of(number).len()
                ));
            };
            let (mut model, _) = description.link[link].model()?;
            // The card's ring is what waits; nothing is dropped between it and the wire.
            model.queue_bytes = u64::MAX;
            let wire = wire(model, &text.name, 0);
            let (card, pcie_ps) = card_of(description, text, wire, prepare, seed)?;
            let host = host_of(description, number, prepare, seed)?;
            let host = plan.add(&text.name, 2, host);
            let card = plan.add(&format!("card of {}", text.name), 2, card);
            plan.join((host, host::CARD), (card, card::HOST), pcie_ps)
                .map_err(|wrong| DescriptionError(wrong.to_string()))?;
            ends.push((card, vec![card::WIRE]));
            hosts.push((text.name.clone(), host, card));
        }
        let mut switches = Vec::new();
        for (number, text) in description.switch.iter().enumerate() {
            let joined = links.of(description.host.len() + number);
            let wires: Result<Vec<Wire>, DescriptionError> = joined
                .iter()
                .map(|&(port, link)| Ok(wire(description.link[link].model()?.0, &text.name, port)))
                .collect();
            let mut switch = Switch::new(text.model()?, wires?);
            for (host, port) in links.ways_from(description, number) {
                switch.learn(address(host).mac, port);
            }
            let switch = plan.add(&text.name, 1, switch);
            ends.push((switch, (0..joined.len()).collect()));
            let others = joined.iter().map(|&(_, link)| {
                let [a, b] = &description.link[link].ends;
                if *a == text.name {
                    b.clone()
                } else {
                    a.clone()
                }
            });
            switches.push((text.name.clone(), switch, others.collect()));
        }
        for (link, text) in description.link.iter().enumerate() {
            let [a, b] = [0, 1].map(|end| {
                let End { part, port } = links.0[link][end];
                let (component, ports) = &ends[part];
                (*component, ports[port])
            });
            let (_, latency_ps) = text.model()?;
            plan.join(a, b, latency_ps)
                .map_err(|wrong| DescriptionError(wrong.to_string()))?;
        }
        Ok(Self {
            kernel: plan.build(threads),
            hosts,
            switches,
            limit_ps: picoseconds("limit_s", description.limit_s, SECOND_PS as f64)?,
        })
    }

    /// Lets the system be observed from its start. With `keeps`, hosts keep account of where the time of frames went ([`report::account`]). Traces are
    /// written in the order of virtual time.
    ///
    /// # Panics
    /// If there is a trace, and the kernel runs on more than one thread: then nothing has one order.
    pub fn observe(&mut self, keeps: bool, trace: Option<&Arc<Mutex<Trace>>>) {
        assert!(
            trace.is_none() || self.kernel.threads() == 1,
            "a system that is traced runs on one thread"
        );
        let keeps = keeps || trace.is_some();
        let mut next = 0;
        let mut watch = |places: usize| {
            let first = Place(next);
            next += places as u16;
            Watch::new(first, keeps, trace.cloned())
        };
        for (_, host, card) in &self.hosts {
            if let Some(host) = self.kernel.component_mut::<Host>(*host) {
                let places = host.parts().len();
                host.watch_by(watch(places), keeps);
            }
            if let Some(card) = self.kernel.component_mut::<Card>(*card) {
                let places = card.parts().len() - 1;
                let own = watch(places);
                card.watch_by(own, watch(1));
            }
        }
        for (_, switch, ports) in &self.switches {
            if let Some(switch) = self.kernel.component_mut::<Switch>(*switch) {
                let own = watch(1);
                let wires: Vec<Watch> = ports.iter().map(|_| watch(1)).collect();
                switch.watch_by(own, wires);
            }
        }
    }

    /// The places of the system, in their order.
    pub fn tracks(&self) -> Vec<Track> {
        let mut tracks = Vec::new();
        let mut track = |name: String, interface: Option<String>| {
            let place = Place(tracks.len() as u16);
            tracks.push(Track {
                place,
                name,
                interface,
            });
        };
        for ((name, host), (_, card)) in self.hosts().zip(self.cards()) {
            for part in host.parts() {
                track(format!("{name}: {}", part.name), None);
            }
            let parts = card.parts();
            let last = parts.len() - 1;
            for (number, part) in parts.into_iter().enumerate() {
                let interface = (number == last).then(|| name.to_owned());
                track(format!("card of {name}: {}", part.name), interface);
            }
        }
        for (name, _, ports) in self.switches() {
            track(format!("{name}: forwarding"), None);
            for port in ports {
                let interface = Some(format!("{name}: {port}"));
                track(format!("{name}: wire to {port}"), interface);
            }
        }
        tracks
    }

    /// Runs until all applications have finished, and no datagram is under way, or the limit is reached. True if they have finished.
    ///
    /// # Errors
    /// If a part fails.
    pub fn run(&mut self) -> Result<bool, RunError> {
        // In steps, whose ends are the same however many threads there are.
        while self.kernel.now_ps() < self.limit_ps {
            let step_ps = self.kernel.now_ps() + 5 * MILLISECOND_PS;
            self.kernel.run_until(step_ps.min(self.limit_ps))?;
            let has_finished = self.hosts().all(|(_, host)| host.has_finished());
            if has_finished && report::in_flight(self) == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The kernel: virtual time, and the number of events.
    pub fn kernel(&self) -> &Kernel<Message> {
        &self.kernel
    }

    /// The hosts, by name.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &Host)> {
        let hosts = self.hosts.iter();
        hosts.filter_map(|(name, host, _)| Some((name.as_str(), self.kernel.component(*host)?)))
    }

    /// The cards, by their hosts' names.
    pub fn cards(&self) -> impl Iterator<Item = (&str, &Card)> {
        let hosts = self.hosts.iter();
        hosts.filter_map(|(name, _, card)| Some((name.as_str(), self.kernel.component(*card)?)))
    }

    /// The switches by name, and the names of the parts that their ports lead to.
    pub fn switches(&self) -> impl Iterator<Item = (&str, &Switch, &[String])> {
        let switches = self.switches.iter();
        switches.filter_map(|(name, switch, ports)| {
            Some((
                name.as_str(),
                self.kernel.component(*switch)?,
                ports.as_slice(),
            ))
        })
    }
}

/// The parts by name.
fn names(description: &Description) -> Result<BTreeMap<&str, Part>, DescriptionError> {
    let hosts = description.host.iter().enumerate();
    let hosts = hosts.map(|(number, it)| (it.name.as_str(), Part::Host(number)));
    let switches = description.switch.iter().enumerate();
    let switches = switches.map(|(number, it)| (it.name.as_str(), Part::Switch(number)));
    let mut names = BTreeMap::new();
    for (name, part) in hosts.chain(switches) {
        if names.insert(name, part).is_some() {
            return refuse(format!("two parts are called `{name}`"));
        }
    }
    if description.host.len() > 250 {
        return refuse("a system has at most 250 hosts");
    }
    for card in &description.card {
        if !description.host.iter().any(|it| it.name == card.host) {
            return refuse(format!("a card is in `{}`, which is no host", card.host));
        }
        if description
            .card
            .iter()
            .filter(|it| it.host == card.host)
            .count()
            > 1
        {
            return refuse(format!("host `{}` has two cards", card.host));
        }
    }
    Ok(names)
}

/// The ends of the links, by link.
struct Links(Vec<[End; 2]>);

impl Links {
    /// The hosts, each with the port of the switch that the shortest way from the host comes in at.
    fn ways_from(&self, description: &Description, switch: usize) -> Vec<(usize, usize)> {
        let hosts = description.host.len();
        let mut ways = Vec::new();
        for host in 0..hosts {
            let mut seen = BTreeMap::from([(host, None)]);
            let mut waiting = std::collections::VecDeque::from([host]);
            while let Some(part) = waiting.pop_front() {
                for (_, link) in self.of(part) {
                    let other = self.0[link].iter().find(|end| end.part != part);
                    let Some(end) = other.filter(|end| !seen.contains_key(&end.part)) else {
                        continue;
                    };
                    seen.insert(end.part, Some(end.port));
                    // A host hands nothing on.
                    if end.part >= hosts {
                        waiting.push_back(end.part);
                    }
                }
            }
            if let Some(Some(port)) = seen.get(&(hosts + switch)) {
                ways.push((host, *port));
            }
        }
        ways
    }

    /// The ports of a part, each with its link.
    fn of(&self, part: usize) -> Vec<(usize, usize)> {
        let ends = self.0.iter().enumerate();
        let ends = ends.flat_map(|(link, ends)| ends.iter().map(move |end| (link, end)));
        let mut own: Vec<(usize, usize)> = ends
            .filter(|(_, end)| end.part == part)
            .map(|(link, end)| (end.port, link))
            .collect();
        own.sort_unstable();
        own
    }
}

fn links(
    description: &Description,
    names: &BTreeMap<&str, Part>,
) -> Result<Links, DescriptionError> {
    let mut ports = vec![0; description.host.len() + description.switch.len()];
    let mut links = Vec::new();
    for link in &description.link {
        let mut ends = Vec::new();
        for name in &link.ends {
            let part = match names.get(name.as_str()) {
                Some(Part::Host(number)) => *number,
                Some(Part::Switch(number)) => description.host.len() + number,
                None => {
                    return refuse(format!(
                        "a link leads to `{name}`, which is no host and no switch"
                    ));
                }
            };
            ends.push(End {
                part,
                port: ports[part],
            });
            ports[part] += 1;
        }
        let ends = <[End; 2]>::try_from(ends);
        links.push(ends.map_err(|_| DescriptionError("a link has two ends".to_owned()))?);
    }
    Ok(Links(links))
}

/// The seed of a wire's faults: a function of the run's seed, and of the place.
fn seed_of(seed: u64, part: &str, port: usize) -> u64 {
    let bytes = part.bytes().chain((port as u64).to_le_bytes());
    bytes.fold(seed, |seed, byte| {
        SplitMix64::new(seed ^ u64::from(byte)).next_u64()
    })
}

fn address(number: usize) -> Address {
    let last = number as u8 + 1;
    Address {
        mac: [2, 0, 0, 0, 0, last],
        ip: Ipv4Addr::new(10, 0, 0, last),
        port: 0,
    }
}

fn protection(
    digest: Option<&DigestText>,
    prepare: Prepare<'_>,
) -> Result<Option<Protection>, DescriptionError> {
    let Some(digest) = digest else {
        return Ok(None);
    };
    let operator = prepare(&digest.operator);
    let protection = operator.and_then(|operator| {
        let framing = digest
            .framing()
            .map_err(|wrong| SetupError::Parameter(wrong.0))?;
        Protection::new(operator, framing)
    });
    let wrong =
        |wrong: SetupError| DescriptionError(format!("digest `{}`: {wrong}", digest.operator));
    protection.map(Some).map_err(wrong)
}

fn host_of(
    description: &Description,
    number: usize,
    prepare: Prepare<'_>,
    seed: u64,
) -> Result<Host, DescriptionError> {
    let text = &description.host[number];
    let config = description.tcp.config()?;
    let mut openings = Vec::new();
    for (count, connect) in text.connect.iter().enumerate() {
        let Some(to) = description.host.iter().position(|it| it.name == connect.to) else {
            return refuse(format!(
                "`{}` connects to `{}`, which is no host",
                text.name, connect.to
            ));
        };
        if to == number {
            return refuse(format!("`{}` connects to itself", text.name));
        }
        openings.push(Opening {
            at_ps: picoseconds("at_us", connect.at_us, 1e6)?,
            port: 40_000 + count as u16,
            to: Address {
                port: connect.port,
                ..address(to)
            },
            application: connect.application(seed_of(seed, &text.name, REQUESTS + count))?,
            config,
        });
    }
    let listening: Result<Vec<Listening>, DescriptionError> = text
        .listen
        .iter()
        .map(|listen| {
            Ok(Listening {
                port: listen.port,
                application: listen.application()?,
                config,
            })
        })
        .collect();
    let protection = protection(text.digest.as_ref(), prepare)?;
    let host = Host::new(
        text.model()?,
        address(number),
        openings,
        listening?,
        protection,
    );
    let sources = sources_of(description, number, seed)?;
    let host = host.with_datagrams(sources, services_of(text, description)?);
    Ok(
        match text.digest.as_ref().map(DigestText::times).transpose()? {
            Some(Some(times)) => host.with_digest_times(times, seed_of(seed, &text.name, DIGESTS)),
            _ => host,
        },
    )
}

/// Places of seeds, apart from those of a part's wires.
const REQUESTS: usize = 1 << 16;
const DATAGRAMS: usize = 2 << 16;
const STAGES: usize = 3 << 16;
const DIGESTS: usize = 4 << 16;

/// The port that a host's first source of datagrams sends from.
const SOURCE_PORT: u16 = 50_000;

fn sources_of(
    description: &Description,
    number: usize,
    seed: u64,
) -> Result<Vec<SourceModel>, DescriptionError> {
    let text = &description.host[number];
    let mtu = description.tcp.mtu.unwrap_or(1500);
    let mut sources = Vec::new();
    for (count, offer) in text.offer.iter().enumerate() {
        let what = format!("`{}` offers datagrams to `{}`", text.name, offer.to);
        let to = description.host.iter().position(|it| it.name == offer.to);
        let Some(to) = to.filter(|&to| to != number) else {
            return refuse(format!("{what}, which is no other host"));
        };
        let serves = &description.host[to].serve;
        let Some(serve) = serves.iter().find(|it| it.port == offer.port) else {
            return refuse(format!("{what}, which does not serve port {}", offer.port));
        };
        if offer.answered != serve.answer_bytes.is_some() {
            return refuse(format!(
                "{what}: answered and answer_bytes of port {} belong together",
                offer.port
            ));
        }
        sources.push(SourceModel {
            port: SOURCE_PORT + count as u16,
            to: Address {
                port: offer.port,
                ..address(to)
            },
            rate: rate(&what, offer.rate_per_s, offer.gaps.as_deref())?,
            at_ps: picoseconds("at_us", offer.at_us, 1e6)?,
            sizes: offer.sizes(&what, &description.sizes, mtu)?,
            count: offer.count,
            waiting_max: offer.waiting.unwrap_or(WAITING),
            is_answered: offer.answered,
            seed: seed_of(seed, &text.name, DATAGRAMS + count),
        });
    }
    Ok(sources)
}

fn services_of(
    text: &HostText,
    description: &Description,
) -> Result<Vec<ServiceModel>, DescriptionError> {
    let mtu = description.tcp.mtu.unwrap_or(1500);
    let mut services: Vec<ServiceModel> = Vec::new();
    for serve in &text.serve {
        if services.iter().any(|it| it.port == serve.port) {
            return refuse(format!("`{}` serves port {} twice", text.name, serve.port));
        }
        if let Some(bytes) = serve.answer_bytes {
            check_payload(&format!("`{}`, answer_bytes", text.name), bytes, mtu)?;
        }
        services.push(ServiceModel {
            port: serve.port,
            answer_bytes: serve.answer_bytes,
            waiting_max: serve.waiting.unwrap_or(WAITING),
        });
    }
    Ok(services)
}

/// The card of a host, and the latency between both.
fn card_of(
    description: &Description,
    host: &HostText,
    wire: Wire,
    prepare: Prepare<'_>,
    seed: u64,
) -> Result<(Card, u64), DescriptionError> {
    let Some(text) = description.card.iter().find(|it| it.host == host.name) else {
        return Ok((
            Card::new(CardModel::default(), wire, Vec::new(), None),
            PCIE_PS,
        ));
    };
    let (model, pcie_ps) = text.model()?;
    let stages = text.stage.iter().enumerate().map(|(number, stage)| {
        let seed = seed_of(seed, &host.name, STAGES + number);
        stage.model(text, seed)
    });
    let stages = stages.collect::<Result<Vec<_>, _>>()?;
    let protection = protection(text.digest.as_ref(), prepare)?;
    if protection.is_some() && stages.is_empty() {
        return refuse(format!(
            "the card of `{}` computes digests, but has no stage that does",
            host.name
        ));
    }
    let card = Card::new(model, wire, stages, protection);
    Ok((card.sharing(text.shared()?), pcie_ps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpb_core::conformance::sample::Sample;
    use dpb_core::{Backend, OpSpec, spec};

    fn prepare(name: &str) -> Result<Arc<dyn Operator>, SetupError> {
        match name {
            "crc32c" => Sample::new(None).prepare(&OpSpec::from(spec::Crc32c)),
            other => Err(SetupError::Parameter(format!("there is no `{other}`"))),
        }
    }

    fn assemble(text: &str, threads: usize) -> Result<System, DescriptionError> {
        System::assemble(&text.parse()?, &prepare, 1, threads)
    }

    const THREE: &str = r#"
        [[host]]
        name = "server"
        listen = [{ port = 5001, application = "receive" }]
        [[host]]
        name = "a"
        connect = [{ to = "server", port = 5001, application = "send", bytes = 1_000_000 }]
        [[host]]
        name = "b"
        connect = [{ to = "server", port = 5001, at_us = 10, application = "send", bytes = 1_000_000 }]
        [[card]]
        host = "server"
        stage = [{ name = "crc", job_ns = 100 }]
        digest = { operator = "crc32c" }
        [[card]]
        host = "a"
        stage = [{ name = "crc", job_ns = 100 }]
        digest = { operator = "crc32c" }
        [[card]]
        host = "b"
        stage = [{ name = "crc", job_ns = 100 }]
        digest = { operator = "crc32c" }
        [[switch]]
        name = "switch"
        [[link]]
        ends = ["server", "switch"]
        [[link]]
        ends = ["switch", "a"]
        rate_gbps = 1
        loss = 0.001
        [[link]]
        ends = ["b", "switch"]
    "#;

    #[test]
    fn a_file_becomes_a_system() {
        let finishes = [1, 2].map(|threads| {
            let mut system = assemble(THREE, threads).expect("a system");
            assert_eq!(system.kernel().threads(), threads);
            assert!(system.run().expect("nothing fails"));
            let (_, server) = system.hosts().next().expect("a server");
            let flows = server.flows().iter();
            let flows: Vec<_> = flows
                .map(|it| (it.finished_ps, it.endpoint.delivered_bytes()))
                .collect();
            assert!(flows.iter().all(|&(_, bytes)| bytes == 1_000_000));
            // A gigabit a second carries a million bytes in no less than eight milliseconds.
            let [first, second] = [0, 1].map(|at| flows[at].0.expect("it has finished"));
            assert!(first > 8 * MILLISECOND_PS && second < 8 * MILLISECOND_PS);
            let (_, switch, ports) = system.switches().next().expect("a switch");
            assert_eq!(ports, ["server", "a", "b"]);
            assert!(switch.usage().frames > 2 * 1_000_000 / 1460);
            flows
        });
        assert_eq!(finishes[0], finishes[1]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let with = |from: &str, to: &str| {
            let text = THREE.replacen(from, to, 1);
            assert_ne!(text, THREE);
            assemble(&text, 1)
                .err()
                .map(|it| it.to_string())
                .unwrap_or_default()
        };
        for (from, to, said) in [
            ("loss =", "lose =", "unknown field `lose`"),
            ("loss = 0.001", "loss = 1.5", "no probability"),
            (
                "\"switch\", \"a\"",
                "\"switch\", \"c\"",
                "`c`, which is no host",
            ),
            ("name = \"b\"", "name = \"a\"", "two parts are called `a`"),
            ("\"crc32c\"", "\"rot13\"", "no `rot13`"),
            (
                "to = \"server\"",
                "to = \"switch\"",
                "`switch`, which is no host",
            ),
            ("\"send\"", "\"receive\"", "send or ask"),
            ("bytes = 1_000_000", "requests = 5", "needs bytes"),
            ("stage = [{ name = \"crc\", job_ns = 100 }]", "", "no stage"),
            ("job_ns = 100", "job_ns = -1", "no time"),
            ("rate_gbps = 1", "rate_gbps = 0", "rate_gbps"),
            (
                "ends = [\"b\", \"switch\"]",
                "ends = [\"a\", \"switch\"]",
                "has one link",
            ),
            ("host = \"b\"", "host = \"c\"", "`c`, which is no host"),
        ] {
            let why = with(from, to);
            assert!(why.contains(said), "{to}: {why}");
        }
    }
}
