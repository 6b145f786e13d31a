//! Code paths: how an operator is computed on a CPU, by instruction sets or by a library.

use std::fmt;

use dpb_core::{SetupError, Unsupported};

use crate::isa;
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

    pub(crate) fn reason(self, operator: &str, paths: &[Self]) -> Unsupported {
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

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
