//! RustCrypto's crate dsa. It signs by RFC 6979: the same message has the same signature each time.

use dpb_core::{JobError, SetupError};
use dsa::pkcs8::DecodePrivateKey;
use dsa::pkcs8::der::Decode;
use dsa::pkcs8::der::asn1::UintRef;
use dsa::pkcs8::spki::SubjectPublicKeyInfoRef;
use dsa::signature::Signer as _;
use dsa::{BoxedUint, Components, Signature, SigningKey, VerifyingKey};

use super::group::{G, P, Q};
use crate::security::asymmetric::{FAILED, Signer, Verifier, refused};

/// Bytes of *r*, and of *s*.
const HALF: usize = 32;

/// The group in which keys are made.
pub(in crate::security) fn group() -> Components {
    let number = |digits: &str, bits| {
        let number = BoxedUint::from_be_hex(digits, bits).into_option();
        number.expect("so many digits")
    };
    let group = Components::from_components(number(P, 2048), number(Q, 256), number(G, 2048));
    group.expect("a group")
}

pub(in crate::security) fn signer(pkcs8: &[u8]) -> Result<Box<dyn Signer>, SetupError> {
    Ok(Box::new(
        SigningKey::from_pkcs8_der(pkcs8).map_err(refused)?,
    ))
}

pub(in crate::security) fn verifier(spki: &[u8]) -> Result<Box<dyn Verifier>, SetupError> {
    let info = SubjectPublicKeyInfoRef::from_der(spki).map_err(refused)?;
    let group = info.algorithm.parameters_any().map_err(refused)?;
    let group: Components = group.decode_as().map_err(refused)?;
    let y = info.subject_public_key.as_bytes().unwrap_or_default();
    let y = UintRef::from_der(y).map_err(refused)?;
    // With as many limbs as p, or the crate panics; its own reader gives y as many as it needs.
    let y = BoxedUint::from_be_slice(y.as_bytes(), group.p().bits_precision());
    let y = y.map_err(|_| refused("its y is longer than p"))?;
    Ok(Box::new(
        VerifyingKey::from_components(group, y).map_err(refused)?,
    ))
}

impl Signer for SigningKey {
    fn sign(&self, message: &[u8], signature: &mut [u8]) -> Result<(), JobError> {
        let made = self.try_sign(message).map_err(|_| FAILED)?;
        let (r, s) = signature.split_at_mut(HALF);
        r.copy_from_slice(&made.r().to_be_bytes());
        s.copy_from_slice(&made.s().to_be_bytes());
        Ok(())
    }
}

impl Verifier for VerifyingKey {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let (r, s) = signature.split_at(HALF);
        let [r, s] = [r, s].map(BoxedUint::from_be_slice_vartime);
        let signature = Signature::from_components(r, s);
        signature.is_some_and(|signature| {
            dsa::signature::Verifier::verify(self, message, &signature).is_ok()
        })
    }
}
