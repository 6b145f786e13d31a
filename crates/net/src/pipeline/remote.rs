//! A stage on another core: [`Remote`] here, [`Station`] there, a ring between them ([`ring`]).
//!
//! A ring is two bounded channels, one in each direction, with one sender and one receiver each. They hold bursts, so that the cost of passing one
//! is shared by its packets. `std`'s bounded channels are arrays that are allocated once, and neither end waits here.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use super::{Burst, Counters, Drops, Reason, Stage, StageReport};

/// This core's end of a stage that another core runs.
pub struct Remote {
    name: String,
    to: SyncSender<Burst>,
    from: Receiver<Burst>,
    depth: usize,
    in_flight: usize,
    /// Bursts that could not be sent, as the other core is gone.
    returned: Vec<Burst>,
    needs_order: bool,
}

/// The other core's end, for a [`Station`].
#[derive(Debug)]
pub struct Ring {
    from: Receiver<Burst>,
    to: SyncSender<Burst>,
    is_gone: bool,
}

/// A ring between two cores that holds up to `depth` bursts, wherever they are: on the way, in the stage, on the way back.
///
/// # Panics
/// If the depth is zero.
pub fn ring(name: impl Into<String>, depth: usize) -> (Remote, Ring) {
    assert!(depth > 0, "a ring that holds at least one burst");
    let (to, there) = sync_channel(depth);
    let (back, from) = sync_channel(depth);
    let remote = Remote {
        name: name.into(),
        to,
        from,
        depth,
        in_flight: 0,
        returned: Vec::with_capacity(depth),
        needs_order: false,
    };
    let ring = Ring {
        from: there,
        to: back,
        is_gone: false,
    };
    (remote, ring)
}

impl Remote {
    /// For a stage that wants bursts in order.
    #[must_use]
    pub fn ordered(self) -> Self {
        Self {
            needs_order: true,
            ..self
        }
    }

    /// Bursts that the ring holds at most.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Sends the burst in front, if there is room for it; says whether.
    pub(super) fn offer_one(&mut self, ready: &mut VecDeque<Burst>) -> bool {
        if self.in_flight == self.depth {
            return false;
        }
        let Some(burst) = ready.pop_front() else {
            return false;
        };
        self.in_flight += 1;
        // Never full: the ring has room for all that are in flight.
        if let Err(TrySendError::Full(mut burst) | TrySendError::Disconnected(mut burst)) =
            self.to.try_send(burst)
        {
            burst.drop_all(Reason::CORE_GONE);
            self.returned.push(burst);
        }
        true
    }
}

impl Stage for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs_order(&self) -> bool {
        self.needs_order
    }

    fn offer(&mut self, ready: &mut VecDeque<Burst>) -> usize {
        let before = ready.len();
        while self.offer_one(ready) {}
        before - ready.len()
    }

    fn poll(&mut self, done: &mut Vec<Burst>) -> usize {
        let before = done.len();
        done.append(&mut self.returned);
        done.extend(self.from.try_iter());
        let finished = done.len() - before;
        self.in_flight -= finished;
        finished
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Remote({}, {} of {})",
            self.name, self.in_flight, self.depth
        )
    }
}

/// A stage that serves the cores at the other ends of its rings, in turns: one burst of each at a time.
pub struct Station {
    rings: Vec<Ring>,
    stage: Box<dyn Stage>,
    /// The ring whose turn it is.
    next: usize,
    ready: VecDeque<Burst>,
    done: Vec<Burst>,
    /// Packets that nobody takes back.
    orphaned: Drops,
}

/// The number of a ring in [`Burst::origins`].
const ORIGIN_BITS: u32 = 16;

impl Station {
    /// `stage` for the cores at `rings`.
    ///
    /// # Panics
    /// If there are 2^16 rings or more.
    pub fn new(stage: Box<dyn Stage>, rings: Vec<Ring>) -> Self {
        assert!(rings.len() < 1 << ORIGIN_BITS, "fewer than 2^16 rings");
        Self {
            ready: VecDeque::with_capacity(rings.len().max(1)),
            rings,
            stage,
            next: 0,
            done: Vec::new(),
            orphaned: Drops::default(),
        }
    }

    /// Takes bursts, works, gives bursts back. Says how many it took and gave.
    pub fn turn(&mut self) -> usize {
        let Self {
            rings,
            stage,
            next,
            ready,
            done,
            orphaned,
        } = self;
        let mut moved = 0;
        // One burst of each ring at most, and none while the stage has no room: the rest waits in its ring.
        for _ in 0..rings.len() {
            if !ready.is_empty() {
                break;
            }
            let origin = *next;
            *next = (origin + 1) % rings.len();
            let ring = &mut rings[origin];
            match ring.from.try_recv() {
                Ok(mut burst) => {
                    burst.origins = burst.origins << ORIGIN_BITS | origin as u64;
                    ready.push_back(burst);
                    moved += stage.offer(ready);
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => ring.is_gone = true,
            }
        }
        moved += stage.offer(ready);
        stage.poll(done);
        moved += done.len();
        for mut burst in done.drain(..) {
            let origin = burst.origins as usize & ((1 << ORIGIN_BITS) - 1);
            burst.origins >>= ORIGIN_BITS;
            // Never full, as above.
            if let Err(TrySendError::Full(burst) | TrySendError::Disconnected(burst)) =
                rings[origin].to.try_send(burst)
            {
                for frame in burst.frames() {
                    orphaned.count(Reason::CORE_GONE, frame.len());
                }
            }
        }
        moved
    }

    /// Bursts that it has taken and not given back.
    pub fn in_flight(&self) -> usize {
        self.ready.len() + self.stage.in_flight()
    }

    /// True if nobody is left who could send a burst, and none is here.
    pub fn is_done(&self) -> bool {
        self.in_flight() == 0 && self.rings.iter().all(|ring| ring.is_gone)
    }

    /// The stage that it runs.
    pub fn stage(&self) -> &dyn Stage {
        &*self.stage
    }

    /// The counters of stages within its stage; behind them those of the way back, if packets could not be given back, as the core that sent them is gone.
    pub fn reports(&self) -> Vec<StageReport> {
        let mut reports = Vec::new();
        self.stage.inner(&mut reports);
        let orphaned = self.orphaned.total();
        if orphaned.packets > 0 {
            reports.push(StageReport {
                name: "way back".to_owned(),
                level: 0,
                counters: Counters {
                    offered: orphaned,
                    dropped: self.orphaned.clone(),
                    ..Counters::default()
                },
            });
        }
        reports
    }
}

impl fmt::Debug for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stage, rings) = (self.stage.name(), self.rings.len());
        write!(f, "Station({stage} for {rings} rings)")
    }
}
