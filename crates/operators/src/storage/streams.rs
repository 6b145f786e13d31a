//! What encoders and decoders of any format are run on, and what is right for them.

use dpb_core::{Input, JobError, OpSpec, Right, Workload, workload};

use crate::entry::PORTABLE;
use crate::input;

/// Text and streams of it; the portable path's word counts. An encoder is free in what it writes, as long as it decodes.
pub(super) struct Streams {
    spec: OpSpec,
    /// The name of a stream's format.
    format: &'static str,
    /// The portable path.
    encode: Encode,
    decode: Decode,
    decodes: bool,
    spoil: fn(&mut Vec<u8>, u64),
}

/// A stream of these plain bytes.
pub(super) type Encode = Box<dyn Fn(&[u8]) -> Result<Vec<u8>, JobError> + Send + Sync>;
/// Gives the plain bytes of a stream, if they are at most as many as the second argument says.
pub(super) type Decode = Box<dyn Fn(&[u8], usize) -> Result<Vec<u8>, JobError> + Send + Sync>;

impl Streams {
    /// For the encoder `spec`.
    pub(super) fn encoder(
        spec: &OpSpec,
        format: &'static str,
        encode: Encode,
        decode: Decode,
    ) -> Self {
        Self {
            spec: spec.clone(),
            format,
            encode,
            decode,
            decodes: false,
            spoil: workload::spoil,
        }
    }

    /// For the decoder `spec`.
    pub(super) fn decoder(
        spec: &OpSpec,
        format: &'static str,
        encode: Encode,
        decode: Decode,
    ) -> Self {
        Self {
            decodes: true,
            ..Self::encoder(spec, format, encode, decode)
        }
    }

    /// The same with a way of its own to make items worse.
    #[cfg(any(feature = "deflate", feature = "lz4"))]
    pub(super) fn spoilt_by(self, spoil: fn(&mut Vec<u8>, u64)) -> Self {
        Self { spoil, ..self }
    }
}

impl Workload for Streams {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        match self.decodes {
            true => PORTABLE,
            false => "decoded back by cpu/portable",
        }
    }

    fn plain(&self, seed: u64, len: usize, count: usize) -> Input {
        input::text(seed, len, count)
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        match self.decodes {
            true => (self.encode)(plain).map_err(|error| error.to_string()),
            false => Ok(plain.to_vec()),
        }
    }

    fn describe(&self, plain: &str) -> String {
        match self.decodes {
            true => format!("{} of {plain}", self.format),
            false => plain.to_owned(),
        }
    }

    fn slot_bytes(&self, plain_len: usize) -> Option<usize> {
        self.decodes.then_some(plain_len)
    }

    fn right(&self, item: &[u8], slot_bytes: usize) -> Right {
        match self.decodes {
            true => (self.decode)(item, slot_bytes).into(),
            false => Right::AnyValid,
        }
    }

    fn spoil(&self, item: &mut Vec<u8>, seed: u64) {
        (self.spoil)(item, seed);
    }

    fn approve(&self, item: &[u8], output: &[u8]) -> Result<(), String> {
        match (self.decode)(output, item.len()) {
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
