//! NAT44 (RFC 3022): many inside addresses behind a few outside ones, as a stage over [`flow::nat`](crate::flow::nat), which has the sessions and says what a packet becomes.
//!
//! The stage reads a burst, asks for each packet, and writes addresses, ports and identifiers where they lie; checksums follow by what has changed (RFC 1624), so one that was
//! wrong stays wrong. Errors of ICMP (unreachable, time exceeded, parameter problem) are translated with the packet that they quote (RFC 5508, section 4). Whatever is not
//! translated is dropped by a reason: fragments, which have to be reassembled before, protocols other than TCP, UDP and ICMP, other messages of ICMP, and what is not IPv4.
//!
//! **Shards.** Each has a NAT of its own, with ports of its own. With [`Mapping::EndpointIndependent`](crate::flow::nat::Mapping) a packet from inside belongs to a shard by its source, and one from
//! outside by its destination; [`NatSharding`] says so to a [`Dispatcher`](crate::pipeline::Dispatcher), and the NAT chooses outside ports by the same hash. Two kinds of packets need
//! two shards: from one inside host to another by its outside address (RFC 4787, REQ-9), and errors about those. The first shard sends them to the port [`Sides::crossing`], a
//! [`Looped`](crate::port::Looped) one, by which the dispatcher gets them back for the second.

mod sharding;
mod stage;

pub use sharding::NatSharding;
pub use stage::{Counts, Nat44, Sides};
