//! What DEFLATE and INFLATE are run on, and what is right for them.

use std::sync::{Mutex, PoisonError};

use dpb_core::{DeflateFormat, JobError, OpSpec, workload};

use super::{compressed_bytes_max, portable};
use crate::storage::streams::{Decode, Encode, Streams};

/// Of the level at which a decoder's streams are made.
const LEVEL: u8 = 6;

/// BTYPE 11 (RFC 1951, 3.2.3) in a stream's first byte.
const RESERVED_TYPE: u8 = 0b110;

/// Text to compress.
pub(super) fn encoding(spec: &OpSpec, format: DeflateFormat) -> Streams {
    Streams::encoder(spec, "deflate", encoder(format), decoder(format))
}

/// Streams to decompress.
pub(super) fn decoding(spec: &OpSpec, format: DeflateFormat) -> Streams {
    let streams = Streams::decoder(spec, "deflate", encoder(format), decoder(format));
    match format {
        DeflateFormat::Raw => streams.spoilt_by(spoil_bare),
        DeflateFormat::Zlib | DeflateFormat::Gzip => streams,
    }
}

/// A bare stream with one flipped bit may be one that libdeflate takes and others refuse (the page says which); a block of
/// reserved type is refused by all.
fn spoil_bare(item: &mut Vec<u8>, seed: u64) {
    match (seed % 3, item.first_mut()) {
        (2, Some(first)) => *first |= RESERVED_TYPE,
        _ => workload::spoil(item, seed),
    }
}

/// Its tables are made once: they are larger than most items.
fn encoder(format: DeflateFormat) -> Encode {
    let encoder = Mutex::new(portable::Encoder::new(LEVEL));
    Box::new(move |plain| {
        let mut stream = vec![0; compressed_bytes_max(plain.len())];
        let mut encoder = encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let len = encoder.encode(format, plain, &mut stream)?;
        stream.truncate(len);
        Ok(stream)
    })
}

/// Takes memory as it is needed.
fn decoder(format: DeflateFormat) -> Decode {
    Box::new(move |stream, bytes_max| {
        let mut decoder = portable::Decoder::default();
        let mut len = stream.len().saturating_mul(4).saturating_add(64);
        loop {
            let mut plain = vec![0; len.min(bytes_max)];
            match decoder.decode(format, stream, &mut plain) {
                Err(JobError::DstTooShort) if len < bytes_max => len = len.saturating_mul(4),
                Err(error) => return Err(error),
                Ok(len) => {
                    plain.truncate(len);
                    return Ok(plain);
                }
            }
        }
    })
}
