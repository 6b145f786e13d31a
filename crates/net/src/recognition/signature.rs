//! Protocols that their first bytes tell apart.
//!
//! The tests are as strict as the first packet allows, since every flow that no other reader knows comes through them. Where bytes alone say too little
//! (NTP, SNMP, RTP), a port or a second packet is asked for as well.

mod datagram;
mod stream;

pub(super) use datagram::{datagram, is_rtcp, rtp};
pub(super) use stream::stream;
