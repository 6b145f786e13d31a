//! What the fuzz targets share: how they plant their seeds, how decoders are tried, and packets of QUIC around what a fuzzer has made.

mod coder;
mod quic;
mod seeds;

pub use coder::Coder;
pub use quic::{Initial, crypto_frame};
pub use seeds::plant;
