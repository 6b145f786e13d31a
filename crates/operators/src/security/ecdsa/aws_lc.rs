//! AWS-LC. Each signature has a random number of its own, from AWS-LC's generator.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    EcdsaVerificationAlgorithm, ParsedPublicKey,
};
use dpb_core::{Curve, JobError, SetupError};

use crate::security::asymmetric::{FAILED, Signer, Verifier, refused};

pub(in crate::security) fn signer(
    curve: Curve,
    pkcs8: &[u8],
) -> Result<Box<dyn Signer>, SetupError> {
    let algorithm: &'static EcdsaSigningAlgorithm = match curve {
        Curve::P256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
        Curve::P384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
    };
    let key = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8).map_err(refused)?;
    Ok(Box::new(key))
}

pub(in crate::security) fn verifier(
    curve: Curve,
    spki: &[u8],
) -> Result<Box<dyn Verifier>, SetupError> {
    let algorithm: &'static EcdsaVerificationAlgorithm = match curve {
        Curve::P256 => &ECDSA_P256_SHA256_FIXED,
        Curve::P384 => &ECDSA_P384_SHA384_FIXED,
    };
    let key = ParsedPublicKey::new(algorithm, spki).map_err(refused)?;
    Ok(Box::new(key))
}

impl Signer for EcdsaKeyPair {
    fn sign(&self, message: &[u8], signature: &mut [u8]) -> Result<(), JobError> {
        let made = EcdsaKeyPair::sign(self, &SystemRandom::new(), message).map_err(|_| FAILED)?;
        signature.copy_from_slice(made.as_ref());
        Ok(())
    }
}
