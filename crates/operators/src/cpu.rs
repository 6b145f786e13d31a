//! CPU backends: one for each code path, `cpu/best`, and `pool/N`, which runs the best path on N threads that all queues share.

mod families;

pub use families::{CpuPaths, Pools};

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::{
    Backend, Buf, Clock, Families, Limits, OpSpec, Operator, Properties, SetupError, StageByStage,
    Unsupported, WallClock,
};

pub use crate::direct::Lift;
use crate::entry::Entry;
pub use crate::implementation::{Implementation, OwnPath};
use crate::registry::Operators;

/// The family `cpu` with dpb's operators, for a program that lists it among others.
pub static CPU: CpuPaths = CpuPaths::new(Operators::DPB);
/// The family `pool` with dpb's operators.
pub static POOLS: Pools = Pools::new(Operators::DPB);
/// The families of this module.
pub static FAMILIES: Families = Families::new(&[&CPU, &POOLS]);

/// A backend on this machine's CPU. It has no chains of operators of its own: [`FAMILIES`] and [`StageByStage`] run them on it stage by
/// stage.
pub struct Cpu {
    name: String,
    /// `None`: the best there is for each operator.
    path: Option<Implementation>,
    lift: Lift,
    operators: Operators,
    clock: WallClock,
}

/// Every backend of this module, found or not on this machine: all paths, `cpu/best`, and `pool/N` for all CPUs.
pub fn backends() -> Vec<Cpu> {
    let mut backends: Vec<_> = Implementation::ALL.iter().copied().map(Cpu::on).collect();
    backends.push(Cpu::best());
    backends.push(Cpu::pool(cores()));
    backends
}

/// The backend `cpu/best` with chains, from which models take their results.
pub fn best() -> Box<dyn Backend> {
    with_chains(Cpu::best())
}

/// `cpu` with chains of its operators.
pub fn with_chains(cpu: Cpu) -> Box<dyn Backend> {
    Box::new(StageByStage::new(Arc::new(cpu) as Arc<dyn Backend>))
}

/// Cores that this process may use.
fn cores() -> NonZeroU32 {
    std::thread::available_parallelism()
        .map_or(NonZeroU32::MIN, |n| n.try_into().unwrap_or(NonZeroU32::MAX))
}

impl Cpu {
    /// The best path for each operator, on the caller's thread.
    pub fn best() -> Self {
        Self::new("cpu/best".to_owned(), None, Lift::Inline)
    }

    /// One path, whether this CPU has it or not.
    pub fn on(path: Implementation) -> Self {
        Self::new(format!("cpu/{path}"), Some(path), Lift::Inline)
    }

    /// The best path for each operator, on the `threads` workers that this process has for all such queues ([`Pool::shared`](dpb_core::Pool::shared)).
    pub fn pool(threads: NonZeroU32) -> Self {
        Self::new(format!("pool/{threads}"), None, Lift::Pooled(threads))
    }

    /// The same with these operators instead of dpb's.
    pub fn with_operators(mut self, operators: Operators) -> Self {
        self.operators = operators;
        self
    }

    fn new(name: String, path: Option<Implementation>, lift: Lift) -> Self {
        Self {
            name,
            path,
            lift,
            operators: Operators::DPB,
            clock: WallClock::default(),
        }
    }

    /// The path that `spec`, one of `entry`, takes here: what `cpu/best` and `pool/N` stand for on this machine.
    ///
    /// # Errors
    /// Why there is none.
    pub fn path(&self, entry: &Entry, spec: &OpSpec) -> Result<Implementation, Unsupported> {
        let path = self.path.unwrap_or_else(|| {
            let mut paths = entry.paths_of(spec);
            let best = paths.find(|path| path.is_candidate());
            best.unwrap_or(Implementation::Portable)
        });
        if entry.paths.contains(&path) && path.is_available() {
            entry.admit(spec, path).map(|()| path)
        } else {
            Err(path.reason(entry.name, entry.paths))
        }
    }

    /// The path that `spec`, one of `entry`, takes here.
    fn admit(&self, entry: &Entry, spec: &OpSpec) -> Result<Implementation, Unsupported> {
        if let Lift::Pooled(_) = self.lift
            && (entry.keeps_state)(spec)
        {
            let reason = format!(
                "{spec} needs the jobs of a queue in their order, and has no order on the workers of a pool"
            );
            return Err(Unsupported { reason });
        }
        self.path(entry, spec)
    }

    /// The best code that computes `entry` here, with its version, and before it the code for some of its specs alone: `level=1..3 on isa-l,
    /// isa-l 2.0.30; libdeflate, libdeflater 1.26.1`.
    pub fn codes_of(entry: &Entry) -> Option<String> {
        let mut codes = Vec::new();
        for path in entry.paths.iter().filter(|path| path.is_candidate()) {
            let code = format!("{path}, {}", entry.code(*path));
            match entry.specs_of(*path) {
                Some(specs) => codes.push(format!("{specs} on {code}")),
                None => {
                    codes.push(code);
                    return Some(codes.join("; "));
                }
            }
        }
        None
    }
}

impl Backend for Cpu {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn properties(&self) -> Properties {
        match self.lift {
            Lift::Inline => Properties::of_this_cpu(),
            Lift::Pooled(threads) => Properties::of_workers(threads),
        }
    }

    fn code(&self, spec: &OpSpec) -> Option<String> {
        let entry = self.operators.of(spec).ok()?;
        let path = self.path(entry, spec).ok()?;
        Some(format!("{path}, {}", entry.code(path)))
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        let entry = self.operators.of(spec)?;
        self.admit(entry, spec).map(|_| self.lift.limits())
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let entry = self.operators.of(spec).map_err(SetupError::Unsupported)?;
        let path = self.admit(entry, spec).map_err(SetupError::Unsupported)?;
        (entry.kernel)(spec, path)?.lift(self.lift, spec)
    }
}

impl fmt::Debug for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cpu")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
