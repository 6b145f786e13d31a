//! A core that receives for others: [`Dispatcher`], where ports have fewer queues than there are cores.

use std::collections::VecDeque;
use std::fmt;
use std::io;

use dpb_core::{Buf, PacketPort};

use super::egress::Egress;
use super::shard::are_at_end;
use super::{
    Account, Burst, Counters, Distributor, Live, Mark, Reason, Remote, Stage, StageReport, Tally,
    WhenFull, Work,
};

/// Receives from ports, gives each packet to the core that its flow belongs to, and sends what comes back. The cores run a
/// [`Station`](super::Station), mostly with a [`Line`](super::Line) in it. It is done when all of its ports are at their [end](PacketPort::is_at_end) and all packets have
/// left.
pub struct Dispatcher {
    name: String,
    ports: Vec<Box<dyn PacketPort>>,
    egress: Egress,
    sharding: Box<dyn Distributor>,
    lanes: Vec<Lane>,
    spare: Vec<Burst>,
    came: Vec<Buf>,
    shards: Vec<u16>,
    done: Vec<Burst>,
    packets_max: usize,
    when_full: WhenFull,
    received: Tally,
    dropped: super::Drops,
    next: usize,
    is_closed: bool,
}

/// The way to one core.
struct Lane {
    remote: Remote,
    /// The burst that is being filled; sent at the end of each turn.
    open: Burst,
    /// Bursts that its ring had no room for.
    ready: VecDeque<Burst>,
    counters: Counters,
}

/// Packets that wait for one port, in bursts.
const EGRESS_BURSTS: usize = 4;

impl Dispatcher {
    /// A dispatcher over `ports` for the cores at the other ends of `remotes`, shard 0 first, in bursts of up to `packets_max` packets.
    ///
    /// # Panics
    /// If there are more ports than a [`Mark`] can name, if there is no core, if `sharding` has another number of shards, or if a burst has no packet.
    pub fn new(
        name: impl Into<String>,
        ports: Vec<Box<dyn PacketPort>>,
        sharding: impl Distributor + 'static,
        remotes: Vec<Remote>,
        packets_max: usize,
        when_full: WhenFull,
    ) -> Self {
        assert!(ports.len() < usize::from(u16::MAX), "ports have numbers");
        assert!(packets_max > 0, "a burst of at least one packet");
        assert_eq!(sharding.shards(), remotes.len(), "a core for each shard");
        let lane = |remote| Lane {
            remote,
            open: Burst::with_capacity(packets_max * EGRESS_BURSTS),
            ready: VecDeque::with_capacity(LANE_BURSTS),
            counters: Counters::default(),
        };
        let lanes: Vec<Lane> = remotes.into_iter().map(lane).collect();
        let on_the_way = lanes.iter().map(|lane| lane.remote.depth() + LANE_BURSTS);
        // Where one core gets all packets of a burst, its open burst is sent and another one opened.
        let bursts = on_the_way.sum::<usize>() + lanes.len();
        Self {
            name: name.into(),
            egress: Egress::new(&ports, packets_max * EGRESS_BURSTS, when_full),
            ports,
            sharding: Box::new(sharding),
            spare: (0..bursts)
                .map(|_| Burst::with_capacity(packets_max * EGRESS_BURSTS))
                .collect(),
            came: Vec::with_capacity(packets_max),
            shards: Vec::with_capacity(packets_max),
            done: Vec::with_capacity(bursts),
            lanes,
            packets_max,
            when_full,
            received: Tally::default(),
            dropped: super::Drops::default(),
            next: 0,
            is_closed: false,
        }
    }

    /// Receives a burst of each port, as far as there is room, and spreads it.
    fn receive(&mut self) -> io::Result<usize> {
        let mut total = 0;
        for _ in 0..self.ports.len() {
            let at = self.next;
            self.next = (at + 1) % self.ports.len();
            let hold = self.when_full == WhenFull::Hold;
            if hold && self.lanes.iter().any(|lane| !lane.ready.is_empty()) {
                break;
            }
            if !self.egress.has_room(at) {
                continue;
            }
            let result = self.ports[at].receive(&mut self.came, self.packets_max);
            total += self.came.len();
            self.spread(at as u16);
            result?;
        }
        Ok(total)
    }

    /// Puts each packet that came into the open burst of its core.
    fn spread(&mut self, ingress: u16) {
        let Self {
            sharding,
            lanes,
            spare,
            came,
            shards,
            packets_max,
            received,
            dropped,
            ..
        } = self;
        received.add(came.len(), came.iter().map(Buf::len).sum());
        shards.clear();
        sharding.spread(ingress, came, shards);
        for (frame, shard) in came.drain(..).zip(&*shards) {
            let lane = &mut lanes[usize::from(*shard)];
            if lane.ready.len() >= LANE_BURSTS {
                dropped.count(Reason::SHARD_FULL, frame.len());
                continue;
            }
            lane.open.push(frame, Mark::of(ingress));
            if lane.open.len() == *packets_max {
                lane.close(spare);
            }
        }
        for lane in lanes {
            if !lane.open.is_empty() {
                lane.close(spare);
            }
        }
    }
}

/// Bursts that wait in front of a ring that is full.
const LANE_BURSTS: usize = 4;

impl Lane {
    /// Has the open burst sent, and opens another one.
    fn close(&mut self, spare: &mut Vec<Burst>) {
        let another = spare
            .pop()
            .expect("a burst for each place in ring and list");
        self.ready
            .push_back(std::mem::replace(&mut self.open, another));
        self.offer();
    }

    fn offer(&mut self) {
        let Self {
            remote,
            ready,
            counters,
            ..
        } = self;
        while let Some(first) = ready.front() {
            let (packets, bytes) = (first.len(), first.bytes());
            if !remote.offer_one(ready) {
                break;
            }
            counters.bursts += 1;
            counters.offered.add(packets, bytes);
        }
    }
}

impl Work for Dispatcher {
    fn turn(&mut self) -> io::Result<usize> {
        let mut moved = self.egress.flush(&mut self.ports)?;
        for lane in &mut self.lanes {
            lane.offer();
            lane.remote.poll(&mut self.done);
            for mut burst in self.done.drain(..) {
                let counters = &mut lane.counters;
                counters.dropped_inside += std::mem::take(&mut burst.gone_inside);
                burst.sweep(|reason, bytes| counters.dropped.count(reason, bytes));
                counters.finished.add(burst.len(), burst.bytes());
                moved += burst.len();
                moved += self.egress.pass(&mut burst, &mut self.ports)?;
                burst.renew();
                self.spare.push(burst);
            }
        }
        moved += self.egress.flush(&mut self.ports)?;
        if !self.is_closed {
            moved += self.receive()?;
        }
        Ok(moved)
    }

    fn close(&mut self) {
        self.is_closed = true;
    }

    fn is_done(&self) -> bool {
        let is_empty = |lane: &Lane| lane.ready.is_empty() && lane.remote.in_flight() == 0;
        let are_home = self.lanes.iter().all(is_empty) && self.egress.waiting() == 0;
        are_home && (self.is_closed || are_at_end(&self.ports))
    }

    fn live(&self, live: &Live) {
        let dropped = self.egress.dropped() + self.dropped.total().packets;
        live.store(self.received.packets, self.egress.sent(), dropped);
    }

    fn account(&self) -> Account {
        let of = |bursts: &VecDeque<Burst>| bursts.iter().map(|b| b.len() as u64).sum::<u64>();
        let in_front = self.lanes.iter().map(|lane| of(&lane.ready));
        let in_rings = (self.lanes.iter()).map(|lane| lane.remote.in_flight() as u64);
        let mut account = Account {
            name: self.name.clone(),
            received: self.received,
            dropped: self.dropped.clone(),
            waiting: in_front.sum(),
            bursts: in_rings.sum(),
            ..Account::default()
        };
        account
            .stages
            .extend(self.lanes.iter().map(|lane| StageReport {
                name: lane.remote.name().to_owned(),
                level: 0,
                counters: lane.counters.clone(),
            }));
        self.egress.report(&mut account);
        account
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, ports, lanes, ..
        } = self;
        let (ports, lanes) = (ports.len(), lanes.len());
        write!(f, "Dispatcher({name}, {ports} ports, {lanes} cores)")
    }
}
