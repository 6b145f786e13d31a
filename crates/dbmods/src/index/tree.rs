//! Our index: a B+tree in memory.
//!
//! * **Nodes** are arrays of words, leaves of 4 KiB and inner nodes of 2.75 KiB with up to 112 entries ([`node`]). Values of up to 512 bytes lie
//!   in their leaf ([`leaf`], [`slot`]), so that a scan reads memory in sequence and a leaf's lines are all that a read waits for.
//! * **Readers** take no lock ([`lock`]: optimistic lock coupling). One that meets a change of the node it reads begins anew. It waits while a writer is within
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
mod values;
#[cfg(test)]
mod walk;
mod word;
mod write;

use std::fmt;
use std::sync::{Arc, Mutex};

use self::leaf::Key;
use self::registry::Seat;
use self::scan::Rows;
use self::shared::Shared;
use self::write::Writer;
use super::{
    Deleted, Durability, EachRow, Found, Holder, Index, IndexError, KeyRange, Keys, Reads, Session,
    Usage, Values, Write,
};

/// How a tree is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// Sessions that may be open at once. Each takes 128 bytes.
    pub sessions_max: usize,
    /// Bytes of versions that snapshots may keep, after which transactions fail. They take memory as they come. One transaction may pass this by the long
    /// values that it replaces.
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
///
/// Its memory asks for huge pages, so an empty one may take up to 8 MiB, which [`Usage::bytes`] does not count. Many small ranges are better off in one tree.
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
        let writer = Writer::new(&shared)?;
        writer.publish(&shared);
        Ok(Self {
            shared,
            writer: Mutex::new(writer),
        })
    }

    /// An empty tree with a mistake in it, and with nodes of so many entries at most.
    #[cfg(test)]
    pub(super) fn with_fault(
        options: TreeOptions,
        fault: fault::Fault,
        entries_max: usize,
    ) -> Result<Self, IndexError> {
        let mut shared = Shared::new(options.sessions_max, options.versions_bytes_max);
        shared.fault = fault;
        shared.entries_max = entries_max;
        Self::of(shared)
    }

    /// Inner nodes on the way to a leaf.
    #[cfg(test)]
    pub(super) fn height(&self) -> u32 {
        self.shared.root().height
    }

    /// Calls `write` with the writer. If it panics, a node may be locked and a transaction there in part: then the tree is broken.
    fn write<T>(
        &self,
        write: impl FnOnce(&mut Writer) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let mut writer = self.writer.lock().map_err(|_| IndexError::Broken)?;
        let mut unwinding = BreaksOnPanic {
            shared: &self.shared,
            writer: &mut writer,
            is_armed: true,
        };
        let done = write(unwinding.writer);
        if done.is_ok() {
            unwinding.writer.publish(&self.shared);
        }
        unwinding.is_armed = false;
        done
    }
}

/// Marks the tree as broken if it is dropped armed: by a panic of the write. A thread that unwinds already may write all the same.
struct BreaksOnPanic<'a> {
    shared: &'a Shared,
    writer: &'a mut Writer,
    is_armed: bool,
}

impl Drop for BreaksOnPanic<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.writer.break_tree(self.shared);
        }
    }
}

impl Index for Tree {
    fn name(&self) -> &'static str {
        "tree"
    }

    fn durability(&self) -> Durability {
        Durability::Volatile
    }

    fn session(self: Arc<Self>) -> Result<Box<dyn Session>, IndexError> {
        let registry = &self.shared.registry;
        let seat = registry.claim().ok_or(IndexError::Sessions {
            max: registry.sessions_max(),
        })?;
        Ok(Box::new(Reader {
            tree: self,
            seat,
            held: None,
            state: 0,
            rows: Rows::default(),
        }))
    }

    fn apply(&self, writes: &[Write<'_>]) -> Result<u64, IndexError> {
        for write in writes {
            write.check()?;
        }
        self.write(|writer| writer.apply(&self.shared, writes))
    }

    fn delete_range(&self, range: KeyRange<'_>, limit: usize) -> Result<Deleted, IndexError> {
        self.write(|writer| writer.delete_range(&self.shared, range, limit))
    }

    fn flush(&self) -> Result<(), IndexError> {
        Ok(())
    }

    fn usage(&self) -> Result<Usage, IndexError> {
        self.shared.check_whole()?;
        Ok(self.shared.usage())
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
struct Reader {
    tree: Arc<Tree>,
    seat: Seat,
    /// The state that it holds.
    held: Option<u64>,
    /// The state of the last call.
    state: u64,
    rows: Rows,
}

/// A state that a session reads. It stays announced while this lives, also when the reader's caller panics, or longer if it is held.
struct Reading<'a> {
    shared: &'a Shared,
    seat: &'a Seat,
    held: bool,
    state: u64,
}

impl Reader {
    #[inline(always)]
    fn begin(&mut self) -> (Reading<'_>, &mut Rows) {
        let shared = &self.tree.shared;
        let state = match self.held {
            Some(state) => state,
            None => shared.registry.enter(&self.seat),
        };
        self.state = state;
        let reading = Reading {
            shared,
            seat: &self.seat,
            held: self.held.is_some(),
            state,
        };
        (reading, &mut self.rows)
    }
}

impl Drop for Reading<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.held {
            self.shared.registry.exit(self.seat);
        }
    }
}

impl Reads for Reader {
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<Found, IndexError> {
        let (reading, _) = self.begin();
        Ok((reading.shared).get(Key::new(key), reading.state, value)?)
    }

    fn get_batch(&mut self, keys: Keys<'_>, values: &mut Values<'_>) -> Result<(), IndexError> {
        values.admit(keys)?;
        let (reading, _) = self.begin();
        Ok((reading.shared).get_batch(keys, reading.state, values)?)
    }

    fn scan(
        &mut self,
        range: KeyRange<'_>,
        limit: usize,
        each: &mut EachRow<'_>,
    ) -> Result<usize, IndexError> {
        let (reading, rows) = self.begin();
        let count = (reading.shared).scan(range, limit, reading.state, rows, each);
        rows.trim();
        count
    }

    fn state(&self) -> u64 {
        self.state
    }
}

impl Session for Reader {
    fn hold(&mut self, _by: Holder) -> Result<u64, IndexError> {
        if self.held.is_some() {
            return Err(IndexError::Held);
        }
        self.state = self.tree.shared.registry.enter(&self.seat);
        self.held = Some(self.state);
        Ok(self.state)
    }

    fn release(&mut self, _by: Holder) {
        if self.held.take().is_some() {
            self.tree.shared.registry.exit(&self.seat);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.tree.shared.registry.leave(&self.seat);
    }
}
