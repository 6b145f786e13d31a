//! SHA-256 (FIPS 180-4): integrity of stored objects, content addresses, signatures' first step.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod lanes;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use dpb_core::{Batch, BatchOut, Exact, JobError, Kernel, OpSpec, OutputShape, SetupError};

use crate::cpu::Path;
use crate::isa;
use crate::registry::{Entry, PORTABLE};

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    name: "sha256",
    scenario: "security",
    summary: "SHA-256 digest of each item",
    unit: "input byte",
    output: "32 bytes per item",
    source: "FIPS 180-4, 6.2; RFC 6234",
    peers: &["sha2"],
    parameters: &[],
    paths: Sha256::PATHS,
    libraries: &[],
    documentation: include_str!("../../docs/sha256.md"),
    parse: |_| Ok(OpSpec::Sha256),
    kernel: |_, path| Ok(Box::new(Sha256::new(path)?)),
    workload: |spec| {
        let right = |item: &[u8], _| Ok(portable::sha256(item).to_vec());
        Ok(Box::new(Exact::new(spec, PORTABLE, right)))
    },
};

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (4.2.2).
const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// The first 32 bits of the fractional parts of the square roots of the first eight primes (5.3.3).
const INITIAL: [u32; 8] = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

/// SHA-256 on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Sha256(Code);

/// The path with its proof.
#[derive(Clone, Copy, Debug)]
enum Code {
    Portable,
    #[cfg(target_arch = "x86_64")]
    ShaNi(isa::ShaNi),
    #[cfg(target_arch = "aarch64")]
    ArmSha2(isa::ArmSha2),
}

impl Sha256 {
    /// The paths there are, best first.
    pub const PATHS: &'static [Path] = &[Path::ShaNi, Path::ArmSha2, Path::Portable];

    /// On `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or SHA-256 has no such path.
    pub fn new(path: Path) -> Result<Self, SetupError> {
        let code = match path {
            Path::Portable => Some(Code::Portable),
            #[cfg(target_arch = "x86_64")]
            Path::ShaNi => isa::ShaNi::detect().map(Code::ShaNi),
            #[cfg(target_arch = "aarch64")]
            Path::ArmSha2 => isa::ArmSha2::detect().map(Code::ArmSha2),
            _ => None,
        };
        code.map(Self)
            .ok_or_else(|| path.missing("sha256", Self::PATHS))
    }

    /// On the best path of this CPU.
    pub fn best() -> Self {
        let path = Path::best(Self::PATHS);
        Self::new(path).expect("the best path is available")
    }

    /// SHA-256 of `data`.
    pub fn digest(&self, data: &[u8]) -> [u8; 32] {
        match self.0 {
            Code::Portable => portable::sha256(data),
            #[cfg(target_arch = "x86_64")]
            Code::ShaNi(proof) => lanes::one(proof, data),
            #[cfg(target_arch = "aarch64")]
            Code::ArmSha2(proof) => lanes::one(proof, data),
        }
    }
}

impl Kernel for Sha256 {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(32)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        32
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, _scratch: &mut ()) -> Result<(), JobError> {
        let (slots, _) = out.dst.as_chunks_mut::<32>();
        match self.0 {
            Code::Portable => {
                for (i, slot) in slots.iter_mut().enumerate().take(batch.len()) {
                    *slot = portable::sha256(batch.item(i));
                }
            }
            #[cfg(target_arch = "x86_64")]
            Code::ShaNi(proof) => lanes::batch::<{ x86_64::LANES }>(proof, batch, slots),
            #[cfg(target_arch = "aarch64")]
            Code::ArmSha2(proof) => lanes::batch::<{ aarch64::LANES }>(proof, batch, slots),
        }
        Ok(())
    }
}

/// What follows the last full block: `rest`, a one bit, zeros, the length in bits (5.1.1). One block or two.
fn padded_tail(rest: &[u8], total_bytes: u64) -> ([u8; 128], usize) {
    let mut tail = [0; 128];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let blocks = if rest.len() < 56 { 1 } else { 2 };
    tail[blocks * 64 - 8..blocks * 64].copy_from_slice(&(total_bytes * 8).to_be_bytes());
    (tail, blocks)
}

/// The hash value's words, big endian.
fn digest_bytes(hash: &[u32; 8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.chunks_exact_mut(4).zip(hash) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}
