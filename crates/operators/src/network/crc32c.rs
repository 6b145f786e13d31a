//! CRC-32C (Castagnoli): the checksum of iSCSI, NVMe over TCP, SCTP, ext4, Btrfs and many storage formats.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod chains;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod constants;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use dpb_core::{Batch, BatchOut, Exact, JobError, Kernel, OpSpec, OutputShape, SetupError};

pub(crate) use portable::table as reflected_table;

use crate::cpu::Path;
use crate::isa;
use crate::registry::{Entry, PORTABLE};

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    name: "crc32c",
    scenario: "network",
    summary: "CRC-32C of each item",
    unit: "input byte",
    output: "4 bytes per item, little endian",
    source: "RFC 3720, 12.1 and B.4",
    peers: &["crc-fast", "crc32c", "isa-l"],
    parameters: &[],
    paths: Crc32c::PATHS,
    libraries: &[],
    documentation: include_str!("../../docs/crc32c.md"),
    parse: |_| Ok(OpSpec::Crc32c),
    kernel: |_, path| Ok(Box::new(Crc32c::new(path)?)),
    workload: |spec| {
        let right = |item: &[u8], _| Ok(portable::crc32c(item).to_le_bytes().to_vec());
        Ok(Box::new(Exact::new(spec, PORTABLE, right)))
    },
};

/// CRC-32C on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(Code);

/// The path with its proof.
#[derive(Clone, Copy, Debug)]
enum Code {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Sse42(isa::Sse42),
    #[cfg(target_arch = "x86_64")]
    Avx512(isa::Avx512),
    #[cfg(target_arch = "aarch64")]
    ArmCrc(isa::ArmCrc),
}

impl Crc32c {
    /// The paths there are, best first.
    pub const PATHS: &'static [Path] = &[Path::Avx512, Path::Sse42, Path::ArmCrc, Path::Portable];

    /// On `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or CRC-32C has no such path.
    pub fn new(path: Path) -> Result<Self, SetupError> {
        let code = match path {
            Path::Portable => Some(Code::Portable),
            #[cfg(target_arch = "x86_64")]
            Path::Sse42 => isa::Sse42::detect().map(Code::Sse42),
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => isa::Avx512::detect().map(Code::Avx512),
            #[cfg(target_arch = "aarch64")]
            Path::ArmCrc => isa::ArmCrc::detect().map(Code::ArmCrc),
            _ => None,
        };
        code.map(Self)
            .ok_or_else(|| path.missing("crc32c", Self::PATHS))
    }

    /// On the best path of this CPU.
    pub fn best() -> Self {
        let path = Path::best(Self::PATHS);
        Self::new(path).expect("the best path is available")
    }

    /// CRC-32C of `data`.
    pub fn checksum(&self, data: &[u8]) -> u32 {
        match self.0 {
            Code::Portable => portable::crc32c(data),
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof) => x86_64::one(proof, data),
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof) => avx512::crc32c(proof, data),
            #[cfg(target_arch = "aarch64")]
            Code::ArmCrc(proof) => aarch64::one(proof, data),
        }
    }
}

impl Kernel for Crc32c {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(4)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, _scratch: &mut ()) -> Result<(), JobError> {
        let (slots, _) = out.dst.as_chunks_mut::<4>();
        match self.0 {
            Code::Portable => {
                for (i, slot) in slots.iter_mut().enumerate().take(batch.len()) {
                    *slot = portable::crc32c(batch.item(i)).to_le_bytes();
                }
            }
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof) => x86_64::batch(proof, batch, slots),
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof) => avx512::batch(proof, batch, slots),
            #[cfg(target_arch = "aarch64")]
            Code::ArmCrc(proof) => aarch64::batch(proof, batch, slots),
        }
        Ok(())
    }
}
