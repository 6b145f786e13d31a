//! A queue into an operator of another machine: jobs over one connection, driven by whoever polls.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use dpb_core::patience::Silence;
use dpb_core::{Clock, Completion, Job, JobError, Limits, Memory, Operator, OutputShape, Queue};
use rustix::event::epoll;

use super::super::job::{put_job, slot_bytes};
use super::super::outbox::Outbox;
use super::super::quotas::cost;
use super::super::rings::{Rings, inline_bytes_max};
use super::super::talk::{Broken, Talk};
use super::super::wire::{FAREWELL, Inbox, Wire, hang_up, sleep_for};
use super::places::Places;
use super::receiving::{Placed, Receiving, Step};

/// The agreement of both sides when a queue was opened.
pub(super) struct Opened {
    pub(super) shape: OutputShape,
    pub(super) limits: Limits,
    pub(super) output_bytes_max: usize,
    /// How far behind the start of its item an output begins, in place.
    pub(super) in_place: Option<usize>,
    /// Bytes that jobs in flight may have.
    pub(super) window_bytes: usize,
    /// What an item costs at most on a slow path, besides its bytes, of which each is a nanosecond.
    pub(super) item_cost_ns: u64,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) patience: Duration,
}

/// The time for which a queue sleeps whose transport does not yet know that what it sent has arrived.
const NAP: Duration = Duration::from_micros(100);

/// How many times slower than [`Opened::item_cost_ns`] says an agent may be.
const SLOW: u64 = 16;

/// The queue.
pub(super) struct RemoteQueue {
    wire: Box<dyn Wire>,
    inbox: Inbox,
    /// The transport of large items and outputs, if it is not the connection.
    rings: Option<Rings>,
    opened: Opened,
    places: Places,
    outbox: Outbox,
    /// Places whose jobs wait for the window, the first come first.
    held: VecDeque<u32>,
    window_left: usize,
    receiving: Receiving,
    placed: Placed,
    finished: Vec<Completion>,
    /// Jobs that were taken and not yet handed back.
    in_flight: usize,
    depth: usize,
    silence: Silence,
    /// The code of every further job, once the connection is lost.
    lost: Option<i32>,
    /// Readable when what this side waits for is there.
    file: OwnedFd,
    /// True if it also tells of room to send.
    waits_for_room: bool,
    /// The operator, which lives at the agent as long as it lives here.
    _operator: Arc<dyn Operator>,
}

impl RemoteQueue {
    /// A queue over the connection of `talk`, with `rings` beside it if it has some.
    ///
    /// # Errors
    /// If the system has no file to wait by.
    pub(super) fn new(
        talk: Talk<'static>,
        rings: Option<Rings>,
        opened: Opened,
        depth: NonZeroU32,
        operator: Arc<dyn Operator>,
    ) -> io::Result<Self> {
        let Talk { wire, inbox, .. } = talk;
        let file = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&file, wire.as_fd(), data, epoll::EventFlags::IN)?;
        if let Some(pieces) = rings.as_ref().and_then(Rings::file) {
            epoll::add(&file, pieces, data, epoll::EventFlags::IN)?;
        }
        let depth = depth.get() as usize;
        Ok(Self {
            wire,
            inbox,
            rings,
            places: Places::new(depth),
            outbox: Outbox::new(depth),
            held: VecDeque::with_capacity(depth),
            window_left: opened.window_bytes,
            receiving: Receiving::default(),
            placed: Placed::default(),
            finished: Vec::with_capacity(depth),
            in_flight: 0,
            depth,
            silence: Silence::default(),
            lost: None,
            file,
            waits_for_room: false,
            opened,
            _operator: operator,
        })
    }

    /// Takes a job: to be sent, or finished with its error.
    fn admit(&mut self, mut job: Job) {
        let checked = match self.lost {
            Some(code) => Err(JobError::Device(code)),
            None => self.check(&mut job),
        };
        match checked {
            Ok(true) => self.place(job),
            // Without items there is nothing to send.
            Ok(false) => self.finish(job, Ok(())),
            Err(error) => self.finish(job, Err(error)),
        }
    }

    /// Whether a job can be carried out, and has anything to carry out.
    fn check(&self, job: &mut Job) -> Result<bool, JobError> {
        let Opened {
            shape,
            limits,
            output_bytes_max,
            in_place,
            ..
        } = &self.opened;
        let items = match (&job.src, in_place) {
            (Memory::Output, Some(offset)) => job.admit_in_place(*shape, limits, *offset)?,
            _ => job.admit(*shape, limits)?,
        };
        match slot_bytes(job, *shape) > *output_bytes_max as u64 {
            true => Err(JobError::TooLong),
            false => Ok(items > 0),
        }
    }

    fn place(&mut self, job: Job) {
        let number = self.places.free.pop();
        let number = number.expect("no more jobs than places are taken");
        let id = self.places.id(number);
        let place = &mut self.places.places[number as usize];
        let items = job.items.count();
        let inline_bytes_max = inline_bytes_max(self.rings.as_ref());
        let (shape, head) = (self.opened.shape, &mut place.head);
        let encoded = put_job(&job, shape, id, inline_bytes_max, head);
        place.bytes = cost(encoded.input_bytes, encoded.slot_bytes, items);
        place.cost_ns = (items as u64)
            .saturating_mul(self.opened.item_cost_ns)
            .saturating_add(place.bytes as u64)
            .min(u64::MAX >> 16);
        place.body = encoded.body;
        place.job = Some(job);
        self.places.cost_ns += place.cost_ns;
        self.held.push_back(number);
    }

    fn finish(&mut self, job: Job, result: Result<(), JobError>) {
        self.finished.push(Completion { job, result });
    }

    /// Sends what the window allows and the connection takes; whether that was anything.
    fn send(&mut self) -> Result<bool, Broken> {
        while let Some(&place) = self.held.front() {
            let bytes = self.places.places[place as usize].bytes;
            let Some(left) = self.window_left.checked_sub(bytes) else {
                break;
            };
            self.window_left = left;
            self.held.pop_front();
            self.outbox.push(place, &self.places);
        }
        if self.outbox.is_empty() && !self.wire.has_unsent() {
            return Ok(false);
        }
        let outgoing = self.rings.as_mut().map(|rings| &mut rings.outgoing);
        self.outbox
            .flush(&mut *self.wire, outgoing, &mut self.places)
    }

    /// Receives what has come. True if that was anything.
    fn receive(&mut self) -> Result<bool, Broken> {
        let mut progress = false;
        loop {
            let pieces = self.take_pieces()?;
            let mut came = pieces.came;
            let step = match pieces.done {
                Some(_) => pieces,
                None => self.receiving.advance(
                    &mut *self.wire,
                    &mut self.inbox,
                    self.rings.as_mut(),
                    &mut self.places,
                    self.opened.shape,
                )?,
            };
            came |= step.came;
            progress |= came;
            match step.done {
                Some((place, result)) => {
                    if let Some((job, bytes)) = self.places.take(place) {
                        self.window_left += bytes;
                        self.finish(job, result);
                    }
                }
                // What came last may have announced pieces that are there.
                None if came => {}
                None => return Ok(progress),
            }
        }
    }

    /// Takes what has arrived beside the connection.
    fn take_pieces(&mut self) -> Result<Step, Broken> {
        let Some(rings) = &mut self.rings else {
            let (came, done) = (false, None);
            return Ok(Step { came, done });
        };
        let shape = self.opened.shape;
        let step = self.placed.advance(rings, &mut self.places, shape)?;
        if let Some(pieces) = rings.credit() {
            self.outbox.give_back(pieces);
        }
        Ok(step)
    }

    /// Sends and receives, and looks how long nothing has moved.
    fn drive(&mut self) -> Result<(), Broken> {
        let mut progress = self.send()?;
        let came = self.receive()?;
        progress |= came;
        // The window has more room now, or the agent's ring; or there is some to be given back.
        if came && !(self.held.is_empty() && self.outbox.is_empty()) {
            progress |= self.send()?;
        }
        if progress {
            self.silence.end();
            return Ok(());
        }
        let cost = Duration::from_nanos(self.places.cost_ns.saturating_mul(SLOW));
        let patience = self.opened.patience + cost;
        let silence = self.silence.lasts(&*self.opened.clock);
        if let Some(rings) = &mut self.rings {
            rings.look(silence)?;
        }
        match silence > patience {
            true => Err(Broken::Silent(patience)),
            false => Ok(()),
        }
    }

    /// Ends every job in flight: the agent never reaches their memory, so it is home at once.
    fn lose(&mut self, why: &Broken) {
        let code = -why.errno().raw_os_error();
        self.lost = Some(code);
        self.outbox.clear();
        self.held.clear();
        for place in 0..self.depth as u32 {
            if let Some((job, _)) = self.places.take(place) {
                self.finish(job, Err(JobError::Device(code)));
            }
        }
    }

    fn has_jobs_out(&self) -> bool {
        self.places.free.len() < self.depth
    }

    /// Has the file tell of the next piece, and of room to send if this side waits for some; says whether it does.
    ///
    /// # Errors
    /// The transport beside the connection is broken.
    fn arm(&mut self) -> Result<bool, Broken> {
        let waits_for_room = self.outbox.wants_wire() || self.wire.has_unsent();
        if waits_for_room != self.waits_for_room {
            self.tell(waits_for_room);
        }
        // Also while no body is due: `poll` may read the message of one, and the pieces that follow bring no message.
        if let Some(rings) = &mut self.rings {
            rings.arm()?;
        }
        Ok(waits_for_room)
    }

    fn tell(&mut self, waits_for_room: bool) {
        use epoll::EventFlags as Flags;
        let flags = match waits_for_room {
            true => Flags::IN | Flags::OUT,
            false => Flags::IN,
        };
        let data = epoll::EventData::new_u64(0);
        let told = epoll::modify(&self.file, self.wire.as_fd(), data, flags);
        // Of a file that is there this does not fail; if it did, the file would be readable too often or `wait` would still do.
        if told.is_ok() {
            self.waits_for_room = waits_for_room;
        }
    }

    /// Sleeps until there is something to do, for `timeout` at most.
    ///
    /// # Errors
    /// The transport beside the connection is broken.
    fn sleep(&mut self, timeout: Duration) -> Result<(), Broken> {
        let waits_for_room = self.arm()?;
        if timeout.is_zero() {
            return Ok(());
        }
        let Some(rings) = &mut self.rings else {
            sleep_for(&*self.wire, waits_for_room, timeout);
            return Ok(());
        };
        // Nobody tells of what has arrived at the agent but the transport, which is asked.
        let waits_for_place =
            !self.outbox.is_empty() && !waits_for_room && rings.outgoing.has_room();
        let timeout = match waits_for_place {
            true => timeout.min(NAP),
            false => timeout,
        };
        rings.sleep(&*self.wire, waits_for_room, timeout)
    }
}

impl Queue for RemoteQueue {
    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let taken = ready.len().min(self.depth - self.in_flight);
        if taken == 0 {
            return 0;
        }
        // A silence before these jobs is not theirs.
        if !self.has_jobs_out() {
            self.silence.end();
        }
        for job in ready.drain(..taken) {
            self.admit(job);
        }
        self.in_flight += taken;
        if self.lost.is_none()
            && let Err(why) = self.send()
        {
            self.lose(&why);
        }
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        if self.lost.is_none()
            && self.has_jobs_out()
            && let Err(why) = self.drive()
        {
            self.lose(&why);
        }
        let home = self.finished.len();
        done.append(&mut self.finished);
        self.in_flight -= home;
        home
    }

    fn wait(&mut self, timeout: Duration) {
        if self.in_flight == 0 || !self.finished.is_empty() || self.lost.is_some() {
            return;
        }
        if let Err(why) = self.sleep(timeout) {
            self.lose(&why);
        }
    }

    /// None where no file tells of pieces.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.rings {
            Some(rings) if rings.file().is_none() => None,
            _ => Some(self.file.as_fd()),
        }
    }
}

/// The agent closes its queue before it closes its end of the connection: who comes next finds the device free.
impl Drop for RemoteQueue {
    fn drop(&mut self) {
        if self.lost.is_none() {
            hang_up(&mut *self.wire, FAREWELL);
        }
    }
}
