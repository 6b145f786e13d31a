//! DEFLATE and INFLATE (RFC 1951), bare or wrapped as zlib (RFC 1950) or gzip (RFC 1952).
//!
#![doc = include_str!("../../docs/deflate.md")]

mod container;
mod isal;
mod portable;
mod workload;

use dpb_core::{
    Batch, BatchOut, DeflateFormat, JobError, Kernel, OutputShape, SetupError, Unsupported, spec,
};
use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};

pub use isal::IsaL;

use super::each;
use crate::entry::{Entry, Library, library, own};
use crate::implementation::Implementation;

/// The registry's line for the encoder.
pub(crate) const DEFLATE: Entry = Entry {
    scenario: "storage",
    summary: "DEFLATE-compresses each item",
    output: "one stream per item, variable",
    source: "RFC 1951; wrapped: RFC 1950, RFC 1952",
    peers: &["zlib-rs", "isa-l", "libdeflate"],
    paths: Deflate::PATHS,
    partial: &[(Implementation::IsaL, "level=1..3")],
    serves: |spec, path| Deflate::serves(path, own::<spec::Deflate>(spec).level),
    libraries: LIBRARIES,
    documentation: include_str!("../../docs/deflate.md"),
    ..Entry::of::<spec::Deflate>(
        |spec, path| {
            let &spec::Deflate { level, format } = own(spec);
            Ok(Box::new(Deflate::new(path, level, format)?))
        },
        |case| {
            let format = own::<spec::Deflate>(&case.spec).format;
            Ok(Box::new(workload::encoding(&case.spec, format)))
        },
    )
};

/// The registry's line for the decoder.
pub(crate) const INFLATE: Entry = Entry {
    scenario: "storage",
    summary: "decompresses one DEFLATE stream per item",
    unit: "output byte",
    output: "the plain bytes of each item, variable; malformed or too long streams are refused",
    source: "RFC 1951; wrapped: RFC 1950, RFC 1952",
    peers: &["zlib-rs", "isa-l"],
    paths: Inflate::PATHS,
    libraries: INFLATE_LIBRARIES,
    documentation: include_str!("../../docs/deflate.md"),
    ..Entry::of::<spec::Inflate>(
        |spec, path| {
            Ok(Box::new(Inflate::new(
                path,
                own::<spec::Inflate>(spec).format,
            )?))
        },
        |case| {
            let format = own::<spec::Inflate>(&case.spec).format;
            Ok(Box::new(workload::decoding(&case.spec, format)))
        },
    )
};

const INFLATE_LIBRARIES: &[(Implementation, Library)] = &[
    (Implementation::Libdeflate, library!("libdeflater")),
    (Implementation::Portable, library!("miniz_oxide")),
];

const LIBRARIES: &[(Implementation, Library)] = &[
    INFLATE_LIBRARIES[0],
    INFLATE_LIBRARIES[1],
    (
        Implementation::IsaL,
        Library {
            name: "isa-l",
            version: IsaL::version,
        },
    ),
];

/// The encoder on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Deflate {
    path: Implementation,
    level: u8,
    format: DeflateFormat,
}

/// The decoder on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Inflate {
    path: Implementation,
    format: DeflateFormat,
}

/// One queue's encoder, its tables allocated.
#[allow(missing_debug_implementations)]
pub enum EncoderScratch {
    /// The library ISA-L's.
    IsaL(isal::Encoder),
    /// The library libdeflate's.
    Libdeflate(Compressor),
    /// The library miniz_oxide's.
    Portable(Box<portable::Encoder>),
}

/// One queue's decoder, its tables allocated.
#[allow(missing_debug_implementations)]
pub enum DecoderScratch {
    /// The library libdeflate's.
    Libdeflate(Decompressor),
    /// The library miniz_oxide's.
    Portable(Box<portable::Decoder>),
}

impl Deflate {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = &[
        Implementation::IsaL,
        Implementation::Libdeflate,
        Implementation::Portable,
    ];

    /// Makes the encoder on the code path `path`, at `level` 1 to 9.
    ///
    /// # Errors
    /// If DEFLATE has no such path, the path is not here or has no such level, or the level is out of range.
    pub fn new(path: Implementation, level: u8, format: DeflateFormat) -> Result<Self, SetupError> {
        if !(1..=9).contains(&level) {
            return Err(SetupError::Parameter(format!(
                "level={level}: not from 1 to 9"
            )));
        }
        let path = path.among("deflate", Self::PATHS)?;
        if !path.is_available() {
            return Err(path.missing("deflate", Self::PATHS));
        }
        if !Self::serves(path, level) {
            let reason = format!("level={level}: {path} has none above {}", IsaL::LEVEL_MAX);
            return Err(SetupError::Unsupported(Unsupported { reason }));
        }
        Ok(Self {
            path,
            level,
            format,
        })
    }

    /// True if a path has this level. ISA-L's levels 1 to 3 are faster than libdeflate at any level, and their outputs about zlib's at
    /// the same level; libdeflate's from 4 on are smaller than any of ISA-L's.
    fn serves(path: Implementation, level: u8) -> bool {
        path != Implementation::IsaL || level <= IsaL::LEVEL_MAX
    }
}

impl Inflate {
    /// The paths there are, best first. ISA-L's decoder is none: libdeflate's is as fast or faster on text.
    pub const PATHS: &'static [Implementation] =
        &[Implementation::Libdeflate, Implementation::Portable];

    /// Makes the decoder on the code path `path`.
    ///
    /// # Errors
    /// If INFLATE has no such path.
    pub fn new(path: Implementation, format: DeflateFormat) -> Result<Self, SetupError> {
        let path = path.among("inflate", Self::PATHS)?;
        Ok(Self { path, format })
    }
}

impl Kernel for Deflate {
    type Scratch = EncoderScratch;

    fn scratch(&self) -> EncoderScratch {
        match self.path {
            Implementation::IsaL => {
                let library = IsaL::detect().expect("`new` has found it");
                EncoderScratch::IsaL(isal::Encoder::new(library, self.level))
            }
            Implementation::Libdeflate => {
                let level = CompressionLvl::new(i32::from(self.level)).expect("1 to 9");
                EncoderScratch::Libdeflate(Compressor::new(level))
            }
            _ => EncoderScratch::Portable(Box::new(portable::Encoder::new(self.level))),
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
        let format = self.format;
        each(batch, out, |item, slot| match scratch {
            EncoderScratch::Portable(encoder) => encoder.encode(format, item, slot),
            EncoderScratch::IsaL(encoder) => {
                let about = (encoder.check(format, item), item.len());
                let body = |slot: &mut [u8]| encoder.deflate(item, slot);
                container::wrap(format, self.level, about, slot, body)
            }
            EncoderScratch::Libdeflate(encoder) => match format {
                DeflateFormat::Raw => encoder.deflate_compress(item, slot),
                DeflateFormat::Zlib => encoder.zlib_compress(item, slot),
                DeflateFormat::Gzip => encoder.gzip_compress(item, slot),
            }
            .map_err(|_| JobError::DstTooShort),
        });
        Ok(())
    }
}

impl Kernel for Inflate {
    type Scratch = DecoderScratch;

    fn scratch(&self) -> DecoderScratch {
        match self.path {
            Implementation::Libdeflate => DecoderScratch::Libdeflate(Decompressor::new()),
            _ => DecoderScratch::Portable(Box::default()),
        }
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    /// Room for a ratio of eight, more than text and tables reach at level 9. The format's own bound is 1032.
    fn dst_len(&self, item_len: usize) -> usize {
        item_len.saturating_mul(8).saturating_add(64)
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut DecoderScratch,
    ) -> Result<(), JobError> {
        let format = self.format;
        each(batch, out, |item, slot| match scratch {
            DecoderScratch::Portable(decoder) => decoder.decode(format, item, slot),
            DecoderScratch::Libdeflate(decoder) => match format {
                DeflateFormat::Raw => decoder.deflate_decompress(item, slot),
                DeflateFormat::Zlib => decoder.zlib_decompress(item, slot),
                DeflateFormat::Gzip => decoder.gzip_decompress(item, slot),
            }
            .map_err(|error| match error {
                DecompressionError::InsufficientSpace => JobError::DstTooShort,
                DecompressionError::BadData => JobError::Malformed,
            }),
        });
        Ok(())
    }
}

/// The longest stream that any of the encoders makes of `item_len` bytes, in any format: zlib's conservative bound as miniz
/// states it, which allows for 10 % of growth, plus the longest header and trailer.
pub fn compressed_bytes_max(item_len: usize) -> usize {
    let growing = item_len / 10;
    let stored_blocks = (item_len / (31 * 1024) + 1) * 5;
    item_len + growing.max(stored_blocks) + 128
}
