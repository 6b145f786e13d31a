//! Micro-benchmarks of a machine's resources: memory, storage and TCP (dpBento, "micro-benchmarks").
//!
//! Each module has a plan (what a test does, one value for every parameter) and a function that carries it out and gives raw
//! samples. Records, sweeps and tables are the command line's.

mod crew;
mod mapping;

pub mod memory;
pub mod storage;
pub mod tcp;

pub use crew::{Broken, Runs};
