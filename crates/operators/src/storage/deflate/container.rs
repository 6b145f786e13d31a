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

/// Wraps the stream of `plain_bytes` bytes with this `check` that `body` writes into the rest of the slot; says how long it all is.
pub(super) fn wrap(
    format: DeflateFormat,
    level: u8,
    (check, plain_bytes): (u32, usize),
    slot: &mut [u8],
    body: impl FnOnce(&mut [u8]) -> Result<usize, JobError>,
) -> Result<usize, JobError> {
    let header = put(slot, format.header(level))?;
    let end = header + body(&mut slot[header..])?;
    let trailer = format.trailer(check, plain_bytes);
    Ok(end + put(&mut slot[end..], &trailer)?)
}

/// Writes a header or a trailer; says how long it is.
fn put(slot: &mut [u8], bytes: &[u8]) -> Result<usize, JobError> {
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
