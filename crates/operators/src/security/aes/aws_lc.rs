//! GCM by AWS-LC.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use dpb_core::{Direction, JobError, SetupError};

use super::Coder;
use super::form::{Form, Mode, Parts, Places, Work};
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

    fn seal(&self, parts: Parts<'_>) -> Result<(), JobError> {
        let (nonce, aad, tag_to) = (nonce(parts.iv), Aad::from(parts.aad), parts.tag_to);
        let sealed = match Text::of(parts.text) {
            Text::Apart(text, to) => {
                (self.key).seal_out_of_place_scatter(nonce, aad, text, to, &[], tag_to)
            }
            Text::InPlace(text) => {
                let made = self.key.seal_in_place_separate_tag(nonce, aad, text);
                made.map(|made| tag_to.copy_from_slice(made.as_ref()))
            }
        };
        sealed.map_err(|_| JobError::TooLong)
    }

    fn open(&self, parts: Parts<'_>) -> Result<(), JobError> {
        let (nonce, aad, tag) = (nonce(parts.iv), Aad::from(parts.aad), parts.tag);
        let mut text = parts.text;
        let opened = match Text::of(text.reborrow()) {
            Text::Apart(text, to) => self.key.open_separate_gather(nonce, aad, text, tag, to),
            Text::InPlace(text) => {
                let opened = (self.key).open_in_place_separate_tag(nonce, aad, tag, text);
                opened.map(|_| ())
            }
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
        // Each direction has a loop of its own, which knows where an item's parts lie.
        match self.form.direction {
            Direction::Encrypt => {
                let form = self.form.known(Mode::Gcm, Direction::Encrypt);
                form.each(work, |parts| self.seal(parts));
            }
            Direction::Decrypt => {
                let form = self.form.known(Mode::Gcm, Direction::Decrypt);
                form.each(work, |parts| self.open(parts));
            }
        }
    }
}

fn nonce(iv: &[u8]) -> Nonce {
    Nonce::assume_unique_for_key(iv.try_into().expect("twelve bytes"))
}
