//! Operators that packets need.

#[cfg(feature = "packets")]
pub mod checksum;
#[cfg(feature = "copy")]
pub mod copy;
#[cfg(feature = "crc")]
pub mod crc;
#[cfg(feature = "packets")]
pub mod fragmentation;
#[cfg(feature = "lpm")]
pub mod lpm;
#[cfg(feature = "packets")]
pub mod packet;
#[cfg(feature = "packets")]
pub mod reassembly;
#[cfg(feature = "packets")]
pub mod segmentation;
#[cfg(feature = "packets")]
pub mod toeplitz;
