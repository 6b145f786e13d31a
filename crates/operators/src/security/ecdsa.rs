//! ECDSA (FIPS 186-5) over P-256 and P-384: what servers sign handshakes with.
//!
#![doc = include_str!("../../docs/ecdsa.md")]

#[cfg(feature = "aws-lc")]
mod aws_lc;
mod portable;

use dpb_core::{
    Curve, SetupError, SignatureScheme,
    spec::{Arguments, Parameter, ParameterType},
};

use super::signature::{
    KEY_PAIR, PATHS, PRIVATE_KEY, Signer, Verifier, sign_case, sign_entry, verify_case,
    verify_entry,
};
use crate::cpu::Path;
use crate::registry::{Entry, Library, library};

/// The registry's lines.
pub(crate) const SIGN: Entry = Entry {
    name: "ecdsa-sign",
    summary: "ECDSA signature of each item, over P-256 with SHA-256 or P-384 with SHA-384",
    output: "64 or 96 bytes per item",
    source: SOURCE,
    parameters: &[CURVE, PRIVATE_KEY],
    libraries: LIBRARIES,
    documentation: DOCUMENTATION,
    ..sign_entry(|given| sign_case(given, scheme(given)))
};
pub(crate) const VERIFY: Entry = Entry {
    name: "ecdsa-verify",
    summary: "whether each item, an ECDSA signature and a message, is genuine",
    source: SOURCE,
    parameters: &[CURVE, KEY_PAIR],
    libraries: LIBRARIES,
    documentation: DOCUMENTATION,
    ..verify_entry(|given| verify_case(given, scheme(given)))
};

const SOURCE: &str = "FIPS 186-5, 6; SP 800-186; IEEE P1363";
const DOCUMENTATION: &str = include_str!("../../docs/ecdsa.md");
const LIBRARIES: &[(Path, Library)] = &[
    (Path::AwsLc, library!("aws-lc-rs")),
    // p384 comes from the same hands, in the same version.
    (Path::Portable, library!("p256")),
];
const CURVE: Parameter = Parameter {
    name: "curve",
    values: Curve::DOMAIN,
    default: Curve::P256.name(),
    meaning: "the curve, and with it the hash function",
};

/// The private key on `path`.
pub(super) fn signer(
    path: Path,
    curve: Curve,
    pkcs8: &[u8],
) -> Result<Box<dyn Signer>, SetupError> {
    match path {
        Path::Portable => portable::signer(curve, pkcs8),
        #[cfg(feature = "aws-lc")]
        Path::AwsLc => aws_lc::signer(curve, pkcs8),
        _ => Err(path.missing("ecdsa-sign", PATHS)),
    }
}

/// The public key on `path`.
pub(super) fn verifier(
    path: Path,
    curve: Curve,
    spki: &[u8],
) -> Result<Box<dyn Verifier>, SetupError> {
    match path {
        Path::Portable => portable::verifier(curve, spki),
        #[cfg(feature = "aws-lc")]
        Path::AwsLc => aws_lc::verifier(curve, spki),
        _ => Err(path.missing("ecdsa-verify", PATHS)),
    }
}

fn scheme(given: &Arguments<'_>) -> SignatureScheme {
    let curve = given.get("curve");
    SignatureScheme::Ecdsa { curve }
}
