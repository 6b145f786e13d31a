//! RustCrypto's crate rsa. Private operations are blinded by the system's random numbers.

use dpb_core::{JobError, RsaPadding, SetupError};
use getrandom::SysRng;
use rsa::pkcs8::{DecodePrivateKey, DecodePublicKey};
use rsa::rand_core::UnwrapErr;
use rsa::signature::{RandomizedSigner, SignatureEncoding};
use rsa::traits::PublicKeyParts;
use rsa::{Oaep, RsaPrivateKey, RsaPublicKey, pkcs1v15, pss};
use sha2::Sha256;

use super::sized;
use crate::security::asymmetric::{Decrypter, Encrypter, FAILED, Signer, Verifier, refused};

pub(in crate::security) fn signer(
    bits: u16,
    padding: RsaPadding,
    pkcs8: &[u8],
) -> Result<Box<dyn Signer>, SetupError> {
    let key = private(bits, pkcs8)?;
    Ok(match padding {
        RsaPadding::Pkcs1 => Box::new(pkcs1v15::SigningKey::<Sha256>::new(key)),
        RsaPadding::Pss => Box::new(pss::SigningKey::<Sha256>::new(key)),
    })
}

pub(in crate::security) fn verifier(
    bits: u16,
    padding: RsaPadding,
    spki: &[u8],
) -> Result<Box<dyn Verifier>, SetupError> {
    let key = public(bits, spki)?;
    Ok(match padding {
        RsaPadding::Pkcs1 => Box::new(pkcs1v15::VerifyingKey::<Sha256>::new(key)),
        RsaPadding::Pss => Box::new(pss::VerifyingKey::<Sha256>::new(key)),
    })
}

pub(in crate::security) fn private(bits: u16, pkcs8: &[u8]) -> Result<RsaPrivateKey, SetupError> {
    let key = RsaPrivateKey::from_pkcs8_der(pkcs8).map_err(refused)?;
    sized(bits, key.size())?;
    Ok(key)
}

pub(in crate::security) fn public(bits: u16, spki: &[u8]) -> Result<RsaPublicKey, SetupError> {
    let key = RsaPublicKey::from_public_key_der(spki).map_err(refused)?;
    sized(bits, key.size())?;
    Ok(key)
}

/// The crate's keys as ours: their types differ, their methods do not.
macro_rules! on {
    ($padding:ident) => {
        impl Signer for $padding::SigningKey<Sha256> {
            fn sign(&self, message: &[u8], signature: &mut [u8]) -> Result<(), JobError> {
                let made = self.try_sign_with_rng(&mut SysRng, message);
                signature.copy_from_slice(&made.map_err(|_| FAILED)?.to_bytes());
                Ok(())
            }
        }

        impl Verifier for $padding::VerifyingKey<Sha256> {
            fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
                let signature = $padding::Signature::try_from(signature);
                signature.is_ok_and(|signature| {
                    rsa::signature::Verifier::verify(self, message, &signature).is_ok()
                })
            }
        }
    };
}

on!(pkcs1v15);
on!(pss);

impl Encrypter for RsaPublicKey {
    fn encrypt(&self, message: &[u8], slot: &mut [u8]) -> Result<(), JobError> {
        let padding = Oaep::<Sha256>::new();
        let made = RsaPublicKey::encrypt(self, &mut UnwrapErr(SysRng), padding, message);
        slot.copy_from_slice(&made.map_err(|_| FAILED)?);
        Ok(())
    }
}

impl Decrypter for RsaPrivateKey {
    fn decrypt(&self, item: &[u8]) -> Option<Vec<u8>> {
        let padding = Oaep::<Sha256>::new();
        self.decrypt_blinded(&mut UnwrapErr(SysRng), padding, item)
            .ok()
    }
}
