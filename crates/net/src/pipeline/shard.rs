//! One core's ports and stages, run to completion: [`Shard`].

use std::collections::VecDeque;
use std::fmt;
use std::io;

use dpb_core::PacketPort;

use super::egress::Egress;
use super::{Account, Burst, Line, Live, Stage, Tally, WhenFull, Work};

/// Ports and a line of stages, driven by one loop: packets are received, go through the stages, and are sent by the port that their mark says. It is done
/// when all of its ports are at their [end](PacketPort::is_at_end) and all packets have left.
pub struct Shard {
    name: String,
    ports: Vec<Box<dyn PacketPort>>,
    egress: Egress,
    line: Line,
    packets_max: usize,
    /// Bursts that are at home. All there are is as many as the line holds.
    spare: Vec<Burst>,
    ready: VecDeque<Burst>,
    done: Vec<Burst>,
    received: Tally,
    /// The port whose turn it is, so that none is always first.
    next: usize,
    is_closed: bool,
}

/// Packets that wait for one port, in bursts.
const EGRESS_BURSTS: usize = 4;

impl Shard {
    /// A loop over `ports` and `line`, which receives up to `packets_max` packets at a time. Of a port with several queues, each shard has one
    /// of its own.
    ///
    /// # Panics
    /// If there are more ports than a [`Mark`](super::Mark) can name, or a burst has no packet.
    pub fn new(
        name: impl Into<String>,
        ports: Vec<Box<dyn PacketPort>>,
        line: Line,
        packets_max: usize,
        when_full: WhenFull,
    ) -> Self {
        assert!(ports.len() < usize::from(u16::MAX), "ports have numbers");
        assert!(packets_max > 0, "a burst of at least one packet");
        let depth = line.depth();
        // As much as the lists for ports have, with which they change places.
        let burst = |_| Burst::with_capacity(packets_max * EGRESS_BURSTS);
        Self {
            name: name.into(),
            egress: Egress::new(&ports, packets_max * EGRESS_BURSTS, when_full),
            ports,
            line,
            packets_max,
            spare: (0..depth).map(burst).collect(),
            ready: VecDeque::with_capacity(depth),
            done: Vec::with_capacity(depth),
            received: Tally::default(),
            next: 0,
            is_closed: false,
        }
    }

    /// Receives a burst of each port, as far as there is room.
    fn receive(&mut self) -> io::Result<usize> {
        let mut came = 0;
        let ports = self.ports.len();
        for _ in 0..ports {
            let at = self.next;
            self.next = (at + 1) % ports;
            if !self.egress.has_room(at) {
                continue;
            }
            let Some(mut burst) = self.spare.pop() else {
                break;
            };
            let (port, max) = (&mut self.ports[at], self.packets_max);
            let result = burst.fill(at as u16, |packets| port.receive(packets, max));
            came += burst.len();
            if burst.is_empty() {
                self.spare.push(burst);
            } else {
                self.received.add(burst.len(), burst.bytes());
                self.ready.push_back(burst);
            }
            result?;
        }
        Ok(came)
    }

    /// The line.
    pub fn line(&self) -> &Line {
        &self.line
    }
}

impl Work for Shard {
    fn turn(&mut self) -> io::Result<usize> {
        let mut moved = 0;
        if self.egress.waiting() > 0 {
            moved += self.egress.flush(&mut self.ports)?;
        }
        let received = match self.is_closed {
            true => Ok(0),
            false => self.receive(),
        };
        self.line.offer(&mut self.ready);
        if self.line.in_flight() > 0 {
            moved += self.line.poll(&mut self.done);
        }
        for mut burst in self.done.drain(..) {
            moved += self.egress.pass(&mut burst, &mut self.ports)?;
            burst.renew();
            self.spare.push(burst);
        }
        moved += self.egress.flush(&mut self.ports)?;
        Ok(moved + received?)
    }

    fn close(&mut self) {
        self.is_closed = true;
    }

    fn is_done(&self) -> bool {
        let at_home = self.spare.len() == self.line.depth();
        at_home && self.egress.waiting() == 0 && (self.is_closed || are_at_end(&self.ports))
    }

    fn live(&self, live: &Live) {
        live.store(
            self.received.packets,
            self.egress.sent(),
            self.egress.dropped(),
        );
    }

    fn account(&self) -> Account {
        let of = |bursts: &VecDeque<Burst>| bursts.iter().map(|b| b.len() as u64).sum::<u64>();
        let mut account = Account {
            name: self.name.clone(),
            received: self.received,
            waiting: of(&self.ready) + self.line.waiting(),
            bursts: self.line.in_flight() as u64,
            stages: self.line.reports(),
            ..Account::default()
        };
        self.egress.report(&mut account);
        account
    }
}

/// True if nothing comes of any of these ports any more.
pub(super) fn are_at_end(ports: &[Box<dyn PacketPort>]) -> bool {
    !ports.is_empty() && ports.iter().all(|port| port.is_at_end())
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, ports, line, ..
        } = self;
        write!(f, "Shard({name}, {} ports, {line:?})", ports.len())
    }
}
