//! The kinds of work that are injected, and how fast a core does each alone.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use dpb_core::random::SplitMix64;
use dpb_core::{Buf, Clock, Operator, SetupError, Span, Stage, StageError, View};

/// Work that a core can do beside its packets, in units that cost the same each.
pub trait Work {
    /// The name of the kind, as records have it.
    fn name(&self) -> &str;

    /// Does `units` units.
    ///
    /// # Errors
    /// [`WorkError`], if an operator did not do its part.
    fn run(&mut self, units: u64) -> Result<(), WorkError>;
}

/// Why work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The operator's job came to nothing.
    #[error("the injected operator: {0}")]
    Operator(StageError),
    /// An item was refused.
    #[error("the injected operator refused an item: {0}")]
    Item(dpb_core::JobError),
}

/// Arithmetic, each step of which waits for the one before: a unit is one step of a linear congruential generator, a multiplication and an
/// addition of 64 bits. It needs no memory, so it shows the time in which a core has nothing to compute.
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic {
    state: u64,
}

/// Knuth's constants for 64 bits ("The Art of Computer Programming", volume 2, 3.3.4, MMIX).
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

impl Arithmetic {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// What was computed.
    pub fn state(&self) -> u64 {
        self.state
    }
}

impl Work for Arithmetic {
    fn name(&self) -> &str {
        "arithmetic"
    }

    fn run(&mut self, units: u64) -> Result<(), WorkError> {
        let mut state = self.state;
        for _ in 0..units {
            // Otherwise a compiler may take several steps at once.
            state = black_box(state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT));
        }
        self.state = state;
        Ok(())
    }
}

/// A walk through memory, each step of which waits for the one before: a unit is one read of a cache line, in a random cycle through all lines
/// of a buffer. It takes cache from the packets, and memory's time.
#[derive(Debug)]
pub struct Walk {
    lines: Vec<Line>,
    at: u32,
}

/// A cache line that says which is the next.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(u32);

/// Why there is no walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// Less than two lines, or more than can be numbered.
    #[error("a walk goes through 128 bytes at least and 256 GiB at most, not {0}")]
    Size(usize),
}

/// Bytes of a line.
const LINE_BYTES: usize = size_of::<Line>();

impl Walk {
    /// Through a buffer of `bytes`, a multiple of 64 or what is below it, in an order that `seed` gives.
    ///
    /// # Errors
    /// [`WalkError`].
    pub fn new(bytes: usize, seed: u64) -> Result<Self, WalkError> {
        let count = bytes / LINE_BYTES;
        let Some(last) = u32::try_from(count)
            .ok()
            .and_then(|count| count.checked_sub(1))
            .filter(|last| *last > 0)
        else {
            return Err(WalkError::Size(bytes));
        };
        // Sattolo's shuffle of the identity: one cycle through all lines.
        let mut random = SplitMix64::new(seed);
        let mut lines: Vec<Line> = (0..=last).map(Line).collect();
        for i in (1..count).rev() {
            lines.swap(i, random.below(i));
        }
        Ok(Self { lines, at: 0 })
    }

    /// The line that the next step begins at.
    pub fn at(&self) -> u32 {
        self.at
    }
}

impl Work for Walk {
    fn name(&self) -> &str {
        "memory"
    }

    fn run(&mut self, units: u64) -> Result<(), WorkError> {
        let mut at = self.at;
        for _ in 0..units {
            at = self.lines[at as usize].0;
        }
        self.at = at;
        Ok(())
    }
}

/// An operator's items: a unit is one item. What would really be moved to the core.
pub struct Computed {
    name: String,
    stage: Stage,
    memory: View,
    items: Vec<Span>,
}

impl Computed {
    /// Items of `operator` that lie in `bytes`, given to it up to `batch` at once. `alloc` gives memory that its backend reaches, as
    /// [`Backend::alloc`](dpb_core::Backend::alloc). `slot_bytes` is for an operator whose outputs vary in length.
    ///
    /// # Errors
    /// If there is no item, no memory, or no queue.
    pub fn new(
        operator: Arc<dyn Operator>,
        bytes: &[u8],
        items: Vec<Span>,
        slot_bytes: u32,
        alloc: impl Fn(usize) -> Result<Buf, SetupError>,
    ) -> Result<Self, SetupError> {
        if items.is_empty() {
            let why = "injected work of an operator has at least one item".to_owned();
            return Err(SetupError::Parameter(why));
        }
        let mut memory = alloc(bytes.len())?;
        memory[..bytes.len()].copy_from_slice(bytes);
        Ok(Self {
            name: operator.spec().to_string(),
            stage: Stage::new(operator, items.len(), slot_bytes, alloc)?,
            memory: memory.freeze(),
            items,
        })
    }
}

impl Work for Computed {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, units: u64) -> Result<(), WorkError> {
        let mut left = units;
        while left > 0 {
            let batch = self
                .items
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            let ran = self.stage.run(&self.memory, &self.items[..batch]);
            let outputs = ran.map_err(WorkError::Operator)?;
            for output in outputs.iter() {
                black_box(output.map_err(WorkError::Item)?);
            }
            left -= batch as u64;
        }
        Ok(())
    }
}

impl fmt::Debug for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Computed")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// How fast a core does a kind of work when it does nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Nanoseconds of a unit: of the shortest of several runs.
    pub ns_per_unit: f64,
}

/// Units of the first run; doubled until a run is long enough.
const UNITS_FIRST: u64 = 16;
/// The number of runs of which the shortest counts: whatever disturbs a run makes it longer, and work that seems slower than it is leaves more cores free than there are.
const RUNS: usize = 25;

impl Speed {
    /// Measures `work` alone on the calling thread, each run for `run_ns` at least.
    ///
    /// # Errors
    /// That of the work.
    pub fn alone(work: &mut dyn Work, clock: &dyn Clock, run_ns: u64) -> Result<Self, WorkError> {
        let mut timed = |units: u64| {
            let began = clock.now_ns();
            work.run(units)?;
            Ok(clock.now_ns() - began)
        };
        let mut units = UNITS_FIRST;
        while timed(units)? < run_ns.max(1) {
            units *= 2;
        }
        let mut least = u64::MAX;
        for _ in 0..RUNS {
            least = least.min(timed(units)?);
        }
        Ok(Self {
            ns_per_unit: least as f64 / units as f64,
        })
    }

    /// Units that take `ns` alone.
    pub fn units(&self, ns: f64) -> f64 {
        ns / self.ns_per_unit
    }
}
