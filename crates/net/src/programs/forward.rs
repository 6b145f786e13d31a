//! Forwarding: [`bridge`] by port, [`Router`] by route; [`Routes`] are its routes as a text.
//!
//! A router does what RFC 1812 and RFC 8200 ask of each packet that it forwards: it checks the header, drops what must not be forwarded, takes one from the
//! time to live, mends the checksum (RFC 1624) and writes the addresses of the next link. It sends no ICMP, fragments nothing and reads no options; what it drops is
//! counted by reason.

mod router;
mod routes;

pub use router::{NextHop, Router, Way};
pub use routes::{RouteError, Routes};

use crate::pipeline::{Mark, Packet, Stage, each};

/// The treatment of Ethernet's addresses by a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addresses {
    /// It leaves them.
    #[default]
    Kept,
    /// It swaps source and destination, so that a frame finds its way back.
    Swapped,
}

/// Sends each packet that came by port `i` to port `ways[i]`, whatever it is. One that came by another port is dropped, and one that has its way out already leaves as it is.
pub fn bridge(ways: Vec<u16>, addresses: Addresses) -> impl Stage {
    each("bridge", move |packet: Packet<'_>| {
        let Packet { frame, mark } = packet;
        if mark.egress != Mark::NOWHERE {
            return;
        }
        let way = ways.get(usize::from(mark.ingress)).copied();
        mark.egress = way.unwrap_or(Mark::NOWHERE);
        if addresses == Addresses::Swapped {
            swap_addresses(frame);
        }
    })
}

/// Exchanges Ethernet's addresses.
pub(super) fn swap_addresses(frame: &mut [u8]) {
    if let Some((to, rest)) = frame.split_first_chunk_mut::<6>()
        && let Some(from) = rest.first_chunk_mut::<6>()
    {
        std::mem::swap(to, from);
    }
}
