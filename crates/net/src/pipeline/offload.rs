//! A stage with an operator behind it: [`OffloadStage`].

use std::collections::VecDeque;
use std::fmt;
use std::mem::{replace, take};
use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::{
    Backend, Buf, Buffers, Completion, Items, Job, JobError, Memory, Operator, OutputShape, Queue,
    SetupError, Span,
};

use super::{Burst, Packet, Reason, Stage};

/// The part of a packet that an operator is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Bytes `start..start + len` of the frame. In place, the output may take `room` bytes from where the operator begins it.
    Item {
        /// The first byte.
        start: u32,
        /// The number of bytes.
        len: u32,
        /// Bytes of the slot, which lies in the frame: counted where the stage works in place, and only there.
        room: u32,
    },
    /// Nothing: the packet goes on as it is.
    None,
    /// Nothing: the packet is dropped.
    Drop(Reason),
}

/// The output of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// These bytes, beside the packet.
    Beside(&'a [u8]),
    /// So many bytes, in the frame, from where the operator begins its output.
    Within(usize),
}

/// The use that a stage makes of its operator: the part of each packet that is an item, and the consequence of its output. One for each stage and core.
pub trait Part {
    /// The memory of a packet while its job is out.
    type Note: Copy + Default;

    /// True if outputs are to be written over their items, where the operator does that.
    fn is_in_place(&self) -> bool {
        false
    }

    /// True if bursts must come in order: the part counts, or remembers.
    fn needs_order(&self) -> bool {
        false
    }

    /// The part of this packet. The frame may be changed, and replaced by a longer one.
    fn item(&mut self, packet: Packet<'_>, note: &mut Self::Note) -> Choice;

    /// Takes the output of the packet's item to where it belongs. After an error the item's bytes are lost if the stage works in place. Bursts come home
    /// in any order.
    fn output(
        &mut self,
        packet: Packet<'_>,
        note: Self::Note,
        output: Result<Output<'_>, JobError>,
    );
}

/// Sizes of a stage's queue and of its jobs.
#[derive(Clone, Copy, Debug)]
pub struct Offloading {
    /// Jobs in flight, each of one burst.
    pub depth: NonZeroU32,
    /// Packets of a burst, at most.
    pub packets_max: usize,
    /// Bytes of an output that lies beside its packet, at most. Outputs of a fixed length have that, if it is more.
    pub output_bytes: u32,
}

/// A queue of an operator, and a job for each burst: the packets are the job's buffers, their items lie where they are. Outputs are written over
/// them if part and operator do that, else beside them in memory of the stage.
pub struct OffloadStage<P: Part> {
    name: String,
    part: P,
    operator: Arc<dyn Operator>,
    queue: Box<dyn Queue>,
    shape: OutputShape,
    /// The place at which outputs begin, if they are written over their items.
    in_place: Option<u32>,
    output_bytes: u32,
    packets_max: usize,
    flights: Vec<Flight<P::Note>>,
    /// Flights that are at home.
    idle: Vec<u32>,
    ready: VecDeque<Job>,
    completions: Vec<Completion>,
    /// Bursts without a single item, and those that are too large.
    passed: Vec<Burst>,
    in_flight: usize,
}

/// A burst, and the job that it is in.
struct Flight<N> {
    /// Without its frames while the job is out.
    burst: Burst,
    /// A note for each item.
    notes: Vec<N>,
    /// At home while the flight is idle.
    job: Option<Job>,
}

impl<P: Part> OffloadStage<P> {
    /// A stage that has `operator` do its part of each packet. `alloc` gives memory that the operator's backend reaches ([`Backend::alloc`]); it is
    /// not called where outputs are written over their items.
    ///
    /// # Errors
    /// If the queue cannot be opened so deep, or there is no memory.
    pub fn new(
        name: impl Into<String>,
        operator: Arc<dyn Operator>,
        part: P,
        offloading: Offloading,
        alloc: impl Fn(usize) -> Result<Buf, SetupError>,
    ) -> Result<Self, SetupError> {
        let Offloading {
            depth,
            packets_max,
            output_bytes,
        } = offloading;
        let shape = operator.shape();
        let in_place = part.is_in_place().then(|| operator.in_place().ok());
        let in_place = in_place.flatten().and_then(|at| u32::try_from(at).ok());
        let output_bytes = match shape {
            OutputShape::Fixed(bytes) => output_bytes.max(u32::try_from(bytes).unwrap_or(u32::MAX)),
            OutputShape::Variable => output_bytes,
        };
        let queue = Arc::clone(&operator).open(depth)?;
        let deep = depth.get() as usize;
        let mut flights = Vec::with_capacity(deep);
        for tag in 0..depth.get() {
            let dst = match in_place {
                Some(_) => Buffers::default(),
                None => alloc(packets_max.saturating_mul(output_bytes as usize))?.into(),
            };
            let spans = || Items::Spans(Vec::with_capacity(packets_max));
            let slots = match in_place {
                Some(_) => spans(),
                None => Items::fixed(output_bytes, 0),
            };
            let outcomes = Vec::with_capacity(packets_max);
            let job = Job::with_slots(tag.into(), Memory::Output, spans(), dst, slots, outcomes);
            flights.push(Flight {
                burst: Burst::default(),
                notes: Vec::with_capacity(packets_max),
                job: Some(job),
            });
        }
        Ok(Self {
            name: name.into(),
            part,
            operator,
            queue,
            shape,
            in_place,
            output_bytes,
            packets_max,
            flights,
            idle: (0..depth.get()).rev().collect(),
            ready: VecDeque::with_capacity(deep),
            completions: Vec::with_capacity(deep),
            passed: Vec::with_capacity(deep),
            in_flight: 0,
        })
    }

    /// [`OffloadStage::new`] for an operator that `backend` prepared.
    ///
    /// # Errors
    /// As there.
    pub fn on(
        backend: &dyn Backend,
        operator: Arc<dyn Operator>,
        part: P,
        offloading: Offloading,
    ) -> Result<Self, SetupError> {
        let name = format!("{} on {}", operator.spec().name(), backend.name());
        Self::new(name, operator, part, offloading, |len| backend.alloc(len))
    }

    /// True if outputs are written over their items.
    pub fn works_in_place(&self) -> bool {
        self.in_place.is_some()
    }

    /// The use that it makes of its operator.
    pub fn part(&self) -> &P {
        &self.part
    }

    /// Makes the job of a burst; a burst without an item passes by.
    fn send(&mut self, mut burst: Burst) {
        self.in_flight += 1;
        if burst.len() > self.packets_max {
            // Its list would grow, and the operator may have promised for no more.
            burst.drop_all(Reason::JOB_FAILED);
            self.passed.push(burst);
            return;
        }
        let tag = self.idle.pop().expect("a flight for each burst");
        let flight = &mut self.flights[tag as usize];
        let mut job = flight.job.take().expect("an idle flight's job is at home");
        let mut items = take(&mut job.items).into_spans();
        let mut slots = match self.in_place {
            Some(_) => take(&mut job.slots).into_spans(),
            None => Vec::new(),
        };
        flight.notes.clear();
        for (i, Packet { frame, mark }) in (0..).zip(burst.iter_mut()) {
            if mark.dropped.is_some() {
                continue;
            }
            let mut note = P::Note::default();
            let packet = Packet {
                frame: &mut *frame,
                mark: &mut *mark,
            };
            match self.part.item(packet, &mut note) {
                Choice::Item { start, len, room } => {
                    items.push(Span { buf: i, start, len });
                    flight.notes.push(note);
                    if let Some(offset) = self.in_place {
                        let start = start.saturating_add(offset);
                        let len = room;
                        slots.push(Span { buf: i, start, len });
                    }
                }
                Choice::None => {}
                Choice::Drop(reason) => mark.dropped = Some(reason),
            }
        }
        let count = items.len() as u32;
        job.items = Items::Spans(items);
        job.slots = match self.in_place {
            Some(_) => Items::Spans(slots),
            None => Items::fixed(self.output_bytes, count),
        };
        if count == 0 {
            flight.job = Some(job);
            self.idle.push(tag);
            self.passed.push(burst);
            return;
        }
        let frames = Buffers::Many(take(&mut burst.packets));
        match self.in_place {
            Some(_) => job.dst = frames,
            None => job.src = Memory::Own(frames),
        }
        flight.burst = burst;
        self.ready.push_back(job);
    }

    /// Takes a job home.
    fn land(&mut self, Completion { mut job, result }: Completion) -> Burst {
        let tag = job.tag;
        let flight = &mut self.flights[tag as usize];
        let mut burst = take(&mut flight.burst);
        let frames = match self.in_place {
            Some(_) => take(&mut job.dst),
            None => match replace(&mut job.src, Memory::Output) {
                Memory::Own(frames) => frames,
                Memory::Shared(_) | Memory::Output => Buffers::default(),
            },
        };
        burst.packets = frames.into_vec();
        let Items::Spans(items) = take(&mut job.items) else {
            unreachable!("a stage's items are spans");
        };
        for (item, (span, note)) in items.iter().zip(&flight.notes).enumerate() {
            let packet = burst.packet(span.buf as usize);
            let output = match (result, self.in_place) {
                (Err(error), _) => Err(error),
                (Ok(()), Some(_)) => written(self.shape, &job, item).map(Output::Within),
                (Ok(()), None) => written(self.shape, &job, item).map(|len| {
                    let first = item * self.output_bytes as usize;
                    Output::Beside(&job.dst[0][first..first + len])
                }),
            };
            self.part.output(packet, *note, output);
        }
        job.items = Items::Spans(items);
        flight.job = Some(job);
        self.idle.push(tag as u32);
        burst
    }
}

/// Bytes that item `i` gave.
fn written(shape: OutputShape, job: &Job, i: usize) -> Result<usize, JobError> {
    match shape {
        OutputShape::Fixed(bytes) => Ok(bytes),
        OutputShape::Variable => job.outcomes[i].map(|len| len as usize),
    }
}

impl<P: Part> Stage for OffloadStage<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs_order(&self) -> bool {
        self.part.needs_order()
    }

    fn offer(&mut self, bursts: &mut VecDeque<Burst>) -> usize {
        let before = bursts.len();
        while !self.idle.is_empty()
            && let Some(burst) = bursts.pop_front()
        {
            self.send(burst);
        }
        self.queue.submit(&mut self.ready);
        before - bursts.len()
    }

    fn poll(&mut self, done: &mut Vec<Burst>) -> usize {
        let before = done.len();
        done.append(&mut self.passed);
        // What the queue had no room for.
        if !self.ready.is_empty() {
            self.queue.submit(&mut self.ready);
        }
        let mut completions = take(&mut self.completions);
        self.queue.poll(&mut completions);
        for completion in completions.drain(..) {
            done.push(self.land(completion));
        }
        self.completions = completions;
        let finished = done.len() - before;
        self.in_flight -= finished;
        finished
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl<P: Part> fmt::Debug for OffloadStage<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, in_flight, ..
        } = self;
        write!(
            f,
            "OffloadStage({name}: {}, {in_flight} in flight)",
            self.operator.spec()
        )
    }
}
