//! What DOCA's engines compute.

/// A task of an engine, with what of its parameters the engine must agree to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Copy,
    Deflate,
    Inflate,
    Unlz4,
    Sha1,
    Sha256,
    Sha512,
    Encrypt128,
    Encrypt256,
    Decrypt128,
    Decrypt256,
    Match,
}

impl Kind {
    pub(super) const COUNT: usize = 12;

    /// In the order of their declaration.
    pub(super) const ALL: [Self; Self::COUNT] = [
        Self::Copy,
        Self::Deflate,
        Self::Inflate,
        Self::Unlz4,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Encrypt128,
        Self::Encrypt256,
        Self::Decrypt128,
        Self::Decrypt256,
        Self::Match,
    ];

    /// The engine's library, without `libdoca_`.
    pub(super) const fn engine(self) -> &'static str {
        match self {
            Self::Copy => "dma",
            Self::Deflate | Self::Inflate | Self::Unlz4 => "compress",
            Self::Sha1 | Self::Sha256 | Self::Sha512 => "sha",
            Self::Encrypt128 | Self::Encrypt256 | Self::Decrypt128 | Self::Decrypt256 => "aes_gcm",
            Self::Match => "regex",
        }
    }

    /// As it stands in the names of functions, from 2.5 on; of a search, which is not among tasks, nowhere.
    pub(super) const fn task(self) -> &'static str {
        match self {
            Self::Copy => "memcpy",
            Self::Deflate => "compress_deflate",
            Self::Inflate => "decompress_deflate",
            Self::Unlz4 => "decompress_lz4_block",
            Self::Sha1 | Self::Sha256 | Self::Sha512 => "hash",
            Self::Encrypt128 | Self::Encrypt256 => "encrypt",
            Self::Decrypt128 | Self::Decrypt256 => "decrypt",
            Self::Match => "search",
        }
    }

    /// The operator's name.
    pub(super) fn name(self) -> &'static str {
        let operator = self.operator();
        operator.split_once(' ').map_or(operator, |(name, _)| name)
    }

    /// The operator, with the parameter that makes it this one, if it takes one.
    pub(super) const fn operator(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Deflate => "deflate",
            Self::Inflate => "inflate",
            Self::Unlz4 => "unlz4",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Encrypt128 => "aes-gcm bits=128",
            Self::Encrypt256 => "aes-gcm bits=256",
            Self::Decrypt128 => "aes-gcm-decrypt bits=128",
            Self::Decrypt256 => "aes-gcm-decrypt bits=256",
            Self::Match => "rxpmatch",
        }
    }

    /// Bytes of a digest, if it is one.
    pub(super) const fn digest_bytes(self) -> Option<usize> {
        match self {
            Self::Sha1 => Some(20),
            Self::Sha256 => Some(32),
            Self::Sha512 => Some(64),
            _ => None,
        }
    }
}
