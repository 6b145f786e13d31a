//! Results of a run of a system: its parts, the way of frames, flows and their fates.

use super::{Card, System};
use crate::system::datagrams::Received;
use crate::system::journey::{ANSWER, Leg};
use crate::system::ledger::{Ledger, Reason};
use crate::system::part::Part;
use crate::system::watch::Account;

/// All parts, by their whole names, in the order of their places.
pub fn parts(system: &System) -> Vec<Part> {
    let mut parts = Vec::new();
    for (name, own, card) in system.stations() {
        add_station(&mut parts, name, own, card);
    }
    for (name, switch, ports) in system.switches() {
        let usage = switch.usage();
        let forwarding = Part {
            jobs: usage.frames,
            dropped: usage.buffer_full + usage.turned_back,
            ..Part::passive("forwarding")
        };
        parts.push(forwarding.of(name));
        for (port, to) in ports.iter().enumerate() {
            let usage = switch.wire_usage(port).unwrap_or_default();
            parts.push(Part::wire(format!("wire to {to}"), usage).of(name));
        }
    }
    for (name, own, card) in system.real_stations() {
        add_station(&mut parts, name, own, card);
    }
    parts
}

/// Adds the parts of a host and those of its card.
fn add_station(parts: &mut Vec<Part>, name: &str, own: Vec<Part>, card: &Card) {
    parts.extend(own.into_iter().map(|it| it.of(name)));
    let card_name = format!("card of {name}");
    parts.extend(card.parts().into_iter().map(|it| it.of(&card_name)));
}

/// The part that binds: the one that was busy for the largest share of a run of this length.
pub fn busiest(parts: &[Part], run_ps: u64) -> Option<&Part> {
    let busy = parts.iter().filter(|part| part.busy_ps > 0);
    busy.max_by(|a, b| a.utilisation(run_ps).total_cmp(&b.utilisation(run_ps)))
}

/// The time at which the last application finished, or the last datagram came, in picoseconds; that of the kernel if none has.
pub fn end_ps(system: &System) -> u64 {
    let mut end_ps = 0;
    for (_, host) in system.hosts() {
        let flows = host.flows().iter().filter_map(|flow| flow.finished_ps);
        let answers = host.sources().iter().map(|it| it.answers.last_ps);
        end_ps = flows.chain(answers).fold(end_ps, u64::max);
    }
    let flows = datagram_flows(system);
    let received = flows.iter().filter_map(|it| it.received);
    match received.map(|it| it.last_ps).fold(end_ps, u64::max) {
        0 => system.kernel().now_ps(),
        end_ps => end_ps,
    }
}

/// Where the time of all frames with payload went that hosts accepted; empty if none was kept account of.
pub fn account(system: &System) -> Account {
    let mut account = Account::default();
    for (_, host) in system.hosts() {
        account.merge(host.account());
    }
    for (_, real) in system.real() {
        account.merge(real.account());
    }
    account
}

/// A row of an account.
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    /// The part.
    pub part: String,
    /// The cause.
    pub leg: Leg,
    /// The time of all frames together, in picoseconds.
    pub sum_ps: u64,
}

/// The account by names of parts, in the order of their places.
pub fn spent(system: &System) -> Vec<Spent> {
    let tracks = system.tracks();
    let account = account(system);
    let name = |place: usize| tracks.get(place).map_or("outside", |it| it.name.as_str());
    let rows = account.entries().map(|(place, leg, sum_ps)| Spent {
        part: name(usize::from(place.0)).to_owned(),
        leg,
        sum_ps,
    });
    rows.collect()
}

/// The fates of frames, of all parts together.
pub fn ledger(system: &System) -> Ledger {
    let mut ledger = Ledger::default();
    for (_, host) in system.hosts() {
        ledger.add(host.watch().ledger());
    }
    for (_, real) in system.real() {
        ledger.add(real.watch().ledger());
    }
    for (_, card) in system.cards() {
        for watch in card.watches() {
            ledger.add(watch.ledger());
        }
    }
    for (_, switch, _) in system.switches() {
        switch
            .watches()
            .for_each(|watch| ledger.add(watch.ledger()));
    }
    ledger
}

/// The datagrams of a source, or the answers to them: `offered` + `copied` = `refused` + `delivered` + `duplicates` + all that were dropped, when nothing is under way.
#[derive(Clone, Debug)]
pub struct DatagramFlow<'a> {
    /// The host that sends them.
    pub from: &'a str,
    /// The host that receives them.
    pub to: &'a str,
    /// The port that the source sends to.
    pub port: u16,
    /// True if they are answers.
    pub is_answer: bool,
    /// Datagrams that were to leave.
    pub offered: u64,
    /// Those of them that the sending host had no room for.
    pub refused: u64,
    /// The receiver's counts, if any came.
    pub received: Option<&'a Received>,
    /// Copies that wires and switches made.
    pub copied: u64,
    /// Datagrams that ended early, by reason.
    pub dropped: Vec<(Reason, u64)>,
}

impl DatagramFlow<'_> {
    /// Datagrams that came, each counted once.
    pub fn delivered(&self) -> u64 {
        self.received.map_or(0, |it| it.delivered)
    }

    /// Datagrams that ended early, for any reason.
    pub fn dropped_all(&self) -> u64 {
        self.dropped.iter().map(|(_, count)| count).sum()
    }

    /// Datagrams that are neither refused, delivered nor dropped yet.
    pub fn in_flight(&self) -> u64 {
        let again = self.received.map_or(0, |it| it.duplicates);
        let ended = self.refused + self.delivered() + again + self.dropped_all();
        (self.offered + self.copied).saturating_sub(ended)
    }
}

/// The flows of datagrams, by source: each, and the answers to it.
pub fn datagram_flows(system: &System) -> Vec<DatagramFlow<'_>> {
    let mut flows = Vec::new();
    if system.hosts().all(|(_, host)| host.sources().is_empty()) {
        return flows;
    }
    let ledger = ledger(system);
    for (from, host) in system.hosts() {
        for source in host.sources() {
            let model = source.model();
            let found = system
                .hosts()
                .find(|(_, it)| it.address().ip == model.to.ip);
            let Some((to, peer)) = found else {
                continue;
            };
            let services = peer.services().iter();
            let mut services = services.filter(|it| it.model().port == model.to.port);
            let received = services
                .next()
                .and_then(|it| it.received(host.address().ip, model.port));
            let flow = |number: u32| (ledger.copied(number), ledger.dropped(number).collect());
            let (copied, dropped) = flow(source.flow());
            flows.push(DatagramFlow {
                from,
                to,
                port: model.to.port,
                is_answer: false,
                offered: source.offered,
                refused: source.refused,
                received,
                copied,
                dropped,
            });
            if model.is_answered {
                let (copied, dropped) = flow(source.flow() | ANSWER);
                flows.push(DatagramFlow {
                    from: to,
                    to: from,
                    port: model.to.port,
                    is_answer: true,
                    offered: received.map_or(0, |it| it.answered),
                    refused: 0,
                    received: Some(&source.answers),
                    copied,
                    dropped,
                });
            }
        }
    }
    flows
}

/// Datagrams and answers that are under way.
pub fn in_flight(system: &System) -> u64 {
    let flows = datagram_flows(system);
    flows.iter().map(DatagramFlow::in_flight).sum()
}
