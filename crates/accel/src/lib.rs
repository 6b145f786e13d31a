//! Devices behind the seam: DOCA engines, DPDK devices, RDMA peers.
//!
//! What all answer is [`Family`](dpb_core::Family): backends, and findings for people.
//!
//! Each is a [`Backend`](dpb_core::Backend) in three parts: `doca.rs` implements the seam and is safe, `doca/raw` holds
//! handles and all `unsafe`, `doca/sys.rs` the declarations, written by hand. No SDK is needed to build, to document or to test;
//! libraries are found at run time, and one that is missing is an [`Unsupported`](dpb_core::Unsupported) with the remedy.
//!
//! ARCHITECTURE.md has the table that maps each family onto the seam.
//!
//! What all three must keep:
//!
//! * A capability query decides, not a table of device models: BlueField-2 compresses and hashes, BlueField-3 does neither.
//! * A buffer whose [`region`](dpb_core::Buf::region) is not a region of the backend's own, told by its type and its device,
//!   ends its job in [`JobError::ForeignBuffer`](dpb_core::JobError::ForeignBuffer); a copy that is needed is a backend of its own, with its cost in its own row.
//! * Dropping a queue drains it. If a device does not answer, its buffers are leaked, and that is said: giving them back
//!   while the device may still write would be unsound.
//! * A stand-in library written for tests gives `emulated` figures that enter no table of results.

pub mod doca;
pub mod dpdk;
mod library;
pub mod rdma;
mod readiness;
