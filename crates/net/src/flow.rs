//! Flows: which packets belong together, how many there were, when one was last seen.
//!
//! A [`Table`] holds the flows of one core, its *shard*: one writer, so counters are exact without atomic operations. Packets come in bursts.
//! Each finds its flow or makes one, in one pass over the burst, and nothing is lost on the way: a full table is an outcome of a packet,
//! and a flow that ends is handed out with its counters.
//!
//! The layout is made for tables that fit no cache. A bucket is half a cache line: fifteen tags of sixteen bits, compared at once. Behind each tag stands
//! one line with key, state and counters. A packet of a known flow reads one line of tags and one flow, and both are asked for while the packets
//! before it are worked on. Buckets that are full spill into a second one that the tag leads to (partial-key cuckoo hashing: Fan, Andersen and
//! Kaminsky, "MemC3", NSDI 2013), and say so, so that a new flow reads no second bucket where nothing was spilled.
//!
//! Hashes are keyed for each table: whoever sends packets does not know which of them meet.

mod bucket;
mod expiry;
mod hash;
mod key;
mod table;
mod tcp;
#[cfg(test)]
mod tests;

pub use expiry::Timeouts;
pub use hash::HashKey;
pub use key::{Direction, Key, Tuple, V4, V6};
pub use table::{Flow, Found, Seen, Slot, Stats, Table, TableError};
pub use tcp::{Flags, State};
