//! An operator that another machine has prepared.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::{
    ChangeError, Control, NotInPlace, OpSpec, Operator, OutputShape, Queue, SetupError, Unsupported,
};

use super::super::codec::{Reader, put_size};
use super::super::protocol::{
    CHANGES_BYTES_MAX, Facts, LENGTHS, Number, Refusal, Tag, read_changed,
};
use super::super::rings::Rings;
use super::Far;
use super::join::{Carrier, join};
use super::line::{Line, unsupported};
use super::queue::{Opened, RemoteQueue};

/// An operator of an agent.
pub(super) struct RemoteOperator {
    spec: OpSpec,
    facts: Facts,
    far: Far,
    address: String,
    /// The device of the transport that its queues have, if they have one.
    carrier: Option<Carrier>,
    handle: Arc<Handle>,
    /// The longest outputs that the agent has said, of lengths in a row from a first one on.
    lengths: Mutex<Vec<(usize, Vec<usize>)>>,
}

/// The operator at the agent, which forgets it when this is dropped.
struct Handle {
    line: Arc<Line>,
    number: Number,
}

/// Rows of lengths that are kept.
const ROWS_MAX: usize = 256;

impl RemoteOperator {
    pub(super) fn new(
        spec: OpSpec,
        facts: Facts,
        line: Arc<Line>,
        far: Far,
        address: String,
        carrier: Option<Carrier>,
    ) -> Self {
        let number = facts.number;
        Self {
            spec,
            facts,
            far,
            address,
            carrier,
            handle: Arc::new(Handle { line, number }),
            lengths: Mutex::default(),
        }
    }

    /// Opens the transport of a queue over `line`, if it is to have one.
    fn join(&self, line: &Line, depth: usize) -> Result<Option<Rings>, Refusal> {
        let (Some(beside), Some(known)) = (&self.far.beside, &self.carrier) else {
            return Ok(None);
        };
        let (rings, carrier) = join(line, &*beside.duplex, depth)?;
        match carrier == *known {
            true => Ok(Some(rings)),
            // What was said of the backend's evidence would not hold.
            false => Err(Unsupported {
                reason: format!(
                    "jobs would go by {} now, and not by {}: open the backend again",
                    carrier.name, known.name
                ),
            }
            .into()),
        }
    }

    /// Asks for a row of lengths.
    fn row(&self, first: usize) -> Result<Vec<usize>, Refusal> {
        let Handle { line, number } = &*self.handle;
        let mut question = number.to_vec();
        put_size(&mut question, first);
        let body = line.ask(Tag::AskLengths, &question, Tag::Lengths)?;
        let mut from = Reader::new(&body);
        let row = (0..LENGTHS).map(|_| from.size());
        let row = row.collect::<Result<Vec<_>, _>>()?;
        from.end()?;
        Ok(row)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.line.release(&self.number);
    }
}

impl Operator for RemoteOperator {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn shape(&self) -> OutputShape {
        self.facts.shape
    }

    /// As the agent says it, which is asked once for each 256 lengths in a row. If it cannot be asked, the item's own length. A queue that is
    /// open may carry jobs on then; an output that does not fit its slot is refused by itself.
    fn dst_len(&self, item_len: usize) -> usize {
        if let OutputShape::Fixed(bytes) = self.facts.shape {
            return bytes;
        }
        let at = item_len % LENGTHS;
        let first = item_len - at;
        let mut lengths = self.lengths.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, row)) = lengths.iter().find(|(known, _)| *known == first) {
            return row[at];
        }
        let Ok(row) = self.row(first) else {
            return item_len;
        };
        let len = row[at];
        if lengths.len() >= ROWS_MAX {
            lengths.clear();
        }
        lengths.push((first, row));
        len
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        self.facts.in_place.clone()
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        let has_control = self.facts.has_control;
        has_control.then(|| Arc::new(RemoteControl(self.handle.clone())) as Arc<dyn Control>)
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        let limits = self.facts.limits;
        if depth > limits.depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: limits.depth_max.get(),
            });
        }
        let failed = |refusal| match refusal {
            Refusal::Setup(why) => why,
            fatal => SetupError::Unsupported(unsupported(&self.address, fatal)),
        };
        let line = Line::connect(&self.far, &self.address);
        let line = line.map_err(|why| failed(Refusal::Fatal(why)))?;
        let rings = self.join(&line, depth.get() as usize).map_err(failed)?;
        let mut question = self.handle.number.to_vec();
        question.extend(depth.get().to_le_bytes());
        let body = line
            .ask(Tag::Open, &question, Tag::Opened)
            .map_err(failed)?;
        let mut from = Reader::new(&body);
        let window = from.size().and_then(|window| from.end().map(|()| window));
        let opened = Opened {
            shape: self.facts.shape,
            limits,
            output_bytes_max: self.facts.output_bytes_max,
            in_place: self.facts.in_place.as_ref().ok().copied(),
            window_bytes: window.map_err(|why| failed(why.into()))?,
            item_cost_ns: self.spec.cost_bytes() as u64,
            clock: self.far.clock.clone(),
            patience: self.far.patience,
        };
        let queue = RemoteQueue::new(line.into_talk(), rings, opened, depth, self.clone());
        let queue = queue.map_err(|error| failed(Refusal::Fatal(error.to_string())))?;
        Ok(Box::new(queue))
    }
}

/// The table at the agent.
struct RemoteControl(Arc<Handle>);

impl RemoteControl {
    fn ask(&self, tag: Tag, rest: &[u8]) -> Result<u64, ChangeError> {
        let Handle { line, number } = &*self.0;
        let question = [number, rest].concat();
        let body = line.ask(tag, &question, Tag::Changed);
        let body = body.map_err(|_| ChangeError::Device(gone()))?;
        let changed = read_changed(&body);
        changed.unwrap_or(Err(ChangeError::Device(gone())))
    }
}

impl Control for RemoteControl {
    fn change(&self, changes: &[u8]) -> Result<(), ChangeError> {
        if changes.len() > CHANGES_BYTES_MAX {
            let too_long = rustix::io::Errno::MSGSIZE.raw_os_error();
            return Err(ChangeError::Device(-too_long));
        }
        self.ask(Tag::Change, changes).map(drop)
    }

    fn commit(&self) -> Result<u64, ChangeError> {
        self.ask(Tag::Commit, &[])
    }
}

/// The code of an agent that is gone.
fn gone() -> i32 {
    -rustix::io::Errno::CONNRESET.raw_os_error()
}
