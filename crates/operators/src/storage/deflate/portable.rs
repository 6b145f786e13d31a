//! The oracle: miniz_oxide, safe Rust without intrinsics, inside containers of our own.

use dpb_core::{DeflateFormat, JobError};
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::container;

/// An encoder with its tables.
#[allow(missing_debug_implementations)]
pub struct Encoder {
    compressor: CompressorOxide,
    level: u8,
}

/// A decoder with its tables.
#[derive(Default)]
#[allow(missing_debug_implementations)]
pub struct Decoder {
    decompressor: DecompressorOxide,
}

impl Encoder {
    /// At `level` 1 to 9.
    pub(super) fn new(level: u8) -> Self {
        /// A negative window means a stream without zlib's header.
        const RAW_WINDOW_BITS: i32 = -15;
        let flags = create_comp_flags_from_zip_params(i32::from(level), RAW_WINDOW_BITS, 0);
        Self {
            compressor: CompressorOxide::new(flags),
            level,
        }
    }

    /// Writes one stream; says how long it is.
    pub(super) fn encode(
        &mut self,
        format: DeflateFormat,
        plain: &[u8],
        slot: &mut [u8],
    ) -> Result<usize, JobError> {
        let about = (container::check(format, plain), plain.len());
        container::wrap(format, self.level, about, slot, |slot| {
            self.compressor.reset();
            let (status, _, body) = compress(&mut self.compressor, plain, slot, TDEFLFlush::Finish);
            match status {
                TDEFLStatus::Done => Ok(body),
                _ => Err(JobError::DstTooShort),
            }
        })
    }
}

impl Decoder {
    /// Decodes one stream; says how many bytes it gave. What follows the stream is not looked at.
    pub(super) fn decode(
        &mut self,
        format: DeflateFormat,
        stream: &[u8],
        slot: &mut [u8],
    ) -> Result<usize, JobError> {
        let header = format.header_bytes(stream).ok_or(JobError::Malformed)?;
        let body = &stream[header..];
        self.decompressor.init();
        let (status, read, written) = decompress(
            &mut self.decompressor,
            body,
            slot,
            0,
            TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
        );
        match status {
            TINFLStatus::Done => {
                container::check_trailer(format, &slot[..written], &body[read..])?;
                Ok(written)
            }
            TINFLStatus::HasMoreOutput => Err(JobError::DstTooShort),
            _ => Err(JobError::Malformed),
        }
    }
}
