//! RSA (RFC 8017): signatures, and encryption of what is as short as a key.
//!
#![doc = include_str!("../../docs/rsa.md")]

#[cfg(feature = "aws-lc")]
pub(super) mod aws_lc;
pub mod oaep;
pub(super) mod portable;

use dpb_core::{
    RsaPadding, SetupError, SignatureScheme,
    spec::{Arguments, Domain, Parameter, ParameterType},
};

use super::signature::{
    KEY_PAIR, PATHS, PRIVATE_KEY, sign_case, sign_entry, verify_case, verify_entry,
};
use crate::entry::{Entry, Library, library};
use crate::implementation::Implementation;

/// The registry's lines.
pub(crate) const SIGN: Entry = Entry {
    name: "rsa-sign",
    summary: "RSA signature of each item, with SHA-256",
    output: "256, 384 or 512 bytes per item",
    source: "RFC 8017, 8; FIPS 186-5, 5",
    parameters: &[BITS, PADDING, PRIVATE_KEY],
    libraries: LIBRARIES,
    allocates: PATHS,
    documentation: include_str!("../../docs/rsa.md"),
    ..sign_entry(|given| sign_case(given, scheme(given)))
};
pub(crate) const VERIFY: Entry = Entry {
    name: "rsa-verify",
    summary: "whether each item, an RSA signature and a message, is genuine",
    source: "RFC 8017, 8; FIPS 186-5, 5",
    parameters: &[BITS, PADDING, KEY_PAIR],
    libraries: LIBRARIES,
    allocates: &[Implementation::Portable],
    documentation: include_str!("../../docs/rsa.md"),
    ..verify_entry(|given| verify_case(given, scheme(given)))
};

const LIBRARIES: &[(Implementation, Library)] = &[
    (Implementation::AwsLc, library!("aws-lc-rs")),
    (Implementation::Portable, library!("rsa")),
];
const BITS: Parameter = Parameter {
    name: "bits",
    values: Domain::Word(&["2048", "3072", "4096"]),
    default: "2048",
    meaning: "of the modulus",
};
const PADDING: Parameter = Parameter {
    name: "padding",
    values: RsaPadding::DOMAIN,
    default: RsaPadding::Pkcs1.name(),
    meaning: "RSASSA-PKCS1-v1_5 or RSASSA-PSS",
};

/// Checks that a key has `bits` bits.
fn sized(bits: u16, bytes: usize) -> Result<(), SetupError> {
    let is_right = bytes == usize::from(bits).div_ceil(8);
    is_right.then_some(()).ok_or_else(|| {
        SetupError::Parameter(format!(
            "key: its modulus has {bytes} bytes, not {bits} bits"
        ))
    })
}

fn scheme(given: &Arguments<'_>) -> SignatureScheme {
    SignatureScheme::Rsa {
        bits: given.get("bits"),
        padding: given.get("padding"),
    }
}
