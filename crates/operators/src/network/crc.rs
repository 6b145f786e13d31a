//! Cyclic redundancy checks: CRC-32 of Ethernet, gzip and zlib; CRC-32C of iSCSI, NVMe over TCP, SCTP, ext4 and Btrfs;
//! CRC-16/T10-DIF of SCSI's and NVMe's protection information. And [`combine`]: the CRC of two messages in one, from
//! theirs.
//!
//! One design serves all, and [`crc64`](crate::storage::crc64) too. A register has 64 bits, and takes the lowest bit of a byte first. A CRC whose highest
//! bit comes first is one of bytes with their bits reversed; one of fewer bits is one of 64 whose polynomial is times a power of x.
//!
#![doc = include_str!("../../docs/crc32.md")]
#![doc = include_str!("../../docs/crc32c.md")]
#![doc = include_str!("../../docs/crc16-t10dif.md")]

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod algorithm;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod chained;
pub mod combine;
mod constants;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod folds;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod kernel;
mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectors;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::marker::PhantomData;

use dpb_core::{
    Batch, BatchOut, Exact, JobError, Kernel, OutputShape, SetupError,
    spec::{self, Declared},
};

pub use algorithm::{Algorithm, Castagnoli, Ieee, Nvme, T10Dif};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use kernel::{OfBatch, one};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use vectors::Vectors;

use crate::entry::{Entry, PORTABLE};
use crate::implementation::{Implementation, codes};

/// The registry's line of CRC-32.
pub(crate) const CRC32: Entry = Entry {
    summary: "CRC-32 of each item",
    source: "ISO 3309, RFC 1952, 8",
    peers: &["crc-fast", "isa-l", "rte_net_crc"],
    documentation: include_str!("../../docs/crc32.md"),
    ..entry::<Ieee, spec::Crc32>()
};

/// The registry's line of CRC-32C.
pub(crate) const CRC32C: Entry = Entry {
    summary: "CRC-32C of each item",
    source: "RFC 3720, 12.1 and B.4",
    peers: &["crc-fast", "crc32c", "isa-l", "rte_hash_crc"],
    documentation: include_str!("../../docs/crc32c.md"),
    ..entry::<Castagnoli, spec::Crc32c>()
};

/// The registry's line of CRC-16/T10-DIF.
pub(crate) const CRC16_T10DIF: Entry = Entry {
    summary: "CRC-16/T10-DIF of each item",
    output: "2 bytes per item, big endian",
    source: "T10 SBC-3, 4.22.4",
    peers: &["crc-fast", "isa-l"],
    documentation: include_str!("../../docs/crc16-t10dif.md"),
    ..entry::<T10Dif, spec::Crc16T10Dif>()
};

/// The parts that the lines have in common.
pub(crate) const fn entry<A: Algorithm, S: Declared>() -> Entry {
    Entry {
        scenario: "network",
        output: "4 bytes per item, little endian",
        paths: Crc::<A>::PATHS,
        ..Entry::of::<S>(
            |_, path| Ok(Box::new(Crc::<A>::new(path)?)),
            |case| {
                let right = |item: &[u8], _| {
                    let crc = A::crc(portable::advance::<A>(A::INITIAL, item));
                    Ok(A::slot(crc).as_ref().to_vec())
                };
                Ok(Box::new(Exact::new(&case.spec, PORTABLE, right)))
            },
        )
    }
}

/// CRC-32 (IEEE 802.3).
pub type Crc32 = Crc<Ieee>;
/// CRC-32C (Castagnoli).
pub type Crc32c = Crc<Castagnoli>;
/// CRC-16/T10-DIF.
pub type Crc16T10Dif = Crc<T10Dif>;

/// A CRC on one code path.
///
/// ```
/// use dpb_operators::network::crc::{Crc16T10Dif, Crc32, Crc32c};
///
/// assert_eq!(Crc32::best().checksum(b"123456789"), 0xcbf4_3926);
/// assert_eq!(Crc32c::best().checksum(b"123456789"), 0xe306_9283);
/// assert_eq!(Crc16T10Dif::best().checksum(b"123456789"), 0xd0db);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Crc<A>(Code, PhantomData<A>);

codes! {
    enum Code {
        "x86_64": Avx512,
        "x86_64": VaesAvx2,
        "x86_64": Sse42,
        "aarch64": ArmCrc,
        Portable,
    }
}

impl<A: Algorithm> Crc<A> {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = Code::ALL;

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn new(path: Implementation) -> Result<Self, SetupError> {
        Ok(Self(Code::on(A::NAME, path)?, PhantomData))
    }

    /// Makes the operator on the best path of this CPU.
    pub fn best() -> Self {
        let path = Implementation::best(Self::PATHS);
        Self::new(path).expect("the best path is available")
    }

    /// The CRC of `data`.
    pub fn checksum(&self, data: &[u8]) -> A::Crc {
        match self.0 {
            Code::Portable => A::crc(portable::advance::<A>(A::INITIAL, data)),
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof) => one::<A, _>(proof, data),
            #[cfg(target_arch = "x86_64")]
            Code::VaesAvx2(proof) => one::<A, _>(proof, data),
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof) => one::<A, _>(proof, data),
            #[cfg(target_arch = "aarch64")]
            Code::ArmCrc(proof) => one::<A, _>(proof, data),
        }
    }
}

impl<A: Algorithm> Kernel for Crc<A> {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(size_of::<A::Crc>())
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        size_of::<A::Crc>()
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.fixed(&batch, size_of::<A::Crc>(), |batch, dst| {
            let slots = A::slots(dst);
            match self.0 {
                Code::Portable => portable_batch::<A>(batch, slots),
                #[cfg(target_arch = "x86_64")]
                Code::Avx512(proof) => proof.enter(OfBatch::<A>(batch, slots)),
                #[cfg(target_arch = "x86_64")]
                Code::VaesAvx2(proof) => proof.enter(OfBatch::<A>(batch, slots)),
                #[cfg(target_arch = "x86_64")]
                Code::Sse42(proof) => proof.enter(OfBatch::<A>(batch, slots)),
                #[cfg(target_arch = "aarch64")]
                Code::ArmCrc(proof) => proof.enter(OfBatch::<A>(batch, slots)),
            }
        });
        Ok(())
    }
}

/// The CRC of each item, into its slot. Out of line, so that what is called for each job is small.
#[inline(never)]
fn portable_batch<A: Algorithm>(batch: &Batch<'_>, slots: &mut [A::Slot]) {
    for (item, slot) in batch.iter().zip(slots) {
        *slot = A::slot(A::crc(portable::advance::<A>(A::INITIAL, item)));
    }
}

/// CRC-32 of `data`, for small messages: no instruction set, no dispatch.
#[cfg(feature = "deflate")]
pub(crate) fn crc32(data: &[u8]) -> u32 {
    Ieee::crc(portable::advance::<Ieee>(Ieee::INITIAL, data))
}
