//! The implementations that an expert would use instead of dpb's operators, called as their documentation says. The bench
//! `peers` compares with all of them, criterion's `operators` with those written in Rust.

pub mod bound;
pub mod cpuid;
mod dpdk;
pub mod native;
pub mod rust_peers;
pub mod work;
