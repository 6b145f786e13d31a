//! A tester between two ports: [`Tester`].

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use dpb_core::port::{Arrivals, PortStats};
use dpb_core::{Buf, Clock, PacketPort, SetupError};

use super::Stateful;
use super::packets::{Connections, Met, Packets, Sending};
use crate::packet::Frame;
use crate::search::{TrialInput, TrialOutput};
use crate::traffic::{Permutation, Profile, Read, Schedule, StampKey, Traffic, TrafficError};
use crate::trial::receiver::LATE;
use crate::trial::{Between, Outcome, Plan, Pool, SystemUnderTest, TrialError, Validity, run};

/// Packets that are received at once.
const BURST: usize = 64;
/// For so long a system may have the last packet of a tear-down in its hands.
const PATIENCE_NS: u64 = 10_000_000_000;

/// How a tester's phases are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long after its departure a packet may be offered in a phase whose rate is measured; as [`Plan::tolerance_ns`].
    pub tolerance_ns: u64,
    /// The same in other phases: while the table is filled, and for answers. What a port has no room for is tried again for so long.
    pub patience_ns: u64,
    /// The time for which packets that are under way may still arrive.
    pub settle_ns: u64,
}

impl Default for Timing {
    /// CSIT's tolerance of 10 µs, a patience of a second, 50 ms for what is under way.
    fn default() -> Self {
        Self {
            tolerance_ns: 10_000,
            patience_ns: 1_000_000_000,
            settle_ns: 50_000_000,
        }
    }
}

/// What makes a system forget its connections.
pub struct Forgetting<'a> {
    /// Called to have it forget.
    pub call: Box<dyn FnMut() -> io::Result<()> + 'a>,
    /// A system that forgets when the next packet comes by gets so many answers, on connections that it is about to forget, and has forgotten all when each of them was dropped. It has to
    /// count what it drops. Zero for a system that has forgotten when the call is over.
    pub answers: u64,
}

/// What ends a measurement.
#[derive(Debug, thiserror::Error)]
pub enum TesterError {
    /// A trial was not done, or its packets do not add up.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// Connections could not be forgotten.
    #[error("the system cannot be made to forget its connections")]
    Forget(#[source] io::Error),
    /// Answers came through on connections that nobody had begun.
    #[error(
        "{0} answers came through on connections that had been torn down: the system forgets none, or has no table, or lets the responder begin connections too"
    )]
    LetThrough(u64),
    /// Answers are missing, and no counter has them.
    #[error("of {sent} answers on connections that had been torn down {accounted} were dropped")]
    Unaccounted {
        /// Answers that were sent.
        sent: u64,
        /// Those that are accounted for.
        accounted: u64,
    },
    /// More connections than the tester was made for.
    #[error(
        "{wanted} connections; this tester has {count}, and none has more than {}",
        Tester::CONNECTIONS_MAX
    )]
    Connections {
        /// Connections that were asked for.
        wanted: u64,
        /// Those that there are.
        count: u64,
    },
}

impl From<SetupError> for TesterError {
    fn from(error: SetupError) -> Self {
        Self::Trial(error.into())
    }
}

/// RFC 9693's tester: the initiator is a system's first port, the responder the other one. It begins connections of UDP, and answers as their packets come to the responder, whatever a NAT has
/// made of their addresses and ports.
pub struct Tester<'b> {
    connections: Connections,
    count: u64,
    seed: u64,
    /// Trials that were done: each has a number of its own.
    trials: u64,
    /// Packets that were sent in rounds over the connections: the next trial goes on where the last one ended, so that no connection waits for longer than a round.
    sent: u64,
    timing: Timing,
    is_rate_measured: bool,
    clock: &'b dyn Clock,
    between: Between<'b, dyn PacketPort + 'b, dyn PacketPort + 'b>,
    forgetting: Forgetting<'b>,
    pools: [Pool; 2],
    /// Of each connection the packet that came to the responder.
    met: Vec<Option<Met>>,
    last: Option<Outcome>,
}

impl<'b> Tester<'b> {
    /// Most connections of a tester: to remember more would take more than 25 GB.
    pub const CONNECTIONS_MAX: u64 = 1 << 27;

    /// A tester of up to `count` connections with the lengths, addresses, ports and families of `profile`.
    ///
    /// # Errors
    /// [`TrafficError`].
    pub fn new(
        profile: &Profile,
        count: u64,
        timing: Timing,
        clock: &'b dyn Clock,
        between: Between<'b, dyn PacketPort + 'b, dyn PacketPort + 'b>,
        forgetting: Forgetting<'b>,
    ) -> Result<Self, TrafficError> {
        Ok(Self {
            connections: Connections::new(profile, count)?,
            count,
            seed: profile.seed,
            trials: 0,
            sent: 0,
            timing,
            is_rate_measured: false,
            clock,
            between,
            forgetting,
            pools: Default::default(),
            met: Vec::new(),
            last: None,
        })
    }

    /// Says if the rate at which connections are made is what is measured: then the initiator has to be in time.
    pub fn measure_rate(&mut self, is_measured: bool) {
        self.is_rate_measured = is_measured;
    }

    /// What the last phase's trial found.
    pub fn last(&self) -> Option<&Outcome> {
        self.last.as_ref()
    }

    /// The part of a trial's plan that all phases share.
    fn plan(&mut self, per_s: f64, duration_ns: u64, tolerance_ns: u64) -> Plan {
        self.trials += 1;
        Plan {
            tolerance_ns,
            settle_ns: self.timing.settle_ns,
            trial: self.trials,
            ..Plan::new(Schedule::constant(per_s), duration_ns, self.seed)
        }
    }

    /// The plan of a phase that sends all of its packets.
    fn plan_of(&mut self, packets: u64, per_s: f64, tolerance_ns: u64) -> Plan {
        // The last one is due half a packet's time before the end.
        let duration_ns = (packets as f64 - 0.5) * 1e9 / per_s;
        self.plan(per_s, duration_ns as u64, tolerance_ns)
    }

    /// The packets that came out of a trial of `packets`, if it says something. A late one counts: how long a packet was under way says nothing of its connection.
    fn came(&self, packets: u64) -> Option<u64> {
        let outcome = self.last.as_ref()?;
        let reasons = outcome.account.drops.reasons.iter();
        let late = reasons.filter(|(reason, _)| reason == LATE);
        let late: u64 = late.map(|(_, packets)| packets).sum();
        let is_valid = outcome.validity == Validity::Valid && outcome.balance.offered == packets;
        is_valid.then_some(outcome.balance.delivered + late)
    }

    /// The packets that came to the responder on these connections.
    fn answerable(&self, connections: &Range<u64>) -> Vec<Met> {
        let in_range = self.met.iter().skip(connections.start as usize);
        let count = connections.end.saturating_sub(connections.start);
        in_range.take(count as usize).flatten().copied().collect()
    }

    /// The frames of answers on connections that there are, spread over these, so that each part of the system gets some; and their key.
    fn answers(&mut self) -> Result<(StampKey, VecDeque<Buf>), TesterError> {
        self.trials += 1;
        let key = StampKey::new(self.seed, self.trials);
        let answerable = self.met.iter().flatten().count();
        let wanted = (self.forgetting.answers as usize).min(answerable);
        let met = self.met.iter().flatten();
        let some: Vec<Met> = met
            .step_by((answerable / wanted.max(1)).max(1))
            .take(wanted)
            .copied()
            .collect();
        let packets = Packets {
            connections: &self.connections,
            sending: Sending::Answers(&some),
        };
        let mut frames = VecDeque::with_capacity(some.len());
        for i in 0..some.len() as u64 {
            let mut frame = self.between.to.alloc(packets.frame_bytes(i))?;
            packets.write(i, 0, &key, &mut frame);
            frames.push_back(frame);
        }
        Ok((key, frames))
    }

    /// Sends these answers, whose connections are over, and waits until the system has dropped them all.
    fn wake(&mut self, key: StampKey, mut out: VecDeque<Buf>) -> Result<(), TesterError> {
        let Between { from, to, system } = &mut self.between;
        let (sent, mut dropped, mut through) = (out.len() as u64, 0, 0);
        let mut came = Vec::with_capacity(BURST);
        let over_ns = self.clock.now_ns() + PATIENCE_NS;
        while dropped + through < sent {
            if !out.is_empty() {
                let taken = to.send(&mut out);
                taken.map_err(|source| port_error(&**to, source))?;
            }
            system.turn().map_err(TrialError::System)?;
            dropped += system.drops().map_err(TrialError::System)?.packets();
            let taken = from.receive(&mut came, BURST);
            taken.map_err(|source| port_error(&**from, source))?;
            let is_answer = |frame: &Buf| matches!(key.read(frame), Read::Stamp(_));
            through += came.drain(..).filter(is_answer).count() as u64;
            if self.clock.now_ns() > over_ns {
                return Err(TesterError::Unaccounted {
                    sent,
                    accounted: dropped + through,
                });
            }
        }
        match through {
            0 => Ok(()),
            _ => Err(TesterError::LetThrough(through)),
        }
    }
}

fn port_error<P: PacketPort + ?Sized>(port: &P, source: io::Error) -> TrialError {
    TrialError::Port {
        port: port.name().to_owned(),
        source,
    }
}

/// The packets between two ports and a system that are offered at one and arrive at the other.
fn offer(
    plan: &Plan,
    packets: &Packets<'_>,
    clock: &dyn Clock,
    pool: &mut Pool,
    from: &mut dyn PacketPort,
    to: &mut dyn PacketPort,
    system: &mut dyn SystemUnderTest,
) -> Result<Outcome, TrialError> {
    let mut between = Between { from, to, system };
    run(plan, packets, clock, pool, &mut between)
}

impl Stateful for Tester<'_> {
    type Error = TesterError;

    fn establish(
        &mut self,
        connections: Range<u64>,
        per_s: f64,
    ) -> Result<Option<u64>, TesterError> {
        let count = connections.end.saturating_sub(connections.start);
        if count == 0 {
            self.last = None;
            return Ok(Some(0));
        }
        if connections.end > self.count.min(Self::CONNECTIONS_MAX) {
            return Err(TesterError::Connections {
                wanted: connections.end,
                count: self.count,
            });
        }
        let tolerance_ns = match self.is_rate_measured {
            true => self.timing.tolerance_ns,
            false => self.timing.patience_ns,
        };
        let plan = self.plan_of(count, per_s, tolerance_ns);
        let packets = Packets {
            connections: &self.connections,
            sending: Sending::Each(connections.start),
        };
        self.met.clear();
        self.met.resize(connections.end as usize, None);
        let Between { from, to, system } = &mut self.between;
        let mut to = Meeting {
            port: &mut **to,
            key: StampKey::new(plan.seed, plan.trial),
            met: &mut self.met[connections.start as usize..],
        };
        let pool = &mut self.pools[0];
        let outcome = offer(
            &plan,
            &packets,
            self.clock,
            pool,
            &mut **from,
            &mut to,
            &mut **system,
        )?;
        self.last = Some(outcome);
        Ok(self.came(count))
    }

    fn answer(&mut self, connections: Range<u64>, per_s: f64) -> Result<Option<u64>, TesterError> {
        let met = self.answerable(&connections);
        if met.is_empty() {
            self.last = None;
            return Ok(Some(0));
        }
        let plan = self.plan_of(met.len() as u64, per_s, self.timing.patience_ns);
        let packets = Packets {
            connections: &self.connections,
            sending: Sending::Answers(&met),
        };
        let Between { from, to, system } = &mut self.between;
        let pool = &mut self.pools[1];
        let outcome = offer(
            &plan,
            &packets,
            self.clock,
            pool,
            &mut **to,
            &mut **from,
            &mut **system,
        )?;
        self.last = Some(outcome);
        Ok(self.came(met.len() as u64))
    }

    /// A trial from the initiator to the responder.
    fn trial(
        &mut self,
        connections: Range<u64>,
        TrialInput { load, duration_s }: TrialInput,
    ) -> Result<Option<TrialOutput>, TesterError> {
        let count = connections.end.saturating_sub(connections.start).max(1);
        let tolerance_ns = self.timing.tolerance_ns;
        let plan = self.plan(load, (duration_s * 1e9) as u64, tolerance_ns);
        let order = Permutation::new(count, self.seed);
        let packets = Packets {
            connections: &self.connections,
            sending: Sending::Rounds {
                first: connections.start,
                order: &order,
                sent: self.sent,
            },
        };
        let Between { from, to, system } = &mut self.between;
        let pool = &mut self.pools[0];
        let outcome = offer(
            &plan,
            &packets,
            self.clock,
            pool,
            &mut **from,
            &mut **to,
            &mut **system,
        )?;
        let outcome = self.last.insert(outcome);
        self.sent += outcome.balance.offered;
        if outcome.validity != Validity::Valid || outcome.balance.offered == 0 {
            return Ok(None);
        }
        Ok(Some(TrialOutput {
            loss_ratio: outcome.balance.loss_ratio(),
            effective_s: outcome.took_ns as f64 / 1e9,
        }))
    }

    fn tear_down(&mut self) -> Result<f64, TesterError> {
        // What trials before left is not to be taken for what answers become of.
        self.between.system.drops().map_err(TrialError::System)?;
        self.last = None;
        // Made before the clock starts: how long that takes is the tester's business.
        let (key, answers) = self.answers()?;
        let start_ns = self.clock.now_ns();
        (self.forgetting.call)().map_err(TesterError::Forget)?;
        self.wake(key, answers)?;
        Ok((self.clock.now_ns() - start_ns) as f64 / 1e9)
    }
}

/// A port that notes what comes of connections.
struct Meeting<'p> {
    port: &'p mut dyn PacketPort,
    key: StampKey,
    met: &'p mut [Option<Met>],
}

impl Meeting<'_> {
    fn meet(&mut self, frame: &[u8]) {
        let Read::Stamp(stamp) = self.key.read(frame) else {
            return;
        };
        let (Some(slot), Ok(read)) = (self.met.get_mut(stamp.number as usize), Frame::read(frame))
        else {
            return;
        };
        if let (Some(macs), Some(addresses), Some(ports)) =
            (read.link_addresses(), read.ends(), read.ports())
        {
            *slot = Some(Met {
                macs,
                addresses,
                ports,
            });
        }
    }
}

impl PacketPort for Meeting<'_> {
    fn name(&self) -> &str {
        self.port.name()
    }

    fn packet_bytes_max(&self) -> usize {
        self.port.packet_bytes_max()
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        self.port.alloc(len)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let before = packets.len();
        let received = self.port.receive(packets, max);
        for frame in &packets[before..] {
            self.meet(frame);
        }
        received
    }

    fn arrivals(&self) -> Arrivals<'_> {
        self.port.arrivals()
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        self.port.send(packets)
    }

    fn stats(&mut self) -> PortStats {
        self.port.stats()
    }

    fn is_at_end(&self) -> bool {
        self.port.is_at_end()
    }

    fn is_looped(&self) -> bool {
        self.port.is_looped()
    }
}
