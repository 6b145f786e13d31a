//! ICMP's echo.

use dpb_core::packet::put_u16;

use super::{Unwritable, split};
use crate::packet::{Ends, Sum, protocol};

/// An echo message of ICMP (RFC 792) or ICMPv6 (RFC 4443).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// True of an answer.
    pub is_reply: bool,
    /// Who asked.
    pub identifier: u16,
    /// Which question it is.
    pub sequence: u16,
}

impl Echo {
    /// Bytes of the header.
    pub const BYTES: usize = 8;

    /// Puts it at the start of `message`, between `ends`, whose version decides which ICMP it is; gives the payload, which the checksum is of.
    ///
    /// # Errors
    /// [`Unwritable::TooShort`].
    pub fn put<'a>(&self, message: &'a mut [u8], ends: Ends) -> Result<&'a mut [u8], Unwritable> {
        let (header, _) = split(message, Self::BYTES)?;
        header[0] = match (ends, self.is_reply) {
            (Ends::V4(_), true) => 0,
            (Ends::V4(_), false) => 8,
            (Ends::V6(_), true) => 129,
            (Ends::V6(_), false) => 128,
        };
        put_u16(header, 4, self.identifier);
        put_u16(header, 6, self.sequence);
        let pseudo = match ends {
            Ends::V4(_) => Sum::default(),
            Ends::V6(_) => ends.pseudo(protocol::ICMPV6, message.len()),
        };
        let checksum = (pseudo + Sum::of(message)).checksum();
        put_u16(message, 2, checksum);
        Ok(&mut message[Self::BYTES..])
    }
}
