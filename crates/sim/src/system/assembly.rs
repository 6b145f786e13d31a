//! A described system, put together and run.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use dpb_core::random::SplitMix64;
use dpb_core::{Operator, SetupError};

use super::description::{
    Description, DescriptionError, DigestText, HostText, PCIE_PS, picoseconds, refuse,
};
use super::{
    Address, Card, CardModel, Host, Listening, Message, Opening, Protection, Switch, Wire,
    WireModel, card, host,
};
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
    /// Puts a system together. The seed determines faults, the spread of beginnings and the jitter of cores; the threads are those of the kernel, which change no result.
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
            let (card, pcie_ps) = card_of(description, text, wire(model, &text.name, 0), prepare)?;
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
            let switch = plan.add(&text.name, 1, Switch::new(text.model()?, wires?));
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

    /// Runs until all applications have finished, or the limit is reached. True if they have finished.
    ///
    /// # Errors
    /// If a part fails.
    pub fn run(&mut self) -> Result<bool, RunError> {
        // In steps, whose ends are the same however many threads there are.
        while self.kernel.now_ps() < self.limit_ps {
            let step_ps = self.kernel.now_ps() + 5 * MILLISECOND_PS;
            self.kernel.run_until(step_ps.min(self.limit_ps))?;
            if self.hosts().all(|(_, host)| host.has_finished()) {
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
        let seed = seed_of(seed, &format!("connections of {}", text.name), count);
        let late_ps = SplitMix64::new(seed).unit() * spread_ps as f64;
        openings.push(Opening {
            at_ps: picoseconds("at_us", connect.at_us, 1e6)? + late_ps as u64,
            port: 40_000 + count as u16,
            to: Address {
                port: connect.port,
                ..address(to)
            },
            application: connect.application()?,
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
    Ok(host.seeded(seed_of(seed, &format!("cores of {}", text.name), 0)))
}

/// The card of a host, and the latency between both.
fn card_of(
    description: &Description,
    host: &HostText,
    wire: Wire,
    prepare: Prepare<'_>,
) -> Result<(Card, u64), DescriptionError> {
    let Some(text) = description.card.iter().find(|it| it.host == host.name) else {
        return Ok((
            Card::new(CardModel::default(), wire, Vec::new(), None),
            PCIE_PS,
        ));
    };
    let (model, pcie_ps) = text.model()?;
    let stages: Result<Vec<_>, _> = text.stage.iter().map(|stage| stage.model()).collect();
    let stages = stages?;
    let protection = protection(text.digest.as_ref(), prepare)?;
    if protection.is_some() && stages.is_empty() {
        return refuse(format!(
            "the card of `{}` computes digests, but has no stage that does",
            host.name
        ));
    }
    Ok((Card::new(model, wire, stages, protection), pcie_ps))
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
