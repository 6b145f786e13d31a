//! SimBricks' protocol, version 1, for Ethernet: a simulator in another process, joined over shared memory.
//!
//! Two processes share two one-way rings of fixed slots, which the [`Listener`] makes and [`connect`] maps. A Unix socket carries
//! one intro in each direction, the listener's with the memory's file, and then stays open without a byte. Each side of the link is an
//! [`Endpoint`], which has no thread and never waits: a loop drives it.
//!
//! Time is virtual and in picoseconds. In a synchronised link each message bears the time at which it arrives, the sender's time and
//! the latency of the sender's side. A message with time *t* promises that none older follows, so the receiver may run up to *t*
//! ([`Endpoint::input_timestamp_ps`]). Whoever has nothing to send sends a SYNC at least once per `sync_interval_ps`. A loop is:
//!
//! 1. [`Endpoint::out_sync`] on each endpoint, again while a ring is full;
//! 2. [`Endpoint::poll`] on each until its input timestamp is later than the loop's time, with the loop's own events that are due;
//! 3. the new time is the least of all input timestamps, [`Endpoint::next_sync_ps`], and the time of the loop's own next event.
//!
//! While nothing comes, [`Waiting::pause`] gives the core to others: simulators that spin on fewer cores than there are of them
//! are slower by orders of magnitude.
//!
//! A peer is not trusted. Its intro, its lengths, its types and its timestamps are checked, each is read once, and a peer that
//! ends is noticed. One thing cannot be prevented from here: memory that is not sealed against shrinking can be cut off by
//! the peer, and the next access then ends this process with SIGBUS. [`connect`] adds the seal where the file takes one;
//! [`Endpoint::is_sealed`] says if it did. An unsealed file's size is checked whenever the peer is.
//!
//! Two habits of known peers matter here:
//!
//! * Some end with an error when they receive TERMINATE. So dropping an endpoint sends none; [`Endpoint::terminate`] does.
//! * Some copy frames without a look at a slot's length. Offer them entries that hold the longest frame that the whole system sends:
//!   digests behind full frames need [`RingShape::LONG_FRAMES`].
//!
//! A peer that stays alive and silent cannot be told from a slow one. A loop that must end has a deadline of its own.

mod endpoint;
mod error;
mod intro;
mod message;
mod params;
mod raw;
mod ring;
mod socket;
#[cfg(test)]
mod tests;
mod waiting;

pub use endpoint::{Counts, Endpoint, Received, Sent};
pub use error::Error;
pub use intro::{ConnecterIntro, Direction, IntroError, ListenerIntro, RingPlace};
pub use params::{LinkParams, RingShape, SyncMode};
pub use socket::{Listener, connect};
pub use waiting::Waiting;
