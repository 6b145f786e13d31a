//! Ethernet and its tags.

use dpb_core::packet::put_u16;

use super::{Unwritable, split};
use crate::packet::{ETHERNET_BYTES, TAG_BYTES};

/// An Ethernet header (IEEE 802.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Where the frame goes.
    pub destination: [u8; 6],
    /// Where it comes from.
    pub source: [u8; 6],
    /// What follows; a tag has an EtherType of its own.
    pub ether_type: u16,
}

impl Ethernet {
    /// Puts it at the start of `frame`; gives what follows it.
    ///
    /// # Errors
    /// [`Unwritable::TooShort`].
    pub fn put<'a>(&self, frame: &'a mut [u8]) -> Result<&'a mut [u8], Unwritable> {
        let (header, rest) = split(frame, ETHERNET_BYTES)?;
        header[..6].copy_from_slice(&self.destination);
        header[6..12].copy_from_slice(&self.source);
        put_u16(header, 12, self.ether_type);
        Ok(rest)
    }
}

/// What follows the EtherType of a tag (IEEE 802.1Q).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// Priority (3 bits), drop eligible (1), identifier (12).
    pub control: u16,
    /// What follows.
    pub ether_type: u16,
}

impl VlanTag {
    /// Puts it at the start of `rest`, behind an Ethernet header or a tag; gives what follows it.
    ///
    /// # Errors
    /// [`Unwritable::TooShort`].
    pub fn put<'a>(&self, rest: &'a mut [u8]) -> Result<&'a mut [u8], Unwritable> {
        let (tag, rest) = split(rest, TAG_BYTES)?;
        put_u16(tag, 0, self.control);
        put_u16(tag, 2, self.ether_type);
        Ok(rest)
    }
}
