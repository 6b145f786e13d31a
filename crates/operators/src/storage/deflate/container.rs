//! Writing and checking what wraps a stream, as the encoders and decoders of our own need it.

use dpb_core::{DeflateFormat, JobError};

use crate::network::crc::crc32;

/// The check of `plain`, by the definitions.
pub(super) fn check(format: DeflateFormat, plain: &[u8]) -> u32 {
    match format {
        DeflateFormat::Raw => 0,
        DeflateFormat::Zlib => adler32(plain),
        DeflateFormat::Gzip => crc32(plain),
    }
}

/// Compares what follows the stream with what it decoded to.
pub(super) fn check_trailer(
    format: DeflateFormat,
    plain: &[u8],
    rest: &[u8],
) -> Result<(), JobError> {
    let trailer = format.trailer(check(format, plain), plain.len());
    match rest.starts_with(&trailer) {
        true => Ok(()),
        false => Err(JobError::Malformed),
    }
}

/// Writes a header or a trailer; says how long it is.
pub(super) fn put(slot: &mut [u8], bytes: &[u8]) -> Result<usize, JobError> {
    slot.get_mut(..bytes.len())
        .ok_or(JobError::DstTooShort)?
        .copy_from_slice(bytes);
    Ok(bytes.len())
}

/// Adler-32 (RFC 1950, 9).
fn adler32(data: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    let (a, b) = data.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % MODULUS;
        (a, (b + a) % MODULUS)
    });
    b << 16 | a
}
