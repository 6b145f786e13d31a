//! A described system, put together and run.

pub mod report;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;

use dpb_core::random::SplitMix64;
use dpb_core::{Operator, SetupError};

use super::card::{self, Card, CardModel};
use super::cut::{WaysOut, have_ended};
use super::description::{Description, DigestText, HostText, PCIE_PS};
use super::gate::GateWatch;
use super::headers::Address;
use super::host::{self, Host, Listening, Opening};
use super::message::Message;
use super::protect::Protection;
use super::real::{self, Real};
use super::refusal::{DescriptionError, picoseconds, refuse};
use super::switch::Switch;
use super::wire::Wire;
use crate::kernel::{ComponentId, Kernel, MILLISECOND_PS, Plan, RunError, SECOND_PS, WiringError};
use building::{Building, Station};
use datagrams::{services_of, sources_of};

mod building;
mod datagrams;
mod observing;

/// Prepares an operator by its name: the digests of a system.
pub type Prepare<'a> = &'a dyn Fn(&str) -> Result<Arc<dyn Operator>, SetupError>;

/// A system that can run.
#[allow(missing_debug_implementations)] // operators are anything
pub struct System {
    kernel: Kernel<Message>,
    hosts: Vec<Station>,
    switches: Vec<(String, ComponentId, Vec<String>)>,
    real: Vec<Station>,
    /// By host: the number of connections that other hosts open to it.
    awaited: Vec<usize>,
    limit_ps: u64,
}

/// The length of a step of virtual time, after each of which it is asked if a run has ended.
const STEP_PS: u64 = 5 * MILLISECOND_PS;

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
    Real(usize),
}

impl System {
    /// Puts a system together that is in this process alone. The seed determines faults, the spread of beginnings and the jitter of cores; the threads are those of the kernel, which change no result.
    ///
    /// # Errors
    /// The error in the description, or why an operator is not to be had.
    pub fn assemble(
        description: &Description,
        prepare: Prepare<'_>,
        seed: u64,
        threads: usize,
    ) -> Result<Self, DescriptionError> {
        if let Some(real) = description.real.first() {
            return refuse(format!(
                "`{}` is a real host, whose time is the wall clock's: `dpb sim live` runs such systems",
                real.name
            ));
        }
        Self::assemble_part(description, prepare, seed, threads, WaysOut::default())
    }

    /// Puts the part of a system together that is in this process. Names, addresses and seeds are those of the whole.
    ///
    /// # Errors
    /// The error in the description, or why an operator is not to be had.
    pub fn assemble_part(
        description: &Description,
        prepare: Prepare<'_>,
        seed: u64,
        threads: usize,
        mut ways: WaysOut,
    ) -> Result<Self, DescriptionError> {
        if let Some(here) = &ways.here {
            description.cut_links(here)?;
        }
        let links = links(description, &names(description)?)?;
        let mut building = Building::new(description, prepare, seed, &links);
        let hosts = building.add_hosts(&ways)?;
        let switches = building.add_switches(&ways)?;
        let real = building.add_real(&mut ways)?;
        building.join(&mut ways)?;
        let awaited = description.connections_to();
        let awaited = hosts
            .iter()
            .map(|(name, _, _)| awaited.get(name.as_str()).copied().unwrap_or(0));
        Ok(Self {
            awaited: awaited.collect(),
            kernel: building.plan.build(threads),
            hosts,
            switches,
            real,
            limit_ps: picoseconds("limit_s", description.limit_s, SECOND_PS as f64)?,
        })
    }

    /// Runs until all applications have finished, and no datagram is under way, or the limit is reached. True if they have finished.
    ///
    /// # Errors
    /// If a part fails.
    pub fn run(&mut self) -> Result<bool, RunError> {
        // In steps, whose ends are the same however many threads there are.
        while self.kernel.now_ps() < self.limit_ps {
            self.step()?;
            if self.has_finished() && report::in_flight(self) == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs the part of a system that is in this process, whose links to the others have these gates, until its applications have finished
    /// and a while longer: frames that were lost are sent again, and answered. A part without hosts runs until all peers have ended. True if it came to
    /// this end before the limit.
    ///
    /// # Errors
    /// If a part fails, or a peer.
    pub fn run_beside(&mut self, peers: &[GateWatch], linger_ps: u64) -> Result<bool, RunError> {
        let mut finished_ps = None;
        while self.kernel.now_ps() < self.limit_ps {
            self.step()?;
            let now_ps = self.kernel.now_ps();
            if self.hosts.is_empty() {
                if have_ended(peers) {
                    return Ok(true);
                }
            } else if self.has_finished() {
                let finished_ps = *finished_ps.get_or_insert(now_ps);
                if now_ps >= finished_ps + linger_ps || have_ended(peers) {
                    return Ok(true);
                }
            }
        }
        Ok(finished_ps.is_some())
    }

    /// Runs all that happens up to this time of the kernel.
    ///
    /// # Errors
    /// If a part fails.
    pub fn run_until(&mut self, end_ps: u64) -> Result<(), RunError> {
        self.kernel.run_until(end_ps)
    }

    /// True if the connections of all hosts that are here were opened, from either end, and have finished, and all datagrams have left.
    pub fn has_finished(&self) -> bool {
        let mut hosts = self.hosts().zip(&self.awaited);
        hosts.all(|((_, host), &awaited)| host.has_finished(awaited))
    }

    fn step(&mut self) -> Result<(), RunError> {
        let end_ps = self.kernel.now_ps() + STEP_PS;
        self.kernel.run_until(end_ps.min(self.limit_ps))
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

    /// The parts of real hosts, by name.
    pub fn real(&self) -> impl Iterator<Item = (&str, &Real)> {
        let real = self.real.iter();
        real.filter_map(|(name, real, _)| Some((name.as_str(), self.kernel.component(*real)?)))
    }

    /// The cards, by the names of their hosts, modelled or real.
    pub fn cards(&self) -> impl Iterator<Item = (&str, &Card)> {
        let hosts = self.hosts.iter().chain(&self.real);
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
    let real = description.real.iter().enumerate();
    let real = real.map(|(number, it)| (it.name.as_str(), Part::Real(number)));
    let mut names = BTreeMap::new();
    for (name, part) in hosts.chain(switches).chain(real) {
        if names.insert(name, part).is_some() {
            return refuse(format!("two parts are called `{name}`"));
        }
    }
    if description.host.len() > 250 {
        return refuse("a system has at most 250 hosts");
    }
    for card in &description.card {
        let part = names.get(card.host.as_str());
        if !matches!(part, Some(Part::Host(_) | Part::Real(_))) {
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

/// The work of each host, in thousands of frames that its connections and its sources of datagrams send and receive. A frame is about five events at a host, five at its card, and one at each
/// switch.
fn weights(description: &Description) -> Vec<u64> {
    let mut frames = vec![1; description.host.len()];
    for (number, host) in description.host.iter().enumerate() {
        for offer in &host.offer {
            let to = description.host.iter().position(|it| it.name == offer.to);
            let frames_of_each = 1 + u64::from(offer.answered);
            let thousands = (offer.count / 1000).clamp(1, 1 << 32) * frames_of_each;
            for end in [Some(number), to].into_iter().flatten() {
                frames[end] += thousands;
            }
        }
        for connect in &host.connect {
            let asked = connect.request_bytes.unwrap_or(0) + connect.answer_bytes.unwrap_or(0);
            let asked = connect
                .requests
                .unwrap_or(0)
                .saturating_mul(asked.max(3000));
            let bytes = connect.bytes.unwrap_or(0).saturating_add(asked);
            // Beyond that a run does not end anyway, and sums stay sums.
            let thousands = (bytes / 1_000_000).clamp(1, 1 << 32);
            let to = description.host.iter().position(|it| it.name == connect.to);
            for end in [Some(number), to].into_iter().flatten() {
                frames[end] += thousands;
            }
        }
    }
    frames
}

/// The ends of the links, by link.
struct Links(Vec<[End; 2]>);

impl Links {
    /// The hosts that send or take datagrams, each with the port of the switch that the shortest way from the host comes in at.
    fn ways_from(&self, description: &Description, switch: usize) -> Vec<(usize, usize)> {
        let hosts = description.host.len();
        let switches = hosts..hosts + description.switch.len();
        let mut ways = Vec::new();
        for host in (0..hosts).filter(|&it| description.has_datagrams(it)) {
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
                    if switches.contains(&end.part) {
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
    let (hosts, switches) = (description.host.len(), description.switch.len());
    let mut ports = vec![0; hosts + switches + description.real.len()];
    let mut links = Vec::new();
    for link in &description.link {
        let mut ends = Vec::new();
        for name in &link.ends {
            let part = match names.get(name.as_str()) {
                Some(Part::Host(number)) => *number,
                Some(Part::Switch(number)) => hosts + number,
                Some(Part::Real(number)) => hosts + switches + number,
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
    check_rings(description, hosts..hosts + switches, &links)?;
    Ok(Links(links))
}

/// Refuses links between switches that close a ring: no switch would take a flooded frame from it.
fn check_rings(
    description: &Description,
    switches: Range<usize>,
    links: &[[End; 2]],
) -> Result<(), DescriptionError> {
    // By part: itself if it stands for all that it is joined to, or another of them.
    let mut joined: Vec<usize> = (0..switches.end).collect();
    for (link, [a, b]) in description.link.iter().zip(links) {
        if !switches.contains(&a.part) || !switches.contains(&b.part) {
            continue;
        }
        let [a, b] = [a.part, b.part].map(|mut part| {
            while joined[part] != part {
                part = joined[part];
            }
            part
        });
        if a == b {
            let [a, b] = &link.ends;
            return refuse(format!(
                "the link of `{a}` and `{b}` closes a ring of switches, in which flooded frames would circle for ever"
            ));
        }
        joined[a] = b;
    }
    Ok(())
}

/// The seed of a part's random numbers: a function of the run's seed, and of the place.
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
        let spread_ps = picoseconds("spread_us", connect.spread_us, 1e6)?;
        let late = seed_of(seed, &format!("connections of {}", text.name), count);
        let late_ps = SplitMix64::new(late).unit() * spread_ps as f64;
        openings.push(Opening {
            at_ps: picoseconds("at_us", connect.at_us, 1e6)? + late_ps as u64,
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
    let host = host.seeded(seed_of(seed, &format!("cores of {}", text.name), 0));
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

/// The card of a host, and the latency between both.
fn card_of(
    description: &Description,
    host: &str,
    wire: Wire,
    prepare: Prepare<'_>,
    seed: u64,
) -> Result<(Card, u64), DescriptionError> {
    let Some(text) = description.card.iter().find(|it| it.host == host) else {
        return Ok((
            Card::new(CardModel::default(), wire, Vec::new(), None),
            PCIE_PS,
        ));
    };
    let (model, pcie_ps) = text.model()?;
    let stages = text.stage.iter().enumerate().map(|(number, stage)| {
        let seed = seed_of(seed, host, STAGES + number);
        stage.model(text, seed)
    });
    let stages = stages.collect::<Result<Vec<_>, _>>()?;
    let protection = protection(text.digest.as_ref(), prepare)?;
    if protection.is_some() && stages.is_empty() {
        return refuse(format!(
            "the card of `{host}` computes digests, but has no stage that does"
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
    fn seeds_spread_beginnings_and_times_of_cores() {
        let text = THREE
            .replace("loss = 0.001", "")
            .replace("at_us = 10,", "at_us = 10, spread_us = 1000,");
        let run = |text: &str, seed: u64| {
            let mut system = System::assemble(&text.parse().expect("a system"), &prepare, seed, 1)
                .expect("it is whole");
            assert!(system.run().expect("nothing fails"));
            let hosts: Vec<(u64, u64, u64)> = system
                .hosts()
                .map(|(_, host)| {
                    let usage = host.usage();
                    (
                        host.flows()[0].opened_ps,
                        usage.busy_ps,
                        usage.sent + usage.received,
                    )
                })
                .collect();
            hosts
        };
        let seeds = [1, 2, 3, 4].map(|seed| run(&text, seed));
        assert_eq!(seeds[0], run(&text, 1));
        // One opens at once, the other up to a millisecond late.
        let late = seeds.each_ref().map(|hosts| hosts[2].0);
        assert!(
            late.iter()
                .all(|at| (10_000_000..=1_010_000_000).contains(at)),
            "{late:?}"
        );
        assert!(late.windows(2).all(|pair| pair[0] != pair[1]), "{late:?}");
        assert!(seeds.iter().all(|hosts| hosts[1].0 == 0));
        // Times that vary by a half have the mean that they have without: within five standard deviations of a uniform distribution's mean.
        let jittery = text.replace("[[host]]", "[[host]]\n jitter = 0.5");
        let jittery = run(&jittery, 1)[0];
        let plain = seeds[0][0];
        assert_ne!(jittery.1, plain.1);
        let per_frame = |(_, busy_ps, frames): (u64, u64, u64)| busy_ps as f64 / frames as f64;
        let share = per_frame(jittery) / per_frame(plain) - 1.0;
        let bound = 5.0 * 0.5 / (3.0 * jittery.2 as f64).sqrt();
        // Interrupts come at other times, and are no frames.
        assert!(share.abs() < bound + 0.05, "{share} {bound}");
    }

    /// A chain of switches is no ring; one link more makes it one, also between two, and at one.
    #[test]
    fn rings_of_switches_are_refused() {
        let with = |ends: &[[&str; 2]]| {
            let mut text = THREE.to_owned();
            for name in ["s1", "s2", "s3"] {
                text += &format!("[[switch]]\nname = \"{name}\"\n");
            }
            for ends in ends {
                text += &format!("[[link]]\nends = {ends:?}\n");
            }
            assemble(&text, 1).err().map(|it| it.to_string())
        };
        let chain = [["switch", "s1"], ["s2", "s1"], ["s2", "s3"]];
        assert_eq!(with(&chain), None);
        for last in [
            ["s3", "switch"],
            ["s1", "s3"],
            ["s1", "s2"],
            ["switch", "s1"],
            ["s3", "s3"],
        ] {
            let said = with(&[&chain[..], &[last]].concat()).expect("it is refused");
            let [a, b] = last;
            let link = format!("the link of `{a}` and `{b}` closes a ring");
            assert!(said.contains(&link), "{said}");
        }
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
            ("at_us = 10,", "spread_us = -1,", "no time"),
            (
                "name = \"b\"",
                "name = \"b\"\n jitter = 1.0",
                "jitter: it is a share",
            ),
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
