//! CPU backends: one for each code path, `cpu/best`, and `pool/N`, which runs the best path on N threads that all queues share.

mod families;

pub use families::{CpuPaths, Pools};

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::lift::{Inline, Pool, Pooled};
use dpb_core::{
    Backend, Buf, Chain, Clock, Families, Kernel, Limits, OpSpec, Operator, Properties, SetupError,
    Unsupported, WallClock, spec,
};

use crate::isa;
use crate::registry::{Entry, Operators};
#[cfg(feature = "rxpmatch")]
use crate::security::rxpmatch::Hyperscan;

/// [`Path`] and its lists from one table.
macro_rules! paths {
    ($($(#[$doc:meta])* $path:ident = $name:literal needs $needs:tt),+ $(,)?) => {
        /// How an operator is computed on a CPU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Path {
            $($(#[$doc])* $path,)+
        }

        impl Path {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$path),+];

            /// As in a backend's name, after `cpu/`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$path => $name,)+
                }
            }

            /// What the CPU must have for it, or this crate be built with.
            pub fn needs(self) -> &'static str {
                match self {
                    $(Self::$path => paths!(@needs $needs),)+
                }
            }

            /// Whether this CPU has it, and this build.
            pub fn is_available(self) -> bool {
                match self {
                    $(Self::$path => paths!(@has $needs),)+
                }
            }
        }
    };
    (@needs _) => { "any CPU" };
    (@needs ($token:ty)) => { <$token>::NEEDS };
    (@has ($token:ty)) => { <$token>::detect().is_some() };
    (@needs $token:ident) => { isa::$token::NEEDS };
    (@needs $feature:literal) => { concat!("dpb-operators with its feature `", $feature, "`") };
    (@has _) => { true };
    (@has $feature:literal) => { cfg!(feature = $feature) };
    (@has $token:ident) => { isa::$token::detect().is_some() };
}

paths! {
    /// Without any instruction set of its own: the oracle.
    Portable = "portable" needs _,
    /// Without any instruction set of its own either, but written for speed: tables, and many chains at once.
    Tables = "tables" needs _,
    /// Without any instruction set of its own: values held in registers, of which the compiler knows nothing.
    Registers = "registers" needs _,
    /// See [`isa::Sse42`].
    Sse42 = "sse4.2" needs Sse42,
    /// See [`isa::Bmi2`].
    Bmi2 = "bmi2" needs Bmi2,
    /// See [`isa::Avx2`].
    Avx2 = "avx2" needs Avx2,
    /// See [`isa::Avx512`].
    Avx512 = "avx512" needs Avx512,
    /// See [`isa::Avx512Vnni`].
    Avx512Vnni = "avx512-vnni" needs Avx512Vnni,
    /// See [`isa::Gfni`].
    Gfni = "gfni" needs Gfni,
    /// See [`isa::ShaNi`].
    ShaNi = "sha-ni" needs ShaNi,
    /// See [`isa::Vaes`].
    Vaes = "vaes" needs Vaes,
    /// See [`isa::Neon`].
    Neon = "neon" needs Neon,
    /// See [`isa::ArmCrc`].
    ArmCrc = "arm-crc" needs ArmCrc,
    /// See [`isa::ArmAes`].
    ArmAes = "arm-aes" needs ArmAes,
    /// See [`isa::ArmSha2`].
    ArmSha2 = "arm-sha2" needs ArmSha2,
    /// The C library, which chooses its instruction sets itself.
    Libc = "libc" needs _,
    /// The library AWS-LC, which chooses its instruction sets itself.
    AwsLc = "aws-lc" needs "aws-lc",
    /// The library libdeflate, which chooses its instruction sets itself.
    Libdeflate = "libdeflate" needs "deflate",
    /// The library lz4_flex.
    Lz4Flex = "lz4_flex" needs "lz4",
    /// The library snap.
    Snap = "snap" needs "snappy",
    /// The library Hyperscan, or Vectorscan, which chooses its instruction sets itself; found at run time.
    Hyperscan = "hyperscan" needs (Hyperscan),
}

/// What stands for the library where no operator uses it.
#[cfg(not(feature = "rxpmatch"))]
enum Hyperscan {}

#[cfg(not(feature = "rxpmatch"))]
impl Hyperscan {
    const NEEDS: &'static str = "dpb-operators with its feature `rxpmatch`";

    fn detect() -> Option<Self> {
        None
    }
}

/// The families of this module.
pub const FAMILIES: Families =
    Families::new(&[&CpuPaths::new(Operators::DPB), &Pools::new(Operators::DPB)]);

/// A backend on this machine's CPU.
pub struct Cpu {
    name: String,
    /// `None`: the best there is for each operator.
    path: Option<Path>,
    lift: Lift,
    operators: Operators,
    clock: WallClock,
}

/// Whose threads a kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lift {
    /// The caller's.
    Inline,
    /// The workers of the process, so many.
    Pooled(NonZeroU32),
}

/// Every backend of this module, found or not on this machine: all paths, `cpu/best`, and `pool/N` for all CPUs.
pub fn backends() -> Vec<Cpu> {
    let mut backends: Vec<_> = Path::ALL.iter().copied().map(Cpu::on).collect();
    backends.push(Cpu::best());
    backends.push(Cpu::pool(cores()));
    backends
}

/// Cores that this process may use.
fn cores() -> NonZeroU32 {
    std::thread::available_parallelism()
        .map_or(NonZeroU32::MIN, |n| n.try_into().unwrap_or(NonZeroU32::MAX))
}

impl Path {
    /// The first of `paths`, sorted best first, that this CPU has.
    pub(crate) fn best(paths: &[Self]) -> Self {
        paths
            .iter()
            .copied()
            .find(|path| path.is_available())
            .unwrap_or(Self::Portable)
    }

    /// This path, if it is one of `operator`'s `paths`, which need nothing of the CPU.
    ///
    /// # Errors
    /// If it is not.
    pub fn among(self, operator: &str, paths: &[Self]) -> Result<Self, SetupError> {
        let is_there = paths.contains(&self);
        is_there
            .then_some(self)
            .ok_or_else(|| self.missing(operator, paths))
    }

    /// Why `operator`, which has `paths`, does not run on this one here.
    pub(crate) fn missing(self, operator: &str, paths: &[Self]) -> SetupError {
        SetupError::Unsupported(self.reason(operator, paths))
    }

    fn reason(self, operator: &str, paths: &[Self]) -> Unsupported {
        let reason = if paths.contains(&self) {
            format!("needs {}", self.needs())
        } else {
            let names: Vec<_> = paths.iter().map(|path| format!("cpu/{path}")).collect();
            format!(
                "{operator} has no {self} path; it has: {}",
                names.join(", ")
            )
        };
        Unsupported { reason }
    }
}

impl Lift {
    /// Lifts `kernel` to an operator.
    ///
    /// # Errors
    /// If a worker cannot be started.
    pub(crate) fn lift<K: Kernel>(
        self,
        kernel: K,
        spec: &OpSpec,
    ) -> Result<Arc<dyn Operator>, SetupError> {
        let spec = spec.clone();
        Ok(match self {
            Self::Inline => Arc::new(Inline::new(kernel, spec, self.limits())),
            Self::Pooled(workers) => {
                let pool = Pool::shared(workers)?;
                Arc::new(Pooled::new(kernel, spec, self.limits(), pool))
            }
        })
    }

    fn limits(self) -> Limits {
        let mut limits = Limits::new(const { NonZeroU32::new(1024).unwrap() });
        // Offsets and lengths of items are 32 bits.
        limits.input_bytes_max = u32::MAX as usize;
        limits.synchronous = self == Self::Inline;
        limits
    }
}

impl Cpu {
    /// The best path for each operator, on the caller's thread.
    pub fn best() -> Self {
        Self::new("cpu/best".to_owned(), None, Lift::Inline)
    }

    /// One path, whether this CPU has it or not.
    pub fn on(path: Path) -> Self {
        Self::new(format!("cpu/{path}"), Some(path), Lift::Inline)
    }

    /// The best path for each operator, on the `threads` workers that this process has for all such queues ([`Pool::shared`]).
    pub fn pool(threads: NonZeroU32) -> Self {
        Self::new(format!("pool/{threads}"), None, Lift::Pooled(threads))
    }

    /// The same with these operators instead of dpb's.
    pub fn with_operators(mut self, operators: Operators) -> Self {
        self.operators = operators;
        self
    }

    fn new(name: String, path: Option<Path>, lift: Lift) -> Self {
        Self {
            name,
            path,
            lift,
            operators: Operators::DPB,
            clock: WallClock::default(),
        }
    }

    /// The path that `entry` takes here: what `cpu/best` and `pool/N` stand for on this machine.
    ///
    /// # Errors
    /// Why there is none.
    pub fn path(&self, entry: &Entry) -> Result<Path, Unsupported> {
        let path = self.path.unwrap_or_else(|| Path::best(entry.paths));
        if entry.paths.contains(&path) && path.is_available() {
            Ok(path)
        } else {
            Err(path.reason(entry.name, entry.paths))
        }
    }

    /// The code that computes `entry` here, with its version: `libdeflate, libdeflater 1.26.1`.
    pub fn code_of(&self, entry: &Entry) -> Option<String> {
        let path = self.path(entry).ok()?;
        Some(format!("{path}, {}", entry.code(path)))
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
        self.code_of(self.operators.of(spec).ok()?)
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        if let Some(spec::Chain(stages)) = spec.get() {
            return Chain::limits_on(self, stages);
        }
        let entry = self.operators.of(spec)?;
        self.path(entry).map(|_| self.lift.limits())
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        if let Some(spec::Chain(stages)) = spec.get() {
            let alloc = |len| Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len });
            return Ok(Arc::new(Chain::on(self, stages, alloc)?));
        }
        let entry = self.operators.of(spec).map_err(SetupError::Unsupported)?;
        let path = self.path(entry).map_err(SetupError::Unsupported)?;
        (entry.kernel)(spec, path)?.lift(self.lift, spec)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cpu")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
