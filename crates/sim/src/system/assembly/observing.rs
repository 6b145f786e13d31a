//! Observers of a system's parts, and the places that they speak of.

use std::sync::{Arc, Mutex};

use super::super::journey::Place;
use super::super::part::Part;
use super::super::trace::{Trace, Track};
use super::super::watch::Watch;
use super::{Card, Host, Real, Switch, System};

impl System {
    /// Lets the system be observed from its start. With `keeps`, hosts keep account of where the time of frames went
    /// ([`report::account`](super::report::account)). Traces are
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
                watch_card(card, &mut watch);
            }
        }
        for (_, switch, ports) in &self.switches {
            if let Some(switch) = self.kernel.component_mut::<Switch>(*switch) {
                let own = watch(1);
                let wires: Vec<Watch> = ports.iter().map(|_| watch(1)).collect();
                switch.watch_by(own, wires);
            }
        }
        for (_, real, card) in &self.real {
            if let Some(real) = self.kernel.component_mut::<Real>(*real) {
                let places = real.parts().len();
                real.watch_by(watch(places), keeps);
            }
            if let Some(card) = self.kernel.component_mut::<Card>(*card) {
                watch_card(card, &mut watch);
            }
        }
    }

    /// The places of the system, in their order.
    pub fn tracks(&self) -> Vec<Track> {
        let mut tracks = Tracks::default();
        for (name, parts, card) in self.stations() {
            tracks.add_station(name, &parts, card);
        }
        for (name, _, ports) in self.switches() {
            tracks.add(format!("{name}: forwarding"), None);
            for port in ports {
                let interface = Some(format!("{name}: {port}"));
                tracks.add(format!("{name}: wire to {port}"), interface);
            }
        }
        for (name, parts, card) in self.real_stations() {
            tracks.add_station(name, &parts, card);
        }
        tracks.0
    }

    /// The hosts by name, with their parts and their cards.
    pub(super) fn stations(&self) -> impl Iterator<Item = (&str, Vec<Part>, &Card)> {
        let hosts = self.hosts().zip(self.cards());
        hosts.map(|((name, host), (_, card))| (name, host.parts(), card))
    }

    /// The real hosts by name, with the parts that stand for them and their cards.
    pub(super) fn real_stations(&self) -> impl Iterator<Item = (&str, Vec<Part>, &Card)> {
        let cards = self.cards().skip(self.hosts.len());
        let real = self.real().zip(cards);
        real.map(|((name, real), (_, card))| (name, real.parts(), card))
    }
}

/// Gives a card and its wire the next places.
fn watch_card(card: &mut Card, watch: &mut impl FnMut(usize) -> Watch) {
    let places = card.parts().len() - 1;
    let own = watch(places);
    card.watch_by(own, watch(1));
}

/// Places, one behind the other.
#[derive(Default)]
struct Tracks(Vec<Track>);

impl Tracks {
    fn add(&mut self, name: String, interface: Option<String>) {
        self.0.push(Track {
            place: Place(self.0.len() as u16),
            name,
            interface,
        });
    }

    /// Adds the parts of a host and those of its card, of which the last is the wire.
    fn add_station(&mut self, name: &str, own: &[Part], card: &Card) {
        for part in own {
            self.add(format!("{name}: {}", part.name), None);
        }
        let parts = card.parts();
        let last = parts.len() - 1;
        for (number, part) in parts.into_iter().enumerate() {
            let interface = (number == last).then(|| name.to_owned());
            self.add(format!("card of {name}: {}", part.name), interface);
        }
    }
}
