//! Operators that protect data.

pub mod sha256;
