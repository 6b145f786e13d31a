//! Implementations: how an operator is computed on a CPU, by instruction sets or by a library. Backends, records and flags call each a path.
//!
//! dpb's own are listed here. An operator of another crate takes these too, and declares paths of its own with [`OwnPath`].

use std::fmt;

use dpb_core::cpu_vendor::Vendor;
use dpb_core::{SetupError, Unsupported};

use crate::isa;
#[cfg(feature = "rxpmatch")]
use crate::security::rxpmatch::Hyperscan;
#[cfg(feature = "deflate")]
use crate::storage::deflate::IsaL;

/// [`Implementation`] and its lists from one table.
macro_rules! implementations {
    ($($(#[$doc:meta])* $implementation:ident = $name:literal needs $needs:tt),+ $(,)?) => {
        /// A way in which an operator is computed on a CPU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Implementation {
            $($(#[$doc])* $implementation,)+
            /// A path that another crate declares.
            Own(&'static OwnPath),
        }

        impl Implementation {
            /// dpb's own implementations. [`Operators::paths`](crate::registry::Operators::paths) has those of other crates too.
            pub const ALL: &'static [Self] = &[$(Self::$implementation),+];

            /// The name, which stands behind `cpu/` in a backend's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$implementation => $name,)+
                    Self::Own(path) => path.name,
                }
            }

            /// The needs of it, in words: of the CPU, or of this crate's build.
            pub fn needs(self) -> &'static str {
                match self {
                    $(Self::$implementation => implementations!(@needs $needs),)+
                    Self::Own(path) => path.needs,
                }
            }

            /// Whether this CPU has it, and this build.
            pub fn is_available(self) -> bool {
                match self {
                    $(Self::$implementation => implementations!(@has $needs),)+
                    Self::Own(path) => (path.is_available)(),
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

implementations! {
    /// Without any instruction set of its own: the oracle.
    Portable = "portable" needs _,
    /// Without any instruction set of its own either, but written for speed: tables, and many chains at once.
    Tables = "tables" needs _,
    /// Without any instruction set of its own: eight bytes at a time.
    Words = "words" needs _,
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
    /// See [`isa::GfniAvx2`].
    GfniAvx2 = "gfni-avx2" needs GfniAvx2,
    /// See [`isa::ShaNi`].
    ShaNi = "sha-ni" needs ShaNi,
    /// See [`isa::Avx2Sha`].
    Avx2Sha = "avx2-sha-ni" needs Avx2Sha,
    /// See [`isa::AesNi`].
    AesNi = "aes-ni" needs AesNi,
    /// See [`isa::VaesAvx2`].
    VaesAvx2 = "vaes-avx2" needs VaesAvx2,
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
    /// See [`isa::ArmSha512`].
    ArmSha512 = "arm-sha512" needs ArmSha512,
    /// The C library, which chooses its instruction sets itself.
    Libc = "libc" needs _,
    /// The library AWS-LC, which chooses its instruction sets itself.
    AwsLc = "aws-lc" needs "aws-lc",
    /// The library libdeflate, which chooses its instruction sets itself.
    Libdeflate = "libdeflate" needs "deflate",
    /// The library ISA-L, which chooses its instruction sets itself; found at run time.
    IsaL = "isa-l" needs (IsaL),
    /// The library lz4 of its authors, which is built in.
    LibLz4 = "liblz4" needs "lz4",
    /// The library snap.
    Snap = "snap" needs "snappy",
    /// The library Hyperscan, or Vectorscan, which chooses its instruction sets itself; found at run time.
    Hyperscan = "hyperscan" needs (Hyperscan),
}

/// A path of an operator of another crate that is none of dpb's: an instruction set that dpb has no token for, or a library.
///
/// ```
/// use dpb_operators::cpu::{Implementation, OwnPath};
///
/// static SVE: OwnPath = OwnPath {
///     name: "sve",
///     needs: "an Armv8-A CPU with SVE",
///     is_available: || cfg!(target_feature = "sve"),
/// };
/// const PATHS: &[Implementation] = &[Implementation::Own(&SVE), Implementation::Portable];
/// assert_eq!(PATHS[0].name(), "sve");
/// ```
///
#[derive(Clone, Copy, Debug)]
pub struct OwnPath {
    /// The name, which stands behind `cpu/` in a backend's name: none of dpb's, and not `best`.
    pub name: &'static str,
    /// The needs of it, in words: "an Armv8-A CPU with SVE".
    pub needs: &'static str,
    /// True if this CPU has them, and this build. The answer never changes while a program runs.
    pub is_available: fn() -> bool,
}

/// A path is the same as itself alone.
impl PartialEq for OwnPath {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for OwnPath {}

/// Declares the implementations of one operator, best first: an enum that a kernel matches once a batch. The ones with an architecture hold the
/// proof that their instructions may be used, a token of [`isa`](crate::isa) of the same name, and the ones with a second proof that too if the CPU has it.
/// `ALL` lists them on every architecture, and `on` chooses one.
///
/// ```
/// dpb_operators::codes! {
///     enum Code {
///         "x86_64": Avx2,
///         "aarch64": Neon,
///         Portable,
///     }
/// }
/// use dpb_operators::cpu::Implementation;
///
/// assert_eq!(Code::ALL.last(), Some(&Implementation::Portable));
/// assert!(matches!(Code::on("mine", Implementation::Portable), Ok(Code::Portable)));
/// ```
#[macro_export]
macro_rules! codes {
    (
        $vis:vis enum $Code:ident {
            $($arch:literal: $Proven:ident $(with $Other:ident)?,)*
            $($Plain:ident),+ $(,)?
        }
    ) => {
        /// The implementations, each with its proof.
        #[derive(Clone, Copy, Debug)]
        $vis enum $Code {
            $(
                #[cfg(target_arch = $arch)]
                $Proven(
                    $crate::isa::$Proven,
                    $(Option<$crate::isa::$Other>)?
                ),
            )*
            $($Plain,)+
        }

        impl $Code {
            /// The implementations there are, best first.
            $vis const ALL: &'static [$crate::cpu::Implementation] = &[
                $($crate::cpu::Implementation::$Proven,)*
                $($crate::cpu::Implementation::$Plain,)+
            ];

            /// This implementation of `operator`.
            ///
            /// # Errors
            /// If this CPU lacks what it needs, or there is no such implementation.
            $vis fn on(
                operator: &str,
                implementation: $crate::cpu::Implementation,
            ) -> Result<Self, $crate::dpb_core::SetupError> {
                use $crate::cpu::Implementation;
                let code = match implementation {
                    $(
                        #[cfg(target_arch = $arch)]
                        Implementation::$Proven => $crate::isa::$Proven::detect()
                            .map(|proof| Self::$Proven(proof, $($crate::isa::$Other::detect())?)),
                    )*
                    $(Implementation::$Plain => Some(Self::$Plain),)+
                    _ => None,
                };
                code.ok_or_else(|| implementation.missing(operator, Self::ALL))
            }
        }
    };
}
#[allow(unused_imports, reason = "which operators are built in, features say")]
pub(crate) use codes;

/// Stands for a library that is found at run time where no operator that uses it is built in.
macro_rules! without {
    ($Library:ident, $feature:literal) => {
        #[cfg(not(feature = $feature))]
        enum $Library {}

        #[cfg(not(feature = $feature))]
        impl $Library {
            const NEEDS: &'static str = concat!("dpb-operators with its feature `", $feature, "`");

            fn detect() -> Option<Self> {
                None
            }
        }
    };
}
without!(Hyperscan, "rxpmatch");
without!(IsaL, "deflate");

impl Implementation {
    /// The first of `paths`, sorted best first, that this CPU has, but for one that CPUs of its maker are slower on than on the next: such a
    /// path runs where it is named.
    pub fn best(paths: &[Self]) -> Self {
        let first = paths.iter().find(|path| path.is_candidate());
        first.copied().unwrap_or(Self::Portable)
    }

    /// True if this CPU has it and takes it unasked where no better one comes before it.
    pub(crate) fn is_candidate(self) -> bool {
        self.is_available() && self.is_fast_on(Vendor::here)
    }

    /// True if CPUs of this maker are not slower on it than on the next in a list. See [`dpb_core::cpu_vendor`].
    fn is_fast_on(self, maker: impl FnOnce() -> Vendor) -> bool {
        self != Self::Avx2Sha || maker() != Vendor::Amd
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

    /// The error that `operator`, which has `paths`, does not run on this one here.
    pub fn missing(self, operator: &str, paths: &[Self]) -> SetupError {
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

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A named path goes by its instructions alone, and only what is taken unasked by the maker too.
    #[test]
    fn amds_cpus_take_vectors_for_sha1_where_they_are_named() {
        let [vectors, instructions] = [Implementation::Avx2Sha, Implementation::ShaNi];
        let has_both = Implementation::Avx2.is_available() && instructions.is_available();
        assert_eq!(vectors.is_available(), has_both);
        assert!(!vectors.is_fast_on(|| Vendor::Amd));
        assert!(vectors.is_fast_on(|| Vendor::Other));
        assert!(instructions.is_fast_on(|| Vendor::Amd));
    }
}
