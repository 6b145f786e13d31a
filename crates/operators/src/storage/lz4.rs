//! LZ77 as LZ4's block format: bytes and repeats of at least four bytes, nothing coded by bits. What a storage engine does where
//! speed matters more than size.
//!
//! The format is `lz4_Block_format.md` of the LZ4 project (version 1.10). That a block ends with five literals, and that no
//! repeat starts in its last twelve bytes, binds encoders; the decoders here do not insist on it.
//!
#![doc = include_str!("../../docs/lz4.md")]

mod library;
mod portable;
mod words;

use dpb_core::{Batch, BatchOut, JobError, Kernel, OutputShape, SetupError, spec, workload};

use super::each;
use super::repeats;
use super::streams::{Decode, Encode, Streams};
use crate::entry::{Entry, library};
use crate::implementation::Implementation;

/// The registry's line for the encoder.
pub(crate) const LZ4: Entry = Entry {
    scenario: "storage",
    summary: "compresses each item to a block of LZ4",
    output: "one block per item, variable",
    source: "lz4_Block_format.md of LZ4 1.10",
    peers: &["lz4", "lz4_flex"],
    paths: Lz4::PATHS,
    documentation: include_str!("../../docs/lz4.md"),
    ..Entry::of::<spec::Lz4>(
        |_, path| Ok(Box::new(Lz4::new(path)?)),
        |case| {
            let streams = Streams::encoder(&case.spec, "lz4", encoder(), decoder());
            Ok(Box::new(streams))
        },
    )
};

/// The registry's line for the decoder.
pub(crate) const UNLZ4: Entry = Entry {
    scenario: "storage",
    summary: "decodes one block of LZ4 per item",
    unit: "output byte",
    output: "the plain bytes of each item, variable; malformed or too long items are refused",
    source: "lz4_Block_format.md of LZ4 1.10",
    peers: &["lz4", "lz4_flex"],
    paths: Unlz4::PATHS,
    libraries: &[(Implementation::LibLz4, library!("lz4-sys"))],
    documentation: include_str!("../../docs/lz4.md"),
    ..Entry::of::<spec::Unlz4>(
        |_, path| Ok(Box::new(Unlz4::new(path)?)),
        |case| {
            let streams = Streams::decoder(&case.spec, "lz4", encoder(), decoder());
            Ok(Box::new(streams.spoilt_by(spoil)))
        },
    )
};

/// The portable encoder.
fn encoder() -> Encode {
    Box::new(|plain| {
        let mut stream = vec![0; compressed_bytes_max(plain.len())];
        let len = portable::encode(plain, &mut stream, &mut [0; _])?;
        stream.truncate(len);
        Ok(stream)
    })
}

/// The portable decoder.
fn decoder() -> Decode {
    Box::new(portable::decode)
}

/// A repeat from an offset of 0 is malformed, and the library takes it (the page says so); an empty block is refused by all.
fn spoil(item: &mut Vec<u8>, seed: u64) {
    workload::spoil(item, seed);
    let room = item.len().saturating_mul(255);
    let is_malformed = portable::decode(item, room) == Err(JobError::Malformed);
    if is_malformed && library::decode(item, &mut vec![0; room]).is_ok() {
        item.clear();
    }
}

/// The shortest repeat.
const MATCH_BYTES_MIN: usize = 4;
/// Bytes at a block's end that are literals.
const LAST_LITERALS: usize = 5;
/// Bytes before a block's end where the last repeat may start.
const MATCH_START_MIN: usize = 12;
/// The longest item: lengths and offsets of its bytes are signed 32-bit numbers in many implementations.
const ITEM_BYTES_MAX: usize = 0x7E00_0000;

/// The encoder on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Lz4 {
    path: Implementation,
}

/// The decoder on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Unlz4 {
    path: Implementation,
}

/// A queue's memory for the encoder.
#[derive(Debug)]
pub enum EncoderScratch {
    /// The table of the encoder for speed.
    Words(Box<repeats::Table>),
    /// The portable encoder's table.
    Portable(Box<[u32; 1 << 12]>),
}

impl Lz4 {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = &[Implementation::Words, Implementation::Portable];

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn new(path: Implementation) -> Result<Self, SetupError> {
        let path = path.among("lz4", Self::PATHS)?;
        Ok(Self { path })
    }
}

impl Unlz4 {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] =
        &[Implementation::LibLz4, Implementation::Portable];

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn new(path: Implementation) -> Result<Self, SetupError> {
        let path = path.among("unlz4", Self::PATHS)?;
        Ok(Self { path })
    }
}

/// The longest block that either encoder makes of `item_len` bytes: the bound of LZ4's own implementation.
pub fn compressed_bytes_max(item_len: usize) -> usize {
    item_len + item_len / 255 + 16
}

impl Kernel for Lz4 {
    type Scratch = EncoderScratch;

    fn scratch(&self) -> EncoderScratch {
        match self.path {
            Implementation::Words => EncoderScratch::Words(Box::new([0; _])),
            _ => EncoderScratch::Portable(Box::new([0; _])),
        }
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        compressed_bytes_max(item_len)
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut EncoderScratch,
    ) -> Result<(), JobError> {
        each(batch, out, |item, slot| match scratch {
            _ if item.len() > ITEM_BYTES_MAX => Err(JobError::TooLong),
            EncoderScratch::Portable(table) => portable::encode(item, slot, table),
            EncoderScratch::Words(seen) => words::encode(item, slot, seen),
        });
        Ok(())
    }
}

impl Kernel for Unlz4 {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    /// Room for a ratio of eight. The format's own bound is 255.
    fn dst_len(&self, item_len: usize) -> usize {
        item_len.saturating_mul(8).saturating_add(64)
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        each(batch, out, |item, slot| match self.path {
            Implementation::LibLz4 => library::decode(item, slot),
            _ => portable::decode_into(item, slot),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
