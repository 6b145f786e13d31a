//! YCSB's requests driven through a lane: closed or open loop, every answer checked, times in histograms.
//!
//! * **Closed loop**: a thread keeps [`Load::window`] requests on their way. A time counts from when a request was handed to the lane, so that waiting for a
//!   burst to fill is in it.
//! * **Open loop** ([`Load::rate`]): requests are due at times that do not depend on answers, with exponential gaps; a time counts from when
//!   the request was due. A thread that falls behind hands in what is due at once, and the wait is in the times: there is no coordinated omission.
//!
//! # What is checked
//!
//! Each value of a lookup is checked to its last byte, and its version against the [ledger](super::ycsb::Ledger): a version that was replaced before the lookup
//! began is wrong, as is one that nobody wrote. Each row of a scan is checked in the same way but for staleness; rows must be in order and
//! begin at the first key. One scan of [`SCANS_PER_FULL_CHECK`] is checked for staleness and for keys that it left out, too. One wrong answer makes the run wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpb_core::Timer;
use dpb_core::measure::latency::Latencies;
use dpb_core::random::SplitMix64;

use super::router::{Lane, Receive, RouterError};
use super::ycsb::{
    ABSENT, Floor, Generator, Inserted, Key, KeyForm, Ledger, Request, Spec, SpecError,
    VALUE_BYTES_MIN, Write, check, fill,
};

/// Of so many scans, one is checked for staleness and for keys that it left out: that costs more than the scan.
pub const SCANS_PER_FULL_CHECK: u64 = 16;
/// Of so many requests of a closed loop, one is timed: a look at the clock takes as long as a lookup.
const REQUESTS_PER_TIME: u64 = 8;
/// The time of a request that is not timed.
const NO_TICKET: u64 = u64::MAX;

/// The records of a run, and what is known of them. All threads share it.
#[derive(Debug)]
pub struct Records {
    spec: Spec,
    form: KeyForm,
    value_bytes: usize,
    inserted: Inserted,
    ledger: Ledger,
    /// The numbers of the loaded records in the order of their keys; empty if the run has no scans.
    order: Vec<u32>,
}

impl Records {
    /// The records of `spec`, with room for those that its requests insert.
    ///
    /// # Errors
    /// [`SpecError`] of a spec that cannot be.
    pub fn new(spec: Spec, form: KeyForm, value_bytes: usize) -> Result<Self, SpecError> {
        spec.validate()?;
        let capacity = spec.records + spec.inserts_expected() + 1;
        let mut order = Vec::new();
        if spec.mix.scan > 0.0 {
            order = (0..spec.records as u32).collect();
            order.sort_by_cached_key(|&record| form.key(record.into()).as_bytes().to_vec());
        }
        Ok(Self {
            inserted: Inserted::new(spec.records, capacity)?,
            ledger: Ledger::new(spec.records, capacity),
            value_bytes: value_bytes.max(VALUE_BYTES_MIN),
            spec,
            form,
            order,
        })
    }

    /// The records and the mix.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Bytes of a value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The form of the keys.
    pub fn form(&self) -> KeyForm {
        self.form
    }

    /// Records that are there now.
    pub fn records(&self) -> u64 {
        self.inserted.records()
    }

    /// Keys that cut the loaded records into about `pieces` pieces of one size, the first key first: the marks of a router. They are the quantiles of a sample.
    pub fn marks(&self, pieces: usize) -> Vec<Box<[u8]>> {
        /// Records of a sample, for each piece.
        const SAMPLED: u64 = 256;
        let pieces = pieces.max(1) as u64;
        let sampled = self.spec.records.min(pieces * SAMPLED).max(1);
        let every = self.spec.records / sampled;
        let mut keys: Vec<Key> = (0..sampled).map(|at| self.form.key(at * every)).collect();
        keys.sort_unstable_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
        let at = |piece: u64| keys[(piece * sampled / pieces) as usize];
        // All keys are behind the empty one, so that the DPU's side can have them all.
        let first: Box<[u8]> = Box::default();
        let others = (1..pieces.min(sampled)).map(|piece| at(piece).as_bytes().into());
        std::iter::once(first).chain(others).collect()
    }

    /// The first loaded record in the order of keys whose key is not less than `key`, as a place in that order.
    fn place(&self, key: &[u8]) -> usize {
        self.order
            .partition_point(|&record| self.form.key(record.into()).as_bytes() < key)
    }
}

/// How requests are handed in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Requests that a thread keeps on their way, at most.
    pub window: usize,
    /// Requests a second of this thread, in an open loop; `None` for a closed one.
    pub rate: Option<f64>,
    /// Requests after which the thread ends; `None` for until it is told to stop.
    pub requests: Option<u64>,
}

/// What a thread did.
#[derive(Clone, Debug, Default)]
pub struct Driven {
    /// Requests that were answered.
    pub requests: u64,
    /// Requests that were not.
    pub failed: u64,
    /// Why the first of these was not.
    pub failure: Option<String>,
    /// Rows of scans.
    pub rows: u64,
    /// Bytes of values that were read or written.
    pub value_bytes: u64,
    /// Lookups whose record was there.
    pub hits: u64,
    /// Times of requests, nanoseconds: of all in an open loop, of a sample in a closed one.
    pub latencies: Latencies,
    /// The first wrong answer.
    pub wrong: Option<String>,
    /// Requests that were handed in later than 1 ms after they were due, in an open loop.
    pub late: u64,
}

impl Driven {
    /// Adds what another thread did.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
        self.rows += other.rows;
        self.value_bytes += other.value_bytes;
        self.hits += other.hits;
        self.latencies.add(&other.latencies);
        self.wrong = self.wrong.take().or(other.wrong);
        self.late += other.late;
    }
}

/// What carries requests out: a lane of a router, or an index without one.
pub trait Carrier {
    /// Looks a key up.
    fn lookup(&mut self, request: u64, key: &[u8], receive: &mut dyn Receive);
    /// Gives a key a value.
    fn put(&mut self, request: u64, key: &[u8], value: &[u8], receive: &mut dyn Receive);
    /// Gives at most `rows` rows from `start` on.
    fn scan(&mut self, request: u64, start: &[u8], rows: u32, receive: &mut dyn Receive);
    /// Carries out what was collected, without waiting for it.
    fn flush(&mut self, receive: &mut dyn Receive);
    /// Carries out what was collected, and waits for an answer if one is to come.
    fn wait(&mut self, receive: &mut dyn Receive);
}

impl Carrier for Lane {
    fn lookup(&mut self, request: u64, key: &[u8], receive: &mut dyn Receive) {
        Lane::lookup(self, request, key, receive);
    }

    fn put(&mut self, request: u64, key: &[u8], value: &[u8], receive: &mut dyn Receive) {
        Lane::put(self, request, key, value, receive);
    }

    fn scan(&mut self, request: u64, start: &[u8], rows: u32, receive: &mut dyn Receive) {
        Lane::scan(self, request, start, rows, receive);
    }

    fn flush(&mut self, receive: &mut dyn Receive) {
        Lane::flush(self, receive);
    }

    fn wait(&mut self, receive: &mut dyn Receive) {
        Lane::wait(self, receive);
    }
}

/// Writes the loaded records whose numbers are `first`, `first + step` and so on, in the order of their numbers, which is random in keys.
///
/// # Errors
/// The first write that failed.
pub fn load(
    records: &Records,
    first: u64,
    step: u64,
    window: usize,
    carrier: &mut dyn Carrier,
    stop: &AtomicBool,
) -> Result<u64, String> {
    let mut loaded = Loaded::default();
    let mut value = vec![0; records.value_bytes];
    let mut record = first;
    let mut sent = 0;
    while record < records.spec.records && !stop.load(Ordering::Relaxed) {
        fill(record, super::ycsb::LOADED, &mut value);
        carrier.put(
            record,
            records.form.key(record).as_bytes(),
            &value,
            &mut loaded,
        );
        sent += 1;
        while sent - loaded.written >= window as u64 && loaded.failure.is_none() {
            carrier.wait(&mut loaded);
        }
        if let Some(failure) = loaded.failure {
            return Err(failure);
        }
        record += step;
    }
    while loaded.written < sent && loaded.failure.is_none() {
        carrier.wait(&mut loaded);
    }
    match loaded.failure {
        Some(failure) => Err(failure),
        None => Ok(sent),
    }
}

/// The answers of a load.
#[derive(Default)]
struct Loaded {
    written: u64,
    failure: Option<String>,
}

impl Receive for Loaded {
    fn looked_up(&mut self, _: u64, _: Option<&[u8]>) {}

    fn written(&mut self, _: u64) {
        self.written += 1;
    }

    fn row(&mut self, _: u64, _: &[u8], _: &[u8]) {}

    fn scanned(&mut self, _: u64) {}

    fn failed(&mut self, _: u64, error: &RouterError) {
        self.failure.get_or_insert_with(|| error.to_string());
    }
}

/// A request that is on its way.
#[derive(Debug)]
enum Asked {
    Nothing,
    Read(Floor),
    /// Before the write of a read-modify-write.
    Modify(Floor),
    Write(Write),
    Insert(Write),
    Scan(usize),
}

#[derive(Debug)]
struct Ticket {
    asked: Asked,
    record: u64,
    /// When it was handed in or due; [`u64::MAX`] for one that is not timed.
    since_ns: u64,
}

/// A scan that is on its way.
#[derive(Clone, Debug, Default)]
struct ScanState {
    rows: u32,
    rows_max: u32,
    last: Vec<u8>,
    /// The place of the next loaded record, in a scan that is checked in full.
    place: Option<usize>,
    /// What the loaded records may be read as, in a scan that is checked in full.
    floors: Vec<(u64, Floor)>,
    at: usize,
}

/// The answers of a run.
struct Answers<'a> {
    records: &'a Records,
    clock: &'a dyn Timer,
    tickets: Vec<Ticket>,
    free: Vec<u64>,
    scans: Vec<ScanState>,
    free_scans: Vec<usize>,
    /// Read-modify-writes whose write comes next.
    modified: Vec<u64>,
    outstanding: usize,
    driven: Driven,
}

/// One thread's run: its requests, until `stop` or as many as `load` says.
///
/// # Errors
/// [`SpecError`] of a spec that cannot be.
pub fn drive(
    records: &Records,
    load: Load,
    seed: u64,
    thread: u32,
    carrier: &mut dyn Carrier,
    clock: &Arc<dyn Timer>,
    stop: &AtomicBool,
) -> Result<Driven, SpecError> {
    let mut run = Run {
        generator: Generator::new(&records.spec, seed, thread)?,
        value: vec![0; records.value_bytes],
        count: 0,
        answers: Answers {
            records,
            clock: &**clock,
            tickets: Vec::new(),
            free: Vec::new(),
            scans: Vec::new(),
            free_scans: Vec::new(),
            modified: Vec::new(),
            outstanding: 0,
            driven: Driven::default(),
        },
    };
    match load.rate {
        None => run.closed(load, carrier, stop),
        Some(rate) => {
            let random = SplitMix64::new(seed ^ (u64::from(thread) << 32) ^ 0x6f70_656e);
            run.open(load, rate, random, carrier, stop);
        }
    }
    while run.answers.outstanding > 0 {
        carrier.wait(&mut run.answers);
        run.follow(carrier);
    }
    Ok(run.answers.driven)
}

struct Run<'a> {
    generator: Generator,
    value: Vec<u8>,
    count: u64,
    answers: Answers<'a>,
}

impl Run<'_> {
    fn closed(&mut self, load: Load, carrier: &mut dyn Carrier, stop: &AtomicBool) {
        let most = load.requests.unwrap_or(u64::MAX);
        while self.count < most
            && !stop.load(Ordering::Relaxed)
            && self.answers.driven.wrong.is_none()
        {
            if self.answers.outstanding >= load.window.max(1) {
                carrier.wait(&mut self.answers);
                self.follow(carrier);
                continue;
            }
            let since_ns = match self.count % REQUESTS_PER_TIME {
                0 => self.answers.clock.now_ns(),
                _ => NO_TICKET,
            };
            if !self.ask(since_ns, carrier) {
                return;
            }
            self.follow(carrier);
        }
    }

    fn open(
        &mut self,
        load: Load,
        rate: f64,
        mut random: SplitMix64,
        carrier: &mut dyn Carrier,
        stop: &AtomicBool,
    ) {
        let most = load.requests.unwrap_or(u64::MAX);
        let gap_ns = 1e9 / rate.max(1e-6);
        let start_ns = self.answers.clock.now_ns();
        let mut due = random.exponential(gap_ns);
        while self.count < most
            && !stop.load(Ordering::Relaxed)
            && self.answers.driven.wrong.is_none()
        {
            let now_ns = self.answers.clock.now_ns() - start_ns;
            let mut asked = false;
            while due as u64 <= now_ns
                && self.count < most
                && self.answers.outstanding < load.window.max(1)
                && !stop.load(Ordering::Relaxed)
            {
                self.answers.driven.late += u64::from(now_ns - due as u64 > 1_000_000);
                if !self.ask(start_ns + due as u64, carrier) {
                    return;
                }
                self.follow(carrier);
                due += random.exponential(gap_ns);
                asked = true;
            }
            match (self.answers.outstanding, asked) {
                (0, false) => std::hint::spin_loop(),
                // Nothing more is due: what was collected goes out.
                (_, true) => carrier.flush(&mut self.answers),
                (_, false) if self.answers.outstanding >= load.window.max(1) => {
                    carrier.wait(&mut self.answers)
                }
                (_, false) => carrier.flush(&mut self.answers),
            }
            self.follow(carrier);
        }
    }

    /// Hands the next request in; false if there is none, or it cannot be.
    fn ask(&mut self, since_ns: u64, carrier: &mut dyn Carrier) -> bool {
        let records = self.answers.records;
        let request = match self.generator.next(&records.inserted) {
            Ok(request) => request,
            Err(full) => {
                self.answers
                    .driven
                    .failure
                    .get_or_insert_with(|| full.to_string());
                return false;
            }
        };
        self.count += 1;
        let ledger = &records.ledger;
        match request {
            Request::Read(record) => {
                let asked = Asked::Read(ledger.begin_read(record));
                let ticket = self.answers.ticket(asked, record, since_ns);
                carrier.lookup(ticket, &records.form.key(record), &mut self.answers);
            }
            Request::ReadModifyWrite(record) => {
                let asked = Asked::Modify(ledger.begin_read(record));
                let ticket = self.answers.ticket(asked, record, since_ns);
                carrier.lookup(ticket, &records.form.key(record), &mut self.answers);
            }
            Request::Update(record) => {
                return self.write(record, Asked::Write, since_ns, None, carrier);
            }
            Request::Insert(record) => {
                return self.write(record, Asked::Insert, since_ns, None, carrier);
            }
            Request::Scan { from, rows } => {
                let key = records.form.key(from);
                let scan =
                    self.answers
                        .scan(&key, rows, self.count.is_multiple_of(SCANS_PER_FULL_CHECK));
                let ticket = self.answers.ticket(Asked::Scan(scan), from, since_ns);
                carrier.scan(ticket, &key, rows, &mut self.answers);
            }
        }
        true
    }

    /// Hands a write in, with a ticket of its own or the one of the lookup before it.
    fn write(
        &mut self,
        record: u64,
        asked: fn(Write) -> Asked,
        since_ns: u64,
        ticket: Option<u64>,
        carrier: &mut dyn Carrier,
    ) -> bool {
        let records = self.answers.records;
        let write = match records.ledger.begin_write(record) {
            Ok(write) => write,
            Err(error) => {
                self.answers
                    .driven
                    .failure
                    .get_or_insert_with(|| error.to_string());
                return false;
            }
        };
        fill(record, write.version, &mut self.value);
        let ticket = match ticket {
            Some(ticket) => {
                self.answers.tickets[ticket as usize].asked = asked(write);
                ticket
            }
            None => self.answers.ticket(asked(write), record, since_ns),
        };
        carrier.put(
            ticket,
            &records.form.key(record),
            &self.value,
            &mut self.answers,
        );
        true
    }

    /// Hands the writes of read-modify-writes in.
    fn follow(&mut self, carrier: &mut dyn Carrier) {
        while let Some(ticket) = self.answers.modified.pop() {
            let &Ticket {
                record, since_ns, ..
            } = &self.answers.tickets[ticket as usize];
            if !self.write(record, Asked::Write, since_ns, Some(ticket), carrier) {
                self.answers.end(ticket, false);
            }
        }
    }
}

impl Answers<'_> {
    fn ticket(&mut self, asked: Asked, record: u64, since_ns: u64) -> u64 {
        self.outstanding += 1;
        let ticket = Ticket {
            asked,
            record,
            since_ns,
        };
        match self.free.pop() {
            Some(at) => {
                self.tickets[at as usize] = ticket;
                at
            }
            None => {
                self.tickets.push(ticket);
                self.tickets.len() as u64 - 1
            }
        }
    }

    fn scan(&mut self, key: &[u8], rows: u32, in_full: bool) -> usize {
        let records = self.records;
        let at = self.free_scans.pop().unwrap_or_else(|| {
            self.scans.push(ScanState::default());
            self.scans.len() - 1
        });
        let state = &mut self.scans[at];
        (state.rows, state.rows_max, state.at) = (0, rows, 0);
        state.last.clear();
        state.last.extend_from_slice(key);
        state.floors.clear();
        state.place = in_full.then(|| records.place(key));
        if let Some(place) = state.place {
            let loaded = records.order[place..].iter().take(rows as usize);
            let floors =
                loaded.map(|&record| (u64::from(record), records.ledger.begin_read(record.into())));
            state.floors.extend(floors);
        }
        at
    }

    fn wrong(&mut self, why: impl FnOnce() -> String) {
        self.driven.wrong.get_or_insert_with(why);
    }

    /// A request has ended.
    fn end(&mut self, ticket: u64, answered: bool) {
        let Ticket {
            asked, since_ns, ..
        } = &mut self.tickets[ticket as usize];
        let (asked, since_ns) = (std::mem::replace(asked, Asked::Nothing), *since_ns);
        if since_ns != NO_TICKET && answered {
            self.driven
                .latencies
                .record(self.clock.now_ns().saturating_sub(since_ns));
        }
        match answered {
            true => self.driven.requests += 1,
            false => self.driven.failed += 1,
        }
        if let Asked::Scan(scan) = asked {
            self.free_scans.push(scan);
        }
        self.free.push(ticket);
        self.outstanding -= 1;
    }
}

impl Receive for Answers<'_> {
    fn looked_up(&mut self, request: u64, value: Option<&[u8]>) {
        let &Ticket {
            ref asked, record, ..
        } = &self.tickets[request as usize];
        let (floor, is_modified) = match *asked {
            Asked::Read(floor) => (floor, false),
            Asked::Modify(floor) => (floor, true),
            _ => {
                return self.wrong(|| {
                    format!("record {record}: a lookup was answered that was not asked for")
                });
            }
        };
        self.driven.hits += u64::from(value.is_some());
        self.driven.value_bytes += value.map_or(0, <[u8]>::len) as u64;
        let version = match value.map(|value| check(record, value)) {
            None => Ok(ABSENT),
            Some(Ok(version)) => Ok(version),
            Some(Err(error)) => Err(error.to_string()),
        };
        let fits = version.and_then(|version| {
            let judged = self.records.ledger.end_read(record, floor, version);
            judged.map_err(|error| error.to_string())
        });
        if let Err(why) = fits {
            self.wrong(|| why);
        }
        match is_modified {
            true => self.modified.push(request),
            false => self.end(request, true),
        }
    }

    fn written(&mut self, request: u64) {
        let Ticket { asked, record, .. } = &mut self.tickets[request as usize];
        let record = *record;
        match std::mem::replace(asked, Asked::Nothing) {
            Asked::Write(write) => self.records.ledger.end_write(write),
            Asked::Insert(write) => {
                self.records.ledger.end_write(write);
                self.records.inserted.acknowledge(record);
            }
            _ => self
                .wrong(|| format!("record {record}: a write was answered that was not asked for")),
        }
        self.driven.value_bytes += self.records.value_bytes as u64;
        self.end(request, true);
    }

    fn row(&mut self, request: u64, key: &[u8], value: &[u8]) {
        let Asked::Scan(scan) = self.tickets[request as usize].asked else {
            return self.wrong(|| "a row came for no scan".to_owned());
        };
        self.driven.rows += 1;
        self.driven.value_bytes += value.len() as u64;
        let judged = self.scans[scan].row(self.records, key, value);
        if let Err(why) = judged {
            self.wrong(|| why);
        }
    }

    fn scanned(&mut self, request: u64) {
        let Asked::Scan(scan) = self.tickets[request as usize].asked else {
            return self.wrong(|| "the end of a scan came that was not asked for".to_owned());
        };
        if let Err(why) = self.scans[scan].end() {
            self.wrong(|| why);
        }
        self.end(request, true);
    }

    fn failed(&mut self, request: u64, error: &RouterError) {
        // A write whose outcome is unknown has begun and never ends, as the ledger wants it.
        self.driven.failure.get_or_insert_with(|| error.to_string());
        self.end(request, false);
    }
}

impl ScanState {
    /// Judges a row.
    fn row(&mut self, records: &Records, key: &[u8], value: &[u8]) -> Result<(), String> {
        let in_order = match self.rows {
            0 => key >= &*self.last,
            _ => key > &*self.last,
        };
        if !in_order || self.rows == self.rows_max {
            return Err(format!(
                "a scan gave {} behind {}, as row {} of {}",
                key.escape_ascii(),
                self.last.escape_ascii(),
                self.rows + 1,
                self.rows_max
            ));
        }
        self.rows += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
        let named = value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let record = named.filter(|&record| {
            record < records.ledger.capacity() && *records.form.key(record) == *key
        });
        let record = record.ok_or_else(|| {
            format!(
                "a scan gave {} a value of another record",
                key.escape_ascii()
            )
        })?;
        let version = check(record, value).map_err(|error| error.to_string())?;
        let mut floor = None;
        if self.place.is_some() && record < records.spec.records {
            // Loaded records are never deleted, so that each must come.
            match self.floors.get(self.at) {
                Some(&(next, at)) if next == record => floor = Some(at),
                Some(&(next, _)) => {
                    return Err(format!(
                        "a scan gave record {record}, and left out record {next} before it"
                    ));
                }
                None => {
                    return Err(format!(
                        "a scan gave record {record}, behind the last one of its range"
                    ));
                }
            }
            self.at += 1;
        }
        let floor = floor.unwrap_or(Floor::NONE);
        let judged = records.ledger.end_read(record, floor, version);
        judged.map_err(|error| error.to_string())
    }

    /// Judges the end.
    fn end(&self) -> Result<(), String> {
        let left_out =
            self.place.is_some() && self.rows < self.rows_max && self.at < self.floors.len();
        match left_out {
            true => Err(format!(
                "a scan ended after {} of {} rows, before record {}",
                self.rows, self.rows_max, self.floors[self.at].0
            )),
            false => Ok(()),
        }
    }
}
