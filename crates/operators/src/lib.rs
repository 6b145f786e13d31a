//! What dpb computes on a CPU: one file per operator, one folder per scenario, each operator with a portable oracle
//! and the best code that this CPU can run.
//!
//! * [`registry`]: the one list of operators.
//! * [`cpu`]: the backends `cpu/portable`, `cpu/avx512`, …, `cpu/best`, `pool/N`.
//! * [`direct`]: a kernel by itself, without the seam.
//! * [`network`], [`security`], [`storage`], [`primitive`]: the kernels.
//!
//! Features choose the operators: `crc` and `packets` by default, or `aes`, `copy`, `deflate`, `erasure`, `hashes`, `huffman`, `lpm`,
//! `lz4`, `primitive`, `public-keys`, `rxpmatch`, `snappy`; `all` is all of them. One that is not built in has no [`registry`] entry.
//!
//! A prototype that offloads the Internet checksum to a device, and falls back to the best path of this CPU where the device
//! cannot, or is not there:
//!
//! ```
//! use std::collections::VecDeque;
//! use std::error::Error;
//! use std::num::NonZeroU32;
//!
//! use dpb_core::{Backend, ChecksumForm, Items, Job, OpSpec, spec};
//! use dpb_operators::cpu::{Cpu, Implementation};
//!
//! fn checksums(device: &dyn Backend, packets: &[u8], len: u32) -> Result<Vec<u8>, Box<dyn Error>> {
//!     let spec = OpSpec::from(spec::Checksum { form: ChecksumForm::Plain });
//!     let cpu = Cpu::best();
//!     let backend = match device.limits(&spec) {
//!         Ok(_) => device,
//!         Err(why) => {
//!             eprintln!("{}: {}; the CPU does it", device.name(), why.reason);
//!             &cpu
//!         }
//!     };
//!     let operator = backend.prepare(&spec)?;
//!     let mut queue = operator.clone().open(NonZeroU32::MIN)?;
//!     let items = Items::fixed(len, packets.len() as u32 / len);
//!     let mut src = backend.alloc(packets.len())?;
//!     src.copy_from_slice(packets);
//!     let dst = backend.alloc(packets.len() / len as usize * 2)?;
//!     let mut ready = VecDeque::from([Job::new(0, src.freeze(), items, dst, operator.shape())]);
//!     let mut done = Vec::new();
//!     queue.submit(&mut ready);
//!     while queue.poll(&mut done) == 0 {}
//!     done[0].result?;
//!     Ok(done[0].job.dst[0].to_vec())
//! }
//!
//! // What has no checksum here stands for a device that is missing. The bytes are RFC 1071's, twice.
//! let device = Cpu::on(Implementation::ShaNi);
//! let packets = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7].repeat(2);
//! assert_eq!(checksums(&device, &packets, 8)?, [0x22, 0x0d, 0x22, 0x0d]);
//! # Ok::<(), Box<dyn Error>>(())
//! ```

pub mod cpu;
pub mod direct;
mod entry;
mod implementation;
pub mod input;
pub mod isa;
pub mod network;
pub mod primitive;
pub mod registry;
pub mod security;
pub mod storage;
