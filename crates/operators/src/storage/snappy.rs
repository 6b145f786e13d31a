//! Snappy's raw format: LZ77 by bytes, with the plain length in front.
//!
//! The format is `format_description.txt` of the Snappy project (2011-10-05). A length is at most five bytes, and nothing follows
//! the last element.
//!
#![doc = include_str!("../../docs/snappy.md")]

mod portable;
mod words;

use dpb_core::{Batch, BatchOut, JobError, Kernel, OutputShape, SetupError, spec};
use snap::Error;
use snap::raw::{Decoder, Encoder, max_compress_len};

use super::each;
use super::repeats;
use super::streams::{Decode, Encode, Streams};
use crate::entry::{Entry, Library, library};
use crate::implementation::Implementation;

/// The registry's line for the encoder.
pub(crate) const SNAPPY: Entry = Entry {
    scenario: "storage",
    summary: "compresses each item to Snappy's raw format",
    output: "one raw stream per item, variable",
    source: "format_description.txt of Snappy, 2011-10-05",
    peers: &["snap", "snappy"],
    paths: Snappy::PATHS,
    libraries: &[SNAP],
    documentation: include_str!("../../docs/snappy.md"),
    ..Entry::of::<spec::Snappy>(
        |_, path| Ok(Box::new(Snappy::new(path)?)),
        |case| {
            let streams = Streams::encoder(&case.spec, "snappy", encoder(), decoder());
            Ok(Box::new(streams))
        },
    )
};

/// The registry's line for the decoder.
pub(crate) const UNSNAPPY: Entry = Entry {
    scenario: "storage",
    summary: "decodes one item of Snappy's raw format each",
    unit: "output byte",
    output: "the plain bytes of each item, variable; malformed or too long items are refused",
    source: "format_description.txt of Snappy, 2011-10-05",
    peers: &["snappy"],
    paths: Unsnappy::PATHS,
    libraries: &[SNAP],
    allocates: &[Implementation::Portable],
    documentation: include_str!("../../docs/snappy.md"),
    ..Entry::of::<spec::Unsnappy>(
        |_, path| Ok(Box::new(Unsnappy::new(path)?)),
        |case| {
            let streams = Streams::decoder(&case.spec, "snappy", encoder(), decoder());
            Ok(Box::new(streams))
        },
    )
};

const SNAP: (Implementation, Library) = (Implementation::Snap, library!("snap"));

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

/// The encoder on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Snappy {
    path: Implementation,
}

/// The decoder on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Unsnappy {
    path: Implementation,
}

/// A queue's memory for the encoder.
#[derive(Debug)]
pub enum EncoderScratch {
    /// The table of the encoder for speed.
    Words(Box<repeats::Table>),
    /// The library snap's encoder.
    Snap(Box<Encoder>),
    /// The portable encoder's table.
    Portable(Box<[u32; 1 << 12]>),
}

impl Snappy {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = &[
        Implementation::Words,
        Implementation::Snap,
        Implementation::Portable,
    ];

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn new(path: Implementation) -> Result<Self, SetupError> {
        let path = path.among("snappy", Self::PATHS)?;
        Ok(Self { path })
    }
}

impl Unsnappy {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = &[Implementation::Snap, Implementation::Portable];

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn new(path: Implementation) -> Result<Self, SetupError> {
        let path = path.among("unsnappy", Self::PATHS)?;
        Ok(Self { path })
    }
}

/// The longest output that any of the encoders makes of `item_len` bytes: the bound of Snappy's own implementation.
pub fn compressed_bytes_max(item_len: usize) -> usize {
    32 + item_len + item_len / 6
}

impl Kernel for Snappy {
    type Scratch = EncoderScratch;

    fn scratch(&self) -> EncoderScratch {
        match self.path {
            Implementation::Words => EncoderScratch::Words(Box::new([0; _])),
            Implementation::Snap => EncoderScratch::Snap(Box::new(Encoder::new())),
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
            // Here the library snap refuses too: its bound of the stream's length does not fit 32 bits.
            _ if max_compress_len(item.len()) == 0 => Err(JobError::TooLong),
            EncoderScratch::Portable(table) => portable::encode(item, slot, table),
            EncoderScratch::Words(seen) => words::encode(item, slot, seen),
            EncoderScratch::Snap(encoder) => encoder
                .compress(item, slot)
                .map_err(|_| JobError::DstTooShort),
        });
        Ok(())
    }
}

impl Kernel for Unsnappy {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    /// Room for a ratio of eight. The format's own bound is 21.
    fn dst_len(&self, item_len: usize) -> usize {
        item_len.saturating_mul(8).saturating_add(64)
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        each(batch, out, |item, slot| match self.path {
            Implementation::Snap => decode(item, slot),
            _ => portable::decode(item, slot.len()).map(|plain| {
                slot[..plain.len()].copy_from_slice(&plain);
                plain.len()
            }),
        });
        Ok(())
    }
}

/// The library's decoder.
fn decode(item: &[u8], slot: &mut [u8]) -> Result<usize, JobError> {
    let decoded = Decoder::new().decompress(item, slot);
    decoded.map_err(|error| match error {
        Error::BufferTooSmall { .. } => JobError::DstTooShort,
        _ => JobError::Malformed,
    })
}

/// Writes a plain length to the front of `slot`; says how many bytes it takes, at most ten.
fn put_plain_len(mut len: usize, slot: &mut [u8]) -> usize {
    let mut bytes = 0;
    while len >= 0x80 {
        slot[bytes] = len as u8 | 0x80;
        bytes += 1;
        len >>= 7;
    }
    slot[bytes] = len as u8;
    bytes + 1
}

/// The plain length in front of `item`, and what follows it: seven bits a byte, lowest first.
fn plain_len(item: &[u8]) -> Result<(usize, &[u8]), JobError> {
    let mut len = 0u64;
    for (at, &byte) in item.iter().take(5).enumerate() {
        len |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            let len = u32::try_from(len).map_err(|_| JobError::Malformed)?;
            return Ok((len as usize, &item[at + 1..]));
        }
    }
    Err(JobError::Malformed)
}

#[cfg(test)]
mod tests;
