//! Ordered indexes of byte keys and byte values: two engines behind one trait.
//!
//! An [`Index`] is shared by threads. A thread reads through a [`Session`] of its own, and writes through the index itself. [`Tree`] is
//! ours: a B+tree in memory, which is lost with its process. [`Lmdb`] is LMDB, a file, through the heed crate.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//!
//! use dpb_dbmods::index::{
//!     Found, Index, KeyRange, Keys, Reads, Snapshot, Tree, TreeOptions, Values, Write,
//! };
//!
//! # fn main() -> Result<(), dpb_dbmods::index::IndexError> {
//! let index: Arc<dyn Index> = Arc::new(Tree::new(TreeOptions::default())?);
//! let written = index.apply(&[
//!     Write::Put { key: b"k0000001", value: b"one" },
//!     Write::Put { key: b"k0000002", value: b"two" },
//! ])?;
//!
//! // A burst of keys. The value of key i lies at bytes i * 8.
//! let mut session = index.clone().session()?;
//! let (mut bytes, mut found) = ([0; 16], [Found::Absent; 2]);
//! let mut values = Values::new(&mut bytes, 8, &mut found)?;
//! session.get_batch(Keys::Eight(&[*b"k0000002", *b"k0000009"]), &mut values)?;
//! assert_eq!(values.value(0), Some(&b"two"[..]));
//! assert_eq!(values.value(1), None);
//!
//! assert!(session.state() >= written);
//!
//! // All reads of a snapshot see the same transactions.
//! let mut snapshot = Snapshot::of(session)?;
//! index.delete(b"k0000001")?;
//! let mut keys = 0;
//! snapshot.scan(KeyRange::from(b"k").before(b"l"), 10, &mut |_key, _value| {
//!     keys += 1;
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(keys, 2);
//! let mut session = snapshot.release();
//! assert_eq!(session.get(b"k0000001", &mut [0; 8])?, Found::Absent);
//! # Ok(())
//! # }
//! ```
//!
//! # Promises of both engines
//!
//! * **Order.** Keys are ordered as byte strings, a prefix before what it begins.
//! * **Isolation.** A transaction ([`Index::apply`]) is seen whole or not at all. One call of a session reads one snapshot, the newest
//!   that was committed when the call began; a [`Snapshot`] reads the same one in every call. Transactions write without reading, so they are
//!   serialisable; reads are snapshot reads. A read that begins after a write returned sees that write.
//! * **Readers** never wait for a transaction. One of a [`Tree`] takes no lock, and waits while a writer changes a node that it needs, some hundred
//!   instructions. One of an [`Lmdb`] takes a lock where it begins to read a state: in each call, or once for a [`Snapshot`].
//! * **Writers** take turns, one transaction at a time, as in LMDB. Writes to several ranges go in parallel when each range is an index of its own.
//! * **States** have numbers ([`Index::apply`], [`Reads::state`]), so that whoever reads can tell which writes it saw.
//! * **Durability** is a property of the engine: none for [`Tree`], as asked for [`Lmdb`] ([`Durability`]).
//! * **Memory.** A snapshot that is held keeps what it sees, so the index grows while others write. When that is as large as it may become, all
//!   transactions fail with [`IndexError::Full`] until the snapshot is released. [`Usage::oldest`] tells how far back the oldest one is.

pub mod burst;
pub mod drive;
mod engine;
mod error;
mod kind;
mod layout;
mod lmdb;
pub mod operator;
pub mod protocol;
pub mod remote;
pub mod router;
pub mod runs;
pub mod service;
mod tree;
pub mod ycsb;

pub use engine::{
    Deleted, Durability, EachRow, Holder, Index, Reads, Session, Snapshot, Usage, Write,
};
pub use error::IndexError;
pub use kind::{EngineKind, Needs, Plan};
pub use layout::{Found, KeyRange, Keys, Values};
pub use lmdb::{Lmdb, LmdbOptions};
pub use tree::{Tree, TreeOptions};

/// Bytes of a key, at most: LMDB's limit, which both engines keep so that one can replace the other.
pub const KEY_BYTES_MAX: usize = 511;
/// Bytes of a value, at most.
pub const VALUE_BYTES_MAX: usize = (16 << 20) - 1;

#[cfg(test)]
mod tests;
