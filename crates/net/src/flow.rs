//! Flows: which packets belong together, how many there were, when one was last seen.
//!
//! A [`Table`] holds the flows of one core, its *shard*: one writer, so counters are exact without atomic operations. Packets come in bursts.
//! Each finds its flow or makes one, in one pass over the burst, and nothing is lost on the way: a full table is an outcome of a packet,
//! and a flow that ends is handed out with its counters.
//!
//! The layout is made for tables that fit no cache. A packet of a known flow reads one line of tags and one flow, and both are asked for while
//! other packets are worked on. The tags and numbers of ten flows stand in a line and are compared at once; a flow is a line of its own with key, state and
//! counters. It never moves: its [`Slot`] is a number that is its own as long as it lives, so that programs keep what else they know of flows in arrays.
//!
//! Beside the table stand [NAT44](nat), the table as an [operator] behind dpb's seam, and a model of [a table in hardware](hardware).
//!
//! Hashes are keyed for each table: whoever sends packets does not know which of them meet.

mod bucket;
mod expiry;
pub mod hardware;
mod hash;
mod index;
mod key;
mod ledger;
pub mod nat;
pub mod operator;
mod outcome;
mod record;
mod steering;
mod sync;
mod table;
mod tcp;
#[cfg(test)]
mod tests;
pub mod toeplitz;

pub use expiry::Timeouts;
pub use hash::HashKey;
pub use key::{Direction, Key, Tuple, V4, V6};
pub use record::{Flow, Found, Seen, Slot, Stats};
pub use steering::{HashedEnds, Rss, RssError, Steering};
pub use table::{Table, TableError};
pub use tcp::{Flags, State};
pub use toeplitz::Toeplitz;
