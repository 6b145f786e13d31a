//! RustCrypto's crates p256 and p384. They sign by RFC 6979: the same message has the same signature each time.

use dpb_core::{Curve, JobError, SetupError};
use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::{DecodePrivateKey, DecodePublicKey};

use crate::security::asymmetric::{FAILED, Signer, Verifier, refused};

pub(in crate::security) fn signer(
    curve: Curve,
    pkcs8: &[u8],
) -> Result<Box<dyn Signer>, SetupError> {
    Ok(match curve {
        Curve::P256 => Box::new(p256::ecdsa::SigningKey::from_pkcs8_der(pkcs8).map_err(refused)?),
        Curve::P384 => Box::new(p384::ecdsa::SigningKey::from_pkcs8_der(pkcs8).map_err(refused)?),
    })
}

pub(in crate::security) fn verifier(
    curve: Curve,
    spki: &[u8],
) -> Result<Box<dyn Verifier>, SetupError> {
    Ok(match curve {
        Curve::P256 => {
            Box::new(p256::ecdsa::VerifyingKey::from_public_key_der(spki).map_err(refused)?)
        }
        Curve::P384 => {
            Box::new(p384::ecdsa::VerifyingKey::from_public_key_der(spki).map_err(refused)?)
        }
    })
}

/// The crates' keys as ours: their types differ, their methods do not.
macro_rules! on {
    ($curve:ident) => {
        impl Signer for $curve::ecdsa::SigningKey {
            fn sign(&self, message: &[u8], signature: &mut [u8]) -> Result<(), JobError> {
                let made: $curve::ecdsa::Signature = self.try_sign(message).map_err(|_| FAILED)?;
                signature.copy_from_slice(&made.to_bytes());
                Ok(())
            }
        }

        impl Verifier for $curve::ecdsa::VerifyingKey {
            fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
                let signature = $curve::ecdsa::Signature::from_slice(signature);
                signature.is_ok_and(|signature| {
                    p256::ecdsa::signature::Verifier::verify(self, message, &signature).is_ok()
                })
            }
        }
    };
}

on!(p256);
on!(p384);
