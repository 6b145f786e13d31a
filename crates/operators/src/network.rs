//! Operators that packets need.

pub mod checksum;
pub mod crc32c;
pub mod fragmentation;
pub mod packet;
pub mod reassembly;
pub mod segmentation;
