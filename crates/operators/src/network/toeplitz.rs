//! Toeplitz hash for receive-side scaling: which queue, and so which core, a packet goes to.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod gfni;
mod matrix;
mod portable;
mod redirection;
mod table;
#[cfg(test)]
mod tests;

use dpb_core::{Batch, BatchOut, JobError, Kernel, OutputShape, SetupError};

pub use redirection::Redirection;

use crate::cpu::Path;
use crate::isa;
use matrix::Matrices;
use table::Tables;

/// Microsoft's key, of the RSS verification suite; most drivers come with it.
pub const MICROSOFT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];
