//! CRC-64/NVME: the guard of NVMe's protection information of 64 bits, which object stores and file systems have taken up
//! since. CRC-64/Rocksoft in some kernels.
//!
//! All code is that of [`crc`](crate::network::crc).
//!
#![doc = include_str!("../../docs/crc64-nvme.md")]

use crate::entry::Entry;
use crate::network::crc::{Crc, Nvme, entry};

dpb_core::spec! {
    /// CRC-64/NVME (NVM Express NVM Command Set). Output: eight bytes, little endian, per item.
    pub struct Crc64Nvme = "crc64-nvme";
}

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "storage",
    summary: "CRC-64/NVME of each item",
    output: "8 bytes per item, little endian",
    source: "NVM Express NVM Command Set, 64b Guard Protection Information",
    peers: &["crc-fast"],
    documentation: include_str!("../../docs/crc64-nvme.md"),
    ..entry::<Nvme, Crc64Nvme>()
};

/// CRC-64/NVME.
///
/// ```
/// use dpb_operators::storage::crc64::Crc64;
///
/// assert_eq!(Crc64::best().checksum(b"123456789"), 0xae8b_1486_0a79_9888);
/// ```
pub type Crc64 = Crc<Nvme>;
