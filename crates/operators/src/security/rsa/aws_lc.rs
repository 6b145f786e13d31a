//! AWS-LC. Private operations are blinded, and a signature is verified before it is given away.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{
    KeyPair, KeySize, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    PrivateDecryptingKey, PublicEncryptingKey,
};
use aws_lc_rs::signature::{
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_SHA256, RsaParameters, RsaSignatureEncoding,
};
use dpb_core::{JobError, Material, RsaPadding, SetupError};

use super::sized;
use crate::security::asymmetric::{Decrypter, Encrypter, FAILED, Signer, Verifier, refused};

/// A new private key, as PKCS#8.
///
/// # Panics
/// If the system gives no random bytes.
pub(in crate::security) fn generate(bits: u16) -> Material {
    let size = match bits {
        2048 => KeySize::Rsa2048,
        3072 => KeySize::Rsa3072,
        _ => KeySize::Rsa4096,
    };
    let key = KeyPair::generate(size).expect("random bytes");
    let pkcs8: Pkcs8V1Der<'_> = key.as_der().expect("a key that was made can be written");
    Material::secret(pkcs8.as_ref())
}

pub(in crate::security) fn signer(
    bits: u16,
    padding: RsaPadding,
    pkcs8: &[u8],
) -> Result<Box<dyn Signer>, SetupError> {
    let key = KeyPair::from_pkcs8(pkcs8).map_err(refused)?;
    sized(bits, key.public_modulus_len())?;
    let encoding = match padding {
        RsaPadding::Pkcs1 => &RSA_PKCS1_SHA256,
        RsaPadding::Pss => &RSA_PSS_SHA256,
    };
    Ok(Box::new(Padded { key, encoding }))
}

pub(in crate::security) fn verifier(
    bits: u16,
    padding: RsaPadding,
    spki: &[u8],
) -> Result<Box<dyn Verifier>, SetupError> {
    sized(
        bits,
        PublicEncryptingKey::from_der(spki)
            .map_err(refused)?
            .key_size_bytes(),
    )?;
    let parameters: &'static RsaParameters = match padding {
        RsaPadding::Pkcs1 => &RSA_PKCS1_2048_8192_SHA256,
        RsaPadding::Pss => &RSA_PSS_2048_8192_SHA256,
    };
    let key = ParsedPublicKey::new(parameters, spki).map_err(refused)?;
    Ok(Box::new(key))
}

/// The public key, to encrypt with.
pub(super) fn encrypter(bits: u16, spki: &[u8]) -> Result<Box<dyn Encrypter>, SetupError> {
    let key = PublicEncryptingKey::from_der(spki).map_err(refused)?;
    sized(bits, key.key_size_bytes())?;
    let key = OaepPublicEncryptingKey::new(key).map_err(refused)?;
    Ok(Box::new(key))
}

/// The private key, to decrypt with.
pub(super) fn decrypter(bits: u16, pkcs8: &[u8]) -> Result<Box<dyn Decrypter>, SetupError> {
    let key = PrivateDecryptingKey::from_pkcs8(pkcs8).map_err(refused)?;
    sized(bits, key.key_size_bytes())?;
    let key = OaepPrivateDecryptingKey::new(key).map_err(refused)?;
    Ok(Box::new(key))
}

/// A private key and how it pads.
struct Padded {
    key: KeyPair,
    encoding: &'static RsaSignatureEncoding,
}

impl Signer for Padded {
    fn sign(&self, message: &[u8], signature: &mut [u8]) -> Result<(), JobError> {
        let made = self
            .key
            .sign(self.encoding, &SystemRandom::new(), message, signature);
        made.map_err(|_| FAILED)
    }
}

impl Encrypter for OaepPublicEncryptingKey {
    fn encrypt(&self, message: &[u8], slot: &mut [u8]) -> Result<(), JobError> {
        let algorithm = &OAEP_SHA256_MGF1SHA256;
        let made = OaepPublicEncryptingKey::encrypt(self, algorithm, message, slot, None);
        made.map(|_| ()).map_err(|_| FAILED)
    }
}

impl Decrypter for OaepPrivateDecryptingKey {
    fn decrypt(&self, item: &[u8]) -> Option<Vec<u8>> {
        let mut message = vec![0; self.min_output_size()];
        let algorithm = &OAEP_SHA256_MGF1SHA256;
        let len = OaepPrivateDecryptingKey::decrypt(self, algorithm, item, &mut message, None);
        let len = len.ok()?.len();
        message.truncate(len);
        Some(message)
    }
}
