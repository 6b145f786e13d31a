//! Huffman coding alone: canonical, length-limited codes, their table in the output. What is left of DEFLATE without its
//! search for repeats, and what an engine with a free choice of format does fastest.
//!
//! # The format
//!
//! An item's output is a sequence of blocks, each of 1 to 65,536 plain bytes; an item without bytes has no block.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | kind: 0 stored, 1 run, 2 coded |
//! | 2 | plain bytes, less one, little endian |
//! | | *stored*: the plain bytes |
//! | 1 | *run*: the byte that all plain bytes are |
//! | 1 to 256 | *coded*: code lengths of the symbols 0 to 255 in nibbles, a byte's low one first: 1 to 11, or 0 and in the next nibble how many more symbols after this one have none; the last nibble 0 if it is not needed |
//! | 2 or 16 | *coded*: bytes of each stream, little endian; a block of 1,024 plain bytes or more has eight streams, others one |
//! | | *coded*: the streams |
//!
//! Codes are assigned as in RFC 1951, 3.2.2, and packed as there: a code's first bit is the lowest free bit of its byte. The code is
//! complete: every sequence of bits means something. The streams share the plain bytes out evenly, rounded up, so the
//! last may have fewer. A stream ends in the byte of its last code, whose free bits are 0.
//!
#![doc = include_str!("../../docs/huffman.md")]

mod encode;
mod lengths;
mod portable;
mod tables;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use dpb_core::{Batch, BatchOut, JobError, Kernel, OutputShape, SetupError, spec};

use super::each;
use super::streams::{Decode, Encode, Streams};
use crate::entry::Entry;
use crate::implementation::{Implementation, codes};

/// The registry's line for the encoder.
pub(crate) const HUFFMAN: Entry = Entry {
    scenario: "storage",
    summary: "codes each item's bytes by their frequency",
    output: "blocks with their code tables, variable",
    source: "Huffman 1952; Larmore and Hirschberg 1990; codes as in RFC 1951, 3.2.2",
    paths: Huffman::PATHS,
    documentation: include_str!("../../docs/huffman.md"),
    ..Entry::of::<spec::Huffman>(
        |_, path| Ok(Box::new(Huffman::new(path)?)),
        |case| {
            let streams = Streams::encoder(&case.spec, "huffman", encoder(), decoder());
            Ok(Box::new(streams))
        },
    )
};

/// The registry's line for the decoder.
pub(crate) const UNHUFFMAN: Entry = Entry {
    scenario: "storage",
    summary: "decodes what huffman writes",
    unit: "output byte",
    output: "the plain bytes of each item, variable; malformed or too long items are refused",
    source: "Huffman 1952; Larmore and Hirschberg 1990; codes as in RFC 1951, 3.2.2",
    paths: Unhuffman::PATHS,
    allocates: &[Implementation::Portable],
    documentation: include_str!("../../docs/huffman.md"),
    ..Entry::of::<spec::Unhuffman>(
        |_, path| Ok(Box::new(Unhuffman::new(path)?)),
        |case| {
            let streams = Streams::decoder(&case.spec, "huffman", encoder(), decoder());
            Ok(Box::new(streams))
        },
    )
};

/// The portable encoder.
fn encoder() -> Encode {
    Box::new(|plain| {
        let mut stream = vec![0; encoded_bytes_max(plain.len())];
        let len = encode::encode(plain, &mut stream, &mut encode::scratch())?;
        stream.truncate(len);
        Ok(stream)
    })
}

/// The portable decoder.
fn decoder() -> Decode {
    Box::new(portable::decode)
}

/// Plain bytes of a block, at most.
const BLOCK_BYTES_MAX: usize = 1 << 16;
/// A block's kind and length.
const HEADER_BYTES: usize = 3;
/// Streams of a long block.
const STREAMS: usize = 8;
/// Plain bytes from which a block is long: below, sixteen bytes of lengths weigh too much.
const LONG_BLOCK_BYTES: usize = 1024;

/// The kind of a block, which its first byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stored = 0,
    Run = 1,
    Coded = 2,
}

/// The encoder on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Huffman(Code);

/// The decoder on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Unhuffman(Code);

codes! {
    enum Code {
        "x86_64": Bmi2,
        Tables,
        Portable,
    }
}

/// A queue's memory for the encoder.
#[derive(Debug)]
pub struct EncoderScratch(encode::Scratch);

/// A queue's memory for the decoder.
#[derive(Debug)]
pub struct DecoderScratch(Box<tables::Table>);

impl Kind {
    fn of(byte: u8) -> Result<Self, JobError> {
        match byte {
            0 => Ok(Self::Stored),
            1 => Ok(Self::Run),
            2 => Ok(Self::Coded),
            _ => Err(JobError::Malformed),
        }
    }
}

/// The number of streams of a coded block of `plain_bytes` bytes.
fn streams(plain_bytes: usize) -> usize {
    if plain_bytes < LONG_BLOCK_BYTES {
        1
    } else {
        STREAMS
    }
}

/// The longest output of an item of `item_len` bytes: all blocks stored.
fn encoded_bytes_max(item_len: usize) -> usize {
    item_len + item_len.div_ceil(BLOCK_BYTES_MAX) * HEADER_BYTES
}

impl Huffman {
    /// The paths there are, best first. All write the same bytes.
    pub const PATHS: &'static [Implementation] = &[Implementation::Bmi2, Implementation::Portable];

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If there is no such path, or this CPU lacks what it needs.
    pub fn new(path: Implementation) -> Result<Self, SetupError> {
        let path = path.among("huffman", Self::PATHS)?;
        Code::on("huffman", path).map(Self)
    }
}

impl Unhuffman {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = Code::ALL;

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If there is no such path, or this CPU lacks what it needs.
    pub fn new(path: Implementation) -> Result<Self, SetupError> {
        Code::on("unhuffman", path).map(Self)
    }
}

impl Kernel for Huffman {
    type Scratch = EncoderScratch;

    fn scratch(&self) -> EncoderScratch {
        EncoderScratch(encode::scratch())
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        encoded_bytes_max(item_len)
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut EncoderScratch,
    ) -> Result<(), JobError> {
        let scratch = &mut scratch.0;
        each(batch, out, |item, slot| match self.0 {
            #[cfg(target_arch = "x86_64")]
            Code::Bmi2(proof) => x86_64::encode(proof, item, slot, scratch),
            Code::Portable | Code::Tables => encode::encode(item, slot, scratch),
        });
        Ok(())
    }
}

impl Kernel for Unhuffman {
    type Scratch = DecoderScratch;

    fn scratch(&self) -> DecoderScratch {
        DecoderScratch(Box::new([0; _]))
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    /// Coded blocks expand eight times at most. Runs have no such bound.
    fn dst_len(&self, item_len: usize) -> usize {
        item_len.saturating_mul(8)
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut DecoderScratch,
    ) -> Result<(), JobError> {
        let table = &mut *scratch.0;
        each(batch, out, |item, slot| match self.0 {
            #[cfg(target_arch = "x86_64")]
            Code::Bmi2(proof) => x86_64::decode(proof, item, slot, table),
            Code::Tables => tables::decode(item, slot, table),
            Code::Portable => portable::decode(item, slot.len()).map(|plain| {
                slot[..plain.len()].copy_from_slice(&plain);
                plain.len()
            }),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
