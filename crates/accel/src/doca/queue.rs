//! Jobs into tasks: each item of a job is one task, and a job is done when all its tasks are.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::{
    Completion, DeflateFormat, Job, JobError, NotInPlace, OpSpec, Operator, OutputShape, Queue,
    SetupError, Unsupported,
};

use super::kind::Kind;
use super::operator::{DocaOperator, IV_BYTES, LEVEL, TAG_BYTES, Work, wrapping_bytes};
use super::raw::{EngineContext, Landing, MATCH_BYTES, Piece, Start};
use super::sys::Code;
use crate::readiness;

/// Tasks that a queue has, unless its depth or the device say otherwise: enough to keep an engine busy with short items.
const TASKS_USUAL: u32 = 256;

/// One thread's queue into an engine. Everything in it is allocated when it is opened.
pub(super) struct DocaQueue {
    operator: Arc<DocaOperator>,
    shape: OutputShape,
    context: EngineContext,
    /// The states of jobs, by the context's places.
    states: Vec<State>,
    free: Vec<u32>,
    /// Places whose jobs have items that no task was started for, the first come first.
    waiting: VecDeque<u32>,
    landed: Vec<Landing>,
    finished: Vec<Completion>,
    /// Jobs that were taken and not yet handed back.
    in_flight: usize,
}

/// The progress of a job.
#[derive(Clone, Copy)]
struct State {
    /// The next item to start a task for.
    next: usize,
    items: usize,
    /// Tasks that were started and have not been looked at since.
    open: u32,
    result: Result<(), JobError>,
}

/// The work that an item needs.
enum Item {
    /// A task, and what to write in front of its output.
    Task(Piece, &'static [u8]),
    /// None: this is its outcome.
    Settled(Result<u32, JobError>),
}

/// Why no operator works in place.
const TWO_BUFFERS: &str = "a task of DOCA gets its source and its destination as two buffers here, and whether these may overlap was \
                           never tried; give the outputs slots outside of the items";

impl Operator for DocaOperator {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn shape(&self) -> OutputShape {
        match self.work.kind.digest_bytes() {
            Some(bytes) => OutputShape::Fixed(bytes),
            None => OutputShape::Variable,
        }
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        Err(NotInPlace::new(TWO_BUFFERS))
    }

    fn dst_len(&self, item_len: usize) -> usize {
        match self.work.kind {
            Kind::Copy => item_len,
            // A literal takes nine bits at most in the format's fixed code.
            Kind::Deflate => {
                let wrapping = wrapping_bytes(self.work.parameters.format());
                item_len
                    .saturating_add(item_len / 8)
                    .saturating_add(64 + wrapping)
            }
            // Room for a ratio of eight. The formats' own bounds are 1032 and 255.
            Kind::Inflate | Kind::Unlz4 => item_len.saturating_mul(8).saturating_add(64),
            Kind::Sha1 | Kind::Sha256 | Kind::Sha512 => self.work.kind.digest_bytes().unwrap_or(0),
            Kind::Encrypt128 | Kind::Encrypt256 => item_len.saturating_sub(IV_BYTES) + TAG_BYTES,
            Kind::Decrypt128 | Kind::Decrypt256 => item_len.saturating_sub(IV_BYTES + TAG_BYTES),
            Kind::ErasureEncode | Kind::ErasureRecover => {
                let coded = self.work.parameters.coded();
                coded.map_or(0, |(code, coded)| {
                    (item_len / code.data_blocks()).saturating_mul(coded)
                })
            }
            // If every rule matches.
            Kind::Match => self.work.parameters.rules() * MATCH_BYTES,
        }
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        if depth > self.limits.depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: self.limits.depth_max.get(),
            });
        }
        // A power of two, as SHA's are counted.
        let tasks = depth
            .get()
            .max(TASKS_USUAL)
            .next_power_of_two()
            .min(self.bounds.tasks_max);
        let depth = depth.get() as usize;
        let Work { kind, parameters } = &self.work;
        let context = EngineContext::open(&self.device, *kind, parameters, depth, tasks);
        let context = context.map_err(|refused| {
            let reason = format!("{} on {}: {refused}", self.spec, self.device.name());
            SetupError::Unsupported(Unsupported { reason })
        })?;
        Ok(Box::new(DocaQueue::new(
            self,
            context,
            depth,
            tasks as usize,
        )))
    }
}

impl DocaQueue {
    pub(super) fn new(
        operator: Arc<DocaOperator>,
        context: EngineContext,
        depth: usize,
        tasks: usize,
    ) -> Self {
        let state = State {
            next: 0,
            items: 0,
            open: 0,
            result: Ok(()),
        };
        Self {
            shape: operator.shape(),
            operator,
            context,
            states: vec![state; depth],
            free: (0..depth as u32).rev().collect(),
            waiting: VecDeque::with_capacity(depth),
            landed: Vec::with_capacity(tasks),
            finished: Vec::with_capacity(depth),
            in_flight: 0,
        }
    }

    /// Finds a place for a job, or finishes it with its error.
    fn admit(&mut self, mut job: Job) {
        let state = match self.check(&mut job) {
            Ok(state) => state,
            Err(error) => {
                return self.finished.push(Completion {
                    job,
                    result: Err(error),
                });
            }
        };
        let place = self.free.pop().expect("no more jobs than places are taken");
        match self.context.hold(place, job) {
            Ok(()) => {
                self.states[place as usize] = state;
                self.waiting.push_back(place);
            }
            Err(job) => {
                self.free.push(place);
                let result = Err(JobError::ForeignBuffer);
                self.finished.push(Completion { job, result });
            }
        }
    }

    /// Whether a job can be carried out; if so its outcomes are made ready.
    fn check(&self, job: &mut Job) -> Result<State, JobError> {
        let items = job.admit(self.shape, &self.operator.limits)?;
        if self.shape == OutputShape::Variable {
            job.outcomes.resize(items, Ok(0));
        }
        Ok(State {
            next: 0,
            items,
            open: 0,
            result: Ok(()),
        })
    }

    /// Starts tasks for what waits, as many as there is room for.
    fn start(&mut self) {
        while let Some(&place) = self.waiting.front() {
            if !self.start_items(place) {
                break;
            }
            self.waiting.pop_front();
            self.finish_if_done(place);
        }
        self.context.flush();
    }

    /// Whether all items of the job in `place` are on their way or settled.
    fn start_items(&mut self, place: u32) -> bool {
        loop {
            let State {
                next,
                items,
                result,
                ..
            } = self.states[place as usize];
            if next == items || result.is_err() {
                return true;
            }
            let room = self.context.slot_len(place, next);
            match item(&self.operator, self.context.item(place, next), room) {
                Item::Settled(outcome) => self.settle(place, next, outcome),
                Item::Task(piece, head) => {
                    self.context.write(place, next, 0, head);
                    match self.context.start(place, next as u32, &piece) {
                        Start::Started => self.states[place as usize].open += 1,
                        Start::Busy => return false,
                        Start::Failed(code) => {
                            self.settle(place, next, Err(JobError::Device(code.0)));
                        }
                    }
                }
            }
            self.states[place as usize].next += 1;
        }
    }

    /// Notes what became of an item. Where no item can be refused, or the device is lost, an error is the whole job's.
    fn settle(&mut self, place: u32, item: usize, outcome: Result<u32, JobError>) {
        let state = &mut self.states[place as usize];
        match (outcome, self.shape) {
            (Err(error), OutputShape::Fixed(_)) => state.result = Err(error),
            (Err(error), _) if self.context.dead().is_some() => state.result = Err(error),
            (_, OutputShape::Fixed(_)) => {}
            (outcome, OutputShape::Variable) => self.context.outcomes(place)[item] = outcome,
        }
    }

    fn land(&mut self, landing: Landing) {
        let Landing { place, item, .. } = landing;
        self.states[place as usize].open -= 1;
        let outcome = match landing.result {
            Ok(bytes) => self.output(&landing, bytes),
            // Other outputs have been found to fit: there it is the device that lacks memory.
            Err(Code::TOO_BIG | Code::FULL | Code::NO_MEMORY)
                if self.operator.work.kind.is_stream() =>
            {
                Err(JobError::DstTooShort)
            }
            Err(Code::NO_ROOM) => Err(JobError::DstTooShort),
            Err(code) => Err(JobError::Device(code.0)),
        };
        // What is not there would be taken for output.
        if outcome == Err(JobError::BadOutcomes) {
            self.states[place as usize].result = Err(JobError::BadOutcomes);
        }
        self.settle(place, item as usize, outcome);
        self.finish_if_done(place);
    }

    /// The outcome of an item whose task has written that many bytes.
    fn output(&mut self, landing: &Landing, bytes: usize) -> Result<u32, JobError> {
        let Landing { place, check, .. } = *landing;
        let item = landing.item as usize;
        let slot = self.context.slot_len(place, item);
        let src = self.context.item(place, item);
        let item_len = src.len();
        let parameters = &self.operator.work.parameters;
        let format = parameters.format();
        let (output, is_right) = match (self.operator.work.kind, self.shape) {
            (_, OutputShape::Fixed(all)) => (bytes, bytes == all),
            (Kind::Deflate, _) => {
                let trailer = format.trailer(check, item_len);
                let at = format.header(LEVEL).len() + bytes;
                let end = at + trailer.len();
                if end <= slot {
                    self.context.write(place, item, at, &trailer);
                }
                (end, end <= slot)
            }
            (Kind::Inflate, _) => {
                let trailer = format.trailer(check, bytes);
                if !src.ends_with(&trailer) {
                    return Err(JobError::Malformed);
                }
                (bytes, bytes <= slot)
            }
            // DOCA does not say whether the engine tells how much it has written, which is known.
            (Kind::ErasureEncode | Kind::ErasureRecover, _) => {
                let coded = parameters.coded_bytes(item_len);
                (coded.expect("found when it was started"), true)
            }
            _ => (bytes, bytes <= slot),
        };
        match is_right {
            true => Ok(output as u32),
            false => Err(JobError::BadOutcomes),
        }
    }

    fn finish_if_done(&mut self, place: u32) {
        let State {
            next,
            items,
            open,
            result,
            ..
        } = self.states[place as usize];
        // What failed as a whole is not carried on with, but waits for its turn to leave the row.
        let is_waiting = next < items && (result.is_ok() || self.waiting.contains(&place));
        if open > 0 || is_waiting {
            return;
        }
        if let Some(job) = self.context.take(place) {
            self.free.push(place);
            self.finished.push(Completion { job, result });
        }
    }
}

impl Queue for DocaQueue {
    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let taken = ready.len().min(self.states.len() - self.in_flight);
        self.in_flight += taken;
        for job in ready.drain(..taken) {
            self.admit(job);
        }
        self.start();
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.context.poll(&mut self.landed);
        while let Some(landing) = self.landed.pop() {
            self.land(landing);
        }
        self.start();
        let finished = self.finished.len();
        self.in_flight -= finished;
        done.append(&mut self.finished);
        finished
    }

    fn wait(&mut self, timeout: Duration) {
        if self.in_flight == 0 || !self.finished.is_empty() {
            return;
        }
        let is_armed = self.context.arm();
        // What ended before the file was armed may never be told of.
        self.context.poll(&mut self.landed);
        match self.context.file() {
            _ if !self.landed.is_empty() => {}
            Some(file) if is_armed => _ = readiness::sleep(file, timeout),
            _ => readiness::nap(timeout),
        }
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.context.file()
    }
}

/// The work that an item needs whose slot has `room` bytes.
fn item(operator: &DocaOperator, input: &[u8], room: usize) -> Item {
    let src = 0..input.len();
    let bytes_max = usize::try_from(operator.bounds.item_bytes_max).unwrap_or(usize::MAX);
    let dst_max = room.min(bytes_max);
    let (kind, parameters) = (operator.work.kind, &operator.work.parameters);
    match kind {
        Kind::Copy if src.len() > room => refused(JobError::DstTooShort),
        // There is nothing to move.
        Kind::Copy if src.is_empty() => Item::Settled(Ok(0)),
        // No stream is that short.
        Kind::Unlz4 if src.is_empty() => refused(JobError::Malformed),
        // Rules that match no bytes are refused.
        Kind::Match if src.is_empty() => Item::Settled(Ok(0)),
        Kind::Copy => {
            let len = src.len();
            task(src, len, None)
        }
        Kind::Unlz4 | Kind::Match => task(src, dst_max, None),
        Kind::Deflate => deflated(parameters.format(), src, room, bytes_max),
        Kind::Inflate => inflated(parameters.format(), input, dst_max),
        Kind::ErasureEncode | Kind::ErasureRecover => {
            let bytes = parameters.coded_bytes(src.len());
            coded(src, bytes, room)
        }
        // A slot may be longer than a digest, and longer than the engine takes.
        Kind::Sha1 | Kind::Sha256 | Kind::Sha512 => {
            task(src, kind.digest_bytes().unwrap_or(room), None)
        }
        Kind::Encrypt128 | Kind::Encrypt256 => sealed(src, IV_BYTES, TAG_BYTES, room),
        Kind::Decrypt128 | Kind::Decrypt256 => sealed(src, IV_BYTES + TAG_BYTES, 0, room),
    }
}

fn refused(error: JobError) -> Item {
    Item::Settled(Err(error))
}

fn task(src: Range<usize>, dst_len: usize, iv: Option<usize>) -> Item {
    let dst = 0..dst_len;
    Item::Task(Piece { src, dst, iv }, &[])
}

/// A stream between header and trailer of `format`.
fn deflated(format: DeflateFormat, src: Range<usize>, room: usize, bytes_max: usize) -> Item {
    let head = format.header(LEVEL);
    let Some(room) = room.checked_sub(head.len() + format.trailer_bytes()) else {
        return refused(JobError::DstTooShort);
    };
    let dst = head.len()..head.len() + room.min(bytes_max);
    Item::Task(Piece { src, dst, iv: None }, head)
}

/// The stream in an item of `format`. The engine does not say where a stream ends: its trailer is taken to be the item's last bytes.
fn inflated(format: DeflateFormat, input: &[u8], dst_max: usize) -> Item {
    let header = format.header_bytes(input);
    let end = input.len().checked_sub(format.trailer_bytes());
    match (header, end) {
        (Some(header), Some(end)) if header < end => task(header..end, dst_max, None),
        _ => refused(JobError::Malformed),
    }
}

/// Blocks of a code, of which `bytes` are computed, if the item is whole blocks.
fn coded(src: Range<usize>, bytes: Option<usize>, room: usize) -> Item {
    match bytes {
        None => refused(JobError::Malformed),
        // There is nothing to compute.
        Some(0) => Item::Settled(Ok(0)),
        Some(bytes) if u32::try_from(bytes).is_err() => refused(JobError::TooLong),
        Some(bytes) if bytes > room => refused(JobError::DstTooShort),
        Some(bytes) => task(src, bytes, None),
    }
}

/// A text behind its nonce: `needed` bytes of the item are not text, `added` bytes are written behind it.
fn sealed(src: Range<usize>, needed: usize, added: usize, room: usize) -> Item {
    match src.len().checked_sub(needed) {
        None => refused(JobError::Malformed),
        Some(text) if text + added > room => refused(JobError::DstTooShort),
        Some(text) => task(src.start + IV_BYTES..src.end, text + added, Some(src.start)),
    }
}
