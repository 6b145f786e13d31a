//! ECDSA (FIPS 186-5) over P-256 and P-384: what servers sign handshakes with.
//!
#![doc = include_str!("../../docs/ecdsa.md")]

#[cfg(feature = "aws-lc")]
pub(super) mod aws_lc;
pub(super) mod portable;

use dpb_core::{
    Curve, SignatureScheme,
    spec::{Arguments, Parameter, ParameterType},
};

use super::signature::{KEY_PAIR, PRIVATE_KEY, sign_case, sign_entry, verify_case, verify_entry};
use crate::entry::{Entry, Library, library};
use crate::implementation::Implementation;

/// The registry's lines.
pub(crate) const SIGN: Entry = Entry {
    name: "ecdsa-sign",
    summary: "ECDSA signature of each item, over P-256 with SHA-256 or P-384 with SHA-384",
    output: "64 or 96 bytes per item",
    source: SOURCE,
    parameters: &[CURVE, PRIVATE_KEY],
    libraries: LIBRARIES,
    allocates: &[Implementation::AwsLc],
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
const LIBRARIES: &[(Implementation, Library)] = &[
    (Implementation::AwsLc, library!("aws-lc-rs")),
    // p384 comes from the same hands, in the same version.
    (Implementation::Portable, library!("p256")),
];
const CURVE: Parameter = Parameter {
    name: "curve",
    values: Curve::DOMAIN,
    default: Curve::P256.name(),
    meaning: "the curve, and with it the hash function",
};

fn scheme(given: &Arguments<'_>) -> SignatureScheme {
    let curve = given.get("curve");
    SignatureScheme::Ecdsa { curve }
}
