//! Counters of loops and stages, and the check that they add up: [`Account`].

use std::fmt;

use super::Reason;

/// Packets, and the bytes of their frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes of frames, without preamble, check sequence and gap.
    pub bytes: u64,
}

impl Tally {
    /// Counts these, too.
    pub fn add(&mut self, packets: usize, bytes: usize) {
        self.packets += packets as u64;
        self.bytes += bytes as u64;
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Packets that were dropped, by reason.
#[derive(Clone, Debug)]
pub struct Drops(Vec<(Reason, Tally)>);

impl Default for Drops {
    /// None, with room for so many reasons that counting does not allocate.
    fn default() -> Self {
        Self(Vec::with_capacity(32))
    }
}

impl Drops {
    /// Counts one packet.
    pub fn count(&mut self, reason: Reason, bytes: usize) {
        let one = Tally {
            packets: 1,
            bytes: bytes as u64,
        };
        self.add(reason, one);
    }

    fn add(&mut self, reason: Reason, tally: Tally) {
        match self.0.iter_mut().find(|(of, _)| *of == reason) {
            Some((_, sum)) => *sum += tally,
            None => self.0.push((reason, tally)),
        }
    }

    /// Counts those of `other`, too.
    pub fn merge(&mut self, other: &Self) {
        for (reason, tally) in &other.0 {
            self.add(*reason, *tally);
        }
    }

    /// Those dropped for `reason`.
    pub fn of(&self, reason: Reason) -> Tally {
        let found = self.0.iter().find(|(of, _)| *of == reason);
        found.map_or(Tally::default(), |(_, tally)| *tally)
    }

    /// All together.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for (_, tally) in &self.0 {
            total += *tally;
        }
        total
    }

    /// Each reason, in the order in which they first came.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, Tally)> + '_ {
        self.0.iter().copied()
    }
}

/// The counters of one stage.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Bursts that it took.
    pub bursts: u64,
    /// Packets that it took.
    pub offered: Tally,
    /// Packets that it gave back, without those that were dropped.
    pub finished: Tally,
    /// Packets that it had dropped.
    pub dropped: Drops,
    /// Packets that were dropped by stages within it; those have them by reason.
    pub dropped_inside: u64,
    /// Time spent in its calls, by the clock of the loop. An engine that works by itself takes little of it.
    pub busy_ns: u64,
}

impl Counters {
    /// Packets that it holds.
    pub fn in_flight(&self) -> u64 {
        let gone = self.finished.packets + self.dropped.total().packets + self.dropped_inside;
        self.offered.packets.wrapping_sub(gone)
    }
}

/// The counters of a stage, by its name.
#[derive(Clone, Debug)]
pub struct StageReport {
    /// The stage's name.
    pub name: String,
    /// 0 for a stage of the loop itself, one more for each stage that it lies in.
    pub level: u8,
    /// Its counters.
    pub counters: Counters,
}

/// The packets of one loop, by what became of them.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// The loop's name.
    pub name: String,
    /// Packets that it received from ports.
    pub received: Tally,
    /// Packets that it sent to ports, which took them.
    pub sent: Tally,
    /// Packets that it dropped itself: at the way out, in front of a shard.
    pub dropped: Drops,
    /// Packets in its own hands: in front of a stage, held back for order, in front of a port.
    pub waiting: u64,
    /// Bursts that its stages have: none while packets are missing means that a stage lost them.
    pub bursts: u64,
    /// Its stages, in order; behind each those within it.
    pub stages: Vec<StageReport>,
}

/// An account that does not add up: a stage lost packets, or made some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: received {received}, but sent {sent}, dropped {dropped}, in flight {in_flight}")]
pub struct Imbalance {
    name: String,
    received: u64,
    sent: u64,
    dropped: u64,
    in_flight: i64,
}

impl Account {
    fn own_stages(&self) -> impl Iterator<Item = &Counters> {
        let own = self.stages.iter().filter(|stage| stage.level == 0);
        own.map(|stage| &stage.counters)
    }

    /// Packets that were received, and neither sent nor dropped so far.
    pub fn in_flight(&self) -> u64 {
        let in_stages = self.own_stages().map(Counters::in_flight);
        in_stages.fold(self.waiting, u64::wrapping_add)
    }

    /// Packets dropped in this loop, by reason. What other cores dropped is in their accounts.
    pub fn dropped(&self) -> Drops {
        let mut all = self.dropped.clone();
        for stage in &self.stages {
            all.merge(&stage.counters.dropped);
        }
        all
    }

    /// Checks that each packet that was received is accounted for.
    ///
    /// # Errors
    /// [`Imbalance`].
    pub fn check(&self) -> Result<(), Imbalance> {
        let by_stages = self
            .own_stages()
            .map(|stage| stage.dropped.total().packets + stage.dropped_inside);
        let dropped = self.dropped.total().packets + by_stages.sum::<u64>();
        let in_flight = self.in_flight();
        let (received, sent) = (self.received.packets, self.sent.packets);
        // A stage that made packets up shows as a huge number of them in flight.
        let sum = [sent, dropped, in_flight]
            .into_iter()
            .try_fold(0, u64::checked_add);
        let is_lost = self.bursts == 0 && in_flight != self.waiting;
        match sum == Some(received) && !is_lost {
            true => Ok(()),
            false => Err(Imbalance {
                name: self.name.clone(),
                received,
                sent,
                dropped,
                in_flight: in_flight.cast_signed(),
            }),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            received,
            sent,
            stages,
            ..
        } = self;
        let in_flight = self.in_flight();
        writeln!(
            f,
            "{name}: received {}, sent {}, in flight {in_flight}",
            received.packets, sent.packets
        )?;
        for stage in stages {
            let Counters {
                offered, busy_ns, ..
            } = &stage.counters;
            let each_ns = *busy_ns as f64 / offered.packets.max(1) as f64;
            let indent = usize::from(stage.level) * 2 + 2;
            writeln!(
                f,
                "{:indent$}{}: {} packets, {} bytes, {each_ns:.1} ns each",
                "", stage.name, offered.packets, offered.bytes
            )?;
        }
        for (reason, tally) in self.dropped().iter() {
            writeln!(f, "  dropped, {reason}: {}", tally.packets)?;
        }
        Ok(())
    }
}
