//! What dpb computes on a CPU: one file per operator, one folder per scenario, each operator with a portable oracle
//! and the best code that this CPU can run.
//!
//! One operator on memory: the CRC-32C of an item.
//!
//! ```
//! use dpb_core::{Backend, OpSpec, Span, Stage, spec};
//! use dpb_operators::cpu::Cpu;
//!
//! let cpu = Cpu::best();
//! let operator = cpu.prepare(&OpSpec::from(spec::Crc32c))?;
//! // Up to 64 items a call, 4 bytes of output for each.
//! let mut stage = Stage::new(operator, 64, 4, |len| cpu.alloc(len))?;
//! let mut memory = cpu.alloc(9)?;
//! memory.copy_from_slice(b"123456789");
//! let item = Span { buf: 0, start: 0, len: 9 };
//! let memory = memory.freeze();
//! let outputs = stage.run(&memory, &[item])?;
//! assert_eq!(outputs.get(0)?, 0xe306_9283_u32.to_le_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is here
//!
//! * [`registry`]: the one list of operators. `dpb list` prints it.
//! * [`cpu`]: the backends `cpu/portable`, `cpu/avx512`, …, `cpu/best`, `pool/N`.
//! * [`direct`]: a kernel by itself, without queues.
//! * [`network`], [`security`], [`storage`], [`primitive`]: the kernels.
//! * [`input`]: inputs for tests and benches. [`isa`]: the instruction sets of this CPU.
//!
//! What an operator computes is a type of [`mod@dpb_core::spec`]; its page says what an item and an output are.
//!
//! # Features
//!
//! A feature is a group of operators. An operator whose feature is off has no [`registry`] entry, and a backend refuses it by name.
//!
//! | feature | needs besides `dpb-core` |
//! |---|---|
//! | `crc`, `packets` (the default) | nothing |
//! | `copy`, `erasure`, `huffman` | nothing |
//! | `hashes`, `lpm`, `lz4`, `snappy` | one small crate each |
//! | `aes`, `deflate`, `primitive`, `public-keys`, `rxpmatch` | several crates; `deflate` a C compiler |
//! | `all` | all of these |
//! | `aws-lc` | C and assembly, minutes to build: a second path of AES-GCM and of operators with public keys |
//!
//! Hyperscan is found at run time, and nothing is linked for it.
//!
//! # Where to look next
//!
//! * A program in steps: [`dpb_core::Stage`], and `examples/stages`.
//! * Several jobs in flight, and devices: [`dpb_core::Backend`], and the example below.
//! * An operator or a backend of your own: `examples/prototype`, and CONTRIBUTING.md.
//! * How to depend on these crates: README.md, "As a library".
//!
//! # A device, and the CPU where it cannot
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

// For `codes!`, so that a crate which calls `dpb-core` otherwise can use it.
#[doc(hidden)]
pub use dpb_core;

pub mod cpu;
pub mod direct;
mod entry;
mod implementation;
pub mod input;
pub mod isa;
pub mod network;
#[cfg(any(feature = "aes", feature = "packets"))]
mod part;
pub mod primitive;
pub mod registry;
pub mod security;
pub mod storage;
