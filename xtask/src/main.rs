//! Development commands of dpb, as Rust.
#![forbid(unsafe_code)]

fn main() {}
