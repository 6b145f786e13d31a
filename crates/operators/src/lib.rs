//! What dpb computes on a CPU: one file per operator, one folder per scenario, each operator with a portable oracle
//! and the best code that this CPU can run.
//!
//! * [`registry`]: the one list of operators.
//! * [`cpu`]: the backends `cpu/portable`, `cpu/avx512`, …, `cpu/best`, `pool/N`.
//! * [`network`], [`security`], [`storage`]: the kernels.

pub mod cpu;
pub mod input;
pub mod isa;
pub mod network;
pub mod registry;
pub mod security;
pub mod storage;
