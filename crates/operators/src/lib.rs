//! What dpb computes on a CPU: one file per operator, one folder per scenario, each operator with a portable oracle
//! and the best code that this CPU can run.
//!
//! * [`registry`]: the one list of operators.
//! * [`cpu`]: the backends `cpu/portable`, `cpu/avx512`, …, `cpu/best`, `pool/N`.
//! * [`direct`]: a kernel by itself, without the seam.
//! * [`network`], [`security`], [`storage`]: the kernels.
//!
//! CRC-32C of a burst of 64-byte packets on the best path of this CPU, through the seam:
//!
//! ```
//! use std::collections::VecDeque;
//! use std::num::NonZeroU32;
//!
//! use dpb_core::{Backend, Items, Job, OpSpec};
//! use dpb_operators::cpu::Cpu;
//!
//! let cpu = Cpu::best();
//! let operator = cpu.prepare(&OpSpec::Crc32c)?;
//! let shape = operator.shape();
//! let mut queue = operator.open(NonZeroU32::MIN)?;
//! let packets = cpu.alloc(256 * 64)?;
//! let items = Items::Fixed { len: 64, count: 256 };
//! let job = Job::new(1, packets.freeze(), items, cpu.alloc(256 * 4)?, shape);
//! let mut ready = VecDeque::from([job]);
//! let mut done = Vec::new();
//! queue.submit(&mut ready);
//! while queue.poll(&mut done) == 0 {}
//! done[0].result?;
//! let crc = done[0].job.output(shape, 255)?;
//! assert_eq!(crc, 0x03c8_eb67_u32.to_le_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cpu;
pub mod direct;
pub mod input;
pub mod isa;
pub mod network;
pub mod registry;
pub mod security;
pub mod storage;
