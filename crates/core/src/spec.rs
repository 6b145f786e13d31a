//! What is computed, as data.

use std::fmt;

/// An operator and its parameters. Closed data: comparable, printable, matched exhaustively inside the workspace.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OpSpec {
    /// CRC-32C (Castagnoli, RFC 3720 appendix B.4). Output: four bytes, little endian, per item.
    Crc32c,
    /// SHA-256 (FIPS 180-4). Output: thirty-two bytes per item.
    Sha256,
    /// DEFLATE compression (RFC 1951; wrapped as RFC 1950 or RFC 1952). Output: variable.
    Deflate {
        /// 1 (fast) to 9 (small).
        level: u8,
        /// What wraps the stream.
        format: DeflateFormat,
    },
    /// DEFLATE decompression. Output: variable; refuses what is malformed or longer than its slot.
    Inflate {
        /// What wraps the stream.
        format: DeflateFormat,
    },
}

/// What wraps a DEFLATE stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeflateFormat {
    /// RFC 1951, no header.
    Raw,
    /// RFC 1950.
    Zlib,
    /// RFC 1952.
    Gzip,
}

impl OpSpec {
    /// The name as written on a command line and in records: `crc32c`, `sha256`, `deflate`, `inflate`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Sha256 => "sha256",
            Self::Deflate { .. } => "deflate",
            Self::Inflate { .. } => "inflate",
        }
    }

    /// The operator that turns outputs back into inputs, where two right implementations may give different outputs:
    /// an encoder's decoder. Outputs are then checked by way back, not byte by byte.
    pub fn undone_by(&self) -> Option<Self> {
        match *self {
            Self::Deflate { format, .. } => Some(Self::Inflate { format }),
            Self::Crc32c | Self::Sha256 | Self::Inflate { .. } => None,
        }
    }

    /// The operator that makes valid inputs, where not every input is valid: a decoder's encoder.
    pub fn fed_by(&self) -> Option<Self> {
        match *self {
            Self::Inflate { format } => Some(Self::Deflate { level: 6, format }),
            Self::Crc32c | Self::Sha256 | Self::Deflate { .. } => None,
        }
    }
}

impl fmt::Display for OpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
