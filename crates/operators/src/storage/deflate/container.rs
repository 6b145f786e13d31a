//! What wraps a DEFLATE stream: zlib (RFC 1950) and gzip (RFC 1952), as the oracle needs them.

use dpb_core::{DeflateFormat, JobError};

use crate::network::crc::crc32;

const GZIP_HEADER_BYTES: usize = 10;
const ZLIB_HEADER_BYTES: usize = 2;

/// Bits of gzip's FLG (RFC 1952, 2.3.1); FTEXT says nothing that a decoder needs.
const FHCRC: u8 = 2;
const FEXTRA: u8 = 4;
const FNAME: u8 = 8;
const FCOMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;

/// Writes the header; says how long it is.
pub(super) fn write_header(
    format: DeflateFormat,
    level: u8,
    slot: &mut [u8],
) -> Result<usize, JobError> {
    match format {
        DeflateFormat::Raw => Ok(0),
        DeflateFormat::Zlib => {
            // Method 8, a window of 32 KiB; FLEVEL; FCHECK makes the pair a multiple of 31.
            let header = match level {
                1 => [0x78, 0x01],
                2..=5 => [0x78, 0x5e],
                6 => [0x78, 0x9c],
                _ => [0x78, 0xda],
            };
            put(slot, &header)
        }
        DeflateFormat::Gzip => {
            let xfl = match level {
                1 => 4,
                9 => 2,
                _ => 0,
            };
            const OS_UNKNOWN: u8 = 255;
            put(slot, &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, xfl, OS_UNKNOWN])
        }
    }
}

/// The check of `plain`, by the definitions.
pub(super) fn check(format: DeflateFormat, plain: &[u8]) -> u32 {
    match format {
        DeflateFormat::Raw => 0,
        DeflateFormat::Zlib => adler32(plain),
        DeflateFormat::Gzip => crc32(plain),
    }
}

/// Writes the trailer of `plain_bytes` with this check; says how long it is.
pub(super) fn write_trailer(
    format: DeflateFormat,
    check: u32,
    plain_bytes: usize,
    slot: &mut [u8],
) -> Result<usize, JobError> {
    match format {
        DeflateFormat::Raw => Ok(0),
        DeflateFormat::Zlib => put(slot, &check.to_be_bytes()),
        DeflateFormat::Gzip => put(slot, &gzip_trailer(check, plain_bytes)),
    }
}

/// Where the DEFLATE stream begins.
pub(super) fn header_len(format: DeflateFormat, stream: &[u8]) -> Result<usize, JobError> {
    match format {
        DeflateFormat::Raw => Some(0),
        DeflateFormat::Zlib => zlib_header_len(stream),
        DeflateFormat::Gzip => gzip_header_len(stream),
    }
    .ok_or(JobError::Malformed)
}

/// Compares the checks that follow the stream with what it decoded to.
pub(super) fn check_trailer(
    format: DeflateFormat,
    plain: &[u8],
    rest: &[u8],
) -> Result<(), JobError> {
    let holds = match format {
        DeflateFormat::Raw => true,
        DeflateFormat::Zlib => rest.starts_with(&adler32(plain).to_be_bytes()),
        DeflateFormat::Gzip => rest.starts_with(&gzip_trailer(crc32(plain), plain.len())),
    };
    if holds {
        Ok(())
    } else {
        Err(JobError::Malformed)
    }
}

fn zlib_header_len(stream: &[u8]) -> Option<usize> {
    const FDICT: u8 = 0x20;
    let &[cmf, flg, ..] = stream else { return None };
    let deflate = cmf & 0xf == 8 && cmf >> 4 <= 7;
    let checked = (u16::from(cmf) << 8 | u16::from(flg)) % 31 == 0;
    (deflate && checked && flg & FDICT == 0).then_some(ZLIB_HEADER_BYTES)
}

fn gzip_header_len(stream: &[u8]) -> Option<usize> {
    let &[0x1f, 0x8b, 8, flags, ..] = stream else {
        return None;
    };
    if flags & RESERVED != 0 {
        return None;
    }
    let mut at = GZIP_HEADER_BYTES;
    if flags & FEXTRA != 0 {
        let len = stream.get(at..at + 2)?;
        at += 2 + usize::from(u16::from_le_bytes([len[0], len[1]]));
    }
    for text in [FNAME, FCOMMENT] {
        if flags & text != 0 {
            at += 1 + stream.get(at..)?.iter().position(|byte| *byte == 0)?;
        }
    }
    if flags & FHCRC != 0 {
        at += 2;
    }
    (at <= stream.len()).then_some(at)
}

/// CRC-32 and length, both little endian.
fn gzip_trailer(crc: u32, plain_bytes: usize) -> [u8; 8] {
    let mut trailer = [0; 8];
    trailer[..4].copy_from_slice(&crc.to_le_bytes());
    // Modulo 2^32, as the RFC says.
    trailer[4..].copy_from_slice(&(plain_bytes as u32).to_le_bytes());
    trailer
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

fn put(slot: &mut [u8], bytes: &[u8]) -> Result<usize, JobError> {
    slot.get_mut(..bytes.len())
        .ok_or(JobError::DstTooShort)?
        .copy_from_slice(bytes);
    Ok(bytes.len())
}
