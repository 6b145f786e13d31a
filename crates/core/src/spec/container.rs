//! What wraps a DEFLATE stream: zlib (RFC 1950) and gzip (RFC 1952). What checks it, Adler-32 and CRC-32, others compute.

use std::ops::Deref;

use super::DeflateFormat;

/// Bits of gzip's FLG (RFC 1952, 2.3.1); FTEXT says nothing that a decoder needs.
const FHCRC: u8 = 2;
const FEXTRA: u8 = 4;
const FNAME: u8 = 8;
const FCOMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;
/// gzip's OS where none is meant.
const OS_UNKNOWN: u8 = 255;

/// The bytes behind a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateTrailer {
    bytes: [u8; 8],
    len: usize,
}

impl DeflateFormat {
    /// The bytes in front of a stream that an encoder of this level writes: of zlib a window of 32 KiB, of gzip no name, no time
    /// and no system. Decoders take [longer ones](Self::header_bytes) too.
    pub const fn header(self, level: u8) -> &'static [u8] {
        match (self, level) {
            (Self::Raw, _) => &[],
            // Method 8; FLEVEL; FCHECK makes the pair a multiple of 31.
            (Self::Zlib, 1) => &[0x78, 0x01],
            (Self::Zlib, 2..=5) => &[0x78, 0x5e],
            (Self::Zlib, 6) => &[0x78, 0x9c],
            (Self::Zlib, _) => &[0x78, 0xda],
            // XFL says whether it was the fastest or the smallest.
            (Self::Gzip, 1) => &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, OS_UNKNOWN],
            (Self::Gzip, 9) => &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, OS_UNKNOWN],
            (Self::Gzip, _) => &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, OS_UNKNOWN],
        }
    }

    /// Bytes in front of the stream in what is `wrapped`. `None` if it does not start as the format does, or with what no decoder
    /// here has: a preset dictionary, flags of a later format.
    pub fn header_bytes(self, wrapped: &[u8]) -> Option<usize> {
        match self {
            Self::Raw => Some(0),
            Self::Zlib => zlib_header_bytes(wrapped),
            Self::Gzip => gzip_header_bytes(wrapped),
        }
    }

    /// Bytes behind a stream.
    pub const fn trailer_bytes(self) -> usize {
        match self {
            Self::Raw => 0,
            Self::Zlib => 4,
            Self::Gzip => 8,
        }
    }

    /// The bytes behind the stream of `plain_bytes` bytes with this `check`, their Adler-32 (zlib) or CRC-32 (gzip).
    pub fn trailer(self, check: u32, plain_bytes: usize) -> DeflateTrailer {
        let mut bytes = [0; 8];
        match self {
            Self::Raw => {}
            Self::Zlib => bytes[..4].copy_from_slice(&check.to_be_bytes()),
            Self::Gzip => {
                bytes[..4].copy_from_slice(&check.to_le_bytes());
                // Modulo 2^32, as the RFC says.
                bytes[4..].copy_from_slice(&(plain_bytes as u32).to_le_bytes());
            }
        }
        DeflateTrailer {
            bytes,
            len: self.trailer_bytes(),
        }
    }
}

impl Deref for DeflateTrailer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn zlib_header_bytes(wrapped: &[u8]) -> Option<usize> {
    const FDICT: u8 = 0x20;
    let &[cmf, flg, ..] = wrapped else {
        return None;
    };
    let is_deflate = cmf & 0xf == 8 && cmf >> 4 <= 7;
    let is_checked = (u16::from(cmf) << 8 | u16::from(flg)).is_multiple_of(31);
    (is_deflate && is_checked && flg & FDICT == 0).then_some(2)
}

fn gzip_header_bytes(wrapped: &[u8]) -> Option<usize> {
    let &[0x1f, 0x8b, 8, flags, ..] = wrapped else {
        return None;
    };
    if flags & RESERVED != 0 {
        return None;
    }
    let mut at = 10;
    if flags & FEXTRA != 0 {
        let len = wrapped.get(at..at + 2)?;
        at += 2 + usize::from(u16::from_le_bytes([len[0], len[1]]));
    }
    for text in [FNAME, FCOMMENT] {
        if flags & text != 0 {
            at += 1 + wrapped.get(at..)?.iter().position(|byte| *byte == 0)?;
        }
    }
    if flags & FHCRC != 0 {
        at += 2;
    }
    (at <= wrapped.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_long_as_it_was_written() {
        for format in [DeflateFormat::Raw, DeflateFormat::Zlib, DeflateFormat::Gzip] {
            for level in 1..=9 {
                let header = format.header(level);
                assert_eq!(
                    format.header_bytes(header),
                    Some(header.len()),
                    "{format:?} {level}"
                );
            }
        }
    }

    /// RFC 1952, 2.3: extra field, name, comment and header check, in this order.
    #[test]
    fn gzips_optional_fields_are_skipped() {
        let gzip = DeflateFormat::Gzip;
        let fixed = |flags| [0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3];
        let parts: [(u8, &[u8]); 4] = [
            (FEXTRA, &[3, 0, 9, 9, 9]),
            (FNAME, b"name\0"),
            (FCOMMENT, b"\0"),
            (FHCRC, &[1, 2]),
        ];
        for chosen in 0..16 {
            let is_chosen = |i: &usize| chosen >> i & 1 == 1;
            let of = |i: usize| parts[i];
            let flags = (0..4)
                .filter(is_chosen)
                .map(of)
                .fold(1, |flags, (flag, _)| flags | flag);
            let mut header = fixed(flags).to_vec();
            header.extend(
                (0..4)
                    .filter(is_chosen)
                    .map(of)
                    .flat_map(|(_, bytes)| bytes),
            );
            let len = header.len();
            assert_eq!(gzip.header_bytes(&header), Some(len), "{chosen:04b}");
            assert_eq!(gzip.header_bytes(&header[..len - 1]), None, "{chosen:04b}");
            header.extend(*b"behind it\0");
            assert_eq!(gzip.header_bytes(&header), Some(len), "{chosen:04b}");
        }
        assert_eq!(gzip.header_bytes(&fixed(0x20)), None);
        assert_eq!(gzip.header_bytes(&fixed(FEXTRA)), None);
    }

    #[test]
    fn what_no_decoder_here_has_is_refused() {
        let zlib = DeflateFormat::Zlib;
        // FDICT, with the FCHECK that goes with it.
        assert_eq!(zlib.header_bytes(&[0x78, 0x20]), None);
        assert_eq!(zlib.header_bytes(&[0x78, 0x02]), None);
        assert_eq!(zlib.header_bytes(&[0x79, 0x01]), None);
        assert_eq!(zlib.header_bytes(&[0x78]), None);
    }

    /// Adler-32 is written most significant byte first, CRC-32 and length least.
    #[test]
    fn trailers_are_those_of_the_rfcs() {
        assert!(DeflateFormat::Raw.trailer(7, 9).is_empty());
        assert_eq!(*DeflateFormat::Zlib.trailer(0x0102_0304, 9), [1, 2, 3, 4]);
        let gzip = DeflateFormat::Gzip.trailer(0x0102_0304, 0x0a0b);
        assert_eq!(*gzip, [4, 3, 2, 1, 0x0b, 0x0a, 0, 0]);
    }
}
