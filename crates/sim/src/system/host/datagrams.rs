//! Datagrams of a host: sources that send them, services that take them.

use super::{Host, SOURCE};
use crate::kernel::Context;
use crate::system::datagrams::{Reception, Service, ServiceModel, Source, SourceModel};
use crate::system::frame::Frame;
use crate::system::headers::{self, Address};
use crate::system::journey::flow_number;
use crate::system::ledger::Reason;
use crate::system::message::Message;

impl Host {
    /// Gives the host sources and services of datagrams; in turn, each keeps to a core.
    #[must_use]
    pub fn with_datagrams(
        mut self,
        sources: Vec<SourceModel>,
        services: Vec<ServiceModel>,
    ) -> Self {
        for (number, model) in sources.into_iter().enumerate() {
            let own = Address {
                port: model.port,
                ..self.address
            };
            let flow = flow_number(own.ip, own.port);
            let core = number % self.cores.len();
            self.cores[core].sources.push(number);
            self.sources.push(Source::new(model, own, flow));
        }
        for (number, model) in services.into_iter().enumerate() {
            let core = number % self.cores.len();
            self.cores[core].services.push(number);
            self.services.push(Service::new(model));
        }
        self
    }

    /// Its sources of datagrams.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Its services of datagrams.
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// Hands a datagram to the service or the source that it is for; false if it is for none.
    pub(super) fn take_datagram(
        &mut self,
        frame: &Frame,
        context: &mut Context<'_, Message>,
    ) -> bool {
        if !frame.is_datagram() {
            return false;
        }
        let now_ps = context.now_ps();
        let Some((source, destination, _)) = frame.ipv4() else {
            return false;
        };
        let Some((from_port, to_port)) = headers::ports(frame.head()) else {
            return false;
        };
        if destination != self.address.ip {
            return false;
        }
        let own = Address {
            port: to_port,
            ..self.address
        };
        let peer = Address {
            mac: frame.source(),
            ip: source,
            port: from_port,
        };
        let reception = if let Some(service) = self.service_at(to_port) {
            self.services[service].take(frame, peer, own, now_ps)
        } else if let Some(asker) = self.asker_at(to_port, peer) {
            match self.sources[asker].take(frame, peer, now_ps) {
                true => Reception::Taken,
                false => Reception::Wrong,
            }
        } else {
            return false;
        };
        self.usage.accepted += 1;
        match reception {
            Reception::Taken => self.enter(frame, now_ps),
            Reception::Answered => {
                self.enter(frame, now_ps);
                self.watch.waits(0, now_ps);
            }
            Reception::NoRoom => {
                self.enter(frame, now_ps);
                self.watch.dropped_answer(0, frame, now_ps);
            }
            Reception::Wrong => {
                self.usage.payload_wrong += 1;
                self.watch.dropped(0, frame, Reason::Payload, now_ps);
            }
        }
        true
    }

    fn service_at(&self, port: u16) -> Option<usize> {
        self.services.iter().position(|it| it.model().port == port)
    }

    /// The source that waits for answers from this peer at this port.
    fn asker_at(&self, port: u16, peer: Address) -> Option<usize> {
        self.sources.iter().position(|it| {
            let model = it.model();
            let to = (model.to.ip, model.to.port);
            model.is_answered && model.port == port && to == (peer.ip, peer.port)
        })
    }

    /// A source's next datagram is to leave.
    pub(super) fn depart(&mut self, number: usize, context: &mut Context<'_, Message>) {
        let source = &mut self.sources[number];
        if source.arrive() {
            self.watch.waits(0, context.now_ps());
        }
        if let Some(next_ps) = source.next_ps() {
            context.wake_at(next_ps, SOURCE + number as u64);
        }
        self.work(number % self.cores.len(), context);
    }

    /// The core of a datagram to this port: that of its service or its source.
    pub(super) fn core_of_datagram(&self, port: u16) -> usize {
        let source = || self.sources.iter().position(|it| it.model().port == port);
        let number = self.service_at(port).or_else(source);
        number.unwrap_or(0) % self.cores.len()
    }
}
