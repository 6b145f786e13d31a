//! Operators that packets need.

pub mod crc32c;
pub mod lpm;
pub mod toeplitz;
