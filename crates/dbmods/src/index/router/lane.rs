//! A lane: one thread's way to both sides.

use std::collections::VecDeque;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

use super::split::{Announced, Dpu, IDLE, Split};
use super::turns::Turn;
use super::{Router, RouterError, Side};
use crate::index::burst::{Burst, Executor, Outcome, requests_fit};
use crate::index::remote::{Remote, RemoteError};
use crate::index::{Found, IndexError, KEY_BYTES_MAX, VALUE_BYTES_MAX, Write};

/// What is done with answers. A request has the number that its caller gave it.
pub trait Receive {
    /// A lookup was answered: the value, if there is one.
    fn looked_up(&mut self, request: u64, value: Option<&[u8]>);
    /// A write is done.
    fn written(&mut self, request: u64);
    /// A row of a scan, in order. It may have come before the scan fails.
    fn row(&mut self, request: u64, key: &[u8], value: &[u8]);
    /// A scan has given all its rows.
    fn scanned(&mut self, request: u64);
    /// A request was not answered, or a scan not to its end. A write may have been done, or be done yet.
    fn failed(&mut self, request: u64, error: &RouterError);
}

/// A scan that is on its way, or a part of one.
#[derive(Clone, Debug)]
struct ScanPart {
    request: u64,
    /// Rows that are still wanted.
    rows: u32,
    /// Where it goes on at the other side, if rows are left.
    behind: Option<Box<[u8]>>,
    /// The key of the last row that came, of a part with fewer rows than are wanted: it goes on behind that.
    last: Vec<u8>,
}

impl ScanPart {
    /// Hands a row on, of a burst's scan for so many rows.
    #[inline]
    fn take_row(&mut self, asked: u32, key: &[u8], value: &[u8], receive: &mut dyn Receive) {
        if asked < self.rows {
            self.last.clear();
            self.last.extend_from_slice(key);
        }
        receive.row(self.request, key, value);
    }
}

/// A burst, and whose requests it has.
struct Batch {
    burst: Burst,
    lookups: Vec<u64>,
    writes: Vec<u64>,
    scans: Vec<ScanPart>,
    turns: Vec<Turn>,
    /// The version of the split that routed it.
    version: u64,
}

impl Batch {
    fn new(value_room: usize) -> Self {
        Self {
            burst: Burst::new(value_room),
            lookups: Vec::new(),
            writes: Vec::new(),
            scans: Vec::new(),
            turns: Vec::new(),
            version: 0,
        }
    }

    fn clear(&mut self) {
        self.burst.clear();
        self.lookups.clear();
        self.writes.clear();
        self.scans.clear();
        debug_assert!(self.turns.is_empty(), "turns are given back before");
    }
}

/// A connection, and the batches that are on their way through it.
struct Wire {
    remote: Remote,
    flights: VecDeque<Batch>,
}

/// A request that waits for its piece to arrive, or for its turn.
struct HeldWrite {
    request: u64,
    key: Box<[u8]>,
    /// `None` deletes.
    value: Option<Box<[u8]>>,
}

/// One thread's way to both sides. See [the router](super).
pub struct Lane {
    router: Arc<Router>,
    executor: Executor,
    outcome: Outcome,
    split: Arc<Split>,
    announced: Arc<Announced>,
    host: Batch,
    dpu: Batch,
    wires: Vec<Wire>,
    /// The generation that the wires belong to.
    generation: u64,
    /// Why the wires are gone.
    lost: Arc<str>,
    /// The wire that the next batch goes to.
    next_wire: usize,
    held: VecDeque<HeldWrite>,
    /// Parts of scans that go on at the other side.
    onward: Vec<ScanPart>,
    spare: Vec<Batch>,
    /// Requests with which a batch is full.
    full: usize,
}

impl Lane {
    /// A lane of `router` for one thread.
    ///
    /// # Errors
    /// [`IndexError`] if the host's index has no session left.
    pub fn new(router: &Arc<Router>) -> Result<Self, IndexError> {
        let options = router.options();
        let room = options.value_room;
        let executor = Executor::new(Arc::clone(router.host()), Arc::clone(&options.clock))?;
        Ok(Self {
            executor,
            outcome: Outcome::new(),
            split: router.splits.now(),
            announced: router.splits.register(),
            host: Batch::new(room),
            dpu: Batch::new(room),
            wires: Vec::new(),
            generation: 0,
            lost: "no connection was made".into(),
            next_wire: 0,
            held: VecDeque::new(),
            onward: Vec::new(),
            spare: Vec::new(),
            full: options.burst_requests.min(requests_fit(room)),
            router: Arc::clone(router),
        })
    }

    /// The number of requests that were not answered yet.
    pub fn outstanding(&self) -> usize {
        let flights: usize = (self.wires.iter().flat_map(|wire| &wire.flights))
            .map(|batch| batch.burst.len())
            .sum();
        self.host.burst.len() + self.dpu.burst.len() + flights + self.held.len() + self.onward.len()
    }

    /// Looks a key up.
    pub fn lookup(&mut self, request: u64, key: &[u8], receive: &mut dyn Receive) {
        if key.len() > KEY_BYTES_MAX {
            // No index has such a key, and a burst does not carry it.
            return receive.looked_up(request, None);
        }
        self.enter(receive);
        match self.side(key) {
            Side::Host => {
                self.host.burst.lookup(key);
                self.host.lookups.push(request);
            }
            Side::Dpu => {
                self.dpu.burst.lookup(key);
                self.dpu.lookups.push(request);
            }
        }
        self.advance(receive);
    }

    /// Gives a key a value.
    pub fn put(&mut self, request: u64, key: &[u8], value: &[u8], receive: &mut dyn Receive) {
        match key_error(key).or_else(|| value_error(value)) {
            None => {
                self.enter(receive);
                self.write(request, key, Some(value), receive);
                self.advance(receive);
            }
            Some(error) => receive.failed(request, &RouterError::Host(Arc::new(error))),
        }
    }

    /// Takes a key away.
    pub fn delete(&mut self, request: u64, key: &[u8], receive: &mut dyn Receive) {
        match key_error(key) {
            None => {
                self.enter(receive);
                self.write(request, key, None, receive);
                self.advance(receive);
            }
            Some(error) => receive.failed(request, &RouterError::Host(Arc::new(error))),
        }
    }

    /// Gives at most `rows` rows from `start` on.
    pub fn scan(&mut self, request: u64, start: &[u8], rows: u32, receive: &mut dyn Receive) {
        // The order of a longer start among keys is that of its beginning.
        let start = &start[..start.len().min(KEY_BYTES_MAX + 1)];
        self.enter(receive);
        self.add_scan(ScanPart {
            request,
            rows,
            behind: Some(start.into()),
            last: Vec::new(),
        });
        self.advance(receive);
    }

    /// Carries out and sends what was collected, without waiting for it.
    pub fn flush(&mut self, receive: &mut dyn Receive) {
        self.run_host(receive);
        self.try_send(receive);
        self.take_arrived(receive);
        self.announce();
    }

    /// Carries out what was collected, and waits for at least one answer of the DPU's side if there is one to come.
    pub fn wait(&mut self, receive: &mut dyn Receive) {
        self.enter(receive);
        self.run_host(receive);
        self.send_all(receive);
        let oldest = (0..self.wires.len()).filter(|&at| !self.wires[at].flights.is_empty());
        // The wire whose batch was sent first has the smallest distance to the next one in the round.
        let wires = self.wires.len().max(1);
        match oldest.min_by_key(|&at| (at + wires - self.next_wire) % wires) {
            Some(at) => self.take(at, receive),
            // Held writes wait for a piece that moves, or for a turn of another lane.
            None => std::thread::yield_now(),
        }
        self.let_go(receive);
        self.announce();
    }

    /// Waits for all answers.
    pub fn finish(&mut self, receive: &mut dyn Receive) {
        while self.outstanding() > 0 {
            self.wait(receive);
        }
        self.announce();
    }

    /// The side of a key.
    #[inline]
    fn side(&self, key: &[u8]) -> Side {
        match self.router.mark(self.split.boundary) {
            Some(boundary) if key >= boundary => Side::Dpu,
            _ => Side::Host,
        }
    }

    /// True if a key lies in the piece that is moving.
    fn moves(&self, key: &[u8]) -> bool {
        self.split.moving.is_some_and(|(start, end)| {
            self.router.mark(start).is_some_and(|start| key >= start)
                && self.router.mark(end).is_none_or(|end| key < end)
        })
    }

    /// Makes sure that the newest split routes what comes, and that it is announced.
    #[inline]
    fn enter(&mut self, receive: &mut dyn Receive) {
        let version = self.split.version;
        if version != self.router.splits.version() || self.announced.is_above(version) {
            self.enter_anew(receive);
        }
    }

    #[cold]
    fn enter_anew(&mut self, receive: &mut dyn Receive) {
        let mut is_new = false;
        loop {
            self.announced.set(self.oldest().min(self.split.version));
            if self.split.version == self.router.splits.version() {
                break;
            }
            // What was routed by the old split goes out before the new one is used.
            self.run_host(receive);
            self.send_all(receive);
            self.split = self.router.splits.now();
            is_new = true;
        }
        if is_new || self.generation == 0 {
            self.connect_anew(receive);
            self.let_go(receive);
        }
    }

    /// The version of the oldest split by which a request on its way was routed.
    fn oldest(&self) -> u64 {
        let flights = self.wires.iter().filter_map(|wire| wire.flights.front());
        flights.map(|batch| batch.version).min().unwrap_or(IDLE)
    }

    /// Announces what is on its way.
    fn announce(&self) {
        let waits = !self.host.burst.is_empty() || !self.dpu.burst.is_empty();
        let own = if waits { self.split.version } else { IDLE };
        let oldest = self.oldest().min(own);
        if !self.announced.is(oldest) {
            self.announced.set(oldest);
        }
    }

    /// Connections to a DPU's side that is another one now, or none to one that was given up.
    fn connect_anew(&mut self, receive: &mut dyn Receive) {
        let (id, generation) = match &self.split.dpu {
            Dpu::Here { generation, .. } if *generation == self.generation => return,
            Dpu::Here { id, generation } => (*id, *generation),
            Dpu::Lost { why, .. } => {
                self.lost = Arc::clone(why);
                return self.leave(receive);
            }
            Dpu::None => return,
        };
        self.leave(receive);
        self.generation = generation;
        for _ in 0..self.router.options().connections.max(1) {
            match self.router.connect(id) {
                Ok(remote) => self.wires.push(Wire {
                    remote,
                    flights: VecDeque::new(),
                }),
                Err(error) => return self.give_up(&error, receive),
            }
        }
    }

    /// Takes what is on its way, and ends the connections.
    fn leave(&mut self, receive: &mut dyn Receive) {
        for at in 0..self.wires.len() {
            while self
                .wires
                .get(at)
                .is_some_and(|wire| !wire.flights.is_empty())
            {
                self.take(at, receive);
            }
        }
        self.wires.clear();
    }

    fn write(&mut self, request: u64, key: &[u8], value: Option<&[u8]>, receive: &mut dyn Receive) {
        let is_held = self.moves(key)
            || !self.held.is_empty() && self.held.iter().any(|held| *held.key == *key);
        if is_held || !self.try_write(request, key, value, receive) {
            self.held.push_back(HeldWrite {
                request,
                key: key.into(),
                value: value.map(Into::into),
            });
        }
    }

    /// Adds a write to its side's batch; false if it is not its turn.
    fn try_write(
        &mut self,
        request: u64,
        key: &[u8],
        value: Option<&[u8]>,
        receive: &mut dyn Receive,
    ) -> bool {
        let side = self.side(key);
        let bytes = value.unwrap_or_default();
        let batch = match side {
            Side::Host => {
                if !self.host.burst.takes_write(key, bytes) {
                    self.run_host(receive);
                }
                &mut self.host
            }
            Side::Dpu => {
                if !self.dpu.burst.takes_write(key, bytes) {
                    self.send_all(receive);
                }
                &mut self.dpu
            }
        };
        if side == Side::Dpu && self.router.options().mirror {
            match self.router.turns.take(key) {
                Some(turn) => batch.turns.push(turn),
                None => return false,
            }
        }
        match value {
            Some(value) => batch.burst.put(key, value),
            None => batch.burst.delete(key),
        }
        batch.writes.push(request);
        true
    }

    /// Writes that were held back go to their side, as far as they may.
    fn let_go(&mut self, receive: &mut dyn Receive) {
        // In order: one that has to wait on keeps those of its key behind it.
        for held in mem::take(&mut self.held) {
            self.write(held.request, &held.key, held.value.as_deref(), receive);
            self.advance_full(receive);
        }
    }

    /// Adds a scan, or a part of one that goes on.
    fn add_scan(&mut self, part: ScanPart) {
        let start = part.behind.expect("a scan that is added begins somewhere");
        let boundary = self.router.mark(self.split.boundary);
        let from = Bound::Included(&*start);
        match self.side(&start) {
            Side::Host => {
                let rows = part.rows.min(self.host.burst.rows_fit());
                self.host.burst.scan(from, boundary, rows);
                let behind = boundary.map(Into::into);
                self.host.scans.push(ScanPart { behind, ..part });
            }
            Side::Dpu => {
                let rows = part.rows.min(self.dpu.burst.rows_fit());
                self.dpu.burst.scan(from, None, rows);
                self.dpu.scans.push(ScanPart {
                    behind: None,
                    ..part
                });
            }
        }
    }

    /// Does what is due after a request was added.
    #[inline]
    fn advance(&mut self, receive: &mut dyn Receive) {
        self.advance_full(receive);
        self.announce();
    }

    #[inline]
    fn advance_full(&mut self, receive: &mut dyn Receive) {
        let full = self.full;
        if self.host.burst.len() >= full {
            self.run_host(receive);
            // A side that waits for nothing gets what there is.
            self.take_arrived(receive);
            self.try_send(receive);
        }
        if self.dpu.burst.len() >= full {
            self.send_all(receive);
        }
    }

    /// Carries the host's batch out.
    fn run_host(&mut self, receive: &mut dyn Receive) {
        while !self.host.burst.is_empty() {
            let empty = self.empty_batch();
            let mut batch = mem::replace(&mut self.host, empty);
            let Batch { burst, scans, .. } = &mut batch;
            let each = &mut |scan: usize, key: &[u8], value: &[u8]| {
                scans[scan].take_row(burst.rows_max(scan), key, value, receive);
            };
            let ran = (self.executor).run_with(burst, &mut self.outcome, each);
            match ran {
                Ok(()) => {
                    self.router
                        .rates
                        .host(batch.burst.len(), self.outcome.work_ns());
                    self.answer(&mut batch, receive);
                }
                Err(error) => fail(&mut batch, &RouterError::Host(Arc::new(error)), receive),
            }
            self.keep(batch);
            self.go_on(receive);
        }
    }

    fn empty_batch(&mut self) -> Batch {
        let room = self.router.options().value_room;
        self.spare.pop().unwrap_or_else(|| Batch::new(room))
    }

    fn keep(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare.push(batch);
    }

    /// Parts of scans go on at the other side.
    fn go_on(&mut self, receive: &mut dyn Receive) {
        while let Some(part) = self.onward.pop() {
            self.add_scan(part);
            if self.dpu.burst.len() >= self.full {
                self.send_all(receive);
            }
        }
    }

    /// Sends the DPU's batch if a connection has room for it.
    fn try_send(&mut self, receive: &mut dyn Receive) {
        if self.dpu.burst.is_empty() {
            return;
        }
        if self.wires.is_empty() {
            return self.fail_dpu(receive);
        }
        let at = self.next_wire % self.wires.len();
        let wire = &self.wires[at];
        let depth = self.router.options().depth.max(1);
        if wire.flights.len() < depth && wire.remote.has_room(&self.dpu.burst) {
            self.send(at, receive);
        }
    }

    /// Sends the DPU's batch, and waits for room before if there is none.
    fn send_all(&mut self, receive: &mut dyn Receive) {
        while !self.dpu.burst.is_empty() {
            self.try_send(receive);
            if !self.dpu.burst.is_empty() && !self.wires.is_empty() {
                let at = self.next_wire % self.wires.len();
                self.take(at, receive);
            }
        }
    }

    /// Sends the DPU's batch by a wire that has room for it.
    fn send(&mut self, at: usize, receive: &mut dyn Receive) {
        let empty = self.empty_batch();
        let mut batch = mem::replace(&mut self.dpu, empty);
        batch.version = self.split.version;
        if self.router.options().mirror
            && batch.burst.writes() > 0
            && let Err(error) = self.mirror(&batch.burst)
        {
            self.router.turns.give_back(&mut batch.turns);
            fail(&mut batch, &RouterError::Host(Arc::new(error)), receive);
            return self.keep(batch);
        }
        let clock = &self.router.options().clock;
        let begun_ns = clock.now_ns();
        let sent = self.wires[at].remote.send(&batch.burst);
        self.router
            .rates
            .way(clock.now_ns().saturating_sub(begun_ns));
        self.wires[at].flights.push_back(batch);
        self.next_wire = at + 1;
        if let Err(error) = sent {
            self.give_up(&error, receive);
        }
    }

    /// Commits the writes of a burst to the host's copy of the DPU's range.
    fn mirror(&self, burst: &Burst) -> Result<(), IndexError> {
        let writes: Vec<Write<'_>> = (0..burst.writes()).map(|at| burst.write(at)).collect();
        self.executor.index().apply(&writes).map(|_| ())
    }

    /// Takes outcomes that have arrived.
    fn take_arrived(&mut self, receive: &mut dyn Receive) {
        for at in 0..self.wires.len() {
            while self
                .wires
                .get(at)
                .is_some_and(|wire| !wire.flights.is_empty() && wire.remote.stirs())
            {
                self.take(at, receive);
            }
        }
    }

    /// Waits for the oldest outcome of a wire, if one is on its way.
    fn take(&mut self, at: usize, receive: &mut dyn Receive) {
        let Some(mut batch) = self.wires[at].flights.pop_front() else {
            return;
        };
        let wire = &mut self.wires[at];
        match wire.remote.receive(&batch.burst, &mut self.outcome) {
            Ok(way_ns) => {
                self.router.rates.way(way_ns);
                self.router
                    .rates
                    .dpu(batch.burst.len(), self.outcome.work_ns());
                self.router.turns.give_back(&mut batch.turns);
                self.give_rows_of_dpu(&mut batch, receive);
                self.answer(&mut batch, receive);
                self.keep(batch);
                self.go_on(receive);
            }
            Err(error) if error.is_broken() => {
                self.wires[at].flights.push_front(batch);
                self.give_up(&error, receive);
            }
            Err(error) => {
                self.router.turns.give_back(&mut batch.turns);
                fail(&mut batch, &RouterError::Refused(Arc::new(error)), receive);
                self.keep(batch);
            }
        }
    }

    /// Gives the DPU's side up: requests on their way fail, or are the host's if it has a copy.
    fn give_up(&mut self, error: &RemoteError, receive: &mut dyn Receive) {
        self.router.give_up(self.generation, &error.to_string());
        self.lost = error.to_string().into();
        let wires = mem::take(&mut self.wires);
        for batch in wires.into_iter().flat_map(|wire| wire.flights) {
            self.redo_or_fail(batch, true, receive);
        }
        // What waits was routed by the old split, like what was sent.
        self.fail_dpu(receive);
    }

    /// A batch that the DPU's side has not answered. With a copy at the host, its writes are done there, and its reads are read there.
    fn redo_or_fail(&mut self, mut batch: Batch, was_sent: bool, receive: &mut dyn Receive) {
        let mirror = self.router.options().mirror;
        if !mirror {
            fail(
                &mut batch,
                &RouterError::Lost(Arc::clone(&self.lost)),
                receive,
            );
            return self.keep(batch);
        }
        // Writes that were sent were committed at the host before.
        let ran = match was_sent || batch.burst.writes() == 0 {
            true => Ok(()),
            false => self.mirror(&batch.burst),
        };
        self.router.turns.give_back(&mut batch.turns);
        match ran {
            Ok(()) => batch
                .writes
                .drain(..)
                .for_each(|request| receive.written(request)),
            Err(error) => {
                let error = RouterError::Host(Arc::new(error));
                batch
                    .writes
                    .drain(..)
                    .for_each(|request| receive.failed(request, &error));
            }
        }
        batch.burst.forget_writes();
        match self.executor.run(&batch.burst, &mut self.outcome) {
            Ok(()) => {
                self.give_rows(&mut batch, receive);
                self.answer(&mut batch, receive);
            }
            Err(error) => fail(&mut batch, &RouterError::Host(Arc::new(error)), receive),
        }
        self.keep(batch);
    }

    /// Requests for a side that is gone fail.
    fn fail_dpu(&mut self, receive: &mut dyn Receive) {
        let empty = self.empty_batch();
        let batch = mem::replace(&mut self.dpu, empty);
        self.redo_or_fail(batch, false, receive);
    }

    /// Hands the rows of a batch out.
    fn give_rows(&self, batch: &mut Batch, receive: &mut dyn Receive) {
        let Batch { burst, scans, .. } = batch;
        (self.outcome).each_row(&mut |scan, key, value| {
            scans[scan].take_row(burst.rows_max(scan), key, value, receive);
        });
    }

    /// The same for rows that came over a wire. The time that they take here is the wire's: what the host reads by itself has it in its own.
    fn give_rows_of_dpu(&self, batch: &mut Batch, receive: &mut dyn Receive) {
        if batch.scans.is_empty() {
            return;
        }
        let clock = &self.router.options().clock;
        let begun_ns = clock.now_ns();
        self.give_rows(batch, receive);
        let taken_ns = clock.now_ns().saturating_sub(begun_ns);
        self.router.rates.way(taken_ns);
    }

    /// Hands all other answers of a batch out, whose rows were given.
    fn answer(&mut self, batch: &mut Batch, receive: &mut dyn Receive) {
        let outcome = &self.outcome;
        for (at, &request) in batch.lookups.iter().enumerate() {
            match outcome.found(at) {
                Found::Cut(bytes) => {
                    let room = self.router.options().value_room;
                    receive.failed(request, &RouterError::Cut { bytes, room });
                }
                Found::Absent | Found::Whole(_) => receive.looked_up(request, outcome.value(at)),
            }
        }
        for &request in &batch.writes {
            receive.written(request);
        }
        for (at, mut part) in batch.scans.drain(..).enumerate() {
            let rows = outcome.rows(at);
            let left = part.rows - rows;
            // With all the rows that its burst had room for, it goes on at the same side: at the first key that may lie behind the last one.
            let is_cut = rows > 0 && rows == batch.burst.rows_max(at);
            let behind = match is_cut {
                true => {
                    part.last.push(0);
                    Some(part.last.as_slice().into())
                }
                false => part.behind,
            };
            match (left, behind) {
                (1.., Some(behind)) => {
                    part.last.clear();
                    self.onward.push(ScanPart {
                        request: part.request,
                        rows: left,
                        behind: Some(behind),
                        last: part.last,
                    });
                }
                _ => receive.scanned(part.request),
            }
        }
    }
}

impl Drop for Lane {
    /// Waits for what is on its way, whose answers nobody wants: a piece must not move while a write to it may still arrive.
    fn drop(&mut self) {
        for Wire { remote, flights } in &mut self.wires {
            for batch in flights {
                // A connection that breaks has no answers; the next ones fail at once.
                let _ = remote.receive(&batch.burst, &mut self.outcome);
                self.router.turns.give_back(&mut batch.turns);
            }
        }
        self.router.turns.give_back(&mut self.dpu.turns);
        self.announced.set(IDLE);
    }
}

/// Why no index takes a write of this key.
fn key_error(key: &[u8]) -> Option<IndexError> {
    (key.is_empty() || key.len() > KEY_BYTES_MAX).then_some(IndexError::KeyLength {
        bytes: key.len(),
        max: KEY_BYTES_MAX,
    })
}

/// Why no index takes a write of this value.
fn value_error(value: &[u8]) -> Option<IndexError> {
    (value.len() > VALUE_BYTES_MAX).then_some(IndexError::ValueLength {
        bytes: value.len(),
        max: VALUE_BYTES_MAX,
    })
}

/// Tells all requests of a batch that they failed.
fn fail(batch: &mut Batch, error: &RouterError, receive: &mut dyn Receive) {
    let scans = batch.scans.drain(..).map(|part| part.request);
    let requests = batch
        .lookups
        .drain(..)
        .chain(batch.writes.drain(..))
        .chain(scans);
    requests.for_each(|request| receive.failed(request, error));
}
