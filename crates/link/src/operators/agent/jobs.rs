//! The jobs of one queue: from the connection to the backend, and back.

use std::collections::VecDeque;
use std::hint::spin_loop;
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread::yield_now;
use std::time::Duration;

use dpb_core::patience::Silence;
use dpb_core::{Completion, Job, OutputShape, Queue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::outbox::Outbox;
use super::super::protocol::Refusal;
use super::super::rings::{Rings, inline_bytes_max};
use super::super::talk::{Broken, Talk};
use super::super::wire::{FAREWELL, hang_up, sleep_for};
use super::accounts::Seat;
use super::places::Places;
use super::receiving::{Receiving, Rules};
use super::{Prepared, Shared};

/// A queue of a client. It ends before the operator.
pub(super) struct Lane {
    pub(super) queue: Box<dyn Queue>,
    pub(super) prepared: Arc<Prepared>,
    pub(super) depth: NonZeroU32,
    /// The transport of large items and outputs, if it is not the connection.
    pub(super) rings: Option<Rings>,
    pub(super) _seats: [Seat; 2],
}

/// Times that the loop goes round without work before it sleeps: as long as a round trip over a fast network takes.
const SPINS: u32 = 100;
/// Of these, each so many give the core to others.
const SPINS_A_YIELD: u32 = 4;
/// Turns after which a busy loop looks whether it should end.
const TURNS_A_LOOK: u32 = 1024;
/// The time after which a sleep looks around.
const LOOK: Duration = Duration::from_millis(100);
/// The same while a device works that wakes nobody.
const NAP: Duration = Duration::from_micros(100);
/// Work after which a backend that computes in `submit` is interrupted for the connection: bytes, each a nanosecond on a slow path.
const TURN_BYTES: u64 = 32 << 10;
/// How many times slower a backend may be than its specs say.
const SLOW: u64 = 16;

/// Serves a queue until the client closes the connection.
pub(super) fn serve(
    talk: Talk<'_>,
    lane: Lane,
    shared: &Shared,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), String> {
    let mut jobs = Jobs::new(talk, lane, shared)?;
    let ended = jobs.run(is_stopped);
    let Err(why) = ended else { return Ok(()) };
    let can_say = !jobs.outbox.is_mid_message();
    let refusal = Refusal::Fatal(why.to_string());
    // A queue with jobs in flight is dropped when its backend has done them, perhaps never: the client is told before. Else saying so may take a
    // while, and the client may have others wait meanwhile: the queue, its rings and its seats are free by then.
    let is_stuck = jobs.lane.queue.in_flight() > 0;
    let mut told = is_stuck && can_say && jobs.talk.refuse(&refusal).is_ok();
    let mut talk = jobs.into_talk();
    told = told || !is_stuck && can_say && talk.refuse(&refusal).is_ok();
    if told {
        hang_up(&mut *talk.wire, FAREWELL);
    }
    Err(why.to_string())
}

struct Jobs<'a> {
    /// First: the queue is closed before its buffers go.
    lane: Lane,
    shared: &'a Shared,
    shape: OutputShape,
    item_cost: u64,
    places: Places,
    receiving: Receiving,
    outbox: Outbox,
    /// Jobs that are here whole.
    waiting: VecDeque<Job>,
    /// Those of them that the backend is offered.
    ready: VecDeque<Job>,
    done: Vec<Completion>,
    silence: Silence,
    /// After the buffers, which are of its backend, and that may close with it.
    _prepared: Arc<Prepared>,
    /// Last: a client that sees the connection end, and then prepares or opens another one, finds that all of this is given back.
    talk: Talk<'a>,
}

impl<'a> Jobs<'a> {
    fn new(talk: Talk<'a>, lane: Lane, shared: &'a Shared) -> Result<Self, String> {
        let depth = lane.depth.get();
        let Prepared {
            operator, served, ..
        } = &*lane.prepared;
        let (window, held) = (shared.quotas.window_bytes(), shared.quotas.queue_bytes());
        let places = Places::new(depth, window, held, served.backend());
        Ok(Self {
            _prepared: Arc::clone(&lane.prepared),
            shape: operator.shape(),
            item_cost: operator.spec().cost_bytes() as u64,
            places: places.map_err(|why| why.to_string())?,
            receiving: Receiving::default(),
            outbox: Outbox::new(depth as usize),
            waiting: VecDeque::with_capacity(depth as usize),
            ready: VecDeque::with_capacity(depth as usize),
            done: Vec::with_capacity(depth as usize),
            silence: Silence::default(),
            lane,
            talk,
            shared,
        })
    }

    /// The connection. Everything else is closed and given back.
    fn into_talk(self) -> Talk<'a> {
        self.talk
    }

    fn run(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<(), Broken> {
        let (mut idle, mut turns) = (0, 0_u32);
        loop {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(TURNS_A_LOOK) && is_stopped() {
                return Err(Broken::Refused("the agent ends".to_owned()));
            }
            let progress = match self.turn() {
                Err(Broken::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                turned => turned?,
            };
            if progress {
                idle = 0;
                self.silence.end();
                continue;
            }
            idle += 1;
            if idle < SPINS {
                match idle % SPINS_A_YIELD {
                    0 => yield_now(),
                    _ => spin_loop(),
                }
                continue;
            }
            if is_stopped() {
                return Err(Broken::Refused("the agent ends".to_owned()));
            }
            self.look_at_silence()?;
            self.sleep()?;
        }
    }

    /// Receives, computes and sends what can be at once; whether that was anything.
    fn turn(&mut self) -> Result<bool, Broken> {
        let mut progress = self.receive()?;
        progress |= self.compute();
        let Self {
            lane,
            talk,
            outbox,
            places,
            ..
        } = self;
        if !outbox.is_empty() || talk.wire.has_unsent() {
            let outgoing = lane.rings.as_mut().map(|rings| &mut rings.outgoing);
            progress |= outbox.flush(&mut *talk.wire, outgoing, places)?;
        }
        Ok(progress)
    }

    fn receive(&mut self) -> Result<bool, Broken> {
        let Lane {
            prepared,
            depth,
            rings,
            ..
        } = &mut self.lane;
        let Prepared { served, limits, .. } = &**prepared;
        let rules = Rules {
            shape: self.shape,
            quotas: &self.shared.quotas,
            input_bytes_max: limits.input_bytes_max,
            items_max: limits.items_max,
            backend: served.backend(),
        };
        let (wire, inbox) = (&mut *self.talk.wire, &mut self.talk.inbox);
        let mut progress = false;
        // No more than a queue full at once, so that the first are soon on their way.
        for _ in 0..depth.get() {
            let (mut came, mut job) = (false, None);
            if let Some(rings) = rings.as_mut() {
                (came, job) = self.receiving.take_pieces(rings, &mut self.places)?;
                if let Some(pieces) = rings.credit() {
                    self.outbox.give_back(pieces);
                }
            }
            if job.is_none() {
                let rings = rings.as_mut();
                let (more, of_wire) =
                    self.receiving
                        .advance(wire, inbox, rings, &mut self.places, &rules)?;
                (came, job) = (came | more, of_wire);
            }
            progress |= came;
            let Some(place) = job else { break };
            self.waiting.push_back(self.places.submit(place).0);
        }
        Ok(progress)
    }

    /// Hands jobs to the backend and takes back those that are done.
    fn compute(&mut self) -> bool {
        let mut work = 0;
        let mut progress = false;
        let inline_bytes_max = inline_bytes_max(self.lane.rings.as_ref());
        loop {
            match self.lane.prepared.is_synchronous {
                false => self.ready.append(&mut self.waiting),
                true => {
                    if let Some(job) = self.waiting.pop_front() {
                        work += self.work_of(&job);
                        self.ready.push_back(job);
                    }
                }
            }
            let taken = match self.ready.is_empty() {
                true => 0,
                false => self.lane.queue.submit(&mut self.ready),
            };
            let home = match self.lane.queue.in_flight() {
                0 => 0,
                _ => self.lane.queue.poll(&mut self.done),
            };
            progress |= taken + home > 0;
            for completion in self.done.drain(..) {
                let place = self
                    .places
                    .complete(completion, self.shape, inline_bytes_max);
                self.outbox.push(place, &self.places);
            }
            let goes_on = self.lane.prepared.is_synchronous
                && work < TURN_BYTES
                && !self.waiting.is_empty()
                && taken > 0;
            if !goes_on {
                return progress;
            }
        }
    }

    fn work_of(&self, job: &Job) -> u64 {
        let bytes = job.batch().map_or(0, |batch| batch.bytes()) as u64;
        bytes + job.items.count() as u64 * self.item_cost
    }

    /// A backend that does nothing with jobs in flight, and a client that takes nothing or stops in the middle of a job, are given up.
    fn look_at_silence(&mut self) -> Result<(), Broken> {
        if let Some(rings) = &mut self.lane.rings {
            // Outputs may be on their way that the client waits for, when all is done here.
            rings.outgoing.in_flight()?;
        }
        let flying = self.lane.queue.in_flight();
        let is_due = |rings: &Rings| rings.due().is_some();
        let owes = flying > 0
            || !self.outbox.is_empty()
            || self.receiving.is_in_a_job()
            || self.lane.rings.as_ref().is_some_and(is_due);
        if !owes {
            self.silence.end();
            return Ok(());
        }
        let cost = (flying as u64)
            .saturating_mul(self.item_cost)
            .saturating_mul(SLOW);
        let patience = self.shared.patience + Duration::from_nanos(cost);
        let silence = self.silence.lasts(&*self.shared.clock);
        if let Some(rings) = &mut self.lane.rings {
            rings.look(silence)?;
        }
        if silence <= patience {
            return Ok(());
        }
        Err(match flying {
            0 => Broken::Silent(patience),
            _ => Broken::Refused(format!(
                "{} has done nothing for {patience:?}, with {flying} jobs in flight",
                self.lane.prepared.served.name()
            )),
        })
    }

    /// Sleeps until the connection, the ring or the backend has something, for a moment at most.
    fn sleep(&mut self) -> Result<(), Broken> {
        let wire = &*self.talk.wire;
        let is_sending = self.outbox.wants_wire() || wire.has_unsent();
        let queue = &mut self.lane.queue;
        if let Some(rings) = &mut self.lane.rings {
            if rings.has_due_piece()? {
                return Ok(());
            }
            // Nobody tells of a place that is free again, nor of a piece beside the backend's jobs.
            let waits_for_place =
                !self.outbox.is_empty() && !is_sending && rings.outgoing.has_room();
            let awaits_piece = rings.due().is_some();
            if queue.in_flight() == 0 {
                rings.arm()?;
                let timeout = if waits_for_place { NAP } else { LOOK };
                return rings.sleep(wire, is_sending, timeout);
            }
            if awaits_piece || waits_for_place {
                queue.wait(NAP);
                return Ok(());
            }
        }
        if queue.in_flight() == 0 {
            sleep_for(wire, is_sending, LOOK);
            return Ok(());
        }
        if queue.file().is_none() {
            queue.wait(NAP);
            return Ok(());
        }
        queue.wait(Duration::ZERO);
        // Jobs that were done before the file was armed do not make it readable.
        if queue.poll(&mut self.done) > 0 || wire.has_buffered() {
            return Ok(());
        }
        let flags = match is_sending {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        };
        let Some(file) = queue.file() else {
            return Ok(());
        };
        let socket = wire.as_fd();
        let mut files = [
            PollFd::new(&file, PollFlags::IN),
            PollFd::new(&socket, flags),
        ];
        let look = Timespec::try_from(LOOK).ok();
        match poll(&mut files, look.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(std::io::Error::from(error).into()),
        }
    }
}
