//! Our index: a B+tree in memory.
//!
//! * **Nodes** are arrays of words, leaves of 4 KiB and inner nodes of 2.75 KiB with up to 112 entries ([`node`]). Values of up to 512 bytes lie
//!   in their leaf ([`leaf`], [`slot`]), so that a scan reads memory in sequence and a leaf's lines are all that a read waits for.
//! * **Readers** hold no lock ([`lock`]: optimistic lock coupling). One that meets a change of the node it reads begins anew. It waits while a writer is within
//!   a node that it needs, which is some hundred instructions; it never waits for a transaction.
//! * **Versions**: the newest in place, older ones in a log whose positions are the time ([`log`]).
//! * **Reclamation**: readers announce the state they read ([`registry`]), which says what versions and nodes nobody can reach.
//! * **Batches** of reads and writes fetch ahead ([`batch`]).
//! * **One writer** at a time ([`write`]). Every writer of a tree with a lock per node has to order the transactions too; where
//!   ranges have trees of their own, as a router makes them, their writers do not meet.
//!
//! It is volatile. It gives no memory back before it is dropped, but uses it again.

mod arena;
mod batch;
mod chain;
#[cfg(test)]
pub(super) mod fault;
mod inner;
mod leaf;
mod lock;
mod log;
mod node;
mod numbers;
mod read;
mod registry;
mod scan;
mod search;
mod shared;
mod slot;
mod split;
mod sync;
mod word;
mod write;

use std::fmt;
use std::sync::{Mutex, MutexGuard};

use self::leaf::Key;
use self::registry::Seat;
use self::scan::Rows;
use self::shared::Shared;
use self::write::Writer;
use super::{EachRow, Found, Index, IndexError, Keys, Session, Usage, Values, Write};

/// How a tree is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// Sessions that may be open at once. Each takes 128 bytes.
    pub sessions_max: usize,
    /// Bytes of versions that snapshots may keep. They take memory as they come.
    pub versions_bytes_max: usize,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            sessions_max: 126,
            // Miri would spend a minute on the directory of a gibibyte.
            versions_bytes_max: if cfg!(miri) { 1 << 20 } else { 1 << 30 },
        }
    }
}

/// The engine in memory. See [the module](super) for what it promises; its data is lost with it.
pub struct Tree {
    shared: Shared,
    writer: Mutex<Writer>,
}

impl Tree {
    /// An empty tree.
    ///
    /// # Errors
    /// [`IndexError::Memory`].
    pub fn new(options: TreeOptions) -> Result<Self, IndexError> {
        Self::of(Shared::new(
            options.sessions_max,
            options.versions_bytes_max,
        ))
    }

    fn of(shared: Shared) -> Result<Self, IndexError> {
        let writer = Mutex::new(Writer::new(&shared)?);
        Ok(Self { shared, writer })
    }

    /// An empty tree with a mistake in it.
    #[cfg(test)]
    pub(super) fn with_fault(
        options: TreeOptions,
        fault: fault::Fault,
    ) -> Result<Self, IndexError> {
        let mut shared = Shared::new(options.sessions_max, options.versions_bytes_max);
        shared.fault = fault;
        Self::of(shared)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A writer that panicked left a node locked or a transaction in part.
        (self.writer.lock()).expect("no writer of this tree has panicked")
    }
}

impl Index for Tree {
    fn name(&self) -> &'static str {
        "tree"
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, IndexError> {
        let registry = &self.shared.registry;
        let seat = registry.claim().ok_or(IndexError::Sessions {
            max: registry.sessions_max(),
        })?;
        Ok(Box::new(Reader {
            shared: &self.shared,
            seat,
            held: None,
            rows: Rows::default(),
        }))
    }

    fn apply(&self, writes: &[Write<'_>]) -> Result<u64, IndexError> {
        for write in writes {
            write.check()?;
        }
        self.writer().apply(&self.shared, writes)
    }

    fn usage(&self) -> Result<Usage, IndexError> {
        let writer = self.writer();
        Ok(Usage {
            keys: writer.keys(),
            bytes: writer.bytes(),
        })
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tree = f.debug_struct("Tree");
        tree.field("height", &self.shared.root().height);
        tree.field("committed", &self.shared.registry.committed());
        tree.finish_non_exhaustive()
    }
}

/// A session of a tree.
struct Reader<'a> {
    shared: &'a Shared,
    seat: Seat,
    /// The state that it holds.
    held: Option<u64>,
    rows: Rows,
}

impl Reader<'_> {
    /// The state to read. It stays announced until [`Reader::end`].
    #[inline(always)]
    fn begin(&self) -> u64 {
        match self.held {
            Some(state) => state,
            None => self.shared.registry.enter(&self.seat),
        }
    }

    #[inline(always)]
    fn end(&self) {
        if self.held.is_none() {
            self.shared.registry.exit(&self.seat);
        }
    }
}

impl Session for Reader<'_> {
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<Found, IndexError> {
        let state = self.begin();
        let found = self.shared.get(Key::new(key), state, value);
        self.end();
        Ok(found)
    }

    fn get_batch(&mut self, keys: Keys<'_>, values: &mut Values<'_>) -> Result<(), IndexError> {
        values.admit(keys.len())?;
        let state = self.begin();
        self.shared.get_batch(keys, state, values);
        self.end();
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: usize,
        each: &mut EachRow<'_>,
    ) -> Result<usize, IndexError> {
        let state = self.begin();
        let mut rows = std::mem::take(&mut self.rows);
        let count = self.shared.scan(from, limit, state, &mut rows, each);
        self.rows = rows;
        self.end();
        Ok(count)
    }

    fn hold(&mut self) -> Result<(), IndexError> {
        if self.held.is_some() {
            return Err(IndexError::Held);
        }
        self.held = Some(self.begin());
        Ok(())
    }

    fn release(&mut self) {
        if self.held.take().is_some() {
            self.end();
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.shared.registry.leave(&self.seat);
    }
}
