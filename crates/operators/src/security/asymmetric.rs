//! Keys of a library, ready for use: what each path of the operators with key pairs brings.

use dpb_core::{JobError, SetupError};

use crate::implementation::Implementation;

/// AWS-LC, and RustCrypto's crates.
pub const PATHS: &[Implementation] = &[Implementation::AwsLc, Implementation::Portable];

/// A library's private key, ready to sign. Many threads may do so at once.
pub(super) trait Signer: Send + Sync {
    /// Signs `message` into `signature`, which is exactly as long as one.
    fn sign(&self, message: &[u8], signature: &mut [u8]) -> Result<(), JobError>;
}

/// A library's public key, ready to verify. Many threads may do so at once.
pub(super) trait Verifier: Send + Sync {
    /// Whether `signature`, which is exactly as long as one, is of `message`.
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool;
}

#[cfg(feature = "aws-lc")]
impl Verifier for aws_lc_rs::signature::ParsedPublicKey {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.verify_sig(message, signature).is_ok()
    }
}

/// The error of a library that does not say why: there were no random bytes, or it found its own result wrong.
pub(super) const FAILED: JobError = JobError::Device(-1);

/// A library's public key, ready to encrypt. Many threads may do so at once.
pub(super) trait Encrypter: Send + Sync {
    /// Encrypts `message`, which fits, into `slot`, which is as long as the modulus.
    fn encrypt(&self, message: &[u8], slot: &mut [u8]) -> Result<(), JobError>;
}

/// A library's private key, ready to decrypt. Many threads may do so at once.
pub(super) trait Decrypter: Send + Sync {
    /// The plain text of `item`, which is as long as the modulus; `None` if there is none.
    fn decrypt(&self, item: &[u8]) -> Option<Vec<u8>>;
}

/// The error for a key that a library does not take, with the library's words.
pub(super) fn refused(error: impl std::fmt::Display) -> SetupError {
    SetupError::Parameter(format!("key: {error}"))
}
