//! Operators that protect data.

pub mod hash;
pub mod hmac;
pub mod md5;
pub mod rxpmatch;
pub mod sha1;
pub mod sha256;
pub mod sha512;
