//! Lookups behind dpb's seam: keys in, values out, over an index that writers change meanwhile.
//!
//! The index is shared state. A queue has a session of its own, and a job reads one state of the index, the newest when it begins.
//!
//! * Item: a key, of any length. Keys of eight bytes that lie side by side have the fast path, and keys that lie one behind another are read in place.
//! * Output: nothing if the index has no such key; else a byte 1, then the value. An output has up to 1 + [`Lookup::value_room`] bytes, and an item whose value is
//!   longer, or whose slot is shorter, is refused as [`JobError::DstTooShort`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use dpb_core::{Backend, OpSpec};
//! use dpb_dbmods::index::operator::{Lookup, own_cores};
//! use dpb_dbmods::index::{Index, Tree, TreeOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let index: Arc<dyn Index> = Arc::new(Tree::new(TreeOptions::default())?);
//! index.put(b"key", b"value")?;
//! let operator = own_cores().prepare(&OpSpec::from(Lookup::new(index, 8)))?;
//! assert_eq!(operator.dst_len(3), 9);
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::lift::OneKernel;
use dpb_core::{
    Backend, Batch, BatchOut, JobError, Kernel, Limits, OutputShape, ParameterValue, Spec,
};

use super::{Found, Index, Keys, Session, VALUE_BYTES_MAX, Values};

/// The name of the operator.
pub const NAME: &str = "lookup";

/// The byte before a value.
const HEAD: usize = 1;
/// `EIO`: what a job's error says of an index that cannot be read.
const UNREADABLE: i32 = 5;
/// `EBUSY`: what a job's error says of an index whose sessions are all open.
const NO_SESSION: i32 = 16;

/// Lookups in an index: the spec of the operator `lookup`. Specs are equal if they are of the same index and room.
#[derive(Clone)]
pub struct Lookup {
    index: Arc<dyn Index>,
    value_room: usize,
}

impl Lookup {
    /// Lookups in `index` of values of up to `value_room` bytes.
    pub fn new(index: Arc<dyn Index>, value_room: usize) -> Self {
        Self {
            index,
            value_room: value_room.min(VALUE_BYTES_MAX),
        }
    }

    /// The index.
    pub fn index(&self) -> &Arc<dyn Index> {
        &self.index
    }

    /// Bytes of the longest value that is given.
    pub fn value_room(&self) -> usize {
        self.value_room
    }

    /// The address of the index: what it is told apart by.
    fn identity(&self) -> usize {
        Arc::as_ptr(&self.index).addr()
    }
}

impl Spec for Lookup {
    fn name(&self) -> &str {
        NAME
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        vec![
            ("engine", self.index.name().into()),
            ("value_room", (self.value_room as i64).into()),
        ]
    }
}

impl PartialEq for Lookup {
    fn eq(&self, other: &Self) -> bool {
        (self.identity(), self.value_room) == (other.identity(), other.value_room)
    }
}

impl Eq for Lookup {}

impl Hash for Lookup {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.identity(), self.value_room).hash(state);
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup")
            .field("engine", &self.index.name())
            .field("value_room", &self.value_room)
            .finish()
    }
}

/// A [`Lookup`] made ready.
#[derive(Debug)]
pub struct LookupKernel(Lookup);

/// The memory with which a thread looks keys up.
pub struct Scratch {
    /// `None` if the index had no session left when the queue was opened.
    session: Option<Box<dyn Session>>,
    keys: Vec<u8>,
    offsets: Vec<u32>,
    values: Vec<u8>,
    found: Vec<Found>,
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("keys", &self.found.len())
            .finish_non_exhaustive()
    }
}

impl Kernel for LookupKernel {
    type Scratch = Scratch;

    fn scratch(&self) -> Scratch {
        Scratch {
            session: Arc::clone(&self.0.index).session().ok(),
            keys: Vec::new(),
            offsets: Vec::new(),
            values: Vec::new(),
            found: Vec::new(),
        }
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, _: usize) -> usize {
        HEAD + self.0.value_room
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), JobError> {
        let room = self.0.value_room;
        let Scratch {
            session,
            keys,
            offsets,
            values,
            found,
        } = scratch;
        if session.is_none() {
            *session = Arc::clone(&self.0.index).session().ok();
        }
        let session = session.as_mut().ok_or(JobError::Device(NO_SESSION))?;
        found.clear();
        found.resize(batch.len(), Found::Absent);
        // Room that a larger batch needed stays; the values of a batch are only read where it found them.
        if values.len() < room * batch.len() {
            values.resize(room * batch.len(), 0);
        }
        let mut into = Values::new(values, room, found).map_err(|_| JobError::BadItems)?;
        let looked_up = session.get_batch(keys_of(batch, keys, offsets), &mut into);
        looked_up.map_err(|_| JobError::Device(UNREADABLE))?;
        let mut at = 0;
        out.each_outcome(batch, |_, slot| {
            let value = &values[room * at..];
            let found = found[at];
            at += 1;
            let Found::Whole(len) = found else {
                return match found {
                    Found::Cut(_) => Err(JobError::DstTooShort),
                    _ => Ok(0),
                };
            };
            let output = slot
                .get_mut(..HEAD + len as usize)
                .ok_or(JobError::DstTooShort)?;
            output[0] = 1;
            output[HEAD..].copy_from_slice(&value[..len as usize]);
            Ok(HEAD as u32 + len)
        });
        Ok(())
    }
}

/// The keys of a batch, where they lie if they lie well, else copied one behind another.
fn keys_of<'a>(batch: Batch<'a>, keys: &'a mut Vec<u8>, offsets: &'a mut Vec<u32>) -> Keys<'a> {
    if let Some((bytes, 8)) = batch.contiguous() {
        return Keys::Eight(bytes.as_chunks().0);
    }
    if let Some((bytes, offsets)) = batch.offsets() {
        return Keys::Offsets { bytes, offsets };
    }
    keys.clear();
    offsets.clear();
    offsets.push(0);
    for key in batch.iter() {
        keys.extend_from_slice(key);
        offsets.push(keys.len() as u32);
    }
    Keys::Offsets {
        bytes: keys,
        offsets,
    }
}

/// Lookups on the cores of whoever submits. The only operator is [`Lookup`], and a queue takes any number of jobs.
pub fn own_cores() -> impl Backend {
    OneKernel::of_operator("cpu", NAME, |lookup: &Lookup| {
        Ok(LookupKernel(lookup.clone()))
    })
    .with_limits(Limits::new(NonZeroU32::MAX))
}

/// Lookups on `workers` threads of this process.
pub fn pool(workers: NonZeroU32) -> impl Backend {
    OneKernel::of_operator("pool", NAME, |lookup: &Lookup| {
        Ok(LookupKernel(lookup.clone()))
    })
    .on_workers(workers)
}
