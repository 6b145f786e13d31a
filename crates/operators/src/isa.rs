//! Proof tokens: a value exists only where its instructions may be used.
//!
//! Kernels that need an instruction set take its token, so that calling them elsewhere does not compile or cannot
//! happen. For the lifetime of a program the answer never changes. [`dpb_core::cpu_level`] can hide what the CPU has. The types exist on every architecture, so that a
//! backend that is missing can be listed with its reason.

macro_rules! token {
    ($(#[$doc:meta])* $name:ident, $arch:literal, $detect:ident, [$($feature:tt),+], $needs:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(());

        impl $name {
            /// The needs that a CPU must meet, in words.
            pub const NEEDS: &'static str = $needs;

            /// The token, if this CPU and the operating system have all that it stands for.
            pub fn detect() -> Option<Self> {
                #[cfg(target_arch = $arch)]
                {
                    dpb_core::has!($detect: $($feature),+).then_some(Self(()))
                }
                #[cfg(not(target_arch = $arch))]
                {
                    None
                }
            }
        }
    };
}

token!(
    /// x86-64 with SSE4.2, whose `crc32` instruction computes CRC-32C, and PCLMULQDQ.
    Sse42,
    "x86_64",
    is_x86_feature_detected,
    ["sse4.2", "pclmulqdq"],
    "an x86-64 CPU with SSE4.2 and PCLMULQDQ"
);

token!(
    /// x86-64 with BMI1, BMI2 and LZCNT: shifts and counts of bits without detours.
    Bmi2,
    "x86_64",
    is_x86_feature_detected,
    ["bmi1", "bmi2", "lzcnt"],
    "an x86-64 CPU with BMI2 and LZCNT"
);

token!(
    /// x86-64 with AVX2, and with BMI1, BMI2, LZCNT and POPCNT, which came before it or with it.
    Avx2,
    "x86_64",
    is_x86_feature_detected,
    ["avx2", "bmi1", "bmi2", "lzcnt", "popcnt"],
    "an x86-64 CPU with AVX2, BMI1, BMI2, LZCNT and POPCNT"
);

token!(
    /// x86-64 with AVX-512 (F, BW, VL), VPCLMULQDQ, four carry-less products of 64 bits at once, VPOPCNTDQ and GFNI, which came
    /// with it; and what [`Avx2`] stands for, which every such CPU has.
    Avx512,
    "x86_64",
    is_x86_feature_detected,
    [
        "avx512f",
        "avx512bw",
        "avx512vl",
        "avx512vpopcntdq",
        "vpclmulqdq",
        "gfni",
        "pclmulqdq",
        "sse4.2",
        "avx2",
        "bmi1",
        "bmi2",
        "lzcnt",
        "popcnt"
    ],
    "an x86-64 CPU with AVX-512 F/BW/VL, VPOPCNTDQ, VPCLMULQDQ, GFNI, AVX2 and BMI2"
);

impl Avx512 {
    /// The proof for what a part of a kernel does with vectors of half the size.
    pub fn avx2(self) -> Avx2 {
        Avx2(())
    }
}

token!(
    /// x86-64 with AVX-512 (F, BW, VL, VNNI) and BMI2: thirty-two products of 16-bit words, added in pairs.
    Avx512Vnni,
    "x86_64",
    is_x86_feature_detected,
    ["avx512f", "avx512bw", "avx512vl", "avx512vnni", "bmi2"],
    "an x86-64 CPU with AVX-512 F/BW/VL/VNNI and BMI2"
);

token!(
    /// x86-64 with AVX-512 (F, BW, VBMI) and GFNI: matrices of 8 × 8 bits times many bytes at once.
    Gfni,
    "x86_64",
    is_x86_feature_detected,
    ["avx512f", "avx512bw", "avx512vbmi", "gfni"],
    "an x86-64 CPU with AVX-512 F/BW/VBMI and GFNI"
);

token!(
    /// x86-64 with AVX2 and GFNI: the same, half as many at once.
    GfniAvx2,
    "x86_64",
    is_x86_feature_detected,
    ["avx2", "gfni"],
    "an x86-64 CPU with AVX2 and GFNI"
);

token!(
    /// x86-64 with the SHA extensions.
    ShaNi,
    "x86_64",
    is_x86_feature_detected,
    ["sha", "ssse3", "sse4.1"],
    "an x86-64 CPU with the SHA extensions"
);

/// x86-64 with what [`Avx2`] and [`ShaNi`] stand for: many messages in vectors, and few by the SHA extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2Sha(Avx2, ShaNi);

impl Avx2Sha {
    /// The needs that a CPU must meet, in words.
    pub const NEEDS: &'static str =
        "an x86-64 CPU with AVX2, BMI1, BMI2, LZCNT, POPCNT and the SHA extensions";

    /// The token, if this CPU and the operating system have all that it stands for.
    pub fn detect() -> Option<Self> {
        Some(Self(Avx2::detect()?, ShaNi::detect()?))
    }

    /// The proof for vectors.
    pub fn avx2(self) -> Avx2 {
        self.0
    }

    /// The proof for the SHA extensions.
    pub fn sha_ni(self) -> ShaNi {
        self.1
    }
}

token!(
    /// x86-64 with AES-NI and PCLMULQDQ, a round of a block of AES, a carry-less product of 64 bits, and SSE4.1.
    AesNi,
    "x86_64",
    is_x86_feature_detected,
    ["aes", "pclmulqdq", "sse4.1", "ssse3"],
    "an x86-64 CPU with AES-NI, PCLMULQDQ and SSE4.1"
);

token!(
    /// What [`AesNi`] stands for, and AVX, which encodes the same instructions with a separate destination register.
    AesAvx,
    "x86_64",
    is_x86_feature_detected,
    ["avx", "aes", "pclmulqdq", "sse4.1", "ssse3"],
    "an x86-64 CPU with AES-NI, PCLMULQDQ and AVX"
);

token!(
    /// x86-64 with AVX2, VAES and VPCLMULQDQ: a round of two blocks of AES, two carry-less products of 64 bits, at once.
    VaesAvx2,
    "x86_64",
    is_x86_feature_detected,
    [
        "avx2",
        "vaes",
        "vpclmulqdq",
        "aes",
        "pclmulqdq",
        "sse4.2",
        "sse4.1",
        "ssse3"
    ],
    "an x86-64 CPU with AVX2, VAES and VPCLMULQDQ"
);

token!(
    /// x86-64 with AVX-512 (F, BW, VL), VAES and VPCLMULQDQ: a round of four blocks of AES, four carry-less products of 64
    /// bits, at once.
    Vaes,
    "x86_64",
    is_x86_feature_detected,
    [
        "avx512f",
        "avx512bw",
        "avx512vl",
        "vaes",
        "vpclmulqdq",
        "aes",
        "pclmulqdq",
        "sse4.1",
        "ssse3"
    ],
    "an x86-64 CPU with AVX-512 F/BW/VL, VAES and VPCLMULQDQ"
);

/// Has all that is needed.
impl From<VaesAvx2> for Sse42 {
    fn from(_: VaesAvx2) -> Self {
        Self(())
    }
}

/// Has all that is needed.
impl From<Avx512> for Sse42 {
    fn from(_: Avx512) -> Self {
        Self(())
    }
}

/// Has all that is needed.
impl From<AesAvx> for AesNi {
    fn from(_: AesAvx) -> Self {
        Self(())
    }
}

/// Has all that is needed.
impl From<VaesAvx2> for AesNi {
    fn from(_: VaesAvx2) -> Self {
        Self(())
    }
}

/// Has all that is needed.
impl From<Vaes> for AesNi {
    fn from(_: Vaes) -> Self {
        Self(())
    }
}

token!(
    /// Armv8-A with Advanced SIMD.
    Neon,
    "aarch64",
    is_aarch64_feature_detected,
    ["neon"],
    "an Armv8-A CPU with Advanced SIMD"
);

token!(
    /// Armv8-A with the CRC and AES (PMULL) extensions.
    ArmCrc,
    "aarch64",
    is_aarch64_feature_detected,
    ["crc", "aes", "neon"],
    "an Armv8-A CPU with the CRC and PMULL extensions"
);

token!(
    /// Armv8-A with the AES extension: a round of a block, and carry-less products of 64 bits.
    ArmAes,
    "aarch64",
    is_aarch64_feature_detected,
    ["aes", "neon"],
    "an Armv8-A CPU with the AES extension"
);

token!(
    /// Armv8-A with the SHA-256 extension.
    ArmSha2,
    "aarch64",
    is_aarch64_feature_detected,
    ["sha2", "neon"],
    "an Armv8-A CPU with the SHA-256 extension"
);

token!(
    /// Armv8.2-A with the SHA-512 extension, which Rust counts to that of SHA-3.
    ArmSha512,
    "aarch64",
    is_aarch64_feature_detected,
    ["sha3", "neon"],
    "an Armv8.2-A CPU with the SHA-512 extension"
);
