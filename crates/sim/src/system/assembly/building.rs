//! A system while it is put together, part by part.

use super::{
    Card, ComponentId, Description, DescriptionError, End, Links, Message, Plan, Prepare, Real,
    Switch, WaysOut, Wire, WiringError, address, card, card_of, host, host_of, real, refuse,
    seed_of, weights,
};

/// A host by its name, the component, and its card.
pub(super) type Station = (String, ComponentId, ComponentId);

/// A system while it is put together. Parts are numbered in the order in which they are added: hosts, switches, real hosts.
pub(super) struct Building<'a> {
    description: &'a Description,
    prepare: Prepare<'a>,
    seed: u64,
    links: &'a Links,
    /// The work of each host, as [`weights`] has it.
    weights: Vec<u64>,
    pub(super) plan: Plan<Message>,
    /// By part: the component that links end at and its ports; `None` if it is in another process.
    ends: Vec<Option<(ComponentId, Vec<usize>)>>,
}

impl<'a> Building<'a> {
    pub(super) fn new(
        description: &'a Description,
        prepare: Prepare<'a>,
        seed: u64,
        links: &'a Links,
    ) -> Self {
        Self {
            description,
            prepare,
            seed,
            links,
            weights: weights(description),
            plan: Plan::new(),
            ends: Vec::new(),
        }
    }

    pub(super) fn add_hosts(&mut self, ways: &WaysOut) -> Result<Vec<Station>, DescriptionError> {
        let mut hosts = Vec::new();
        for (number, text) in self.description.host.iter().enumerate() {
            let card = self.card(&text.name, ways.is_here(&text.name))?;
            let Some((card, pcie_ps)) = card else {
                continue;
            };
            let host = host_of(self.description, number, self.prepare, self.seed)?;
            let weight = 5 * self.weights[number];
            let host = self.plan.add(&text.name, weight, host);
            hosts.push(self.plug(&text.name, card, (host, host::CARD), pcie_ps)?);
        }
        Ok(hosts)
    }

    pub(super) fn add_real(
        &mut self,
        ways: &mut WaysOut,
    ) -> Result<Vec<Station>, DescriptionError> {
        let mut all = Vec::new();
        for text in &self.description.real {
            let card = self.card(&text.name, ways.is_here(&text.name))?;
            let Some((card, pcie_ps)) = card else {
                continue;
            };
            let id = self.plan.add(&text.name, 1, Real::new());
            all.push(self.plug(&text.name, card, (id, real::CARD), pcie_ps)?);
            if let Some(way) = ways.real.remove(&text.name) {
                self.plan.lead_out((id, real::OUT), way).map_err(wrong)?;
            }
        }
        Ok(all)
    }

    /// The card of a host and the latency to it, if the host is here. The next part's number is the host's.
    fn card(&mut self, host: &str, is_here: bool) -> Result<Option<(Card, u64)>, DescriptionError> {
        let joined = self.links.of(self.ends.len());
        let [(_, link)] = joined[..] else {
            let count = joined.len();
            return refuse(format!("host `{host}` has one link, not {count}"));
        };
        if !is_here {
            self.ends.push(None);
            return Ok(None);
        }
        let (mut model, _) = self.description.link[link].model()?;
        // The card's ring is what waits; nothing is dropped between it and the wire.
        model.queue_bytes = u64::MAX;
        let wire = Wire::new(model, seed_of(self.seed, host, 0));
        card_of(self.description, host, wire, self.prepare, self.seed).map(Some)
    }

    /// Puts a card into its host.
    fn plug(
        &mut self,
        name: &str,
        card: Card,
        host: (ComponentId, usize),
        pcie_ps: u64,
    ) -> Result<Station, DescriptionError> {
        let part = self.ends.len();
        let weight = 5 * self.weights.get(part).copied().unwrap_or(1);
        let card = self.plan.add(&format!("card of {name}"), weight, card);
        let joined = self.plan.join(host, (card, card::HOST), pcie_ps);
        joined.map_err(wrong)?;
        self.ends.push(Some((card, vec![card::WIRE])));
        Ok((name.to_owned(), host.0, card))
    }

    /// The switches, and the names of the parts that their ports lead to.
    pub(super) fn add_switches(
        &mut self,
        ways: &WaysOut,
    ) -> Result<Vec<(String, ComponentId, Vec<String>)>, DescriptionError> {
        let mut switches = Vec::new();
        for (number, text) in self.description.switch.iter().enumerate() {
            let joined = self.links.of(self.ends.len());
            if !ways.is_here(&text.name) {
                self.ends.push(None);
                continue;
            }
            let wire = |&(port, link): &(usize, usize)| {
                let (model, _) = self.description.link[link].model()?;
                Ok(Wire::new(model, seed_of(self.seed, &text.name, port)))
            };
            let wires: Result<Vec<Wire>, DescriptionError> = joined.iter().map(wire).collect();
            let mut switch = Switch::new(text.model()?, wires?);
            for (host, port) in self.links.ways_from(self.description, number) {
                switch.learn(address(host).mac, port);
            }
            let near = joined.iter().flat_map(|&(_, link)| &self.links.0[link]);
            let weight = near.filter_map(|end| self.weights.get(end.part)).sum();
            let switch = self.plan.add(&text.name, weight, switch);
            self.ends.push(Some((switch, (0..joined.len()).collect())));
            let others = joined.iter().map(|&(_, link)| {
                let [a, b] = &self.description.link[link].ends;
                if *a == text.name {
                    b.clone()
                } else {
                    a.clone()
                }
            });
            switches.push((text.name.clone(), switch, others.collect()));
        }
        Ok(switches)
    }

    /// Joins the parts that are here, and leads links out whose other end is not.
    pub(super) fn join(&mut self, ways: &mut WaysOut) -> Result<(), DescriptionError> {
        for (link, text) in self.description.link.iter().enumerate() {
            let ends = [0, 1].map(|end| {
                let End { part, port } = self.links.0[link][end];
                let (component, ports) = self.ends[part].as_ref()?;
                Some((*component, ports[port]))
            });
            let (_, latency_ps) = text.model()?;
            match ends {
                [Some(a), Some(b)] => self.plan.join(a, b, latency_ps).map_err(wrong)?,
                [Some(end), None] | [None, Some(end)] => {
                    if let Some(way) = ways.links.remove(&link) {
                        self.plan.lead_out(end, way).map_err(wrong)?;
                    }
                }
                [None, None] => {}
            }
        }
        Ok(())
    }
}

fn wrong(wrong: WiringError) -> DescriptionError {
    DescriptionError(wrong.to_string())
}
