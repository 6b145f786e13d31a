//! DSA (FIPS 186-4) with primes of 2048 and 256 bits: what came before ECDSA, kept for what was signed then.
//!
#![doc = include_str!("../../docs/dsa.md")]

#[cfg(feature = "aws-lc")]
pub(super) mod aws_lc;
mod group;
pub(super) mod portable;

use dpb_core::SignatureScheme;

use super::signature::{KEY_PAIR, PRIVATE_KEY, sign_case, sign_entry, verify_case, verify_entry};
use crate::entry::{Entry, Library, library};
use crate::implementation::Implementation;

pub(super) use portable::group;

/// The registry's lines.
pub(crate) const SIGN: Entry = Entry {
    name: "dsa-sign",
    summary: "DSA signature of each item, 2048/256 with SHA-256",
    output: "64 bytes per item",
    source: SOURCE,
    parameters: &[PRIVATE_KEY],
    libraries: LIBRARIES,
    allocates: &[Implementation::Portable],
    documentation: include_str!("../../docs/dsa.md"),
    ..sign_entry(|given| sign_case(given, SignatureScheme::Dsa))
};
pub(crate) const VERIFY: Entry = Entry {
    name: "dsa-verify",
    summary: "whether each item, a DSA signature and a message, is genuine",
    source: SOURCE,
    parameters: &[KEY_PAIR],
    libraries: LIBRARIES,
    allocates: &[Implementation::Portable],
    documentation: include_str!("../../docs/dsa.md"),
    ..verify_entry(|given| verify_case(given, SignatureScheme::Dsa))
};

const SOURCE: &str = "FIPS 186-4, 4; IEEE P1363";
const LIBRARIES: &[(Implementation, Library)] = &[
    // Its safe interface is aws-lc-rs, which has no DSA.
    (Implementation::AwsLc, library!("aws-lc-sys")),
    (Implementation::Portable, library!("dsa")),
];

#[cfg(test)]
mod tests;
