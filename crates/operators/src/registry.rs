//! The one list of operators: command line, benches, conformance and page-end tests follow from it.

use dpb_core::{OpSpec, ParameterValue, SetupError, Unsupported};

pub use crate::entry::{Case, Entry, Library, MakeKernel, MakeWorkload, Parse, own};
use crate::implementation::Implementation;
#[allow(unused_imports, reason = "which operators are built in, features say")]
use crate::{network, primitive, security, storage};

/// Every operator that has a CPU kernel in this build.
pub const OPERATORS: &[Entry] = &[
    #[cfg(feature = "crc")]
    network::crc::CRC32C,
    #[cfg(feature = "crc")]
    network::crc::CRC32,
    #[cfg(feature = "crc")]
    network::crc::CRC16_T10DIF,
    #[cfg(feature = "crc")]
    network::crc::combine::ENTRY,
    #[cfg(feature = "copy")]
    network::copy::ENTRY,
    #[cfg(feature = "lpm")]
    network::lpm::LPM4,
    #[cfg(feature = "lpm")]
    network::lpm::LPM6,
    #[cfg(feature = "lpm")]
    network::lpm::LPM4_UPDATE,
    #[cfg(feature = "lpm")]
    network::lpm::LPM6_UPDATE,
    #[cfg(feature = "packets")]
    network::toeplitz::ENTRY,
    #[cfg(feature = "packets")]
    network::checksum::ENTRY,
    #[cfg(feature = "packets")]
    network::checksum::packets::VERIFY,
    #[cfg(feature = "packets")]
    network::checksum::packets::FILL,
    #[cfg(feature = "packets")]
    network::segmentation::ENTRY,
    #[cfg(feature = "packets")]
    network::fragmentation::ENTRY,
    #[cfg(feature = "packets")]
    network::reassembly::ENTRY,
    #[cfg(feature = "hashes")]
    security::md5::ENTRY,
    #[cfg(feature = "hashes")]
    security::sha1::ENTRY,
    #[cfg(feature = "hashes")]
    security::sha256::ENTRY,
    #[cfg(feature = "hashes")]
    security::sha512::ENTRY,
    #[cfg(feature = "hashes")]
    security::hmac::HMAC_MD5,
    #[cfg(feature = "hashes")]
    security::hmac::HMAC_SHA1,
    #[cfg(feature = "hashes")]
    security::hmac::HMAC_SHA256,
    #[cfg(feature = "hashes")]
    security::hmac::HMAC_SHA512,
    #[cfg(feature = "rxpmatch")]
    security::rxpmatch::ENTRY,
    #[cfg(feature = "aes")]
    security::aes::GCM,
    #[cfg(feature = "aes")]
    security::aes::GCM_DECRYPT,
    #[cfg(feature = "aes")]
    security::aes::CTR,
    #[cfg(feature = "aes")]
    security::aes::CBC,
    #[cfg(feature = "aes")]
    security::aes::CBC_DECRYPT,
    #[cfg(feature = "aes")]
    security::aes::XTS,
    #[cfg(feature = "aes")]
    security::aes::XTS_DECRYPT,
    #[cfg(feature = "public-keys")]
    security::rsa::SIGN,
    #[cfg(feature = "public-keys")]
    security::rsa::VERIFY,
    #[cfg(feature = "public-keys")]
    security::rsa::oaep::ENCRYPT,
    #[cfg(feature = "public-keys")]
    security::rsa::oaep::DECRYPT,
    #[cfg(feature = "public-keys")]
    security::dsa::SIGN,
    #[cfg(feature = "public-keys")]
    security::dsa::VERIFY,
    #[cfg(feature = "public-keys")]
    security::ecdsa::SIGN,
    #[cfg(feature = "public-keys")]
    security::ecdsa::VERIFY,
    #[cfg(feature = "deflate")]
    storage::deflate::DEFLATE,
    #[cfg(feature = "deflate")]
    storage::deflate::INFLATE,
    #[cfg(feature = "lz4")]
    storage::lz4::LZ4,
    #[cfg(feature = "lz4")]
    storage::lz4::UNLZ4,
    #[cfg(feature = "snappy")]
    storage::snappy::SNAPPY,
    #[cfg(feature = "snappy")]
    storage::snappy::UNSNAPPY,
    #[cfg(feature = "huffman")]
    storage::huffman::HUFFMAN,
    #[cfg(feature = "huffman")]
    storage::huffman::UNHUFFMAN,
    #[cfg(feature = "erasure")]
    storage::erasure::ENCODE,
    #[cfg(feature = "erasure")]
    storage::erasure::RECOVER,
    #[cfg(feature = "crc")]
    storage::crc64::ENTRY,
    #[cfg(feature = "hashes")]
    storage::xxh3::ENTRY,
    #[cfg(feature = "primitive")]
    primitive::arithmetic::ENTRY,
    #[cfg(feature = "primitive")]
    primitive::strings::STRCMP,
    #[cfg(feature = "primitive")]
    primitive::strings::STRCAT,
    #[cfg(feature = "primitive")]
    primitive::strxfrm::ENTRY,
];

/// The operators that a program knows: dpb's, and the ones of whoever imports it.
#[derive(Clone, Copy, Debug)]
pub struct Operators(&'static [&'static [Entry]]);

/// The operators of dpb.
impl Default for Operators {
    fn default() -> Self {
        Self::DPB
    }
}

impl Operators {
    /// dpb's own, [`OPERATORS`].
    pub const DPB: Self = Self::new(&[OPERATORS]);

    /// These lists, one behind another. Of two operators that have the same name the first is meant.
    pub const fn new(lists: &'static [&'static [Entry]]) -> Self {
        Self(lists)
    }

    /// Every operator.
    pub fn iter(self) -> impl Iterator<Item = &'static Entry> {
        let is_meant = move |entry: &&'static Entry| {
            let meant = self.find(entry.name);
            meant.is_some_and(|meant| std::ptr::eq(meant, *entry))
        };
        self.0.iter().copied().flatten().filter(is_meant)
    }

    /// The operator of this name.
    pub fn find(self, name: &str) -> Option<&'static Entry> {
        let mut entries = self.0.iter().copied().flatten();
        entries.find(|entry| entry.name == name)
    }

    /// Every path that some operator could have: dpb's own, and those that other crates declare, each once.
    ///
    /// # Panics
    /// If two paths have one name, or one is called `best`: only one of them could be opened.
    pub fn paths(self) -> Vec<Implementation> {
        let mut paths = Implementation::ALL.to_vec();
        for path in self.iter().flat_map(|entry| entry.paths) {
            if paths.contains(path) {
                continue;
            }
            let is_taken = paths.iter().any(|known| known.name() == path.name());
            assert!(
                !is_taken && path.name() != "best",
                "cpu/{path}: a name that is taken"
            );
            paths.push(*path);
        }
        paths
    }

    /// The spec of the operator `name` that has these values of parameters: [`Entry::spec_from`].
    ///
    /// # Errors
    /// If there is no such operator, and as there.
    pub fn spec_from(
        self,
        name: &str,
        values: &[(&str, ParameterValue)],
    ) -> Result<OpSpec, SetupError> {
        let entry = self
            .find(name)
            .ok_or_else(|| SetupError::Parameter(format!("no operator {name}")))?;
        entry.spec_from(values)
    }

    /// The operator that `spec` belongs to.
    ///
    /// # Errors
    /// If there is no CPU kernel for it.
    pub fn of(self, spec: &OpSpec) -> Result<&'static Entry, Unsupported> {
        let reason = match self.find(spec.name()) {
            Some(entry) if (entry.is_own)(spec) => return Ok(entry),
            Some(_) => {
                format!("there is no CPU kernel for this {spec}: its spec is of another type")
            }
            None => format!("there is no CPU kernel for {spec}"),
        };
        Err(Unsupported { reason })
    }
}

/// dpb's operator of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    Operators::DPB.find(name)
}

/// dpb's operator that `spec` belongs to.
///
/// # Errors
/// If there is no CPU kernel for it.
pub fn of(spec: &OpSpec) -> Result<&'static Entry, Unsupported> {
    Operators::DPB.of(spec)
}

#[cfg(all(test, feature = "crc"))]
mod tests;
