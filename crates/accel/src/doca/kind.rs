//! What DOCA's engines compute, and what they are given for it.

use dpb_core::{BlockLoss, DeflateFormat, ErasureCode, Material};

use super::rules::Translated;

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
    ErasureEncode,
    ErasureRecover,
    Match,
}

/// Parameters that a kind of work is given besides its items.
#[derive(Clone, Debug)]
pub(super) enum EngineParameters {
    Nothing,
    /// A key to encrypt or decrypt with.
    Key(Material),
    /// The format that wraps the streams.
    Format(DeflateFormat),
    /// The code whose parity is computed.
    Code(ErasureCode),
    /// The blocks to recover.
    Loss(BlockLoss),
    /// The rules to search for.
    Rules(Translated),
}

impl Kind {
    pub(super) const COUNT: usize = 14;

    /// All kinds, in the order of their declaration.
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
        Self::ErasureEncode,
        Self::ErasureRecover,
        Self::Match,
    ];

    /// The engine's library, without `libdoca_`.
    pub(super) const fn libdoca(self) -> &'static str {
        match self {
            Self::ErasureEncode | Self::ErasureRecover => "erasure_coding",
            other => other.engine(),
        }
    }

    /// The engine, as it stands in the names of functions.
    pub(super) const fn engine(self) -> &'static str {
        match self {
            Self::Copy => "dma",
            Self::Deflate | Self::Inflate | Self::Unlz4 => "compress",
            Self::Sha1 | Self::Sha256 | Self::Sha512 => "sha",
            Self::Encrypt128 | Self::Encrypt256 | Self::Decrypt128 | Self::Decrypt256 => "aes_gcm",
            Self::ErasureEncode | Self::ErasureRecover => "ec",
            Self::Match => "regex",
        }
    }

    /// The task's part in the names of functions from 2.5 on. A search is no task and has none.
    pub(super) const fn task(self) -> &'static str {
        match self {
            Self::Copy => "memcpy",
            Self::Deflate => "compress_deflate",
            Self::Inflate => "decompress_deflate",
            Self::Unlz4 => "decompress_lz4_block",
            Self::Sha1 | Self::Sha256 | Self::Sha512 => "hash",
            Self::Encrypt128 | Self::Encrypt256 => "encrypt",
            Self::Decrypt128 | Self::Decrypt256 => "decrypt",
            Self::ErasureEncode => "create",
            Self::ErasureRecover => "recover",
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
            Self::ErasureEncode => "erasure-encode",
            Self::ErasureRecover => "erasure-recover",
            Self::Match => "rxpmatch",
        }
    }

    /// Whether the engine decides how long an output is, so that it may run out of room.
    pub(super) const fn is_stream(self) -> bool {
        matches!(self, Self::Deflate | Self::Inflate | Self::Unlz4)
    }

    /// Whether an item is several blocks, of which the device bounds each.
    pub(super) const fn has_blocks(self) -> bool {
        matches!(self, Self::ErasureEncode | Self::ErasureRecover)
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

impl EngineParameters {
    /// The key, or the rules as text, if it is either.
    pub(super) fn material(&self) -> &[u8] {
        match self {
            Self::Key(key) => key.bytes(),
            Self::Rules(rules) => &rules.text,
            _ => &[],
        }
    }

    /// The number of rules.
    pub(super) fn rules(&self) -> usize {
        match self {
            Self::Rules(rules) => rules.rules,
            _ => 0,
        }
    }

    /// The format that wraps streams, for kinds that have streams.
    pub(super) const fn format(&self) -> DeflateFormat {
        match self {
            Self::Format(format) => *format,
            _ => DeflateFormat::Raw,
        }
    }

    /// The code whose data blocks, or as many others, are an item, and how many blocks come of it.
    pub(super) fn coded(&self) -> Option<(ErasureCode, usize)> {
        match self {
            Self::Code(code) => Some((*code, code.parity_blocks())),
            Self::Loss(loss) => Some((loss.code(), loss.blocks())),
            _ => None,
        }
    }

    /// Bytes of the blocks that come of an item. `None` if it is not such blocks.
    pub(super) fn coded_bytes(&self, item_len: usize) -> Option<usize> {
        let (code, coded) = self.coded()?;
        Some(code.block_bytes(item_len)? * coded)
    }
}
