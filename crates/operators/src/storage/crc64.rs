//! CRC-64/NVME: the guard of NVMe's protection information of 64 bits, which object stores and file systems have taken up
//! since. CRC-64/Rocksoft in some kernels.
//!
//! The register has 64 bits, and takes the lowest bit of a byte first. The folds are those of [`crc`](crate::network::crc);
//! a register of twice the width is reduced otherwise, and lies on eight bytes of an item instead of four.
//!
#![doc = include_str!("../../docs/crc64-nvme.md")]

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod constants;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod folds;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use dpb_core::spec::Declared;
use dpb_core::{Batch, BatchOut, Exact, JobError, Kernel, OutputShape, SetupError};

use crate::entry::{Entry, PORTABLE};
use crate::implementation::{Implementation, codes};

dpb_core::spec! {
    /// CRC-64/NVME (NVM Express NVM Command Set). Output: eight bytes, little endian, per item.
    pub struct Crc64Nvme = "crc64-nvme";
}

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "storage",
    summary: "CRC-64/NVME of each item",
    output: "8 bytes per item, little endian",
    source: "NVM Express NVM Command Set, 64b Guard Protection Information",
    peers: &["crc-fast"],
    paths: Crc64::PATHS,
    documentation: include_str!("../../docs/crc64-nvme.md"),
    ..Entry::of::<Crc64Nvme>(
        |_, path| Ok(Box::new(Crc64::new(path)?)),
        |case| {
            let right = |item: &[u8], _| Ok(slot(portable::advance(INITIAL, item)).to_vec());
            Ok(Box::new(Exact::new(&case.spec, PORTABLE, right)))
        },
    )
};

/// The polynomial without its highest term: bit 63 is the coefficient of x^0.
const POLYNOMIAL: u64 = 0xAD93_D235_94C9_3659_u64.reverse_bits();
/// The register before the first byte.
const INITIAL: u64 = !0;
/// Bytes of a value.
const BYTES: usize = 8;

/// CRC-64/NVME on one code path.
///
/// ```
/// use dpb_operators::storage::crc64::Crc64;
///
/// assert_eq!(Crc64::best().checksum(b"123456789"), 0xae8b_1486_0a79_9888);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Crc64(Code);

codes! {
    enum Code {
        "x86_64": Avx512,
        "x86_64": Sse42,
        "aarch64": ArmCrc,
        Portable,
    }
}

impl Crc64 {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = Code::ALL;

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn new(path: Implementation) -> Result<Self, SetupError> {
        Code::on(Crc64Nvme::NAME, path).map(Self)
    }

    /// Makes the operator on the best path of this CPU.
    pub fn best() -> Self {
        let path = Implementation::best(Self::PATHS);
        Self::new(path).expect("the best path is available")
    }

    /// The CRC of `data`.
    pub fn checksum(&self, data: &[u8]) -> u64 {
        !match self.0 {
            Code::Portable => portable::advance(INITIAL, data),
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof) => x86_64::one(proof, data),
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof) => avx512::one(proof, data),
            #[cfg(target_arch = "aarch64")]
            Code::ArmCrc(proof) => aarch64::one(proof, data),
        }
    }
}

impl Kernel for Crc64 {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(BYTES)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        BYTES
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.fixed(&batch, BYTES, |batch, dst| {
            let (slots, _) = dst.as_chunks_mut::<BYTES>();
            match self.0 {
                Code::Portable => {
                    for (item, place) in batch.iter().zip(slots) {
                        *place = slot(portable::advance(INITIAL, item));
                    }
                }
                #[cfg(target_arch = "x86_64")]
                Code::Sse42(proof) => x86_64::batch(proof, batch, slots),
                #[cfg(target_arch = "x86_64")]
                Code::Avx512(proof) => avx512::batch(proof, batch, slots),
                #[cfg(target_arch = "aarch64")]
                Code::ArmCrc(proof) => aarch64::batch(proof, batch, slots),
            }
        });
        Ok(())
    }
}

/// The bytes of the CRC that a register stands for after the last byte.
fn slot(register: u64) -> [u8; BYTES] {
    (!register).to_le_bytes()
}
