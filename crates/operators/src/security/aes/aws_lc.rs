//! GCM by AWS-LC.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use dpb_core::{Direction, JobError, SetupError};

use super::Coder;
use super::form::{Form, Parts, Places, Work};
use super::text::Text;

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

    fn item(&self, parts: Parts<'_>) -> Result<(), JobError> {
        let nonce = parts.iv.try_into().expect("twelve bytes");
        let nonce = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(parts.aad);
        let Parts {
            mut text,
            tag,
            tag_to,
            ..
        } = parts;
        let key = &self.key;
        if let Direction::Encrypt = self.form.direction {
            let sealed = match Text::of(text) {
                Text::Apart(text, to) => {
                    key.seal_out_of_place_scatter(nonce, aad, text, to, &[], tag_to)
                }
                Text::InPlace(text) => {
                    let made = key.seal_in_place_separate_tag(nonce, aad, text);
                    made.map(|made| tag_to.copy_from_slice(made.as_ref()))
                }
            };
            return sealed.map_err(|_| JobError::TooLong);
        }
        let opened = match Text::of(text.reborrow()) {
            Text::Apart(text, to) => key.open_separate_gather(nonce, aad, text, tag, to),
            Text::InPlace(text) => key
                .open_in_place_separate_tag(nonce, aad, tag, text)
                .map(|_| ()),
        };
        opened.map_err(|_| {
            // The library promises nothing of what it leaves there.
            text.get_out().fill(0);
            JobError::Malformed
        })
    }
}

impl Coder for Gcm {
    fn on<'a>(&self, work: Work<'a, impl Places<'a>>) {
        self.form.each(work, |parts| self.item(parts));
    }
}
