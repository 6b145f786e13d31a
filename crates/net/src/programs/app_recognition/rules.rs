//! Rules over what undecided flows have said: [`RuleEngine`].

use std::collections::VecDeque;

use dpb_core::{
    Buffers, Completion, Items, Job, JobError, Limits, Memory, OutputShape, Queue, SetupError,
};

use crate::flow::Direction;
use crate::programs::Engine;
use crate::recognition::Recognizer;

/// An operator whose outputs are as those of `rxpmatch`: eight bytes for each rule that matches, its number first, little endian.
#[derive(Clone, Debug)]
pub struct RuleEngine {
    engine: Engine,
    limits: Limits,
}

/// Bytes that are held of one direction of a flow, at most.
const STREAM_BYTES_MAX: usize = 8 << 10;
/// Bytes of a match in an output.
const MATCH_BYTES: usize = 8;

impl RuleEngine {
    /// Rules on an engine.
    ///
    /// # Errors
    /// [`SetupError::Parameter`] if the operator's outputs are all of one length; the backend's own.
    pub fn new(engine: Engine) -> Result<Self, SetupError> {
        if let OutputShape::Fixed(bytes) = engine.operator.shape() {
            return Err(SetupError::Parameter(format!(
                "{} as rules: its outputs are {bytes} bytes each, those of rules are as long as what matched; take rxpmatch",
                engine.operator.spec()
            )));
        }
        let limits = engine.backend.limits(engine.operator.spec())?;
        Ok(Self { engine, limits })
    }

    /// Streams that one burst may bring news of.
    fn items_max(&self) -> usize {
        (2 * self.engine.packets_max).min(self.limits.items_max)
    }

    fn buffer_bytes(&self) -> usize {
        (self.items_max() * STREAM_BYTES_MAX).min(self.limits.input_bytes_max)
    }
}

/// What rules have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Starts of streams.
    pub(super) items: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Of these starts, those that the engine refused or whose job failed.
    pub(super) failed: u64,
}

/// A shard's way to the engine.
pub(super) struct Lane {
    queue: Box<dyn Queue>,
    flights: Vec<Flight>,
    idle: Vec<usize>,
    items_max: usize,
    slot_bytes: usize,
    ready: VecDeque<Job>,
    done: Vec<Completion>,
    seen: Seen,
}

struct Flight {
    /// At home while the flight is idle.
    job: Option<Job>,
    flows: Vec<(u64, Direction)>,
}

impl Lane {
    pub(super) fn open(rules: &RuleEngine) -> Result<Self, SetupError> {
        let RuleEngine { engine, .. } = rules;
        let items_max = rules.items_max();
        let slot_bytes = engine.operator.dst_len(STREAM_BYTES_MAX).max(MATCH_BYTES);
        let queue = std::sync::Arc::clone(&engine.operator).open(engine.depth)?;
        let mut flights = Vec::new();
        for tag in 0..engine.depth.get() {
            let src = engine.backend.alloc(rules.buffer_bytes())?;
            let dst = engine.backend.alloc(items_max * slot_bytes)?;
            let job = Job::with_slots(
                tag.into(),
                Memory::Own(src.into()),
                Items::Spans(Vec::with_capacity(items_max)),
                dst,
                Items::default(),
                Vec::with_capacity(items_max),
            );
            flights.push(Flight {
                job: Some(job),
                flows: Vec::with_capacity(items_max),
            });
        }
        Ok(Self {
            queue,
            idle: (0..flights.len()).rev().collect(),
            flights,
            items_max,
            slot_bytes,
            ready: VecDeque::new(),
            done: Vec::new(),
            seen: Seen::default(),
        })
    }

    /// Jobs that may be out at the same time.
    pub(super) fn depth(&self) -> usize {
        self.flights.len()
    }

    pub(super) fn has_room(&self) -> bool {
        !self.idle.is_empty()
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen
    }

    /// Sends what undecided flows have said that no rule has seen, as much as one job takes; gives the number of the flight, unless there is nothing. There has to be
    /// room.
    pub(super) fn send(&mut self, recognizer: &mut Recognizer) -> Option<usize> {
        let at = *self.idle.last()?;
        let Flight { job, flows } = &mut self.flights[at];
        let mut out = job.take()?;
        let mut spans = std::mem::take(&mut out.items).into_spans();
        spans.clear();
        flows.clear();
        if let Memory::Own(Buffers::One(into)) = &mut out.src {
            recognizer.gather(into, 0, self.items_max, &mut spans, flows);
        }
        let count = spans.len();
        self.seen.items += count as u64;
        self.seen.bytes += spans.iter().map(|span| u64::from(span.len)).sum::<u64>();
        out.items = Items::Spans(spans);
        if count == 0 {
            *job = Some(out);
            return None;
        }
        out.slots = Items::fixed(self.slot_bytes as u32, count as u32);
        self.idle.pop();
        self.ready.push_back(out);
        self.queue.submit(&mut self.ready);
        Some(at)
    }

    /// Takes home what is finished: `matched` gets each stream's flow for which a rule matched, with the first rule's number, and then `landed` the flight's number.
    pub(super) fn poll(
        &mut self,
        mut matched: impl FnMut(u64, u32),
        mut landed: impl FnMut(usize),
    ) {
        // What the queue had no room for.
        if !self.ready.is_empty() {
            self.queue.submit(&mut self.ready);
        }
        self.queue.poll(&mut self.done);
        for Completion { job, result } in self.done.drain(..) {
            let at = job.tag as usize;
            let flight = &mut self.flights[at];
            for (i, (flow, _)) in flight.flows.iter().enumerate() {
                match result.and_then(|()| first_match(&job, i, self.slot_bytes)) {
                    Ok(Some(rule)) => matched(*flow, rule),
                    Ok(None) => {}
                    Err(_) => self.seen.failed += 1,
                }
            }
            flight.job = Some(job);
            self.idle.push(at);
            landed(at);
        }
    }
}

/// The first rule that matched in item `i`.
fn first_match(job: &Job, i: usize, slot_bytes: usize) -> Result<Option<u32>, JobError> {
    let len = job.outcomes[i]? as usize;
    let start = i * slot_bytes;
    let output = job.dst[0].get(start..start + len);
    let number = output.and_then(<[u8]>::first_chunk::<4>);
    Ok(number.map(|number| u32::from_le_bytes(*number)))
}
