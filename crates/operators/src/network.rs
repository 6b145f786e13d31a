//! Operators that packets need.

pub mod crc32c;
pub mod lpm;
mod records;
pub mod toeplitz;
