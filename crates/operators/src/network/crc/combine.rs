//! The CRC of two parts, one behind the other, from the CRCs of both and the length of the second: parts that were read by
//! several threads, or fragments that came one by one.
//!
//! A register that bytes follow is multiplied by x^8 for each, modulo the polynomial, whatever they are. So the first CRC
//! is, times x to eight times the second's length, and the second is added. CRCs that start at all ones and end inverted
//! combine as they are: what starts the second register and what ends the first cancel out.
//!
#![doc = include_str!("../../../docs/crc-combine.md")]

use std::marker::PhantomData;

use dpb_core::{
    Batch, BatchOut, CrcName, Input, JobError, Kernel, OpSpec, OutputShape, Right, SetupError,
    Workload, spec,
};

use super::constants::{BYTE_POWER, product};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::constants::{Barrett, powers};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::vectors::{Task, Vectors};
use super::{Algorithm, Castagnoli, Ieee, T10Dif};
use crate::entry::{Entry, PORTABLE, own};
use crate::implementation::{Implementation, codes};

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "network",
    summary: "CRC of two parts in one, from theirs and the second's length",
    unit: "input byte, 16 a record",
    output: "4 bytes per record, little endian",
    source: "zlib, crc32_combine",
    // crc-fast combines without tables, one bit of the length at a time: thousands of times slower, it says nothing.
    paths: PATHS,
    documentation: include_str!("../../../docs/crc-combine.md"),
    ..Entry::of::<spec::CrcCombine>(
        |spec, path| {
            Ok(match own::<spec::CrcCombine>(spec).crc {
                CrcName::Crc32 => Box::new(Combine::<Ieee>::new(path)?),
                CrcName::Crc32c => Box::new(Combine::<Castagnoli>::new(path)?),
                CrcName::Crc16T10Dif => Box::new(Combine::<T10Dif>::new(path)?),
            })
        },
        |case| {
            let spec = case.spec.clone();
            let combine = match own::<spec::CrcCombine>(&spec).crc {
                CrcName::Crc32 => oracle::<Ieee>,
                CrcName::Crc32c => oracle::<Castagnoli>,
                CrcName::Crc16T10Dif => oracle::<T10Dif>,
            };
            Ok(Box::new(Records { spec, combine }))
        },
    )
};

/// The paths there are, best first.
const PATHS: &[Implementation] = Code::ALL;

/// Two CRCs of four bytes, a length of eight, little endian.
const RECORD_BYTES: usize = 16;

/// Combines CRCs on one code path.
///
/// ```
/// use dpb_operators::network::crc::combine::Combine;
/// use dpb_operators::network::crc::{Castagnoli, Crc32c};
///
/// let crc = |part: &[u8]| Crc32c::best().checksum(part);
/// let whole = Combine::<Castagnoli>::best().combine(crc(b"1234"), crc(b"56789"), 5);
/// assert_eq!(whole, crc(b"123456789"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Combine<A>(Code, PhantomData<A>);

codes! {
    enum Code {
        "x86_64": Sse42,
        "aarch64": ArmCrc,
        Portable,
    }
}

impl<A: Algorithm> Combine<A> {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = PATHS;

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn new(path: Implementation) -> Result<Self, SetupError> {
        Ok(Self(Code::on("crc-combine", path)?, PhantomData))
    }

    /// Makes the operator on the best path of this CPU.
    pub fn best() -> Self {
        let path = Implementation::best(Self::PATHS);
        Self::new(path).expect("the best path is available")
    }

    /// The CRC of two parts, one behind the other: theirs are `first` and `second`, and the second has `second_bytes`.
    pub fn combine(&self, first: A::Crc, second: A::Crc, second_bytes: u64) -> A::Crc {
        let first = self.forward(raw::<A>(A::register(first)), second_bytes);
        A::crc(raw::<A>(first ^ raw::<A>(A::register(second))))
    }

    /// A remainder with `bytes` zero bytes behind it.
    fn forward(&self, remainder: u64, bytes: u64) -> u64 {
        match self.0 {
            Code::Portable => forward::<A>(remainder, bytes),
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof) => proof.enter(Forward::<A>(remainder, bytes, PhantomData)),
            #[cfg(target_arch = "aarch64")]
            Code::ArmCrc(proof) => proof.enter(Forward::<A>(remainder, bytes, PhantomData)),
        }
    }
}

/// The part of a register that comes from the message: the register without where it started; and the reverse.
fn raw<A: Algorithm>(register: u64) -> u64 {
    register ^ A::INITIAL
}

/// Squares and products, a coefficient at a time: the oracle.
fn forward<A: Algorithm>(remainder: u64, bytes: u64) -> u64 {
    let (mut remainder, mut power, mut bytes) = (remainder, BYTE_POWER, bytes);
    while bytes > 0 {
        if bytes & 1 == 1 {
            remainder = product::<A>(remainder, power);
        }
        power = product::<A>(power, power);
        bytes >>= 1;
    }
    remainder
}

/// The same: a product for each byte of their number.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
struct Forward<A>(u64, u64, PhantomData<A>);

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl<A: Algorithm> Task for Forward<A> {
    type Output = u64;

    #[inline(always)]
    fn run<V: Vectors>(self, v: V) -> u64 {
        let Self(mut remainder, mut bytes, _) = self;
        let mut powers = const { &powers::<A>() }.iter();
        while bytes > 0 {
            // At most eight bytes: there is a row for each.
            let Some(row) = powers.next() else { break };
            let product =
                v.product::<0x00>(v.first(remainder), v.first(row[bytes as usize & 0xff]));
            // Bit *i* is the coefficient of x^(126-i); of what leaves the polynomial, of x^(127-i).
            let [low, high] = [v.half::<false>(product), v.half::<true>(product)];
            let (early, late) = (low << 1, high << 1 | low >> 63);
            let quotient = v.product::<0x00>(v.first(early), v.first(Barrett::<A>::QUOTIENT));
            let rest = v.product::<0x00>(quotient, v.first(Barrett::<A>::DIVISOR));
            remainder = late ^ v.half::<true>(rest);
            if Barrett::<A>::HAS_LAST_TERM {
                remainder ^= v.half::<false>(quotient);
            }
            bytes >>= 8;
        }
        remainder
    }
}

/// Of CRCs of up to 32 bits: for longer ones a record has no room, and this does not compile.
impl<A: Algorithm> Kernel for Combine<A> {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len / RECORD_BYTES * 4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        const { assert!(size_of::<A::Crc>() <= 4) };
        dpb_core::records(batch, out, RECORD_BYTES, |bytes, slots| {
            let (records, _) = bytes.as_chunks();
            for (record, slot) in records.iter().zip(slots) {
                let (first, second, second_bytes) = read::<A>(record);
                let whole = self.combine(first, second, second_bytes);
                *slot = (Into::<u64>::into(whole) as u32).to_le_bytes();
            }
        });
        Ok(())
    }
}

/// Two CRCs, of which one of 16 bits is the lower half of its word, and a length.
fn read<A: Algorithm>(record: &[u8; RECORD_BYTES]) -> (A::Crc, A::Crc, u64) {
    let (words, _) = record.as_chunks::<8>();
    let crcs = u64::from_le_bytes(words[0]);
    let crc = |word: u64| A::from_word(word);
    (crc(crcs), crc(crcs >> 32), u64::from_le_bytes(words[1]))
}

/// The right CRC for a record.
fn oracle<A: Algorithm>(record: &[u8; RECORD_BYTES]) -> u32 {
    let (first, second, second_bytes) = read::<A>(record);
    let whole = Combine::<A>(Code::Portable, PhantomData).combine(first, second, second_bytes);
    Into::<u64>::into(whole) as u32
}

/// Random CRCs; most lengths below 64 KiB, one of sixteen any.
struct Records {
    spec: OpSpec,
    combine: fn(&[u8; RECORD_BYTES]) -> u32,
}

impl Workload for Records {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    fn plain(&self, seed: u64, len: usize, count: usize) -> Input {
        let mut input = Input::random(seed, len, count);
        for item in input.bytes.chunks_mut(len.max(1)) {
            let (records, _) = item.as_chunks_mut::<RECORD_BYTES>();
            for record in records.iter_mut().filter(|record| record[0] % 16 != 0) {
                record[10..].fill(0);
            }
        }
        input
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        Ok(plain[..plain.len() / RECORD_BYTES * RECORD_BYTES].to_vec())
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        let (records, rest) = item.as_chunks();
        let whole = records
            .iter()
            .flat_map(|record| (self.combine)(record).to_le_bytes());
        match rest {
            [] => Right::Only(whole.collect()),
            _ => Right::Refused(JobError::Malformed),
        }
    }
}
