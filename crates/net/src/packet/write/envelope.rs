//! All headers in front of a transport's: [`Envelope`].

use dpb_core::packet::{IPV4_BYTES, IPV6_BYTES};

use super::{Ethernet, Ipv4, Ipv6, Unwritable, VlanTag};
use crate::packet::{ETHERNET_BYTES, Ends, TAG_BYTES, ether_type};

/// What a segment or datagram is sent in: Ethernet, a tag if there is one, and IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The Ethernet addresses, the destination's first.
    pub macs: [[u8; 6]; 2],
    /// The control field of a tag: priority (3 bits), drop eligible (1), identifier (12).
    pub tag: Option<u16>,
    /// The addresses of IP, which say its version.
    pub ends: Ends,
    /// The protocol of what is sent.
    pub protocol: u8,
}

impl Envelope {
    /// Bytes of the headers.
    pub fn bytes(&self) -> usize {
        let ip = match self.ends {
            Ends::V4(_) => IPV4_BYTES,
            Ends::V6(_) => IPV6_BYTES,
        };
        ETHERNET_BYTES + self.tag.map_or(0, |_| TAG_BYTES) + ip
    }

    /// Puts the headers at the start of `frame`; gives what follows them.
    ///
    /// # Errors
    /// [`Unwritable`].
    pub fn put<'a>(&self, frame: &'a mut [u8]) -> Result<&'a mut [u8], Unwritable> {
        let inside = match self.ends {
            Ends::V4(_) => ether_type::IPV4,
            Ends::V6(_) => ether_type::IPV6,
        };
        let [destination, source] = self.macs;
        let ethernet = Ethernet {
            destination,
            source,
            ether_type: self.tag.map_or(inside, |_| ether_type::TAG),
        };
        let mut packet = ethernet.put(frame)?;
        if let Some(control) = self.tag {
            let tag = VlanTag {
                control,
                ether_type: inside,
            };
            packet = tag.put(packet)?;
        }
        match self.ends {
            Ends::V4(addresses) => Ipv4::new(addresses, self.protocol).put(packet),
            Ends::V6(addresses) => Ipv6::new(addresses, self.protocol).put(packet),
        }
    }
}
