//! Operators that protect data.

pub mod aes;
pub mod dsa;
pub mod ecdsa;
pub mod hash;
pub mod hmac;
pub mod keys;
pub mod md5;
pub mod rsa;
pub mod rxpmatch;
pub mod sha1;
pub mod sha256;
pub mod sha512;
pub mod signature;
