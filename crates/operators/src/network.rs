//! Operators that packets need.

pub mod checksum;
pub mod copy;
pub mod crc;
pub mod fragmentation;
pub mod lpm;
pub mod packet;
pub mod reassembly;
pub mod segmentation;
pub mod toeplitz;
