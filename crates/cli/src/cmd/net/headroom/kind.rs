//! The kinds of injected work: arithmetic, walking through memory, and any operator.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dpb_core::measure::Value;
use dpb_core::{Backend, Buf, Input, Operator, SetupError, Span, Stage};
use dpb_net::headroom::{Arithmetic, Computed, Walk, Work, WorkError};
use dpb_operators::registry::{Case, Entry};

use crate::Globals;
use crate::args::{self, List};
use crate::exit::Failure;

/// An operator's items lie in so much memory: they stay in a core's own cache, so that the operator is what is measured.
const ITEMS_BYTES: u64 = 64 << 10;

/// A kind of work, as a command line names it.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Steps of a generator of numbers, each of which waits for the one before.
    Arithmetic,
    /// Reads of cache lines, likewise.
    Memory,
    /// Items of an operator.
    Operator {
        /// As it was written.
        text: String,
        entry: &'static Entry,
        case: Case,
    },
}

/// Names with commas between them. Commas of an operator's own parameters are told by what follows them: `aes-gcm:bits=256,sessions=4,memory` is two names.
///
/// # Errors
/// If a name is missing beside a comma.
pub(super) fn names(text: &str) -> Result<List<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for word in args::words(text)?.0 {
        match names.last_mut() {
            Some(last) if word.contains('=') && !word.contains(':') => {
                last.push(',');
                last.push_str(&word);
            }
            _ => names.push(word),
        }
    }
    Ok(List(names))
}

impl Kind {
    /// The kind of this name.
    ///
    /// # Errors
    /// Wrong usage: there is no such operator, or not with these parameters.
    pub(super) fn of(text: &str, globals: &Globals) -> Result<Self, Failure> {
        match text {
            "arithmetic" => return Ok(Self::Arithmetic),
            "memory" => return Ok(Self::Memory),
            _ => {}
        }
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let entry = globals.operators.find(name).ok_or_else(|| {
            Failure::usage(format!(
                "--kind {text}: there are arithmetic, memory, and the operators (see `dpb list`), as aes-gcm or aes-gcm:bits=256"
            ))
        })?;
        let case = entry.case(parameters);
        let case = case.map_err(|error| Failure::usage(format!("--kind {text}: {error}")))?;
        Ok(Self::Operator {
            text: text.to_owned(),
            entry,
            case,
        })
    }

    /// The operation `arithmetic` of `dpb op` is an operator too; the kind of that name is a chain.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Memory => "memory",
            Self::Operator { text, .. } => text,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The maker of a kind's work, on whichever thread does it.
#[derive(Clone)]
pub(super) enum Maker {
    Arithmetic,
    Memory { bytes: usize },
    Operator(Arc<Prepared>),
}

/// Why there is no work of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoWork {
    /// It is not available here.
    Absent(String),
    /// An output is wrong.
    Wrong(String),
}

/// An operator with items that it was checked on.
pub(super) struct Prepared {
    backend: Box<dyn Backend>,
    operator: Arc<dyn Operator>,
    bytes: Vec<u8>,
    items: Vec<Span>,
    slot_bytes: u32,
    /// Items whose output was right.
    pub(super) checked: u64,
    /// The spec with all its parameters.
    pub(super) spec: String,
}

/// How work is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes<'a> {
    /// Bytes that a walk goes through.
    pub(super) buffer: u64,
    /// Bytes that an operator's item carries.
    pub(super) item: u64,
    /// The operator's backend.
    pub(super) backend: &'a str,
    pub(super) seed: u64,
}

impl Maker {
    /// Of a kind. An operator's items are checked here, before anything is timed.
    ///
    /// # Errors
    /// [`NoWork`].
    pub(super) fn new(kind: &Kind, sizes: Sizes<'_>, globals: &Globals) -> Result<Self, NoWork> {
        match kind {
            Kind::Arithmetic => Ok(Self::Arithmetic),
            Kind::Memory => Ok(Self::Memory {
                bytes: usize::try_from(sizes.buffer).unwrap_or(usize::MAX),
            }),
            Kind::Operator { entry, case, .. } => {
                let prepared = Prepared::new(entry, case, sizes, globals)?;
                Ok(Self::Operator(Arc::new(prepared)))
            }
        }
    }

    /// The work, for the thread that calls. Each has memory and a queue of its own.
    ///
    /// # Errors
    /// There is no memory, or no queue.
    pub(super) fn make(&self, seed: u64) -> Result<Box<dyn Work>, SetupError> {
        Ok(match self {
            Self::Arithmetic => Box::new(Arithmetic::new(seed)),
            Self::Memory { bytes } => {
                let walk = Walk::new(*bytes, seed);
                Box::new(walk.map_err(|error| SetupError::Parameter(error.to_string()))?)
            }
            Self::Operator(prepared) => {
                let Prepared {
                    backend,
                    operator,
                    bytes,
                    items,
                    slot_bytes,
                    ..
                } = &**prepared;
                let alloc = |len| backend.alloc(len);
                let operator = Arc::clone(operator);
                Box::new(Computed::new(
                    operator,
                    bytes,
                    items.clone(),
                    *slot_bytes,
                    alloc,
                )?)
            }
        })
    }

    /// The operator, if it is one.
    pub(super) fn operator(&self) -> Option<&Prepared> {
        match self {
            Self::Operator(prepared) => Some(prepared),
            Self::Arithmetic | Self::Memory { .. } => None,
        }
    }
}

impl Prepared {
    fn new(
        entry: &Entry,
        case: &Case,
        sizes: Sizes<'_>,
        globals: &Globals,
    ) -> Result<Self, NoWork> {
        let absent = NoWork::Absent;
        let backend = globals.families.open(sizes.backend);
        let backend = backend.map_err(|error| absent(error.to_string()))?;
        let operator = backend.prepare(&case.spec);
        let operator = operator.map_err(|error| absent(error.to_string()))?;
        let workload = entry.workload(case);
        let workload = workload.map_err(|error| absent(error.to_string()))?;
        let cost = sizes.item + workload.cost_bytes() as u64;
        let count = (ITEMS_BYTES / cost.max(1)).clamp(1, 64) as usize;
        let input =
            Input::of(&*workload, sizes.seed, sizes.item as usize, count).map_err(absent)?;
        let batch = input.batch().map_err(|error| absent(error.to_string()))?;
        let mut start = 0;
        let mut spans = Vec::with_capacity(count);
        let mut bytes = Vec::new();
        for i in 0..batch.len() {
            let item = batch.item(i);
            bytes.extend_from_slice(item);
            let len = item.len() as u32;
            spans.push(Span { buf: 0, start, len });
            start += len;
        }
        let longest = spans
            .iter()
            .map(|span| span.len as usize)
            .max()
            .unwrap_or(0);
        let slot_bytes = input
            .slot_bytes
            .unwrap_or_else(|| operator.dst_len(longest));
        let slot_bytes = u32::try_from(slot_bytes)
            .map_err(|_| absent(format!("an output of {slot_bytes} bytes")))?;
        let mut prepared = Self {
            spec: written(entry, case),
            backend,
            operator,
            bytes,
            items: spans,
            slot_bytes,
            checked: 0,
        };
        let outputs = prepared.outputs().map_err(absent)?;
        for (span, output) in prepared.items.iter().zip(outputs) {
            let item = &prepared.bytes[span.start as usize..][..span.len as usize];
            let output = output
                .as_ref()
                .map(|bytes| &bytes[..])
                .map_err(|error| *error);
            let right = workload.check(item, output, slot_bytes as usize);
            right.map_err(|why| {
                NoWork::Wrong(format!("{} on {}: {why}", case.spec, sizes.backend))
            })?;
            prepared.checked += 1;
        }
        Ok(prepared)
    }

    /// The output of each item.
    fn outputs(&self) -> Result<Vec<Result<Vec<u8>, dpb_core::JobError>>, String> {
        let alloc = |len: usize| -> Result<Buf, SetupError> { self.backend.alloc(len) };
        let said = |error: SetupError| error.to_string();
        let mut memory = alloc(self.bytes.len()).map_err(said)?;
        memory[..self.bytes.len()].copy_from_slice(&self.bytes);
        let operator = Arc::clone(&self.operator);
        let stage = Stage::new(operator, self.items.len(), self.slot_bytes, alloc);
        let mut stage = stage.map_err(said)?;
        let outputs = stage.run(&memory.freeze(), &self.items);
        let outputs = outputs.map_err(|error| error.to_string())?;
        Ok(outputs
            .iter()
            .map(|output| output.map(<[u8]>::to_vec))
            .collect())
    }
}

/// The operator with all of its parameters, in the form that `--kind` takes but for materials, which are told apart by a digest.
fn written(entry: &Entry, case: &Case) -> String {
    let parameters = case.parameters().into_iter();
    let parameters: Vec<String> = parameters
        .map(|(name, value)| format!("{name}={}", Value::from(value)))
        .collect();
    match parameters.is_empty() {
        true => entry.name.to_owned(),
        false => format!("{}:{}", entry.name, parameters.join(",")),
    }
}

/// One of several kinds of work, as a selector says that all threads share.
pub(super) struct Chosen {
    pub(super) works: Vec<Box<dyn Work>>,
    pub(super) selector: Arc<AtomicUsize>,
}

impl Work for Chosen {
    fn name(&self) -> &str {
        self.works[self.selector.load(Ordering::Relaxed)].name()
    }

    fn run(&mut self, units: u64) -> Result<(), WorkError> {
        self.works[self.selector.load(Ordering::Relaxed)].run(units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operators_commas_are_its_own() {
        let names =
            names("arithmetic,aes-gcm:bits=256,sessions=4,memory,crc32c").expect("four names");
        assert_eq!(
            names.0,
            [
                "arithmetic",
                "aes-gcm:bits=256,sessions=4",
                "memory",
                "crc32c"
            ]
        );
    }
}
