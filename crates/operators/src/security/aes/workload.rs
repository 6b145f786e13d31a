//! What AES is run on, and what is right for it.

use dpb_core::random::SplitMix64;
use dpb_core::{Direction, JobError, OpSpec, Right, SetupError, Workload, match_spec, spec};

use super::Aes;
use super::form::{Form, Mode};
use crate::entry::PORTABLE;
use crate::implementation::Implementation;

/// Items that carry a text, and the portable path, whose word counts.
pub(super) struct Texts {
    spec: OpSpec,
    form: Form,
    oracle: Aes,
    /// The other way, which makes a decrypter's items.
    encrypt: Aes,
}

impl Texts {
    pub(super) fn new(spec: &OpSpec) -> Result<Self, SetupError> {
        Ok(Self {
            spec: spec.clone(),
            form: Form::of(spec)?.0,
            oracle: Aes::new(spec, Implementation::Portable)?,
            encrypt: Aes::new(&encrypting(spec), Implementation::Portable)?,
        })
    }
}

impl Workload for Texts {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    /// What stands in front of the text is drawn from the text, so that the same text makes the same item.
    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let mut random = SplitMix64::new(plain.len() as u64);
        for word in plain.chunks(8).take(64) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            random = SplitMix64::new(random.next_u64() ^ u64::from_le_bytes(bytes));
        }
        let mut item = vec![0; self.form.head_bytes()];
        for word in item.chunks_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes()[..word.len()]);
        }
        item.extend(self.form.text(plain));
        if self.form.direction == Direction::Encrypt {
            return Ok(item);
        }
        let output = self.encrypt.one(&item).map_err(|error| error.to_string())?;
        item.truncate(self.form.head_bytes());
        item.extend(output);
        Ok(item)
    }

    fn describe(&self, plain: &str) -> String {
        let head = match self.form.mode {
            Mode::Gcm => "nonce and additional data",
            Mode::Ctr => "counter block",
            Mode::Cbc => "initialisation vector",
            Mode::Xts => "tweak",
        };
        match self.form.direction {
            Direction::Encrypt => format!("{head}, {plain}"),
            Direction::Decrypt => format!("{head}, ciphertext of {plain}"),
        }
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        let right: Result<Vec<u8>, JobError> = self.oracle.one(item);
        right.into()
    }
}

/// The same, from plain text to ciphertext.
fn encrypting(spec: &OpSpec) -> OpSpec {
    let direction = Direction::Encrypt;
    match_spec!(spec, {
        spec::AesGcm { aad_bytes, key, .. } => {
            let (aad_bytes, key) = (*aad_bytes, key.clone());
            spec::AesGcm { direction, aad_bytes, key }.into()
        },
        spec::AesCbc { key, .. } => spec::AesCbc { direction, key: key.clone() }.into(),
        spec::AesXts { key, .. } => spec::AesXts { direction, key: key.clone() }.into(),
    } else {
        spec.clone()
    })
}
