//! What DEFLATE and INFLATE are run on, and what is right for them.

use std::sync::{Mutex, PoisonError};

use dpb_core::{DeflateFormat, Input, JobError, OpSpec, Right, SetupError, Workload};

use super::{compressed_bytes_max, foreign, portable};
use crate::input;
use crate::registry::PORTABLE;

/// Of the level at which a decoder's streams are made.
const LEVEL: u8 = 6;

/// Text and streams of it; the portable path's word counts. An encoder is free in what it writes, as long as it decodes.
pub(super) struct Streams {
    spec: OpSpec,
    format: DeflateFormat,
    /// A decoder's; made once, for its tables are larger than most items.
    encoder: Option<Mutex<portable::Encoder>>,
}

impl Streams {
    /// For either direction.
    pub(super) fn new(spec: &OpSpec) -> Result<Self, SetupError> {
        let (format, encoder) = match *spec {
            OpSpec::Deflate { format, .. } => (format, None),
            OpSpec::Inflate { format } => {
                let encoder = portable::Encoder::new(LEVEL);
                (format, Some(Mutex::new(encoder)))
            }
            _ => return Err(foreign(spec)),
        };
        Ok(Self {
            spec: spec.clone(),
            format,
            encoder,
        })
    }

    fn decodes(&self) -> bool {
        self.encoder.is_some()
    }
}

impl Workload for Streams {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        match self.decodes() {
            true => PORTABLE,
            false => "decoded back by cpu/portable",
        }
    }

    fn plain(&self, seed: u64, len: usize, count: usize) -> Input {
        input::text(seed, len, count)
    }

    fn feed(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let Some(encoder) = &self.encoder else {
            return Ok(plain.to_vec());
        };
        let mut stream = vec![0; compressed_bytes_max(plain.len())];
        let mut encoder = encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let len = encoder.encode(self.format, plain, &mut stream);
        stream.truncate(len.map_err(|error| error.to_string())?);
        Ok(stream)
    }

    fn describe(&self, plain: &str) -> String {
        match self.decodes() {
            true => format!("deflate of {plain}"),
            false => plain.to_owned(),
        }
    }

    fn slot_bytes(&self, plain_len: usize) -> Option<usize> {
        self.decodes().then_some(plain_len)
    }

    fn right(&self, item: &[u8], slot_bytes: usize) -> Right {
        match self.decodes() {
            true => decoded(self.format, item, slot_bytes).into(),
            false => Right::Several,
        }
    }

    fn approve(&self, item: &[u8], output: &[u8]) -> Result<(), String> {
        match decoded(self.format, output, item.len()) {
            Ok(plain) if plain == item => Ok(()),
            Ok(plain) => Err(format!(
                "decodes to {} other bytes than the {} given",
                plain.len(),
                item.len()
            )),
            Err(error) => Err(format!("does not decode: {error}")),
        }
    }
}

/// What `stream` decodes to, if that is not longer than `bytes_max`; takes memory as it is needed.
fn decoded(format: DeflateFormat, stream: &[u8], bytes_max: usize) -> Result<Vec<u8>, JobError> {
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
}
