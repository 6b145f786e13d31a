//! Operators that protect data.

#[cfg(feature = "aes")]
pub mod aes;
#[cfg(feature = "public-keys")]
mod asymmetric;
#[cfg(feature = "public-keys")]
pub mod dsa;
#[cfg(feature = "public-keys")]
pub mod ecdsa;
#[cfg(feature = "hashes")]
pub mod hash;
#[cfg(feature = "hashes")]
pub mod hmac;
#[cfg(feature = "public-keys")]
pub mod keys;
#[cfg(feature = "hashes")]
pub mod md5;
#[cfg(feature = "public-keys")]
pub mod rsa;
#[cfg(feature = "rxpmatch")]
pub mod rxpmatch;
#[cfg(any(feature = "aes", feature = "hashes"))]
pub mod sessions;
#[cfg(feature = "hashes")]
pub mod sha1;
#[cfg(feature = "hashes")]
pub mod sha256;
#[cfg(feature = "hashes")]
pub mod sha512;
#[cfg(feature = "public-keys")]
pub mod signature;
