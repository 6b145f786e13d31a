//! GCM by AWS-LC.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use dpb_core::{Batch, BatchOut, Direction, JobError, SetupError};

use super::Code;
use super::form::{Form, Parts};

/// GCM with its key.
pub(super) struct Gcm {
    form: Form,
    key: LessSafeKey,
}

impl Gcm {
    /// # Errors
    /// If the library does not take the key.
    pub(super) fn new(form: Form, key: &[u8]) -> Result<Self, SetupError> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            _ => &AES_256_GCM,
        };
        let key = UnboundKey::new(algorithm, key)
            .map_err(|_| SetupError::Parameter("key: AWS-LC does not take it".to_owned()))?;
        let key = LessSafeKey::new(key);
        Ok(Self { form, key })
    }

    fn item(&self, parts: Parts<'_>, to: &mut [u8]) -> Result<(), JobError> {
        let nonce = parts.iv.try_into().expect("twelve bytes");
        let nonce = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(parts.aad);
        match self.form.direction {
            Direction::Encrypt => {
                let (to, tag) = to.split_at_mut(parts.text.len());
                let key = &self.key;
                key.seal_out_of_place_scatter(nonce, aad, parts.text, to, &[], tag)
                    .map_err(|_| JobError::TooLong)
            }
            Direction::Decrypt => {
                let key = &self.key;
                let opened = key.open_separate_gather(nonce, aad, parts.text, parts.tag, to);
                opened.map_err(|_| {
                    // The library promises nothing of what it leaves there.
                    to.fill(0);
                    JobError::Malformed
                })
            }
        }
    }
}

impl Code for Gcm {
    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>) {
        self.form.each(batch, out, |parts, to| self.item(parts, to));
    }
}
